"""Levels of near-dense graphs, whose edges are bits. Shapes: C positions, W words."""

from collections.abc import Callable
from functools import cached_property

from torch import Tensor

from cgipool import ops
from cgipool.level.nodes import Nodes, Origin
from cgipool.level.sparse import Edges, SparseLevel


class TiledLevel(SparseLevel):
    """A level of near-dense graphs with static shapes: sums over neighbours are products of dense tiles (see
    ops/tiles.py). Lists of neighbours are made for who asks for them."""

    def __init__(self, nodes: Nodes, origin: Origin, edges: Callable[[], Edges], bits: Callable[[], Tensor]) -> None:
        super().__init__(nodes, origin, False, edges)
        self._bits = bits

    @cached_property
    def bits(self) -> Tensor:
        """[C, W] the adjacency, made when first asked for."""
        return self._bits()

    @cached_property
    def degree(self) -> Tensor:
        """[C] living neighbours of each living position."""
        return self.neighbor_sum(self.alive.unsqueeze(1)).squeeze(1)

    def propagate(self, x: Tensor) -> Tensor:
        """Â x."""
        return ops.tile_propagate(x, self._inverse_root, 1.0, self.bits, self.slot_ptr)

    def convolve(self, x: Tensor, bias: Tensor, rectify: bool) -> Tensor:
        """Â x + bias in one pass."""
        return ops.tile_convolve(x, bias, self._inverse_root, 1.0, self.bits, self.slot_ptr, rectify)

    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x: the sum over living neighbours."""
        return ops.tile_propagate(x, self.alive, 0.0, self.bits, self.slot_ptr)

    def _masked(self, nodes: Nodes) -> SparseLevel:
        return TiledLevel(nodes, self.origin, self._edges, self._bits)

    def _induced(self, nodes: Nodes, origin: Origin, index: Tensor, back: Tensor) -> SparseLevel:
        return TiledLevel(
            nodes,
            origin,
            lambda: Edges(*ops.induce(*self.edges, index, back)),
            lambda: ops.tile_induce(self.bits, index, self.slot_ptr, nodes.slot_ptr),
        )
