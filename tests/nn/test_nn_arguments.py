"""Arguments of PyG's layers mean here what they mean there, or are refused in one line."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from pyg_batches import DIM, close, dense, random_batch, without_ties
from torch import Tensor, nn
from torch_geometric import nn as pyg

from cgipool.errors import UserError
from cgipool.nn import ASAPooling, CGIPooling, SAGPooling, TopKPooling

PAIRS = [(TopKPooling, pyg.TopKPooling), (SAGPooling, pyg.SAGPooling), (ASAPooling, pyg.ASAPooling)]

pairs = pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[ours.__name__ for ours, _ in PAIRS])


@pairs
def test_same_arguments_in_the_same_places(ours: type, theirs: type) -> None:
    for method in ("__init__", "forward"):
        mine, known = (list(inspect.signature(getattr(c, method)).parameters.values()) for c in (ours, theirs))
        assert [(p.name, p.kind) for p in mine[: len(known)]] == [(p.name, p.kind) for p in known]
        differ = [p.name for p, other in zip(mine, known, strict=False) if p.default != other.default]
        assert differ == (["GNN"] if (ours, method) == (SAGPooling, "__init__") else [])


def pyg_asap(ours: ASAPooling, **options: Any) -> nn.Module:
    """PyG's layer with the weights of ours. Its LEConv is Σ_j (W₁ x_j − W₂ x_i) + W₃ x_i, and W₂ has no bias there."""
    theirs, pool = pyg.ASAPooling(DIM, **options).double(), ours.pool
    pool.fitness.bias.data[1] = 0.0
    one, two, three = pool.fitness.weight.split(1)
    theirs.gnn_intra_cluster.load_state_dict(pool.gnn.layer.state_dict())
    theirs.lin.load_state_dict(pool.query.state_dict())
    weight = torch.cat([pool.attend_query.weight, pool.attend_node.weight], 1)
    theirs.att.load_state_dict({"weight": weight, "bias": pool.attend_query.bias})
    theirs.gnn_score.load_state_dict(
        {
            "lin1.weight": -three,
            "lin1.bias": -pool.fitness.bias[2:],
            "lin2.weight": -two,
            "lin3.weight": one,
            "lin3.bias": pool.fitness.bias[:1],
        }
    )
    theirs.select.weight.data.fill_(1.0)
    return theirs


ASAP_OPTIONS: list[dict[str, Any]] = [
    {"GNN": pyg.GCNConv, "add_self_loops": True},
    {"GNN": pyg.GCNConv, "negative_slope": 0.7},
    {"GNN": pyg.GCNConv, "negative_slope": 0.0, "ratio": 3},
    {"GNN": pyg.GCNConv, "dropout": 0.3},
    {"GNN": pyg.GCNConv, "dropout": 0.6, "add_self_loops": True, "ratio": 0.8},
    {"GNN": pyg.GCNConv, "improved": True},
    {"GNN": pyg.GraphConv},
    {"GNN": pyg.GraphConv, "aggr": "mean", "bias": False, "ratio": 0.3},
    {"GNN": pyg.LEConv, "add_self_loops": True, "ratio": 1},
]


