"""A batch, made on the device from graph ids: where each graph begins, what stands at each position, who its
neighbours are.

Shapes: S splits, B graphs, C positions, E neighbour entries, N nodes of the data set, K category columns.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cgipool.ops.gpu.launch import power, tiles


@triton.jit(do_not_specialize=["B"])
def _slots(ids, size, edges, y, slot_ptr, entry_ptr, of_class, B, GRAPHS: tl.constexpr):
    """One split: where each graph's positions and entries begin, and its class; an empty slot (−1) has none."""
    split = tl.program_id(0).to(tl.int64)
    b = tl.arange(0, GRAPHS)
    graph = tl.load(ids + split * B + b, mask=b < B, other=-1)
    there = graph >= 0
    nodes = tl.cumsum(tl.load(size + graph, mask=there, other=0), 0)
    entries = tl.cumsum(tl.load(edges + graph, mask=there, other=0), 0)
    tl.store(of_class + split * B + b, tl.load(y + graph, mask=there, other=0), mask=b < B)
    tl.store(slot_ptr + split * (B + 1), 0)
    tl.store(entry_ptr + split * (B + 1), 0)
    tl.store(slot_ptr + split * (B + 1) + 1 + b, nodes, mask=b < B)
    tl.store(entry_ptr + split * (B + 1) + 1 + b, entries, mask=b < B)


@triton.jit(do_not_specialize=["C", "B", "N"])
def _positions(
    ids, slot_ptr, entry_ptr, first, edge_ptr, table, graph, alive, node, row_ptr, category, C, B, N, K,
    STEPS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """What stands at each position. Its graph is the first whose positions end behind it, found by bisection."""
    split = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    slot_ptr += split * (B + 1)
    entry_ptr += split * (B + 1)
    low = tl.zeros((SIZE,), tl.int32)
    high = low + B
    for _ in range(STEPS):
        middle = (low + high) // 2
        beyond = (low < high) & (tl.load(slot_ptr + 1 + middle, mask=low < high, other=0) <= at)
        high = tl.where(beyond | (low >= high), high, middle)
        low = tl.where(beyond, middle + 1, low)
    b = tl.minimum(low, B - 1)
    here, living = at < C, at < tl.load(slot_ptr + B)
    begin = tl.load(first + tl.load(ids + split * B + b, mask=living, other=0), mask=living, other=0)
    n = tl.where(living, begin + at - tl.load(slot_ptr + b, mask=living, other=0), 0)
    entry = tl.load(entry_ptr + b, mask=living, other=0) + tl.load(edge_ptr + n) - tl.load(edge_ptr + begin)
    entry = tl.where(living, entry, tl.load(entry_ptr + B))
    tl.store(graph + split * C + at, b.to(tl.int64), mask=here)
    tl.store(alive + split * C + at, living.to(tl.float32), mask=here)
    tl.store(node + split * C + at, n, mask=here)
    tl.store(row_ptr + split * (C + 1) + at, entry.to(tl.int32), mask=at <= C)
    for k in range(K):
        tl.store(category + (split * C + at) * K + k, tl.load(table + (split * N + n) * K + k, mask=here), mask=here)


def positions(
    ids: Tensor, places: int, size: Tensor, edges: Tensor, y: Tensor, first: Tensor, edge_ptr: Tensor, table: Tensor
) -> tuple[Tensor, ...]:
    """The positions of the graphs ids [S, B] (−1: an empty slot; those come last). Of the data set: nodes, entries,
    class and first node of each graph, the entries' pointer [N + 1], and each split's categories [S, N, K].

    What `Made` of training/resident.py lists.
    """
    (splits, graphs), ids = ids.shape, ids.contiguous()
    _, nodes, columns = table.shape
    slot_ptr, entry_ptr = ids.new_empty(2, splits, graphs + 1)
    graph, node = ids.new_empty(2, splits, places)
    row_ptr = ids.new_empty(splits, places + 1, dtype=torch.int32)
    category = table.new_empty(splits, places, columns)
    alive, of_class = ids.new_empty(splits, places, dtype=torch.float32), torch.empty_like(ids)
    _slots[(splits,)](
        ids, size, edges, y, slot_ptr, entry_ptr, of_class, graphs, GRAPHS=power(graphs, most=1 << 20), num_warps=4
    )
    _positions[(tiles(places + 1, 128), splits)](
        ids, slot_ptr, entry_ptr, first, edge_ptr, table, graph, alive, node, row_ptr, category,
        places, graphs, nodes, columns, STEPS=graphs.bit_length(), SIZE=128, num_warps=4,
    )  # fmt: skip
    return category, alive, graph, slot_ptr, row_ptr, of_class, node


@triton.jit(do_not_specialize=["C", "E"])
def _neighbors(
    node, row_ptr, edge_ptr, displacement, out, number, C, E,
    NUMBERED: tl.constexpr, ROWS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Neighbour j of position p, which is a node of the data set: p plus that node's j-th displacement. If numbered,
    also the number of the entry in the data set."""
    split = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = row < C
    start = tl.load(row_ptr + split * (C + 1) + row, mask=here, other=0)
    count = tl.load(row_ptr + split * (C + 1) + row + 1, mask=here, other=0) - start
    edge = tl.load(edge_ptr + tl.load(node + split * C + row, mask=here, other=0), mask=here, other=0)
    for first in range(0, tl.max(count), WIDE):
        j = first + tl.arange(0, WIDE)
        more = j[None, :] < count[:, None]
        value = row[:, None] + tl.load(displacement + edge[:, None] + j[None, :], mask=more, other=0)
        at = split * E + start[:, None] + j[None, :]
        tl.store(out + at, value, mask=more)
        if NUMBERED:
            tl.store(number + at, edge[:, None] + j[None, :], mask=more)


def neighbors(
    node: Tensor, row_ptr: Tensor, edge_ptr: Tensor, displacement: Tensor, entries: int, numbered: bool = False
) -> tuple[Tensor, Tensor]:
    """[S, E] the neighbours of each position, as positions, and, if `numbered`, the number of each entry in the data
    set (else [S, 0]); zeros behind the last one."""
    splits, positions = node.shape
    out = torch.zeros(splits, entries, dtype=torch.int32, device=node.device)
    number = torch.zeros(splits, entries if numbered else 0, dtype=torch.int64, device=node.device)
    _neighbors[(tiles(positions, 32), splits)](
        node, row_ptr, edge_ptr, displacement, out, number, positions, entries,
        NUMBERED=numbered, ROWS=32, WIDE=8, num_warps=4,
    )  # fmt: skip
    return out, number


@triton.jit(do_not_specialize=["C"])
def _bits(node, table, out, C, W, ROWS: tl.constexpr, WORDS: tl.constexpr):
    """The words of the node at each position."""
    split = tl.program_id(1).to(tl.int64)
    row, word = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WORDS)
    n = tl.load(node + split * C + row, mask=row < C, other=0)
    mask = (row < C)[:, None] & (word < W)[None, :]
    value = tl.load(table + n[:, None] * W + word[None, :], mask=mask, other=0)
    tl.store(out + (split * C + row)[:, None] * W + word[None, :], value, mask=mask)


def bits(node: Tensor, table: Tensor) -> Tensor:
    """[S, C, W] the adjacency of each position as bits, from the data set's table [N, W]."""
    (splits, positions), words = node.shape, table.shape[1]
    out = table.new_empty(splits, positions, words)
    if words:
        _bits[(tiles(positions, 64), splits)](
            node, table, out, positions, words, ROWS=64, WORDS=power(words, most=1 << 16), num_warps=4
        )
    return out
