"""Custom pools pass a trial with several splits at once before they train that way.

On a machine with a GPU, the last test trains there: `python -m pytest tests/training/test_trial.py -k gpu`.
"""

import logging
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cgipool.data import GraphSet, load_dataset
from cgipool.data.splits import random_splits
from cgipool.model.level import Level
from cgipool.pool import Pooled
from cgipool.training.job import Job
from cgipool.training.loop import train_split
from cgipool.training.presets import recipe_named
from cgipool.training.run import train
from cgipool.training.stacked.host import slow_because, stackable, train_together, tried

HERE = __name__


class Static(nn.Module):
    """Keeps the best nodes by a learned score, with static shapes."""

    def __init__(self, dim: int, ratio: float | int = 0.8) -> None:
        super().__init__()
        self.ratio, self.score = ratio, nn.Linear(dim, 1)

    def gate(self, x: Tensor, level: Level) -> Tensor:
        return torch.sigmoid(self.score(x)).squeeze(1)

    def forward(self, x: Tensor, level: Level) -> Pooled:
        gate, k = self.gate(x, level), level.kept(self.ratio)
        keep = level.select(gate.unsqueeze(1), k).squeeze(1)
        return Pooled(*level.coarsen(x, gate, keep, k))


class BooleanMask(Static):
    """Its shapes depend on the data."""

    def gate(self, x: Tensor, level: Level) -> Tensor:
        gate = super().gate(x, level)
        return gate / gate[level.alive > 0].mean()


class ReadsValue(Static):
    """It reads a value back."""

    def gate(self, x: Tensor, level: Level) -> Tensor:
        gate = super().gate(x, level)
        return gate / gate.sum().item()


class OverTheHost(Static):
    """It computes on the CPU: fine for `vmap`, impossible in a captured step."""

    def gate(self, x: Tensor, level: Level) -> Tensor:
        return super().gate(x.cpu(), level) if x.device.type == "cpu" else super().gate(x.cpu().to(x.device), level)


class Broken(Static):
    """It fails in any form."""

    def gate(self, x: Tensor, level: Level) -> Tensor:
        raise ValueError("broken in any form")


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return load_dataset("motifs").subset(range(0, 1000, 20))


def tasks_of(method: str, graphs: GraphSet, folder: Path, count: int = 2) -> list[Job]:
    recipe = recipe_named("paper").but(width=8, epochs=2, batch_size=16)
    splits = random_splits(graphs, seed=0, indices=range(count))
    return [Job(method, recipe, s, 0, "cpu", folder / f"split-{s.index:03d}") for s in splits]


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("Static", None),
        ("OverTheHost", None),
        ("BooleanMask", "test_trial.py:"),
        ("ReadsValue", "test_trial.py:"),
        ("Broken", "ValueError: broken in any form"),
    ],
)
def test_why_it_is_slow(pool: str, said: str | None, graphs: GraphSet, tmp_path: Path) -> None:
    task = tasks_of(f"{HERE}:{pool}", graphs, tmp_path)[0]
    reason = slow_because(task, graphs)
    assert (reason is None) == (said is None)
    assert reason is None or (said in reason and "\n" not in reason)
    assert not task.folder.exists()


def test_methods_of_the_library_are_not_tried(graphs: GraphSet, tmp_path: Path) -> None:
    for method in ("cgi", "majority", "torch_geometric.nn:TopKPooling"):
        assert slow_because(tasks_of(method, graphs, tmp_path)[0], graphs) is None


def test_a_pool_that_fails_the_trial_trains_split_by_split(
    graphs: GraphSet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "cgipool"):
        slow = tried(tasks_of(f"{HERE}:BooleanMask", graphs, tmp_path / "slow"), graphs)
        fast = tried(tasks_of(f"{HERE}:Static", graphs, tmp_path / "fast"), graphs)
    assert [stackable(task) for task in slow + fast] == [False, False, True, True]
    (line,) = caplog.messages
    assert line.startswith(f"{HERE}:BooleanMask trains split by split: it cannot train several splits at once: ")
    train_split(slow[0], graphs, lambda progress: None)
    train_together(fast, graphs, lambda progress: None)
    assert (slow[0].folder / "result.json").exists()
    assert (fast[1].folder / "result.json").exists()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("pool", ["Static", "BooleanMask", "ReadsValue", "OverTheHost"])
def test_on_a_gpu(pool: str, graphs: GraphSet, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "cgipool"):
        result = train(graphs, method=f"{HERE}:{pool}", splits=2, device="cuda", width=8, epochs=2, batch_size=16)
    assert len(result.rows) == 2
    told = [line for line in caplog.messages if "trains split by split" in line]
    assert len(told) == (0 if pool == "Static" else 1)
    assert torch.rand(3, device="cuda").isfinite().all(), "the generator is unusable"
    again = train(graphs, method="topk", splits=2, device="cuda", width=8, epochs=2, batch_size=16)
    assert len(again.rows) == 2
