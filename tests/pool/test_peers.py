"""What is special to single methods: fixed shapes, schedules, memory, readouts, and that each can overfit."""

import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from cgipool import train
from cgipool.data import Encoder, GraphSet, motifs, random_splits, read_tu, wl_classes
from cgipool.data.batch import Batcher
from cgipool.errors import UserError
from cgipool.model.build import StructureFree, build_network
from cgipool.model.layers import InputSize
from cgipool.model.level import Level
from cgipool.model.network import Network
from cgipool.model.readout import SumOfReadouts
from cgipool.pool import DGCNN, METHODS, DiffPool, MinCutPool, Sizes, TopKPool
from cgipool.pool.set2set import Attention
from cgipool.pool.vip import loss_weight
from cgipool.training import loop as training_split
from cgipool.training.job import Job
from cgipool.training.loop import Training
from cgipool.training.presets import PAPER
from oracles.dgcnn import rows_kept
from small import (
    SIZES,
    Case,
    case_of,
    double,
    kept_by_graph,
    loss_of,
    objective,
    random_case,
    random_graphs,
    random_network,
    rows,
    traced,
)

NETWORKS = [name for name, method in METHODS.items() if method.build and name != "oracle"]  # it needs sets with truth
CLUSTERS = {"diffpool": DiffPool, "mincut": MinCutPool}

MEASURED = Sizes.of(SIZES)

clusters = pytest.mark.parametrize("method", CLUSTERS)
networks = pytest.mark.parametrize("method", NETWORKS)


def network_of(case: Case, method: str, **options: Any) -> Network:
    return random_network(case.size, **{"method": method, "sizes": MEASURED, **options})


def test_sizes() -> None:
    assert Sizes.of([3]) == (3.0, 3)
    assert Sizes.of([5, 1, 2, 4, 3]) == (3.0, 3)  # three of five are at most 3
    assert Sizes.of(np.array([1, 1, 1, 9])) == (3.0, 1)
    assert Sizes.of([1, 1, 9, 9]) == (5.0, 9)  # half is not enough


@clusters
@pytest.mark.parametrize(
    ("mean", "ratio", "counts"),
    [
        (29.87, 0.8, [24, 20, 16]),
        (29.87, 0.5, [15, 8, 4]),
        (10.0, 1.0, [10, 10, 10]),
        (1.2, 0.1, [1, 1, 1]),
        (29.87, 7, [7, 7, 7]),
        (3.0, 7, [7, 7, 7]),
        (29.87, np.int64(7), [7, 7, 7]),
    ],
)
def test_clusters_follow_from_ratio_and_mean_size(
    method: str, mean: float, ratio: float | int, counts: list[int]
) -> None:
    case = random_case(0)
    network = random_network(case.size, method=method, ratio=ratio, sizes=Sizes(mean, 1)).eval()
    assert [pool.clusters for pool in network.pools] == counts
    _, steps = traced(network, case.batch())
    for step, count in zip(steps, counts, strict=True):
        assert step.after.sizes.tolist() == [count] * len(SIZES)
        assert step.pooled.x.shape == (count * len(SIZES), 8)
        assert f"clusters={count}" in repr(network)


@clusters
def test_clusters_need_the_sizes_unless_counted(method: str) -> None:
    with pytest.raises(
        UserError, match=f"{method} has shapes that depend on the training graphs; it needs their sizes"
    ):
        build_network(InputSize(3), 2, method=method, width=4)
    assert build_network(InputSize(3), 2, method=method, width=4, ratio=5).pools[0].clusters == 5


@pytest.mark.parametrize("method", ["diffpool", "mincut", "dgcnn"])
def test_sizes_are_those_of_the_training_graphs(method: str, tmp_path: Path) -> None:
    graphs = random_graphs(0, [12] * 20 + [30] * 20)
    (split,) = random_splits(graphs, seed=0, indices=[0])
    network = Training(Job(method, PAPER.but(width=8), split, 0, "cpu", tmp_path), graphs).state.network
    own = graphs.sizes[split.train]
    if method == "dgcnn":
        assert network.readout.rows == rows_kept(own.tolist())
    else:
        assert network.pools[0].clusters == math.ceil(0.8 * own.mean())


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_dgcnn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    for count in (1, 2, 5, 10, 37):
        nodes = generator.integers(1, 60, count)
        read = DGCNN(4, sizes=Sizes.of(nodes))
        assert read.rows == rows_kept(nodes.tolist())
        assert read.rows >= 10
        assert (nodes <= read.rows).mean() >= 0.6
    with pytest.raises(UserError, match="dgcnn has shapes"):
        DGCNN(4)


