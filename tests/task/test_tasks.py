"""Losses and metrics of every task, held to scikit-learn, torch and finite differences."""

import functools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn import metrics as sklearn_metrics
from torch import Tensor

from cgipool.data import GraphSet
from cgipool.task.base import Task, Truth
from cgipool.task.device import device_auc
from cgipool.task.metrics import METRICS, Classes, calibration_error, described, report, shown
from cgipool.task.registry import task_of
from small import random_graphs

COLUMNS = 3


def targets_of(task: str, count: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    values = generator.normal(3.0, 2.0, (count, COLUMNS))
    values = (values > 3.0).astype(float) if task == "multilabel" else values
    values[generator.random((count, COLUMNS)) < 0.3] = np.nan
    return values


def set_of(task: str) -> GraphSet:
    graphs = random_graphs(0, [4, 3, 6, 2, 5, 7, 3, 8, 4, 2, 9, 5])
    return graphs if task == "classification" else graphs.with_targets(targets_of(task, len(graphs)), None, task)


def truth_of(graphs: GraphSet) -> Truth:
    targets = np.zeros((len(graphs), 0)) if graphs.targets is None else graphs.targets
    return Truth(torch.from_numpy(graphs.y), torch.from_numpy(targets))


def setup(name: str) -> tuple[Task, GraphSet, Truth, Tensor]:
    graphs = set_of(name)
    task = task_of(graphs)
    constants = task.constants(graphs, np.arange(len(graphs)), None).double()
    return task, graphs, truth_of(graphs), constants


@pytest.mark.parametrize("name", list(METRICS))
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients_of_masked_losses(name: str, smoothing: float) -> None:
    task, graphs, truth, constants = setup(name)
    torch.manual_seed(0)
    output = torch.randn(len(graphs), task.outputs, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(len(graphs), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda o: task.loss(o, truth, constants, weight, smoothing), (output,))


@pytest.mark.parametrize("name", ["regression", "multilabel"])
def test_a_batch_without_targets_has_loss_zero(name: str) -> None:
    task, graphs, truth, constants = setup(name)
    nothing = truth._replace(targets=torch.full_like(truth.targets, torch.nan))
    output = torch.randn(len(graphs), task.outputs, dtype=torch.float64, requires_grad=True)
    loss = task.loss(output, nothing, constants, torch.ones(len(graphs), dtype=torch.float64))
    loss.backward()
    assert loss.item() == 0.0
    assert output.grad is not None
    assert not output.grad.any()


def test_losses_against_torch() -> None:
    task, graphs, truth, constants = setup("regression")
    output = torch.randn(len(graphs), COLUMNS, dtype=torch.float64)
    ones = torch.ones(len(graphs), dtype=torch.float64)
    known = ~truth.targets.isnan()
    expected = F.mse_loss(output[known], ((truth.targets - constants[0]) / constants[1])[known])
    assert task.loss(output, truth, constants, ones).item() == pytest.approx(expected.item(), rel=1e-12)
    task, graphs, truth, constants = setup("multilabel")
    known = ~truth.targets.isnan()
    expected = F.binary_cross_entropy_with_logits(output[known], truth.targets[known])
    assert task.loss(output, truth, constants, ones).item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("name", list(METRICS))
def test_means_of_parts_combine_by_their_mass(name: str) -> None:
    task, graphs, truth, constants = setup(name)
    output = torch.randn(len(graphs), task.outputs, dtype=torch.float64)
    weight = torch.rand(len(graphs), dtype=torch.float64)
    whole = task.loss(output, truth, constants, weight)
    halves = [slice(0, 5), slice(5, None)]
    parts = [(Truth(*(t[half] for t in truth)), output[half], weight[half]) for half in halves]
    masses = [task.mass(t, constants, w) for t, _, w in parts]
    losses = [task.loss(o, t, constants, w) for t, o, w in parts]
    total = sum(m * v for m, v in zip(masses, losses, strict=True)) / sum(masses)
    assert total.item() == pytest.approx(whole.item(), rel=1e-9)


@pytest.mark.parametrize(("name", "metric"), [(name, metric) for name in METRICS for metric in METRICS[name]])
def test_metrics_on_the_device(name: str, metric: str) -> None:
    """They equal scikit-learn's, also under `vmap`, as the stacked engine computes them, with empty slots last."""
    task, graphs, truth, constants = setup(name)
    torch.manual_seed(1)
    output = torch.randn(2, len(graphs), task.outputs, dtype=torch.float64).round(decimals=1)  # with ties
    known = task.targets(graphs, np.arange(len(graphs)))
    expected = [task.evaluate(known, task.predictions(o, constants).numpy())[metric] for o in output]
    there = torch.ones(len(graphs) + 2, dtype=torch.float64)
    there[-2:] = 0.0
    padded = Truth(F.pad(truth.y, (0, 2)), F.pad(truth.targets, (0, 0, 0, 2), value=torch.nan))
    output = F.pad(output, (0, 0, 0, 2))
    alone = [task.score(o, padded, constants, there, metric).item() for o in output]
    score = functools.partial(task.score, metric=metric)
    stacked = torch.vmap(score, in_dims=(0, None, None, None))(output, padded, constants, there)
    assert alone == pytest.approx(expected, rel=1e-9)
    assert stacked.tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", list(METRICS))
def test_one_metric_is_that_of_all(name: str) -> None:
    task, graphs, _, constants = setup(name)
    generator = torch.Generator().manual_seed(2)
    output = torch.randn(len(graphs), task.outputs, dtype=torch.float64, generator=generator)
    known, answers = task.targets(graphs, np.arange(len(graphs))), task.predictions(output, constants).numpy()
    every = task.evaluate(known, answers)
    assert [task.value(metric, known, answers) for metric in METRICS[name]] == pytest.approx(
        [every[metric] for metric in METRICS[name]], rel=1e-9
    )
    if name == "classification":
        classes = Classes(graphs.class_names, 0)
        assert task.value("pr_auc", known, answers, 0) == pytest.approx(shown(every, classes)["pr_auc"])
        assert np.isnan(task.value("roc_auc", np.zeros_like(known), answers, 0))


@pytest.mark.parametrize("classes", [2, 4])
def test_metrics_of_classes(classes: int) -> None:
    generator = np.random.default_rng(classes)
    y, p = generator.integers(0, classes, 60), generator.dirichlet(np.ones(classes), 60).round(2)
    p /= p.sum(1, keepdims=True)
    found, guess = report(y, p), p.argmax(1)
    hits = guess == y
    assert found["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(y, guess))
    assert found["balanced_accuracy"] == pytest.approx(sklearn_metrics.balanced_accuracy_score(y, guess))
    assert found["mcc"] == pytest.approx(sklearn_metrics.matthews_corrcoef(y, guess))
    assert found["log_loss"] == pytest.approx(sklearn_metrics.log_loss(y, p, labels=range(classes)))
    bins = np.minimum((15 * p.max(1)).astype(int), 14)
    gaps = [abs(p.max(1)[bins == b].sum() - hits[bins == b].sum()) for b in range(15)]
    assert found["ece"] == pytest.approx(sum(gaps) / 60)
    if classes == 2:
        assert found["brier"] == pytest.approx(sklearn_metrics.brier_score_loss(y, p[:, 1]))
        assert found["roc_auc"] == pytest.approx(sklearn_metrics.roc_auc_score(y, p[:, 1]))
        assert found["pr_auc"] == pytest.approx(sklearn_metrics.average_precision_score(y, p[:, 1]))
    else:
        assert found["brier"] == pytest.approx(np.mean(((p - np.eye(classes)[y]) ** 2).sum(1)))
        assert found["roc_auc"] == pytest.approx(sklearn_metrics.roc_auc_score(y, p, multi_class="ovr"))
    assert set(METRICS["classification"]) == found.keys() - {"per_class"}


def test_metrics_of_one_class_only() -> None:
    found = report(np.zeros(5, int), np.tile([0.75, 0.25], (5, 1)))
    assert (found["accuracy"], found["balanced_accuracy"], found["mcc"]) == (1.0, 1.0, 0.0)
    assert found["roc_auc"] is found["pr_auc"] is None
    assert (found["brier"], found["ece"]) == (0.0625, 0.25)


def test_regression_metrics_are_scikit_learns() -> None:
    task, _, truth, _ = setup("regression")
    targets, predicted = truth.targets.numpy(), np.random.default_rng(3).normal(3.0, 2.0, truth.targets.shape)
    found = task.evaluate(targets, predicted)
    for column in range(COLUMNS):
        known = ~np.isnan(targets[:, column])
        one, other = targets[known, column], predicted[known, column]
        assert found["per_column"]["rmse"][column] == pytest.approx(sklearn_metrics.root_mean_squared_error(one, other))
        assert found["per_column"]["r2"][column] == pytest.approx(sklearn_metrics.r2_score(one, other))
    assert found["mae"] == pytest.approx(np.mean(found["per_column"]["mae"]))
    assert list(METRICS["regression"]) == [name for name in found if name != "per_column"]


def test_multi_label_metrics_leave_out_columns_with_one_value() -> None:
    task, _, truth, _ = setup("multilabel")
    targets, predicted = truth.targets.numpy().copy(), np.random.default_rng(3).random(truth.targets.shape)
    targets[:, 1] = np.where(np.isnan(targets[:, 1]), np.nan, 0.0)
    found = task.evaluate(targets, predicted)
    assert found["per_column"]["roc_auc"][1] is None
    areas = []
    for column in (0, 2):
        known = ~np.isnan(targets[:, column])
        areas.append(sklearn_metrics.roc_auc_score(targets[known, column], predicted[known, column]))
    assert found["roc_auc"] == pytest.approx(np.mean(areas))
    assert list(METRICS["multilabel"]) == [name for name in found if name != "per_column"]


def test_an_area_without_both_values_is_not_a_number() -> None:
    score = torch.tensor([[0.1, 0.4], [0.3, 0.2]])
    target = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    assert device_auc(score, target, torch.ones(2, 2)).tolist()[0] == 1.0
    assert device_auc(score, target, torch.ones(2, 2))[1].isnan()


def test_the_calibration_error_by_hand() -> None:
    confidence = np.array([0.95, 0.95, 0.15, 0.15])
    right = np.array([True, False, False, False])
    assert calibration_error(confidence, right) == pytest.approx((2 * abs(0.95 - 0.5) + 2 * 0.15) / 4)


def test_balanced_weights_of_columns() -> None:
    graphs = set_of("multilabel")
    weights = task_of(graphs).constants(graphs, np.arange(len(graphs)), "balanced").numpy()
    for column, values in enumerate(graphs.targets.T):
        counts = [(values == 0).sum(), (values == 1).sum()]
        assert weights[0, column] * counts[0] == pytest.approx(weights[1, column] * counts[1])


def test_words() -> None:
    assert described("accuracy", 0.831) == "accuracy 83.1 %"
    assert described("rmse", 0.6719) == "RMSE 0.672"
    assert described("roc_auc", None) == described("roc_auc", float("nan")) == "ROC-AUC not defined"
