"""Every pooling method against a program that shares no code with it: PyG where that is right, else float64 NumPy.

All in double precision. Nodes are ranked in single precision, so graphs in which two scores at a cut are closer than
that are left out of what depends on the choice. Shapes: C positions, n nodes of a graph, d features, K clusters.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import ASAPooling, GCNConv, GINConv, SAGPooling, TopKPooling, dense_diff_pool, dense_mincut_pool
from torch_geometric.nn.aggr import Set2Set as PyGSet2Set
from torch_geometric.nn.aggr import SortAggregation

from cgipool.data import random_splits
from cgipool.data.batch import Batch, Capacity
from cgipool.errors import UserError
from cgipool.model.build import StructureFree
from cgipool.model.layers import GCN, GIN
from cgipool.model.level import Level
from cgipool.model.network import Head
from cgipool.pool import (
    ASAP,
    DGCNN,
    DiffPool,
    MinCutPool,
    OraclePool,
    Pooled,
    RandomPool,
    SAGPool,
    Sizes,
    TopKPool,
    VIPool,
)
from cgipool.pool.set2set import Attention
from cgipool.pool.vip import DROPOUT, NEGATIVE_SITE, another_vertex
from cgipool.training.job import Job
from cgipool.training.loop import Training
from cgipool.training.presets import PAPER
from oracles import dgcnn, vip
from oracles.paper import Array, gcn, readout, relu, sigmoid, top_k
from small import (
    SIZES,
    TASK,
    Case,
    Step,
    adjacency,
    case_of,
    clear_graphs,
    double,
    kept,
    kept_by_graph,
    random_case,
    random_graphs,
    random_network,
    rows,
    traced,
)

DIM, LEVELS = 6, 3

SEEDS, RATIOS = [0, 1, 2], [0.3, 0.5, 0.8, 1.0, 3]

WITH_LONE = (4, 1, 6, 1, 1, 5, 3, 1)
"""Sizes with one-node graphs one behind the other and at the end."""

ways = pytest.mark.parametrize("way", ["static", "compact", "padded"])
seeded = pytest.mark.parametrize("seed", SEEDS)
ratios = pytest.mark.parametrize("ratio", RATIOS)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        yield


def batch_of(case: Case, way: str, key: int = 0) -> Batch:
    """All graphs; "padded": with room for more of everything."""
    ids = np.arange(case.graphs.n_graphs)
    room = None
    if way == "padded":
        room = Capacity(*(a + b for a, b in zip(case.batcher.capacity(ids), (5, 3, 2, 40), strict=True)))
    return double(case.batcher.batch(ids, key, room))


def first_level(case: Case, way: str, key: int = 0) -> Level:
    return Level.whole(batch_of(case, way, key), compact=way == "compact")


def features(level: Level, seed: int = 0, dim: int = DIM) -> Tensor:
    """[C, d] random at living nodes, the same for every way of storing them. Elsewhere, what must not be read."""
    here, generator = rows(level), torch.Generator().manual_seed(seed)
    x = torch.full((len(level.alive), dim), 7.0, dtype=torch.float64)
    x[here] = torch.randn(len(here), dim, dtype=torch.float64, generator=generator)
    return x


def edge_index(level: Level) -> Tensor:
    """[2, E] among the living nodes."""
    return torch.nonzero(adjacency(level)).T


def half(level: Level) -> Level:
    """The level of half of its nodes."""
    x = features(level)
    return TopKPool(DIM, 0.5).double()(x, level).level


class Part(NamedTuple):
    """One graph of a level, as dense matrices."""

    row: Tensor
    """[n] its rows in the level's features."""
    a: Tensor
    """[n, n]"""
    x: Tensor
    """[n, d]"""


def parts(level: Level, x: Tensor) -> list[Part]:
    """The graphs that are there."""
    here, a, graph = rows(level), adjacency(level), level.graph[rows(level)]
    mine = [torch.nonzero(graph == g).squeeze(1) for g in range(int((level.sizes > 0).sum()))]
    return [Part(here[m], a[m][:, m], x[here[m]]) for m in mine]


def randomised(module: nn.Module) -> nn.Module:
    """In double precision, with random biases: zeros would hide one that is left out."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.uniform_(-0.3, 0.3)
    return module.double()


def array(tensor: Tensor) -> Array:
    return tensor.detach().double().numpy()


def close(ours: Tensor | Array, theirs: Tensor | Array, tolerance: float = 1e-9) -> None:
    ours, theirs = (t.detach().numpy() if isinstance(t, Tensor) else t for t in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def pyg_ratio(ratio: float | int) -> float | int:
    """PyG reads 1.0 as one node; a count larger than any graph is its way to say all."""
    return 10**6 if ratio == 1.0 and isinstance(ratio, float) else ratio


def or_zero(gradients: tuple[Tensor | None, ...]) -> list[Tensor]:
    return [torch.zeros(1, dtype=torch.float64) if g is None else g for g in gradients]


# What PyG's top-k layers have in common.


class Chosen(NamedTuple):
    """What a layer of PyG kept, in ascending order of the nodes it was given."""

    node: Tensor
    x: Tensor
    a: Tensor


def chosen(x: Tensor, edges: Tensor, weight: Tensor | None, perm: Tensor) -> Chosen:
    a = torch.zeros(len(perm), len(perm), dtype=torch.float64)
    a[edges[0], edges[1]] = torch.ones(edges.shape[1], dtype=torch.float64) if weight is None else weight
    order = perm.argsort()
    return Chosen(perm[order], x[order], a[order][:, order])


def same_choice(before: Level, pooled: Pooled, theirs: Chosen) -> int:
    """Features, kept nodes and edges of the graphs without a tie are PyG's; how many there are."""
    clear = torch.tensor(clear_graphs([Step(before, pooled)], gap=1e-6))
    level, alive = pooled.level, rows(before)
    ours, here = kept(level), rows(level)
    node = before.position[alive][theirs.node]
    mine, other = torch.isin(level.graph[here], clear), torch.isin(before.graph[alive][theirs.node], clear)
    assert ours[mine].tolist() == node[other].tolist()
    close(pooled.x[here][mine], theirs.x[other])
    close(adjacency(level)[mine][:, mine], theirs.a[other][:, other])
    return int((before.sizes[clear] > 0).sum())


