"""Stores merged, exported and written as rows, with stores made of plain JSON."""

import csv
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cgipool.errors import UserError
from cgipool.study import gather
from cgipool.study.exchange import Merged, export, merge, rows, write_csv
from cgipool.study.gather import ARCHIVED, commit_of
from cgipool.study.records import key_of, read_book
from cgipool.study.stored import FORMAT


def cell_of(method: str, dataset: str = "NCI1", **settings: Any) -> dict[str, Any]:
    seeds = {"seed": 0, "splits": 2, "first": 0, "split_kind": "random", "ensemble": 1}
    return {
        "method": method,
        "dataset": dataset,
        "recipe": {"name": "paper", "ratio": 0.8, "epochs": 100} | settings,
    } | seeds


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def add_cell(store: Path, cell: dict[str, Any], accuracy: float = 0.75, seconds: float = 3.5) -> str:
    """A finished cell of two splits, the second 0.05 above the first; its key."""
    key = key_of(cell)
    splits = [
        {
            "split": split,
            "epochs": 60 + split,
            "best_epoch": 40,
            "val_loss": 0.5,
            "val_accuracy": 0.75,
            "test": {"accuracy": accuracy + 0.05 * split, "pr_auc": None},
            "graphs": {"train": 80, "val": 10, "test": 10},
            "parameters": 1234,
            "seconds": seconds,
            "curve": {"epoch": [1, 2], "val_loss": [0.6, 0.5]},
        }
        for split in (0, 1)
    ]
    provenance = {"versions": {"cgipool": "0.1.0", "torch": "2.13.0"}, "device": "cpu", "seconds": 2 * seconds}
    record = {"format": FORMAT, "key": key, "cell": cell, "splits": splits, "provenance": provenance}
    write(store / "cells" / f"{key}.json", record)
    return key


def add_study(store: Path, name: str, wanted: Mapping[tuple[Any, ...], dict[str, Any]], **parts: Any) -> dict[str, Any]:
    """A study whose cells are given by their place; its axes are method, data set and, with a third value, epochs."""
    names = ("method", "dataset", "epochs")
    places = [dict(zip(names, values, strict=False)) for values in wanted]
    axes = {axis: list(dict.fromkeys(place[axis] for place in places)) for axis in places[0]}
    cells = [{"key": key_of(c), "at": at, "published": None} for at, c in zip(places, wanted.values(), strict=True)]
    study = {"format": FORMAT, "name": name, "title": "T", "about": "", "source": "", "axes": axes, "titles": {}}
    study |= {"curves": None, "baseline": "cgi", "cells": cells} | parts
    write(store / "studies" / f"{name}.json", study)
    return study


def table(*methods: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(method, "NCI1"): cell_of(method) for method in methods}


