"""Settings for rare classes: the focal loss, balanced batches and weights of columns, against NumPy in double
precision."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cgipool.data import motifs, random_splits
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split
from cgipool.errors import UserError
from cgipool.task.base import Truth
from cgipool.task.registry import task_named
from cgipool.training.job import Job, epoch_ids
from cgipool.training.labels import Balance
from cgipool.training.presets import PAPER
from cgipool.training.result import read_row
from cgipool.training.run import train
from cgipool.training.stacked.host import train_together

SMALL = {"width": 8, "epochs": 3, "batch_size": 16, "lr": 0.01}
RARE = {"focal": 2.0, "balanced_batches": True, "class_weight": "balanced"}

pytestmark = pytest.mark.usefixtures("one_thread")


def columns_of(graphs: GraphSet) -> GraphSet:
    targets = np.stack([graphs.y > 2, np.arange(len(graphs)) % 9 == 0], 1).astype(float)
    targets[::7, 1] = np.nan
    return graphs.with_targets(targets, ("first", "second"), "multilabel")


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_focal_loss_of_classes(gamma: float, smoothing: float) -> None:
    generator = np.random.default_rng(0)
    logits, y = 3.0 * generator.normal(size=(40, 3)), generator.integers(3, size=40)
    each, there = np.array([0.5, 1.0, 4.0]), (np.arange(40) < 35) * generator.uniform(size=40)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    p = np.exp(log_p)[np.arange(40), y]
    smooth = (1.0 - smoothing) * np.eye(3)[y] + smoothing / 3
    terms = -(smooth * log_p * each).sum(1) * (1.0 - p) ** gamma
    expected = (terms * there).sum() / (each[y] * there).sum()
    truth = Truth(torch.from_numpy(y), torch.empty(40, 0))
    arrays = (torch.from_numpy(logits), truth, torch.from_numpy(each), torch.from_numpy(there))
    found = task_named("classification", ("a", "b", "c")).loss(*arrays, smoothing, gamma)
    assert found.item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_focal_loss_of_columns_with_gaps(gamma: float, smoothing: float) -> None:
    generator = np.random.default_rng(1)
    output, targets = 3.0 * generator.normal(size=(40, 2)), generator.integers(2, size=(40, 2)).astype(float)
    targets[::3, 0] = np.nan
    weight, of_value = generator.uniform(size=40), np.array([[0.6, 0.5], [3.0, 9.0]])
    p = 1.0 / (1.0 + np.exp(-output))
    known = ~np.isnan(targets)
    true = np.where(known, targets, 0.0)
    smooth = true * (1.0 - smoothing) + smoothing / 2
    cross = -(smooth * np.log(p) + (1.0 - smooth) * np.log(1.0 - p))
    terms = cross * np.where(true == 1.0, 1.0 - p, p) ** gamma
    each = weight[:, None] * known * np.where(true == 1.0, of_value[1], of_value[0])
    truth = Truth(torch.zeros(40, dtype=torch.int64), torch.from_numpy(targets))
    arrays = (torch.from_numpy(output), truth, torch.from_numpy(of_value), torch.from_numpy(weight))
    found = task_named("multilabel", ("a", "b")).loss(*arrays, smoothing, gamma)
    assert found.item() == pytest.approx((terms * each).sum() / each.sum(), rel=1e-10)


@pytest.mark.parametrize("name", ["classification", "multilabel"])
def test_gradients_of_the_focal_loss(name: str) -> None:
    graphs = motifs(12) if name == "classification" else columns_of(motifs(12))
    task = task_named(name, graphs.class_names if name == "classification" else graphs.target_names)
    ids = np.arange(len(graphs))
    truth = Truth(
        torch.from_numpy(graphs.y), torch.from_numpy(np.zeros((12, 0)) if graphs.targets is None else graphs.targets)
    )
    constants = task.constants(graphs, ids, "balanced").double()
    output = torch.randn(12, task.outputs, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(12, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda o: task.loss(o, truth, constants, weight, 0.1, 1.5), (output,))
    extreme = torch.full_like(output, 80.0).requires_grad_()
    task.loss(extreme, truth, constants, weight, 0.0, 0.5).backward()
    assert extreme.grad is not None
    assert extreme.grad.isfinite().all()


def test_weights_of_columns_are_those_of_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    graphs = columns_of(motifs(60))
    found = task_named("multilabel", graphs.target_names).constants(graphs, np.arange(50), "balanced").numpy()
    assert graphs.targets is not None
    for column in range(2):
        values = graphs.targets[:50, column]
        known = values[~np.isnan(values)]
        expected = compute_class_weight("balanced", classes=np.array([0.0, 1.0]), y=known)
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-6)


def test_classes_take_turns_and_every_rare_graph_comes() -> None:
    y = np.repeat([0, 1, 2], [50, 7, 3])
    graphs = motifs(60).relabelled(y, ("often", "sometimes", "rare"))
    job = Job(
        "topk", PAPER.but(batch_size=12, balanced_batches=True), Split(0, np.arange(60), y[:1], y[:1]), 0, "cpu", Path()
    )
    balance = Balance.of(job, graphs)
    assert balance is not None
    orders = []
    for epoch in (1, 2):
        ids = np.concatenate(list(epoch_ids(job, epoch, balance.reordered)))
        assert y[ids].tolist() == [0, 1, 2] * 20
        counts = np.bincount(ids, minlength=60)
        assert counts[:50].max() == 1  # 20 of the 50 frequent graphs
        assert counts[50:57].min() == 2  # 20 places for 7 graphs
        assert counts[57:].min() == 6
        orders.append(ids.tolist())
    assert orders[0] != orders[1]
    assert Balance.of(Job("topk", PAPER, job.split, 0, "cpu", Path()), graphs) is None


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_the_stacked_engine_agrees_with_the_plain_loop(task: str, tmp_path: Path) -> None:
    graphs = motifs(60) if task == "classification" else columns_of(motifs(60))
    recipe = PAPER.but(**SMALL, **RARE, label_smoothing=0.1)
    splits = random_splits(graphs, seed=0, indices=range(2))
    plain = train(graphs, method="topk", recipe=recipe, splits=splits)
    usual = train(graphs, method="topk", recipe=PAPER.but(**SMALL), splits=splits)
    assert plain.rows[0]["val_loss"] != usual.rows[0]["val_loss"]
    jobs = [Job("topk", recipe, split, 0, "cpu", tmp_path / str(split.index)) for split in splits]
    train_together(jobs, graphs, lambda progress: None)
    for job, row in zip(jobs, plain.rows, strict=True):
        assert read_row(job.folder)["val_loss"] == pytest.approx(row["val_loss"], rel=1e-4)


def test_a_rare_class_is_found() -> None:
    """One in twelve graphs is a clique: with plain batches no graph is called one after a few epochs."""
    graphs = motifs(480)
    rare = np.flatnonzero(graphs.y == 3)[::4]
    graphs = graphs.subset(np.sort(np.concatenate([np.flatnonzero(graphs.y != 3), rare])))
    graphs = graphs.relabelled((graphs.y == 3).astype(int), ("no", "clique"))
    settings = {"method": "none", "width": 16, "epochs": 6, "batch_size": 32, "readout": "sum", "dropout": 0.0}
    recall = {}
    for balanced in (False, True):
        result = train(graphs, splits=1, split_kind="stratified", balanced_batches=balanced, lr=0.003, **settings)
        recall[balanced] = result.rows[0]["test"]["balanced_accuracy"]
    assert recall[False] == 0.5
    assert recall[True] > 0.7


@pytest.mark.parametrize("setting", [{"focal": 2.0}, {"balanced_batches": True}])
def test_numbers_have_no_rare_class(setting: dict[str, object]) -> None:
    graphs = motifs(60)
    with pytest.raises(UserError, match=f"{next(iter(setting))} is for classes and 0/1 columns"):
        train(graphs.with_targets(graphs.sizes), **setting)
