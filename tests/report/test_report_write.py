"""Writing a report: damaged stores, the same bytes twice, the command, and how long it takes."""

import hashlib
import json
import shutil
import time
from pathlib import Path

import pytest

from cgipool.cli import main
from cgipool.errors import UserError
from cgipool.report import write_report
from cgipool.study.records import key_of
from stores import DATASETS, METHODS, add_cell, add_study, add_table, cell_of, fail, level_of, record_of, write


def contents(folder: Path) -> dict[str, str]:
    """Every file of a folder by its hash."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A store of 2 × 3 cells of which all but one are wrong, each in another way; the keys by what is wrong."""
    store = tmp_path / "store"
    axes = {"method": ["sag", "cgi"], "dataset": ["NCI1", "NCI109", "PROTEINS"]}
    add_study(store, "small", axes)
    kinds = ("truncated", "outdated", "conflicting", "failed", "sound", "impossible")
    places = [{"method": method, "dataset": dataset} for method in axes["method"] for dataset in axes["dataset"]]
    keys = {}
    for kind, at in zip(kinds, places, strict=True):
        path = add_cell(store, at, 80.0)
        keys[kind] = path.stem
        record = json.loads(path.read_text())
        if kind == "truncated":
            path.write_text(path.read_text()[:2000])
        elif kind == "outdated":
            record["cell"]["recipe"]["width"] = 64
            write(path, record)
        elif kind == "conflicting":
            record["splits"][0]["test"]["accuracy"] = 0.5
            write(path.with_name(f"{path.stem}.other.json"), record)
        elif kind == "failed":
            fail(store, at, "no memory")
        elif kind == "impossible":
            record["splits"][0]["test"]["accuracy"] = 80.5
            write(path, record)
    return store, keys


def test_what_is_wrong_is_told_by_name_and_the_rest_is_reported(damaged: tuple[Path, dict[str, str]], tmp_path: Path):
    store, keys = damaged
    before = contents(store)
    report = write_report(store, tmp_path / "out")
    told = {kind: [line for line in report.problems if keys[kind] in line] for kind in keys}
    assert len(report.problems) == 4
    assert "damaged" in told["truncated"][0]
    assert "another version" in told["outdated"][0]
    assert "two results of one cell" in told["conflicting"][0]
    assert "a value of accuracy that is not between 0 and 1" in told["impossible"][0]
    assert all(line.startswith("cells/") for line in report.problems), "relative to the store"
    assert (report.present, report.wanted) == (3, 6)
    text = (tmp_path / "out" / "small.md").read_text()
    assert "no memory" in text
    assert "†" in text
    assert contents(store) == before, "a report only reads"


def test_cells_that_no_table_can_show_are_told(tmp_path: Path):
    add_study(tmp_path, "small", {"method": ["sag", "topk", "vip", "cgi"], "dataset": ["NCI1"]})
    for method, change in (
        ("sag", {"curve": {"epoch": [1], "val_loss": ["x"]}}),
        ("topk", {"curve": {"epoch": [1], "val_loss": [0.5], "train_loss": 3}}),
        ("vip", {"curve": {"epoch": [None], "val_loss": [0.5]}}),
        ("cgi", {"graphs": {"train": 0, "test": 5}}),
    ):
        record = record_of({"method": method, "dataset": "NCI1"}, 80.0)
        record["splits"][0] |= change
        write(tmp_path / "cells" / f"{record['key']}.json", record)
    report = write_report(tmp_path, tmp_path / "out")
    assert report.present == 0
    assert sorted(line.split(": ")[1] for line in report.problems) == [
        *["its settings, numbers, curves, diagnostics or provenance have the wrong format"] * 3,
        "one of its splits has no training or test graphs",
    ]


def test_a_study_that_cannot_be_shown_does_not_stop_the_others(tmp_path: Path):
    add_study(tmp_path, "small", {"method": ["cgi"], "dataset": ["NCI1"]})
    add_study(tmp_path, "flat", {"method": ["cgi"], "dataset": ["NCI1"]})
    path = tmp_path / "studies" / "flat.json"
    write(path, json.loads(path.read_text()) | {"axes": {"method": ["cgi"]}})
    write(tmp_path / "studies" / "twin.json", json.loads((tmp_path / "studies" / "small.json").read_text()))
    report = write_report(tmp_path, tmp_path / "out")
    assert [view.study.name for view in report.views] == ["small"]
    assert any("'flat' is not shown" in line for line in report.problems)
    assert any("second study named 'small'" in line for line in report.problems)


