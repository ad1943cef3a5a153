"""The layers as modules: precision, compilation, copies, and weights that all learn."""

import copy
import sys
import types

import pytest
import torch
from pyg_batches import DIM, LAYERS, Graphs, double, random_batch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GraphConv, summary

from cgipool.nn import ASAPooling, CGIPooling, PoolingOutput, SAGPooling

MODULES = {
    **LAYERS,
    "cgi-gat": lambda dim, ratio=0.8: CGIPooling(dim, ratio, GNN=GATConv),
    "sag-graph": lambda dim, ratio=0.8: SAGPooling(dim, ratio, GNN=GraphConv, aggr="mean"),
    "asap-gcn": lambda dim, ratio=0.8: ASAPooling(dim, ratio, GNN=GCNConv),
}

every = pytest.mark.parametrize("name", MODULES)

WITH_LOSS = {"cgi", "cgi-kl", "cgi-rs", "cgi-gat", "released", "released-rs", "vip", "vip-2"}


def single(graphs: Graphs) -> Graphs:
    return graphs._replace(x=graphs.x.float(), edge_attr=graphs.edge_attr.float())


def run(layer: nn.Module, graphs: Graphs) -> PoolingOutput:
    torch.manual_seed(1)
    return layer(graphs.x, graphs.edge_index, None, graphs.batch)


def equal(a: PoolingOutput, b: PoolingOutput) -> bool:
    parts = zip((*a, a.aux_loss), (*b, b.aux_loss), strict=True)
    return all(one is other is None or torch.equal(one, other) for one, other in parts)


@every
def test_gradients_reach_every_weight(name: str) -> None:
    graphs, layer = random_batch(1), double(MODULES[name](DIM, 0.5))
    out = run(layer, graphs)
    total = (out.x * torch.randn_like(out.x)).sum() + out.aux_loss
    total = total if out.edge_attr is None else total + (out.edge_attr.square()).sum()
    total.backward()
    for key, parameter in layer.named_parameters():
        assert parameter.grad is not None, key
        assert bool(parameter.grad.isfinite().all()), key
        assert float(parameter.grad.abs().max()) > 0.0, key


@every
def test_own_loss(name: str) -> None:
    out = run(MODULES[name](DIM), single(random_batch(0)))
    assert out.aux_loss.requires_grad == (name in WITH_LOSS)
    assert (out.aux_loss.item() != 0.0) == (name in WITH_LOSS)


@every
def test_autocast(name: str) -> None:
    """Features may come in half precision; the choice is that of full precision."""
    graphs, layer = single(random_batch(0)), MODULES[name](DIM, 0.5).eval()
    expected = run(layer, graphs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = run(layer, graphs)
        half = run(layer, graphs._replace(x=graphs.x.bfloat16().requires_grad_()))
        again = run(layer, graphs._replace(x=graphs.x.bfloat16().float()))
    assert equal(out, expected)
    assert half.x.dtype == torch.bfloat16
    assert half.perm.tolist() == again.perm.tolist()
    torch.testing.assert_close(half.x, again.x.bfloat16())
    (half.x.sum().float() + half.aux_loss).backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in layer.parameters())