def test_dgcnn_cuts_and_pads() -> None:
    case = random_case(0, sizes=(25, 4, 10), edgeless=())
    network = random_network(case.size, method="dgcnn", sizes=Sizes(13.0, 7)).double().eval()
    given: list[Tensor] = []
    network.readout.first.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    traced(network, double(case.batch()))
    (z,) = given
    assert z.shape == (3, 10, 3 * 8 + 1)
    assert (z[1, 4:] == 0.0).all()
    assert (z[[0, 2]] != 0.0).any(2).all()
    key = z[:, :, -1]
    assert (key[[0, 2]].diff() <= 0.0).all()
    assert (key[1, :4].diff() <= 0.0).all()


def test_weight_of_vertex_infomax() -> None:
    assert [loss_weight(epoch) for epoch in (0, 1, 250, 1000, 1001, 5000)] == [2.0, 1.999, 1.75, 1.0, 1.0, 1.0]
    assert METHODS["vip"].weight(0.001, 500) == 1.5


@pytest.mark.parametrize(
    ("method", "weights"),
    [
        ("vip", [1.999, 1.998, 1.997]),
        ("diffpool", [1.0] * 3),
        ("mincut", [1.0] * 3),
        ("cgi", [0.3] * 3),
        ("cgi-nomi", [0.0] * 3),
    ],
)
def test_the_trainer_weighs_a_methods_own_loss(
    method: str, weights: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = random_graphs(0, [5] * 20, density=0.5)
    (split,) = random_splits(graphs, seed=0, indices=[0])
    recipe = PAPER.but(width=8, batch_size=16, alpha=0.3)
    training = Training(Job(method, recipe, split, 0, "cpu", tmp_path), graphs)
    assert [training.own_weight(epoch) for epoch in (1, 2, 3)] == pytest.approx(weights)
    used: list[float] = []

    def noting(output: Any, batch: Any, task: Any, constants: Tensor, own_weight: float, *rest: Any) -> Tensor:
        used.append(own_weight)
        assert output.own_loss != 0.0
        return loss_of(output, batch, task, constants, own_weight, *rest)

    monkeypatch.setattr(training_split, "objective", noting)
    for _ in weights:
        training.train_epoch()
    assert used == pytest.approx(weights)


def test_a_direction_that_has_decayed_to_nothing() -> None:
    """As weight decay leaves it where a level is dead: its norm underflows in float32."""
    pool, level = TopKPool(5, 0.6), Level.whole(random_case(0).batch(), compact=False)
    torch.nn.init.constant_(pool.p, 1e-30)
    assert pool.p.norm() == 0.0
    pooled = pool(torch.zeros(sum(SIZES), 5), level)
    assert pooled.x.eq(0.0).all()
    pooled.x.sum().backward()
    assert pool.p.grad is not None
    assert pool.p.grad.isfinite().all()


@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
def test_attention_of_set2set_sums_to_one(compact: bool) -> None:
    """Hence where all nodes of a graph are alike, what it reads is what each of them is."""
    whole = Level.whole(double(random_case(0).batch()), compact)
    pooled = TopKPool(5, 0.6).double()(torch.randn(sum(SIZES), 5, dtype=torch.float64), whole)
    level, alike = pooled.level, torch.randn(len(SIZES), 5, dtype=torch.float64)
    attention = Attention(5, 4).double()
    torch.testing.assert_close(attention(alike[level.graph], level)[:, 5:], alike)
    a = level.softmax(torch.randn(len(level.alive), 3, dtype=torch.float64))
    assert ((a > 0.0) == (level.alive > 0.0).unsqueeze(1)).all()
    total = level.sums(torch.ones(len(a), 1, dtype=torch.float64), a).squeeze(2)
    torch.testing.assert_close(total, torch.ones_like(total))


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor holds that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return result


@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
@pytest.mark.parametrize("method", ["asap", "diffpool", "mincut"])
def test_memory_is_that_of_the_graphs_not_of_the_largest(method: str, compact: bool) -> None:
    sizes = [600] + [5] * 60
    case = random_case(0, sizes=sizes, density=0.01, edgeless=())
    batch, cells = case.batch(), sum(n * n for n in sizes)
    assert batch.room.shape == (0, cells)
    assert batch.room.numel() == 0
    network = network_of(case, method, sizes=Sizes.of(sizes), compact=compact, dropout=0.0)
    padded = len(sizes) * 600**2
    tracemalloc.start()
    with Largest() as seen:
        objective(network(batch), batch, torch.ones(3), 1.0).backward()
    _, peak = tracemalloc.get_traced_memory()  # of NumPy, which Largest does not see
    tracemalloc.stop()
    assert seen.numbers <= cells < padded // 50
    assert peak < 4 * padded, "all levels, forth and back, take more than one padded matrix"
    if method == "asap":
        _, steps = traced(network, batch)
        per_level = [int((step.after.sizes if compact else batch.size).square().sum()) for step in steps]
        assert [len(step.after.weight) for step in steps] == per_level


@pytest.mark.parametrize("ratio", [0.3, 0.8, 2])
def test_asap_keeps_the_fittest(ratio: float | int) -> None:
    """PyG's, with its hidden weight negative, keeps the least fit."""
    for seed in range(5):
        case = random_case(seed)
        batch = case.batch()
        _, steps = traced(network_of(case, "asap", seed=seed, ratio=ratio), batch)
        for before, pooled in steps:
            stays = kept_by_graph(pooled.level, batch)
            phi = pooled.scores["phi"]
            for g, nodes in enumerate(kept_by_graph(before, batch)):
                here = rows(before)[before.graph[rows(before)] == g]
                fit = dict(zip(nodes, phi[here].tolist(), strict=True))
                gone = [fit[node] for node in nodes if node not in stays[g]]
                assert not gone or min(fit[node] for node in stays[g]) >= max(gone)


READ = {
    "max-mean": lambda x: np.concatenate([x.max(0), x.mean(0)]),
    "mean": lambda x: x.mean(0),
    "max": lambda x: x.max(0),
    "sum": lambda x: x.sum(0),
}


@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
@pytest.mark.parametrize("readout", READ)
@pytest.mark.parametrize("method", ["topk", "asap", "diffpool"])
def test_readouts_by_name(method: str, readout: str, compact: bool) -> None:
    case = random_case(0)
    network = network_of(case, method, readout=readout, compact=compact).double().eval()
    given: list[Tensor] = []
    network.head[0].register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    _, steps = traced(network, double(case.batch()))
    expected = np.zeros(given[0].shape)
    for _, pooled in steps:
        here = rows(pooled.level)
        x, graph = pooled.x[here].numpy(), pooled.level.graph[here].numpy()
        expected += [READ[readout](x[graph == g]) for g in range(len(SIZES))]
    np.testing.assert_allclose(given[0], expected, rtol=1e-9, atol=1e-9)
    assert repr(network.readout) == f"SumOfReadouts({readout})"


def test_unknown_readout() -> None:
    message = r"unknown readout 'maxmean'; did you mean 'max-mean'\? known: max, max-mean, mean, sum"
    with pytest.raises(UserError, match=message):
        SumOfReadouts(4, "maxmean")
    with pytest.raises(UserError, match=message):
        build_network(InputSize(3), 2, width=4, readout="maxmean")
    with pytest.raises(UserError, match=message):
        PAPER.but(readout="maxmean")


@networks
@pytest.mark.parametrize("levels", [1, 2, 4])
@pytest.mark.parametrize("conv", ["gcn", "gin", "sage"])
@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
def test_every_backbone_builds_and_learns(method: str, levels: int, conv: str, compact: bool) -> None:
    case = random_case(0)
    batch = case.batch()
    network = network_of(case, method, levels=levels, conv=conv, compact=compact).train()
    output = network(batch)
    assert output.logits.shape == (len(SIZES), 3)
    objective(output, batch, torch.ones(3), 1.0).backward()
    assert all(weight.grad.isfinite().all() for weight in network.parameters() if weight.grad is not None)
    assert len(network.pools) == len(network.convs) == levels
    metrics = network.eval()(batch).metrics
    assert all(values.shape == (levels,) for values in metrics.values())


@networks
@pytest.mark.parametrize("factor", [0.0, 1e4])
@pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])
def test_extreme_features_stay_finite(method: str, factor: float, compact: bool) -> None:
    """Softmaxes do not overflow, and no root or logarithm has an infinite slope where all nodes are alike."""
    case = random_case(0)
    batch = case.batch()
    batch = batch._replace(floats=batch.floats * factor)
    network = network_of(case, method, compact=compact, dropout=0.0).train()
    output = network(batch)
    objective(output, batch, torch.ones(3), 1.0).backward()
    assert output.logits.isfinite().all()
    assert output.own_loss.isfinite()
    for name, weight in network.named_parameters():
        assert weight.grad is None or weight.grad.isfinite().all(), name


