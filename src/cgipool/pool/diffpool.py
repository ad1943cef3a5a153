"""DiffPool: "Hierarchical Graph Representation Learning with Differentiable Pooling" (Ying et al.; NeurIPS 2018).

    assignment   S = softmax(GNN_p(X, A)), row by row over K clusters
    embedding    Z = relu(GNN_e(X, A))
    coarsening   X' = Sᵀ Z,  A' = Sᵀ A S
    losses       link     ‖A − S Sᵀ‖_F / n²
                 entropy  mean over nodes of −Σ_k S_k log S_k

Shapes: C positions, B graphs, d features, K clusters.
"""

import torch
from torch import Tensor, nn

from cgipool.model.layers import GCN
from cgipool.model.level import Level, check_ratio
from cgipool.model.level.dense import DenseLevel
from cgipool.pool.base import Pooled, Sizes, cluster_count

TINY = 1e-15
"""Added inside the logarithm, as in PyG."""


class DiffPool(nn.Module):
    """Merges the nodes of every graph into K soft clusters.

    K = ⌈ratio · mean size of the training graphs⌉ on the first level, ⌈ratio · K⌉ on the next ones; the authors' code
    uses a share of the size of the LARGEST graph, which on these data sets is many times the mean. GNN_p and GNN_e are
    one GCN each; the paper stacks several layers with batch normalisation, but here only the pooling may differ
    between methods. The link loss is divided by n² for each graph and averaged over graphs; PyG's is one norm over the
    padded batch, so the share of a graph depends on the largest graph of the batch.

    No n × n matrix is computed: A S is a sparse product, and ‖A − S Sᵀ‖² = ‖A‖² − 2 tr(Sᵀ A S) + ‖Sᵀ S‖².
    """

    needs_undirected_edges = True

    def __init__(self, dim: int, ratio: float | int = 0.8, site: int = 0, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.ratio = check_ratio(ratio)
        self.clusters = cluster_count("diffpool", self.ratio, site, sizes)
        self.assign = GCN(dim, self.clusters)
        self.embed = GCN(dim, dim)

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Merge the nodes into K clusters per graph; x is [C, d]."""
        s = torch.softmax(self.assign(x, level), 1) * level.alive.unsqueeze(1)
        z = self.embed(x, level, relu=True)
        clustered = level.sums(z, s)
        adjacency = level.sums(level.neighbor_sum(s), s)
        losses = {"link": link_loss(level, s, adjacency), "entropy": entropy_loss(level, s)}
        coarse = DenseLevel.of_clusters(level, adjacency)
        return Pooled(clustered.flatten(0, 1), coarse, losses, {} if self.training else losses)

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}, clusters={self.clusters}"


def link_loss(level: Level, s: Tensor, pooled: Tensor) -> Tensor:
    """The mean over graphs of ‖A − S Sᵀ‖_F / n², given S [C, K] and Sᵀ A S [B, K, K]."""
    of_a = level.sums(level.squares.unsqueeze(1), level.alive.unsqueeze(1)).view(-1)
    of_s = level.sums(s, s).square().sum((1, 2))
    square = of_a - 2.0 * pooled.diagonal(dim1=1, dim2=2).sum(1) + of_s
    return level.over_graphs(square.clamp(min=TINY).sqrt() / level.sizes.clamp(min=1).square())


def entropy_loss(level: Level, s: Tensor) -> Tensor:
    """The mean over graphs of the mean entropy of a node's assignment."""
    return level.over_graphs(level.means(-(s * torch.log(s + TINY)).sum(1)))
