"""Loops over nodes and graphs. Sums over many nodes add up the sums of `BLOCK` nodes, which rounds less than one long
sum."""

import numba
import numpy as np

from cgipool.ops.cpu.loops.compiled import SHAPES, loop

BLOCK = 64
COUNTED = 256
"""Size of a graph up to which nodes are ranked by counting those before them."""


@loop
def relu_grad(grad, made, out, total):
    """out = grad where a ReLU gave `made` > 0, else 0; total = the sum of that over positions."""
    positions, width = grad.shape
    if grad.shape != made.shape:
        raise ValueError(SHAPES)
    zero = grad.dtype.type(0)
    total[:] = zero
    part = np.empty_like(total)
    for start in range(0, positions, BLOCK):
        part[:] = zero
        for p in range(start, min(start + BLOCK, positions)):
            row, given, kept = out[p], grad[p], made[p]
            for f in range(width):
                row[f] = zero if kept[f] <= zero else given[f]
                part[f] += row[f]
        for f in range(width):
            total[f] += part[f]


@loop
def readout(x, alive, slot_ptr, top, total):
    """Maximum and sum over the living nodes of each graph."""
    if len(x) != len(alive) or len(x) < slot_ptr[-1]:
        raise ValueError(SHAPES)
    width = x.shape[1]
    zero = x.dtype.type(0)
    part = np.empty_like(x[0]) if len(x) else np.empty(width, x.dtype)
    for b in range(len(slot_ptr) - 1):
        high, low = top[b], total[b]
        low[:] = zero
        high[:] = -np.inf
        count = 0
        for start in range(slot_ptr[b], slot_ptr[b + 1], BLOCK):
            part[:] = zero
            for p in range(start, min(start + BLOCK, slot_ptr[b + 1])):
                if alive[p] > 0:
                    count += 1
                    row = x[p]
                    for f in range(width):
                        part[f] += row[f]
                        high[f] = high[f] if row[f] <= high[f] else row[f]
            for f in range(width):
                low[f] += part[f]
        if count == 0:
            high[:] = zero


@loop
def readout_grad(grad_top, grad_sum, x, top, alive, slot_ptr, out):
    """The gradient of `readout` by x; nodes that attain the maximum share its gradient."""
    if x.shape != out.shape or grad_top.shape != top.shape or grad_sum.shape != top.shape or len(x) < slot_ptr[-1]:
        raise ValueError(SHAPES)
    width = x.shape[1]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    count = np.empty(width, x.dtype)
    for b in range(len(slot_ptr) - 1):
        high, low, best = grad_top[b], grad_sum[b], top[b]
        count[:] = zero
        for p in range(slot_ptr[b], slot_ptr[b + 1]):
            if alive[p] > 0:
                row = x[p]
                for f in range(width):
                    count[f] += one if row[f] == best[f] else zero
        for f in range(width):
            count[f] = high[f] / max(count[f], one)
        for p in range(slot_ptr[b], slot_ptr[b + 1]):
            row, made = x[p], out[p]
            if alive[p] > 0:
                for f in range(width):
                    made[f] = low[f] + (count[f] if row[f] == best[f] else zero)
            else:
                made[:] = zero
    out[slot_ptr[-1] :] = zero


@loop
def sums_and_pick(x, weight, gate, back, slot_ptr, sums, picked):
    """sums[b, m] = Σ_{p in b} weight[p, m] · x[p], and picked[back[p]] = gate[p] · x[p] where back[p] is not −1. `back`
    of no length: nothing is picked. With a gate of no length its factor is 1."""
    if len(weight) != len(x) or len(back) not in (0, len(x)) or len(x) < slot_ptr[-1]:
        raise ValueError(SHAPES)
    width, columns = x.shape[1], weight.shape[1]
    zero, one = x.dtype.type(0), x.dtype.type(1)
    part = np.empty((columns, width), x.dtype)
    for b in range(len(slot_ptr) - 1):
        total = sums[b]
        total[:] = zero
        for start in range(slot_ptr[b], slot_ptr[b + 1], BLOCK):
            part[:] = zero
            for p in range(start, min(start + BLOCK, slot_ptr[b + 1])):
                row = x[p]
                for m in range(columns):
                    factor = weight[p, m]
                    if factor != zero:
                        added = part[m]
                        for f in range(width):
                            added[f] += factor * row[f]
                if len(back) and back[p] >= 0:
                    made, factor = picked[back[p]], gate[p] if len(gate) else one
                    for f in range(width):
                        made[f] = factor * row[f]
            for m in range(columns):
                for f in range(width):
                    total[m, f] += part[m, f]


