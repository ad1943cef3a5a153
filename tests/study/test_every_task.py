"""Comparisons and studies of numbers and of several labels: each by its own metric, in its own direction."""

import csv
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool import load_dataset
from cgipool.cli import main
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.report.view import View, view_of
from cgipool.study.measured import measured
from cgipool.study.plan import read_study, study_of
from cgipool.study.records import Record, read_book
from cgipool.study.search import kept, ranked, score
from cgipool.study.search_file import search_of
from report_pages import data_of
from stores import add_cell, add_study, write


def sizes_of(graphs: GraphSet) -> np.ndarray:
    return np.diff(graphs.node_ptr).astype(float)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In numbers/ the size of each graph, in labels/ three 0/1 columns of which a fifth is missing."""
    folder = tmp_path_factory.mktemp("sets")
    graphs = load_dataset("motifs").subset(range(0, 1000, 10))
    graphs.with_targets(sizes_of(graphs), ["size"]).save(folder / "numbers")
    labels = np.stack([sizes_of(graphs) > np.median(sizes_of(graphs)), graphs.y == 0, graphs.y == 1], 1).astype(float)
    labels[np.random.default_rng(0).random(labels.shape) < 0.2] = np.nan
    graphs.with_targets(labels, ["big", "first", "second"]).save(folder / "labels")
    graphs.save(folder / "classes")
    return folder


SMALL = ["--width", "8", "--epochs", "3", "--splits", "3", "--methods", "none,topk,majority"]


@pytest.mark.parametrize(
    ("name", "title", "other", "unit"),
    [("numbers", "RMSE", "mae", "in units of RMSE"), ("labels", "ROC-AUC", "brier", "in percentage points")],
)
def test_compare_from_start_to_page(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture, name: str, title: str, other: str, unit: str
) -> None:
    store = tmp_path / "store"
    command = ["compare", str(sets / name), *SMALL, "--seeds", "2", "--store", str(store)]
    assert main([*command, "--margin", "2"]) == 0
    told = capsys.readouterr()
    assert f"## {title}" in told.out
    assert unit in told.out
    assert "## Equivalence" in told.out
    assert "accuracy" not in told.out.lower()
    assert "nan" not in told.err, "progress shows the metric of the task"
    page = data_of((store / "report" / "index.html").read_text())
    (study,) = page["studies"]
    assert study["metric"]["title"] == title
    assert study["metric"]["better"] == (1 if name == "numbers" else -1)
    for entry in study["entries"]:
        assert entry["splits"]["rows"]
        labels = [chart["label"] for chart in study["cells"][entry["key"]]["charts"]]
        assert labels == ([] if "majority" in study["cells"][entry["key"]]["command"] else labels)
    assert any(f"Validation {title} by epoch" in json.dumps(cell["charts"]) for cell in study["cells"].values())
    with (store / "report" / f"{study['name']}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["split"] for row in rows} == {"0", "1", "2"}
    assert all(row[other] for row in rows)
    assert main([*command, "--metric", other]) == 0
    assert f"## {'MAE' if other == 'mae' else 'Brier score'}" in capsys.readouterr().out
    assert main(["study", "status", str(store)]) == 0
    assert main(["study", "export", str(store), "--out", str(tmp_path / "out")]) == 0
    with (tmp_path / "out.csv").open() as file:
        exported = list(csv.DictReader(file))
    assert {row["method"] for row in exported} == {"none", "topk", "majority"}
    assert any(row["val_rmse" if name == "numbers" else "val_roc_auc"] for row in exported)


def test_the_number_of_a_split_is_the_mean_over_seeds(sets: Path, tmp_path: Path) -> None:
    """The same cell, read as an ensemble, has the metric of the mean prediction."""
    study = study_of(
        {
            "protocol": {"splits": 2, "seeds": 3},
            "axes": {"method": ["topk"], "dataset": ["mine"]},
            "data": {"mine": str(sets / "numbers")},
        }
    )
    together = study_of(
        {
            "protocol": {"splits": 2, "ensemble": 3},
            "axes": {"method": ["topk"], "dataset": ["mine"]},
            "data": {"mine": str(sets / "numbers")},
        }
    )
    assert study.cells[0].key == together.cells[0].key
    rows = [
        {
            "split": s,
            "test": {"rmse": 1.0},
            "members": [{"test_rmse": v, "test": {"rmse": v, "mae": v / 2}} for v in vs],
        }
        for s, vs in enumerate(([1.0, 2.0, 3.0], [2.0, 2.0, 5.0]))
    ]
    record = Record("key", {}, rows, {"task": "regression"})
    assert measured(record, seeds=True).values == {0: 2.0, 1: 3.0}
    assert measured(record).values == {0: 1.0, 1: 1.0}
    assert measured(record, "mae", seeds=True).values == {0: 1.0, 1: 1.5}


def test_seeds_of_cells_that_hold_accuracy_alone(tmp_path: Path) -> None:
    path = add_cell(tmp_path, {"method": "cgi", "dataset": "NCI1"}, 80.0)
    value = json.loads(path.read_text())
    for row in value["splits"]:
        row["members"] = [{"test_accuracy": 0.5}, {"test_accuracy": 0.7}]
    record = Record("key", value["cell"], value["splits"], value["provenance"])
    assert list(measured(record, seeds=True).values.values()) == pytest.approx([60.0] * 20)
    assert measured(record, "mcc", seeds=True).values == {}, "of other metrics the members' values are not known"


def regression_store(folder: Path, rmse: dict[str, float], datasets: tuple[str, ...] = ("A",)) -> Path:
    """A study of methods on regression sets, with errors around a value; split i is as hard for every method."""
    axes = {"method": list(rmse), "dataset": list(datasets)}
    for wanted in add_study(folder, "numbers", axes, baseline=next(iter(rmse))):
        path = add_cell(folder, wanted["at"], 50.0)
        record = json.loads(path.read_text())
        hard, own = np.random.default_rng(7), np.random.default_rng(list(rmse).index(wanted["at"]["method"]))
        for row in record["splits"]:
            value = rmse[wanted["at"]["method"]] + 0.1 * hard.standard_normal() + 0.02 * own.standard_normal()
            row["test"] = {"rmse": value, "mae": 0.8 * value, "r2": 1 - value**2, "spearman": 0.5}
            row["curve"]["val_rmse"] = row["curve"].pop("val_accuracy")
        record["provenance"] |= {"task": "regression", "columns": ["y"]}
        write(path, record)
    return folder


def shown(folder: Path, metric: str | None = None, **changes: Any) -> View:
    book = read_book(folder)
    study = replace(book.studies[0], **changes)
    return view_of(study, book, metric=metric)


@pytest.mark.parametrize(("metric", "title"), [(None, "RMSE"), ("mae", "MAE"), ("r2", "R²")])
def test_a_lower_error_is_better_everywhere(tmp_path: Path, metric: str | None, title: str) -> None:
    """`topk` has the smaller error, so it is better by every metric, whichever direction the metric has."""
    store = regression_store(tmp_path, {"cgi": 0.9, "topk": 0.6, "sag": 1.1}, ("A", "B"))
    view = shown(store, metric)
    assert view.metric is not None
    assert view.metric.title == title
    marks = {e.method: e.against.mark for e in view.entries if e.against}
    assert marks == {"topk": "▲", "sag": "▼"}
    assert {e.method: e.rank for e in view.entries} == {"topk": 1, "cgi": 2, "sag": 3}
    assert [e.method for e in view.entries if e.best] == ["topk", "topk"]
    assert view.ranks is not None
    assert dict(zip(view.ranks.methods, view.ranks.average, strict=True)) == {"cgi": 2, "topk": 1, "sag": 3}
    assert view.improvement["topk"].probability < 0.1 < 0.9 < view.improvement["sag"].probability


def test_a_report_says_that_splits_by_time_are_one_division(tmp_path: Path) -> None:
    store, said = regression_store(tmp_path, {"cgi": 0.9, "topk": 0.6}), "the same division of the graphs"
    assert main(["report", str(store), "--out", str(tmp_path / "report")]) == 0
    assert said not in (tmp_path / "report" / "numbers.md").read_text()
    for path in (store / "cells").glob("*.json"):
        record = json.loads(path.read_text())
        record["cell"] |= {"split_kind": "time", "time": "measured"}
        write(path, record)
    assert main(["report", str(store), "--out", str(tmp_path / "report")]) == 0
    assert said in (tmp_path / "report" / "numbers.md").read_text()


def test_data_sets_of_several_tasks_keep_their_metrics(tmp_path: Path) -> None:
    regression_store(tmp_path, {"cgi": 0.9, "topk": 0.6}, ("A", "B"))
    for path in (tmp_path / "cells").glob("*.json"):
        record = json.loads(path.read_text())
        if record["cell"]["dataset"] == "B":
            del record["provenance"]["task"]
            for row in record["splits"]:
                row["test"] = {"accuracy": 0.8 - 0.1 * (record["cell"]["method"] == "topk") + 0.001 * row["split"]}
                row["test"]["accuracy"] += 0.001 * (row["split"] % 2) * (record["cell"]["method"] == "topk")
            write(path, record)
    view = shown(tmp_path)
    assert view.metric is None
    assert view.columns == ["A, RMSE ↓", "B, accuracy, %"]
    assert {e.context: e.against.mark for e in view.entries if e.against} == {"A, RMSE ↓": "▲", "B, accuracy, %": "▼"}
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report")]) == 0
    text = (tmp_path / "report" / "numbers.md").read_text()
    assert "results by the metric of each data set" in text
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report"), "--metric", "mae"]) == 0
    assert "A, MAE ↓" in (tmp_path / "report" / "numbers.md").read_text()


def test_unknown_metrics_and_margins_are_one_line(sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    store = regression_store(tmp_path, {"cgi": 0.9, "topk": 0.6})
    assert main(["report", str(store), "--metric", "accuracy"]) == 2
    assert "unknown metric 'accuracy'" in capsys.readouterr().err
    assert main(["report", str(store), "--margin", "0"]) == 2
    assert "margin must be a positive number" in capsys.readouterr().err
    assert main(["compare", str(sets / "numbers"), "--metric", "roc_auc"]) == 2
    assert "unknown metric of regression 'roc_auc'" in capsys.readouterr().err
    assert main(["compare", str(sets / "numbers"), "--positive", "a"]) == 2
    assert "--positive names a class" in capsys.readouterr().err


def test_the_task_is_part_of_the_key(sets: Path) -> None:
    """0/1 columns can be several labels or numbers to fit; the arrays are the same."""
    graphs = load_dataset(sets / "labels")
    assert graphs.targets is not None
    graphs.with_targets(graphs.targets, graphs.target_names, task="regression").save(sets / "as-numbers")
    data = {"one": str(sets / "labels"), "two": str(sets / "as-numbers"), "three": str(sets / "classes")}
    cells = study_of({"axes": {"method": ["topk"], "dataset": list(data)}, "data": data}).cells
    one, two, three = (cell.config for cell in cells)
    assert one["content"] == two["content"]
    assert (one["task"], two["task"]) == ("multilabel", "regression")
    assert "task" not in three, "cells of classes keep their keys"


def test_a_study_of_several_tasks_is_run(sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "study.toml").write_text(
        'name = "mixed"\nbaseline = "none"\n[protocol]\nsplits = 2\n[settings]\nwidth = 8\nepochs = 2\n[axes]\n'
        f'method = ["none", "topk"]\ndataset = ["n", "c"]\n[data]\nn = "{sets}/numbers"\nc = "{sets}/classes"\n'
    )
    study = read_study(tmp_path / "study.toml")
    assert study.analysis.tasks == {"n": "regression"}
    store = str(tmp_path / "store")
    assert main(["study", "run", str(tmp_path / "study.toml"), "--store", store]) == 0
    assert "(RMSE)" in capsys.readouterr().err
    assert main(["report", store, "--out", str(tmp_path / "report")]) == 0
    assert "n, RMSE ↓" in (tmp_path / "report" / "mixed.md").read_text()
    with pytest.raises(UserError, match="a margin needs data sets with one metric; these have RMSE and accuracy"):
        study_of(
            {
                "margin": 1.0,
                "axes": {"method": ["none"], "dataset": ["n", "c"]},
                "data": {"n": str(sets / "numbers"), "c": str(sets / "classes")},
            }
        )


def test_a_search_keeps_the_trial_with_the_smallest_error(sets: Path, tmp_path: Path) -> None:
    values = {"base": 0.9, "worse": 1.2, "better": 0.7}
    scores = {name: score(np.full((1, 1, 2), v), np.full((1, 1, 2), 0.9), ["m"], ["d"]) for name, v in values.items()}
    assert ranked(scores, -1.0) == ["better", "base", "worse"]
    assert kept(scores, 2, "base", -1.0) == ["base", "better"]
    assert ranked(scores) == ["worse", "base", "better"]
    (tmp_path / "search.toml").write_text(
        f'methods = ["none"]\ndatasets = ["n"]\n[data]\nn = "{sets}/numbers"\n[base]\nwidth = 8\nepochs = 2\n'
        "[space]\nlr = [0.001, 0.00001]\n[[rung]]\nsettings = 2\nsplits = 2\n"
    )
    command, saved = ["study", "search", str(tmp_path / "search.toml")], tmp_path / "store" / "searches" / "search.json"
    assert main([*command, "--store", str(tmp_path / "store"), "--limit", "0"]) == 75
    before = json.loads(saved.read_text())["rungs"][0]["trials"]
    assert not any("test" in trial for trial in before), "test results are not read before there is a winner"
    assert main([*command, "--store", str(tmp_path / "store")]) == 0
    told = json.loads(saved.read_text())
    for trial in told["rungs"][0]["trials"]:
        assert [len(values) for values in trial["test"]] == [2]
    found = {t["name"]: t["score"]["accuracy"]["value"] for t in told["rungs"][0]["trials"]}
    assert told["winner"]["name"] == min(found, key=found.__getitem__)


def test_a_search_by_another_metric(sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Cells watch the metric that the command names, so their records have it; the score and the winner go by it."""
    (tmp_path / "search.toml").write_text(
        f'methods = ["none", "wl"]\ndatasets = ["n"]\n[data]\nn = "{sets}/numbers"\n[base]\nwidth = 8\nepochs = 3\n'
        "[space]\nlr = [0.001, 0.00001]\n[[rung]]\nsettings = 2\nsplits = 2\n"
    )
    command = ["study", "search", str(tmp_path / "search.toml"), "--metric", "spearman"]
    assert main([*command[:-2], "--store", str(tmp_path / "store")]) == 0  # its records lack the other metric
    capsys.readouterr()
    assert main([*command, "--store", str(tmp_path / "store")]) == 0
    told = capsys.readouterr()
    assert "validation Spearman ± SE" in told.out
    assert "(Spearman) in" in told.err
    saved = json.loads((tmp_path / "store" / "searches" / "search-spearman.json").read_text())
    assert (saved["metric"], saved["base"]["stop_by"]) == ("spearman", "spearman")
    book = read_book(tmp_path / "store")
    for trial in saved["rungs"][0]["trials"]:
        for key, values, tests in zip(trial["cells"], trial["val_accuracy"], trial["test"], strict=True):
            rows = book.records[key].splits
            assert values == pytest.approx([row["val_spearman"] for row in rows], abs=1e-6)
            assert tests == pytest.approx([row["test"]["spearman"] for row in rows], abs=1e-6)
            assert all(row["val_rmse"] is not None for row in rows)
    found = {t["name"]: t["score"]["difference"]["value"] for t in saved["rungs"][0]["trials"]}
    assert saved["winner"]["name"] == max(found, key=found.__getitem__)
    assert main([*command[:-1], "roc_auc", "--dry-run"]) == 2
    assert "unknown metric of regression 'roc_auc'" in capsys.readouterr().err