class Net(nn.Module):
    """A layer and a pool, twice; what the pools give is used by name, by place and by its loss."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(DIM, 8), nn.Linear(8, 8)
        self.pools = nn.ModuleList([MODULES[name](8, 0.7), MODULES[name](8, 0.7)])

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor, PoolingOutput]:
        out = self.pools[0](self.first(x).relu(), edge_index, None, batch)
        x, edge_index, _, batch, _, _ = out
        last = self.pools[1](self.second(x).relu(), edge_index, None, batch)
        return last.x.square().sum(1), out.aux_loss + last.aux_loss, last


# At a graph break torch asks tensors for their gradients, and hides the warning from people but not from a filter.
compiling = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@compiling
@pytest.mark.parametrize("name", ["cgi", "cgi-rs", "vip", "topk", "asap", "sag-graph"])
def test_compiled_is_as_it_was(name: str) -> None:
    torch._dynamo.reset()
    model = Net(name)
    compiled = torch.compile(model, backend="aot_eager")
    for seed in (0, 1, 2):  # of other shapes than the first: it is not compiled for one batch
        graphs = single(random_batch(seed, sizes=(9 + seed, 1, 7, 12, 10)))
        found = []
        for one in (model, compiled):
            torch.manual_seed(0)
            read, loss, last = one(graphs.x, graphs.edge_index, graphs.batch)
            assert isinstance(last, PoolingOutput)
            total = read.sum() + loss
            by = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
            found.append((last.perm.tolist(), [total, *(g for g in by if g is not None)]))
        assert found[0][0] == found[1][0]
        torch.testing.assert_close(found[0][1], found[1][1])


@compiling
def test_a_compiled_model_breaks_at_the_layers_alone() -> None:
    torch._dynamo.reset()
    graphs = single(random_batch(0))
    told = torch._dynamo.explain(Net("cgi"))(graphs.x, graphs.edge_index, graphs.batch)
    assert ["PoolingLayer.forward" in found.reason for found in told.break_reasons] == [True, True]


@every
def test_weights_survive(name: str) -> None:
    graphs, layer = single(random_batch(2)), MODULES[name](DIM, 0.5)
    other = MODULES[name](DIM, 0.5)
    assert not equal(run(layer, graphs), run(other, graphs))
    other.load_state_dict(layer.state_dict())
    assert equal(run(layer, graphs), run(other, graphs))


@every
def test_copies(name: str) -> None:
    graphs, layer = single(random_batch(2)), MODULES[name](DIM, 0.5)
    expected = run(layer, graphs)
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1.0)
    assert equal(run(twin, graphs), expected)
    assert repr(twin) == repr(layer)
    for other in (copy.copy(expected), expected._replace(score=None)):
        assert other.aux_loss is expected.aux_loss
        assert other.x is expected.x


@every
def test_double_precision(name: str) -> None:
    graphs = random_batch(0)
    out = run(MODULES[name](DIM, 0.5).to(torch.float64), graphs)
    assert (out.x.dtype, out.score.dtype, out.aux_loss.dtype) == (torch.float64,) * 3


@every
def test_reset_draws_as_a_new_layer_does(name: str) -> None:
    graphs = single(random_batch(1))
    layer, before = MODULES[name](DIM, 0.5), None
    pointers = [p.data_ptr() for p in layer.parameters()]
    for seed in (0, 1):
        torch.manual_seed(seed)
        layer.reset_parameters()
        torch.manual_seed(seed)
        new = MODULES[name](DIM, 0.5)
        assert equal(run(layer, graphs), run(new, graphs))
        state = torch.cat([p.detach().flatten() for p in layer.parameters()])
        assert before is None or not torch.equal(state, before)
        before = state
    assert [p.data_ptr() for p in layer.parameters()] == pointers, "an optimizer would hold the old weights"


@pytest.mark.parametrize("name", ["cgi", "released", "sag", "topk", "asap"])
def test_a_layer_without_draws_leaves_the_generator_alone(name: str) -> None:
    layer, graphs = MODULES[name](DIM, 0.5), single(random_batch(1))
    before = torch.get_rng_state()
    layer(graphs.x, graphs.edge_index, None, graphs.batch)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["cgi-rs", "released-rs", "vip"])
def test_negatives_are_drawn_afresh_but_in_evaluation_change_nothing(name: str) -> None:
    layer, graphs = MODULES[name](DIM, 0.5).eval(), single(random_batch(1))
    first, second = (layer(graphs.x, graphs.edge_index, None, graphs.batch) for _ in range(2))
    assert first.aux_loss.item() != second.aux_loss.item()
    assert torch.equal(first.x, second.x)


@every
def test_summary_of_pyg(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = types.SimpleNamespace(tabulate=lambda content, **options: content)
    monkeypatch.setitem(sys.modules, "tabulate", rows)  # what lays the table out
    graphs, model = single(random_batch(0)), Net(name)
    table = summary(model, graphs.x, graphs.edge_index, graphs.batch, max_depth=5)
    pool = type(model.pools[0]).__name__
    (row,) = [row for row in table if row[0].endswith(f"(0){pool}")]
    nodes, edges = len(graphs.x), graphs.edge_index.shape[1]
    assert row[1].startswith(f"[{nodes}, 8], [2, {edges}]")
    assert row[3] == f"{sum(p.numel() for p in model.pools[0].parameters()):,}"