def dropout_by_value(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Dropout that drops the same coefficients in whichever order they come."""
    return torch.where((1e4 * x).frac() < p, 0.0, x / (1.0 - p)) if training and p > 0.0 else x


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize(
    "options", ASAP_OPTIONS, ids=lambda o: "-".join(f"{k}={v}" for k, v in o.items() if k != "GNN")
)
@pytest.mark.parametrize("seed", range(3))
def test_asap_is_pygs(seed: int, options: dict[str, Any], training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.functional, "dropout", dropout_by_value)
    graphs = random_batch(seed, directed=seed == 2)
    edge_index = graphs.edge_index.unique(dim=1)  # to PyG's attention two parallel edges are two nodes
    ours = ASAPooling(DIM, **options).double().train(training)
    theirs = pyg_asap(ours, **options).train(training)
    ones = torch.ones(edge_index.shape[1], dtype=torch.float64)  # PyG's LEConv does not read weights
    out = ours(graphs.x, edge_index, edge_weight=ones, batch=graphs.batch)
    x, edges, weight, batch, perm = theirs(graphs.x, edge_index, edge_weight=ones, batch=graphs.batch)

    assert without_ties(out, graphs.batch, "phi")
    mine, other = out.perm.argsort(), perm.argsort()  # by node: two with the same neighbours have the same fitness
    assert out.perm[mine].tolist() == perm[other].tolist()
    assert out.batch.tolist() == batch.tolist()
    close(out.x[mine], x[other])
    nodes = len(perm)
    close(
        dense(out.edge_index, out.edge_attr, nodes)[mine][:, mine], dense(edges, weight, nodes)[other][:, other], 1e-8
    )
    loops = [int((pair[0] == pair[1]).sum()) for pair in (out.edge_index, edges)]
    assert loops == [nodes if options.get("add_self_loops") else 0] * 2
    if not (training and options.get("dropout")):  # PyG keeps an edge that dropout has left without weight
        assert out.edge_index.shape == edges.shape


def test_asap_by_pygs_example() -> None:
    """Four joined nodes, as in PyG's own test: two are kept, with two edges and two loops."""
    edge_index = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], [1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2]])
    out = ASAPooling(16, GNN=pyg.GCNConv, add_self_loops=True)(torch.randn(4, 16), edge_index)
    assert out.edge_index.shape == (2, 4)


def test_dropout_of_asap_is_of_training_only_and_not_of_the_gnn() -> None:
    graphs = random_batch(0)
    layer = ASAPooling(DIM, GNN=pyg.GATConv, heads=1, dropout=0.5).double()
    assert layer.pool.gnn.layer.dropout == 0.0
    one, other = (layer(graphs.x, graphs.edge_index, batch=graphs.batch).scores["phi"] for _ in range(2))
    assert not torch.allclose(one, other)
    layer.eval()
    one, other = (layer(graphs.x, graphs.edge_index, batch=graphs.batch).scores["phi"] for _ in range(2))
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: TopKPooling(8, min_score=0.2), "TopKPooling does not support min_score=0.2: "),
        (lambda: TopKPooling(8, 0.5, None, 2.0), "TopKPooling does not support multiplier=2.0: "),
        (lambda: SAGPooling(8, GNN=pyg.GraphConv, min_score=0.2), "SAGPooling does not support min_score=0.2: "),
        (lambda: SAGPooling(8, nonlinearity="relu"), "SAGPooling does not support nonlinearity='relu': "),
        (lambda: SAGPooling(8, aggr="mean"), "unknown arguments aggr: they are for a GNN class"),
        (lambda: CGIPooling(8, GNN=pyg.GraphConv, multiplier=3), "CGIPooling does not support multiplier=3: "),
        (lambda: ASAPooling(8, dropout=1.5), "ASAPooling: dropout must be a probability, not 1.5"),
        (
            lambda: ASAPooling(4)(torch.randn(1, 4), torch.zeros(2, 1).long(), torch.ones(1), edge_attr=torch.ones(1)),
            "edge_weight and edge_attr are both given",
        ),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(UserError) as error:
        wrong()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_what_changes_nothing_is_accepted() -> None:
    for layer in (
        TopKPooling(8, 0.5, None, 1, "tanh"),
        SAGPooling(8, 0.5, pyg.GraphConv, None, 1.0, torch.tanh, aggr="mean"),
        CGIPooling(8, GNN=pyg.GraphConv, min_score=None, multiplier=1.0, nonlinearity="tanh"),
    ):
        assert len(layer(torch.randn(4, 8), torch.zeros(2, 0, dtype=torch.long)).perm) in (2, 4)
