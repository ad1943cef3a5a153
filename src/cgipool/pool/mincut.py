"""MinCutPool: "Spectral Clustering with Graph Neural Networks for Graph Pooling" (Bianchi, Grattarola, Alippi;
ICML 2020).

    assignment   S = softmax(MLP(X)), row by row over K clusters
    coarsening   X' = Sᵀ X,  A' = D̂^-½ Â D̂^-½ with Â = Sᵀ A S, its diagonal set to 0, and D̂ its degrees
    losses       cut            −tr(Sᵀ A S) / tr(Sᵀ D S), D the degrees of A
                 orthogonality  ‖SᵀS / ‖SᵀS‖_F − I / √K‖_F

Shapes: C positions, B graphs, d features, K clusters.
"""

import torch
from torch import Tensor, nn

from cgipool.model.level import Level, check_ratio
from cgipool.model.level.dense import DenseLevel
from cgipool.pool.base import Pooled, Sizes, cluster_count

TINY = 1e-12
"""Added under square roots, because their derivative at 0 is infinite."""


class MinCutPool(nn.Module):
    """Merges the nodes of every graph into K soft clusters that cut few edges and have similar sizes.

    K follows from the ratio as for DiffPool. The MLP is one linear layer, as in the authors' and PyG's examples. As in
    PyG's layer, the cut uses A; the paper normalises A first. A graph without edges has cut 0.
    """

    needs_positive_weights = True
    needs_undirected_edges = True

    def __init__(self, dim: int, ratio: float | int = 0.8, site: int = 0, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.ratio = check_ratio(ratio)
        self.clusters = cluster_count("mincut", self.ratio, site, sizes)
        self.assign = nn.Linear(dim, self.clusters)

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Merge the nodes into K clusters per graph; x is [C, d]."""
        s = torch.softmax(self.assign(x), 1) * level.alive.unsqueeze(1)
        clustered = level.sums(x, s)
        adjacency = level.sums(level.neighbor_sum(s), s)
        losses = {"cut": cut_loss(level, s, adjacency), "orthogonality": orthogonality_loss(level, s)}
        coarse = DenseLevel.of_clusters(level, normalised(adjacency))
        return Pooled(clustered.flatten(0, 1), coarse, losses, {} if self.training else losses)

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"ratio={self.ratio}, clusters={self.clusters}"


def cut_loss(level: Level, s: Tensor, pooled: Tensor) -> Tensor:
    """The mean over graphs of −tr(Sᵀ A S) / tr(Sᵀ D S), given S [C, K] and Sᵀ A S [B, K, K]."""
    volume_of_node = (level.degree * s.square().sum(1)).unsqueeze(1)
    volume = level.sums(volume_of_node, level.alive.unsqueeze(1)).view(-1)
    inside = pooled.diagonal(dim1=1, dim2=2).sum(1)
    return level.over_graphs(-inside / torch.where(volume > 0, volume, 1.0))


def orthogonality_loss(level: Level, s: Tensor) -> Tensor:
    """The mean over graphs of ‖SᵀS / ‖SᵀS‖_F − I / √K‖_F."""
    overlap, clusters = level.sums(s, s), s.shape[1]
    size = (overlap.square().sum((1, 2), keepdim=True) + TINY).sqrt()
    apart = overlap / size - torch.eye(clusters, dtype=s.dtype, device=s.device) / clusters**0.5
    return level.over_graphs((apart.square().sum((1, 2)) + TINY).sqrt())


def normalised(adjacency: Tensor) -> Tensor:
    """[B, K, K] D̂^-½ Â D̂^-½ of the matrices without their diagonals."""
    clusters = adjacency.shape[1]
    hollow = adjacency * (1.0 - torch.eye(clusters, dtype=adjacency.dtype, device=adjacency.device))
    degree = hollow.sum(2)
    root = torch.where(degree > TINY, torch.rsqrt(torch.where(degree > TINY, degree, 1.0)), 0.0)
    return root.unsqueeze(2) * hollow * root.unsqueeze(1)
