"""The graph operations: which kernel, which shapes, which derivative.

`sums`, `spread` and `dots` are the three derivatives of one trilinear form, Σ_p Σ_m weight[p, m] · x[p] ·
value[graph[p], m], hence each one's gradients are the other two; so are `block_mm` and `block_outer` for
Σ_{p,q} weight[p, q] · y[p] · x[q]. A is symmetric, hence the gradient of `propagate` is `propagate`.
"""

from typing import Any

import torch
from torch import Tensor

from cgipool.ops.cpu import blocks, graphs, nodes, ranks, rows, shrink, tiles, weighted
from cgipool.ops.graph_op import GraphOp


def _graphs(slot_ptr: Tensor) -> int:
    return slot_ptr.shape[-1] - 1


def _like(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _propagate_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, scale, ctx.self_weight, row_ptr, neighbor = inputs
    ctx.save_for_backward(scale, row_ptr, neighbor)


def _propagate_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, row_ptr, neighbor = ctx.saved_tensors
    return propagate(grad, scale, ctx.self_weight, row_ptr, neighbor), None, None, None, None


def _sums_grad(ctx: Any, grad: Tensor) -> tuple:
    x, weight, *where = ctx.saved_tensors
    by_x, by_weight = ctx.needs_input_grad[:2]
    return spread(grad, weight, *where) if by_x else None, dots(x, grad, *where) if by_weight else None, None, None


def _spread_grad(ctx: Any, grad: Tensor) -> tuple:
    value, weight, *where = ctx.saved_tensors
    by_value, by_weight = ctx.needs_input_grad[:2]
    return (
        sums(grad, weight, *where) if by_value else None,
        dots(grad, value, *where) if by_weight else None,
        None,
        None,
    )


def _dots_grad(ctx: Any, grad: Tensor) -> tuple:
    x, value, *where = ctx.saved_tensors
    by_x, by_value = ctx.needs_input_grad[:2]
    return spread(value, grad, *where) if by_x else None, sums(x, grad, *where) if by_value else None, None, None


def _readout_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    x, *where = inputs
    ctx.save_for_backward(x, output[0], *where)


def _readout_grad(ctx: Any, grad_top: Tensor, grad_sum: Tensor) -> tuple:
    return readout_grad(grad_top, grad_sum, *ctx.saved_tensors), None, None, None


def _take_grad(ctx: Any, grad: Tensor) -> tuple:
    return *take_grad(grad, *ctx.saved_tensors), None, None


def _lookup_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.rows = inputs[0].shape[-2]
    ctx.save_for_backward(inputs[1])


def _lookup_grad(ctx: Any, grad: Tensor) -> tuple:
    return lookup_grad(grad, ctx.saved_tensors[0], ctx.rows), None


def _pick_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _pick_grad(ctx: Any, grad: Tensor) -> tuple:
    index, back = ctx.saved_tensors
    return pick(grad, back, index), None, None


def _softmax_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(output, *inputs[2:])


def _softmax_grad(ctx: Any, grad: Tensor) -> tuple:
    return softmax_grad(grad, *ctx.saved_tensors), None, None, None


def _neighbor_max_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], *inputs[2:])


def _neighbor_max_grad(ctx: Any, grad: Tensor, _: Any) -> tuple:
    return neighbor_max_grad(grad, *ctx.saved_tensors), None, None, None


def _block_max_save(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], *inputs[2:4])


def _block_max_grad(ctx: Any, grad: Tensor, _: Any) -> tuple:
    return None, block_max_grad(grad, *ctx.saved_tensors), None, None, None


def _block_mm_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    weight, x, ctx.flip, *where = inputs
    ctx.save_for_backward(weight, x, *where)


def _block_mm_grad(ctx: Any, grad: Tensor) -> tuple:
    weight, x, *where = ctx.saved_tensors
    left, right = (x, grad) if ctx.flip else (grad, x)
    by_weight = block_outer(left, right, *where, weight.shape[-1]) if ctx.needs_input_grad[0] else None
    by_x = block_mm(weight, grad, not ctx.flip, *where) if ctx.needs_input_grad[1] else None
    return by_weight, by_x, None, None, None


