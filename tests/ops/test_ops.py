"""The graph operations against dense float64 formulas, on a batch with every oddity: a one-node graph, an empty slot,
an edgeless graph, dead nodes, padding."""

import importlib
import pkgutil
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from cgipool import ops
from cgipool.ops.bits import adjacency_bits, words_for
from cgipool.ops.draws import uniform
from cgipool.ops.graph_op import GraphOp

F, M = 5, 3
SIZES = (3, 1, 4, 0, 6)
PADDING = 2
MODULES = [found.name for found in pkgutil.iter_modules(ops.__path__) if not found.ispkg]
FAMILIES = [importlib.import_module(f"cgipool.ops.{name}") for name in MODULES]
OPS = {name: op for family in FAMILIES for name, op in vars(family).items() if isinstance(op, GraphOp)}


def as_bits(adjacency: torch.Tensor, slot_ptr: torch.Tensor) -> torch.Tensor:
    """[C, W] the adjacency within each graph, 32 columns to a word."""
    words, weight = words_for(max(SIZES)), 2 ** torch.arange(32)
    bits = torch.zeros(len(adjacency), words, dtype=torch.int64)
    for start, end in pairwise(slot_ptr.tolist()):
        block = torch.nn.functional.pad(adjacency[start:end, start:end].long(), (0, 32 * words - (end - start)))
        bits[start:end] = (block.unflatten(1, (words, 32)) * weight).sum(2)
    return torch.where(bits >= 2**31, bits - 2**32, bits).int()


def some_batch(seed: int = 0) -> SimpleNamespace:
    random = torch.Generator().manual_seed(seed)
    slot_ptr = torch.tensor((0, *SIZES)).cumsum(0)
    nodes = int(slot_ptr[-1])
    positions = nodes + PADDING
    graph = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    graph = torch.cat([graph, torch.full((PADDING,), len(SIZES) - 1)])
    chance = torch.rand(positions, positions, generator=random) < 0.6
    inside = (graph[:, None] == graph) & (graph != 2)  # graph 2 has no edges
    adjacency = torch.triu(chance & inside, 1).double()
    adjacency[nodes:] = adjacency[:, nodes:] = 0
    adjacency = adjacency + adjacency.T
    alive = torch.ones(positions, dtype=torch.double)
    alive[nodes:] = 0
    alive[[1, 9]] = 0
    row_ptr = torch.cat([torch.zeros(1), adjacency.sum(1).cumsum(0)]).int()
    neighbor = torch.cat([adjacency.nonzero()[:, 1], torch.zeros(3, dtype=torch.long)]).int()

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.double)

    weighted = adjacency * normal(positions, positions).abs()
    codes = torch.randint(0, 7, (positions, positions), generator=random)

    def entries(matrix: torch.Tensor) -> torch.Tensor:
        """The values of a matrix at the entries of the neighbour lists."""
        return torch.nn.functional.pad(matrix[adjacency > 0], (0, len(neighbor) - int(row_ptr[-1])))

    kept = torch.tensor([0, 2, 5, 10, 11])
    index = torch.tensor([3, -1, 0, 7, -1, 12, 5, 2])
    back = torch.full((positions,), -1)
    back[index[index >= 0]] = (index >= 0).nonzero().flatten()
    block_ptr = torch.tensor((0, *(n * n for n in SIZES))).cumsum(0)
    cells = int(block_ptr[-1]) + PADDING
    same = (graph[:, None] == graph)[:nodes, :nodes].flatten()
    flags = torch.zeros(positions).index_fill(0, kept, 1)
    count = torch.bincount(graph[kept], minlength=len(SIZES))
    return SimpleNamespace(
        adjacency=adjacency,
        alive=alive,
        graph=graph,
        slot_ptr=slot_ptr,
        row_ptr=row_ptr,
        neighbor=neighbor,
        kept=kept,
        index=index,
        back=back,
        keep=flags.double(),
        k=count,
        ends=torch.nn.functional.pad(count.cumsum(0), (1, 0)),
        bits=as_bits(adjacency, slot_ptr),
        closed=torch.nn.functional.pad(kept, (0, 2), value=-1),
        opened=torch.where(flags > 0, flags.cumsum(0) - 1, -1).long(),
        block_ptr=block_ptr,
        cells=cells,
        same=same,
        first=torch.cat([normal(cells - PADDING), torch.zeros(PADDING, dtype=torch.double)]),
        second=torch.cat([normal(cells - PADDING), torch.zeros(PADDING, dtype=torch.double)]),
        member=torch.nn.functional.one_hot(graph, len(SIZES)).double().T * (torch.arange(positions) < nodes),
        x=normal(positions, F),
        weight=normal(positions, M) * alive[:, None],
        value=normal(len(SIZES), M, F),
        scale=normal(positions) * alive,
        table=normal(7, F),
        category=torch.randint(0, 7, (positions, 2), generator=random).int(),
        weighted=weighted,
        edge_weight=entries(weighted),
        back_weight=entries(weighted.T),
        number=torch.randint(0, 100, neighbor.shape, generator=random).int(),
        codes=codes,
        code=entries(codes).int(),
        back_code=entries(codes.T).int(),
        key=normal(positions, 2 * F),
        values=normal(positions, 2 * F),
        query=normal(positions, 2 * F),
        edge_table=normal(7, 2 * F),
    )


