"""The pooling methods in stock PyG: what lies between the input graphs and the shared head of peer.py.

A body gives (readout [graphs, 2·width], the method's own loss averaged over levels). There are four of them:
`Sparse` (cgi, topk, sag, asap, random, none), `Dense` (diffpool, mincut), `SetReadout` (set2set) and `Sort` (dgcnn).
PyG has no layer for vip.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    ASAPooling,
    DenseGCNConv,
    GCNConv,
    GINConv,
    SAGPooling,
    Set2Set,
    SortAggregation,
    TopKPooling,
    dense_diff_pool,
    dense_mincut_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.nn.pool.connect.filter_edges import filter_adj
from torch_geometric.nn.pool.select.topk import topk
from torch_geometric.utils import to_dense_adj, to_dense_batch

LEVELS, SET2SET_STEPS = 3, 3
SORTED_SHARE, SORTED_LEAST = 0.6, 10  # DGCNN keeps as many nodes as 60 % of the graphs have at most, and at least 10

Pooled = tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]
"""x, edge_index, edge weights, batch, the level's own loss."""


class PeerPool(nn.Module):
    """One CGIPool layer: scores, real and fake readouts, the discriminator's loss, the fused coarsened graph."""

    def __init__(self, width: int, ratio: float) -> None:
        super().__init__()
        self.ratio = ratio
        self.gnn_r = GCNConv(width, 1)
        self.gnn_f = GCNConv(width, 1)
        self.discriminator = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x: Tensor, edge_index: Tensor, weight: None, batch: Tensor, num_graphs: int) -> Pooled:
        y_r = self.gnn_r(x, edge_index).sigmoid()
        y_f = self.gnn_f(x, edge_index).sigmoid()

        # The real and the fake graph are only ever averaged over nodes, so their edges are not filtered.
        e = global_mean_pool(x, batch, num_graphs)
        logits = []
        for y in (y_r, y_f):
            idx = topk(y.view(-1), self.ratio, batch)
            e_coarse = global_mean_pool(x[idx] * y[idx], batch[idx], num_graphs)
            logits.append(self.discriminator(torch.cat([e, e_coarse], dim=-1)))
        mi_loss = (F.softplus(-logits[0]) + F.softplus(logits[1])).mean()

        y_d = (y_r - y_f).sigmoid()
        idx = topk(y_d.view(-1), self.ratio, batch)
        edge_index, _ = filter_adj(edge_index, None, idx, num_nodes=x.size(0))
        return x[idx] * y_d[idx], edge_index, None, batch[idx], mi_loss