def _block_convolve_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    weight, x, _, ctx.rectify, *where = inputs
    ctx.save_for_backward(weight, x, *where, *([output] if ctx.rectify else []))


def _block_convolve_grad(ctx: Any, grad: Tensor) -> tuple:
    weight, x, slot_ptr, block_ptr, *out = ctx.saved_tensors
    grad, by_bias = rectify_grad(grad, out[0]) if ctx.rectify else (grad, column_sums(grad))
    by_weight = block_outer(grad, x, slot_ptr, block_ptr, weight.shape[-1]) if ctx.needs_input_grad[0] else None
    by_x = block_mm(weight, grad, True, slot_ptr, block_ptr) if ctx.needs_input_grad[1] else None
    return by_weight, by_x, by_bias, None, None, None


def _block_outer_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])


def _block_outer_grad(ctx: Any, grad: Tensor) -> tuple:
    a, b, *where = ctx.saved_tensors
    by_a = block_mm(grad, b, False, *where) if ctx.needs_input_grad[0] else None
    by_b = block_mm(grad, a, True, *where) if ctx.needs_input_grad[1] else None
    return by_a, by_b, None, None, None


def _block_product_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    a, b, *ctx.flips, slot_ptr, block_ptr = inputs
    ctx.save_for_backward(a, b, slot_ptr, block_ptr)


def _block_product_grad(ctx: Any, grad: Tensor) -> tuple:
    a, b, *where = ctx.saved_tensors
    flip_a, flip_b = ctx.flips
    by_a, by_b = None, None
    if ctx.needs_input_grad[0]:
        left, right = ((b, flip_b), (grad, True)) if flip_a else ((grad, False), (b, not flip_b))
        by_a = block_product(left[0], right[0], left[1], right[1], *where)
    if ctx.needs_input_grad[1]:
        left, right = ((grad, True), (a, flip_a)) if flip_b else ((a, not flip_a), (grad, False))
        by_b = block_product(left[0], right[0], left[1], right[1], *where)
    return by_a, by_b, None, None, None, None


def _block_attention_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, query, node, ctx.leak, *where = inputs
    ctx.save_for_backward(output, query, node, *where)


def _block_attention_grad(ctx: Any, grad: Tensor) -> tuple:
    alpha, query, node, *where = ctx.saved_tensors
    return None, *block_attention_grad(grad, alpha, query, node, ctx.leak, *where), None, None, None


def _block_scaled_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    weight, scale, ctx.own, ctx.loop, *where = inputs
    ctx.save_for_backward(weight, scale, *where)


def _block_scaled_grad(ctx: Any, grad: Tensor) -> tuple:
    weight, scale, *where = ctx.saved_tensors
    by_weight = block_scaled(grad, scale, ctx.own, 0.0, *where) if ctx.needs_input_grad[0] else None
    by_scale = block_scaled_grad(grad, weight, scale, ctx.own, ctx.loop, *where) if ctx.needs_input_grad[1] else None
    return by_weight, by_scale, None, None, None, None


def _convolve_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, _, scale, ctx.self_weight, row_ptr, neighbor, ctx.rectify = inputs
    ctx.save_for_backward(scale, row_ptr, neighbor, *([output] if ctx.rectify else []))


def _convolve_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, row_ptr, neighbor, *out = ctx.saved_tensors
    grad, by_bias = rectify_grad(grad, out[0]) if ctx.rectify else (grad, column_sums(grad))
    return propagate(grad, scale, ctx.self_weight, row_ptr, neighbor), by_bias, None, None, None, None, None


def _gated_grad(ctx: Any, grad: Tensor) -> tuple:
    return gated_grad(grad, *ctx.saved_tensors)


def _project_grad(ctx: Any, grad: Tensor) -> tuple:
    return project_grad(grad, *ctx.saved_tensors)


def _pick_gated_grad(ctx: Any, grad: Tensor) -> tuple:
    return *pick_gated_grad(grad, *ctx.saved_tensors), None, None