def compare_with_layer(
    pool: nn.Module, level: Level, run: Callable[[Tensor, Level], tuple[Chosen, Tensor]], score: str, levels: int
) -> None:
    """Several levels one after another: choice, features, edges, scores, and the gradient by the features."""
    compared = 0
    for site in range(levels):
        x = features(level, site)
        ours, other = x.clone().requires_grad_(), x[rows(level)].clone().requires_grad_()
        pooled = pool(ours, level)
        theirs, scores = run(other, level)
        close(pooled.scores[score][rows(level)], scores)
        compared += same_choice(level, pooled, theirs)

        if len(clear_graphs([Step(level, pooled)], gap=1e-6)) == len(level.sizes):
            weight = torch.randn(theirs.x.shape, dtype=torch.float64)
            (by_x,) = torch.autograd.grad((pooled.x[rows(pooled.level)] * weight).sum(), ours)
            (expected,) = torch.autograd.grad((theirs.x * weight).sum(), other)
            close(by_x[rows(level)], expected)
        level = pooled.level
    assert compared >= 4 * levels, "nearly every cut went through a tie"


@pytest.mark.oracle("topk")
@ways
@ratios
@seeded
def test_topk_is_pygs(seed: int, ratio: float | int, way: str) -> None:
    pool, theirs = TopKPool(DIM, ratio).double(), TopKPooling(DIM, pyg_ratio(ratio)).double()
    theirs.select.weight.data = pool.p.data.unsqueeze(0)

    def run(x: Tensor, level: Level) -> tuple[Chosen, Tensor]:
        out, edges, _, _, perm, gate = theirs(x, edge_index(level), batch=level.graph[rows(level)])
        s = x @ pool.p / pool.p.norm()
        close(gate, torch.tanh(s[perm]))
        return chosen(out, edges, None, perm), s

    compare_with_layer(pool, first_level(random_case(seed), way), run, "s", LEVELS)


@pytest.mark.oracle("sag")
@ways
@ratios
@seeded
def test_sag_is_pygs_with_its_hidden_weight_at_one(seed: int, ratio: float | int, way: str) -> None:
    pool = randomised(SAGPool(DIM, ratio))
    theirs = SAGPooling(DIM, pyg_ratio(ratio), GNN=GCNConv).double()
    theirs.gnn.load_state_dict({"lin.weight": pool.gnn.linear.weight, "bias": pool.gnn.bias})
    theirs.select.weight.data.fill_(1.0)

    def run(x: Tensor, level: Level) -> tuple[Chosen, Tensor]:
        out, edges, _, _, perm, gate = theirs(x, edge_index(level), batch=level.graph[rows(level)])
        s = theirs.gnn(x, edge_index(level)).squeeze(1)
        close(gate, torch.tanh(s[perm]))
        return chosen(out, edges, None, perm), s

    compare_with_layer(pool, first_level(random_case(seed), way), run, "s", LEVELS)


def pyg_asap(pool: ASAP, ratio: float | int) -> ASAPooling:
    """With the weights of ours. Its LEConv is (Σ_j W₁ x_j − W₂ x_i) + W₃ x_i, and W₂ has no bias there."""
    theirs = ASAPooling(DIM, pyg_ratio(ratio), GNN=GCNConv).double()
    pool.fitness.bias.data[1] = 0.0
    one, two, three = pool.fitness.weight.split(1)
    theirs.load_state_dict(
        {
            "gnn_intra_cluster.lin.weight": pool.gnn.linear.weight,
            "gnn_intra_cluster.bias": pool.gnn.bias,
            "lin.weight": pool.query.weight,
            "lin.bias": pool.query.bias,
            "att.weight": torch.cat([pool.attend_query.weight, pool.attend_node.weight], 1),
            "att.bias": pool.attend_query.bias,
            "gnn_score.lin1.weight": -three,
            "gnn_score.lin1.bias": -pool.fitness.bias[2:],
            "gnn_score.lin2.weight": -two,
            "gnn_score.lin3.weight": one,
            "gnn_score.lin3.bias": pool.fitness.bias[:1],
            "select.weight": torch.ones(1, 1),
        }
    )
    return theirs


@pytest.mark.oracle("asap")
@pytest.mark.filterwarnings("ignore:Sparse")
@ways
@ratios
@seeded
def test_first_asap_layer_is_pygs_with_its_hidden_weight_at_one(seed: int, ratio: float | int, way: str) -> None:
    pool = randomised(ASAP(DIM, ratio))
    theirs = pyg_asap(pool, ratio)
    fitness: list[Tensor] = []
    theirs.gnn_score.register_forward_hook(lambda module, inputs, out: fitness.append(out.sigmoid().squeeze(1)))

    def run(x: Tensor, level: Level) -> tuple[Chosen, Tensor]:
        edges = edge_index(level)
        out, edges, weight, _, perm = theirs(
            x, edges, edge_weight=torch.ones(edges.shape[1], dtype=torch.float64), batch=level.graph[rows(level)]
        )
        return chosen(out, edges, weight, perm), fitness[-1]

    compare_with_layer(pool, first_level(random_case(seed), way), run, "phi", 1)


class AsapLayer(NamedTuple):
    """What one graph gives."""

    phi: Array
    node: Array
    x: Array
    a: Array


