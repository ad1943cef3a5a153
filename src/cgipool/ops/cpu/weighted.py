"""Weighted sums over graphs and their two derivatives. Shapes: see `cgipool.ops.cpu`."""

import torch
from torch import Tensor

from cgipool.ops.cpu.bags import bags, row_dots
from cgipool.ops.cpu.products import by_graph

WIDE = 8
"""From so many columns on, a matrix product for each graph beats weighted bags."""


def sums(x: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Weighted sums over each graph: out[b, m] = Σ_{p in b} weight[p, m] · x[p]; [C, F] and [C, M] → [B, M, F]."""
    if _is_wide(weight.shape[1], x):
        return by_graph(lambda w, v: (w.mT, v), (weight, x), (), slot_ptr, (weight.shape[1], x.shape[1]))
    columns, used = weight.shape[1], int(slot_ptr[-1])
    every = torch.arange(used, device=x.device).repeat(columns)
    first = slot_ptr[:-1] + used * torch.arange(columns, device=x.device).unsqueeze(1)
    ptr = torch.cat([first.view(-1), slot_ptr[-1:] * columns])
    out = bags(x, every, ptr, weight[:used].T.reshape(-1))
    return out.view(columns, -1, x.shape[1]).transpose(0, 1).contiguous()


def spread(value: Tensor, weight: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each graph's vectors to its nodes: out[p] = Σ_m weight[p, m] · value[graph[p], m]; value [B, M, F] → [C, F]."""
    if _is_wide(weight.shape[1], value):
        return by_graph(lambda w, v: (w, v), (weight,), (value,), slot_ptr, value.shape[2])
    used = int(slot_ptr[-1])
    table, index, start = _table(value, graph[:used])
    out = torch.embedding_bag(table, index, start, False, 0, False, weight[:used].reshape(-1))[0]
    return _padded(out, len(weight))


def dots(x: Tensor, value: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each node against its graph's vectors: out[p, m] = x[p] · value[graph[p], m]; [C, F] and [B, M, F] → [C, M]."""
    if _is_wide(value.shape[1], x):
        return by_graph(lambda v, u: (v, u.mT), (x,), (value,), slot_ptr, value.shape[1])
    used, columns = int(slot_ptr[-1]), value.shape[1]
    table, index, _ = _table(value, graph[:used])
    row = torch.arange(used, device=x.device).repeat_interleave(columns, output_size=used * columns)
    return _padded(row_dots(x, table, index, row).view(-1, columns), len(x))


def _is_wide(columns: int, x: Tensor) -> bool:
    return columns >= WIDE and x.device.type == "cpu"


def _table(value: Tensor, graph: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value [B, M, F] as a table of B·M rows, with the rows of each position's graph as its bag."""
    columns = value.shape[1]
    index = (graph.unsqueeze(1) * columns + torch.arange(columns, device=graph.device)).view(-1)
    start = torch.arange(0, len(index), columns, device=graph.device)
    return value.reshape(-1, value.shape[2]).contiguous(), index, start


def _padded(out: Tensor, positions: int) -> Tensor:
    """Zeros behind the last row that is used."""
    return out if len(out) == positions else torch.cat([out, out.new_zeros(positions - len(out), out.shape[1])])
