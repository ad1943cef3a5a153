"""From a level to the next: the kept nodes, their features and their neighbours. Shapes: see `cgipool.ops.cpu`."""

import numpy as np
import torch
from torch import Tensor

from cgipool.ops.cpu.graphs import dots, spread, sums
from cgipool.ops.cpu.neighbors import pick
from cgipool.ops.cpu.rows import bags, row_dots


def take(x: Tensor, gate: Tensor, kept: Tensor, before: Tensor) -> Tensor:
    """The kept rows, gated: out[i] = gate[kept[i]] · x[kept[i]]; before [C + 1] counts the kept ones before each."""
    one_each = torch.arange(len(kept) + 1, device=kept.device)
    return bags(x, kept, one_each, gate.index_select(0, kept))


def take_grad(grad: Tensor, x: Tensor, gate: Tensor, kept: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `take` by x and gate; 0 where a position was dropped."""
    row = torch.arange(len(kept), device=kept.device)
    by_x = bags(grad, row, before, gate.index_select(0, kept))
    by_gate = grad.new_zeros(len(x))
    by_gate[kept] = row_dots(x, grad, row, kept)
    return by_x, by_gate


def close_up(
    keep: Tensor, k: Tensor, slot_ptr: Tensor, position: Tensor, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The positions with keep = 1 move together, into `rows` places; k[b] of them are in graph b.

    [rows] which position stands at each place, or −1; [C] which place each position has, or −1; of each place [rows]
    whether it is alive, its graph (behind the last, the last one) and its first position; [B + 1] where the graphs
    begin now.
    """
    kept = keep.nonzero().squeeze(1)
    index, back = kept.new_full((rows,), -1), kept.new_full((len(keep),), -1)
    index[: len(kept)] = kept
    back[kept] = torch.arange(len(kept), device=keep.device)
    there, held = index >= 0, index.clamp(min=0)
    ends = torch.nn.functional.pad(torch.cumsum(k, 0), (1, 0))
    place = torch.arange(rows, device=keep.device)
    graph = torch.searchsorted(ends[1:].contiguous(), place, right=True).clamp(max=len(k) - 1)
    return index, back, there.to(keep.dtype), graph, torch.where(there, position[held], 0), ends


def induce(
    row_ptr: Tensor, neighbor: Tensor, number: Tensor, index: Tensor, back: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The neighbour lists among the positions that `close_up` kept, as places, and the numbers of the entries that are
    left: [rows + 1], [E] and [E], or [0] where number is [0]."""
    pointer, place = row_ptr.cpu().numpy(), back.cpu().numpy()
    chosen = index.cpu().numpy()
    chosen = chosen[chosen >= 0]
    count = np.diff(pointer)[chosen]
    entry = np.repeat(pointer[chosen] - (np.cumsum(count) - count), count) + np.arange(count.sum())
    target = place[neighbor.cpu().numpy()[entry]]
    stays = target >= 0
    out, left = np.zeros(len(neighbor), np.int32), np.zeros(len(number), np.int32)
    out[: stays.sum()] = target[stays]
    if len(number):
        left[: stays.sum()] = number.cpu().numpy()[entry[stays]]
    ends = np.zeros(len(index) + 1, np.int32)
    ends[1 : len(chosen) + 1] = np.cumsum(
        np.bincount(np.repeat(np.arange(len(chosen)), count)[stays], minlength=len(chosen))
    )
    ends[len(chosen) + 1 :] = ends[len(chosen)]
    made = (torch.from_numpy(array).to(row_ptr.device) for array in (ends, out, left))
    return next(made), next(made), next(made)


def pick_gated(x: Tensor, gate: Tensor, index: Tensor, back: Tensor) -> Tensor:
    """`pick` of rows times their gates [C]: out[q] = gate[index[q]] · x[index[q]], 0 for −1."""
    return pick(x, index, back).mul_(pick(gate.unsqueeze(1), index, back))


def pick_gated_grad(grad: Tensor, x: Tensor, gate: Tensor, index: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `pick_gated` by x and gate."""
    there = pick(grad, back, index)
    return there * gate.unsqueeze(1), (there * x).sum(1)


def sums_and_pick(
    x: Tensor, weight: Tensor, gate: Tensor, index: Tensor, back: Tensor, ends: Tensor, graph: Tensor, slot_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """`sums` and `pick_gated` of the same rows: [B, M, F] and [rows, F]. The places of graph b, of those that `index`
    and `back` number, begin at ends[b]."""
    return sums(x, weight, graph, slot_ptr), pick_gated(x, gate, index, back)


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
    by_x, by_gate = pick_gated_grad(grad_picked, x, gate, index, back)
    by_x = by_x.add_(spread(grad_sums, weight, graph, slot_ptr))
    return by_x, dots(x, grad_sums, graph, slot_ptr), by_gate