def asap_layer(p: dict[str, Array], a: Array, x: Array, ratio: float | int) -> AsapLayer:
    """A layer of ASAP on a graph with weighted edges; p as in the state of our module."""
    n, loops = len(a), a + np.eye(len(a))
    near = loops > 0
    xt = gcn(a, x @ p["gnn.linear.weight"].T, p["gnn.bias"])
    m = np.stack([xt[near[i]].max(axis=0) for i in range(n)])
    query = m @ p["query.weight"].T + p["query.bias"]
    w, alpha = np.concatenate([p["attend_query.weight"][0], p["attend_node.weight"][0]]), np.zeros((n, n))
    for i in range(n):
        e = np.array([w @ np.concatenate([query[i], xt[j]]) for j in np.flatnonzero(near[i])]) + p["attend_query.bias"]
        e = np.exp(np.where(e > 0, e, 0.2 * e))
        alpha[i, near[i]] = e / e.sum()

    xc = alpha @ x
    one, two, three = p["fitness.weight"] @ xc.T + p["fitness.bias"][:, None]
    around = [sum(loops[i, j] * (two[i] - three[j]) for j in range(n)) for i in range(n)]
    phi = sigmoid(one + np.array(around))

    node = top_k(phi, min(ratio, n) if isinstance(ratio, int) else int(np.ceil(ratio * n)))
    s = alpha.T[:, node]
    joined = s.T @ loops @ s
    np.fill_diagonal(joined, 0.0)
    return AsapLayer(phi, node, xc[node] * phi[node, None], joined)


@pytest.mark.oracle("asap")
@ways
@ratios
@seeded
def test_asap_on_weighted_levels_by_numpy(seed: int, ratio: float | int, way: str) -> None:
    pools = [randomised(ASAP(DIM, ratio)) for _ in range(LEVELS)]
    # Sparse, as in a complete graph all clusters are the same, and on the level behind it all nodes.
    level, compared = first_level(random_case(seed, sizes=(16, 1, 5, 24, 2, 20), density=0.12), way), 0
    for site, pool in enumerate(pools):
        x = 0.5 * features(level, site)  # larger sums press the sigmoid to 1, where everything ties
        p = {name: array(value) for name, value in pool.state_dict().items()}
        pooled = pool(x, level)
        clear, after = clear_graphs([Step(level, pooled)], gap=1e-6), parts(pooled.level, pooled.x)
        for g, (row, a, own) in enumerate(parts(level, x)):
            expected = asap_layer(p, array(a), array(own), ratio)
            close(pooled.scores["phi"][row], expected.phi)
            if g in clear:
                assert pooled.level.position[after[g].row].tolist() == level.position[row][expected.node].tolist()
                close(after[g].x, expected.x)
                close(after[g].a, expected.a)
                compared += site > 0 and len(row) > 1
        level = pooled.level
    assert compared >= (3 if ratio == 0.3 else 6), "nearly every cut went through a tie"


def asap_twice(params: list[dict[str, Array]], a: Array, x: Array, weight: Array) -> tuple[float, list[list[int]]]:
    """Two layers and a sum of the result; and which nodes were kept."""
    first = asap_layer(params[0], a, x, 0.6)
    second = asap_layer(params[1], first.a, relu(first.x), 0.6)
    return float((second.x * weight[: len(second.x)]).sum()), [first.node.tolist(), second.node.tolist()]


@pytest.mark.oracle("asap")
@pytest.mark.parametrize("way", ["static", "compact"])
def test_gradient_of_two_asap_layers_is_the_slope_of_the_numpy_program(way: str) -> None:
    """Through the weights of A' too."""
    level = first_level(random_case(1, sizes=(9,), edgeless=()), way)
    pools, x = [randomised(ASAP(DIM, 0.6)) for _ in range(2)], 0.5 * features(level)
    ours = x.clone().requires_grad_()
    first = pools[0](ours, level)
    second = pools[1](F.relu(first.x), first.level)
    weight = torch.randn(9, DIM, dtype=torch.float64)
    (second.x[rows(second.level)] * weight[: int(second.level.sizes)]).sum().backward()

    params = [{name: array(value).copy() for name, value in pool.state_dict().items()} for pool in pools]
    a, start = array(adjacency(level)), array(x).copy()
    _, nodes = asap_twice(params, a, start, array(weight))
    eps, compared = 1e-6, 0
    tables = [(params[i][name], value) for i, pool in enumerate(pools) for name, value in pool.named_parameters()]
    for table, value in [*tables, (start, ours)]:
        for entry in {int(value.grad.abs().argmax()), 0, value.numel() // 2}:
            ends = []
            for sign in (1.0, -2.0):
                table.flat[entry] += sign * eps
                ends.append(asap_twice(params, a, start, array(weight)))
            table.flat[entry] += eps
            if all(chosen_nodes == nodes for _, chosen_nodes in ends):
                slope = (ends[0][0] - ends[1][0]) / (2.0 * eps)
                assert value.grad.flatten()[entry].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)
                compared += 1
    assert compared >= 40


# Global readouts.


@pytest.mark.oracle("set2set")
@ways
@seeded
@pytest.mark.parametrize("steps", [1, 3, 5])
def test_set2set_is_pygs(steps: int, seed: int, way: str) -> None:
    theirs, ours = PyGSet2Set(DIM, steps).double(), Attention(DIM, steps).double()
    ours.load_state_dict({name.removesuffix("_l0"): value for name, value in theirs.lstm.state_dict().items()})
    level = first_level(random_case(seed), way)
    for coarser in (level, half(level)):
        x, here = features(coarser, seed), rows(coarser)
        mine, other = x.clone().requires_grad_(), x[here].clone().requires_grad_()
        result = ours(mine, coarser)[: len(SIZES)]
        expected = theirs(other, coarser.graph[here], dim_size=len(SIZES))
        close(result, expected)
        weight = torch.randn(expected.shape, dtype=torch.float64)
        wanted = torch.autograd.grad((expected * weight).sum(), [other, *theirs.lstm.parameters()])
        given = torch.autograd.grad((result * weight).sum(), [mine, *ours.parameters()])
        close(given[0][here], wanted[0])
        for one, another in zip(given[1:], wanted[1:], strict=True):
            close(one, another)


