"""`cgipool evaluate`: every metric of a model on labelled graphs, from sets and from tables, and its page."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from cgipool import GraphSet
from cgipool.cli import main
from cgipool.data import motifs
from cgipool.errors import UserError
from cgipool.inference.evaluation import ModelEvaluation, evaluate_model, worst_of
from cgipool.inference.evaluation_page import evaluation_page
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit
from cgipool.task.registry import task_named

SMALL = {"method": "none", "width": 8, "epochs": 3, "batch_size": 16, "lr": 0.01}

pytestmark = pytest.mark.usefixtures("one_thread")


def set_of(task: str) -> GraphSet:
    graphs = motifs(60)
    if task == "classification":
        return graphs
    size = graphs.sizes / 10.0
    targets = np.stack([size, -2.0 * size], 1) if task == "regression" else np.stack([graphs.y > 1, graphs.y % 2], 1)
    targets = targets.astype(float)
    targets[::7, 1] = np.nan
    return graphs.with_targets(targets, ("first", "second"), task)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved set and a model of each task."""
    folder = tmp_path_factory.mktemp("evaluated")
    for task in ("classification", "regression", "multilabel"):
        set_of(task).save(folder / task)
        fit(set_of(task), **SMALL).save(folder / f"{task}.safetensors")
    return folder


def json_of(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["evaluate", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_classes(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, made / "classification.safetensors", made / "classification")
    graphs = set_of("classification")
    p = FittedModel.load(made / "classification.safetensors").predict_proba(graphs)
    assert (found["task"], found["graphs"], found["positive"]) == ("classification", 60, "mean over classes")
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(graphs.y, p.argmax(1)))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(graphs.y, p))
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(graphs.y, p, multi_class="ovr"))
    assert list(found["per_class"]) == list(graphs.class_names)
    name = graphs.class_names[2]
    chosen = json_of(capsys, made / "classification.safetensors", made / "classification", "--positive", name)
    assert chosen["roc_auc"] == found["per_class"][name]["roc_auc"]


