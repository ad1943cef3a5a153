"""The layers beside PyG's: its tests restated, the same numbers in the same order, one line to change in a model."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from pyg_batches import DIM, LAYERS, Graphs, close, dense, double, random_batch, without_ties
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from cgipool import ops
from cgipool.errors import UserError
from cgipool.nn import ASAPooling, CGIPooling, PoolingOutput, SAGPooling, TopKPooling, VIPooling

COMPLETE = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], [1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2]])
"""Four nodes, all joined."""

seeded = pytest.mark.parametrize("seed", range(4))


@pytest.mark.parametrize("name", LAYERS)
def test_shapes(name: str) -> None:
    x, attr = torch.randn(4, 16), torch.randn(12)
    out = LAYERS[name](16, 0.5)(x, COMPLETE, attr.exp())
    assert isinstance(out, PoolingOutput)
    assert isinstance(out, tuple)
    assert len(out) == 6
    assert [tuple(part.shape) for part in out] == [(2, 16), (2, 2), (2,), (2,), (2,), (2,)]
    assert out.batch.tolist() == [0, 0]
    pooled, edge_index, edge_attr, batch, perm, score = out
    assert (out.x is pooled, out.edge_index is edge_index, out.edge_attr is edge_attr) == (True, True, True)
    assert (out.batch is batch, out.perm is perm, out.score is score) == (True, True, True)
    assert out.aux_loss.shape == ()


@pytest.mark.parametrize("name", LAYERS)
def test_the_ratio_is_an_attribute_as_in_pyg(name: str) -> None:
    layer = LAYERS[name](16, 0.5)
    assert layer.ratio == 0.5
    layer.ratio = 3
    assert len(layer(torch.randn(4, 16), COMPLETE).perm) == 3
    with pytest.raises(UserError, match="ratio must be a share"):
        layer.ratio = 0.0


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (CGIPooling(64), "CGIPooling(GCN, 64, ratio=0.8)"),
        (CGIPooling(64, 5, GNN=pyg.GATConv), "CGIPooling(GATConv, 64, ratio=5)"),
        (CGIPooling(16, mi="kl", negative="random"), "CGIPooling(GCN, 16, ratio=0.8, mi='kl', negative='random')"),
        (CGIPooling(16, form="released"), "CGIPooling(GraphConv, 16, ratio=0.8, form='released')"),
        (VIPooling(16), "VIPooling(16, ratio=0.8)"),
        (VIPooling(16, 0.5, hops=2), "VIPooling(16, ratio=0.5, hops=2)"),
        (SAGPooling(16), "SAGPooling(GCN, 16, ratio=0.5)"),
        (SAGPooling(16, GNN=pyg.SAGEConv), "SAGPooling(SAGEConv, 16, ratio=0.5)"),
        (TopKPooling(16), "TopKPooling(16, ratio=0.5)"),
        (ASAPooling(16, 0.25), "ASAPooling(16, ratio=0.25)"),
        (ASAPooling(16, 3, dropout=0.1), "ASAPooling(16, ratio=3, dropout=0.1)"),
    ],
)
def test_repr(layer: nn.Module, told: str) -> None:
    assert repr(layer) == told


def compare(ours: nn.Module, theirs: nn.Module, graphs: Graphs) -> None:
    """All six results, in the order in which they come, and the gradient by x."""
    attr = torch.stack([graphs.edge_attr, torch.arange(len(graphs.edge_attr))], 1)
    x, other = graphs.x.clone().requires_grad_(), graphs.x.clone().requires_grad_()
    out = ours(x, graphs.edge_index, attr, graphs.batch)
    expected = theirs(other, graphs.edge_index, attr, graphs.batch)
    assert without_ties(out, graphs.batch, "s")
    for a, b in zip(out, expected, strict=True):
        close(a, b)
    weight = torch.randn_like(out.x)
    (by_x,) = torch.autograd.grad((out.x * weight).sum() + out.score.sum(), x)
    (by_other,) = torch.autograd.grad((expected[0] * weight).sum() + expected[5].sum(), other)
    close(by_x, by_other)


@pytest.mark.parametrize("directed", [False, True], ids=["symmetric", "directed"])
@pytest.mark.parametrize("ratio", [0.3, 0.8, 4])
@seeded
def test_topk_is_pygs(seed: int, ratio: float | int, directed: bool) -> None:
    ours, theirs = TopKPooling(DIM, ratio).double(), pyg.TopKPooling(DIM, ratio).double()
    theirs.select.weight.data = ours.pool.p.data.unsqueeze(0)
    compare(ours, theirs, random_batch(seed, directed=directed))


@pytest.mark.parametrize("directed", [False, True], ids=["symmetric", "directed"])
@pytest.mark.parametrize("ratio", [0.3, 0.8, 4])
@seeded
def test_sag_is_pygs_with_its_hidden_weight_at_one(seed: int, ratio: float | int, directed: bool) -> None:
    ours, theirs = double(SAGPooling(DIM, ratio)), pyg.SAGPooling(DIM, ratio, GNN=pyg.GCNConv).double()
    theirs.gnn.load_state_dict({"lin.weight": ours.pool.gnn.linear.weight, "bias": ours.pool.gnn.bias})
    theirs.select.weight.data.fill_(1.0)
    compare(ours, theirs, random_batch(seed, directed=directed))


@pytest.mark.parametrize("gnn", [pyg.GraphConv, pyg.GCNConv, pyg.GATConv, pyg.SAGEConv])
def test_sag_with_a_gnn_of_pygs(gnn: Callable[..., nn.Module]) -> None:
    ours, theirs = SAGPooling(DIM, 0.5, GNN=gnn).double(), pyg.SAGPooling(DIM, 0.5, GNN=gnn).double()
    theirs.gnn.load_state_dict(ours.pool.gnn.layer.state_dict())
    theirs.select.weight.data.fill_(1.0)
    compare(ours, theirs, random_batch(1, directed=True))


def test_cgi_with_a_gnn_of_pygs_is_cgi_with_ours() -> None:
    graphs = random_batch(2, directed=True)
    ours, other = double(CGIPooling(DIM)), CGIPooling(DIM, GNN=pyg.GCNConv).double()
    other.pool.discriminator.load_state_dict(ours.pool.discriminator.state_dict())
    other.pool.gnn.layer.load_state_dict({"lin.weight": ours.pool.gnn.linear.weight, "bias": ours.pool.gnn.bias})
    a, b = (layer(graphs.x, graphs.edge_index, batch=graphs.batch) for layer in (ours, other))
    assert without_ties(a, graphs.batch, "y_d")
    close(a.x, b.x)
    close(a.aux_loss, b.aux_loss)
    assert a.edge_index.tolist() == b.edge_index.tolist()


@pytest.mark.parametrize("gnn", [pyg.GraphConv, pyg.GATConv, pyg.SAGEConv])
@pytest.mark.parametrize("negative", ["learned", "random"])
def test_cgi_by_hand_from_the_scores_of_a_gnn(gnn: Callable[..., nn.Module], negative: str) -> None:
    """The paper's equations written down for one graph."""
    graphs = random_batch(4, sizes=(10,))
    layer = CGIPooling(DIM, 0.5, GNN=gnn, negative=negative).double()
    out = layer(graphs.x, graphs.edge_index)
    y = torch.sigmoid(layer.pool.gnn.layer(graphs.x, graphs.edge_index))
    y_d = torch.sigmoid(y[:, 0] - y[:, 1]) if negative == "learned" else y[:, 0]
    best = y_d.topk(5)
    assert out.perm.tolist() == best.indices.tolist()
    close(out.score, best.values)
    close(out.x, graphs.x[best.indices] * best.values.unsqueeze(1))
    if negative == "learned":
        e, (e_r, e_f) = graphs.x.mean(0), ((v[:, None] * graphs.x)[v.topk(5).indices].mean(0) for v in y.T)
        real, fake = (layer.pool.discriminator(torch.cat([e, c])) for c in (e_r, e_f))
        close(out.aux_loss, -(torch.sigmoid(real).log() + (1 - torch.sigmoid(fake)).log()).squeeze())