@pytest.mark.oracle("set2set")
@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
@seeded
def test_a_network_adds_up_three_set2sets(seed: int, compact: bool) -> None:
    case = random_case(seed, "both")
    network = random_network(case.size, seed, method="set2set", compact=compact).double().eval()
    batch = double(case.batch())
    output, steps = traced(network, batch)
    total = torch.zeros(len(SIZES), 16, dtype=torch.float64)
    for attention, step in zip(network.readout.attention, steps, strict=True):
        theirs = PyGSet2Set(8, 3).double()
        theirs.lstm.load_state_dict({f"{name}_l0": value for name, value in attention.state_dict().items()})
        total += theirs(step.pooled.x, batch.graph, dim_size=len(SIZES))
    close(output.logits, head(network.head, array(total)))


def head(module: Head, summed: Array) -> Array:
    """[B, classes] the shared perceptron, dropout off."""
    first, second, last = ((array(layer.weight), array(layer.bias)) for layer in module)
    hidden = relu(summed @ first[0].T + first[1])
    return relu(hidden @ second[0].T + second[1]) @ last[0].T + last[1]


@pytest.mark.oracle("dgcnn")
@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
@pytest.mark.parametrize("percentile60", [5, 10, 11, 13, 18])
@seeded
def test_dgcnn_by_numpy(seed: int, percentile60: int, compact: bool) -> None:
    case = random_case(seed, "both", sizes=(*SIZES, 25))
    network = random_network(case.size, seed, method="dgcnn", sizes=Sizes(9.0, percentile60), compact=compact)
    network = network.double().eval()
    output, steps = traced(network, double(case.batch()))
    read, graphs = network.readout, range(case.graphs.n_graphs)
    weights = dgcnn.DGCNNWeights(
        key_weight=array(read.key.linear.weight),
        key_bias=array(read.key.bias),
        conv1_weight=array(read.first.weight),
        conv1_bias=array(read.first.bias),
        conv2_weight=array(read.second.weight).reshape(32, 16, 5),
        conv2_bias=array(read.second.bias),
        out_weight=array(read.last.weight),
        out_bias=array(read.last.bias),
    )
    levels = [parts(step.after, step.pooled.x) for step in steps]
    k = dgcnn.rows_kept([percentile60])
    expected = [
        dgcnn.readout(weights, [array(level[g].x) for level in levels], case.adjacency(g), k).out for g in graphs
    ]
    close(output.logits, head(network.head, np.stack(expected)))


@pytest.mark.oracle("dgcnn")
@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
@pytest.mark.parametrize("percentile60", [5, 13, 40])
@seeded
def test_sorting_is_pygs(seed: int, percentile60: int, compact: bool) -> None:
    """Cut where a graph has more rows than k, padded with zeros where it has fewer."""
    case = random_case(seed, sizes=(*SIZES, 25))
    network = random_network(case.size, seed, method="dgcnn", sizes=Sizes(9.0, percentile60), compact=compact)
    network, read, batch = network.double().eval(), network.readout, double(case.batch())
    given: list[Tensor] = []
    read.first.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    _, steps = traced(network, batch)
    x = [step.pooled.x for step in steps]
    key = np.concatenate(
        [
            np.tanh(gcn(array(a), array(own) @ array(read.key.linear.weight).T, array(read.key.bias)))
            for _, a, own in parts(steps[-1].after, x[-1])
        ]
    )
    z = torch.cat([*x, torch.from_numpy(key)], 1)
    close(given[0].flatten(1), SortAggregation(max(10, percentile60))(z, batch.graph))


@pytest.mark.oracle("dgcnn")
@ways
@pytest.mark.parametrize("percentile60", [5, 13])
def test_gradient_of_dgcnn_is_that_of_convolutions_after_pygs_sorting(percentile60: int, way: str) -> None:
    compared = 0
    for seed in range(6):
        level = first_level(random_case(seed, sizes=(8, 1, 5, 14, 25), density=0.25), way)
        read = randomised(DGCNN(DIM, LEVELS, Sizes(9.0, percentile60)))
        x, here, k = [features(level, 10 * seed + i).requires_grad_() for i in range(LEVELS)], rows(level), read.rows
        key = torch.tanh(torch.cat([dense_gcn(read.key, a, own) for _, a, own in parts(level, x[-1])]))
        ranked = key.squeeze(1) - 10.0 * level.graph[here]
        if ranked.sort().values.diff().min() < 1e-6:
            continue  # two nodes with the same neighbours: either may come first
        z = torch.cat([*(t[here] for t in x), key], 1)
        row = SortAggregation(k)(z, level.graph[here], dim_size=5).unsqueeze(1)
        first = F.relu(F.conv1d(row, read.first.weight.unsqueeze(1), read.first.bias, stride=z.shape[1]))
        second = F.conv1d(F.max_pool1d(first, 2), read.second.weight.view(32, 16, 5), read.second.bias)
        expected = F.relu(F.linear(F.relu(second).flatten(1), read.last.weight, read.last.bias))
        result = read([(t, level) for t in x])[:5]
        close(result, expected)

        weight, by = torch.randn(expected.shape, dtype=torch.float64), [*x, *read.parameters()]
        wanted = torch.autograd.grad((expected * weight).sum(), by)
        given = torch.autograd.grad((result * weight).sum(), by)
        for one, another in zip(given, wanted, strict=True):
            close(one, another)
        compared += 1
    assert compared >= 3, "nearly every graph had a tie"


