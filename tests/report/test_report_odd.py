"""Odd values in the files of a store: a report, a status and an export list them as problems and go on."""

import copy
import io
import json
import os
import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cgipool.cli import main
from cgipool.cli.study_tables import status_lines
from cgipool.errors import UserError
from cgipool.report import write_report
from cgipool.study.claims import Claims
from cgipool.study.exchange import export, merge, write_csv
from cgipool.study.gather import RunHistory
from cgipool.study.records import read_book, read_searches
from stores import add_cell, add_study, fail, write

ODD: list[Any] = [
    None, True, -1, 0, 3.5, 1e308, 10**400, 2**63, float("nan"), float("inf"), "", "x", "\ud800", "\x1b[31m", "=cmd",
    "../../up", "{0.x}", [], {}, [None], [[1]], {"x": 1}, [1, 2, 3], "9" * 300, json.loads("[" * 300 + "]" * 300),
]  # fmt: skip


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A store with all kinds of files; every cell has a few splits, members and classes."""
    store = tmp_path / "store"
    axes = {"method": ["sag", "cgi"], "dataset": ["NCI1", "PROTEINS"]}
    for cell in add_study(store, "table", axes, published={("cgi", "NCI1"): (75.0, 1.0)}):
        path = add_cell(store, cell["at"], 75.0)
        record = json.loads(path.read_text())
        record["splits"] = record["splits"][:3]
        for row in record["splits"]:
            row["test"]["per_class"] = {"roc_auc": [0.5, 0.6], "pr_auc": [0.1, 0.2]}
            row["members"] = [{"test_accuracy": 0.5, "epochs": 1, "best_epoch": 1, "val_loss": 0.1}]
            row["curve"] = {name: values[:3] for name, values in row["curve"].items()}
        record["provenance"]["classes"] = {"names": ["active", "inactive"], "positive": 0}
        write(path, record)
    fail(store, {"method": "sag", "dataset": "PROTEINS"}, "no memory")
    add_study(store, "other", axes)
    trial = {"name": "base", "cells": ["k"]}
    rung = {"name": "first", "methods": ["cgi"], "datasets": ["NCI1"], "trials": [trial]}
    write(store / "searches" / "s.json", {"format": 1, "name": "s", "rungs": [rung], "winner": trial})
    return store


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all parts of a value, of lists to the first two."""
    yield way
    for name in value if isinstance(value, dict) else range(min(2, len(value))) if isinstance(value, list) else ():
        yield from places(value[name], (*way, name))


def changed(value: Any, way: tuple[Any, ...], new: Any, remove: bool) -> Any:
    """A copy in which one part is another value, or is gone."""
    if not way:
        return new
    value = copy.deepcopy(value)
    part = value
    for name in way[:-1]:
        part = part[name]
    if remove:
        del part[way[-1]]
    else:
        part[way[-1]] = new
    return value


def all_of(store: Path, out: Path) -> None:
    """Everything that reads a whole store."""
    write_report(store, out / "report")
    write_csv(store, out / "table.csv")
    export(store, out / "store.zip")
    merge(out / "merged", [store])
    book = read_book(store)
    searches = read_searches(store, book)
    console = Console(file=io.StringIO(), markup=False)
    console.print(*status_lines(book, searches, Claims(store / "claims"), store))