def pyg_asap(ours: ASAPooling, ratio: float) -> nn.Module:
    """PyG's layer with the weights of ours. Its LEConv is Σ_j (W₁ x_j − W₂ x_i) + W₃ x_i, and W₂ has no bias there."""
    theirs, pool = pyg.ASAPooling(DIM, ratio, GNN=pyg.GCNConv).double(), ours.pool
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


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("directed", [False, True], ids=["symmetric", "directed"])
@seeded
def test_asap_is_pygs_with_its_hidden_weight_at_one(seed: int, directed: bool) -> None:
    graphs = random_batch(seed, directed=directed)
    edge_index = graphs.edge_index.unique(dim=1)  # to PyG's attention two parallel edges are two nodes
    layer = double(ASAPooling(DIM, 0.5))
    theirs, ones = pyg_asap(layer, 0.5), torch.ones(edge_index.shape[1], dtype=torch.float64)
    out = layer(graphs.x, edge_index, batch=graphs.batch)
    x, edges, weight, batch, perm = theirs(graphs.x, edge_index, ones, graphs.batch)
    assert without_ties(out, graphs.batch, "phi")
    ours, other = out.perm.argsort(), perm.argsort()  # by node: two with the same neighbours have the same fitness
    assert out.perm[ours].tolist() == perm[other].tolist()
    assert out.batch.tolist() == batch.tolist()
    close(out.x[ours], x[other])
    matrix, expected = dense(out.edge_index, out.edge_attr, len(perm)), dense(edges, weight, len(perm))
    close(matrix[ours][:, ours], expected[other][:, other])


