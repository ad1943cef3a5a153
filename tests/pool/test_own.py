"""Pools of the user's own: a class by its name, and layers of PyG's conventions run unchanged."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import EdgePooling, GCNConv, SAGPooling, TopKPooling

from cgipool.data import GraphSet, Inputs
from cgipool.data.batch import Batcher
from cgipool.errors import UserError
from cgipool.model.level import Level
from cgipool.model.network import Network
from cgipool.pool import Pooled, method_named
from cgipool.pool.pyg import PyGPool
from small import SIZES, Case, adjacency, double, objective, random_case, random_network, traced

HERE = __name__
PYG = [f"torch_geometric.nn:{layer}" for layer in ("TopKPooling", "SAGPooling", "ASAPooling", "EdgePooling")]
sparse_warns = pytest.mark.filterwarnings("ignore:Sparse")  # torch on ASAPooling's matrices


class Half(nn.Module):
    """Keeps all nodes at half their size.

    More is said below the first line.
    """

    own_loss = 0.25

    def __init__(self, dim: int, levels: int, site: int, extra: str = "default") -> None:
        super().__init__()
        self.told = (dim, levels, site, extra)
        self.weight = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor, level: Level) -> Pooled:
        return Pooled(x * self.weight, level, {"weight": self.weight.square()})


class Falling(Half):
    @staticmethod
    def own_loss(epoch: int) -> float:
        return 1.0 / epoch


class WrongWeight(Half):
    own_loss = "much"


class NeedsMore(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, level: Level) -> Pooled:
        return Pooled(x, level)


class OneArgument(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class OfTgp(nn.Module):
    def forward(self, x: Tensor, adj: Tensor, edge_weight: Tensor | None = None, so: Any = None) -> Tensor:
        return x


class Unannotated(nn.Module):
    def forward(self, x, adj):
        return x


class SecondTensor(nn.Module):
    def forward(self, x: Tensor, connections: "Tensor") -> Tensor:
        return x


class OtherName(Half):
    def forward(self, x: Tensor, batch: Level) -> Pooled:
        return super().forward(x, batch)


class SAGWithGCN(SAGPooling):
    """SAGPooling as its paper has it: PyG's default is another convolution."""

    def __init__(self, in_channels: int, ratio: float | int = 0.5) -> None:
        super().__init__(in_channels, ratio, GNN=GCNConv)


def not_a_class() -> None:
    pass


def network_of(case: Case, method: str, **options: Any) -> Network:
    return random_network(case.size, 3, method=method, compact=True, **options).double().eval()


def test_a_class_by_its_name() -> None:
    method = method_named(f"{HERE}:Half")
    assert (method.title, method.about, method.paper) == ("Half", "Keeps all nodes at half their size.", f"{HERE}:Half")
    assert method.fast
    assert method.weight(alpha=7.0, epoch=3) == 0.25
    assert method_named(f"{HERE}:Falling").weight(7.0, 4) == 0.25
    assert method_named("torch_geometric.nn:SAGPooling").weight(7.0, 4) == 1.0
    assert not method_named("torch_geometric.nn:SAGPooling").fast


def test_a_level_may_have_any_name() -> None:
    assert method_named(f"{HERE}:OtherName").fast