# Clusters.


def dense_gcn(layer: GCN, a: Tensor, x: Tensor) -> Tensor:
    loops = a + torch.eye(len(a), dtype=torch.float64)
    root = torch.diag(loops.sum(1) ** -0.5)
    return root @ loops @ root @ (x @ layer.linear.weight.T) + layer.bias


SIZED = Sizes(8.5, 9)
"""K = 7, 6 and 5 at ratio 0.8."""


def compare_clusters(
    pools: list[nn.Module],
    level: Level,
    x: Tensor,
    names: tuple[str, str],
    layer: Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Tensor, Tensor, Tensor]],
    leave_out: tuple[int, ...] = (),
) -> None:
    """Several levels, graph by graph: features, adjacency, both losses, and the gradients of all of it."""
    ours = x.clone().requires_grad_()
    pooled, at, losses = ours, level, []
    given = [(own.clone().requires_grad_(), a) for _, a, own in parts(level, x)]
    for g in leave_out:
        given[g] = (given[g][0], torch.ones_like(given[g][1]))  # any: it is not compared
    theirs, total = given, torch.zeros((), dtype=torch.float64)
    for pool in pools:
        step = pool(pooled, at)
        results = [layer(pool, own, a) for own, a in theirs]
        theirs = [(own.squeeze(0), a.squeeze(0)) for own, a, _, _ in results]
        for g, part in enumerate(parts(step.level, step.x)):
            if g not in leave_out:
                close(part.x, theirs[g][0])
                close(part.a, theirs[g][1])
        assert tuple(step.losses) == names
        if not leave_out:
            for name, values in zip(names, zip(*(r[2:] for r in results), strict=True), strict=True):
                close(step.losses[name], torch.stack(values).mean())
                losses.append(step.losses[name])
                total = total + torch.stack(values).mean()
        pooled, at = step.x, step.level

    there = [p.row for g, p in enumerate(parts(at, pooled)) if g not in leave_out]
    weight = torch.randn(len(there), *theirs[0][0].shape, dtype=torch.float64)
    expected = sum((own * w).sum() for (own, _), w in zip(_without(theirs, leave_out), weight, strict=True)) + total
    result = sum((pooled[row] * w).sum() for row, w in zip(there, weight, strict=True)) + sum(losses)
    weights = [parameter for pool in pools for parameter in pool.parameters()]
    by_ours = or_zero(torch.autograd.grad(result, [ours, *weights], allow_unused=True))
    entries = [own for own, _ in given]
    by_theirs = or_zero(torch.autograd.grad(expected, [*entries, *weights], allow_unused=True))
    close(by_ours[0][rows(level)], torch.cat([g.expand_as(e) for g, e in zip(by_theirs, entries, strict=False)]), 1e-8)
    for one, another in zip(by_ours[1:], by_theirs[len(entries) :], strict=True):
        close(one, another, 1e-8)


def _without(items: list, left_out: tuple[int, ...]) -> list:
    return [item for g, item in enumerate(items) if g not in left_out]


def diffpool_layer(pool: DiffPool, x: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return dense_diff_pool(F.relu(dense_gcn(pool.embed, a, x)), a, dense_gcn(pool.assign, a, x))


def mincut_layer(pool: MinCutPool, x: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return dense_mincut_pool(x, a, pool.assign(x))


@pytest.mark.oracle("diffpool")
@ways
@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0, 3])
@seeded
def test_diffpool_is_pygs_on_every_level(seed: int, ratio: float | int, way: str) -> None:
    """PyG's losses of one graph without padding; ours is their mean over the graphs of a batch."""
    pools = [randomised(DiffPool(DIM, ratio, site, SIZED)) for site in range(LEVELS)]
    level = first_level(random_case(seed), way)
    compare_clusters(pools, level, 0.3 * features(level, seed), ("link", "entropy"), diffpool_layer)


@pytest.mark.oracle("diffpool")
@pytest.mark.parametrize("way", ["static", "compact"])
@seeded
def test_losses_of_a_graph_alone(seed: int, way: str) -> None:
    for n in (1, 2, 9):
        case = random_case(seed, sizes=(n,), edgeless=())
        level = first_level(case, way)
        pools = [randomised(DiffPool(DIM, 0.8, site, SIZED)) for site in range(LEVELS)]
        compare_clusters(pools, level, 0.3 * features(level, seed), ("link", "entropy"), diffpool_layer)


@pytest.mark.oracle("diffpool", "asap", "mincut")
@pytest.mark.parametrize("way", ["static", "compact"])
@pytest.mark.parametrize("kind", [DiffPool, MinCutPool, ASAP])
def test_gcn_on_a_dense_level(kind: type[nn.Module], way: str) -> None:
    level = first_level(random_case(3), way)
    pool = randomised(ASAP(DIM, 0.8) if kind is ASAP else kind(DIM, 0.8, 0, SIZED))
    coarse = pool(features(level), level).level
    layer, x = randomised(GCN(DIM, 4)), features(coarse, 1)
    result = layer(x, coarse)
    for row, a, own in parts(coarse, x):
        close(result[row], gcn(array(a), array(own) @ array(layer.linear.weight).T, array(layer.bias)))


@pytest.mark.oracle("mincut")
@ways
@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0, 3])
@seeded
def test_mincut_is_pygs_on_every_level(seed: int, ratio: float | int, way: str) -> None:
    pools = [randomised(MinCutPool(DIM, ratio, site, SIZED)) for site in range(LEVELS)]
    case = random_case(seed, sizes=(7, 3, 5, 12, 4, 9), density=0.7, edgeless=())
    assert (case.graphs.degree > 0).all()
    level = first_level(case, way)
    compare_clusters(pools, level, 0.3 * features(level, seed), ("cut", "orthogonality"), mincut_layer)