def test_the_same_store_gives_the_same_bytes_wherever_it_lies(store: Path, written: Path, tmp_path: Path):
    """And its hundred cells take less than ten seconds."""
    moved = shutil.copytree(store, tmp_path / "elsewhere")
    start = time.process_time()
    report = write_report(moved, tmp_path / "out")
    assert time.process_time() - start < 10, "seconds of the processor, so that a busy machine is no failure"
    assert (report.present, report.wanted) == (98, 100)
    assert contents(tmp_path / "out") == contents(written)


def test_a_report_replaces_its_own_files_alone(damaged: tuple[Path, dict[str, str]], tmp_path: Path):
    out = tmp_path / "out"
    first = write_report(damaged[0], out)
    (out / "notes.txt").write_text("mine")
    (out / "small.md").write_text("old")
    second = write_report(damaged[0], out)
    assert first.files == second.files
    assert (out / "small.md").read_text().startswith("# The study small")
    assert sorted(path.name for path in out.iterdir()) == sorted([*(path.name for path in first.files), "notes.txt"])


def test_the_command_says_what_it_wrote(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(store), "--out", str(tmp_path / "out"), "--study", "figure3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    files = [Path(line) for line in lines if line.startswith(str(tmp_path))]
    assert sorted(files) == sorted((tmp_path / "out").iterdir())
    assert lines[-2:] == ["figure3: 32 of 32 cells are done", "32 of 32 cells are done"]


def test_the_command_tells_problems_and_succeeds(
    damaged: tuple[Path, dict[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["report", str(damaged[0]), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert f"problem: cells/{damaged[1]['truncated']}.json is damaged" in out
    assert out.count("problem: ") == 4
    assert "small: 3 of 6 cells are done; 1 failed, 2 missing" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "nowhere"], "nowhere is not a store"),
        (["report", "empty"], "empty is not a store"),
        (["report", "bare"], "bare has no study"),
        (["report", "store", "--study", "smal"], "did you mean 'small'"),
        (["report", "store", "--out", "file"], "cannot write to file"),
        (["report", "store", "--out", "file/below"], "cannot write to file/below"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("bare/studies").mkdir(parents=True)
    add_study(Path("store"), "small", {"method": ["cgi"], "dataset": ["NCI1"]})
    Path("file").write_text("mine")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error
    assert Path("file").read_text() == "mine"


def test_help_helps(capsys: pytest.CaptureFixture[str]):
    assert main(["report", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("STORE", "--out", "--study", "index.html"))


def test_cells_shared_by_studies_are_reported_in_each(tmp_path: Path):
    add_table(tmp_path, "one", methods=2, datasets=2)
    add_table(tmp_path, "two", methods=2, datasets=2, cells=False)
    report = write_report(tmp_path, tmp_path / "out")
    assert [view.count("done") for view in report.views] == [4, 4]
    with pytest.raises(UserError, match="unknown study"):
        write_report(tmp_path, tmp_path / "out", ["three"])


def test_synthetic_cells_have_the_keys_of_their_settings():
    at = {"method": next(iter(METHODS)), "dataset": next(iter(DATASETS)), "ratio": 0.2}
    assert record_of(at, level_of(at))["key"] == key_of(cell_of(at))
    assert cell_of(at)["recipe"]["ratio"] == 0.2


def test_studies_come_as_they_were_begun_or_as_they_are_named(tmp_path: Path):
    """Neither the names of files nor the size of a study decides which one the page opens on."""
    store = tmp_path / "store"
    for name, dataset, day in (("a", "NCI1", 3), ("b", "NCI109", 1), ("c", "PROTEINS", 2), ("empty", "COLLAB", None)):
        add_study(store, name, {"method": ["cgi"], "dataset": [dataset]})
        if day is not None:
            path = add_cell(store, {"method": "cgi", "dataset": dataset}, 75.0)
            record = json.loads(path.read_text())
            record["provenance"]["started"] = f"2025-01-0{day}T00:00:00.000+00:00"
            write(path, record)
    names = lambda *asked: [view.study.name for view in write_report(store, tmp_path / "out", asked).views]  # noqa: E731
    assert names() == ["b", "c", "a", "empty"]
    assert names("c", "a", "c") == ["c", "a"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.index('{"name":"c","packed":') < page.index('{"name":"a","packed":')


def test_the_report_of_a_paper_stays_small(written: Path):
    """With its data as plain JSON, the page of this store would have more than 3 MB."""
    assert (written / "index.html").stat().st_size < 1_000_000
