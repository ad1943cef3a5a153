"""Edge weights and edge features in convolutions: PyG as the oracle, on levels of every kind, in float64."""

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINEConv, TransformerConv
from torch_geometric.utils import to_dense_adj

from cgipool.data import GraphSet, Inputs
from cgipool.data.batch import Batcher, Capacity
from cgipool.data.digests import content_read
from cgipool.data.splits import Split
from cgipool.errors import UnusedDataWarning, UserError
from cgipool.model import layers
from cgipool.model.build import build_network
from cgipool.model.layers import InputSize
from cgipool.model.level import Level, SparseLevel, TiledLevel, WeightedLevel
from cgipool.model.level.dense import DenseLevel
from cgipool.ops.bits import adjacency_bits, words_for
from cgipool.pool import METHODS, Sizes
from cgipool.task.classification import Classification
from cgipool.training.folder import identity_of
from cgipool.training.initial import prepared
from cgipool.training.job import Job
from cgipool.training.objective import objective as loss_of
from cgipool.training.presets import PAPER
from cgipool.training.run import train
from small import double, group_of, random_network, rows, traced

SIZES = (8, 1, 6, 15, 3, 10)
KINDS, FLOATS, WIDTH, OUT = (4, 3), 2, 8, 6
LEVELS = ("sparse", "tiled", "masked", "compact", "closed up", "closed up, tiled")


def edge_graphs(seed: int = 0, symmetric: bool = True, weights: bool = False, what: str = "both") -> GraphSet:
    """Random graphs with edge labels, edge attributes and weights; symmetric ones have the same data both ways."""
    generator = np.random.default_rng(seed)
    source, target, start = [], [], 0
    for g, n in enumerate(SIZES):
        u, v = np.nonzero(np.triu(generator.random((n, n)) < (0.0 if g == 2 else 0.4), 1))
        source, target, start = [*source, *(u + start)], [*target, *(v + start)], start + n
    count = len(source)
    category = np.stack([generator.integers(0, k, 2 * count) for k in KINDS], 1).astype(np.int32)
    floats = generator.normal(size=(2 * count, FLOATS)).astype(np.float32)
    weight = generator.uniform(0.1, 2.0, 2 * count).astype(np.float32)
    if symmetric:
        category, floats, weight = (np.concatenate([a[:count], a[:count]]) for a in (category, floats, weight))
    return GraphSet.from_edges(
        "edges",
        SIZES,
        np.array(source + target),
        np.array(target + source),
        np.arange(len(SIZES)) % 2,
        edge_weight=weight if weights else None,
        edge_category=category if what != "attributes" else None,
        edge_category_names=tuple(tuple(map(str, range(k))) for k in KINDS) if what != "attributes" else (),
        edge_attributes=floats if what != "categories" else None,
    )


def inputs_of(graphs: GraphSet) -> tuple[Inputs, InputSize]:
    """The encoded edges, and their width."""
    nothing = np.zeros((graphs.n_nodes, 0), np.int32)
    category, columns = np.zeros((graphs.n_edges, 0), np.int32), 0
    if graphs.edge_category is not None:
        category, columns = graphs.edge_category + np.array([0, KINDS[0]], np.int32), sum(KINDS)
    floats = 0 if graphs.edge_attributes is None else FLOATS
    edges = Inputs(category, columns, graphs.edge_attributes)
    return Inputs(nothing, 0, None, edges), InputSize(columns, floats)


def one_hot(graphs: GraphSet) -> Tensor:
    """[E, D] the features of every stored edge in full."""
    parts = []
    if graphs.edge_category is not None:
        parts += [torch.eye(k)[graphs.edge_category[:, j].astype(np.int64)] for j, k in enumerate(KINDS)]
    if graphs.edge_attributes is not None:
        parts.append(torch.from_numpy(graphs.edge_attributes))
    return torch.cat(parts, 1).double()


def level_of(graphs: GraphSet, kind: str) -> Level:
    """A level of the whole set, or of what two pools with random scores left of it."""
    room = Capacity(60, 400, 8, 800)
    batch = double(
        Batcher(graphs, inputs_of(graphs)[0]).batch(np.arange(len(SIZES)), 0, None if kind == "compact" else room)
    )
    if "tiled" in kind:
        words = words_for(max(SIZES))
        bits = adjacency_bits(graphs.node_ptr, graphs.edge_ptr, graphs.edge_disp, words)
        batch = batch._replace(bits=torch.from_numpy(np.pad(bits, ((0, 60 - len(bits)), (0, 0)))))
    places = (40, 33) if "closed" in kind else ()
    level: Level = Level.whole(batch, kind == "compact", places)
    random = torch.Generator().manual_seed(1)
    if kind not in ("sparse", "tiled"):
        for _ in range(2):
            score = torch.rand(len(level.alive), 1, generator=random, dtype=torch.double)
            k = level.kept(0.8)
            _, level = level.coarsen(score, score.squeeze(1), level.select(score, k).squeeze(1), k)
    return level