def test_odd_values_stop_nothing(odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgipool.report.write.figures_of", lambda view: {})
    rng = random.Random(20)
    files = sorted(odd.rglob("*.json"))
    for _ in range(50):
        path = rng.choice(files)
        sound = json.loads(path.read_text())
        way = rng.choice(list(places(sound)))
        write(path, changed(sound, way, rng.choice(ODD), rng.random() < 0.2))
        try:
            all_of(odd, tmp_path)
        except Exception as error:
            raise AssertionError(f"{path.name}, {way}: {path.read_text()[:2000]}") from error
        write(path, sound)


def test_odd_values_stop_no_figure(odd: Path, tmp_path: Path) -> None:
    path = next((odd / "cells").iterdir())
    sound = json.loads(path.read_text())
    split = sound["splits"][0]
    for change in (
        {"curve": split["curve"] | {"val_loss": [1e90, -1e90, 1e80]}},
        {"curve": split["curve"] | {"epoch": [3, 2, 1]}},
        {"diagnostics": {"\x1b\ud800": [1e90, 0.5]}},
    ):
        write(path, sound | {"splits": [split | change, *sound["splits"][1:]]})
        report = write_report(odd, tmp_path / "out")
        for file in report.files:
            if file.suffix == ".svg":
                ElementTree.parse(file)


def test_a_pipe_in_a_store_is_not_waited_for(odd: Path, tmp_path: Path) -> None:
    for part in ("cells", "studies", "failed", "searches"):
        os.mkfifo(odd / part / "pipe.json")
    all_of(odd, tmp_path)
    assert sum("pipe.json: it is not a regular file" in problem for problem in read_book(odd).problems) == 3


def test_the_export_lists_what_it_left_out(odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    next((odd / "cells").iterdir()).write_text("{")
    assert main(["study", "export", str(odd), "--out", str(tmp_path / "all")]) == 0
    assert "problem: " in capsys.readouterr().out


def test_no_escape_sequence_of_a_store_reaches_the_terminal(
    odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;title\x07\x1b[2J"
    path = odd / "studies" / "table.json"
    study = json.loads(path.read_text())
    write(path, study | {"title": evil, "about": evil, "titles": {"method": {"cgi": evil}}})
    write(odd / "failed" / "k.json", {"reason": evil})
    write(odd / "searches" / "t.json", {"format": 1, "name": evil, "rungs": [], "winner": {"name": evil}})
    write(odd / "studies" / "odd.json", {"format": evil})
    for words in (
        ["report", str(odd), "--out", str(tmp_path / "out")],
        ["study", "status", str(odd)],
        ["study", "merge", str(tmp_path / "into"), str(odd)],
        ["study", "export", str(odd), "--out", str(tmp_path / "all")],
        ["report", str(odd), "--study", evil],
    ):
        main(words)
        said = capsys.readouterr()
        assert not {"\x1b", "\x07"} & set(said.out + said.err), words
    for file in (tmp_path / "out").iterdir():
        assert "\x1b" not in file.read_text(), file


def test_formulas_of_a_store_are_text_in_every_csv_file(
    odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cgipool.report.write.figures_of", lambda view: {})
    for path in (odd / "cells").iterdir():
        record = json.loads(path.read_text())
        record["provenance"] |= {"device": "=cmd|' /C calc'!A0", "classes": {"names": ["@a", "-1"], "positive": 0}}
        write(path, record)
    write_csv(odd, tmp_path / "table.csv")
    text = (tmp_path / "table.csv").read_text()
    assert ",'=cmd|' /C calc'!A0," in text
    assert ",'@a," in text
    write_report(odd, tmp_path / "out")
    assert ",'@a," in (tmp_path / "out" / "table.csv").read_text()
    write_report(odd, tmp_path / "out", positive="-1")
    assert ",-1," in (tmp_path / "out" / "table.csv").read_text()


@pytest.mark.parametrize("text", ["{", "3", "[3]", '[{"at": "x"}]', '[{"started": "now", "at": 1e999}]'])
def test_damaged_times_of_a_cell_are_forgotten(text: str, tmp_path: Path) -> None:
    (tmp_path / "key.legs.json").write_text(text)
    legs = RunHistory(tmp_path / "key")
    assert legs.legs == []
    legs.begin("now", {}, None)
    legs.end(2.0)
    assert RunHistory(tmp_path / "key").seconds == 2.0


def test_a_store_without_a_study_that_can_be_shown_is_one_line(odd: Path, tmp_path: Path) -> None:
    for path in (odd / "studies").iterdir():
        path.write_text("{")
    with pytest.raises(UserError, match="has no study to report"):
        write_report(odd, tmp_path / "out")