def test_it_is_given_what_it_names() -> None:
    case = random_case(0)
    network = network_of(case, f"{HERE}:Half", width=6, levels=2)
    assert [pool.told for pool in network.pools] == [(6, 2, 0, "default"), (6, 2, 1, "default")]
    output = network(double(case.batch()))
    torch.testing.assert_close(output.own_loss, torch.tensor(0.25, dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"{HERE}:Nothing", f"{HERE} has no Nothing"),
        ("no_such_module:Pool", "cannot import no_such_module: No module named 'no_such_module'"),
        ("cgipool.no_such_part:Pool", "cannot import cgipool.no_such_part"),
        (f"{HERE}:not_a_class", "is not a class of torch modules"),
        (f"{HERE}:SIZES", "is not a class of torch modules"),
        (f"{HERE}:", "name your own class as package.module:Class"),
        (":Pool", "name your own class as package.module:Class"),
        ("a/file.py:Pool", "name your own class as package.module:Class"),
        (f"{HERE}:OneArgument", r"forward must take \(x, level\)"),
        (f"{HERE}:OfTgp", r"forward must take \(x, level\), or .* not \(x, adj, edge_weight, so\)"),
        (f"{HERE}:Unannotated", r"not \(x, adj\)"),
        (f"{HERE}:SecondTensor", r"not \(x, connections\)"),
        (f"{HERE}:NeedsMore", "needs an argument 'heads', but only dim, ratio,"),
        ("torch_geometric.nn:MemPooling", r"not \(x, batch, mask"),
        (f"{HERE}:WrongWeight", "own_loss must be a number or a function of the epoch, not 'much'"),
    ],
)
def test_names_that_are_no_method(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        method_named(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import no_such_thing\n", "No module named 'no_such_thing'"),
        ("import os\nos.no_such_name\n", "AttributeError"),
    ],
)
def test_a_module_that_cannot_be_imported(text: str, said: str, tmp_path, monkeypatch) -> None:
    (tmp_path / "unsound_pools.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"cannot import unsound_pools: .*{said}"):
        method_named("unsound_pools:Pool")


@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0, 3, np.float32(1.0), np.int64(3)])
def test_the_adapter_of_topk_is_our_topk(ratio: float | int) -> None:
    case = random_case(4)
    ours, theirs = (network_of(case, m, ratio=ratio) for m in ("topk", "torch_geometric.nn:TopKPooling"))
    weights = {name.replace(".p", ".layer.select.weight"): w for name, w in ours.state_dict().items()}
    theirs.load_state_dict({n: w.view(1, -1) if n.endswith("select.weight") else w for n, w in weights.items()})
    same(ours, theirs, case)


@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0])
def test_the_adapter_of_sagpooling_is_our_sagpool(ratio: float) -> None:
    case = random_case(4)
    ours, theirs = (network_of(case, m, ratio=ratio) for m in ("sag", f"{HERE}:SAGWithGCN"))
    layer = {".gnn.linear.weight": ".layer.gnn.lin.weight", ".gnn.bias": ".layer.gnn.bias"}
    weights = {}
    for name, weight in ours.state_dict().items():
        for mine, other in layer.items():
            name = name.replace(mine, other)
        weights[name] = weight
    weights |= {f"pools.{level}.layer.select.weight": torch.ones(1, 1) for level in range(3)}  # see SAGPool
    theirs.load_state_dict(weights)
    same(ours, theirs, case)


def same(ours: Network, theirs: Network, case: Case) -> None:
    batch = double(case.batch())
    mine, other = ours(batch), theirs(batch)
    torch.testing.assert_close(other.logits, mine.logits, rtol=1e-6, atol=1e-6)
    even = torch.ones(3, dtype=torch.float64)
    for output in (mine, other):
        objective(output, batch, even, 1.0).backward()
    for a, b in zip(ours.convs.parameters(), theirs.convs.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-6, atol=1e-6)


@sparse_warns
@pytest.mark.parametrize("name", PYG)
def test_layers_of_pyg_run_unchanged(name: str) -> None:
    case = random_case(5)
    network = random_network(case.size, 3, method=name, compact=True).train()
    batch = case.batch()
    output, steps = traced(network, batch)
    assert output.logits.isfinite().all()
    for step in steps:
        level = step.after
        assert torch.equal(level.graph, torch.repeat_interleave(torch.arange(len(SIZES)), level.sizes))
        assert (level.sizes >= 1).all()
        a = adjacency(level)
        torch.testing.assert_close(a, a.T)
        assert not a[level.graph[:, None] != level.graph].any()
    objective(network(batch), batch, torch.ones(3), 1.0).backward()
    with pytest.raises(UserError, match="needs compact levels"):
        random_network(case.size, method=name)(batch)


def test_clusters_of_edgepooling_stay_with_their_graph() -> None:
    """Its clusters are numbered over the whole batch, by score."""
    case = random_case(6, sizes=(6, 5, 7))
    layer = PyGPool(EdgePooling, 4).layer
    x, level = case.batch().floats, Level.whole(case.batch(), compact=True)
    row_ptr, neighbor = level.edges
    edge_index = torch.stack([neighbor.long(), torch.repeat_interleave(torch.arange(len(x)), torch.diff(row_ptr))])
    theirs, edges, graph, _ = layer(x, edge_index, level.graph)
    assert (torch.diff(graph) < 0).any()
    pool = PyGPool(EdgePooling, 4)
    pool.layer = layer
    pooled = pool(x, level)
    order = torch.argsort(graph, stable=True)
    torch.testing.assert_close(pooled.x, theirs[order])
    dense = torch.zeros(len(graph), len(graph)).index_put((edges[1], edges[0]), torch.tensor(1.0), accumulate=True)
    dense.fill_diagonal_(0.0)
    torch.testing.assert_close(adjacency(pooled.level), dense[order][:, order])