def test_majority_is_the_share_of_the_most_frequent_class() -> None:
    graphs = motifs(100)
    splits = random_splits(graphs, seed=0, indices=[0, 1])
    result = train(graphs, method="majority", splits=splits)
    for row, split in zip(result.rows, splits, strict=True):
        usual = np.bincount(graphs.y[split.train]).argmax()
        assert row["test"]["accuracy"] == pytest.approx((graphs.y[split.test] == usual).mean())
        assert row["epochs"] == 0
        assert row["parameters"] == 0


def rewired(graphs: GraphSet, seed: int) -> GraphSet:
    """The same nodes with other edges."""
    other = random_graphs(seed, graphs.sizes.tolist(), density=0.6, edgeless=())
    return GraphSet.from_edges(
        graphs.name,
        graphs.sizes,
        other.edge_source,
        other.edge_source + other.edge_disp,
        graphs.y,
        class_names=graphs.class_names,
        attributes=graphs.attributes,
        category=graphs.category,
        category_names=graphs.category_names,
    )


def test_structure_free_does_not_look_at_edges() -> None:
    case = random_case(0, "both")
    other = case_of(rewired(case.graphs, 9), "both")
    assert case.batch().neighbor.tolist() != other.batch().neighbor.tolist()
    model = StructureFree(case.size, 3, width=8).eval()
    assert torch.equal(model(case.batch()).logits, model(other.batch()).logits)
    network = network_of(case, "none").eval()
    assert not torch.equal(network(case.batch()).logits, network(other.batch()).logits)