@pytest.mark.parametrize(("task", "metric"), [("regression", "mae"), ("multilabel", "brier")])
def test_columns(made: Path, task: str, metric: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = made / f"{task}.safetensors", made / task
    found = json_of(capsys, model, data)
    graphs = set_of(task)
    p = FittedModel.load(model).predictions(graphs)
    for column, name in enumerate(("first", "second")):
        known = ~np.isnan(graphs.targets[:, column])
        error = p[known, column] - graphs.targets[known, column]
        expected = np.abs(error).mean() if task == "regression" else np.square(error).mean()
        assert found["per_column"][name][metric] == pytest.approx(expected)
    assert found[metric] == pytest.approx(np.mean([found["per_column"][name][metric] for name in ("first", "second")]))
    assert main(["evaluate", str(model), str(data), "--metric", metric]) == 0
    shown = capsys.readouterr().out
    title = {"mae": "MAE", "brier": "Brier score"}[metric]
    assert shown.index(title) < shown.index("RMSE" if task == "regression" else "ROC-AUC")
    assert re.search(r"^second +[\d.]", shown, re.MULTILINE)


def test_a_method_of_the_model_and_of_the_estimators(made: Path) -> None:
    graphs = set_of("regression")
    model = FittedModel.load(made / "regression.safetensors")
    assert model.evaluate(graphs) == model.task.evaluate(graphs.targets, model.predictions(graphs))
    with pytest.raises(UserError, match="targets for classification, but the model is for regression"):
        model.evaluate(motifs(5))


def test_target_columns_are_found_by_name(made: Path, tmp_path: Path) -> None:
    graphs = set_of("regression")
    swapped = graphs.with_targets(graphs.targets[:, [1, 0]], ("second", "first"), "regression")
    swapped.save(tmp_path / "swapped")
    model = FittedModel.load(made / "regression.safetensors")
    assert evaluate_model(model, tmp_path / "swapped").metrics == evaluate_model(model, made / "regression").metrics
    graphs.with_targets(graphs.targets[:, 0], ("first",), "regression").save(tmp_path / "one")
    with pytest.raises(UserError, match="no target column 'second', which the model predicts"):
        evaluate_model(model, tmp_path / "one")


def test_bad_input_is_one_line(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = str(made / "regression.safetensors"), str(made / "regression")
    for words, message in (
        ([model, str(made / "classification")], "has targets for classification, but the model is for regression"),
        ([model, data, "--metric", "accuracy"], "unknown metric of regression 'accuracy'"),
        ([model, data, "--positive", "a"], "--positive needs a classification model; this one is for regression"),
        ([model, data, "--out", str(tmp_path / "page.txt")], "its name must end in .html"),
    ):
        capsys.readouterr()
        assert main(["evaluate", *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


SMILES = ["C" * n for n in range(1, 13)] + ["C" * n + "O" for n in range(1, 13)]


def write_table(path: Path, **columns: list[Any]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def test_a_table_of_molecules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rdkit")
    from cgipool.inference.estimator_base import read_training

    featurizer, graphs = read_training(SMILES)
    alcohol = np.array([int("O" in smiles) for smiles in SMILES])
    classes = fit(graphs.relabelled(alcohol, ("0", "1")), featurizer=featurizer, **SMALL)
    classes.save(tmp_path / "classes.safetensors")
    lengths = [len(smiles) * 0.5 for smiles in SMILES]
    values = fit(graphs.with_targets(lengths, ("length",), "regression"), featurizer=featurizer, **SMALL)
    values.save(tmp_path / "values.safetensors")
    table = write_table(
        tmp_path / "new.csv",
        smiles=[*SMILES, "not a molecule", "CCC"],
        length=[*lengths, 1.0, ""],
        label=[*(f"{y}.0" for y in alcohol), "1", ""],
        other=["x"] * 26,
    )
    found = json_of(capsys, tmp_path / "values.safetensors", table)
    assert (found["graphs"], found["unread"], found["unlabelled"]) == (24, 1, 1)
    assert found["mae"] == pytest.approx(np.abs(values.predictions(graphs)[:, 0] - lengths).mean(), rel=1e-5)
    found = json_of(capsys, tmp_path / "classes.safetensors", table)
    assert found["accuracy"] == pytest.approx((classes.predict_proba(graphs).argmax(1) == alcohol).mean())
    for words, message in (
        (["--label", "other"], "the model does not know the class 'x'; its classes: 0, 1"),
        (["--label", "nothing"], "has no column 'nothing' with labels; its columns: smiles"),
        (["--label", "label", "--label", "other"], "the model predicts 1 column, but --label names 2"),
    ):
        capsys.readouterr()
        assert main(["evaluate", str(tmp_path / "classes.safetensors"), str(table), *words]) == 2
        assert message in capsys.readouterr().err
    bare = write_table(tmp_path / "bare.csv", smiles=SMILES)
    assert main(["evaluate", str(tmp_path / "values.safetensors"), str(bare)]) == 2
    assert "has no column 'length' with the values that the model predicts" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["classification", "regression", "multilabel"])
def test_the_page(made: Path, task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    assert main(["evaluate", str(made / f"{task}.safetensors"), str(made / task), "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert "{{" not in page
    assert not re.search(r"(src|href)=\"(?!data:)", page), "no request leaves the page"
    expected = {"classification": "Confusion matrix", "regression": "predicted − measured", "multilabel": "Reliability"}
    assert expected[task] in page
    known = np.isfinite(set_of(task).targets).sum() if task == "regression" else 0
    assert page.count('<circle class="dot"') == known
    if task == "multilabel":
        counts = [int(count) for count in re.findall(r'class="bar-count"[^>]*data-tip="(\d+) prediction', page)]
        assert sum(counts) == np.isfinite(set_of(task).targets).sum()


def test_names_of_the_data_are_text_in_the_page(made: Path) -> None:
    found = evaluate_model(FittedModel.load(made / "regression.safetensors"), made / "regression")
    hostile = ModelEvaluation(**vars(found) | {"ids": ["<script>x</script>"] * len(found.ids), "data": "<b>"})
    page = evaluation_page(hostile)
    assert "<script>x" not in page
    assert "<b>" not in page


def test_the_worst_graphs() -> None:
    def worst(task: str, columns: tuple[str, ...], y: Any, p: Any, count: int = 3) -> list[tuple[int, str, str]]:
        y, p = np.asarray(y), np.asarray(p, float)
        ids = [str(place) for place in range(len(y))]
        found = ModelEvaluation("model", "data", task_named(task, columns), ids, y, p, {})
        return [tuple(mistake) for mistake in worst_of(found, count)]

    p = [[0.9, 0.1], [0.3, 0.7], [0.05, 0.95], [0.6, 0.4]]
    assert worst("classification", ("a", "b"), [0, 0, 0, 1], p) == [
        (2, "a", "b (0.95)"), (1, "a", "b (0.70)"), (3, "b", "a (0.60)")
    ]  # fmt: skip
    assert worst("regression", ("v",), [[1.0], [2.0], [-7.5], [np.nan]], [[1.5], [2.0], [3.0], [9.0]], 2) == [
        (2, "−7.5", "3.0"), (0, "1.0", "1.5")
    ]  # fmt: skip
    y = [[0.0, 1.0], [0.0, np.nan], [1.0, 0.0], [0.0, 1.0]]
    p = [[0.99, 0.6], [0.9, 0.1], [0.8, 0.7], [0.1, 0.8]]
    assert worst("multilabel", ("a", "b"), y, p) == [  # one of each column first; the last graph is predicted well
        (0, "a: 0", "0.99"), (2, "b: 0", "0.70"), (1, "a: 0", "0.90")
    ]  # fmt: skip
