"""The files of a store: damage is noticed, links are not followed, and everybody reads a file in the same way."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from cgipool.cli import main
from cgipool.errors import UserError
from cgipool.files import sealed
from cgipool.study.plan import study_of
from cgipool.study.records import key_of, read_book, read_record
from cgipool.study.run import Runner
from cgipool.study.store import Store
from cgipool.study.stored import FORMAT, OtherFormat, read_stored, write_stored

RESULTS = Path(__file__).resolve().parents[2] / "results"
CELL = {"method": "cgi", "dataset": "NCI1", "recipe": {"name": "paper", "width": 8}, "seed": 0}
ROW = {"split": 0, "epochs": 3, "test": {"accuracy": 0.5}, "graphs": {"train": 8, "val": 1, "test": 1}}
KEY = key_of(CELL)


def finished(folder: Path) -> Path:
    """A store with one cell; the cell's file."""
    Store(folder).finish(KEY, CELL, [ROW, ROW | {"split": 1}], {"seconds": 1.5, "kind": "cpu", "device": "Zürich"})
    return folder / "cells" / f"{KEY}.json"


def test_every_flipped_bit_of_a_cell_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    path = finished(tmp_path)
    whole, record = path.read_bytes(), read_record(path)
    noticed = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        told = None
        try:
            assert read_record(path) == record
        except UserError as error:
            told = str(error)
        if told is not None:
            noticed += 1
            assert str(path) in told
            assert len(told.splitlines()) == 1
    assert noticed > 0.9 * 8 * len(whole)


def test_every_kind_of_file_has_a_digest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.remember({"name": "small"})
    store.fail(KEY, CELL, "no memory", "")
    for path in (tmp_path / "studies" / "small.json", tmp_path / "failed" / f"{KEY}.json"):
        read_stored(path)
        path.write_text(path.read_text().replace("small", "large").replace("no memory", "no matter"))
        with pytest.raises(UserError, match="SHA-256"):
            read_stored(path)
    assert store.failure(KEY) == ("unknown, as its file is damaged", "")


def test_cells_without_a_digest_are_still_read(tmp_path: Path) -> None:
    path = next((RESULTS / "paper" / "cells").glob("*.json"))
    assert "sha256" not in json.loads(path.read_text())
    store = Store(tmp_path)
    (tmp_path / "cells" / path.name).write_bytes(path.read_bytes())
    assert store.has(path.stem)
    assert list(read_book(tmp_path).records) == [path.stem]


def test_a_cell_with_a_flipped_bit_is_reported_and_trained_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = {
        "axes": {"method": ["majority"], "dataset": ["motifs"]}, "protocol": {"splits": 1}, "settings": {"epochs": 1},
    }  # fmt: skip
    store, [cell] = Store(tmp_path), study_of(study).cells
    Runner(store, "cpu").run([cell])
    path = tmp_path / "cells" / f"{cell.key}.json"
    rows = read_record(path).splits
    damaged = path.read_text().replace('"accuracy":0.', '"accuracy":1.', 1)
    path.write_text(damaged)
    assert not store.has(cell.key)
    assert Runner(store, "cpu").run([cell]).done == [cell.key]
    [line] = caplog.messages
    assert f"{path} is damaged" in line
    assert [row["test"] for row in read_record(path).splits] == [row["test"] for row in rows]
    assert path.with_name(f"{cell.key}.damaged.json").read_text() == damaged


def test_a_cell_of_another_format_is_neither_finished_nor_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = finished(tmp_path)
    path.write_text(json.dumps(sealed(json.loads(path.read_text()) | {"format": FORMAT + 1})))
    before = path.read_bytes()
    with pytest.raises(OtherFormat, match=f"has format {FORMAT + 1}, and this version reads {FORMAT}"):
        Store(tmp_path).has(KEY)
    with pytest.raises(OtherFormat):
        Store(tmp_path).set_damaged_aside(KEY)
    assert read_book(tmp_path).records == {}
    assert main(["study", "status", str(tmp_path)]) == 0
    assert f"this version reads {FORMAT}" in " ".join(capsys.readouterr().out.split())
    assert path.read_bytes() == before


