"""Loops over neighbours and categories."""

from cgipool.ops.cpu.loops.compiled import SHAPES, loop


@loop
def convolve(x, scale, own, row_ptr, neighbor, weight, bias, relu, out):
    """out = S (A + own · I) S x + bias, then a ReLU if `relu`, with S = diag(scale) and A of these weights; `scale`,
    `weight` and `bias` of no width stand for ones, ones and zeros."""
    positions, width = x.shape
    if len(row_ptr) != positions + 1 or len(scale) not in (0, positions) or len(bias) not in (0, width):
        raise ValueError(SHAPES)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for p in range(positions):
        row = out[p]
        mine = scale[p] if len(scale) else one
        factor = own * mine
        for f in range(width):
            row[f] = factor * x[p, f]
        for entry in range(row_ptr[p], row_ptr[p + 1]):
            q = neighbor[entry]
            factor = scale[q] if len(scale) else one
            if len(weight):
                factor *= weight[entry]
            other = x[q]
            for f in range(width):
                row[f] += factor * other[f]
        if len(bias):
            for f in range(width):
                row[f] = mine * row[f] + bias[f]
        elif len(scale):
            for f in range(width):
                row[f] *= mine
        if relu:
            for f in range(width):
                row[f] = zero if row[f] <= zero else row[f]


@loop
def lookup(table, category, out):
    """out[p] = Σ_k table[category[p, k]]."""
    positions, columns = category.shape
    width = table.shape[1]
    if category.size and (category.min() < 0 or category.max() >= len(table)):
        raise ValueError(SHAPES)
    zero = table.dtype.type(0)
    for p in range(positions):
        row = out[p]
        if columns == 0:
            row[:] = zero
        for k in range(columns):
            given = table[category[p, k]]
            if k == 0:
                for f in range(width):
                    row[f] = given[f]
            else:
                for f in range(width):
                    row[f] += given[f]


@loop
def lookup_grad(grad, category, out):
    """out[category[p, k]] is increased by grad[p]."""
    positions, columns = category.shape
    for p in range(positions):
        given = grad[p]
        for k in range(columns):
            row = out[category[p, k]]
            for f in range(len(given)):
                row[f] += given[f]


@loop
def induce(row_ptr, neighbor, number, index, back, ends, out, left):
    """The neighbour lists among the positions `index`, renumbered by `back`: where they end, the neighbours, and the
    numbers of their entries, unless there are none."""
    count = 0
    ends[0] = 0
    for q in range(len(index)):
        p = index[q]
        if p >= 0:
            for entry in range(row_ptr[p], row_ptr[p + 1]):
                place = back[neighbor[entry]]
                if place >= 0:
                    out[count] = place
                    if len(number):
                        left[count] = number[entry]
                    count += 1
        ends[q + 1] = count
    return count


@loop
def gine(x, table, alive, row_ptr, neighbor, code, weight, out):
    """out[p] = Σ_i weight[i] · relu(x[neighbor[i]] + table[code[i]]) over the living entries i of living positions."""
    positions, width = x.shape
    if len(row_ptr) != positions + 1 or len(alive) != positions or table.shape[1] != width or len(code) < row_ptr[-1]:
        raise ValueError(SHAPES)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    for p in range(positions):
        row = out[p]
        row[:] = zero
        if alive[p] == zero:
            continue
        for entry in range(row_ptr[p], row_ptr[p + 1]):
            q = neighbor[entry]
            factor = weight[entry] if len(weight) else one
            if alive[q] == zero or factor == zero:
                continue
            other, edge = x[q], table[code[entry]]
            for f in range(width):
                value = other[f] + edge[f]
                row[f] += factor * (zero if value <= zero else value)


@loop
def gine_grad(grad, x, table, alive, row_ptr, neighbor, back, weight, by_x, by_table):
    """The gradients of `gine` by x and table: a position collects what it sent, by the reverses of its entries, which
    have the rows `back` of the table and these weights."""
    positions, width = x.shape
    if len(row_ptr) != positions + 1 or grad.shape != x.shape or table.shape[1] != width or len(back) < row_ptr[-1]:
        raise ValueError(SHAPES)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    by_table[:] = zero
    for p in range(positions):
        made, mine = by_x[p], x[p]
        made[:] = zero
        if alive[p] == zero:
            continue
        for entry in range(row_ptr[p], row_ptr[p + 1]):
            q = neighbor[entry]
            factor = weight[entry] if len(weight) else one
            if alive[q] == zero or factor == zero:
                continue
            given, edge, added = grad[q], table[back[entry]], by_table[back[entry]]
            for f in range(width):
                value = zero if mine[f] + edge[f] <= zero else factor * given[f]
                made[f] += value
                added[f] += value