class StockPool(nn.Module):
    """A pooling layer of PyG as it comes, without edge weights."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Tensor, weight: None, batch: Tensor, num_graphs: int) -> Pooled:
        x, edge_index, _, batch, *_ = self.layer(x, edge_index, None, batch)
        return x, edge_index, None, batch, x.new_zeros(())


class WeightedStockPool(StockPool):
    """The same for ASAPooling, whose coarsened edges are weighted.

    Given no weights it throws the coarsened ones away, so it starts from ones. Given some, PyG 2.8.1's backward through
    them fails on torch 2.13 (`index_select` of a sparse matrix has no derivative), so they reach the next level
    detached: the forward pass is ASAP's, the backward pass spares itself what a full one would do.
    """

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None, batch: Tensor, num_graphs: int) -> Pooled:
        weight = x.new_ones(edge_index.size(1)) if weight is None else weight
        x, edge_index, weight, batch, _ = self.layer(x, edge_index, weight, batch)
        return x, edge_index, weight.detach(), batch, x.new_zeros(())


class RandomPool(nn.Module):
    """Random nodes of every graph, drawn afresh at each call."""

    def __init__(self, ratio: float) -> None:
        super().__init__()
        self.ratio = ratio

    def forward(self, x: Tensor, edge_index: Tensor, weight: None, batch: Tensor, num_graphs: int) -> Pooled:
        idx = topk(torch.rand(x.size(0), device=x.device), self.ratio, batch)
        edge_index, _ = filter_adj(edge_index, None, idx, num_nodes=x.size(0))
        return x[idx], edge_index, None, batch[idx], x.new_zeros(())


class NoPool(nn.Module):
    """The graph as it is."""

    def forward(self, x: Tensor, edge_index: Tensor, weight: None, batch: Tensor, num_graphs: int) -> Pooled:
        return x, edge_index, weight, batch, x.new_zeros(())


SPARSE = {
    "cgi": PeerPool,
    "topk": lambda width, ratio: StockPool(TopKPooling(width, ratio=ratio)),
    "sag": lambda width, ratio: StockPool(SAGPooling(width, ratio=ratio, GNN=GCNConv)),
    "asap": lambda width, ratio: WeightedStockPool(ASAPooling(width, ratio=ratio, GNN=GCNConv)),
    "random": lambda width, ratio: RandomPool(ratio),
    "none": lambda width, ratio: NoPool(),
}
"""By method: (width, ratio) → a module (x, edge_index, weight, batch, num_graphs) → Pooled, one per level."""


def convolutions(in_channels: int, width: int) -> nn.ModuleList:
    return nn.ModuleList(GCNConv(channels, width) for channels in (in_channels, *[width] * (LEVELS - 1)))


class Sparse(nn.Module):
    """GCN, ReLU and a pool on edge lists, three times; the readouts [max ‖ mean] summed."""

    def __init__(self, method: str, in_channels: int, width: int, ratio: float) -> None:
        super().__init__()
        self.convs = convolutions(in_channels, width)
        self.pools = nn.ModuleList(SPARSE[method](width, ratio) for _ in self.convs)

    def forward(self, data: Data) -> tuple[Tensor, Tensor]:
        x, edge_index, weight, batch = data.x, data.edge_index, None, data.batch
        readouts, losses = [], []
        for conv, pool in zip(self.convs, self.pools, strict=True):
            x = conv(x, edge_index, weight).relu()
            x, edge_index, weight, batch, loss = pool(x, edge_index, weight, batch, data.num_graphs)
            maximum, mean = (read(x, batch, data.num_graphs) for read in (global_max_pool, global_mean_pool))
            readouts.append(torch.cat([maximum, mean], dim=-1))
            losses.append(loss)
        return torch.stack(readouts).sum(dim=0), torch.stack(losses).mean()


class Strong(nn.Module):
    """GIN, batch norm, ReLU and a CGIPool layer, three times; the readouts [max ‖ mean] concatenated."""

    def __init__(self, in_channels: int, width: int, ratio: float) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            GINConv(nn.Sequential(nn.Linear(channels, width), nn.ReLU(), nn.Linear(width, width)))
            for channels in (in_channels, *[width] * (LEVELS - 1))
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in self.convs)
        self.pools = nn.ModuleList(PeerPool(width, ratio) for _ in self.convs)

    def forward(self, data: Data) -> tuple[Tensor, Tensor]:
        x, edge_index, batch = data.x, data.edge_index, data.batch
        readouts, losses = [], []
        for conv, norm, pool in zip(self.convs, self.norms, self.pools, strict=True):
            x = norm(conv(x, edge_index)).relu()
            x, edge_index, _, batch, loss = pool(x, edge_index, None, batch, data.num_graphs)
            readouts += [read(x, batch, data.num_graphs) for read in (global_max_pool, global_mean_pool)]
            losses.append(loss)
        return torch.cat(readouts, dim=-1), torch.stack(losses).mean()


class DiffPool(nn.Module):
    """S and Z from a dense GCN each, then PyG's `dense_diff_pool`; link plus entropy loss."""

    def __init__(self, width: int, clusters: int) -> None:
        super().__init__()
        self.assign = DenseGCNConv(width, clusters)
        self.embed = DenseGCNConv(width, width)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        s = self.assign(x, adj, mask)
        z = self.embed(x, adj, mask).relu()
        x, adj, link, entropy = dense_diff_pool(z, adj, s, mask)
        return x, adj, link + entropy


