"""`cgipool study` and `cgipool compare` as a user types them."""

import csv
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from cgipool import load_dataset
from cgipool.cli import main
from cgipool.data.splits import read_splits
from cgipool.files import sealed
from cgipool.study.plan import read_study
from cgipool.study.records import read_book
from cgipool.study.store import Store
from report_pages import data_of

STUDIES = [
    path
    for path in (Path(__file__).resolve().parents[2] / "studies").glob("*.toml")
    if not path.stem.startswith(("search", "featurizer"))
]
"""Those whose data sets need not be imported first."""
FILE = """
title = "Two methods"
source = "nowhere"
baseline = "topk"
[protocol]
splits = 2
[settings]
width = 8
epochs = 2
[axes]
method = ["topk", "none"]
dataset = ["motifs"]
[published.topk]
motifs = [90.0, 1.5]
"""

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(FILE)
    return path


def ok(capsys: pytest.CaptureFixture, *words: object) -> str:
    assert main([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_from_a_file_to_a_page(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    store = tmp_path / "store"
    planned = ok(capsys, "study", "plan", file, "--store", store)
    assert "2 cells" in planned
    assert "no cell is finished" in planned
    assert not store.exists(), "a plan makes nothing"
    assert "2 of 2 cells are in" in ok(capsys, "study", "run", file, "--store", store)
    planned = ok(capsys, "study", "plan", file, "--store", store)
    assert planned.count("done") == 2
    assert "left: about 0 s" in planned
    assert ", 0 of them new" in ok(capsys, "study", "run", file, "--store", store)
    assert ok(capsys, "study", "status", store).split()[-6:] == ["two", "2", "2", "0", "0", "0"]
    assert "2 of 2 cells are done" in ok(capsys, "report", store, "--out", tmp_path / "report")
    page = json.dumps(data_of((tmp_path / "report" / "index.html").read_text()))
    assert "Two methods" in page
    assert "cgipool train motifs --method topk" in page


def test_shards_make_the_whole(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for shard in ("1/2", "2/2"):
        said = ok(capsys, "study", "run", file, "--store", tmp_path / shard[0], "--shard", shard)
        assert "1 of 1 cell is" in said
    whole = tmp_path / "whole"
    assert "2 cells copied" in ok(capsys, "study", "merge", whole, tmp_path / "1", tmp_path / "2")
    assert len(read_book(whole).records) == 2
    assert "0 cells copied" in ok(capsys, "study", "merge", whole, tmp_path / "1")

    key = next(iter(read_book(tmp_path / "1").records))
    path = tmp_path / "1" / "cells" / f"{key}.json"
    other = json.loads(path.read_text())
    other["splits"][0]["test"]["accuracy"] = 0.123
    path.write_text(json.dumps(sealed(other)))
    assert f"conflict: cell {key} has two results" in ok(capsys, "study", "merge", whole, tmp_path / "1")
    assert "problem" in ok(capsys, "study", "status", whole)


def test_only_and_export(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    store = tmp_path / "store"
    assert "1 of 1 cell is" in ok(capsys, "study", "run", file, "--store", store, "--only", "method=none")
    ok(capsys, "study", "export", store, "--out", tmp_path / "mine")
    with zipfile.ZipFile(tmp_path / "mine.zip") as archive:
        names = archive.namelist()
    assert [name.split("/")[0] for name in names if name.endswith(".json")] == ["cells", "studies"]
    rows = list(csv.DictReader((tmp_path / "mine.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["method"] for row in rows] == ["none", "none"]
    assert main(["study", "run", str(file), "--store", str(store), "--only", "method=sag"]) == 2
    assert "unknown method 'sag'" in capsys.readouterr().err


def test_who_is_gone_is_not_at_work(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    store = Store(tmp_path / "store")
    study = read_study(file)
    store.remember(study.to_json())
    code = "import sys, pathlib, os; from cgipool.study.claims import Claims; Claims(pathlib.Path(sys.argv[1])).take("
    code += "sys.argv[2]); os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(store.folder / "claims"), study.cells[0].key])
    with store.claims.take(study.cells[1].key):
        lines = ok(capsys, "study", "status", store.folder).splitlines()
        assert lines[1].split() == ["two", "2", "0", "0", "1", "1"]
        assert re.fullmatch(r"abandoned: method=topk,.*, which has ended; the next run takes it over", lines[2])
        assert re.fullmatch(r"running: method=none,.*, seen \d+ s ago", lines[3])
        for path in (store.folder / "claims").iterdir():
            os.utime(path, (0, 0))
        assert re.search(
            r"abandoned: method=none,.*, not seen for \d+\.\d h; the", ok(capsys, "study", "status", store.folder)
        )


def test_two_at_once_and_a_device_that_is_none(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert "2 of 2 cells" in ok(capsys, "study", "run", file, "--store", tmp_path / "s", "--at-once", "2")
    assert main(["study", "run", str(file), "--store", str(tmp_path / "s"), "--device", "cpu,gpu9"]) == 2
    assert "cannot be used" in capsys.readouterr().err


def test_compare_on_ones_own_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    load_dataset("motifs").subset(range(0, 1000, 10)).save("mine")
    words = (
        "compare",
        "mine",
        "--methods",
        "topk,none,majority",
        "--splits",
        "3",
        "--set",
        "width=8",
        "--set",
        "epochs=2",
    )
    said = ok(capsys, *words)
    assert "TopKPool" in said
    assert "page: runs/compare-" in said
    assert "3 of 3 cells are in" in said
    store = next(Path("runs").glob("compare-*"))
    assert (store / "report" / "index.html").is_file()
    cells = [record.cell for record in read_book(store).records.values()]
    assert all(len(cell["content"]) == 64 for cell in cells), "a set of one's own is known by its content"
    assert ", 0 of them new" in ok(capsys, *words)


def test_compare_ensembles(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("--splits", "2", "--ensemble", "2", "--set", "width=8", "--set", "epochs=1")
    said = ok(capsys, "compare", "motifs", "--methods", "majority,none", *words, "--store", tmp_path)
    assert "2 random splits, recipe strong-molecules, ensembles of 2" in said
    records = read_book(tmp_path).records.values()
    assert [record.cell["ensemble"] for record in records] == [2, 2]
    assert all(len(row["members"]) == 2 for record in records for row in record.splits)


def test_compare_tells_what_it_replaces(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for step in (10, 5):
        load_dataset("motifs").subset(range(0, 1000, step)).save(f"{step}/mine")

    def said(*words: str) -> str:
        assert main(["compare", *words, "--splits", "2", "--set", "width=8", "--set", "epochs=1"]) == 0
        return capsys.readouterr().err

    assert "replaces" not in said("10/mine", "--methods", "majority") + said("10/mine", "--methods", "majority,none")
    other = said("5/mine", "--methods", "majority")
    assert other.startswith("runs/compare-motifs holds a comparison of other data, methods or settings (100 graphs, ")
    assert "this run replaces it and its report (to keep it, choose another folder with --store)" in other
    assert "(200 graphs" in said("5/mine", "--methods", "majority", "--seed", "1")
    assert "replaces" not in said("5/mine", "--methods", "majority", "--store", "runs/other")


def test_compare_on_molecules_has_a_row_of_fingerprints(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rdkit", reason="needs the extra chem")
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'C' * n}O,wet\n{'C' * n}Cl,dry\n" for n in range(1, 21))
    Path("train.csv").write_text("smiles,class\n" + rows)
    ok(capsys, "data", "import", "train.csv", "--out", "mine", "--label", "class")
    said = ok(capsys, "compare", "mine", "--methods", "none", "--splits", "2", "--set", "width=8", "--set", "epochs=2")
    assert "ECFP counts + random forest | **100.00 ± 0.00**" in said.replace("\\", "")
    assert "RDKit descriptors + random forest" in said
    record = next(
        r for r in read_book(next(Path("runs").glob("compare-*"))).records.values() if "ecfp" in r.cell["method"]
    )
    assert [row["graphs"] for row in record.splits] == [{"train": 32, "val": 4, "test": 4}] * 2
    words = ("--splits", "2", "--ensemble", "2", "--set", "width=8", "--set", "epochs=2")
    assert ", 1 of them new" in ok(capsys, "compare", "mine", "--methods", "none", *words), "forests have no members"


def test_compare_checks_what_its_methods_need_before_it_trains(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set of molecules that was imported elsewhere, and no RDKit here."""
    pytest.importorskip("rdkit", reason="needs the extra chem")
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'C' * n}O,wet\n{'C' * n}Cl,dry\n" for n in range(1, 11))
    Path("train.csv").write_text("smiles,class\n" + rows)
    ok(capsys, "data", "import", "train.csv", "--out", "mine", "--label", "class")
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "rdkit" else found(name, *more)
    )
    words = ("--splits", "2", "--set", "width=8", "--set", "epochs=1")
    assert main(["compare", "mine", "--methods", "none,ecfp-rf", *words]) == 2
    assert capsys.readouterr().err.endswith("cgipool: ecfp-rf needs RDKit: pip install 'cgipool[chem]'\n")
    assert not Path("runs").exists()
    assert main(["compare", "mine", "--methods", "none", *words]) == 0
    said = capsys.readouterr()
    assert "left out: ecfp-count-rf and rdkit-rf needs RDKit" in said.err
    assert "ECFP" not in said.out


def test_compare_with_a_method_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("fragile.py").write_text(
        "import torch\nclass Pool(torch.nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "    def forward(self, x, level):\n        raise ValueError('it broke')\n"
    )
    words = ("--splits", "1", "--set", "width=8", "--set", "epochs=1", "--store", "runs")
    assert main(["compare", "motifs", "--methods", "majority,fragile:Pool", *words]) == 1
    said = capsys.readouterr()
    assert "1 of 2 cells is in runs, 1 of them new; 1 failed (`cgipool study status runs` shows why)" in said.out
    assert main(["compare", "motifs", "--methods", "majority,ecfp-rf", *words]) == 2
    assert "needs molecules, and motifs is not a set of molecules" in capsys.readouterr().err


def test_compare_on_scaffold_splits(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rdkit", reason="needs the extra chem")
    monkeypatch.chdir(tmp_path)
    rings = ("C1CC1", "C1CCC1", "C1CCCC1", "c1ccccc1", "c1ccncc1", "C1CCOC1", "C1CCNC1", "c1ccoc1", "c1ccsc1", "C1COC1")
    rows = "".join(f"{ring}{'C' * n}O,wet\n{ring}{'C' * n}Cl,dry\n" for ring in rings for n in range(3))
    Path("train.csv").write_text("smiles,class\n" + rows)
    ok(capsys, "data", "import", "train.csv", "--out", "mine", "--label", "class", "--scaffold-splits", "2")
    words = ("--splits", "2", "--split-kind", "scaffold", "--set", "width=8", "--set", "epochs=2")
    ok(capsys, "compare", "mine", "--methods", "none", *words)
    written = read_splits("mine/scaffold-splits.json", 60)
    sizes = [{side: len(getattr(split, side)) for side in ("train", "val", "test")} for split in written]
    records = read_book(next(Path("runs").glob("compare-*"))).records.values()
    assert {record.cell["method"] for record in records} == {"none", "ecfp-count-rf", "rdkit-rf"}
    for record in records:
        assert [row["graphs"] for row in record.splits] == sizes
        ok(capsys, *shlex.split(record.provenance["command"])[1:])
    assert len({record.provenance["splits"] for record in records}) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare", "motifs", "--split-kind", "scaffold"), "motifs does not have the columns of a set of molecules"),
        (("study", "run", "none.toml"), "cannot read none.toml"),
        (("study", "status", "nowhere"), "nowhere is not a store"),
        (("compare", "motifs", "--methods", "cgi,cgi"), "lists a method twice"),
        (("compare", "motifs", "--methods", "cgy"), "unknown method 'cgy'"),
        (("train", "motifs", "--set", "width"), "--set must have the form NAME=VALUE, not 'width'"),
        (("train", "motifs", "--width", "8", "--set", "width=9"), "width is given twice"),
        (("train", "motifs", "--set", "width=8", "--set", "width=9"), "width is given twice"),
        (("fit", "motifs", "--set", "width=8", "--set", "width=9"), "width is given twice"),
        (("compare", "motifs", "--set", "width=8", "--set", "width=9"), "width is given twice"),
    ],
)
def test_errors_are_one_line(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(list(words)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_every_study_file_can_be_planned(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    for path in STUDIES:
        assert "left: about" in ok(capsys, "study", "plan", path, "--store", tmp_path, "--device", "cuda")


@pytest.mark.parametrize("many", [["study", "run", "{file}", "--at-once", "2"], ["train", "motifs", "--jobs", "2"]])
def test_ctrl_c_while_workers_start_leaves_no_traceback(many: list[str], file: Path, tmp_path: Path) -> None:
    """A terminal sends it to all processes; those that still import are not ready for it."""
    where = ["--store", str(tmp_path / "s")] if many[0] == "study" else ["--splits", "2", "--set", "epochs=100000"]
    command = [sys.executable, "-m", "cgipool", *(word.format(file=file) for word in many), *where]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    children = Path("/proc", str(process.pid), "task", str(process.pid), "children")
    if not children.exists():
        process.kill()
        pytest.skip("this system does not tell a process's children")
    while process.poll() is None and len(children.read_text().split()) < 3:  # two, and the one that clears up
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, complaint = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in complaint


def test_a_setting_that_is_not_read_is_trained_once(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "ratios.toml"
    file.write_text(
        "settings = {width = 4, epochs = 1}\nprotocol = {splits = 2}\n"
        'axes = {method = ["topk", "none"], dataset = ["motifs"], ratio = [0.5, 0.8]}\n'
    )
    store = tmp_path / "store"
    assert "3 of 3 cells are in" in ok(capsys, "study", "run", file, "--store", store)
    assert len(list((store / "cells").iterdir())) == 3
    assert "0 of them new" in ok(capsys, "study", "run", file, "--store", store, "--only", "method=none,ratio=0.8")
    assert "ratios: 3 of 3 cells are done" in ok(capsys, "report", store, "--out", tmp_path / "out")
    assert "‡" in (tmp_path / "out" / "ratios.md").read_text()
    ok(capsys, "study", "export", store, "--out", tmp_path / "all")
    with (tmp_path / "all.csv").open(newline="") as file_:
        found = {(row["method"], row["ratio"], row["unread"]) for row in csv.DictReader(file_)}
    assert found == {("topk", "0.5", ""), ("topk", "0.8", ""), ("none", "0.5", "ratio"), ("none", "0.8", "ratio")}
