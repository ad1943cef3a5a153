"""Molecules with atom and bond features from the table to predictions, as a user types the commands."""

import csv
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("rdkit")

from cgipool.cli import main
from cgipool.data import GraphSet
from cgipool.files import read_json
from cgipool.inference.fitted import FittedModel

SMILES = [
    *("CCO", "CCN", "CCC", "C1CC1", "c1ccccc1", "CC(=O)O", "C=C", "C#N", "[13CH4]", "OCC=O", "CCCl", "CNC"),
    *("C1CCCC1", "CC(C)C", "N#CC", "C=CC=C", "c1ccncc1", "OO", "CS", "CCF", "BrCC", "O=C=O", "CCCC", "C1CO1"),
]
SMALL = ["--set", "epochs=2", "--set", "width=8"]

OWN = """
def places(molecule):
    return {"atoms": [[atom.GetIdx(), atom.GetMass()] for atom in molecule.GetAtoms()]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{smiles},{number % 2}\n" for number, smiles in enumerate(SMILES))
    Path("molecules.csv").write_text(f"smiles,active\n{rows}")
    Path("own_places.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("own_places", None)
    return tmp_path


def run(*words: str) -> int:
    return main([*words])


def encoder_of(run_folder: str) -> dict:
    return read_json(Path(run_folder) / "split-000" / "encoder.json")


def test_bonds_are_read_by_a_convolution_that_can(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "import", "molecules.csv", "--out", "set") == 0
    assert GraphSet.load("set").column_names["edge_category"] == ("type", "stereo", "conjugated", "ring")
    assert run("train", "set", "--conv", "gine", "--out", "full", *SMALL) == 0
    full = encoder_of("full")
    assert (len(full["values"]), len(full["edges"]["values"])) == (9, 4)
    assert run("train", "set", "--conv", "gine", "--featurizer", "labels", "--out", "few", *SMALL) == 0
    few = encoder_of("few")
    assert (len(few["values"]), len(few["edges"]["values"])) == (8, 2)
    capsys.readouterr()
    assert run("train", "set", "--conv", "gin", "--out", "plain", *SMALL) == 0
    assert "edge labels (4 columns) are not used; conv=gine reads them" in " ".join(capsys.readouterr().err.split())
    assert run("fit", "set", "--out", "model.safetensors", "--conv", "gine", "--set", "wl=1", *SMALL) == 0
    assert run("predict", "model.safetensors", "molecules.csv", "--out", "table.csv") == 0
    assert run("predict", "model.safetensors", "set", "--out", "saved.csv") == 0
    tables = [list(csv.DictReader(Path(name).read_text().splitlines())) for name in ("table.csv", "saved.csv")]
    assert len(tables[0]) == len(SMILES)
    assert [row["p(1)"] for row in tables[0]] == [row["p(1)"] for row in tables[1]]


def test_features_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "import", "molecules.csv", "--featurizer", "own_places:places", "--out", "set") == 0
    about = json.loads(Path("set/graphset.json").read_text())["featurizer"]
    assert about["own"] == {"function": "own_places:places", "widths": [2, 0]}
    assert run("fit", "set", "--out", "model.safetensors", *SMALL) == 0
    capsys.readouterr()
    assert run("predict", "model.safetensors", "molecules.csv", "--out", "rows.csv") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "uses the function 'own_places:places', and loading it runs the code of that module" in error
    assert run("predict", "model.safetensors", "molecules.csv", "--out", "rows.csv", "--allow-code") == 0
    assert run("predict", "model.safetensors", "set", "--out", "saved.csv", "--allow-code") == 0
    assert Path("rows.csv").read_text().split(",")[-2] == Path("saved.csv").read_text().split(",")[-2]
    assert FittedModel.load("model.safetensors", allow_code=True).encoder.n_floats == 2
    Path("own_places.py").write_text(OWN.replace(", atom.GetMass()", ""))
    sys.modules.pop("own_places")
    assert run("predict", "model.safetensors", "molecules.csv", "--out", "again.csv", "--allow-code") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "featurizer own_places:places gives [1, 0] columns for atoms and bonds; at training it gave [2, 0]" in error
    assert run("data", "import", "molecules.csv", "--featurizer", "own_places:none", "--out", "other") == 2
    assert run("data", "import", "solubility", "--threshold", "1", "--out", "other") == 2


def test_descriptors_from_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split(",") for line in Path("molecules.csv").read_text().split()[1:]]
    lines = [f"{smiles},{y},{number if number != 5 else ''}" for number, (smiles, y) in enumerate(rows)]
    Path("described.csv").write_text("\n".join(["smiles,active,tpsa", *lines]))
    assert run("data", "import", "described.csv", "--label", "active", "--out", "set") == 0
    assert run("train", "set", "--descriptors", "tpsa", "--out", "gap", *SMALL) == 2
    assert "column 'tpsa' has no value in 1 graph, first in graph 5; impute=mean" in capsys.readouterr().err
    fitted = ["fit", "set", "--descriptors", "tpsa", "--impute", "mean", "--out", "model.safetensors"]
    assert run(*fitted, *SMALL) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "column 'tpsa' has no value in 1 graph; the mean of the training graphs is used" in said
    assert run("data", "import", "described.csv", "--unlabelled", "--out", "new") == 0
    assert run("predict", "model.safetensors", "new", "--out", "rows.csv") == 0
    assert run("predict", "model.safetensors", "described.csv", "--keep", "active", "--out", "direct.csv") == 0
    rows = [list(csv.DictReader(Path(name).read_text().splitlines())) for name in ("rows.csv", "direct.csv")]
    assert [row["p(1)"] for row in rows[0]] == [row["p(1)"] for row in rows[1]]
    assert [row["active"] for row in rows[1]] == [y for _, y, *_ in (line.split(",") for line in lines)]
    changed = Path("described.csv").read_text().replace("CCO,0,0", "CCO,0,900").replace("CCN,1,1", "CCN,1,many")
    Path("changed.csv").write_text(changed)
    assert run("predict", "model.safetensors", "changed.csv", "--out", "other.csv") == 0
    other = list(csv.DictReader(Path("other.csv").read_text().splitlines()))
    assert other[0]["p(1)"] != rows[0][0]["p(1)"]
    assert other[1]["reason"] == "column 'tpsa' is 'many', not a finite number"
    assert run("evaluate", "model.safetensors", "described.csv", "--label", "active") == 0


def test_descriptor_columns_that_a_table_lacks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("molecules.csv").read_text().split()
    named = [lines[0] + ",one,two", *(f"{line},{number},{number % 3}" for number, line in enumerate(lines[1:]))]
    Path("described.csv").write_text("\n".join(named))
    assert run("data", "import", "described.csv", "--label", "active", "--out", "set") == 0
    assert run("data", "import", "molecules.csv", "--out", "plain") == 0
    assert run("fit", "set", "--descriptors", "one,two", "--out", "model.safetensors", *SMALL) == 0
    capsys.readouterr()
    for source, lacks in (("molecules.csv", "its columns: smiles, active"), ("plain", "it has no table of columns")):
        for command in (["predict"], ["evaluate", "--label", "active"]):
            assert run(*command, "model.safetensors", source) == 2
            error = " ".join(capsys.readouterr().err.split())
            assert f"has no descriptor columns 'one', 'two'; {lacks}" in error
    Path("new.sdf").write_text(
        "ethanol\n  x\n\n  1  0  0  0  0  0            999 V2000\n"
        "    0.0000    0.0000    0.0000 C   0  0\nM  END\n> <one>\n3\n\n> <two>\n1\n\n$$$$\n"
    )
    assert run("predict", "model.safetensors", "new.sdf", "--out", "rows.csv") == 0
    (row,) = csv.DictReader(Path("rows.csv").read_text().splitlines())
    assert row["id"] == "ethanol"
    assert 0.0 < float(row["p(1)"]) < 1.0
    Path("new.sdf").write_text(Path("new.sdf").read_text().replace("> <two>\n1\n\n", "> <two>\n\n"))
    assert run("predict", "model.safetensors", "new.sdf", "--out", "rows.csv") == 0
    assert "column 'two' has no value" in Path("rows.csv").read_text()


def test_descriptors_and_fingerprints_of_molecules(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("data", "import", "molecules.csv", "--out", "set") == 0
    both = ["--rdkit-descriptors", "--fingerprints", "64"]
    assert run("fit", "set", *both, "--out", "model.safetensors", *SMALL) == 0
    described = FittedModel.load("model.safetensors").encoder.descriptors
    assert described is not None
    assert (described.width, described.bits) == (len(described.rdkit) + 64, 64)
    assert run("predict", "model.safetensors", "molecules.csv", "--out", "table.csv") == 0
    assert run("predict", "model.safetensors", "set", "--out", "saved.csv") == 0
    tables = [list(csv.DictReader(Path(name).read_text().splitlines())) for name in ("table.csv", "saved.csv")]
    assert [row["p(1)"] for row in tables[0]] == [row["p(1)"] for row in tables[1]]
    capsys.readouterr()
    for option in (["--rdkit-descriptors"], ["--fingerprints", "64"]):
        assert run("train", "motifs", *option, *SMALL) == 2
        name = option[0][2:].replace("-", "_")
        assert f"{name} needs molecules, and motifs is not a set of molecules" in capsys.readouterr().err


def test_the_featurizer_is_for_molecules(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "motifs", "--featurizer", "atoms-and-bonds", *SMALL) == 2
    assert "motifs has no atom and bond features: it was not imported from molecules" in capsys.readouterr().err