class Draws(TopKPooling):
    """Drops features at random, by torch's generator."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr=None, batch=None, attn=None) -> tuple:
        x = nn.functional.dropout(x, 0.5, self.training)
        return super().forward(x, edge_index, edge_attr, batch, attn)


def test_draws_of_a_layer_follow_the_key() -> None:
    case = random_case(7)
    network = random_network(case.size, method=f"{HERE}:Draws", compact=True, dropout=0.0).train()
    seen = []
    for seed, key in ((0, 1), (1, 1), (1, 2)):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        seen.append(network(case.batch(key=key)).logits)
        assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])


class Gives(nn.Module):
    """A layer that keeps every node and gives its result as `form` says."""

    form: Any

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Any:
        return type(self).form(x, edge_index, torch.full((edge_index.shape[1],), 2.0), batch)


def given(form: Any) -> Pooled:
    case = random_case(8)
    layer = type("Given", (Gives,), {"form": staticmethod(form)})
    return PyGPool(layer, 4)(case.batch().floats, Level.whole(case.batch(), compact=True))


@pytest.mark.parametrize(
    ("form", "weighted", "losses"),
    [
        (lambda x, e, w, b: (x, e, w, b, torch.arange(len(x)), None), True, []),
        (lambda x, e, w, b: (x, e, w, b), True, []),
        (lambda x, e, w, b: (x, e, None, b), False, []),
        (lambda x, e, w, b: (x, e, b), False, []),
        (lambda x, e, w, b: SimpleNamespace(x=x, edge_index=e, edge_weight=w, batch=b), True, []),
        (lambda x, e, w, b: SimpleNamespace(x=x, edge_index=e, edge_attr=w.view(-1, 1), batch=b), True, []),
        (lambda x, e, w, b: SimpleNamespace(x=x, edge_index=e, batch=b, loss=w.sum()), False, ["own"]),
        (lambda x, e, w, b: Data(x=x, edge_index=e, edge_weight=w, batch=b, loss=None, aux_loss=w[0]), True, ["own"]),
    ],
)
def test_results_that_are_understood(form: Any, weighted: bool, losses: list[str]) -> None:
    """Also where an attribute is there and None, as the edge_attr of PyG's `Data` is."""
    pooled = given(form)
    values = adjacency(pooled.level).unique().tolist()
    assert values == ([0.0, 2.0] if weighted else [0.0, 1.0])
    assert list(pooled.losses) == losses


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (lambda x, e, w, b: x, "Given must return .*, not a Tensor"),
        (lambda x, e, w, b: (x, e), "not a tuple of 2"),
        (lambda x, e, w, b: (x, e, b[1:]), "a batch with the graph of each of its 36 nodes"),
        (lambda x, e, w, b: (x, e, w, None, None), "a batch with the graph of each of its 36 nodes"),
        (lambda x, e, w, b: (x, x, b), r"an edge_index \[2, E\]"),
    ],
)
def test_results_that_are_not(form: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        given(form)


class Seen(nn.Module):
    def __init__(self, in_channels: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None, batch: Any = None) -> tuple:
        self.seen = dict(zip(map(tuple, edge_index.T.tolist()), edge_attr.tolist(), strict=True))
        return x, edge_index, edge_attr, batch, torch.arange(len(x))


def test_a_layer_of_pyg_gets_the_weight_of_each_edge() -> None:
    weight = np.array([0.5, 2.0, 3.0, 4.0], np.float32)
    graphs = GraphSet.from_edges("weighted", [3], [0, 1, 1, 2], [1, 0, 2, 1], [-1], class_names=(), edge_weight=weight)
    batch = Batcher(graphs, Inputs(np.zeros((3, 0), np.int32), 0, None)).batch(np.array([0]))
    pool = PyGPool(Seen, 2)
    pool(torch.ones(3, 2), Level.whole(batch, compact=True))
    assert pool.layer.seen == {(0, 1): 0.5, (1, 0): 2.0, (1, 2): 3.0, (2, 1): 4.0}