@pytest.mark.oracle("mincut")
@seeded
def test_mincut_to_one_cluster(seed: int) -> None:
    """‖SᵀS‖ / ‖SᵀS‖ − 1 is 0, of which PyG's root has no derivative; ours is rounded up to 1e-6 and has one."""
    level = first_level(random_case(seed, sizes=(7,), density=0.7, edgeless=()), "static")
    pool, x = randomised(MinCutPool(DIM, 1)), features(level, seed).requires_grad_()
    pooled, (part,) = pool(x, level), parts(level, x)
    own, a, cut, orthogonality = mincut_layer(pool, part.x, part.a)
    close(pooled.x, own.squeeze(0))
    close(adjacency(pooled.level), a.squeeze(0))
    close(pooled.losses["cut"], cut)
    close(pooled.losses["orthogonality"], orthogonality, 1e-5)
    sum(pooled.losses.values()).backward()
    assert x.grad.isfinite().all()


@pytest.mark.oracle("mincut")
@ways
@seeded
def test_mincut_beside_graphs_without_edges(seed: int, way: str) -> None:
    """PyG divides 0 by 0 there. Ours are finite, and the other graphs' are PyG's."""
    pools = [randomised(MinCutPool(DIM, 0.8, site, SIZED)) for site in range(LEVELS)]
    case = random_case(seed, sizes=(7, 1, 5, 12, 4, 9), density=0.7, edgeless=(2,))
    level = first_level(case, way)
    compare_clusters(pools, level, 0.3 * features(level, seed), ("cut", "orthogonality"), mincut_layer, (1, 2))
    for g in (1, 2):
        alone = Level.whole(double(case.batch([g])), way == "compact")
        x = features(alone, seed).requires_grad_()
        pooled, total, at = x, torch.zeros((), dtype=torch.float64), alone
        for pool in pools:
            pooled, at, losses, *_ = pool(pooled, at)
            assert losses["cut"] == 0.0
            assert (adjacency(at) == 0.0).all()
            assert losses["orthogonality"].isfinite()
            total = total + sum(losses.values())
        (total + pooled.sum()).backward()
        assert x.grad.isfinite().all()
        assert all(weight.grad.isfinite().all() for pool in pools for weight in pool.parameters())


# VIPool.


def vip_weights(pool: VIPool) -> vip.VIPWeights:
    return vip.VIPWeights(
        embed_weight=array(pool.embed.weight),
        embed_bias=array(pool.embed.bias),
        slope=pool.prelu.weight.item(),
        hop_weight=array(pool.hop.weight).reshape(pool.hops, DIM, DIM),
        hop_bias=array(pool.hop_bias),
        bilinear=array(pool.bilinear.weight),
        bilinear_bias=pool.bias.item(),
    )


def negatives(level: Level, site: int) -> dict[int, int]:
    """Row → the row whose h is its negative."""
    unit = torch.eye(len(level.alive), dtype=torch.float64)
    taken = another_vertex(unit, level, NEGATIVE_SITE + site)
    assert (taken[level.alive == 0] == 0.0).all()
    here = rows(level)
    assert (taken[here].sum(1) == 1.0).all()
    assert (taken[here].max(1).values == 1.0).all()
    return dict(zip(here.tolist(), taken[here].argmax(1).tolist(), strict=True))


@pytest.mark.oracle("vip")
@ways
@seeded
def test_negatives_go_round_each_graph(seed: int, way: str) -> None:
    level = first_level(random_case(seed, sizes=WITH_LONE), way, key=seed)
    for coarser in (level, half(level)):
        own, n = negatives(coarser, 1), int((coarser.sizes > 0).sum())
        by_graph = [[row for row in own if coarser.graph[row] == g] for g in range(n)]
        for g, mine in enumerate(by_graph):
            if len(mine) == 1:
                assert own[mine[0]] in by_graph[(g + 1) % n]
                continue
            seen, row = [], mine[0]
            while row not in seen:
                seen.append(row)
                row = own[row]
            assert sorted(seen) == mine, "one cycle through all vertices: no fixed point, no other graph"


def test_negatives_are_drawn_afresh() -> None:
    case = random_case(0, sizes=(12,), edgeless=())
    draws = [(0, 1), (0, 1), (1, 1), (0, 2)]
    first, again, other_key, other_site = (negatives(first_level(case, "static", key), site) for key, site in draws)
    assert first == again
    assert other_key != first
    assert other_site != first


class Told(NamedTuple):
    """What the NumPy program is given of one level, and says."""

    loss: float
    pooled: list[vip.Pooled]


def told(pool: VIPool, weights: vip.VIPWeights, level: Level, x: Tensor, ratio: float) -> Told:
    graphs = parts(level, x)
    name = {row: (g, v) for g, part in enumerate(graphs) for v, row in enumerate(part.row.tolist())}
    own = negatives(level, pool.site)
    pi = [[name[own[row]] for row in part.row.tolist()] for part in graphs]
    masks = None
    if pool.training:
        mask = array(level.uniform(pool.site, DIM) >= DROPOUT) / (1.0 - DROPOUT)
        masks = [mask[part.row] for part in graphs]
    loss, pooled = vip.batch(weights, [array(p.x) for p in graphs], [array(p.a) for p in graphs], pi, ratio, masks)
    return Told(loss, pooled)