def test_asap_gives_the_weights_of_the_edges_to_a_gnn() -> None:
    graphs = random_batch(2)
    ours, other = double(ASAPooling(DIM)), ASAPooling(DIM, GNN=pyg.GCNConv).double()
    state = {name: value for name, value in ours.pool.state_dict().items() if not name.startswith("gnn.")}
    gnn = {"gnn.layer.lin.weight": ours.pool.gnn.linear.weight, "gnn.layer.bias": ours.pool.gnn.bias}
    other.pool.load_state_dict({**state, **gnn})
    a, b = (layer(graphs.x, graphs.edge_index, graphs.edge_attr, graphs.batch) for layer in (ours, other))
    close(a.x, b.x)
    close(a.edge_attr, b.edge_attr)


def test_asap_averages_the_features_of_merged_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = random_batch(2, sizes=(9,), directed=True)
    edge_index = graphs.edge_index.unique(dim=1)
    features = torch.randn(edge_index.shape[1], 3, dtype=torch.float64)
    seen, attention = [], ops.block_attention
    monkeypatch.setattr(ops, "block_attention", lambda *args: seen.append(attention(*args)) or seen[0])
    layer = double(ASAPooling(DIM, 0.6))
    out, plain = layer(graphs.x, edge_index, features), layer(graphs.x, edge_index)
    assert out.edge_index.tolist() == plain.edge_index.tolist()
    assert out.edge_attr.shape == (out.edge_index.shape[1], 3)
    alpha = seen[0].view(9, 9)[out.perm]
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    there = torch.zeros(9, 9, dtype=torch.float64)
    there[target, source] = 1.0
    values = torch.zeros(9, 9, 3, dtype=torch.float64)
    values[target, source] = features[edge_index[0] != edge_index[1]]
    total = alpha @ there @ alpha.T
    mean = torch.einsum("pk,klf,ql->pqf", alpha, values, alpha) / torch.where(total > 0, total, 1.0).unsqueeze(2)
    close(out.edge_attr, mean[out.edge_index[1], out.edge_index[0]])


@pytest.mark.parametrize("name", ["cgi", "cgi-rs", "vip", "sag", "topk"])
def test_scores_are_computed_from_attn(name: str) -> None:
    graphs = random_batch(3)
    layer, attn = LAYERS[name](DIM, 0.5).double().eval(), torch.randn_like(graphs.x)
    by_attn = layer(attn, graphs.edge_index, batch=graphs.batch)
    out = layer(graphs.x, graphs.edge_index, batch=graphs.batch, attn=attn)
    assert out.perm.tolist() == by_attn.perm.tolist()
    assert out.edge_index.tolist() == by_attn.edge_index.tolist()
    close(out.score, by_attn.score)
    close(out.x, graphs.x[out.perm] * out.score.unsqueeze(1))