def arguments(b: SimpleNamespace) -> dict[str, tuple]:
    where, blocks, edges = (b.graph, b.slot_ptr), (b.slot_ptr, b.block_ptr), (b.row_ptr, b.neighbor)
    top, total = ops.readout(b.x, b.alive, *where)
    listed = (b.alive, *edges, b.code, b.back_code, b.edge_weight, b.back_weight)
    attention = (b.query, b.key, b.values, b.edge_table)
    return {
        "gine": (b.x, b.table, *listed, False),
        "gine_grad": (b.x.flip(0), b.x, b.table, *listed, False),
        "attend": (*attention, *listed, 2, False),
        "attend_grad": (b.values.flip(0), *attention, *ops.attend(*attention, *listed, 2, False), *listed, 2, False),
        "propagate": (b.x, b.scale, 0.5, b.row_ptr, b.neighbor),
        "weighted_propagate": (b.x, b.scale, 0.5, *edges, b.edge_weight, b.back_weight),
        "degree": (b.alive, b.row_ptr, b.neighbor),
        "keep_top_k": (b.weight, b.alive, torch.tensor([1, 1, 2, 0, 3]), *where),
        "sums": (b.x, b.weight, *where),
        "spread": (b.value, b.weight, *where),
        "dots": (b.x, b.value, *where),
        "readout": (b.x, b.alive, *where),
        "readout_grad": (torch.randn_like(top), torch.randn_like(total), b.x, top, b.alive, *where),
        "lookup": (b.table, b.category),
        "lookup_grad": (b.x, b.category, 7),
        "convolve": (b.x, b.value[0, 0], b.scale, 0.5, *edges, True),
        "rectify_grad": (b.x, torch.relu(b.x.flip(0))),
        "gated": (b.x, b.scale),
        "gated_grad": (b.x.flip(0), b.x, b.scale),
        "project": (b.x, b.value[0]),
        "project_grad": (b.weight, b.x, b.value[0]),
        "draws": (torch.arange(len(b.x)) * 977, torch.tensor(12345), 3),
        "column_sums": (b.x,),
        "sums_and_pick": (b.x, b.weight, b.scale, b.closed, b.opened, b.ends, *where),
        "sums_and_pick_grad": (b.value, b.x[:7], b.x, b.weight, b.scale, b.closed, b.opened, b.ends, *where),
        "tile_propagate": (b.x, b.scale, 0.5, b.bits, b.slot_ptr),
        "tile_convolve": (b.x, b.value[0, 0], b.scale, 0.5, b.bits, b.slot_ptr, True),
        "tile_induce": (b.bits, b.closed, b.slot_ptr, b.ends),
        "close_up": (b.keep, b.k, b.slot_ptr, torch.arange(len(b.x)).flip(0), 7),
        "induce": (*edges, b.number, b.closed, b.opened),
        "pick_gated": (b.x, b.scale, b.closed, b.opened),
        "pick_gated_grad": (b.x[:7], b.x, b.scale, b.closed, b.opened),
        "order": (b.weight[:, 0], b.alive, *where),
        "pick": (b.x, b.index, b.back),
        "softmax": (b.x, b.alive, *where),
        "softmax_grad": (torch.randn_like(b.x), ops.softmax(b.x, b.alive, *where), *where),
        "neighbor_max": (b.x, b.alive, *edges),
        "neighbor_max_grad": (b.x, ops.neighbor_max(b.x, b.alive, *edges)[1], *edges),
        "block_adjacency": (b.alive, 0.5, *edges, b.edge_weight, b.graph, *blocks, b.cells),
        "block_mm": (b.first, b.x, True, *blocks),
        "block_convolve": (b.first, b.x, b.value[0, 0], True, *blocks),
        "block_outer": (b.x, b.weight @ b.value[0], *blocks, b.cells),
        "block_product": (b.first, b.second, True, False, *blocks),
        "block_max": (b.first, b.x, b.graph, *blocks),
        "block_attention": (b.first, b.x[:, 0], b.x[:, 1], 0.2, *blocks),
        "block_attention_grad": (b.second, attention_of(b), b.x[:, 0], b.x[:, 1], 0.2, *blocks),
        "block_scaled": (b.first, b.scale, 0.5, 2.0, *blocks),
        "block_scaled_grad": (b.second, b.first, b.scale, 0.5, 2.0, *blocks),
        "block_max_grad": (b.x, ops.block_max(b.first, b.x, b.graph, *blocks)[1], *where),
    }


