"""Settings of the optimisation: each is what its definition says, and all splits at once is each alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small import random_case
from torch import Tensor
from trees import SMALL, alone, quiet, result_of, same, tasks_of, trees

from cgipool.data import GraphSet
from cgipool.network import Output
from cgipool.training.objective import objective
from cgipool.training.recipe import PAPER
from cgipool.training.split import Training
from cgipool.training.together import train_together

CHOICES: list[dict[str, Any]] = [{"label_smoothing": 0.2, "class_weight": "balanced"}]


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return trees()


def named(choice: dict[str, Any]) -> str:
    return "-".join(choice)


@pytest.mark.parametrize("choice", CHOICES, ids=named)
@pytest.mark.parametrize("method", ["cgi", "topk"])
def test_together_is_alone(graphs: GraphSet, tmp_path: Path, method: str, choice: dict[str, Any]) -> None:
    recipe = PAPER.but(**SMALL, **choice)
    one, other = (tasks_of(graphs, method, recipe, tmp_path / way) for way in ("alone", "together"))
    alone(one, graphs)
    train_together(other, graphs, quiet)
    for a, b in zip(one, other, strict=True):
        same(a, b)
        assert result_of(a)["val_loss"] == pytest.approx(result_of(b)["val_loss"], rel=1e-3)


@pytest.mark.parametrize("weight", [[1.0, 1.0, 1.0], [0.5, 2.0, 0.7], [1.5, 1.5, 0.0]])
def test_smoothed_labels_are_torchs(weight: list[float]) -> None:
    case = random_case(0)
    batch = case.batch()
    logits = torch.randn(len(batch.y), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    class_weight = torch.tensor(weight, dtype=torch.float64)

    def both(logits: Tensor) -> tuple[Tensor, Tensor]:
        output = Output(logits, torch.tensor(0.0), {}, logits)
        ours = objective(output, batch, class_weight, 0.0, smoothing=0.3)
        return ours, F.cross_entropy(logits, batch.y, class_weight, label_smoothing=0.3)

    ours, theirs = both(logits.requires_grad_())
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    (one,), (other,) = torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_validation_knows_the_labels_as_they_are(graphs: GraphSet, tmp_path: Path) -> None:
    recipe = PAPER.but(**SMALL, label_smoothing=0.4)
    (task,) = tasks_of(graphs, "topk", recipe, tmp_path, 1)
    training = Training(task, graphs)
    loss, _, answer = training.validate()
    assert loss == pytest.approx(F.cross_entropy(answer.logits, training.val_y).item())
