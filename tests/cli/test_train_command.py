"""What `cgipool train` says of splits, tasks and columns."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cgipool.cli import main
from cgipool.data import motifs, random_splits
from cgipool.data.importers.imported import GIVEN
from cgipool.data.splits import write_splits

SMALL = ["--width", "4", "--epochs", "1"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A set with two target columns and a split of its own."""
    graphs = motifs(60)
    columns = np.stack([graphs.sizes / 7, np.arange(60) / 9], 1)
    graphs.with_targets(columns, ("size", "place")).save(tmp_path / "set")
    write_splits(tmp_path / "set" / GIVEN, random_splits(graphs, seed=3, indices=[0]))
    return tmp_path / "set"


def said_by(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    assert main(["train", *map(str, words)]) == code
    return capsys.readouterr().err


@pytest.mark.parametrize("options", [["--splits", "2"], ["--first", "1"], ["--folds", "3"]])
def test_splits_that_are_drawn_in_place_of_the_given_one(
    options: list[str], saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used, unused = "using the split in the column", "drawing new splits; the column 'split' of the source is not used"
    said = said_by(capsys, saved, *SMALL)
    assert used in said
    assert unused not in said
    said = said_by(capsys, saved, *SMALL, *options)
    assert used not in said
    assert said.count(unused) == 1
    said = said_by(capsys, saved, *SMALL, *options, "--split-kind", "random")  # who chooses a kind knows
    assert unused not in said


def test_unknown_kind_of_split(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = "cluster, distinct, given, random, scaffold, stratified, time"
    assert said_by(capsys, saved, "--split-kind", "nope", code=2).endswith(f"'nope'; known: {kinds}\n")


def test_metrics_of_each_column(saved: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["train", str(saved), *SMALL, "--splits", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    each = found["test_rmse_per_column"]
    assert list(each) == ["size", "place"]
    np.testing.assert_allclose(np.mean([each["size"], each["place"]], 0), found["test_rmse"])
    for out, where in (([], "--json shows"), (["--out", tmp_path / "run"], f"{tmp_path / 'run' / 'result.json'} has")):
        assert main(["train", str(saved), *SMALL, *map(str, out)]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert f"metrics are means over 2 target columns; {where} those of each column" in shown
    assert list(json.loads((tmp_path / "run" / "result.json").read_text())["test_mae_per_column"]) == ["size", "place"]


def test_one_column_has_no_list_of_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    motifs(60).with_targets(np.arange(60) / 7).save(tmp_path / "one")
    assert main(["train", str(tmp_path / "one"), *SMALL, "--json"]) == 0
    assert "per_column" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "title"), [("regression", "Mean target"), ("multilabel", "Label rates"), (None, "Majority class")]
)
def test_the_baseline_has_the_title_of_its_task(
    task: str | None, title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs = motifs(60)
    graphs = graphs if task is None else graphs.with_targets(np.eye(60)[:, :2], None, task)
    bonds = np.zeros((graphs.n_edges, 1), np.int32)
    graphs = replace(graphs, edge_category=bonds, edge_category_names=(("bond",),))
    graphs.save(tmp_path / "set")
    assert main(["train", str(tmp_path / "set"), "--method", "majority"]) == 0
    shown = capsys.readouterr()
    assert f" · {title} · " in shown.out
    assert "edge labels" not in shown.err
    assert main(["train", str(tmp_path / "set"), *SMALL]) == 0
    assert "edge labels (1 column) are not used" in capsys.readouterr().err


def test_the_task_of_a_saved_set(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cgipool: " not in said_by(capsys, saved, "--task", "regression", *SMALL)
    assert said_by(capsys, saved, "--task", "multilabel", code=2) == (
        f"cgipool: the task of {saved} is regression, not multilabel: leave out --task, or import its source again "
        "with it\n"
    )
    assert "--label says how to read a table" in said_by(capsys, saved, "--label", "y", code=2)


def test_what_the_program_predicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "predict classes, numbers or labels" in " ".join(capsys.readouterr().out.split())