def contents(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    """Two stores: the first has cgi, the second cgi with the same results and sag; both have a study."""
    first, second = tmp_path / "first", tmp_path / "second"
    add_cell(first, cell_of("cgi"))
    add_cell(second, cell_of("cgi"), seconds=9.0)
    add_cell(second, cell_of("sag"))
    add_study(first, "table", table("cgi", "sag"))
    add_study(second, "table", table("cgi", "sag"))
    return first, second


def test_cells_that_are_missing_are_copied_and_others_left_alone(stores: tuple[Path, Path]):
    first, second = stores
    before, other = contents(first), contents(second)
    assert merge(first, [second]) == Merged(cells=1, same=1)
    sag = f"cells/{key_of(cell_of('sag'))}.json"
    assert contents(first) == before | {sag: other[sag]}
    assert contents(second) == other
    assert merge(first, [second]) == Merged(same=2)


def test_a_record_with_more_validation_metrics_is_the_same(stores: tuple[Path, Path]):
    """Earlier versions stored the primary one alone, and not what early stopping watched."""
    first, second = stores
    path = first / "cells" / f"{key_of(cell_of('cgi'))}.json"
    record = json.loads(path.read_text())
    record["splits"][0]["val_mcc"] = 0.25
    write(path, record)
    assert merge(first, [second]) == Merged(cells=1, same=1)
    record["splits"][0]["val_loss"] = 0.25
    write(path, record)
    assert merge(first, [second]).conflicts == [record["key"]]


def test_several_stores_go_into_one_that_is_made(stores: tuple[Path, Path], tmp_path: Path):
    merged = merge(tmp_path / "deep" / "new", stores)
    assert merged == Merged(cells=2, same=1, studies=1)
    book = read_book(tmp_path / "deep" / "new")
    assert set(book.records) == {key_of(cell_of("cgi")), key_of(cell_of("sag"))}
    assert book.studies == read_book(stores[0]).studies
    assert book.problems == []


def test_a_cell_with_other_results_is_kept_beside_ours(stores: tuple[Path, Path]):
    first, second = stores
    key = add_cell(second, cell_of("cgi"), accuracy=0.7)
    ours = (first / "cells" / f"{key}.json").read_bytes()
    assert merge(first, [second]) == Merged(cells=1, conflicts=[key])
    assert (first / "cells" / f"{key}.json").read_bytes() == ours
    [beside] = (first / "cells").glob(f"{key}.*.json")
    assert len(beside.name) == len(key) + 1 + 8 + len(".json")
    assert beside.read_bytes() == (second / "cells" / f"{key}.json").read_bytes()
    [problem] = read_book(first).problems
    assert "two results of one cell" in problem

    before = contents(first)
    assert merge(first, [second]) == Merged(same=1, conflicts=[key])
    add_cell(second, cell_of("cgi"), accuracy=0.7, seconds=1.0)
    assert merge(first, [second]).conflicts == [key]
    assert contents(first) == before, "the same results in another time are the same"
    add_cell(second, cell_of("cgi"), accuracy=0.6)
    assert merge(first, [second]).conflicts == [key]
    assert len(list((first / "cells").glob(f"{key}.*.json"))) == 2


def test_what_was_kept_beside_goes_along(stores: tuple[Path, Path], tmp_path: Path):
    first, second = stores
    key = add_cell(second, cell_of("cgi"), accuracy=0.7)
    merge(first, [second])
    merged = merge(tmp_path / "third", [first])
    assert (merged.cells, merged.conflicts) == (2, [key])
    cells = {name: content for name, content in contents(first).items() if name.startswith("cells")}
    assert {name: c for name, c in contents(tmp_path / "third").items() if name.startswith("cells")} == cells
    damaged = next((first / "cells").glob(f"{key}.*.json"))
    damaged.write_text(damaged.read_text().replace("0.7", "0.8"))
    merge(tmp_path / "fourth", [first])
    assert [path.name for path in (tmp_path / "fourth" / "cells").glob(f"{key}*")] == [f"{key}.json"]


def cut(path: Path) -> None:
    path.write_text(path.read_text()[:-5])


def of_another_format(path: Path) -> None:
    write(path, json.loads(path.read_text()) | {"format": FORMAT + 1})


def under_another_key(path: Path) -> None:
    write(path, json.loads(path.read_text()) | {"key": "0" * 20})


@pytest.mark.parametrize("damage", [cut, of_another_format, under_another_key])
def test_damaged_cells_are_named_and_not_copied(stores: tuple[Path, Path], damage: Callable[[Path], None]):
    first, second = stores
    path = second / "cells" / f"{key_of(cell_of('sag'))}.json"
    damage(path)
    before = contents(first)
    merged = merge(first, [second])
    [problem] = merged.problems
    assert str(path) in problem
    assert (merged.cells, merged.same, merged.conflicts) == (0, 1, [])
    assert contents(first) == before


def test_a_damaged_cell_of_ours_gives_way_to_a_sound_one_and_is_kept(stores: tuple[Path, Path]):
    first, second = stores
    path = first / "cells" / f"{key_of(cell_of('cgi'))}.json"
    cut(path)
    damaged = path.read_bytes()
    merged = merge(first, [second])
    assert not merged.conflicts
    assert path.read_bytes() == (second / "cells" / path.name).read_bytes()
    assert path.with_name(f"{path.stem}.damaged.json").read_bytes() == damaged
    assert any("damaged" in problem for problem in merged.problems)


def test_failures_go_along_until_a_cell_is_finished(stores: tuple[Path, Path]):
    first, second = stores
    keys = {method: key_of(cell_of(method)) for method in ("cgi", "sag", "asap")}
    write(first / "failed" / f"{keys['sag']}.json", {"reason": "ours"})
    for method in ("cgi", "asap"):
        write(second / "failed" / f"{keys[method]}.json", {"reason": "theirs"})
    write(second / "failed" / "damaged.json", {}).write_text("{")
    merged = merge(first, [second])
    assert read_book(first).failed == {keys["asap"]: "theirs"}, "cgi was there, sag came"
    assert merged.problems == [p for p in read_book(second).problems if "damaged" in p]
    write(second / "failed" / f"{keys['asap']}.json", {"reason": "another"})
    merge(first, [second])
    assert read_book(first).failed == {keys["asap"]: "theirs"}


def test_a_study_that_asks_for_more_grows(stores: tuple[Path, Path]):
    first, second = stores
    add_study(second, "table", table("topk", "sag", "asap"), title="not ours", about="nor this")
    add_study(second, "more", table("cgi"))
    assert merge(first, [second]).studies == 2
    studies = {study.name: study for study in read_book(first).studies}
    assert studies["table"].axes == {"method": ["cgi", "sag", "topk", "asap"], "dataset": ["NCI1"]}
    assert [(cell.key, cell.at["method"]) for cell in studies["table"].cells] == [
        (key_of(cell_of(method)), method) for method in ("cgi", "sag", "topk", "asap")
    ]
    assert studies["table"].title == "T"
    assert read_book(first).problems == []
    before = contents(first)
    assert merge(first, [second]).studies == 0
    assert contents(first) == before


@pytest.mark.parametrize("part", ["titles", "curves", "baseline", "axes", "cells", "published"])
def test_a_study_that_contradicts_ours_is_reported(stores: tuple[Path, Path], part: str):
    first, second = stores
    other = {
        "titles": lambda: add_study(second, "table", table("cgi"), titles={"method": {"cgi": "CGI"}}),
        "curves": lambda: add_study(second, "table", table("cgi"), curves="dataset"),
        "baseline": lambda: add_study(second, "table", table("cgi"), baseline=None),
        "axes": lambda: add_study(second, "table", {("cgi", "NCI1", 5): cell_of("cgi", epochs=5)}),
        "cells": lambda: add_study(second, "table", {("cgi", "NCI1"): cell_of("cgi", ratio=0.5)}),
        "published": lambda: add_study(second, "table", table("cgi")),
    }[part]()
    if part == "published":
        other["cells"][0]["published"] = [70.0, 1.0]
        write(second / "studies" / "table.json", other)
    before = (first / "studies" / "table.json").read_bytes()
    merged = merge(first, [second])
    assert merged.problems == [f"the study 'table' of {second} differs from that of {first}, which is kept"]
    assert merged.studies == 0
    assert (first / "studies" / "table.json").read_bytes() == before


def test_study_files_that_are_not_what_they_seem(stores: tuple[Path, Path]):
    first, second = stores
    (second / "studies" / "table.json").rename(second / "studies" / "renamed.json")
    outside = add_study(second, "more", table("cgi"))
    write(second / "studies" / "outside.json", outside | {"name": "../outside"})
    write(second / "outside.json", outside)
    write(first / "studies" / "more.json", {"format": FORMAT})
    before = contents(first)
    problems = merge(first, [second]).problems
    assert [problem.split("; ")[-1] for problem in problems] == [
        f"that of {second} is left out",
        "it is left out",
        "it is left out",
    ]
    assert str(first / "studies" / "more.json") in problems[0]
    assert {name: content for name, content in contents(first).items() if not name.startswith("cells")} == {
        name: content for name, content in before.items() if not name.startswith("cells")
    }


def test_what_is_no_store_is_refused_before_anything_is_done(stores: tuple[Path, Path], tmp_path: Path):
    with pytest.raises(UserError, match="is not a store"):
        merge(tmp_path / "new", [stores[0], tmp_path])
    assert not (tmp_path / "new").exists()
    for refused in (lambda: export(tmp_path, tmp_path / "out.zip"), lambda: list(rows(tmp_path))):
        with pytest.raises(UserError, match="is not a store"):
            refused()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^cannot make a store in .*: Not a directory$"):
        merge(tmp_path / "file" / "new", [stores[0]])


def test_an_archive_unpacks_to_the_same_store(stores: tuple[Path, Path], tmp_path: Path):
    _, second = stores
    write(second / "failed" / f"{key_of(cell_of('asap'))}.json", {"reason": "out of memory"})
    before = contents(second)
    write(second / "work" / "key" / "state.json", {})
    write(second / "claims" / "key.json", {})
    (second / "cells" / ".half.json.x7").touch()
    export(second, tmp_path / "one.zip")
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "unpacked")
    assert contents(tmp_path / "unpacked") == before
    assert read_book(tmp_path / "unpacked") == read_book(second)