def matrix(b: SimpleNamespace, cells: torch.Tensor) -> torch.Tensor:
    """Cells as one block-diagonal matrix over all positions."""
    nodes, positions = len(b.x) - PADDING, len(b.x)
    dense = b.x.new_zeros(nodes * nodes)
    dense[b.same] = cells[: b.cells - PADDING]
    return torch.nn.functional.pad(dense.view(nodes, nodes), (0, positions - nodes, 0, positions - nodes))


def cells(b: SimpleNamespace, dense: torch.Tensor) -> torch.Tensor:
    """The cells of a matrix over all positions."""
    nodes = len(b.x) - PADDING
    return torch.nn.functional.pad(dense[:nodes, :nodes].flatten()[b.same], (0, PADDING))


def attention_of(b: SimpleNamespace) -> torch.Tensor:
    """Cells of the softmax over the positive columns of a row."""
    score = torch.nn.functional.leaky_relu(b.x[:, :1] + b.x[:, 1], 0.2)
    return cells(b, score.masked_fill(matrix(b, b.first) <= 0, -torch.inf).softmax(1).nan_to_num(0.0))


def masked_max(mask: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """[C, 2F] for each row the maximum of x over the columns where mask is set, and where it is; 0 and −1 where
    there are none."""
    top = x.new_zeros(x.shape)
    where = torch.full(x.shape, -1)
    for p, row in enumerate(mask):
        if row.any():
            top[p], at = x[row].max(0)
            where[p] = row.nonzero().flatten()[at]
    return torch.cat([top, where], 1)


def gine_of(b: SimpleNamespace) -> torch.Tensor:
    message = torch.relu(b.x + b.table[b.codes])  # [to, from, F]
    return torch.einsum("pq,pqf->pf", b.weighted * b.alive * b.alive[:, None], message)


def attended(b: SimpleNamespace) -> torch.Tensor:
    """[C, 2F + 2] the result for two heads, and the logarithm of what α is divided by."""
    there = b.weighted * b.alive * b.alive[:, None]
    outs, logs = [], []
    for part in (slice(0, F), slice(F, 2 * F)):
        edge = b.edge_table[b.codes][:, :, part]
        score = torch.einsum("pf,pqf->pq", b.query[:, part], b.key[:, part] + edge) / F**0.5
        power = there * score.exp()
        total = power.sum(1, keepdim=True)
        alpha = torch.where(total > 0, power / total, 0.0)
        outs.append(torch.einsum("pq,pqf->pf", alpha, b.values[:, part] + edge))
        logs.append(torch.where(total > 0, total.log(), 0.0))
    return torch.cat([*outs, *logs], 1)


def expected(b: SimpleNamespace) -> dict[str, torch.Tensor]:
    """The dense formulas."""
    here = b.member.sum(0)  # 0 at padding
    same = (b.graph[:, None] == b.graph).double()
    s, eye = torch.diag(b.scale), torch.eye(len(b.x), dtype=torch.double)
    gathered = b.value[b.graph] * here[:, None, None]
    living = [(b.member[g] * b.alive) > 0 for g in range(len(SIZES))]
    top = torch.stack([b.x[mask].max(0).values if mask.any() else b.x.new_zeros(F) for mask in living])
    return {
        "gine": gine_of(b),
        "attend": attended(b),
        "propagate": s @ (b.adjacency + 0.5 * eye) @ s @ b.x,
        "weighted_propagate": s @ (b.weighted + 0.5 * eye) @ s @ b.x,
        "degree": b.adjacency @ b.alive,
        "sums": torch.einsum("gp,pm,pf->gmf", b.member, b.weight, b.x),
        "spread": torch.einsum("pm,pmf->pf", b.weight, gathered),
        "dots": torch.einsum("pf,pmf->pm", b.x, gathered),
        "readout": torch.cat([top, b.member @ (b.x * b.alive[:, None])], 1),
        "lookup": b.table[b.category.long()].sum(1),
        "convolve": torch.relu(s @ (b.adjacency + 0.5 * eye) @ s @ b.x + b.value[0, 0]),
        "gated": b.x * b.scale[:, None],
        "project": b.x @ b.value[0].T,
        "column_sums": b.x.sum(0),
        "tile_propagate": s @ (b.adjacency + 0.5 * eye) @ s @ b.x,
        "tile_convolve": torch.relu(s @ (b.adjacency + 0.5 * eye) @ s @ b.x + b.value[0, 0]),
        "tile_induce": torch.nn.functional.pad(as_bits(b.adjacency[b.kept][:, b.kept], b.ends), (0, 0, 0, 2)),
        "draws": uniform(torch.tensor(12345), 3, torch.arange(len(b.x)) * 977),
        "close_up": torch.cat(
            [
                b.closed,
                b.opened,
                (b.closed >= 0).double(),
                torch.nn.functional.pad(b.graph[b.kept], (0, 2), value=len(SIZES) - 1),
                torch.nn.functional.pad(len(b.x) - 1 - b.kept, (0, 2)),
                b.ends,
            ]
        ),
        "pick_gated": torch.nn.functional.pad((b.x * b.scale[:, None])[b.kept], (0, 0, 0, 2)),
        "pick": torch.where((b.index >= 0)[:, None], b.x[b.index], 0.0),
        "softmax": b.x.exp() * b.alive[:, None] / (same @ (b.x.exp() * b.alive[:, None])).clamp(min=1e-300),
        "neighbor_max": masked_max(((b.adjacency + eye) * b.alive * b.alive[:, None]) > 0, b.x),
        "block_adjacency": cells(b, (b.weighted + 0.5 * eye) * b.alive * b.alive[:, None]),
        "block_mm": matrix(b, b.first).T @ b.x,
        "block_convolve": torch.relu(matrix(b, b.first) @ b.x + b.value[0, 0]),
        "block_outer": cells(b, b.x @ (b.weight @ b.value[0]).T),
        "block_product": cells(b, matrix(b, b.first).T @ matrix(b, b.second)),
        "block_max": masked_max(matrix(b, b.first) > 0, b.x),
        "block_attention": attention_of(b),
        "block_scaled": cells(b, s @ (matrix(b, b.first) * (1 - 0.5 * eye) + 2.0 * eye) @ s),
    }


def joined(result) -> torch.Tensor:
    return torch.cat(result, min(1, result[0].ndim - 1)) if isinstance(result, tuple) else result


@pytest.mark.parametrize("seed", range(4))
def test_each_op_is_its_dense_formula(seed):
    batch = some_batch(seed)
    for name, formula in expected(batch).items():
        torch.testing.assert_close(joined(OPS[name](*arguments(batch)[name])), formula)


def test_induced_neighbors():
    b = some_batch()
    row_ptr, neighbor, number = ops.induce(b.row_ptr, b.neighbor, b.number, b.closed, b.opened)
    dense, numbers = torch.zeros(2, 7, 7, dtype=torch.double)
    for p in range(7):
        part = slice(row_ptr[p], row_ptr[p + 1])
        dense[p, neighbor[part].long()] = 1.0
        numbers[p, neighbor[part].long()] = number[part].double()
    expected = torch.nn.functional.pad(b.adjacency[b.kept][:, b.kept], (0, 2, 0, 2))
    assert torch.equal(dense, expected)
    assert int(row_ptr[-1]) == int(expected.sum())
    given = torch.zeros_like(b.adjacency)
    given[b.adjacency > 0] = b.number[: int(b.row_ptr[-1])].double()
    assert torch.equal(numbers, torch.nn.functional.pad(given[b.kept][:, b.kept], (0, 2, 0, 2)))
    without = ops.induce(b.row_ptr, b.neighbor, b.number[:0], b.closed, b.opened)
    assert torch.equal(without[1], neighbor)
    assert len(without[2]) == 0


@pytest.mark.parametrize("name", ["gine", "attend"])
def test_edge_features_of_each_entry(name):
    """A row of the table for each entry gives what shared rows give, and the gradients add up to theirs."""
    b = some_batch()
    args = list(arguments(b)[name])
    table, code, back = {"gine": (1, 5, 6), "attend": (3, 7, 8)}[name]
    used = int(b.row_ptr[-1])
    place = torch.zeros_like(b.adjacency)
    place[b.adjacency > 0] = torch.arange(used).double()
    number = torch.nn.functional.pad(torch.arange(used), (0, len(b.neighbor) - used)).int()
    reverse = torch.nn.functional.pad(place.T[b.adjacency > 0], (0, len(b.neighbor) - used)).int()
    shared = args[table].clone().requires_grad_()
    own = args[table][args[code][:used].long()].clone().requires_grad_()
    each = [*args[:-1], True]
    args[table], each[table], each[code], each[back] = shared, own, number, reverse
    one, other = (joined(OPS[name](*given)) for given in (args, each))
    torch.testing.assert_close(other, one)
    weight = torch.randn_like(one)
    by_shared = torch.autograd.grad((one[:, : b.x.shape[1]] * weight[:, : b.x.shape[1]]).sum(), shared)[0]
    by_own = torch.autograd.grad((other[:, : b.x.shape[1]] * weight[:, : b.x.shape[1]]).sum(), own)[0]
    added = torch.zeros_like(by_shared).index_add(0, args[code][:used].long(), by_own)
    torch.testing.assert_close(added, by_shared)


def test_every_op_is_in_the_tables_of_this_test():
    assert set(arguments(some_batch())) == set(OPS)


def test_sums_and_pick_are_sums_and_pick():
    b = some_batch()
    total, picked = ops.sums_and_pick(*arguments(b)["sums_and_pick"])
    torch.testing.assert_close(total, expected(b)["sums"])
    torch.testing.assert_close(picked, expected(b)["pick_gated"])


def test_bits_of_a_data_set():
    b = some_batch()
    nodes = int(b.slot_ptr[-1])
    edges = b.adjacency[:nodes, :nodes].nonzero()
    edge_ptr, displacement = b.row_ptr[: nodes + 1].long(), (edges[:, 1] - edges[:, 0]).int()
    bits = adjacency_bits(b.slot_ptr.numpy(), edge_ptr.numpy(), displacement.numpy(), b.bits.shape[1])
    assert torch.equal(torch.from_numpy(bits), b.bits[:nodes])


DIFFERENTIABLE = {
    "gine": (0, 1),
    "attend": (0, 1, 2, 3),
    "sums_and_pick": (0, 1, 2),
    "tile_convolve": (0, 1),
    "tile_propagate": (0,),
    "pick_gated": (0, 1),
    "convolve": (0, 1),
    "gated": (0, 1),
    "project": (0, 1),
    "propagate": (0,),
    "weighted_propagate": (0,),
    "sums": (0, 1),
    "spread": (0, 1),
    "dots": (0, 1),
    "readout": (0,),
    "lookup": (0,),
    "pick": (0,),
    "softmax": (0,),
    "neighbor_max": (0,),
    "block_mm": (0, 1),
    "block_convolve": (0, 1, 2),
    "block_outer": (0, 1),
    "block_product": (0, 1),
    "block_max": (1,),
    "block_attention": (1, 2),
    "block_scaled": (0, 1),
}
"""Which arguments of an op have a gradient."""


def with_gradients(name: str) -> tuple:
    """Arguments of which the differentiable ones ask for a gradient."""
    places = DIFFERENTIABLE.get(name, ())
    args = arguments(some_batch())[name]
    return tuple(a.clone().requires_grad_() if place in places else a for place, a in enumerate(args))


@pytest.mark.parametrize("name", sorted(OPS))
def test_opcheck(name):
    results = torch.library.opcheck(OPS[name].custom, with_gradients(name))
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("form", ["plain", "custom"])
@pytest.mark.parametrize("name", sorted(DIFFERENTIABLE))
def test_gradients_against_finite_differences(name, form):
    op = OPS[name] if form == "plain" else OPS[name].custom
    if name == "attend":  # its second result is for the gradient alone
        assert torch.autograd.gradcheck(lambda *args: op(*args)[0], with_gradients(name))
    else:
        assert torch.autograd.gradcheck(op, with_gradients(name))


BY_ENTRY = {
    "gine": (4, 5, 6, 7, 8),
    "gine_grad": (5, 6, 7, 8, 9),
    "attend": (6, 7, 8, 9, 10),
    "attend_grad": (9, 10, 11, 12, 13),
    "induce": (1, 2),
    "propagate": (4,),
    "weighted_propagate": (4, 5, 6),
    "convolve": (5,),
    "degree": (2,),
    "neighbor_max": (3,),
    "neighbor_max_grad": (3,),
    "block_adjacency": (3, 4),
}
"""Which arguments of an op have a row for each entry of the neighbour lists."""


def padded(name: str, batches: list[list]) -> list[list]:
    """Arguments of equal shapes: the numbers of entries differ from batch to batch."""
    for at in BY_ENTRY.get(name, ()):
        room = max(len(args[at]) for args in batches)
        for args in batches:
            args[at] = torch.cat([args[at], args[at].new_zeros(room - len(args[at]), *args[at].shape[1:])])
    return batches


@pytest.mark.parametrize("name", sorted(OPS))
def test_vmap_is_one_split_after_another(name):
    batches = padded(name, [list(arguments(some_batch(seed))[name]) for seed in range(3)])
    columns = [torch.stack(c) if isinstance(c[0], torch.Tensor) else c[0] for c in zip(*batches, strict=True)]
    dims = tuple(0 if isinstance(c, torch.Tensor) else None for c in columns)
    together = torch.vmap(OPS[name], in_dims=dims)(*columns)
    for split, args in enumerate(batches):
        alone = OPS[name](*args)
        for a, b in zip(together, alone, strict=True) if isinstance(alone, tuple) else [(together, alone)]:
            torch.testing.assert_close(a[split], b)


def test_gradient_through_vmap():
    batches = [some_batch(seed) for seed in range(3)]
    x = torch.stack([b.x for b in batches]).requires_grad_()
    weight, graph, slot_ptr = (torch.stack([getattr(b, n) for b in batches]) for n in ("weight", "graph", "slot_ptr"))
    torch.vmap(ops.sums)(x, weight, graph, slot_ptr).square().sum().backward()
    for split, b in enumerate(batches):
        alone = b.x.clone().requires_grad_()
        ops.sums(alone, b.weight, b.graph, b.slot_ptr).square().sum().backward()
        torch.testing.assert_close(x.grad[split], alone.grad)


def test_maximum_shares_its_gradient_among_ties():
    x = torch.tensor([[1.0], [2.0], [2.0], [0.5]], requires_grad=True)
    graph, slot_ptr = torch.zeros(4, dtype=torch.long), torch.tensor([0, 4])
    top, _ = ops.readout(x, torch.ones(4), graph, slot_ptr)
    top.sum().backward()
    assert x.grad.squeeze(1).tolist() == [0.0, 0.5, 0.5, 0.0]


def test_attention_with_large_scores():
    a, slot_ptr, block_ptr = torch.ones(4), torch.tensor([0, 2]), torch.tensor([0, 4])
    query, node = torch.tensor([1e4, -1e5]), torch.tensor([0.0, 2.0])
    alpha = ops.block_attention(a, query, node, 0.2, slot_ptr, block_ptr)
    odds = torch.tensor([2.0, 0.4]).exp()
    torch.testing.assert_close(alpha.view(2, 2), torch.stack([1 / (1 + odds), odds / (1 + odds)], 1), rtol=0.01, atol=0)


class TestKeepTopK:
    graph = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    slot_ptr = torch.tensor([0, 4, 7])
    alive = torch.ones(7)

    def keep(self, score, k, alive=None) -> list[int]:
        column = torch.tensor(score).unsqueeze(1)
        kept = ops.keep_top_k(
            column, self.alive if alive is None else alive, torch.tensor(k), self.graph, self.slot_ptr
        )
        return kept.squeeze(1).nonzero().flatten().tolist()

    def test_best_of_each_graph(self):
        assert self.keep([0.1, 0.4, -3.0, 0.2, -1.0, -2.0, -0.5], [2, 1]) == [1, 3, 6]

    def test_ties_go_to_the_lower_position(self):
        assert self.keep([1.0] * 7, [3, 2]) == [0, 1, 2, 4, 5]

    def test_minus_zero_is_zero(self):
        assert self.keep([-0.0, 0.0, -0.0, 0.0, 0.0, -0.0, 1.0], [2, 2]) == [0, 1, 4, 6]

    def test_the_dead_are_never_kept(self):
        alive = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
        assert self.keep([0.0, 9.0, 1.0, 2.0, 9.0, 9.0, 9.0], [2, 0], alive) == [2, 3]
        assert self.keep([-torch.inf, 9.0, -torch.inf, -torch.inf, 9.0, 9.0, 9.0], [9, 9], alive) == [0, 2, 3]

    def test_columns_are_ranked_apart(self):
        score = torch.randn(7, 4)
        together = ops.keep_top_k(score, self.alive, torch.tensor([2, 2]), self.graph, self.slot_ptr)
        for column in range(4):
            assert self.keep(score[:, column].tolist(), [2, 2]) == together[:, column].nonzero().flatten().tolist()
