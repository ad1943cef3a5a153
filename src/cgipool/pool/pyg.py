"""An adapter: any pooling layer of PyG's conventions as a pool of ours, unchanged, in the plain training loop.

Shapes: C positions, F features, E directed edges.
"""

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cgipool.errors import UserError
from cgipool.level import Level, Nodes, Origin, SparseLevel
from cgipool.pool.base import Pooled


class EdgeListLevel(Level):
    """A level whose edges are PyG's: edge_index [2, E], with or without a weight each. Every position is alive."""

    def __init__(self, nodes: Nodes, origin: Origin, edge_index: Tensor, weight: Tensor | None) -> None:
        super().__init__(nodes, origin, compact=True)
        loops = edge_index[0] == edge_index[1]  # A has none; the convolutions add their own
        self.edge_index = edge_index[:, ~loops]
        self.weight = (
            weight[~loops] if weight is not None else torch.ones_like(self.edge_index[0], dtype=nodes.alive.dtype)
        )
        self.weighted = weight is not None

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x."""
        source, target = self.edge_index
        return torch.zeros_like(x).index_add(0, target, x[source] * self.weight.unsqueeze(1))

    @property
    def degree(self) -> Tensor:
        """[C] the sum of the weights of the edges that end at each node."""
        return torch.zeros_like(self.alive).index_add(0, self.edge_index[1], self.weight)

    @property
    def squares(self) -> Tensor:
        """[C] the sum of the squares of these weights."""
        return torch.zeros_like(self.alive).index_add(0, self.edge_index[1], self.weight.square())

    def propagate(self, x: Tensor) -> Tensor:
        """Â x."""
        root = torch.rsqrt(self.degree + 1.0).unsqueeze(1)
        return (self.neighbor_sum(x * root) + x * root) * root

    def neighbor_max(self, x: Tensor) -> Tensor:
        """The maximum over each node and its neighbours."""
        source, target = self.edge_index
        return x.scatter_reduce(0, target.unsqueeze(1).expand(-1, x.shape[1]), x[source], "amax")

    def with_loops(self) -> Tensor:
        """Not needed by PyG's layers."""
        raise NotImplementedError("an edge list has no matrices")

    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, Level]:
        """Not needed by PyG's layers, which coarsen by themselves."""
        raise NotImplementedError("an edge list is coarsened by PyG's layer")


class PyGPool(nn.Module):
    """Runs a layer (x, edge_index, edge_attr, batch) → (x, edge_index, edge_attr, batch, perm, …) on our levels.

    Also understood: results of four, (x, edge_index, batch, …) as of `EdgePooling`, and objects with these names as
    attributes. What a layer gives as edge_attr counts as weights of the edges if it has one number per edge. Its shapes
    depend on the data, so it needs compact levels.
    """

    def __init__(self, layer: type[nn.Module], dim: int, ratio: float | int = 0.8) -> None:
        super().__init__()
        takes = inspect.signature(layer.__init__).parameters
        offered = {"in_channels": dim, "ratio": ratio}
        self.layer = layer(**{name: value for name, value in offered.items() if name in takes})

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """X [C, F] → what the layer gives."""
        if not level.compact:
            raise UserError(f"{type(self.layer).__name__} is a layer of PyG's conventions: it needs compact levels")
        edge_index, weight = _edge_list(level)
        takes = inspect.signature(self.layer.forward).parameters
        offered: dict[str, Any] = {"batch": level.graph}
        offered |= {name: weight for name in ("edge_attr", "edge_weight") if weight is not None}
        result = self.layer(x, edge_index, **{name: value for name, value in offered.items() if name in takes})
        parts = _parts(result)
        return Pooled(parts.x, _next_level(level, parts), parts.losses)


def _edge_list(level: Level) -> tuple[Tensor, Tensor | None]:
    if isinstance(level, EdgeListLevel):
        return level.edge_index, level.weight if level.weighted else None
    assert isinstance(level, SparseLevel)
    row_ptr, neighbor = level.edges
    position = torch.arange(len(level.alive), device=neighbor.device)
    target = torch.repeat_interleave(position, torch.diff(row_ptr))
    return torch.stack([neighbor[: len(target)].long(), target]), None


class Parts(NamedTuple):
    """What a layer gave."""

    x: Tensor
    edge_index: Tensor
    weight: Tensor | None
    graph: Tensor
    perm: Tensor | None
    losses: dict[str, Tensor]


def _parts(result: Any) -> Parts:
    x: Any
    edges: Any
    graph: Any
    if hasattr(result, "edge_index"):
        names = ("x", "edge_index", "edge_attr", "batch", "perm")
        x, edges, attribute, graph, perm = (getattr(result, name, None) for name in names)
    elif isinstance(result, tuple) and len(result) >= 5:
        x, edges, attribute, graph, perm = result[:5]
    elif isinstance(result, tuple) and len(result) >= 3:
        (x, edges, graph), attribute, perm = result[:3], None, None
    else:
        given = type(result).__name__
        raise UserError(f"a pooling layer must give (x, edge_index, edge_attr, batch, perm, …), not a {given}")
    weight = attribute.view(-1) if attribute is not None and attribute.numel() == edges.shape[1] else None
    loss = getattr(result, "aux_loss", None)
    return Parts(x, edges, weight, graph, perm, {} if loss is None else {"aux": loss})


def _next_level(level: Level, parts: Parts) -> EdgeListLevel:
    x, edge_index, weight, graph, perm, _ = parts
    if bool((torch.diff(graph) < 0).any()):
        raise UserError("a pooling layer must leave the nodes of one graph together, in the order of the graphs")
    size = torch.bincount(graph, minlength=len(level.size))
    slot_ptr = torch.nn.functional.pad(size.cumsum(0), (1, 0))
    position = level.position[perm] if perm is not None else torch.arange(len(x), device=x.device)
    nodes = Nodes(graph, slot_ptr, torch.ones(len(x), dtype=level.alive.dtype, device=x.device), size, position)
    return EdgeListLevel(nodes, level.origin, edge_index, weight)
