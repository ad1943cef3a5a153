"""Which class ROC-AUC and PR-AUC are of: every class is stored, and the positive one is chosen when they are shown."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool.cli import main
from cgipool.data import GraphSet, motifs
from cgipool.data.catalogue import CATALOGUE
from cgipool.study.exchange import merge, rows
from cgipool.task.metrics import Classes, classes_of, report, shown
from cgipool.training.run import train
from report_pages import data_of

RARE = 20


def labelled(name: str, names: tuple[str, ...], rare: int, of: int = 200) -> GraphSet:
    """Graphs of which a tenth are of the class `rare`, always the same ones."""
    y = np.full(of, 1 - rare, np.int64)
    y[np.random.default_rng(0).permutation(of)[:RARE]] = rare
    return replace(motifs(of), name=name, y=y, class_names=names, checked=True)


NUMBERS, WORDS = labelled("numbers", ("0", "1"), 1), labelled("words", ("active", "inactive"), 0)


def json_of(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["train", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_same_class_has_the_same_number_whatever_it_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    NUMBERS.save(tmp_path / "numbers")
    WORDS.save(tmp_path / "words")
    how = ("--method", "majority", "--split-kind", "stratified", "--splits", "3")
    by_number, by_word = (json_of(capsys, tmp_path / name, *how) for name in ("numbers", "words"))
    assert (by_number["positive"], by_word["positive"]) == ("1", "active")
    assert by_number["test_pr_auc"] == by_word["test_pr_auc"] == [pytest.approx(RARE / 200)] * 3
    assert by_number["test_pr_auc_per_class"]["0"] == by_word["test_pr_auc_per_class"]["inactive"]
    other = json_of(capsys, tmp_path / "words", *how, "--positive", "inactive")
    assert (other["positive"], other["test_pr_auc_mean"]) == ("inactive", pytest.approx(1 - RARE / 200))
    assert main(["train", str(tmp_path / "words"), *how]) == 0
    assert re.search(r"PR-AUC \(active\), % +10\.00", capsys.readouterr().out)
    assert main(["train", str(tmp_path / "words"), *how, "--positive", "activ"]) == 2
    assert capsys.readouterr().err == "cgipool: unknown class 'activ'; did you mean 'active'? known: active, inactive\n"


def test_the_default_class() -> None:
    assert classes_of(NUMBERS).label == "1"
    assert classes_of(WORDS).label == "active"
    even = replace(motifs(40), y=np.arange(40) % 2, class_names=("a", "b"), checked=True)
    assert classes_of(even).label == "b", "of equally frequent classes the last"
    known = replace(labelled("MUTAG", ("a", "b"), 0, CATALOGUE["MUTAG"].graphs), checked=True)
    assert classes_of(known).label == "b", "class 1 of a data set of the catalogue"
    assert classes_of(replace(WORDS, name="MUTAG", checked=True)).label == "active", "an own set of the same name"
    assert classes_of(motifs(40)).label == "mean over classes"


@pytest.mark.parametrize(
    "value", [None, 3, {}, {"names": "ab"}, {"names": [1], "positive": 0}, {"names": ["a"], "positive": 1}]
)
def test_odd_classes_are_none(value: Any) -> None:
    assert Classes.from_json(value) is None
    assert Classes.from_json(classes_of(WORDS).to_json()) == classes_of(WORDS)


def test_all_classes_are_those_of_single_reports() -> None:
    rng = np.random.default_rng(1)
    y, p = rng.integers(0, 2, 50), rng.dirichlet([1.0, 1.0], 50)
    there, swapped = report(y, p), report(1 - y, p[:, ::-1])
    names = Classes(("a", "b"), 0), Classes(("b", "a"), 1)
    assert shown(there, names[0]) == pytest.approx(shown(swapped, names[1]))


def test_a_run_that_an_earlier_version_began_is_of_class_1(tmp_path: Path) -> None:
    result = train(WORDS, method="majority", splits=2, out=tmp_path / "run")
    assert result.positive == "active"
    path = tmp_path / "run" / "split-000" / "result.json"
    row = json.loads(path.read_text())
    del row["test"]["per_class"], row["sha256"], row["sha256 of probabilities.npy"]
    path.write_text(json.dumps(row))
    again = train(WORDS, method="majority", splits=2, out=tmp_path / "run", resume=True)
    assert again.positive == "class 1"
    assert again.column("pr_auc")[0] == row["test"]["pr_auc"]


@pytest.fixture
def stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """A store of one cell, and the same as an earlier version wrote it."""
    WORDS.save(tmp_path / "words")
    new, old = tmp_path / "new", tmp_path / "old"
    words = ["--methods", "majority", "--splits", "2", "--split-kind", "stratified"]
    assert main(["compare", str(tmp_path / "words"), *words, "--store", str(new), "--positive", "nothing"]) == 2
    assert not new.exists(), "a wrong class is an error before anything is trained"
    assert main(["compare", str(tmp_path / "words"), *words, "--store", str(new), "--positive", "inactive"]) == 0
    for path in sorted(new.rglob("*.json")):
        value = json.loads(path.read_text())
        if path.parent.name == "cells":
            del value["provenance"]["classes"]
            value.pop("sha256", None)
            for row in value["splits"]:
                del row["test"]["per_class"]
        target = old / path.relative_to(new)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(value))
    capsys.readouterr()
    return new, old


def in_csv(path: Path) -> set[tuple[str, float]]:
    with path.open(newline="") as file:
        return {(row["positive"], round(float(row["pr_auc"]), 6)) for row in csv.DictReader(file)}


def test_reports_and_exports_show_the_class_asked_for(
    stores: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, old = stores
    table = "compare-words.csv"
    assert in_csv(new / "report" / table) == {("inactive", 0.9)}
    for store, options, expected in (
        (new, [], ("active", 0.1)),
        (new, ["--positive", "inactive"], ("inactive", 0.9)),
        (old, [], ("class 1", 0.9)),
    ):
        assert main(["report", str(store), "--out", str(tmp_path / "out"), *options]) == 0
        assert in_csv(tmp_path / "out" / table) == {expected}
        assert f"PR-AUC ({expected[0]}), %" in json.dumps(data_of((tmp_path / "out" / "index.html").read_text()))
        assert main(["study", "export", str(store), "--out", str(tmp_path / "all"), *options]) == 0
        assert in_csv(tmp_path / "all.csv") == {expected}
    capsys.readouterr()
    assert main(["report", str(new), "--out", str(tmp_path / "out"), "--positive", "x"]) == 2
    assert "unknown class 'x'; known: active, inactive" in capsys.readouterr().err
    assert main(["report", str(old), "--out", str(tmp_path / "out"), "--positive", "active"]) == 2
    assert "class 1 alone" in capsys.readouterr().err


def test_a_cell_of_before_agrees_with_the_same_cell_of_now(stores: tuple[Path, Path], tmp_path: Path) -> None:
    new, old = stores
    merged = merge(tmp_path / "both", [old, new])
    assert (merged.cells, merged.same, merged.conflicts) == (1, 1, [])
    assert {row["positive"] for row in rows(tmp_path / "both")} == {"class 1"}
