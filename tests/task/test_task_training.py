"""Regression and multi-label tasks in every trainer, in files and in the estimators."""

import csv
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from cgipool import GraphClassifier, GraphRegressor, GraphSet, train
from cgipool.cli import main
from cgipool.cli.progress import ending
from cgipool.data import motifs, random_splits
from cgipool.errors import UserError
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit
from cgipool.inference.inputs import to_graphset
from cgipool.task.metrics import METRICS as METRICS_OF
from cgipool.training import run
from cgipool.training.job import Job, Progress
from cgipool.training.presets import PAPER
from cgipool.training.recipe import Recipe
from cgipool.training.result import Log, read_row
from cgipool.training.settings import setting_of
from cgipool.training.stacked.host import train_together

SMALL = {"width": 8, "epochs": 3, "batch_size": 16, "lr": 0.01}

pytestmark = pytest.mark.usefixtures("one_thread")


def set_of(task: str) -> GraphSet:
    graphs = motifs(60)
    size = graphs.sizes / 10.0
    targets = np.stack([size, -2.0 * size], 1) if task == "regression" else np.stack([graphs.y > 1, graphs.y % 2], 1)
    targets = targets.astype(float)
    targets[::7, 1] = np.nan
    return graphs.with_targets(targets, ("first", "second"), task)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
@pytest.mark.parametrize("method", ["cgi", "none", "majority"])
def test_training_and_its_result(task: str, method: str, tmp_path: Path) -> None:
    result = train(set_of(task), method=method, splits=2, out=tmp_path / "run", **SMALL)
    assert result.task == task
    assert all(np.isfinite(result.test_scores)) or method == "majority"
    plain = result.to_json()
    assert plain["task"] == task
    assert len(plain[f"test_{result.primary}"]) == 2
    predictions = np.load(tmp_path / "run" / "split-000" / "probabilities.npy")
    assert predictions.shape[1] == 2


def test_regression_learns_and_beats_its_baseline() -> None:
    graphs = to_graphset(NETWORKS * 3).with_targets(np.tile(SIZES, 3))
    ours = train(graphs, method="none", splits=2, epochs=60, width=16, lr=0.01, readout="sum", dropout=0.0)
    baseline = train(graphs, method="majority", splits=2)
    assert max(ours.test_scores) < 0.7 * min(baseline.test_scores)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_the_stacked_engine_agrees_with_the_plain_loop(task: str, tmp_path: Path) -> None:
    graphs, recipe = set_of(task), PAPER.but(**SMALL)
    splits = random_splits(graphs, seed=0, indices=range(2))
    plain = train(graphs, method="topk", recipe=recipe, splits=splits)
    jobs = [Job("topk", recipe, split, 0, "cpu", tmp_path / str(split.index)) for split in splits]
    train_together(jobs, graphs, lambda progress: None)
    for job, row in zip(jobs, plain.rows, strict=True):
        stacked = read_row(job.folder)
        assert stacked["val_loss"] == pytest.approx(row["val_loss"], rel=1e-4)
        for name, value in row["test"].items():
            if name != "per_column" and value is not None:
                assert stacked["test"][name] == pytest.approx(value, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("task", "stop_by"), [("classification", "accuracy"), ("classification", "ece"), ("regression", "spearman"),
                          ("multilabel", "pr_auc")],
)  # fmt: skip
def test_early_stopping_by_a_metric(task: str, stop_by: str, tmp_path: Path) -> None:
    """The best epoch is the first with the best metric, in the plain loop, the stacked engine and after a resume."""
    graphs = motifs(60) if task == "classification" else set_of(task)
    recipe = PAPER.but(**SMALL | {"epochs": 12, "lr": 0.03}, stop_by=stop_by, patience=5)
    splits = random_splits(graphs, seed=0, indices=range(2))
    plain = train(graphs, method="topk", recipe=recipe, splits=splits, out=tmp_path / "plain")
    jobs = [Job("topk", recipe, split, 0, "cpu", tmp_path / str(split.index)) for split in splits]
    train_together(jobs, graphs, lambda progress: None)
    for job, row in zip(jobs, plain.rows, strict=True):
        log = Log(tmp_path / "plain" / f"split-{job.split.index:03d}" / "metrics.jsonl")
        values = [-np.inf if value is None else value for value in log.column(f"val_{stop_by}")]
        best = int(np.argmin(values) if stop_by == "ece" else np.argmax(values))
        assert row["best_epoch"] == best + 1
        assert row["val_loss"] == log.column("val_loss")[best]
        assert row["epochs"] == min(12, best + 1 + 5)
        stacked = read_row(job.folder)
        assert stacked["best_epoch"] == row["best_epoch"]
        assert stacked["val_loss"] == pytest.approx(row["val_loss"], rel=1e-3)