def test_what_a_search_by_a_metric_refuses(sets: Path) -> None:
    given: dict[str, Any] = {
        "methods": ["none"],
        "datasets": ["n"],
        "data": {"n": str(sets / "numbers")},
        "space": {"lr": [0.001, 0.01]},
        "rung": [{"settings": 2, "splits": 2}],
    }
    assert search_of(given).metric_name == "rmse"
    assert search_of(given).space.base.stop_by == "loss"
    assert search_of(given | {"metric": "mae"}).space.base.stop_by == "mae"
    both = {"base": {"stop_by": "mae"}, "space": {"stop_by": ["loss", "mae"]}}  # a trial would lack the metric
    for more in ({"base": {"stop_by": "r2"}}, {"space": {"stop_by": ["loss", "mae"]}}, both):
        with pytest.raises(UserError, match="a search by 'mae' also stops by it"):
            search_of(given | {"metric": "mae"} | more)
    with pytest.raises(UserError, match="metric must be a string"):
        search_of(given | {"metric": 5})


def test_a_search_has_one_metric(sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "search.toml").write_text(
        f'methods = ["none"]\ndatasets = ["n", "c"]\n[data]\nn = "{sets}/numbers"\nc = "{sets}/classes"\n'
        "[space]\nlr = [0.001, 0.00001]\n[[rung]]\nsettings = 2\nsplits = 2\n"
    )
    assert main(["study", "search", str(tmp_path / "search.toml"), "--dry-run"]) == 2
    assert "a search needs data sets of one task" in capsys.readouterr().err


STUDIES = Path(__file__).resolve().parents[2] / "studies"


@pytest.mark.parametrize("name", ["numbers", "classes", "labels"])
def test_searches_on_molecules_can_be_planned(
    sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture, name: str
) -> None:
    file = tmp_path / f"search-molecules-{name}.toml"
    file.write_text((STUDIES / file.name).read_text())
    (tmp_path / "sets").mkdir()
    for path in tomllib.loads(file.read_text())["data"].values():
        (tmp_path / path).symlink_to(sets / name)
    assert main(["study", "search", str(file), "--dry-run", "--device", "cuda"]) == 0
    assert re.findall(r"^(rung \d) +(\d+)", capsys.readouterr().out, re.MULTILINE) == [
        ("rung 1", "24"),
        ("rung 2", "6"),
        ("rung 3", "3"),
    ]
