"""Nested selection: a split chooses by its validation graphs, and the test results of the others are shown nowhere."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cgipool.cli import main
from cgipool.errors import UserError
from cgipool.study.measured import measured
from cgipool.study.nested import choose, chosen, with_choices
from cgipool.study.plan import study_of
from cgipool.study.records import read_book

STUDY = """\
name = "nested"
baseline = "none"
[protocol]
splits = 3
select = "nested"
[settings]
epochs = 2
[axes]
method = ["none", "topk", "majority"]
dataset = ["motifs"]
[[choices]]
name = "narrow"
width = 4
[[choices]]
width = 8
"""


def test_the_best_validation_result_is_chosen() -> None:
    assert choose([0.7, 0.9, 0.8], 1.0) == 1
    assert choose([0.7, 0.9, 0.8], -1.0) == 0, "of errors the smallest"
    assert choose([0.7, 0.9, 0.9], 1.0) == 1, "of equal ones the first"
    assert choose([0.7, None], 1.0) is None


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nested")
    (folder / "study.toml").write_text(STUDY)
    assert main(["study", "run", str(folder / "study.toml"), "--store", str(folder / "store")]) == 0
    return folder / "store"


def test_each_split_has_the_test_result_of_its_choice(store: Path) -> None:
    book = read_book(store)
    assert len(book.records) == 6
    nested = with_choices(book)
    assert len(nested.records) == 3, "choices are not results of their own"
    for wanted in book.studies[0].cells:
        record = nested.records[wanted.key]
        parts = {name: {row["split"]: row for row in book.records[key].splits} for name, key in wanted.choices}
        assert list(parts) == ["narrow", "width=8"]
        for row in record.splits:
            score = {name: rows[row["split"]]["val_accuracy"] for name, rows in parts.items()}
            best = "narrow" if None in score.values() else max(score, key=lambda name: score[name])
            assert row["chosen"] == best
            assert row["test"] == parts[best][row["split"]]["test"]
        assert sum(chosen(record).values()) == 3


def test_the_report_says_what_was_chosen_and_nothing_of_the_rest(store: Path, tmp_path: Path) -> None:
    assert main(["report", str(store), "--out", str(tmp_path / "report")]) == 0
    text = (tmp_path / "report" / "nested.md").read_text()
    assert "## Chosen settings" in text
    assert "| method | on | narrow | width=8 |" in text
    assert "3 of 3 cells are done" in text
    keys = {path.stem for path in (store / "cells").glob("*.json")}
    assert not any(key in path.read_text() for key in keys for path in (tmp_path / "report").glob("*.csv"))
    assert main(["study", "export", str(store), "--out", str(tmp_path / "out")]) == 0
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 9
    assert {row["study"] for row in rows} == {"nested"}


def test_plan_and_status_count_what_is_trained(store: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["study", "status", str(store)]) == 0
    assert "nested      6     6" in capsys.readouterr().out
    assert main(["study", "plan", str(store.parent / "study.toml"), "--store", str(store)]) == 0
    told = capsys.readouterr().out
    assert "choice" in told
    assert "width=8" in told


def test_a_missing_or_failed_choice(store: Path, tmp_path: Path) -> None:
    (first, second, third), book = read_book(store).studies[0].cells, read_book(store)
    del book.records[first.keys[1]]
    del book.records[second.keys[0]]
    book.failed[second.keys[0]] = "no memory"
    nested = with_choices(book)
    assert first.key not in nested.records
    assert nested.failed == {second.key: "narrow: no memory"}
    assert third.key in nested.records


def test_keys_are_those_of_ordinary_cells() -> None:
    axes = {"method": ["topk"], "dataset": ["motifs"]}
    plain = study_of({"axes": axes, "settings": {"width": 8}}).cells[0]
    choices: list[dict[str, Any]] = [{"width": 4}, {"width": 8}]
    nested = study_of({"axes": axes, "protocol": {"select": "nested"}, "choices": choices})
    assert [cell.key for cell in nested.cells][1] == plain.key
    told = json.loads(json.dumps(nested.to_json()))
    assert [len(cell["choices"]) for cell in told["cells"]] == [2]


def test_the_best_of_all_methods(tmp_path: Path) -> None:
    """A kernel reads neither width, so it is one choice, and a result of its own as well."""
    text = STUDY.replace('"topk", "majority"', '"wl", "best"').replace("splits = 3", "splits = 2\nseeds = 2")
    (tmp_path / "study.toml").write_text(text)
    assert main(["study", "run", str(tmp_path / "study.toml"), "--store", str(tmp_path / "store")]) == 0
    book = read_book(tmp_path / "store")
    assert len(book.records) == 3
    cells = {str(cell.at["method"]): cell for cell in book.studies[0].cells}
    assert [len(cells[name].choices) for name in ("none", "wl", "best")] == [2, 0, 3]
    names = [name for name, _ in cells["best"].choices]
    assert names == ["No pooling: narrow", "No pooling: width=8", "WL subtree + SVM"]
    nested = with_choices(book).records
    assert set(nested) == {cell.key for cell in cells.values()}
    best, kernel = nested[cells["best"].key], nested[cells["wl"].key]
    assert [row["test"] for row in best.splits] == [row["test"] for row in kernel.splits], "two epochs learn nothing"
    mixed = replace(best, splits=[best.splits[0], nested[cells["none"].key].splits[1]])
    values = measured(mixed, seeds=True).values
    assert values[0] == 100 * kernel.splits[0]["test"]["accuracy"], "a classical method is fitted once per split"
    assert values[1] == pytest.approx(50 * sum(one["test_accuracy"] for one in mixed.splits[1]["members"]))
    assert main(["report", str(tmp_path / "store"), "--out", str(tmp_path / "report")]) == 0
    text = (tmp_path / "report" / "nested.md").read_text()
    assert "| motifs | WL subtree + SVM | 2 |" in text
    assert "Problems" not in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"choices": [{"width": 4}, {"width": 8}]}, "need each other"),
        ({"protocol": {"select": "nested"}}, "need each other"),
        ({"protocol": {"select": "nested"}, "choices": [{"width": 4}]}, "at least two tables"),
        ({"protocol": {"select": "nested"}, "choices": [{"width": 4}, {"wide": 8}]}, "unknown key"),
        ({"protocol": {"select": "nested"}, "choices": [{"width": 4}, {"width": 4}]}, "a different name"),
        (
            {"protocol": {"select": "nested"}, "choices": [{"width": 4}, {"width": 4, "name": "b"}]},
            "two of \\[\\[choices\\]\\] are the same settings",
        ),
        ({"axes": {"method": ["topk", "best"], "dataset": ["motifs"]}}, "the method best needs other methods"),
        ({"protocol": {"select": "best"}}, "unknown value of select 'best'"),
        ({"protocol": {"seeds": 2, "ensemble": 2}}, "seeds and ensemble cannot be combined"),
        ({"margin": -1}, "margin must be a positive number"),
        ({"metric": "rmse"}, "unknown metric 'rmse'"),
        ({"contrasts": {"all": ["NCI1"]}}, "unknown data set in all of \\[contrasts\\] 'NCI1'"),
        ({"ceiling": {"motifs": 1.0}}, "\\[ceiling\\] needs curves"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        study_of({"axes": {"method": ["topk"], "dataset": ["motifs"]}} | changes)
