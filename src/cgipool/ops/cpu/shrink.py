"""From a level to the next: the kept nodes, their features and their neighbours. Shapes: see `cgipool.ops.cpu`."""

import torch
from torch import Tensor

from cgipool.ops.cpu.rows import arrays, like, loops


def close_up(
    keep: Tensor, k: Tensor, slot_ptr: Tensor, position: Tensor, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The positions with keep = 1 move together, into `rows` places; k[b] of them are in graph b.

    [rows] which position stands at each place, or −1; [C] which place each position has, or −1; of each place [rows]
    whether it is alive, its graph (behind the last, the last one) and its first position; [B + 1] where the graphs
    begin now.
    """
    index, graph, first = (slot_ptr.new_empty(rows) for _ in range(3))
    back, alive, ends = slot_ptr.new_empty(len(keep)), keep.new_empty(rows), like(slot_ptr)
    loops().close_up(*arrays(keep, slot_ptr, position, index, back, alive, graph, first, ends))
    return index, back, alive, graph, first, ends


def induce(
    row_ptr: Tensor, neighbor: Tensor, number: Tensor, index: Tensor, back: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The neighbour lists among the positions that `close_up` kept, as places, and the numbers of the entries that are
    left: [rows + 1], [E] and [E], or [0] where number is [0]."""
    ends, out, left = row_ptr.new_empty(len(index) + 1), torch.empty_like(neighbor), torch.empty_like(number)
    used = loops().induce(*arrays(row_ptr, neighbor, number, index, back, ends, out, left))
    out[used:], left[used:] = 0, 0
    return ends, out, left


def pick_gated(x: Tensor, gate: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """`pick` of rows times their gates [C]: out[q] = gate[index[q]] · x[index[q]], 0 for −1."""
    out = x.new_empty(len(index), x.shape[1])
    loops().pick(*arrays(x, gate, index, out))
    return out


def pick_gated_grad(grad: Tensor, x: Tensor, gate: Tensor, index: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `pick_gated` by x and gate."""
    by_x, by_gate = like(x), like(gate)
    loops().pick_gated_grad(*arrays(grad, x, gate, back, by_x, by_gate))
    return by_x, by_gate


def sums_and_pick(
    x: Tensor, weight: Tensor, gate: Tensor, index: Tensor, back: Tensor, ends: Tensor, graph: Tensor, slot_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """`sums` and `pick_gated` of the same rows: [B, M, F] and [rows, F]. The places of graph b, of those that `index`
    and `back` number, begin at ends[b]."""
    sums = x.new_empty(len(slot_ptr) - 1, weight.shape[1], x.shape[1])
    picked = x.new_empty(len(index), x.shape[1])
    loops().sums_and_pick(*arrays(x, weight, gate, back, slot_ptr, sums, picked))
    picked[int(ends[-1]) :] = 0.0
    return sums, picked


def sums_and_pick_grad(
    grad_sums: Tensor,
    grad_picked: Tensor,
    x: Tensor,
    weight: Tensor,
    gate: Tensor,
    index: Tensor,
    back: Tensor,
    ends: Tensor,
    graph: Tensor,
    slot_ptr: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `sums_and_pick` by x, weight and gate."""
    made = like(x), like(weight), like(gate)
    loops().sums_and_pick_grad(*arrays(grad_sums, grad_picked, x, weight, gate, back, slot_ptr, *made))
    return made