def test_an_archive_depends_on_the_files_alone(stores: tuple[Path, Path], tmp_path: Path):
    _, second = stores
    for name, content in reversed(contents(second).items()):
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(content)
        (tmp_path / "copy" / name).chmod(0o600)
    export(second, tmp_path / "one.zip")
    export(tmp_path / "copy", tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    with pytest.raises(UserError, match="cannot write"):
        export(second, tmp_path / "none" / "one.zip")


def test_an_empty_store_is_still_one_when_unpacked(tmp_path: Path):
    (tmp_path / "store" / "studies").mkdir(parents=True)
    export(tmp_path / "store", tmp_path / "one.zip")
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    assert read_book(tmp_path / "unpacked") == read_book(tmp_path / "store")
    with pytest.raises(UserError, match="no finished cells"):
        write_csv(tmp_path / "store", tmp_path / "one.csv")


@pytest.fixture
def varied(tmp_path: Path) -> Path:
    """Two studies that share a cell and differ in axes, a cell that is missing, and a cell of no study."""
    store = tmp_path / "store"
    study = add_study(store, "a", table("cgi", "missing"))
    study["cells"][0]["published"] = [76.5, None]
    write(store / "studies" / "a.json", study)
    add_study(store, "b", {("cgi", "NCI1", 100): cell_of("cgi"), ("cgi", "NCI1", 5): cell_of("cgi", epochs=5)})
    add_cell(store, cell_of("cgi"))
    add_cell(store, cell_of("cgi", epochs=5), accuracy=0.5)
    add_cell(store, cell_of("sag", "PROTEINS"), accuracy=0.25)
    return store


def test_there_is_a_row_per_study_cell_and_split(varied: Path):
    shared, short, lone = (key_of(c) for c in (cell_of("cgi"), cell_of("cgi", epochs=5), cell_of("sag", "PROTEINS")))
    table = list(rows(varied))
    names = ("study", "key", "method", "dataset", "axis_epochs", "published", "split", "accuracy")
    assert [tuple(row[name] for name in names) for row in table] == [
        ("a", shared, "cgi", "NCI1", None, 76.5, 0, 0.75),
        ("a", shared, "cgi", "NCI1", None, 76.5, 1, 0.8),
        ("b", shared, "cgi", "NCI1", 100, None, 0, 0.75),
        ("b", shared, "cgi", "NCI1", 100, None, 1, 0.8),
        ("b", short, "cgi", "NCI1", 5, None, 0, 0.5),
        ("b", short, "cgi", "NCI1", 5, None, 1, 0.55),
        ("", lone, "sag", "PROTEINS", None, None, 0, 0.25),
        ("", lone, "sag", "PROTEINS", None, None, 1, 0.3),
    ]
    rest = {name: value for name, value in table[1].items() if name not in names}
    assert rest == {
        "recipe": "paper",
        "ensemble": 1,
        "unread": "",
        "published_pm": None,
        "pr_auc": None,
        "positive": "class 1",
        "val_loss": 0.5,
        "val_accuracy": 0.75,
        "epochs": 61,
        "best_epoch": 40,
        "parameters": 1234,
        "seconds": 3.5,
        "graphs_train": 80,
        "graphs_test": 10,
        "device": "cpu",
        "cgipool": "0.1.0",
        "torch": "2.13.0",
    }


def test_the_csv_has_the_same_rows(varied: Path, tmp_path: Path):
    write_csv(varied, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    assert read == [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows(varied)]
    named = ["recipe", "ensemble", "unread", "published", "published_pm"]
    assert list(read[0])[:10] == ["study", "key", "method", "dataset", "axis_epochs", *named]


def test_the_commit_of_an_archive(tmp_path: Path) -> None:
    """Which `git archive` writes into a file; as it stands in the repository, that file names none."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    (tmp_path / ARCHIVED).write_text(f"{commit}\n")
    assert commit_of(tmp_path) == commit
    (tmp_path / ARCHIVED).write_text("$Format:%H$\n")
    assert commit_of(tmp_path) is None
    kept = Path(gather.__file__).parent / ARCHIVED
    assert kept.read_text() == "$Format:%H$\n"


@pytest.mark.parametrize("part", ["cells/x.json", "studies/x.json", "searches/x.json", "failed"])
def test_links_that_lead_out_of_a_store_are_refused(stores: tuple[Path, Path], part: str, tmp_path: Path):
    first, second = stores
    outside, link = tmp_path / "outside", second / part
    outside.mkdir()
    (outside / "secret.json").write_text('{"outside": 1}')
    link.parent.mkdir(exist_ok=True)
    if link.exists():
        link.rmdir()
    link.symlink_to(outside / "secret.json" if part.endswith("json") else outside)
    before = contents(first)
    for use in (lambda: export(second, tmp_path / "all.zip"), lambda: merge(first, [second])):
        with pytest.raises(UserError, match="is a link that leads out of"):
            use()
    assert contents(first) == before
    assert not (tmp_path / "all.zip").exists()


def test_a_link_within_a_store_goes_along_as_a_file(stores: tuple[Path, Path], tmp_path: Path):
    first, _ = stores
    path = next((first / "cells").glob("*.json"))
    content = path.read_bytes()
    path.rename(first / "moved")
    path.symlink_to(first / "moved")
    export(first, tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read(f"cells/{path.name}") == content
    merge(tmp_path / "third", [first])
    assert not (tmp_path / "third" / "cells" / path.name).is_symlink()
