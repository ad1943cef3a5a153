"""Operations on neighbours that read features of the edges.

Shapes: C positions, E neighbour entries, F features, H heads, T rows of a table of edge features. Entry i of position p
is the edge from its neighbour: its features are table[code[i]], those of the reverse edge table[back[i]]. Either many
entries share few rows of the table, or, with `each`, every entry has a row of its own. Weights [E] are those of the
entries and of their reverses; [0] if all edges weigh 1. Entries are worked on in pieces that stay in the cache, in
memory that is kept: the kernel takes longer to give fresh memory than these operations take to fill it.
"""

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from cgipool.ops.cpu.rows import arrays, bags, like, loops

PIECE = 2**19
"""Numbers in a piece of entries."""


class _Kept(threading.local):
    """The memory of a thread."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, torch.dtype], Tensor] = {}


_KEPT = _Kept()


def _rows_of(x: Tensor, row: Tensor, place: int) -> Tensor:
    """`x.index_select(0, row)` in memory that is kept by place until the next call."""
    size, places = len(row) * x.shape[1], _KEPT.places
    held = places.get((place, x.dtype))
    if held is None or len(held) < size:
        held = places[place, x.dtype] = x.new_empty(max(size, PIECE))
    return torch.index_select(x, 0, row, out=held[:size].view(len(row), -1))


class EntryBlock(NamedTuple):
    """The entries of consecutive positions."""

    rows: slice
    entries: slice
    own: Tensor
    """[e] the position of each entry."""
    other: Tensor
    """[e] its neighbour."""
    ptr: Tensor
    """Where the entries of each position begin."""

    def sums(self, values: Tensor) -> Tensor:
        """The sum over the entries of each position."""
        return bags(values, torch.arange(len(values), device=values.device), self.ptr)


def pieces(row_ptr: Tensor, neighbor: Tensor, features: int) -> Iterator[EntryBlock]:
    """All entries, some positions at a time."""
    size = max(1, PIECE // max(features, 1))
    marks = torch.arange(0, int(row_ptr[-1]), size, dtype=row_ptr.dtype, device=row_ptr.device)
    cuts = torch.searchsorted(row_ptr[1:].contiguous(), marks, right=True).tolist()
    cuts = sorted({0, *cuts, len(row_ptr) - 1})
    for first, last in pairwise(cuts):
        ptr = row_ptr[first : last + 1]
        begin, end = int(ptr[0]), int(ptr[-1])
        if begin < end:
            own = torch.arange(first, last, device=ptr.device).repeat_interleave(torch.diff(ptr))
            entries = slice(begin, end)
            yield EntryBlock(slice(first, last), entries, own, neighbor[entries], ptr - begin)


def _factor(piece: EntryBlock, alive: Tensor | None, weight: Tensor) -> Tensor | None:
    """[e] the weight of each entry, 0 if one of its ends is dead; None if all are 1."""
    if alive is None:
        return weight[piece.entries] if len(weight) else None
    factor = alive.index_select(0, piece.own) * alive.index_select(0, piece.other)
    return factor * weight[piece.entries] if len(weight) else factor


def _unless_all(alive: Tensor) -> Tensor | None:
    """Who is alive; None if all are."""
    return None if bool(alive.all()) else alive


class _TableGradient:
    """Adds up gradients by the rows of a table, in the order of the entries."""

    def __init__(self, table: Tensor, each: bool) -> None:
        self.sum, self.each = torch.zeros_like(table), each

    def add(self, row: Tensor, values: Tensor) -> None:
        if self.each:
            self.sum.index_copy_(0, row.long(), values)
            return
        count = torch.bincount(row, minlength=len(self.sum))
        order, ptr = torch.argsort(row, stable=True), torch.nn.functional.pad(count.cumsum(0), (1, 0))
        self.sum.add_(bags(values, order, ptr))


def gine(
    x: Tensor,
    table: Tensor,
    alive: Tensor,
    row_ptr: Tensor,
    neighbor: Tensor,
    code: Tensor,
    back: Tensor,
    weight: Tensor,
    weight_back: Tensor,
    each: bool,
) -> Tensor:
    """Σ_i weight_i · relu(x[neighbor[i]] + table[code[i]]) over the living entries i of each living position."""
    out = like(x)
    loops().gine(*arrays(x, table, alive, row_ptr, neighbor, code, weight, out))
    return out


def gine_grad(
    grad: Tensor,
    x: Tensor,
    table: Tensor,
    alive: Tensor,
    row_ptr: Tensor,
    neighbor: Tensor,
    code: Tensor,
    back: Tensor,
    weight: Tensor,
    weight_back: Tensor,
    each: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of `gine` by x and table. A position collects what it sent, which are the reverses of its entries."""
    by_x, by_table = like(x), like(table)
    loops().gine_grad(*arrays(grad, x, table, alive, row_ptr, neighbor, back, weight_back, by_x, by_table))
    return by_x, by_table


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    table: Tensor,
    alive: Tensor,
    row_ptr: Tensor,
    neighbor: Tensor,
    code: Tensor,
    back: Tensor,
    weight: Tensor,
    weight_back: Tensor,
    heads: int,
    each: bool,
) -> tuple[Tensor, Tensor]:
    """For each head Σ_i α_i (value[q] + e_i), q the neighbour and e_i = table[code[i]] the edge of entry i, with
    α ∝ weight_i · exp(query[p] · (key[q] + e_i) / √(F / H)); [C, F]. Also the logarithms of the sums that α is divided
    by, [C, H]. 0 where there is no living neighbour, and at the dead."""
    out, log = torch.zeros_like(query), query.new_zeros(len(query), heads)
    scale, living = (query.shape[1] // heads) ** -0.5, _unless_all(alive)
    for piece in pieces(row_ptr, neighbor, query.shape[1]):
        edge = _rows_of(table, code[piece.entries], 0)
        keyed = _rows_of(key, piece.other, 1).add_(edge).mul_(_rows_of(query, piece.own, 2))
        score = _headed(keyed, heads) * scale
        factor = _factor(piece, living, weight)
        if factor is not None:
            score = score.masked_fill((factor == 0).unsqueeze(1), -torch.inf)
        row = (piece.own - piece.rows.start).unsqueeze(1).expand_as(score)
        top = score.new_full((len(piece.ptr) - 1, heads), -torch.inf).scatter_reduce(0, row, score, "amax")
        top = top.masked_fill(top == -torch.inf, 0.0)
        power = torch.exp(score - top.gather(0, row))
        if factor is not None:
            power = power * factor.unsqueeze(1)
        total = piece.sums(power)
        there = total > 0
        safe = torch.where(there, total, 1.0)
        message = _times(_rows_of(value, piece.other, 1).add_(edge), power)
        out[piece.rows] = (piece.sums(message).unflatten(1, (heads, -1)) / safe.unsqueeze(2)).flatten(1)
        log[piece.rows] = torch.where(there, top + safe.log(), 0.0)
    return out, log


def attend_grad(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    table: Tensor,
    out: Tensor,
    log: Tensor,
    alive: Tensor,
    row_ptr: Tensor,
    neighbor: Tensor,
    code: Tensor,
    back: Tensor,
    weight: Tensor,
    weight_back: Tensor,
    heads: int,
    each: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `attend` by query, key, value and table, from its results."""
    by_query, by_key, by_value = (torch.zeros_like(t) for t in (query, key, value))
    by_table, scale = _TableGradient(table, each), (query.shape[1] // heads) ** -0.5
    living = _unless_all(alive)
    mean = _headed(grad * out, heads)  # Σ_i α_i (∂/∂α_i) of each position

    def steps(piece: EntryBlock, to: Tensor, source: Tensor, edge: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """α of the edges from `source` to `to`, and the gradient by their scores; twice [e, H]."""
        keyed = _rows_of(key, source, 1).add_(edge).mul_(_rows_of(query, to, 2))
        alpha = torch.exp(_headed(keyed, heads) * scale - log.index_select(0, to))
        if (factor := _factor(piece, living, weight)) is not None:
            alpha = torch.where((factor != 0).unsqueeze(1), alpha * factor.unsqueeze(1), 0.0)
        valued = _rows_of(value, source, 1).add_(edge).mul_(_rows_of(grad, to, 2))
        return alpha, alpha * (_headed(valued, heads) - mean.index_select(0, to)) * scale

    for piece in pieces(row_ptr, neighbor, query.shape[1]):
        edge = _rows_of(table, code[piece.entries], 0)
        _, step = steps(piece, piece.own, piece.other, edge, weight)
        by_query[piece.rows] = piece.sums(_times(_rows_of(key, piece.other, 1).add_(edge), step))

        row = back[piece.entries]
        alpha, step = steps(piece, piece.other, piece.own, _rows_of(table, row, 0), weight_back)
        keyed = _times(_rows_of(query, piece.other, 1), step)
        valued = _times(_rows_of(grad, piece.other, 2), alpha)
        by_key[piece.rows], by_value[piece.rows] = piece.sums(keyed), piece.sums(valued)
        by_table.add(row, keyed.add_(valued))
    return by_query, by_key, by_value, by_table.sum


def _headed(x: Tensor, heads: int) -> Tensor:
    """[e, H] the sum over the features of each head."""
    return x.unflatten(1, (heads, -1)).sum(2)


def _times(x: Tensor, factor: Tensor) -> Tensor:
    """The features of each head times its factor [e, H], in place."""
    x.unflatten(1, (factor.shape[1], -1)).mul_(factor.unsqueeze(2))
    return x