@pytest.mark.oracle("vip")
@ways
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.0])
@seeded
def test_vip_by_numpy(seed: int, ratio: float, hops: int, training: bool, way: str) -> None:
    level, compared = first_level(random_case(seed, sizes=(*SIZES, *WITH_LONE)), way, key=seed), 0
    for site in range(LEVELS):
        pool = randomised(VIPool(DIM, ratio, site, hops)).train(training)
        x = features(level, seed + site)
        pooled = pool(x, level)
        expected = told(pool, vip_weights(pool), level, x, ratio)
        close(pooled.losses["vertex_infomax"], np.array(expected.loss))
        assert ("vertex_infomax" in pooled.metrics) == (not training)
        clear, after = clear_graphs([Step(level, pooled)], gap=1e-6), parts(pooled.level, pooled.x)
        for g, (part, answer) in enumerate(zip(parts(level, x), expected.pooled, strict=True)):
            close(pooled.scores["t"][part.row], answer.scores)
            if g in clear:
                assert level.position[part.row][answer.kept].tolist() == pooled.level.position[after[g].row].tolist()
                close(after[g].x, answer.x)
                close(after[g].a, answer.A)
                compared += len(part.row) > 1
        if not training:
            right = [np.mean([(t.t_plus > 0), (t.t_minus < 0)], axis=0) for t in expected.pooled]
            close(pooled.metrics["told_apart"], np.concatenate(right).mean())
        level = pooled.level
    assert compared >= 6, "nearly every cut went through a tie"


