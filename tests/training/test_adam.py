"""Our Adam is torch's, without what torch's optimisers import."""

import subprocess
import sys

import pytest
import torch

from cgipool.training.optimiser import Adam


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_those_of_torchs_optimiser(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator, dtype=dtype) for shape in ((4, 3), (3,), (2, 2))]
    ours, theirs = ([value.clone().requires_grad_() for value in start] for _ in range(2))
    adam = Adam(ours, 0.01, weight_decay=0.1)
    torchs = torch.optim.Adam(theirs, lr=0.01, weight_decay=0.1, fused=True)
    for step in range(4):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            reached = number < 2 or step == 2  # the last weight has a gradient once
            one.grad = torch.randn(one.shape, generator=generator, dtype=dtype) if reached else None
            other.grad = None if one.grad is None else one.grad.clone()
        adam.rate = torchs.param_groups[0]["lr"] = 0.01 / (1 + step)
        adam.step()
        torchs.step()
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one, other)
            assert adam.state[one].keys() == torchs.state[other].keys()
            assert all(torch.equal(adam.state[one][part], torchs.state[other][part]) for part in adam.state[one])


def test_training_does_not_import_torchs_compiler() -> None:
    code = """
import sys
import torch
from cgipool.training.optimiser import Adam
import cgipool.training.loop, cgipool.training.stacked.group
weight = torch.ones(2, requires_grad=True)
weight.sum().backward()
Adam([weight], 0.1).step()
assert weight[0] < 1.0
sys.exit(int("torch._dynamo" in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