class MinCut(nn.Module):
    """S from a linear layer, then PyG's `dense_mincut_pool`; cut plus orthogonality loss."""

    def __init__(self, width: int, clusters: int) -> None:
        super().__init__()
        self.assign = nn.Linear(width, clusters)

    def forward(self, x: Tensor, adj: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        x, adj, cut, orthogonality = dense_mincut_pool(x, adj, self.assign(x), mask)
        return x, adj, cut + orthogonality


DENSE = {"diffpool": DiffPool, "mincut": MinCut}
"""By method: (width, clusters) → a module (x, adj, mask) → (x, adj, loss), one per level."""


def cluster_counts(sizes: Tensor, ratio: float) -> list[int]:
    """How many clusters each level has: ⌈ratio · the mean size⌉, then ⌈ratio · the count before⌉."""
    counts, size = [], float(sizes.double().mean())
    for _ in range(LEVELS):
        size = math.ceil(ratio * size)
        counts.append(size)
    return counts


class Dense(nn.Module):
    """The same on dense matrices, padded to the batch's largest graph; only the first level has padding to mask."""

    def __init__(self, method: str, in_channels: int, width: int, clusters: list[int]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(DenseGCNConv(channels, width) for channels in (in_channels, *[width] * (LEVELS - 1)))
        self.pools = nn.ModuleList(DENSE[method](width, count) for count in clusters)

    def forward(self, data: Data) -> tuple[Tensor, Tensor]:
        x, mask = to_dense_batch(data.x, data.batch, batch_size=data.num_graphs)
        adj = to_dense_adj(data.edge_index, data.batch, max_num_nodes=x.size(1), batch_size=data.num_graphs)
        readouts, losses = [], []
        for conv, pool in zip(self.convs, self.pools, strict=True):
            x = conv(x, adj, mask).relu()
            x, adj, loss = pool(x, adj, mask)
            mask = None
            readouts.append(torch.cat([x.max(dim=1).values, x.mean(dim=1)], dim=-1))
            losses.append(loss)
        return torch.stack(readouts).sum(dim=0), torch.stack(losses).mean()


class SetReadout(nn.Module):
    """No pooling; a Set2Set for each convolution, summed."""

    def __init__(self, in_channels: int, width: int) -> None:
        super().__init__()
        self.convs = convolutions(in_channels, width)
        self.reads = nn.ModuleList(Set2Set(width, processing_steps=SET2SET_STEPS) for _ in self.convs)

    def forward(self, data: Data) -> tuple[Tensor, Tensor]:
        x, readouts = data.x, []
        for conv, read in zip(self.convs, self.reads, strict=True):
            x = conv(x, data.edge_index).relu()
            readouts.append(read(x, data.batch, dim_size=data.num_graphs))
        return torch.stack(readouts).sum(dim=0), x.new_zeros(())


def sorted_nodes(sizes: Tensor) -> int:
    """DGCNN's k, as PyG's example takes it from the sizes."""
    ordered = sorted(sizes.tolist())
    return max(SORTED_LEAST, ordered[math.ceil(SORTED_SHARE * len(ordered)) - 1])


class Sort(nn.Module):
    """DGCNN: no pooling; the nodes sorted by a tanh channel, the first k of them read by convolutions along the row."""

    def __init__(self, in_channels: int, width: int, k: int) -> None:
        super().__init__()
        self.convs = convolutions(in_channels, width)
        self.key = GCNConv(width, 1)
        self.sort = SortAggregation(k)
        row = LEVELS * width + 1
        self.over_nodes = nn.Sequential(
            nn.Conv1d(1, 16, row, row), nn.ReLU(), nn.MaxPool1d(2, 2), nn.Conv1d(16, 32, 5), nn.ReLU(), nn.Flatten()
        )
        self.linear = nn.Linear(32 * (k // 2 - 4), 2 * width)

    def forward(self, data: Data) -> tuple[Tensor, Tensor]:
        xs = [data.x]
        for conv in self.convs:
            xs.append(conv(xs[-1], data.edge_index).relu())
        xs.append(self.key(xs[-1], data.edge_index).tanh())
        rows = self.sort(torch.cat(xs[1:], dim=-1), data.batch, dim_size=data.num_graphs)
        x = self.linear(self.over_nodes(rows.unsqueeze(1))).relu()
        return x, x.new_zeros(())


METHODS = (*SPARSE, *DENSE, "set2set", "dgcnn", "strong")


def make_body(method: str, in_channels: int, width: int, ratio: float, sizes: Tensor | None) -> nn.Module:
    """The body of that method. The sizes of the training graphs are needed by those that fix a number of nodes."""
    if method not in METHODS:
        raise ValueError(f"PyG has no method {method!r}; it has {', '.join(METHODS)}")
    if method in SPARSE:
        return Sparse(method, in_channels, width, ratio)
    if method == "strong":
        return Strong(in_channels, width, ratio)
    if method == "set2set":
        return SetReadout(in_channels, width)
    if sizes is None:
        raise ValueError(f"{method} needs the sizes of the training graphs")
    if method == "dgcnn":
        return Sort(in_channels, width, sorted_nodes(sizes))
    return Dense(method, in_channels, width, cluster_counts(sizes, ratio))
