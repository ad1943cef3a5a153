"""The Triton kernels against the float64 CPU kernels, with a split axis: on a GPU where there is one, else through
Triton's interpreter (tests/conftest.py asks for it before Triton is imported)."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import test_ops
import torch
from test_ops import OPS, arguments, padded, some_batch
from torch import Tensor

pytest.importorskip("triton", reason="needs Triton")

ON_GPU = {name: op for name, op in OPS.items() if op.gpu}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def stacked(name: str, seeds: range) -> list:
    """The arguments of an op on several random batches, in float64, with a split axis."""
    batches = padded(name, [list(arguments(some_batch(seed))[name]) for seed in seeds])
    return [torch.stack(c) if isinstance(c[0], Tensor) else c[0] for c in zip(*batches, strict=True)]


def single(value: object) -> object:
    if not isinstance(value, Tensor):
        return value
    return (value.float() if value.is_floating_point() else value).to(DEVICE)


@contextmanager
def unwritten_is_nan() -> Iterator[None]:
    """Fresh memory holds NaN, so that no kernel leaves a place out that happens to be 0. On a CPU only: on a GPU torch
    would refuse sums that it has no other way to compute."""
    torch.use_deterministic_algorithms(DEVICE == "cpu")
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", sorted(ON_GPU))
def test_against_float64(name: str) -> None:
    """Small graphs, of a tile or less."""
    check_against_float64(name, range(3))


@pytest.mark.parametrize("name", sorted(ON_GPU))
def test_large_ones_against_float64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs, features and columns of more than one tile each. Two splits, as the interpreter takes its time. The ops
    on edges visit neighbours one by one, in tiles of at most 8 nodes."""
    from cgipool.ops.gpu import cells

    wide = cells.COLS + 8 if name in ("block_max", "block_max_grad") else 130
    sizes = (10, 1, 4, 0, 9) if name in EDGES else (40, 1, 4, 0, 33)
    for size, value in {"SIZES": sizes, "F": wide, "M": 12}.items():
        monkeypatch.setattr(test_ops, size, value)
    check_against_float64(name, range(2))


EDGES = {"gine": 5, "gine_grad": 6, "attend": 7, "attend_grad": 10}
"""Which argument of an op are the rows of the table of edge features, of all ops that read one."""


@pytest.mark.parametrize("each", [False, True], ids=["few kinds", "each edge"])
@pytest.mark.parametrize("name", EDGES)
def test_edge_features_without_weights(name: str, each: bool) -> None:
    """The other two ways of the kernels: all edges weigh 1; every entry has its own row of the table."""
    args, at = stacked(name, range(2)), EDGES[name]
    args[at + 2] = args[at + 3] = args[at + 2][:, :0]
    if each:
        room = args[at].shape[1]
        random = torch.Generator().manual_seed(0)
        args[at] = args[at + 1] = torch.stack([torch.randperm(room, generator=random) for _ in range(2)]).int()
        table = {"gine": 1, "gine_grad": 2, "attend": 3, "attend_grad": 4}[name]
        args[table] = torch.randn(2, room, args[table].shape[2], generator=random, dtype=torch.float64)
        args[-1] = True
    if name == "attend_grad":  # its results of going forward belong to these arguments
        args[5:7] = OPS["attend"].run(*args[1:5], *args[7:])
    check(name, args)


def check_against_float64(name: str, seeds: range) -> None:
    check(name, stacked(name, seeds))


def check(name: str, args: list) -> None:
    expected = OPS[name].run(*args)
    with unwritten_is_nan():
        result = ON_GPU[name].on_gpu(*map(single, args))
    for ours, theirs in zip(result, expected, strict=True) if isinstance(expected, tuple) else [(result, expected)]:
        assert ours.shape == theirs.shape
        if theirs.is_floating_point():
            error = ours.cpu().double() - theirs.double()
            assert error.norm() <= 1e-5 * theirs.double().norm()
            assert error.abs().max() <= 1e-4
        else:
            assert torch.equal(ours.cpu(), theirs)


@pytest.mark.parametrize("name", ["block_attention", "block_attention_grad", "block_scaled", "block_scaled_grad"])
def test_lines_of_several_chunks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cgipool.ops.gpu import attention, scaled

    monkeypatch.setattr(test_ops, "SIZES", (37, 1, 4, 0, 20))
    for module in (attention, scaled):
        monkeypatch.setattr(module, "ROWS", 4)
        monkeypatch.setattr(module, "COLS", 8)
    check_against_float64(name, range(2))


def test_every_op_has_a_kernel() -> None:
    assert all(op.gpu for op in OPS.values())


def test_large_graphs_are_ranked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    from cgipool.ops.gpu import ranks

    monkeypatch.setattr(ranks, "LARGE", 8)
    random = torch.Generator().manual_seed(0)
    slot_ptr = torch.tensor([[0, 700, 701, 740, 745]])
    sizes = torch.diff(slot_ptr[0])
    graph = torch.repeat_interleave(torch.arange(4), sizes)
    graph = torch.nn.functional.pad(graph, (0, 5), value=3).unsqueeze(0)
    score = torch.randn(1, 750, 3, generator=random)
    score[..., 1] = (score[..., 1] * 2).round() / 2  # many ties, zeros of both signs among them
    score[..., 2] = -score[..., 2].abs()
    alive = (torch.rand(1, 750, generator=random) < 0.8).float()
    alive[:, 745:] = 0
    for k in ([300, 1, 20, 2], [1, 0, 39, 5], [700, 1, 0, 3]):
        where = (torch.tensor([k]), graph, slot_ptr)
        kept = ranks.keep_top_k(*(t.to(DEVICE) for t in (score, alive, *where))).cpu()
        assert torch.equal(kept, OPS["keep_top_k"].run(score, alive, *where))