def _sums_and_pick_grad(ctx: Any, by_sums: Tensor, by_picked: Tensor) -> tuple:
    return *sums_and_pick_grad(by_sums, by_picked, *ctx.saved_tensors), None, None, None, None, None


def _tile_propagate_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, scale, ctx.self_weight, *where = inputs
    ctx.save_for_backward(scale, *where)


def _tile_propagate_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, *where = ctx.saved_tensors
    return tile_propagate(grad, scale, ctx.self_weight, *where), None, None, None, None


def _tile_convolve_save(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, _, scale, ctx.self_weight, bits, slot_ptr, ctx.rectify = inputs
    ctx.save_for_backward(scale, bits, slot_ptr, *([output] if ctx.rectify else []))


def _tile_convolve_grad(ctx: Any, grad: Tensor) -> tuple:
    scale, bits, slot_ptr, *out = ctx.saved_tensors
    grad, by_bias = rectify_grad(grad, out[0]) if ctx.rectify else (grad, column_sums(grad))
    return tile_propagate(grad, scale, ctx.self_weight, bits, slot_ptr), by_bias, None, None, None, None, None


def _rows(x: Tensor, *shape: int) -> Tensor:
    """A tensor with the split axis of x [C, F], if it has one, and this shape."""
    return x.new_empty(*x.shape[:-2], *shape)


propagate = GraphOp(
    nodes.propagate,
    2,
    lambda x, scale, self_weight, row_ptr, neighbor: _like(x),
    _propagate_grad,
    _propagate_save,
    gpu="nodes.propagate",
)
degree = GraphOp(nodes.degree, 1, lambda alive, row_ptr, neighbor: _like(alive), gpu="nodes.degree")
keep_top_k = GraphOp(ranks.keep_top_k, 2, lambda score, alive, k, graph, slot_ptr: _like(score), gpu="ranks.keep_top_k")
order = GraphOp(ranks.order, 1, lambda score, alive, graph, slot_ptr: (_like(graph), _like(graph)), gpu="ranks.order")
sums = GraphOp(
    weighted.sums,
    2,
    lambda x, weight, graph, slot_ptr: _rows(x, _graphs(slot_ptr), weight.shape[-1], x.shape[-1]),
    _sums_grad,
    _save,
    gpu="weighted.sums",
)
spread = GraphOp(
    weighted.spread,
    3,
    lambda value, weight, graph, slot_ptr: _rows(weight, weight.shape[-2], value.shape[-1]),
    _spread_grad,
    _save,
    gpu="weighted.spread",
)
dots = GraphOp(
    weighted.dots,
    2,
    lambda x, value, graph, slot_ptr: _rows(x, x.shape[-2], value.shape[-2]),
    _dots_grad,
    _save,
    gpu="weighted.dots",
)
readout = GraphOp(
    graphs.readout,
    2,
    lambda x, alive, graph, slot_ptr: (
        _rows(x, _graphs(slot_ptr), x.shape[-1]),
        _rows(x, _graphs(slot_ptr), x.shape[-1]),
    ),
    _readout_grad,
    _readout_save,
    gpu="graphs.readout",
)
readout_grad = GraphOp(
    graphs.readout_grad,
    2,
    lambda grad_top, grad_sum, x, top, alive, graph, slot_ptr: _like(x),
    gpu="graphs.readout_grad",
)
take = GraphOp(
    shrink.take,
    2,
    lambda x, gate, kept, before: _rows(x, kept.shape[-1], x.shape[-1]),
    _take_grad,
    _save,
)
take_grad = GraphOp(shrink.take_grad, 2, lambda grad, x, gate, kept, before: (_like(x), _like(gate)))
lookup = GraphOp(
    nodes.lookup,
    2,
    lambda weight, category: _rows(weight, category.shape[-2], weight.shape[-1]),
    _lookup_grad,
    _lookup_save,
    gpu="nodes.lookup",
)
lookup_grad = GraphOp(
    nodes.lookup_grad, 2, lambda grad, category, rows: _rows(grad, rows, grad.shape[-1]), gpu="nodes.lookup_grad"
)
pick = GraphOp(
    nodes.pick,
    2,
    lambda x, index, back: _rows(x, index.shape[-1], x.shape[-1]),
    _pick_grad,
    _pick_save,
    gpu="nodes.pick",
)
softmax = GraphOp(
    graphs.softmax,
    2,
    lambda score, alive, graph, slot_ptr: _like(score),
    _softmax_grad,
    _softmax_save,
    gpu="graphs.softmax",
)
softmax_grad = GraphOp(
    graphs.softmax_grad, 2, lambda grad, soft, graph, slot_ptr: _like(soft), gpu="graphs.softmax_grad"
)
neighbor_max = GraphOp(
    nodes.neighbor_max,
    2,
    lambda x, alive, row_ptr, neighbor: (_like(x), _like(x, torch.int64)),
    _neighbor_max_grad,
    _neighbor_max_save,
    gpu="nodes.neighbor_max",
)
neighbor_max_grad = GraphOp(
    nodes.neighbor_max_grad,
    2,
    lambda grad, where, row_ptr, neighbor: _like(grad),
    gpu="nodes.neighbor_max_grad",
)
block_adjacency = GraphOp(
    blocks.block_adjacency,
    1,
    lambda alive, self_weight, row_ptr, neighbor, graph, slot_ptr, block_ptr, cells: alive.new_empty(
        *alive.shape[:-1], cells
    ),
    gpu="cells.block_adjacency",
)
block_mm = GraphOp(
    blocks.block_mm,
    1,
    lambda weight, x, flip, slot_ptr, block_ptr: _like(x),
    _block_mm_grad,
    _block_mm_save,
    gpu="matrices.block_mm",
)
block_convolve = GraphOp(
    blocks.block_convolve,
    1,
    lambda weight, x, bias, rectify, slot_ptr, block_ptr: _like(x),
    _block_convolve_grad,
    _block_convolve_save,
    gpu="matrices.block_convolve",
)
block_outer = GraphOp(
    blocks.block_outer,
    2,
    lambda a, b, slot_ptr, block_ptr, cells: _rows(a, cells),
    _block_outer_grad,
    _block_outer_save,
    gpu="matrices.block_outer",
)
block_product = GraphOp(
    blocks.block_product,
    1,
    lambda a, b, flip_a, flip_b, slot_ptr, block_ptr: _like(a),
    _block_product_grad,
    _block_product_save,
    gpu="matrices.block_product",
)
block_max = GraphOp(
    blocks.block_max,
    1,
    lambda weight, x, graph, slot_ptr, block_ptr: (_like(x), _like(x, torch.int64)),
    _block_max_grad,
    _block_max_save,
    gpu="cells.block_max",
)
block_max_grad = GraphOp(
    blocks.block_max_grad, 2, lambda grad, where, graph, slot_ptr: _like(grad), gpu="cells.block_max_grad"
)
block_attention = GraphOp(
    blocks.block_attention,
    1,
    lambda a, query, node, leak, slot_ptr, block_ptr: _like(a),
    _block_attention_grad,
    _block_attention_save,
    gpu="attention.block_attention",
)
block_attention_grad = GraphOp(
    blocks.block_attention_grad,
    1,
    lambda grad, alpha, query, node, leak, slot_ptr, block_ptr: (_like(query), _like(node)),
    gpu="attention.block_attention_grad",
)
block_scaled = GraphOp(
    blocks.block_scaled,
    1,
    lambda weight, scale, own, loop, slot_ptr, block_ptr: _like(weight),
    _block_scaled_grad,
    _block_scaled_save,
    gpu="scaled.block_scaled",
)
block_scaled_grad = GraphOp(
    blocks.block_scaled_grad,
    1,
    lambda grad, weight, scale, own, loop, slot_ptr, block_ptr: _like(scale),
    gpu="scaled.block_scaled_grad",
)
convolve = GraphOp(
    nodes.convolve,
    2,
    lambda x, bias, scale, self_weight, row_ptr, neighbor, rectify: _like(x),
    _convolve_grad,
    _convolve_save,
    gpu="nodes.convolve",
)
rectify_grad = GraphOp(
    rows.rectify_grad,
    2,
    lambda grad, out: (_like(grad), grad.new_empty(*grad.shape[:-2], grad.shape[-1])),
    gpu="rows.rectify_grad",
)
column_sums = GraphOp(rows.column_sums, 2, lambda x: x.new_empty(*x.shape[:-2], x.shape[-1]), gpu="rows.column_sums")
gated = GraphOp(rows.gated, 2, lambda x, gate: _like(x), _gated_grad, _save, gpu="rows.gated")
gated_grad = GraphOp(rows.gated_grad, 2, lambda grad, x, gate: (_like(x), _like(gate)), gpu="rows.gated_grad")
project = GraphOp(
    rows.project,
    2,
    lambda x, weight: _rows(x, x.shape[-2], weight.shape[-2]),
    _project_grad,
    _save,
    gpu="rows.project",
)
project_grad = GraphOp(rows.project_grad, 2, lambda grad, x, weight: (_like(x), _like(weight)), gpu="rows.project_grad")
draws = GraphOp(rows.draws, 1, lambda index, key, site: torch.empty_like(index, dtype=torch.float32), gpu="rows.draws")


def _close_up_shape(keep: Tensor, k: Tensor, slot_ptr: Tensor, position: Tensor, rows: int) -> tuple[Tensor, ...]:
    places = [keep.new_empty(*keep.shape[:-1], rows, dtype=t) for t in (torch.int64, keep.dtype)]
    graph, first = torch.empty_like(places[0]), torch.empty_like(places[0])
    return places[0], _like(position), places[1], graph, first, _like(slot_ptr)


close_up = GraphOp(shrink.close_up, 1, _close_up_shape, gpu="shrink.close_up")
induce = GraphOp(
    shrink.induce,
    1,
    lambda row_ptr, neighbor, index, back: (
        row_ptr.new_empty(*row_ptr.shape[:-1], index.shape[-1] + 1),
        torch.empty_like(neighbor),
    ),
    gpu="shrink.induce",
)
pick_gated = GraphOp(
    shrink.pick_gated,
    2,
    lambda x, gate, index, back: _rows(x, index.shape[-1], x.shape[-1]),
    _pick_gated_grad,
    _save,
    gpu="shrink.pick_gated",
)
pick_gated_grad = GraphOp(
    shrink.pick_gated_grad,
    2,
    lambda grad, x, gate, index, back: (_like(x), _like(gate)),
    gpu="shrink.pick_gated_grad",
)
sums_and_pick = GraphOp(
    shrink.sums_and_pick,
    2,
    lambda x, weight, gate, index, back, ends, graph, slot_ptr: (
        _rows(x, _graphs(slot_ptr), weight.shape[-1], x.shape[-1]),
        _rows(x, index.shape[-1], x.shape[-1]),
    ),
    _sums_and_pick_grad,
    _save,
    gpu="pooled.sums_and_pick",
)
sums_and_pick_grad = GraphOp(
    shrink.sums_and_pick_grad,
    3,
    lambda grad_sums, grad_picked, x, weight, gate, index, back, ends, graph, slot_ptr: (
        _like(x),
        _like(weight),
        _like(gate),
    ),
    gpu="pooled.sums_and_pick_grad",
)
tile_propagate = GraphOp(
    tiles.tile_propagate,
    2,
    lambda x, scale, self_weight, bits, slot_ptr: _like(x),
    _tile_propagate_grad,
    _tile_propagate_save,
    gpu="tiles.tile_propagate",
)
tile_convolve = GraphOp(
    tiles.tile_convolve,
    2,
    lambda x, bias, scale, self_weight, bits, slot_ptr, rectify: _like(x),
    _tile_convolve_grad,
    _tile_convolve_save,
    gpu="tiles.tile_convolve",
)
tile_induce = GraphOp(
    tiles.tile_induce,
    2,
    lambda bits, index, before, after: bits.new_empty(*bits.shape[:-2], index.shape[-1], bits.shape[-1]),
    gpu="tiles.tile_induce",
)