def test_a_resumed_training_remembers_the_best_metric(tmp_path: Path) -> None:
    graphs = set_of("regression")
    settings = SMALL | {"epochs": 8, "stop_by": "mae", "patience": 8}
    whole = train(graphs, method="none", **settings)

    def stop(progress: Progress) -> None:
        if progress.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(graphs, method="none", out=tmp_path / "run", tell=stop, **settings)
    resumed = train(graphs, method="none", out=tmp_path / "run", resume=True, **settings)
    for name in ("best_epoch", "val_loss", "test"):
        assert resumed.rows[0][name] == whole.rows[0][name]


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(("stop_by", "shown"), [("mae", "MAE"), ("r2", "R²"), ("loss", "loss")])
def test_progress_shows_what_early_stopping_watches(
    stop_by: str, shown: str, stacked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_together", lambda job: stacked)
    graphs, reports = set_of("regression"), []
    for resume in (False, True):
        train(graphs, stop_by=stop_by, out=tmp_path / "run", resume=resume, tell=reports.append, **SMALL)
    *epochs, end, again = reports
    assert {report.metric for report in epochs} == {"rmse" if stop_by == "loss" else stop_by}
    logged = Log(tmp_path / "run" / "split-000" / "metrics.jsonl").rows()[end.best_epoch - 1][f"val_{stop_by}"]
    for report in (end, again):
        assert report.done
        assert report.val_score == pytest.approx(logged, rel=1e-6)
        number = rf"{logged:.4f}" if stop_by == "loss" else rf"{logged:.3f}"
        assert ending(report, 1, 1) == f"split 0: 3 epochs, best {end.best_epoch} with validation {shown} {number}"


def test_what_early_stopping_cannot_watch() -> None:
    with pytest.raises(UserError, match="stop_by 'accuracy' is not a metric of regression; choose one of: loss, rmse"):
        train(set_of("regression"), method="none", stop_by="accuracy", **SMALL)
    one = motifs(60).with_targets(np.zeros((60, 2)), None, "multilabel")
    with pytest.raises(UserError, match="stop_by 'roc_auc' is not defined on the validation graphs of split 0"):
        train(one, method="none", stop_by="roc_auc", **SMALL)
    known = {name for metrics in METRICS_OF.values() for name in metrics}
    assert set(setting_of(Recipe.__dataclass_fields__["stop_by"]).choices) == known | {"loss"}


def test_settings_of_classes_are_refused_for_numbers(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    set_of("regression").save(tmp_path / "set")
    for option, said in (
        (
            ["--class-weight", "balanced"],
            "class_weight is for classes and 0/1 columns; the targets of motifs are numbers; use sample_weight",
        ),
        (
            ["--set", "label_smoothing=0.1"],
            "label_smoothing is for classes and 0/1 columns; the targets of motifs are numbers",
        ),
        (
            ["--recipe", "strong-molecules", "--label-smoothing", "0.2"],
            "label_smoothing is for classes and 0/1 columns; the targets of motifs are numbers",
        ),
        (["--positive", "1"], "there is no class '1': the targets are not classes"),
    ):
        assert main(["train", str(tmp_path / "set"), "--width", "4", "--epochs", "1", *option]) == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"cgipool: {said}"


def test_settings_that_a_preset_has_for_classes_are_ignored_for_numbers() -> None:
    graphs = set_of("regression")
    for settings in ({}, {"label_smoothing": 0.0}):
        train(graphs, method="none", recipe="strong-molecules", **SMALL, **settings)
    with pytest.raises(UserError, match="label_smoothing is for classes"):
        GraphRegressor("none", label_smoothing=0.3, **SMALL).fit(graphs, np.arange(60.0))
    train(graphs.with_targets(np.eye(60)[:, :2], None, "multilabel"), method="none", label_smoothing=0.1, **SMALL)


def test_ensembles_and_parallel_jobs(tmp_path: Path) -> None:
    graphs = set_of("regression")
    one = train(graphs, method="none", splits=2, ensemble=2, **SMALL)
    other = train(graphs, method="none", splits=2, ensemble=2, jobs=2, **SMALL)
    assert one.test_scores == pytest.approx(other.test_scores, rel=1e-6)
    assert len(one.member_accuracy[0]) == 2


def test_a_saved_set_keeps_its_targets(tmp_path: Path) -> None:
    graphs = set_of("regression")
    graphs.save(tmp_path / "set")
    for mmap in (False, True):
        again = GraphSet.load(tmp_path / "set", mmap=mmap)
        assert (again.task, again.target_names) == ("regression", ("first", "second"))
        np.testing.assert_array_equal(again.targets, graphs.targets)
    joined = GraphSet.join([graphs, graphs.subset([3, 1])])
    np.testing.assert_array_equal(joined.targets[-2:], graphs.targets[[3, 1]])
    with pytest.raises(UserError, match="different tasks"):
        GraphSet.join([graphs, graphs.with_targets(np.ones((60, 2)), ("first", "second"), "multilabel")])


@pytest.mark.parametrize(
    ("targets", "task", "message"),
    [
        ([1.0, np.inf, 0.0], "regression", "target column 'target 0' has 1 infinite value, first in graph 1"),
        (
            [1.0, 2.0, 0.0],
            "multilabel",
            "1 value other than 0 and 1 (2 in graph 1); for numbers use regression (Graph",
        ),
        ([1.0, 2.0], "regression", "targets has 2 rows for 3 graphs"),
        ([1.0, 2.0, 0.0], "ranking", "unknown task 'ranking'"),
    ],
)
def test_wrong_targets(targets: list[float], task: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        motifs(3).with_targets(targets, None, task)
    assert message in str(error.value)


def test_changed_targets_are_another_run(tmp_path: Path) -> None:
    graphs = set_of("regression")
    train(graphs, method="none", out=tmp_path / "run", **SMALL)
    other = graphs.with_targets(graphs.targets + 1.0, graphs.target_names, "regression")
    with pytest.raises(UserError, match="different data set content"):
        train(other, method="none", out=tmp_path / "run", resume=True, **SMALL)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_model_files(task: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    graphs = set_of(task)
    graphs.save(tmp_path / "set")
    model = fit(graphs, method="none", ensemble=2, **SMALL)
    model.save(tmp_path / "model.safetensors")
    again = FittedModel.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predictions(graphs), model.predictions(graphs))
    command = ["predict", str(tmp_path / "model.safetensors"), str(tmp_path / "set"), "--spread"]
    assert main([*command, "--out", str(tmp_path / "rows.csv")]) == 0
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    named = ("first", "second") if task == "regression" else ("p(first)", "p(second)")
    assert list(rows[0]) == ["id", *named, "sd(first)", "sd(second)", "unseen_nodes", "reason"]
    given = np.array([[float(row[name]) for name in named] for row in rows])
    np.testing.assert_allclose(given, model.predictions(graphs), rtol=1e-4, atol=1e-5)
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert set(first) == {"id", "values" if task == "regression" else "probabilities", "spread", "unseen_nodes"}


def test_spread_needs_an_ensemble(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    graphs = set_of("regression")
    graphs.save(tmp_path / "set")
    fit(graphs, method="none", **SMALL).save(tmp_path / "one.safetensors")
    assert main(["predict", str(tmp_path / "one.safetensors"), str(tmp_path / "set"), "--spread"]) == 2
    assert "--spread needs an ensemble" in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "one.safetensors"), str(tmp_path / "set"), "--graph", "0"]) == 2
    assert "none selects no nodes" in capsys.readouterr().err


NETWORKS = [nx.cycle_graph(n) for n in range(5, 25)] + [nx.star_graph(n) for n in range(5, 25)]
SIZES = np.array([float(g.number_of_nodes()) for g in NETWORKS])


def test_the_regressor_in_scikit_learn() -> None:
    model = GraphRegressor(method="none", width=8, epochs=2)
    scores = cross_val_score(model, NETWORKS, SIZES, scoring="neg_root_mean_squared_error", cv=3)
    assert scores.shape == (3,)
    assert (scores < 0).all()
    search = GridSearchCV(model, {"width": [4, 8]}, cv=2).fit(NETWORKS, SIZES)
    assert search.best_params_["width"] in (4, 8)


def test_the_regressor_keeps_the_shape_of_y(tmp_path: Path) -> None:
    one = GraphRegressor(method="none", ensemble=2, **SMALL).fit(NETWORKS, SIZES)
    values, deviation = one.predict(NETWORKS, return_std=True)
    assert values.shape == deviation.shape == (40,)
    assert one.score(NETWORKS, SIZES) <= 1.0
    two = GraphRegressor(method="none", **SMALL).fit(NETWORKS, np.stack([SIZES, -SIZES], 1))
    assert two.predict(NETWORKS).shape == (40, 2)
    one.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(GraphRegressor.load(tmp_path / "model.safetensors").predict(NETWORKS), values)
    with pytest.raises(UserError, match="load it with GraphRegressor"):
        GraphClassifier.load(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="return_std needs an ensemble"):
        two.predict(NETWORKS, return_std=True)
    with pytest.raises(UserError, match="y must hold numbers; for class labels use GraphClassifier"):
        GraphRegressor().fit(NETWORKS, ["a"] * 40)


def test_multi_label_classification_as_scikit_learn_has_it() -> None:
    y = np.stack([np.arange(40) < 20, SIZES > 12], 1).astype(float)
    y[3, 0] = np.nan
    model = GraphClassifier(method="none", **SMALL).fit(NETWORKS, y)
    assert model.predict(NETWORKS).shape == (40, 2)
    assert [p.shape for p in model.predict_proba(NETWORKS)] == [(40, 2), (40, 2)]
    first, second = (p[:, 1] for p in model.predict_proba(NETWORKS))
    known = ~np.isnan(y[:, 0])
    areas = [roc_auc_score(y[known, 0], first[known]), roc_auc_score(y[:, 1], second)]
    assert model.score(NETWORKS, y) == pytest.approx(np.mean(areas))
    graphs = to_graphset(NETWORKS).with_targets(y, model.model_.target_names, "multilabel")
    assert model.score(graphs) == model.score(NETWORKS, y)
    assert np.isnan(model.score(NETWORKS, np.ones((40, 2)))), "no column has both values"
    with pytest.raises(UserError, match="score needs y, one label for each graph"):
        model.score(NETWORKS)
    with pytest.raises(UserError, match=r"has no target column '.*', which the model predicts"):
        model.score(graphs.with_targets(y, ("one", "two"), "multilabel"))
    with pytest.raises(UserError, match="has targets for classification, but the model is for multilabel"):
        model.score(motifs(40))
    with pytest.raises(UserError, match=r"y must have 2 columns, as the model predicts; its shape is \(40, 3\)"):
        model.score(NETWORKS, np.ones((40, 3)))
    with pytest.raises(UserError, match="does not use sample_weight"):
        model.score(NETWORKS, y, sample_weight=np.ones(40))


@pytest.mark.parametrize("ensemble", [1, 2])
def test_a_primary_metric_that_is_not_defined_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture, ensemble: int
) -> None:
    """A column with one value has no ROC-AUC."""
    motifs(60).with_targets(np.ones(60), ("one",), "multilabel").save(tmp_path / "set")
    several = ["--method", "none", "--width", "8", "--epochs", "2", "--ensemble", str(ensemble)]
    model = str(tmp_path / "one.safetensors")
    assert main(["fit", str(tmp_path / "set"), "--out", model, *several]) == 0
    told = capsys.readouterr()
    assert "1 target; ROC-AUC not defined on 6 validation graphs" in told.out + told.err
    assert told.err.count("1 label column (one) has one value only") == 1
    assert main(["describe", model]) == 0
    assert "ROC-AUC not defined on 6 graphs" in " ".join(capsys.readouterr().out.split())
    assert main(["train", str(tmp_path / "set"), *several]) == 0
    told = capsys.readouterr().out
    assert ("a single member: ROC-AUC not defined on average" in told) == (ensemble > 1)
