"""What every level can do, however its edges are held. Shapes: C positions, B graphs, F features, M columns."""

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import torch
from torch import Tensor

from cgipool import ops
from cgipool.data.batch import Batch
from cgipool.errors import UserError
from cgipool.ops.draws import node_index

if TYPE_CHECKING:
    from cgipool.model.level.sparse import SparseLevel

GATES = ("plain", "unit")
"""How a pool's gate acts: as it is, or divided by its mean size over the kept nodes of each graph."""


class Nodes(NamedTuple):
    """The positions of a level."""

    graph: Tensor
    """[C] the graph of each position."""
    slot_ptr: Tensor
    """[B + 1] where each graph's positions begin."""
    alive: Tensor
    """[C] 1 or 0."""
    size: Tensor
    """[B] living nodes per graph; 0 for an empty slot."""
    position: Tensor
    """[C] which position of the first level each one was."""


NEW_EDGES = (
    "the convolution reads edges one by one, and a pool has made new ones without features; "
    "use another convolution, such as gin, or a pool that selects nodes"
)


UNDIRECTED = "edges have a direction, and a pool has made new ones without; use a pool that selects nodes"


class EdgeData(NamedTuple):
    """The edge data of a batch, by entry of its neighbour lists; data/batch.py explains the fields."""

    kind: Tensor
    code: Tensor
    floats: Tensor
    weight: Tensor
    reverse: Tensor

    @property
    def is_read(self) -> bool:
        """Whether there is any."""
        return any(len(column) for column in (self.code, self.floats, self.weight))

    def turned(self) -> "EdgeData":
        """The data of the reverse edges in place of the edges' own."""

        def of_reverse(column: Tensor) -> Tensor:
            return column.index_select(0, self.reverse) if len(column) else column

        return self._replace(**{name: of_reverse(getattr(self, name)) for name in ("code", "floats", "weight")})


class Origin(NamedTuple):
    """What a level keeps of its batch."""

    key: Tensor
    """[] the key of this step's random draws."""
    id: Tensor
    """[B] the number of each graph in its data set."""
    slot_ptr: Tensor
    """[B + 1] where each graph's positions began."""
    cells: int
    """How many cells there is room for, if every graph has a matrix over its positions."""
    rows: tuple[int, ...] = ()
    """How many positions the levels after the next pools need, where that is known: such levels are closed up."""
    gate: str = "plain"
    """One of `GATES`."""
    edges: EdgeData | None = None
    """The edge data; None where there is none."""
    truth: Tensor | None = None
    """[C, 1] which nodes decide the class; width 0, or None, where that is not known."""


class Closed(NamedTuple):
    """The kept nodes of a level, moved together."""

    held: Tensor
    """[places] the former position of each place, or −1."""
    back: Tensor
    """[C] the place of each former position, or −1."""
    nodes: Nodes
    origin: Origin


def kept_of(size: Tensor, ratio: float | int) -> Tensor:
    """[B] the number of nodes that a ratio keeps of graphs with `size` [B] nodes."""
    if isinstance(ratio, int):
        return size.clamp(max=ratio)
    share = decimal(ratio)
    if share is None:
        return torch.ceil(size.double() * ratio).long()
    return (size.long() * share.numerator + (share.denominator - 1)) // share.denominator


@lru_cache
def decimal(ratio: float) -> Fraction | None:
    """The ratio as it is written in decimals, for exact arithmetic: in floating point ⌈0.55 · 20⌉ is 12. None where it
    has more than nine decimals, such as 5/6, which stands for another number than its 16 digits say."""
    share = Fraction(str(ratio))
    return share if 10**9 % share.denominator == 0 else None


LEAST_MEAN = 1e-3
"""The least number that a gate is divided by: near 0 its gradient would grow without bound."""