@loop
def sums_and_pick_grad(grad_sums, grad_picked, x, weight, gate, back, slot_ptr, by_x, by_weight, by_gate):
    """The gradients of `sums_and_pick` by x, weight and gate."""
    if len(weight) != len(x) or len(back) != len(x) or len(gate) != len(x) or grad_sums.shape[2] != x.shape[1]:
        raise ValueError(SHAPES)
    width, columns = x.shape[1], weight.shape[1]
    zero = x.dtype.type(0)
    for b in range(len(slot_ptr) - 1):
        for p in range(slot_ptr[b], slot_ptr[b + 1]):
            row, made = x[p], by_x[p]
            if back[p] >= 0:
                given, factor, total = grad_picked[back[p]], gate[p], zero
                for f in range(width):
                    made[f] = factor * given[f]
                    total += row[f] * given[f]
                by_gate[p] = total
            else:
                made[:] = zero
                by_gate[p] = zero
            for m in range(columns):
                given, factor, total = grad_sums[b, m], weight[p, m], zero
                for f in range(width):
                    made[f] += factor * given[f]
                    total += row[f] * given[f]
                by_weight[p, m] = total
    by_x[slot_ptr[-1] :] = zero
    by_weight[slot_ptr[-1] :] = zero
    by_gate[slot_ptr[-1] :] = zero


@loop
def pick(x, gate, index, out):
    """out[q] = gate[index[q]] · x[index[q]], 0 for the number −1; a gate of no length is 1."""
    if len(gate) not in (0, len(x)) or (index.size and index.max() >= len(x)):
        raise ValueError(SHAPES)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for q in range(len(index)):
        p = index[q]
        row = out[q]
        if p < 0:
            row[:] = zero
        else:
            given, factor = x[p], gate[p] if len(gate) else one
            for f in range(len(row)):
                row[f] = factor * given[f]


@loop
def pick_gated_grad(grad, x, gate, back, by_x, by_gate):
    """The gradients of `pick` by x and gate."""
    if len(back) != len(x) or len(gate) != len(x) or grad.shape[1] != x.shape[1]:
        raise ValueError(SHAPES)
    zero = x.dtype.type(0)
    for p in range(len(x)):
        row, made, total = x[p], by_x[p], zero
        if back[p] < 0:
            made[:] = zero
        else:
            given, factor = grad[back[p]], gate[p]
            for f in range(len(row)):
                made[f] = factor * given[f]
                total += row[f] * given[f]
        by_gate[p] = total


@loop
def spread(value, weight, slot_ptr, out):
    """out[p] = Σ_m weight[p, m] · value[b, m] for the nodes p of graph b."""
    if len(weight) < slot_ptr[-1] or len(value) != len(slot_ptr) - 1 or value.shape[1] != weight.shape[1]:
        raise ValueError(SHAPES)
    columns, width = weight.shape[1], value.shape[2]
    for b in range(len(slot_ptr) - 1):
        for p in range(slot_ptr[b], slot_ptr[b + 1]):
            row = out[p]
            row[:] = out.dtype.type(0)
            for m in range(columns):
                given, factor = value[b, m], weight[p, m]
                for f in range(width):
                    row[f] += factor * given[f]
    out[slot_ptr[-1] :] = out.dtype.type(0)


@loop
def dots(x, value, slot_ptr, out):
    """out[p, m] = x[p] · value[b, m] for the nodes p of graph b."""
    if len(x) < slot_ptr[-1] or len(value) != len(slot_ptr) - 1 or value.shape[2] != x.shape[1]:
        raise ValueError(SHAPES)
    columns, width = value.shape[1], x.shape[1]
    for b in range(len(slot_ptr) - 1):
        for p in range(slot_ptr[b], slot_ptr[b + 1]):
            row = x[p]
            for m in range(columns):
                given, total = value[b, m], x.dtype.type(0)
                for f in range(width):
                    total += row[f] * given[f]
                out[p, m] = total
    out[slot_ptr[-1] :] = x.dtype.type(0)


