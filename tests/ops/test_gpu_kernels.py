"""The Triton kernels against the float64 CPU kernels, with a split axis: on a GPU where there is one, else through
Triton's interpreter (tests/conftest.py asks for it before Triton is imported)."""

import pytest
import test_ops
import torch
from test_ops import NEIGHBORS, OPS, arguments, some_batch
from torch import Tensor

pytest.importorskip("triton", reason="needs Triton")

ON_GPU = {name: op for name, op in OPS.items() if op.gpu}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def stacked(name: str, seeds: range) -> list:
    """The arguments of an op on several random batches, in float64, with a split axis."""
    batches = [list(arguments(some_batch(seed))[name]) for seed in seeds]
    if name in NEIGHBORS:
        at = NEIGHBORS[name]
        room = max(len(args[at]) for args in batches)
        for args in batches:
            args[at] = torch.nn.functional.pad(args[at], (0, room - len(args[at])))
    return [torch.stack(c) if isinstance(c[0], Tensor) else c[0] for c in zip(*batches, strict=True)]


def single(value: object) -> object:
    if not isinstance(value, Tensor):
        return value
    return (value.float() if value.is_floating_point() else value).to(DEVICE)


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small graphs, of a tile or less; or graphs, features and columns of more than one tile each."""
    if request.param == "large":
        for name, value in {"SIZES": (40, 1, 4, 0, 33), "F": 130, "M": 12}.items():
            monkeypatch.setattr(test_ops, name, value)
    return request.param


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("name", sorted(ON_GPU))
def test_against_float64(name: str, first: int, size: str) -> None:
    args = stacked(name, range(first, first + 3))
    expected = OPS[name].run(*args)
    result = ON_GPU[name].on_gpu(*map(single, args))
    for ours, theirs in zip(result, expected, strict=True) if isinstance(expected, tuple) else [(result, expected)]:
        assert ours.shape == theirs.shape
        if theirs.is_floating_point():
            error = ours.cpu().double() - theirs.double()
            assert error.norm() <= 1e-5 * theirs.double().norm()
            assert error.abs().max() <= 1e-4
        else:
            assert torch.equal(ours.cpu(), theirs)


def test_every_op_of_a_static_step_has_a_kernel() -> None:
    assert {name for name, op in OPS.items() if not op.gpu} == {"take", "take_grad"}
