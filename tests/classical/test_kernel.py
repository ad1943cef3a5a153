"""Kernel methods: scikit-learn's machines on the same kernel, every task, choice by validation graphs, and files."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from cgipool.classical import MODELS, Examples
from cgipool.classical.calibration import platt, temperature
from cgipool.classical.kernel import COSTS, DEPTHS
from cgipool.classical.wl import colours, entries, matrix
from cgipool.data import GraphSet, motifs
from cgipool.data.splits import random_splits
from cgipool.errors import UserError
from cgipool.inference.estimator import GraphClassifier
from cgipool.inference.fitted import FittedModel
from cgipool.task.registry import task_of
from cgipool.training.checkpoint import load_tensors
from cgipool.training.run import train

GRAPHS = motifs(80)
(SPLIT,) = random_splits(GRAPHS, seed=0, indices=[0])


def examples(graphs: GraphSet = GRAPHS, **more) -> Examples:
    return Examples(graphs, SPLIT.train, SPLIT.val, task_of(graphs), **more)


def normalised(graphs: GraphSet, depth: int, assignment: bool) -> np.ndarray:
    """[G, D] dense features of length 1."""
    found = [entries(graphs, c, assignment) for c in colours(graphs, depth, labels=True, edge_labels=True)]
    x = np.hstack([matrix(f, graphs.n_graphs, np.unique(f.feature)).toarray() for f in found])
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("method", ["wl", "wl-oa"])
def test_classes_are_those_of_scikit_learn_with_the_best_choice(method: str) -> None:
    model = MODELS[method]
    fitted = model.fit(examples())
    y, best = GRAPHS.y, (-1.0, 0, 0.0)
    for depth in DEPTHS:
        x = normalised(GRAPHS, depth, method == "wl-oa")
        for cost in COSTS:
            machine = LinearSVC(C=cost, tol=1e-3, random_state=0).fit(x[SPLIT.train], y[SPLIT.train])
            found = machine.score(x[SPLIT.val], y[SPLIT.val])
            best = max(best, (found, -depth, -cost))
    assert (fitted.choice["depth"], fitted.choice["C"]) == (-best[1], -best[2])
    x = normalised(GRAPHS, -best[1], method == "wl-oa")
    machine = LinearSVC(C=-best[2], tol=1e-3, random_state=0).fit(x[SPLIT.train], y[SPLIT.train])
    answers = model.predict(fitted.arrays, GRAPHS, task_of(GRAPHS))
    assert np.array_equal(answers.argmax(1), machine.predict(x))
    assert np.allclose(answers.sum(1), 1.0)


def test_values_with_gaps() -> None:
    """Ridge regression finds a target that is linear in the counts; gaps and several columns are allowed."""
    size = GRAPHS.sizes.astype(float)
    targets = np.stack([3.0 * size - 7.0, np.where(np.arange(80) % 3, size, np.nan), np.full(80, 2.0)], axis=1)
    graphs = GRAPHS.with_targets(targets, task="regression")
    fitted = MODELS["wl"].fit(examples(graphs))
    found = MODELS["wl"].predict(fitted.arrays, graphs, task_of(graphs))[SPLIT.test]
    wanted = np.stack([3.0 * size - 7.0, size, np.full(80, 2.0)], axis=1)[SPLIT.test]
    assert np.abs(found - wanted).max() < 0.1


@pytest.mark.parametrize("index", [0, 1])
def test_labels_with_gaps(index: int) -> None:
    """A column without a graph of one kind, one with gaps, and validation graphs that have one value only."""
    column = np.where(np.arange(80) % 4, (GRAPHS.y == 0).astype(float), np.nan)
    targets = np.stack([(GRAPHS.y > 0).astype(float), column, np.zeros(80)], axis=1)
    graphs = GRAPHS.with_targets(targets, task="multilabel")
    train_ids, test_ids = np.arange(0, 60), np.arange(60, 80)
    val = np.flatnonzero(GRAPHS.y > 0)[-9:] if index else test_ids
    given = Examples(graphs, train_ids, val, task_of(graphs), class_weight="balanced")
    found = MODELS["wl-oa"].predict(MODELS["wl-oa"].fit(given).arrays, graphs, task_of(graphs))
    assert task_of(graphs).evaluate(targets[test_ids], found[test_ids])["roc_auc"] > 0.9
    assert np.all(found[:, 2] < 1e-3)


def test_edge_labels_can_be_left_out() -> None:
    draw = np.random.default_rng(0)
    y = draw.integers(0, 2, 80)
    graphs = GraphSet.from_edges(
        "edges", [2] * 80, np.arange(0, 160, 2), np.arange(1, 160, 2), y,
        edge_category=y[:, None].astype(np.int32), edge_category_names=(("single", "double"),),
    )  # fmt: skip
    accuracy = [
        train(graphs, method="wl", splits=[SPLIT], kernel_edges=use, ensemble=3).test_accuracy[0]
        for use in (True, False)
    ]
    assert accuracy[0] == 1.0
    assert accuracy[1] < 0.9


def test_a_class_without_training_graphs_is_never_predicted() -> None:
    y = np.minimum(GRAPHS.y, 1)
    y[SPLIT.test[:2]] = 2
    graphs = GRAPHS.relabelled(y, ("0", "1", "2"))
    answers = MODELS["wl"].predict(MODELS["wl"].fit(examples(graphs)).arrays, graphs, task_of(graphs))
    assert answers[:, 2].max() == 0.0
    only = GRAPHS.relabelled(np.where(np.isin(np.arange(80), SPLIT.train), 1, y), ("0", "1", "2"))
    answers = MODELS["wl"].predict(MODELS["wl"].fit(examples(only)).arrays, only, task_of(only))
    assert np.array_equal(answers.argmax(1), np.ones(80))


def test_temperature_and_sigmoid_are_maximum_likelihood() -> None:
    draw = np.random.default_rng(1)
    f = draw.normal(size=4000)
    y = (draw.random(4000) < expit(2.5 * f - 1.0)).astype(float)
    usual = LogisticRegression(C=np.inf).fit(f[:, None], y)
    a, b = platt(f, y)
    assert np.allclose((a, b), (usual.coef_[0, 0], usual.intercept_[0]), atol=0.02)
    y = (draw.random(4000) < expit(2.5 * f)).astype(int)
    usual = LogisticRegression(C=np.inf, fit_intercept=False).fit(f[:, None], y)
    assert np.isclose(temperature(np.stack([-f, f], axis=1) / 2, y), usual.coef_[0, 0], atol=0.02)
    assert platt(f, np.where(np.arange(4000) < 9, 1.0, np.nan)) == (1.0, 0.0)


def test_a_run_resumes_and_keeps_what_was_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = train(GRAPHS, method="wl", splits=2, out=folder, ensemble=4)
    assert first.ensemble == 1
    kept = [(folder / f"split-00{n}" / "weights.safetensors").stat().st_mtime_ns for n in (0, 1)]
    again = train(GRAPHS, method="wl", splits=2, out=folder, resume=True)
    assert again.rows == first.rows
    assert [(folder / f"split-00{n}" / "weights.safetensors").stat().st_mtime_ns for n in (0, 1)] == kept
    assert int(load_tensors(folder / "split-000" / "weights.safetensors")[0]["depth"]) in DEPTHS


def test_processes_give_the_same_result() -> None:
    one, two = (train(GRAPHS, method="wl", splits=2, jobs=jobs) for jobs in (1, 2))
    assert [row["test"] for row in one.rows] == [row["test"] for row in two.rows]


def test_a_classifier_is_written_and_read_back(tmp_path: Path) -> None:
    model = GraphClassifier(method="wl-oa", random_state=3).fit(GRAPHS)
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = GraphClassifier.load(path)
    assert np.array_equal(again.predict_proba(GRAPHS), model.predict_proba(GRAPHS))
    assert np.allclose(again.predict_proba(GRAPHS[3]), model.predict_proba(GRAPHS)[[3]])
    assert model.score(GRAPHS, [GRAPHS.class_names[c] for c in GRAPHS.y]) > 0.95
    with pytest.raises(UserError, match="wl-oa is not a network"):
        model.transform(GRAPHS)


def test_damaged_arrays_are_an_error() -> None:
    task, fitted = task_of(GRAPHS), MODELS["wl"].fit(examples())
    MODELS["wl"].check_arrays(fitted.arrays, task)
    for change in (
        {"depth": np.array(99)},
        {"weight": fitted.arrays["weight"][:-1]},
        {"feature": fitted.arrays["feature"][::-1]},
        {"bias": fitted.arrays["bias"] * np.nan},
        {"more": np.zeros(1)},
    ):
        with pytest.raises(ValueError, match=r"it should have|do not match|not finite|out of range"):
            MODELS["wl"].check_arrays(fitted.arrays | change, task)


def test_a_model_file_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = GraphClassifier(method="wl").fit(GRAPHS).model_
    model.members[0]["depth"] += 50
    model.save(path)
    with pytest.raises(UserError, match="out of range"):
        FittedModel.load(path)