@loop
def project(x, weight, out):
    """out = x Wᵀ for few rows of W."""
    if x.shape[1] != weight.shape[1]:
        raise ValueError(SHAPES)
    columns, width = weight.shape
    for p in range(len(x)):
        row = x[p]
        for m in range(columns):
            given, total = weight[m], x.dtype.type(0)
            for f in range(width):
                total += row[f] * given[f]
            out[p, m] = total


@loop
def project_grad(grad, x, weight, by_x, by_weight):
    """The gradients of `project` by x and weight."""
    columns, width = weight.shape
    zero = x.dtype.type(0)
    by_weight[:] = zero
    part = np.empty_like(weight)
    for start in range(0, len(x), BLOCK):
        part[:] = zero
        for p in range(start, min(start + BLOCK, len(x))):
            row, made = x[p], by_x[p]
            made[:] = zero
            for m in range(columns):
                factor, given, added = grad[p, m], weight[m], part[m]
                for f in range(width):
                    made[f] += factor * given[f]
                    added[f] += factor * row[f]
        for m in range(columns):
            for f in range(width):
                by_weight[m, f] += part[m, f]


@loop
def keep_top_k(bits, alive, k, slot_ptr, keep):
    """keep[p, m] = 1 for the k[b] living positions of graph b with the highest scores of a column, else 0; ties go to
    the lower position. `bits` [C, M] are those of single-precision scores, as integers."""
    if len(bits) != len(alive) or len(bits) < slot_ptr[-1] or len(k) != len(slot_ptr) - 1:
        raise ValueError(SHAPES)
    columns = bits.shape[1]
    keep[:] = keep.dtype.type(0)
    largest = 0
    for b in range(len(slot_ptr) - 1):
        largest = max(largest, slot_ptr[b + 1] - slot_ptr[b])
    near, where = np.empty(largest, np.int32), np.empty(largest, np.int64)
    for b in range(len(slot_ptr) - 1):
        for m in range(columns):
            size = 0
            for p in range(slot_ptr[b], slot_ptr[b + 1]):
                if alive[p] > 0:
                    score = bits[p, m] if bits[p, m] != np.int32(-(2**31)) else np.int32(0)  # −0 is 0
                    # Turned so that a larger score is a smaller number.
                    near[size], where[size] = ~(score ^ ((score >> 31) & np.int32(0x7FFFFFFF))), p
                    size += 1
            if size > COUNTED and size > k[b]:
                best = np.argsort(near[:size], kind="mergesort")[: k[b]]
                for i in range(len(best)):
                    keep[where[best[i]], m] = 1
                continue
            for i in range(size):
                mine, rank = near[i], np.int32(0)
                for j in range(i):
                    rank = np.int32(rank + np.int32(near[j] <= mine))
                for j in range(i + 1, size):
                    rank = np.int32(rank + np.int32(near[j] < mine))
                if rank < k[b]:
                    keep[where[i], m] = 1


@loop
def close_up(keep, slot_ptr, position, index, back, alive, graph, first, ends):
    """The positions with keep = 1 move together, into the first places; see `cgipool.ops.cpu.shrink`."""
    if len(position) != len(keep) or len(keep) < slot_ptr[-1]:
        raise ValueError(SHAPES)
    count, graphs = 0, len(slot_ptr) - 1
    for b in range(graphs):
        ends[b] = count
        for p in range(slot_ptr[b], slot_ptr[b + 1]):
            back[p] = -1
            if keep[p] > 0 and count < len(index):
                index[count], back[p] = p, count
                alive[count], graph[count], first[count] = 1, b, position[p]
                count += 1
    ends[graphs] = count
    back[slot_ptr[-1] :] = -1
    index[count:], alive[count:], graph[count:], first[count:] = -1, 0, graphs - 1, 0


@numba.njit(cache=True, inline="always")
def _mix(x):
    """`mix` of draws.py in 32 bits."""
    x = np.uint32(x ^ (x >> np.uint32(16)))
    x = np.uint32(x * np.uint32(0x7FEB352D))
    x = np.uint32(x ^ (x >> np.uint32(15)))
    x = np.uint32(x * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@loop
def draws(index, key, site, out):
    """out[i] is a number in [0, 1), the hash of index[i] with a key and a mixed site; see ops/draws.py."""
    for i in range(len(index)):
        x = _mix(np.uint32(_mix(np.uint32(np.uint32(index[i]) ^ site)) ^ key))
        out[i] = np.float32(x >> np.uint32(8)) * np.float32(2.0**-24)