ODD: dict[str, dict[str, Any]] = {
    "seconds in words": {"provenance": {"seconds": "long"}},
    "infinite seconds": {"provenance": {"seconds": math.inf}},
    "seconds of 400 digits": {"provenance": {"seconds": 10**400}},
    "a list of versions": {"provenance": {"versions": ["torch"]}},
    "a numbered device": {"provenance": {"device": 3}},
    "an accuracy of 400 digits": {"splits": [ROW | {"test": {"accuracy": 10**400}}]},
    "a boolean accuracy": {"splits": [ROW | {"test": {"accuracy": True}}]},
    "a split without a test": {"splits": [ROW | {"test": None}]},
    "one split twice": {"splits": [ROW, ROW]},
    "half a character": {"provenance": {"device": "\ud800"}},
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_an_odd_cell_is_one_problem_for_every_reader(change: dict[str, Any], tmp_path: Path) -> None:
    path = finished(tmp_path)
    value = {name: part for name, part in json.loads(path.read_text()).items() if name != "sha256"}
    path.write_text(json.dumps(value | change))
    book = read_book(tmp_path)
    assert (len(book.problems), book.records) == (1, {})
    assert len(book.problems[0].splitlines()) == 1
    store = Store(tmp_path)
    assert not store.has(KEY)
    assert store.seconds(KEY, "cpu") is None


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="accuracy is not a number"):
        Store(tmp_path).finish(KEY, CELL, [ROW | {"test": {"accuracy": None}}], {})
    assert not list((tmp_path / "cells").iterdir())


def test_a_pipe_or_deep_nesting_in_a_store_is_one_problem(tmp_path: Path) -> None:
    finished(tmp_path)
    os.mkfifo(tmp_path / "cells" / "pipe.json")
    (tmp_path / "studies" / "deep.json").write_text('{"axes":' * 100_000)
    book = read_book(tmp_path)
    assert list(book.records) == [KEY]
    assert sorted(problem.rsplit(": ", 1)[1] for problem in book.problems) == [
        "it is not a regular file",
        "nested too deeply",
    ]


def test_links_in_a_store_are_replaced_and_not_followed(tmp_path: Path) -> None:
    store, outside = Store(tmp_path / "store"), tmp_path / "outside"
    outside.write_text("precious")
    for part, name in (("studies", "small"), ("cells", KEY), ("failed", KEY)):
        (store.folder / part / f"{name}.json").symlink_to(outside)
    store.remember({"name": "small"})
    store.fail(KEY, CELL, "no memory", "")
    assert not (store.folder / "failed" / f"{KEY}.json").is_symlink()
    finished(store.folder)
    write_stored(store.folder / "studies" / "small.json", {"name": "small"})
    assert outside.read_text() == "precious"
    assert not any(path.is_symlink() for path in store.folder.rglob("*"))


def test_a_folder_of_a_store_must_not_be_a_link(tmp_path: Path) -> None:
    Store(tmp_path / "store")
    (tmp_path / "store" / "cells").rmdir()
    (tmp_path / "store" / "cells").symlink_to(tmp_path)
    with pytest.raises(UserError, match="cells is a link"):
        Store(tmp_path / "store")
    (tmp_path / "store" / "searches").symlink_to(tmp_path)
    with pytest.raises(UserError, match="searches is a link"):
        write_stored(tmp_path / "store" / "searches" / "some.json", {})


@pytest.mark.parametrize("place", ["", "split-000"])
def test_a_training_folder_with_links_is_begun_anew(place: str, tmp_path: Path) -> None:
    store, outside = Store(tmp_path / "store"), tmp_path / "outside"
    outside.mkdir()
    [cell] = study_of({"axes": {"method": ["majority"], "dataset": ["motifs"]}, "protocol": {"splits": 1}}).cells
    link = store.work(cell.key) / place if place else store.work(cell.key)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside)
    assert Runner(store, "cpu").run([cell]).done == [cell.key]
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    "content", ["{", "[3]", '[{"at": "x", "started": ""}]', '{"legs": 3, "format": 1}', '{"a": 1}']
)
def test_damaged_notes_of_earlier_runs_do_not_stop_a_cell(content: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    [cell] = study_of({"axes": {"method": ["majority"], "dataset": ["motifs"]}, "protocol": {"splits": 1}}).cells
    store.work(f"{cell.key}.legs.json").write_text(content)
    assert Runner(store, "cpu").run([cell]).done == [cell.key]