def left(graphs: GraphSet, level: Level) -> tuple[Tensor, Tensor, Tensor]:
    """The living positions, the edges among them as PyG has them, and which stored edges these are."""
    alive = rows(level)
    place = torch.full((graphs.n_nodes,), -1)
    place[level.position[alive]] = torch.arange(len(alive))
    pairs = place[torch.from_numpy(np.stack([graphs.edge_source, graphs.edge_source + graphs.edge_disp]))]
    stays = (pairs >= 0).all(0)
    return alive, pairs[:, stays], stays


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def features(level: Level, width: int = WIDTH) -> Tensor:
    """Random features; nobody may read those of dead nodes."""
    x = torch.full((len(level.alive), width), 7.0, dtype=torch.double)
    x[rows(level)] = torch.randn(len(rows(level)), width, dtype=torch.double)
    return x.requires_grad_()


def peer(layer: nn.Module, edges: InputSize) -> nn.Module:
    """PyG's layer with the weights of ours."""
    if isinstance(layer, layers.GINE):
        theirs = GINEConv(nn.Sequential(nn.Linear(WIDTH, OUT), nn.ReLU(), nn.Linear(OUT, OUT)), edge_dim=edges.width)
        weights = {
            "nn.0.weight": layer.linear.weight,
            "nn.0.bias": layer.bias,
            "nn.2.weight": layer.second.weight,
            "nn.2.bias": layer.second.bias,
            "lin.weight": layer.edges.weight.T,
            "lin.bias": torch.zeros(WIDTH),
            "eps": torch.zeros(1),
        }
    else:
        theirs = TransformerConv(WIDTH, OUT // layer.heads, layer.heads, edge_dim=edges.width)
        weights = {
            "lin_query.weight": layer.query.weight,
            "lin_query.bias": layer.query_bias,
            "lin_key.weight": layer.key.weight,
            "lin_key.bias": torch.zeros(OUT),
            "lin_value.weight": layer.value.weight,
            "lin_value.bias": torch.zeros(OUT),
            "lin_edge.weight": layer.edges.weight.T,
            "lin_skip.weight": layer.root.weight,
            "lin_skip.bias": layer.bias,
        }
    theirs.load_state_dict(weights)
    return theirs.double()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("conv", [layers.GINE, layers.TransformerConv])
@pytest.mark.parametrize("what", ["categories", "attributes", "both"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_against_pyg(conv: type, level: str, what: str, symmetric: bool) -> None:
    graphs = edge_graphs(3, symmetric, what=what)
    size = inputs_of(graphs)[1]
    layer, at = conv(WIDTH, OUT, edges=size).double(), level_of(graphs, level)
    assert isinstance(at, TiledLevel) == ("tiled" in level)
    theirs, x = peer(layer, size), features(at)
    alive, pairs, stays = left(graphs, at)
    assert len(pairs[0]) > 10
    expected = theirs(x[alive], pairs, one_hot(graphs)[stays])
    ours = layer(x, at)[alive]
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)
    weight = torch.randn_like(ours)
    by_x, by_edges = torch.autograd.grad((ours * weight).sum(), [x, layer.edges.weight])
    name = "lin.weight" if conv is layers.GINE else "lin_edge.weight"
    their_x, their_edges = torch.autograd.grad((expected * weight).sum(), [x, theirs.get_parameter(name)])
    torch.testing.assert_close(by_x, their_x, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(by_edges, their_edges.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("level", [kind for kind in LEVELS if "tiled" not in kind])
@pytest.mark.parametrize("symmetric", [True, False])
def test_weights_in_every_convolution(level: str, symmetric: bool) -> None:
    graphs = edge_graphs(5, symmetric, weights=True)
    at = level_of(graphs, level)
    assert isinstance(at, WeightedLevel)
    alive, pairs, stays = left(graphs, at)
    weight = torch.from_numpy(graphs.edge_weight).double()[stays]
    a = to_dense_adj(pairs, edge_attr=weight, max_num_nodes=len(alive))[0].T  # to, from
    x = features(at)
    h = x[alive]

    def mapped(linear: nn.Module, value: Tensor) -> Tensor:
        return value @ linear.weight.T

    size = inputs_of(graphs)[1]
    edge = to_dense_adj(pairs, edge_attr=one_hot(graphs)[stays], max_num_nodes=len(alive))[0].transpose(0, 1)
    for name in layers.CONVOLUTIONS:
        layer = layers.convolution(name, WIDTH, OUT, True, size).double()
        if name in ("gcn", "gcn-root"):
            gcn = layer if name == "gcn" else layer.gcn
            nn.init.uniform_(gcn.bias)
            theirs = GCNConv(WIDTH, OUT).double()
            theirs.load_state_dict({"lin.weight": gcn.linear.weight, "bias": gcn.bias})
            expected = theirs(h, pairs, weight) + (0.0 if name == "gcn" else mapped(layer.root, h))
        elif name == "sage":
            total = a.sum(1, keepdim=True)
            mean = a @ h / torch.where(total > 0, total, 1.0)
            expected = mapped(layer.neighbors, mean) + layer.bias + mapped(layer.root, h)
        elif name == "gin":
            expected = layer.second(torch.relu(mapped(layer.linear, h + a @ h) + layer.bias))
        elif name == "gine":
            message = torch.relu(h + edge @ layer.edges.weight)
            around = torch.einsum("pq,pqf->pf", a, message)
            expected = layer.second(torch.relu(mapped(layer.linear, h + around) + layer.bias))
        else:
            expected = transformer(layer, h, edge @ layer.edges.weight, a)
        ours = layer(x, at)[alive]
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9, msg=name)
        gradient = torch.randn_like(ours)
        pair = [torch.autograd.grad((out * gradient).sum(), x, retain_graph=True)[0] for out in (ours, expected)]
        torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9, msg=name)
    torch.testing.assert_close(at.squares[alive], a.square().sum(1))


def test_negative_weights_are_refused_where_sums_of_weights_divide() -> None:
    graphs = edge_graphs(5, weights=True)
    weight = graphs.edge_weight.copy()
    number = int(np.searchsorted(graphs.edge_source, graphs.node_ptr[3]))
    weight[number] = -0.5
    graphs = replace(graphs, edge_weight=weight, graph_ids=[f"g-{g}" for g in range(graphs.n_graphs)])
    place = rf"the edge from node 0 to node {graphs.edge_disp[number]} of graph 3 \(id 'g-3'\)"
    for conv, method, user in (
        ("gcn", "none", "GCN"),
        ("sage", "none", "SAGE"),
        ("transformer", "none", "TransformerConv"),
        ("gin", "sag", "GCN"),
        ("gin", "vip", "VIPool"),
    ):
        says = f"^edges: {place} has the weight -0.5; {user} needs non-negative edge weights"
        with pytest.raises(UserError, match=says):
            build_network(InputSize(2), 2, width=8, conv=conv, method=method).check(graphs)
    for conv in ("gin", "gine"):
        build_network(InputSize(2), 2, width=8, conv=conv, method="topk").check(graphs)


@pytest.mark.parametrize("conv", ["gine", "transformer"])
@pytest.mark.parametrize("method", ["asap", "diffpool", "mincut"])
def test_edges_made_by_a_pool_have_no_features(conv: str, method: str) -> None:
    graphs = edge_graphs(2)
    inputs, size = inputs_of(graphs)
    batch = Batcher(graphs, replace(inputs, floats=np.ones((graphs.n_nodes, 1), np.float32))).batch(np.arange(6))
    network = build_network(
        InputSize(0, 1, edges=size), 2, width=8, conv=conv, method=method, sizes=Sizes.of(graphs.sizes)
    )
    with pytest.raises(UserError, match="a pool has made new ones without features"):
        network(batch)


def test_gine_without_features_runs_on_new_edges() -> None:
    """There a message is relu(x): on a dense level PyG's GINEConv with features of 0 and weights of 1."""
    level = DenseLevel.of_clusters(level_of(edge_graphs(), "sparse"), torch.rand(8, 4, 4).double())
    layer, x = layers.GINE(WIDTH, OUT).double(), features(level)
    around = torch.stack([w @ h.relu() for w, h in zip(level.weight.view(8, 4, 4), x.view(8, 4, -1), strict=True)])
    hidden = torch.relu(layer.linear(x + around.view_as(x) * level.alive[:, None]) + layer.bias)
    torch.testing.assert_close(layer(x, level)[rows(level)], layer.second(hidden)[rows(level)], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("conv", ["gine", "transformer", "gin"])
def test_stacked_splits_have_their_own_losses_and_gradients(conv: str, tmp_path: Path) -> None:
    """Through `vmap`, with a vocabulary of each split and static levels that are closed up."""
    graphs = replace(edge_graphs(4, symmetric=False, weights=True), y=np.array([0, 1, 0, 1, 0, 1]))
    splits = [Split(i, np.roll(np.arange(6), i)[:4], np.array([4]), np.array([5])) for i in range(2)]
    recipe = PAPER.but(conv=conv, width=8, batch_size=4, epochs=1, convs_per_level=2, residual=True, dropout=0.0)
    jobs = [Job("topk", recipe, split, 0, "cpu", tmp_path) for split in splits]
    group, ids = group_of(jobs, graphs), torch.tensor([[0, 3, 5, 1], [4, 1, 3, 0]])
    group.stack.base.rows = group.data.rows(ids, 0.8, 3)
    batch = group.data.batch(ids, torch.tensor([1, 2]), group.data.capacity(ids))
    losses, _ = group.stack.losses(batch, torch.ones(2, 2), 0.0)
    losses.sum().backward()
    for s, job in enumerate(jobs):
        ready = prepared(job, graphs)
        alone = Batcher(graphs, ready.encoder.encode(graphs)).batch(ids[s].numpy(), s + 1)
        loss = loss_of(ready.model.train()(alone), alone, Classification(("a", "b")), torch.ones(2), 0.0)
        torch.testing.assert_close(losses[s], loss)
        loss.backward()
        for name, weight in ready.model.named_parameters():
            if weight.grad is not None:
                torch.testing.assert_close(group.stack.params[name].grad[s], weight.grad, rtol=1e-4, atol=1e-5)


def test_a_training_reads_the_bonds(tmp_path: Path) -> None:
    """A run by GINE cannot be resumed with other edge labels; one by GIN, which does not read them, can."""
    graphs = GraphSet.join([edge_graphs(4), edge_graphs(5)], "edges")
    other = replace(graphs, edge_category=(graphs.edge_category + 1) % 3)
    plain, weighted = (replace(graphs, edge_weight=w) for w in (None, np.ones(graphs.n_edges, np.float32)))
    assert content_read(graphs) == content_read(other) == content_read(plain) != content_read(weighted)
    assert content_read(graphs, edges=True) != content_read(other, edges=True)
    assert identity_of(graphs, "majority", PAPER.but(conv="gine"), 0, [], "cpu", True)["content"] == content_read(
        graphs
    )
    split = [Split(0, np.array([0, 1, 3, 4]), np.array([5]), np.array([2]))]
    for conv, refused in (("gine", True), ("gin", False)):
        settings = {"conv": conv, "epochs": 1, "width": 4, "splits": split, "out": tmp_path / conv}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnusedDataWarning)
            train(graphs, method="topk", **settings)
            with pytest.raises(UserError, match="data set content") if refused else nullcontext():
                train(other, method="topk", resume=True, **settings)


def transformer(layer: nn.Module, h: Tensor, edge: Tensor, a: Tensor) -> Tensor:
    """The formula in full: an edge of weight a counts as a parallel ones."""
    outs = []
    for head in range(layer.heads):
        d = OUT // layer.heads
        part = slice(head * d, head * d + d)
        query = (h @ layer.query.weight.T + layer.query_bias)[:, part]
        key, value = (h @ linear.weight.T for linear in (layer.key, layer.value))
        score = torch.einsum("pf,pqf->pq", query, key[:, part] + edge[..., part]) / d**0.5
        power = a * score.exp()
        total = power.sum(1, keepdim=True)
        alpha = power / torch.where(total > 0, total, 1.0)
        outs.append(torch.einsum("pq,pqf->pf", alpha, value[:, part] + edge[..., part]))
    return torch.cat(outs, 1) + h @ layer.root.weight.T + layer.bias


@pytest.mark.parametrize("what", ["none", "unread"])
@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.build and name != "oracle"])
def test_edges_without_features_take_no_memory(method: str, compact: bool, what: str) -> None:
    """Neither in a batch nor on any level: COLLAB's edges are five times its other data."""
    graphs = edge_graphs(4)
    if what == "none":
        graphs = replace(graphs, edge_category=None, edge_category_names=(), edge_attributes=None)
    inputs = Inputs(np.zeros((graphs.n_nodes, 1), np.int32), 2, None)
    room = None if compact else Capacity(positions=90, entries=400, graphs=9, cells=900)
    batch = Batcher(graphs, inputs).batch(np.arange(graphs.n_graphs), room=room)
    columns = [name for name in batch._fields if name.startswith("edge_")]
    assert len(columns) == 5
    assert {name: getattr(batch, name).nbytes for name in columns} == dict.fromkeys(columns, 0)
    network = random_network(InputSize(2), method=method, compact=compact, sizes=Sizes.of(graphs.sizes)).eval()
    _, steps = traced(network, batch)
    for level in (steps[0].before, *(step.after for step in steps)):
        assert level.origin.edges is None
        assert sum(weights.nbytes for weights in level.entry_weights) == 0
        if isinstance(level, SparseLevel):
            assert not isinstance(level, WeightedLevel)
            assert len(level.lists.neighbor) > 0
            assert level.edge_numbers.nbytes == 0
        elif isinstance(level, DenseLevel):
            assert level.edge_features is None
