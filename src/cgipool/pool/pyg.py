"""An adapter that runs any pooling layer with PyG's interface in the plain training loop.

Shapes: C positions, F features, E directed edges.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cgipool.errors import UserError
from cgipool.model.level import Level, Nodes, Origin, SparseLevel, check_ratio
from cgipool.ops.draws import key_of
from cgipool.pool.base import Pooled


class EdgeListLevel(Level):
    """A level with PyG's edges: edge_index [2, E], optionally with weights. Every position is alive."""

    def __init__(self, nodes: Nodes, origin: Origin, edge_index: Tensor, weight: Tensor | None) -> None:
        super().__init__(nodes, origin, compact=True)
        others = edge_index[0] != edge_index[1]  # A has no self-loops; the convolutions add them
        self.edge_index = edge_index[:, others]
        self.weighted = weight is not None
        ones = torch.ones(self.edge_index.shape[1], dtype=nodes.alive.dtype, device=edge_index.device)
        self.weight = ones if weight is None else weight[others].to(ones.dtype)

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

    It also accepts (x, edge_index, batch, …) as returned by `EdgePooling`, (x, edge_index, edge_attr, batch), and
    objects with these attributes, optionally with a `loss`, a scalar or several by name. A returned edge_attr or
    edge_weight with one number per edge becomes the edge weights. The nodes may be in any order. The shapes depend on
    the data, so the layer needs compact levels.

    Torch's generator, which PyG's layers draw from, is seeded by the step's key and the level: a run is repeatable,
    and a split draws the same numbers alone or among others.
    """

    needs_undirected_edges = True

    def __init__(self, layer: Callable[..., nn.Module], dim: int, ratio: float | int = 0.8, site: int = 0) -> None:
        super().__init__()
        ratio = check_ratio(ratio)
        # PyG reads a ratio of 1.0 as ONE node; the next smaller float is a share, and ⌈share · n⌉ is n.
        share = math.nextafter(1.0, 0.0) if isinstance(ratio, float) and ratio == 1.0 else ratio
        takes, offered = inspect.signature(layer).parameters, {"in_channels": dim, "ratio": share}
        self.layer = layer(**{name: value for name, value in offered.items() if name in takes})
        self.site = site

    def forward(self, x: Tensor, level: Level) -> Pooled:
        """Run the layer on x [C, F]."""
        name = type(self.layer).__name__
        if not level.compact:
            raise UserError(f"{name} is a PyG layer, which needs compact levels")
        edge_index, weight = _edge_list(level)
        offered = {"batch": level.graph, "edge_attr": weight, "edge_weight": weight}
        takes = inspect.signature(self.layer.forward).parameters
        with _drawing_by(level, self.site):
            result = self.layer(x, edge_index, **{name: value for name, value in offered.items() if name in takes})
        parts = _in_order(_parts(name, result))
        return Pooled(parts.x, _next_level(level, parts), parts.losses)


@contextmanager
def _drawing_by(level: Level, site: int) -> Iterator[None]:
    """Seed torch's generator by the step's key and the level, and restore it afterwards."""
    device = level.alive.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(key_of(int(level.origin.key), site))
        yield


def _edge_list(level: Level) -> tuple[Tensor, Tensor | None]:
    """Return the edges [2, E], and their weights unless all are 1."""
    if isinstance(level, EdgeListLevel):
        return level.edge_index, level.weight if level.weighted else None
    assert isinstance(level, SparseLevel)
    row_ptr, neighbor = level.edges
    position = torch.arange(len(level.alive), device=neighbor.device)
    target = torch.repeat_interleave(position, torch.diff(row_ptr))
    weight = level.entry_weights[0]
    return torch.stack([neighbor[: len(target)].long(), target]), weight[: len(target)] if len(weight) else None


class Parts(NamedTuple):
    """The result of a layer."""

    x: Tensor
    edge_index: Tensor
    weight: Tensor | None
    graph: Tensor
    perm: Tensor | None
    losses: Mapping[str, Tensor]


def _parts(name: str, result: Any) -> Parts:
    """Read a layer's result in any of the accepted forms."""
    x: Any
    edges: Any
    graph: Any
    attribute, perm = None, None
    losses: Mapping[str, Tensor] = {}
    if hasattr(result, "edge_index"):
        x, edges, graph, perm = (getattr(result, part, None) for part in ("x", "edge_index", "batch", "perm"))
        attribute, loss = _first(result, "edge_weight", "edge_attr"), _first(result, "loss", "aux_loss")
        losses = loss if isinstance(loss, Mapping) else {} if loss is None else {"own": loss}
    elif isinstance(result, tuple) and len(result) >= 5:
        x, edges, attribute, graph, perm = result[:5]
    elif isinstance(result, tuple) and len(result) == 4 and isinstance(result[3], Tensor):
        x, edges, attribute, graph = result
    elif isinstance(result, tuple) and len(result) >= 3:
        x, edges, graph = result[:3]
    else:
        what = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise UserError(f"{name} must return (x, edge_index, edge_attr, batch, perm, …), not {what}")
    if not (_is_index(graph) and len(graph) == len(x) and _is_index(edges) and edges.ndim == 2 and len(edges) == 2):
        raise UserError(
            f"{name} must return an edge_index [2, E] and a batch with the graph of each of its {len(x)} nodes"
        )
    weight = attribute.view(-1) if attribute is not None and attribute.numel() == edges.shape[1] else None
    return Parts(x, edges, weight, graph, perm, losses)


def _first(result: Any, *names: str) -> Any:
    """Return the first of these attributes that is set; in PyG's `Data` edge_attr may be None."""
    return next((value for name in names if (value := getattr(result, name, None)) is not None), None)


def _is_index(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.long


def _in_order(parts: Parts) -> Parts:
    """Sort the nodes by graph, as a level needs them; `EdgePooling` numbers its clusters over the whole batch."""
    if bool((torch.diff(parts.graph) >= 0).all()):
        return parts
    order = torch.argsort(parts.graph, stable=True)
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=order.device)
    perm = None if parts.perm is None else parts.perm[order]
    return parts._replace(x=parts.x[order], edge_index=number[parts.edge_index], graph=parts.graph[order], perm=perm)


def _next_level(level: Level, parts: Parts) -> EdgeListLevel:
    """Nodes that a layer selected keep their place in the graph; clusters get new numbers."""
    size = torch.bincount(parts.graph, minlength=len(level.sizes))
    slot_ptr = torch.nn.functional.pad(size.cumsum(0), (1, 0))
    alive = torch.ones(len(parts.x), dtype=level.alive.dtype, device=parts.x.device)
    if parts.perm is not None:
        position, origin = level.position[parts.perm], level.origin
    else:
        position, origin = torch.arange(len(alive), device=alive.device), level.origin._replace(slot_ptr=slot_ptr)
    nodes = Nodes(parts.graph, slot_ptr, alive, size, position)
    return EdgeListLevel(nodes, origin, parts.edge_index, parts.weight)