@pytest.mark.oracle("vip")
@pytest.mark.parametrize("way", ["static", "compact"])
@pytest.mark.parametrize("hops", [1, 2])
def test_gradient_of_vip_is_the_slope_of_the_oracle(hops: int, way: str) -> None:
    level = first_level(random_case(4, sizes=WITH_LONE), way)
    pool, x = randomised(VIPool(DIM, 0.6, 0, hops)).train(), features(level, 2)
    ours = x.clone().requires_grad_()
    pooled = pool(ours, level)
    here = rows(pooled.level)
    weight = torch.randn(len(here), DIM, dtype=torch.float64) / 10.0
    (pooled.losses["vertex_infomax"] + (pooled.x[here] * weight).sum()).backward()

    def answer(at: Tensor) -> tuple[float, list[list[int]]]:
        expected = told(pool, vip_weights(pool), level, at, 0.6)
        out = np.concatenate([p.x for p in expected.pooled])
        return expected.loss + float((out * array(weight)).sum()), [p.kept.tolist() for p in expected.pooled]

    _, nodes = answer(x)
    eps, compared = 1e-6, 0
    lone = int(torch.nonzero(level.sizes == 1)[0])
    at_lone = int(level.slot_ptr[lone]) * DIM
    for value, table in [*((p, p.data) for p in pool.parameters()), (ours, x)]:
        entries = {int(value.grad.abs().argmax()), 0, value.numel() // 2} | ({at_lone} if value is ours else set())
        for entry in entries:
            ends = []
            for sign in (1.0, -2.0):
                table.view(-1)[entry] += sign * eps
                ends.append(answer(x))
            table.view(-1)[entry] += eps
            if all(kept_nodes == nodes for _, kept_nodes in ends):
                slope = (ends[0][0] - ends[1][0]) / (2.0 * eps)
                assert value.grad.flatten()[entry].item() == pytest.approx(slope, rel=1e-5, abs=1e-8)
                compared += 1
    assert compared >= 15


# Controls.


def plain_network(params: dict[str, Array], a: Array, x: Array, choices: list[list[int]]) -> Array:
    """[2d] three convolutions and their readouts, the given nodes of the first graph kept after each; gate 1."""
    total, nodes = 0.0, np.arange(len(a))
    for level, chosen_nodes in enumerate(choices):
        w = params[f"convs.{level}.linear.weight"]
        x = relu(gcn(a, x @ (w if level == 0 else w.T), params[f"convs.{level}.bias"]))
        stay = np.isin(nodes, chosen_nodes)
        x, a, nodes = x[stay], a[stay][:, stay], nodes[stay]
        total = total + readout(x)
    return total


@pytest.mark.oracle("none", "random")
@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
@pytest.mark.parametrize("method", ["none", "random"])
@pytest.mark.parametrize("ratio", [0.3, 0.8])
@seeded
def test_controls_by_numpy(seed: int, ratio: float, method: str, compact: bool) -> None:
    case = random_case(seed, "both")
    network = random_network(case.size, seed, method=method, ratio=ratio, compact=compact).double().eval()
    batch = double(case.batch())
    output, steps = traced(network, batch)
    params = {name: array(value) for name, value in network.state_dict().items()}
    choices = [kept_by_graph(step.after, batch) for step in steps]
    summed = []
    for g, n in enumerate(SIZES):
        mine = [choice[g] for choice in choices]
        for level, (before, after) in enumerate(pairwise([list(range(n)), *mine])):
            wanted = len(before) if method == "none" else int(np.ceil(ratio * len(before)))
            assert len(after) == wanted, level
            assert set(after) <= set(before)
        summed.append(plain_network(params, case.adjacency(g), case.features(g), mine))
    close(output.logits, head(network.head, np.stack(summed)))
    assert output.own_loss == 0.0


@pytest.mark.oracle("random")
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_random_nodes_are_uniform_and_follow_the_key(training: bool) -> None:
    case, draws, share = random_case(0, sizes=(5, 1, 7), edgeless=()), 1000, torch.zeros(13)
    pool = RandomPool(DIM, 0.4).train(training)
    sets = []
    for key in range(draws):
        level = Level.whole(case.batch(key=key))
        pooled = pool(torch.ones(13, DIM), level)
        assert pooled.level.sizes.tolist() == [2, 1, 3]
        assert (pooled.x.sum(1) / DIM == pooled.level.alive).all(), "kept with gate 1, or 0"
        again = pool(torch.ones(13, DIM), Level.whole(case.batch(key=key)))
        assert torch.equal(pooled.level.alive, again.level.alive)
        share += pooled.level.alive / draws
        sets.append(tuple(pooled.level.alive[:5].tolist()))
    wanted = torch.tensor([2 / 5] * 5 + [1.0] + [3 / 7] * 7)
    assert ((share - wanted).abs() < 0.06).all()  # four standard errors
    # Not only each node: each pair of five comes up one time in ten.
    pairs, counts = np.unique(np.array(sets), axis=0, return_counts=True)
    assert len(pairs) == 10
    assert (abs(counts / draws - 0.1) < 0.04).all()


@pytest.mark.oracle("random")
def test_every_level_draws_its_own_nodes() -> None:
    level = Level.whole(random_case(0, sizes=(40,), edgeless=()).batch(key=3))
    first, second = (RandomPool(DIM, 0.5, site)(torch.ones(40, DIM), level).level.alive for site in (0, 1))
    assert not torch.equal(first, second)


@pytest.mark.oracle("oracle")
@ways
def test_the_oracle_keeps_what_decides(way: str) -> None:
    graphs = random_graphs(1)
    truth = np.random.default_rng(0).random(graphs.n_nodes) < 0.4
    case = case_of(replace(graphs, node_truth=truth, checked=False))
    before = first_level(case, way)
    x = torch.randn(len(before.alive), DIM, dtype=torch.float64)
    pooled = OraclePool()(x, before)
    known = np.zeros(len(before.alive), bool)
    known[: len(truth)] = truth
    assert kept(pooled.level).tolist() == np.flatnonzero(known).tolist()
    counts = np.add.reduceat(truth.astype(int), graphs.node_ptr[:-1]).tolist()
    assert pooled.level.sizes[: len(counts)].tolist() == counts
    again = OraclePool()(pooled.x, pooled.level)
    assert kept(again.level).tolist() == kept(pooled.level).tolist()
    torch.testing.assert_close(pooled.x[rows(pooled.level)], x[kept(pooled.level)])


def test_without_a_truth_there_is_no_oracle() -> None:
    with pytest.raises(UserError, match="oracle needs a data set with known deciding nodes"):
        OraclePool()(torch.ones(36, DIM), Level.whole(random_case(0).batch()))


@pytest.mark.oracle("structure-free")
@pytest.mark.parametrize("way", ["static", "padded"])
@pytest.mark.parametrize("kind", ["floats", "labels", "both"])
@seeded
def test_structure_free_by_numpy(seed: int, kind: str, way: str) -> None:
    case = random_case(seed, kind)
    model = randomised(StructureFree(case.size, 3, width=8)).eval()
    total = np.stack([case.features(g).sum(axis=0) for g in range(len(SIZES))])
    hidden = relu(total @ array(model.linear.weight) + array(model.bias))
    output = model(batch_of(case, way))
    close(output.logits[: len(SIZES)], head(model.head, hidden))
    assert output.own_loss == 0.0


@pytest.mark.oracle("majority")
@seeded
def test_majority_says_the_shares_of_the_training_graphs(seed: int, tmp_path: Path) -> None:
    graphs = random_graphs(seed, [4] * 50)
    (split,) = random_splits(graphs, seed=seed, indices=[0])
    model = Training(Job("majority", PAPER, split, seed, "cpu", tmp_path), graphs).state.network
    shares = [sum(graphs.y[i] == c for i in split.train) / len(split.train) for c in range(3)]
    output = model(random_case(seed).batch())
    close(torch.softmax(output.logits, 1), np.tile(shares, (len(SIZES), 1)), 1e-6)
    assert output.own_loss == 0.0


def test_a_class_that_training_never_shows_has_no_share() -> None:
    from cgipool.model.build import Constant

    output = Constant(TASK.baseline_output(torch.tensor([0.25, 0.0, 0.75])))(random_case(0).batch())
    close(torch.softmax(output.logits, 1)[0], np.array([0.25, 0.0, 0.75]), 1e-6)
    assert output.logits.isfinite().all()


# The convolution that is not in test_pyg.py.


@ways
@pytest.mark.parametrize("width", [DIM, 3, 9])
@seeded
def test_gin_is_pygs(seed: int, width: int, way: str) -> None:
    layer = GIN(DIM, width).double()
    theirs = GINConv(nn.Sequential(nn.Linear(DIM, width), nn.ReLU(), nn.Linear(width, width))).double()
    theirs.nn.load_state_dict(
        {"0.weight": layer.linear.weight, "0.bias": layer.bias}
        | {f"2.{name}": value for name, value in layer.second.state_dict().items()}
    )
    level = first_level(random_case(seed), way)
    for site in range(LEVELS):
        x, here = features(level, site), rows(level)
        close(layer(x, level)[here], theirs(x[here], edge_index(level)))
        level = half(level)


def test_gin_on_a_dense_level() -> None:
    level = first_level(random_case(0), "static")
    coarse = randomised(ASAP(DIM, 0.8))(features(level), level).level
    layer, x = GIN(DIM, 4).double(), features(coarse, 1)
    result = layer(x, coarse)
    first, second = (array(layer.linear.weight), array(layer.bias)), (layer.second.weight, layer.second.bias)
    for row, a, own in parts(coarse, x):
        hidden = relu((array(own) + array(a) @ array(own)) @ first[0].T + first[1])
        close(result[row], hidden @ array(second[0]).T + array(second[1]))


@pytest.mark.parametrize("kind", ["floats", "labels", "both"])
def test_gin_reads_the_input_columns(kind: str) -> None:
    case = random_case(6, kind)
    layer = GIN(case.size, 5).double()
    result = layer(double(case.batch()), first_level(case, "static"))
    for g, (start, end) in enumerate(pairwise(case.graphs.node_ptr)):
        x, a = case.features(g), case.adjacency(g)
        hidden = relu((x + a @ x) @ array(layer.linear.weight) + array(layer.bias))
        close(result[start:end], hidden @ array(layer.second.weight).T + array(layer.second.bias))
