"""A level over a PyG batch, so that pools run on it unchanged.

Shapes: C nodes, B graphs, E directed edges, F features. An edge leads from edge_index[0] to edge_index[1].
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cgipool import ops
from cgipool.model.level import Level, Nodes, Origin, cells_of
from cgipool.model.level.dense import DenseLevel
from cgipool.pool.pyg import EdgeListLevel


class PyGEdges(NamedTuple):
    """The edges of a layer's input or output."""

    pairs: Tensor
    """[2, E], possibly with self-loops and parallel edges."""
    attr: Tensor | None
    """[E, …] attributes of each edge."""


class PyGLevel(EdgeListLevel):
    """A batch with its nodes sorted by graph. Parallel edges are added up; self-loops are ignored, because the
    convolutions add them. The coarsened graph has both."""

    def __init__(self, nodes: Nodes, edges: PyGEdges, weighted: bool = False, features: Tensor | None = None) -> None:
        every = torch.arange(len(nodes.size), device=nodes.size.device)
        origin = Origin(every.new_zeros(()), every, nodes.slot_ptr, cells=0)
        merges = weighted and edges.attr is not None and edges.attr.ndim > 1
        super().__init__(nodes, origin, edges.pairs, edges.attr if weighted and not merges else None)
        self.edges = edges
        self._merges = merges
        self.features = features
        """[C, F] the features to coarsen, if the scores are computed from others."""

    @classmethod
    def of(
        cls, batch: Tensor, edges: PyGEdges, dtype: torch.dtype, weighted: bool, features: Tensor | None
    ) -> "PyGLevel":
        """The level of all nodes. batch [C] is the number of each node's graph, ascending; graphs without nodes are
        left out."""
        _, graph, size = torch.unique_consecutive(batch, return_inverse=True, return_counts=True)
        size = size if len(size) else size.new_zeros(1)  # no nodes: one graph without any
        alive = torch.ones(len(batch), dtype=dtype, device=batch.device)
        position = torch.arange(len(batch), device=batch.device)
        return cls(Nodes(graph, _ends(size), alive, size, position), edges, weighted, features)

    def uniform(self, site: int, columns: int | None = None) -> Tensor:
        """Random numbers in [0, 1), [C] or [C, columns], from torch's generator, as in PyG's layers."""
        shape = (len(self.alive),) if columns is None else (len(self.alive), columns)
        return torch.rand(shape, device=self.alive.device)

    def looped(self) -> PyGEdges:
        """The edges of A + I: existing self-loops are replaced by one of weight 1 at every node."""
        node = torch.arange(len(self.alive), device=self.alive.device)
        pairs = torch.cat([self.edge_index, node.expand(2, -1)], 1)
        return PyGEdges(pairs, torch.cat([self.weight, self.alive]) if self.weighted else None)

    def with_loops(self) -> Tensor:
        """[D] A + I as one matrix per graph; row p, column q is the total weight of the edges from q to p."""
        node = torch.arange(len(self.alive), device=self.alive.device)
        return self._cells(self.weight).index_add(0, self._rows + node, self.alive)

    @property
    def _rows(self) -> Tensor:
        """[C] the offset of row p: the cell of row p and column q is offset + q."""
        first = self.slot_ptr[self.graph]
        node = torch.arange(len(first), device=first.device)
        return self.block_ptr[self.graph] + (node - first) * self.sizes[self.graph] - first

    def _cells(self, value: Tensor) -> Tensor:
        """[D] values of edges as one matrix per graph."""
        source, target = self.edge_index
        return self.alive.new_zeros(cells_of(self)).index_add(0, self._rows[target] + source, value)

    def averaged_features(self, alpha: Tensor) -> Tensor | None:
        """[D, V] for each pair of clusters, the mean of the features of the edges between them, each edge weighted as
        in A'; 0 for clusters that only share nodes. None without features."""
        if not self._merges:
            return None
        assert self.edges.attr is not None
        where = (self.slot_ptr, self.block_ptr)
        source, target = self.edges.pairs
        features = self.edges.attr[source != target].to(alpha.dtype).flatten(1)

        def joined(value: Tensor) -> Tensor:
            half = ops.block_product(alpha, self._cells(value), False, False, *where)
            return ops.block_product(half, alpha, False, True, *where)

        total = joined(self.weight)
        there = total > 0
        sums = torch.stack([joined(column) for column in features.unbind(1)], 1)
        return torch.where(there.unsqueeze(1), sums / torch.where(there, total, 1.0).unsqueeze(1), 0.0)

    def sum_and_coarsen(
        self, x: Tensor, weight: Tensor, gate: Tensor, keep: Tensor, k: Tensor
    ) -> tuple[Tensor, Tensor, Level]:
        """`sums` and `coarsen` in one call."""
        return super().sum_and_coarsen(x if self.features is None else self.features, weight, gate, keep, k)

    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, "KeptLevel"]:
        """The features and the level of the kept nodes, by descending gate within each graph."""
        kept = keep.nonzero().squeeze(1)
        perm = kept[ranking(self.graph[kept], gate[kept])]
        number = numbering(perm, len(keep))
        ends = number[self.edges.pairs]
        stays = (ends >= 0).all(0)
        attr = None if self.edges.attr is None else self.edges.attr[stays]
        nodes = Nodes(self.graph[perm], _ends(k), self.alive[perm], k, self.position[perm])
        x, gate = x if self.features is None else self.features, gate.index_select(0, perm)
        return x.index_select(0, perm) * gate.unsqueeze(1), KeptLevel(nodes, PyGEdges(ends[:, stays], attr), gate)


class KeptLevel(PyGLevel):
    """The level of the nodes that a pool kept."""

    def __init__(self, nodes: Nodes, edges: PyGEdges, gate: Tensor) -> None:
        super().__init__(nodes, edges)
        self.gate = gate
        """[C] the factors by which the features were multiplied."""


def ranking(graph: Tensor, score: Tensor) -> Tensor:
    """[C] the nodes by graph, by descending score within each graph. Ties keep input order."""
    best = torch.argsort(score.detach(), descending=True, stable=True)
    return best[torch.argsort(graph[best], stable=True)]


def numbering(perm: Tensor, nodes: int) -> Tensor:
    """[nodes] the position of each node in perm, or −1."""
    return perm.new_full((nodes,), -1).index_copy(0, perm, torch.arange(len(perm), device=perm.device))


def edges_of(level: DenseLevel, loops: bool) -> PyGEdges:
    """The pairs of nodes with a nonzero weight, and their weights or features. With `loops`, also a self-loop at every
    node, whatever its weight."""
    ends = level.block_ptr
    there = level.weight.detach() != 0
    if loops:
        node = torch.arange(len(level.graph), device=there.device)
        graph = level.graph
        there[ends[graph] + (node - level.slot_ptr[graph]) * (level.sizes[graph] + 1)] = True
    cell = there.nonzero().squeeze(1)
    graph = torch.searchsorted(ends[1:].contiguous(), cell, right=True)
    first, size, place = level.slot_ptr[graph], level.sizes[graph], cell - ends[graph]
    attr = level.weight if level.edge_features is None else level.edge_features
    return PyGEdges(torch.stack([first + place % size, first + place // size]), attr[cell])


def _ends(size: Tensor) -> Tensor:
    """[B + 1] the first node of each graph."""
    return torch.nn.functional.pad(size.cumsum(0), (1, 0))