class Level(ABC):
    """The living part of a batch of graphs. Where an edge has a weight, A is the weighted adjacency."""

    def __init__(self, nodes: Nodes, origin: Origin, compact: bool) -> None:
        self.nodes = nodes
        self.graph, self.slot_ptr, self.alive, self.sizes, self.position = nodes
        self.origin = origin
        self.compact = compact
        """Whether coarsening drops positions."""

    @property
    def size(self) -> NoReturn:
        """Not there: tools such as PyG's `summary` call what has this name, as they would on a tensor."""
        raise AttributeError("a level has no 'size'; 'sizes' is the number of living nodes of each graph")

    @staticmethod
    def whole(batch: Batch, compact: bool = False, rows: tuple[int, ...] = (), gate: str = "plain") -> "SparseLevel":
        """The level before any pooling. Where it is known beforehand how many nodes at most are left after each pool,
        `rows` says it; `gate`, one of `GATES`, is how all pools' gates act."""
        # Imported when called: these levels are built on this class.
        from cgipool.model.level.sparse import Entries, SparseLevel, TiledLevel, WeightedLevel

        position = torch.arange(len(batch.alive), device=batch.alive.device)
        nodes = Nodes(batch.graph, batch.slot_ptr, batch.alive, batch.size, position)
        data = EdgeData(batch.edge_kind, batch.edge_code, batch.edge_floats, batch.edge_weight, batch.edge_reverse)
        read = data if data.is_read else None
        origin = Origin(batch.key, batch.id, batch.slot_ptr, batch.room.shape[1], rows, gate, read, batch.truth)
        number = torch.arange(len(batch.neighbor) if read else 0, dtype=torch.int32, device=position.device)
        entries = partial(Entries, batch.row_ptr, batch.neighbor, number)
        if len(data.weight):
            return WeightedLevel(nodes, origin, compact, entries)
        if batch.bits.shape[1]:
            return TiledLevel(nodes, origin, entries, lambda: batch.bits)
        return SparseLevel(nodes, origin, compact, entries)

    @cached_property
    def block_ptr(self) -> Tensor:
        """[B + 1] where each graph's matrix over its positions begins (see ops/blocks.py)."""
        return torch.nn.functional.pad(torch.cumsum(torch.diff(self.slot_ptr).square(), 0), (1, 0))

    @property
    @abstractmethod
    def degree(self) -> Tensor:
        """[C] living neighbours of each position, or the sum of their edges' weights."""

    @property
    @abstractmethod
    def squares(self) -> Tensor:
        """[C] the sum of the squares of each position's edges' weights."""

    @abstractmethod
    def propagate(self, x: Tensor) -> Tensor:
        """Â x with Â = D^-½ (A + I) D^-½ of the living graph, D the degrees of A + I."""

    def convolve(self, x: Tensor, bias: Tensor, relu: bool) -> Tensor:
        """Â x + bias, and, if asked for, what is positive of that."""
        out = self.propagate(x) + bias
        return torch.relu(out) if relu else out

    @abstractmethod
    def neighbor_sum(self, x: Tensor) -> Tensor:
        """A x: the sum over living neighbours."""

    def sum_with_neighbors(self, x: Tensor, bias: Tensor) -> Tensor:
        """relu((A + I) x + bias)."""
        return torch.relu(x + self.neighbor_sum(x) + bias)

    @property
    def lists(self) -> tuple[Tensor, Tensor]:
        """row_ptr and neighbor; only a level with edges of its batch has such lists."""
        raise UserError(NEW_EDGES)

    @property
    def edge_numbers(self) -> Tensor:
        """[E] which entry of the batch's neighbour lists each entry of this level's lists is."""
        raise UserError(NEW_EDGES)

    @property
    def reversed(self) -> "Level":
        """The same level with every edge turned around: Aᵀ."""
        raise UserError(UNDIRECTED)

    @property
    def entry_weights(self) -> tuple[Tensor, Tensor]:
        """[E] the weights of the entries and of their reverses; [0] where all edges weigh 1."""
        return self.alive[:0], self.alive[:0]

    def averaged_features(self, alpha: Tensor) -> Tensor | None:
        """[D, V] the features of the edges between clusters with weights alpha [D], averages over the merged edges;
        None where the level has no features that a pool must merge."""
        return None

    @abstractmethod
    def neighbor_max(self, x: Tensor) -> Tensor:
        """[C, F] the maximum over each node and its living neighbours."""

    @abstractmethod
    def with_loops(self) -> Tensor:
        """[D] A + I as one matrix per graph (see ops/blocks.py)."""

    @abstractmethod
    def coarsen(self, x: Tensor, gate: Tensor, keep: Tensor, k: Tensor) -> tuple[Tensor, "Level"]:
        """H(idx) ⊙ gate(idx), A(idx, idx): the features, and the level on which only the nodes with keep = 1 are alive,
        k[b] of them in graph b. Unit gates are divided by their means (see `acting`)."""

    def sum_and_coarsen(
        self, x: Tensor, weight: Tensor, gate: Tensor, keep: Tensor, k: Tensor
    ) -> tuple[Tensor, Tensor, "Level"]:
        """`sums` of x by weight, and `coarsen`: all that a pool reads of x, in one pass where that is faster."""
        return self.sums(x, weight), *self.coarsen(x, gate, keep, k)

    @property
    def closes_up(self) -> bool:
        """Whether the nodes that a pool keeps move together, rather than the others being masked."""
        return self.compact or bool(self.origin.rows)

    def closed_up(self, keep: Tensor, k: Tensor) -> Closed:
        """The kept nodes in as many positions as there are on a compact level, else as the largest step needs: fewer
        than before, and still a shape known in advance."""
        places, *later = (int(torch.count_nonzero(keep)),) if self.compact else self.origin.rows
        index, back, alive, graph, position, ends = ops.close_up(keep, k, self.slot_ptr, self.position, places)
        return Closed(index, back, Nodes(graph, ends, alive, k, position), self.origin._replace(rows=tuple(later)))

    def acting(self, gate: Tensor, keep: Tensor, k: Tensor) -> Tensor:
        """[C] what features are multiplied by where a pool's gate [C] keeps these nodes. A unit gate is divided by the
        mean of its absolute values over the kept nodes of the graph, which counts as a constant, so that features keep
        their size from level to level."""
        if self.origin.gate == "plain":
            return gate
        total = self.sums(gate.detach().abs().unsqueeze(1), keep.unsqueeze(1)).view(-1)
        mean = total / k.clamp(min=1)
        return gate / mean.clamp(min=LEAST_MEAN)[self.graph]

    def neighbor_mean(self, x: Tensor) -> Tensor:
        """D⁻¹ A x: the mean over living neighbours, 0 where there are none."""
        # Divided, not multiplied by the reciprocal: rounded once, as PyG does, which trained weights notice.
        degree = self.degree
        return self.neighbor_sum(x) / torch.where(degree > 0, degree, 1.0).unsqueeze(1)

    def kept(self, ratio: float | int) -> Tensor:
        """[B] how many nodes of each graph a ratio keeps: ⌈ratio · n⌉ for a share, at most n for a count."""
        return kept_of(self.sizes, ratio)

    def select(self, score: Tensor, k: Tensor) -> Tensor:
        """[C, M] 1 at the k best living nodes of each graph by each column of score, ties to the lower position."""
        return ops.keep_top_k(score.detach().to(self.alive.dtype), self.alive, k, self.graph, self.slot_ptr)

    def order(self, score: Tensor) -> tuple[Tensor, Tensor]:
        """The positions of each graph by descending score [C], from slot_ptr[b] on, and the place of each position in
        that list; twice [C]. The dead come last."""
        return ops.order(score.detach(), self.alive, self.graph, self.slot_ptr)

    def softmax(self, score: Tensor) -> Tensor:
        """[C, M] the softmax of each column over the living nodes of each graph; 0 at the dead."""
        return ops.softmax(score, self.alive, self.graph, self.slot_ptr)

    def sums(self, x: Tensor, weight: Tensor) -> Tensor:
        """[B, M, F] weighted sums over each graph; weight [C, M] must be 0 at dead positions."""
        return ops.sums(x, weight, self.graph, self.slot_ptr)

    def means(self, value: Tensor) -> Tensor:
        """[B] the mean of value [C] over each graph's living nodes; 0 where there are none."""
        total = self.sums(value.unsqueeze(1), self.alive.unsqueeze(1)).view(-1)
        return total / self.sizes.clamp(min=1)

    def dots(self, x: Tensor, vector: Tensor) -> Tensor:
        """[C] each node's features [C, F] times the vector of its graph, [B, F]."""
        return ops.dots(x, vector.unsqueeze(1), self.graph, self.slot_ptr).squeeze(1)

    def readout(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The maximum and the sum over each graph's living nodes, twice [B, F]; 0 where there are none."""
        return ops.readout(x, self.alive, self.graph, self.slot_ptr)

    def over_graphs(self, value: Tensor) -> Tensor:
        """The mean of value [B] over the graphs that are there (empty slots do not count)."""
        there = (self.sizes > 0).to(value.dtype)
        return (value * there).sum() / there.sum().clamp(min=1.0)

    def over_nodes(self, value: Tensor) -> Tensor:
        """The mean of value [C] over all living nodes."""
        return (value * self.alive).sum() / self.alive.sum().clamp(min=1.0)

    def uniform(self, site: int, columns: int | None = None) -> Tensor:
        """[C] a random number in [0, 1) for every node, or [C, columns], drawn for this step and this site. It depends
        on the graph's number and the node's place in it, not on the other graphs of the batch."""
        place = self.position - self.origin.slot_ptr[self.graph]
        index = node_index(self.origin.id[self.graph], place)
        if columns is not None:
            index = node_index(index.unsqueeze(1), torch.arange(columns, device=index.device))
        return ops.draws(index.flatten(), self.origin.key, site).view(index.shape)


def cells_of(level: Level) -> int:
    """How many cells the matrices over a level's positions have: as the batch's, unless positions were dropped."""
    if not level.compact:
        return level.origin.cells
    return int(torch.diff(level.slot_ptr).square().sum())