@pytest.fixture(scope="module")
def molecules(tu_archive: Callable[[str], Path]) -> GraphSet:
    """32 graphs of NCI1, half of them of each class, none of which has a twin in the set."""
    graphs = read_tu(tu_archive("NCI1"))
    kind = wl_classes(graphs)
    alone = np.flatnonzero(np.bincount(kind)[kind] == 1)
    return graphs.subset(np.concatenate([alone[graphs.y[alone] == c][:16] for c in range(2)]))


STEPS = 400
"""At most. A method needs 20 to 110, by the seed."""


@networks
def test_learns_32_molecules_by_heart(method: str, molecules: GraphSet, one_thread: None) -> None:
    encoder = Encoder.fit(molecules)
    batcher, ids = Batcher(molecules, encoder.encode(molecules)), np.arange(32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        inputs = InputSize(encoder.columns, 0, encoder.others)
        network = build_network(inputs, 2, method=method, dropout=0.0, sizes=Sizes.of(molecules.sizes))
    network.compact = True
    optimizer, right = torch.optim.Adam(network.parameters(), lr=0.005), 0
    for step in range(1, STEPS + 1):
        batch = batcher.batch(ids, step)
        loss = objective(network.train()(batch), batch, torch.ones(2), METHODS[method].weight(PAPER.alpha, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0 and (right := correct(network, batcher.batch(ids))) == 32:
            break
    print(f"{method}: {step} steps")
    assert right == 32, f"{right} of 32 after {step} steps"


def correct(network: nn.Module, batch: Any) -> int:
    with torch.no_grad():
        return int((network.eval()(batch).logits.argmax(1) == batch.y).sum())