def test_infomax_compares_the_features_not_attn() -> None:
    graphs = random_batch(4, sizes=(10,))
    layer, attn = CGIPooling(DIM, 0.5).double(), torch.randn_like(graphs.x)
    out = layer(graphs.x, graphs.edge_index, attn=attn)
    e, e_r, e_f = (
        graphs.x.mean(0),
        *((y[:, None] * graphs.x)[y.topk(5).indices].mean(0) for y in (out.scores["y_r"], out.scores["y_f"])),
    )
    real, fake = (layer.pool.discriminator(torch.cat([e, c])) for c in (e_r, e_f))
    close(out.aux_loss, -(torch.sigmoid(real).log() + (1 - torch.sigmoid(fake)).log()).squeeze())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: CGIPooling(8, form="relased"), "did you mean 'released'"),
        (lambda: CGIPooling(8, negative="none"), "unknown kind of negatives"),
        (lambda: CGIPooling(8, mi="jsd"), "unknown mutual-information bound"),
        (lambda: CGIPooling(8, ratio=1.5), "ratio must be"),
        (lambda: CGIPooling(8, GNN=pyg.GCNConv, form="released"), "use form='paper' with a GNN class"),
        (lambda: SAGPooling(4, GNN=pyg.GATConv, heads=2)(torch.randn(4, 4), COMPLETE), "GATConv returns 2 numbers"),
        (lambda: ASAPooling(4)(torch.randn(4, 4), COMPLETE, attn=torch.randn(4, 4)), "does not support attn"),
        (
            lambda: CGIPooling(4, form="released")(torch.randn(4, 4), COMPLETE, attn=torch.randn(4, 4)),
            "does not support attn",
        ),
    ],
)
def test_errors_are_one_line(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        wrong()
    assert "\n" not in str(error.value)


class Net(nn.Module):
    """The network of PyG's proteins_topk_pool.py, narrower; the pooling layer is the one line that changes."""

    def __init__(self, pooling: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.convs = nn.ModuleList([pyg.GraphConv(3, 16), pyg.GraphConv(16, 16), pyg.GraphConv(16, 16)])
        self.pools = nn.ModuleList([pooling(16, ratio=0.8) for _ in range(3)])
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        read, loss = torch.zeros(1), torch.zeros(())
        for conv, pool in zip(self.convs, self.pools, strict=True):
            out = pool(F.relu(conv(x, edge_index)), edge_index, None, batch)
            x, edge_index, _, batch, _, _ = out
            read = read + torch.cat([pyg.global_max_pool(x, batch), pyg.global_mean_pool(x, batch)], 1)
            loss = loss + getattr(out, "aux_loss", 0.0)
        return self.head(read), loss


def rings_and_stars(count: int) -> list[Data]:
    """Two classes that only the edges tell apart."""
    graphs = []
    for i in range(count):
        n, star = 6 + i % 5, i % 2
        source = torch.zeros(n - 1, dtype=torch.long) if star else torch.arange(n)
        target = torch.arange(1, n) if star else (torch.arange(n) + 1) % n
        edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
        graphs.append(Data(x=torch.ones(n, 3), edge_index=edges, y=torch.tensor([star])))
    return graphs


POOLINGS = {
    "PyG's SAGPooling": pyg.SAGPooling,
    "SAGPooling": SAGPooling,
    "CGIPooling": CGIPooling,
    "VIPooling": VIPooling,
    "TopKPooling": TopKPooling,
    "ASAPooling": ASAPooling,
}


@pytest.mark.parametrize("pooling", POOLINGS.values(), ids=POOLINGS)
def test_one_line_changes_the_pooling_of_a_model(pooling: Callable[..., nn.Module]) -> None:
    model = Net(pooling)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(12):
        for data in DataLoader(rings_and_stars(24), batch_size=12):
            optimizer.zero_grad()
            logits, own = model(data.x, data.edge_index, data.batch)
            losses.append(F.cross_entropy(logits, data.y))
            (losses[-1] + 0.01 * own).backward()
            optimizer.step()
    assert sum(losses[-2:]) < 0.7 * sum(losses[:2])
