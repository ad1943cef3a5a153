"""What `predict` reads: tables in every form, SDF, standard input; ids, kept columns and import options."""

import csv
import gzip
import io
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("rdkit")

from rdkit import Chem

from cgipool import GraphClassifier, GraphSet, load_dataset
from cgipool.cli import main
from cgipool.data.importers.lines import Asked
from cgipool.errors import UserError
from cgipool.inference.predict_input import position_of

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = ("--set", "width=8", "--set", "epochs=2", "--method", "topk")
SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "C1CC1", "CCN", "CCC", "CCCC", "C1CCC1", "COC", "CS", "CCS", "CCl"]
NEW = {"m-a": "CCCO", "m-b": "c1ccccc1C", "m-c": "CCBr"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    rows = "".join(f"{s},{'dry' if i % 2 else 'wet'}\n" for i, s in enumerate(SMILES))
    (folder / "train.csv").write_text(f"smiles,label\n{rows}")
    assert main(["data", "import", str(folder / "train.csv"), "--out", str(folder / "train")]) == 0
    assert main(["fit", str(folder / "train"), "--out", str(folder / "m.safetensors"), *TINY]) == 0
    return folder / "m.safetensors"


def predicted(model: Path, data: object, capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, str]]:
    capsys.readouterr()
    assert main(["predict", str(model), str(data), *options]) == 0, capsys.readouterr().err
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_every_form_of_table_gives_the_same(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{smiles},{name}" for name, smiles in NEW.items()]
    table = "\n".join(["smiles,Compound ID", *lines, ""])
    smi = "".join(f"{smiles} {name}\n" for name, smiles in NEW.items())
    contents = {
        "new.csv": table.encode(),
        "new.tsv": table.replace(",", "\t").encode(),
        "new16.csv": table.encode("utf-16"),
        "new.csv.gz": gzip.compress(table.encode()),
        "new.smi": smi.encode(),
        "headed.smi": b"SMILES Name\n" + smi.encode(),
        "comma.smi": table.encode(),
        "new.smi.gz": gzip.compress(smi.replace(" ", "\t").encode()),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    pq.write_table(pa.table({"smiles": list(NEW.values()), "compound_id": list(NEW)}), tmp_path / "new.parquet")
    with Chem.SDWriter(str(tmp_path / "new.sdf")) as writer:
        for name, smiles in NEW.items():
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("_Name", name)
            writer.write(molecule)
    expected = predicted(model, tmp_path / "new.csv", capsys)
    assert [row["id"] for row in expected] == list(NEW)
    for name in (*contents, "new.parquet", "new.sdf"):
        assert predicted(model, tmp_path / name, capsys) == expected, name
        last = predicted(model, tmp_path / name, capsys, "--shard", "1/2")
        assert last == expected[: len(last)]


@pytest.mark.parametrize("form", ["csv", "smi", "sdf", "gz", "parquet"])
def test_standard_input(model: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = "id,smiles\n" + "".join(f"{name},{smiles}\n" for name, smiles in NEW.items())
    (tmp_path / "new.csv").write_text(table)
    pq.write_table(pa.table({"smiles": list(NEW.values()), "id": list(NEW)}), tmp_path / "new.parquet")
    blocks = (f"{name}{Chem.MolToMolBlock(Chem.MolFromSmiles(smiles))}$$$$\n" for name, smiles in NEW.items())
    content = {
        "csv": table.encode(),
        "smi": "".join(f"{smiles}\t{name}\n" for name, smiles in NEW.items()).encode(),
        "sdf": "".join(blocks).encode(),
        "gz": gzip.compress(table.encode()),
        "parquet": (tmp_path / "new.parquet").read_bytes(),
    }[form]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        found = predicted(model, "-", capsys)
    assert found == predicted(model, tmp_path / "new.csv", capsys)


def test_what_standard_input_is_not_for(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(model), "-", "--shard", "1/2"]) == 2
    assert "standard input cannot be used with --shard or --on" in capsys.readouterr().err
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        assert main(["predict", str(model), "-"]) == 2
    assert "is empty" in capsys.readouterr().err


HEADERS = ["id", "ID", "Compound ID", "compound_id", "CompoundId", "Molecule ChEMBL ID", "mol-name", "Name"]


@pytest.mark.parametrize("header", HEADERS)
def test_usual_names_of_id_columns(header: str, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(f"active,{header},Canonical SMILES\n1,first,C\n0,second,CC\n")
    assert main(["data", "import", str(tmp_path / "new.csv"), "--label", "active", "--out", str(tmp_path / "set")]) == 0
    ids = load_dataset(tmp_path / "set").graph_ids
    assert ids is not None
    assert list(ids) == ["first", "second"]


def test_an_id_column_of_any_name(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.csv"
    path.write_text("smiles,batch,label\nC,first,0\nCC,second,1\nCCC,,1\n")
    arguments = ["data", "import", str(path), "--label", "label", "--out", str(tmp_path / "set")]
    assert main(arguments) == 0
    assert "no id column was found (smiles, batch, label)" in capsys.readouterr().out
    assert [row["id"] for row in predicted(model, tmp_path / "set", capsys)] == ["0", "1", "2"]
    assert main(["predict", str(model), str(path)]) == 0
    said = capsys.readouterr()
    assert "no id column was found (smiles, batch, label), so graphs are numbered from 0" in said.err
    assert [line.split(",")[0] for line in said.out.splitlines()] == ["id", "0", "1", "2"]
    assert [row["id"] for row in predicted(model, path, capsys, "--id", "batch")] == ["first", "second", "2"]
    assert main([*arguments, "--id", "batch"]) == 0
    assert "no id column" not in capsys.readouterr().out
    assert [row["id"] for row in predicted(model, tmp_path / "set", capsys)] == ["first", "second", "2"]
    assert main([*arguments, "--id", "lot"]) == 2
    assert "has no column 'lot'" in capsys.readouterr().err


def test_columns_are_passed_through(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.csv"
    path.write_text('id,smiles,logS,note\na,C,-1.5,"x, ""y"""\nb,nonsense,2,=cmd()\n')
    rows = predicted(model, path, capsys, "--keep", "logS", "--keep", "note")
    assert [(row["logS"], row["note"]) for row in rows] == [("-1.5", 'x, "y"'), ("2", "'=cmd()")]
    assert rows[1]["reason"]
    every = predicted(model, path, capsys, "--keep", "all")
    assert (every[0]["input id"], every[0]["smiles"], every[1]["smiles"]) == ("a", "C", "nonsense")
    assert main(["predict", str(model), str(path), "--keep", "note", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["input"] for line in lines] == [{"note": 'x, "y"'}, {"note": "=cmd()"}]
    assert main(["predict", str(model), str(path), "--keep", "colour"]) == 2
    assert "has no column 'colour' to keep" in capsys.readouterr().err
    arguments = ["data", "import", str(path), "--unlabelled", "--out", str(tmp_path / "set")]
    assert main(arguments) == 0
    (kept,) = predicted(model, tmp_path / "set", capsys, "--keep", "smiles", "--keep", "row")
    assert (kept["id"], kept["smiles"], kept["row"]) == ("a", "C", "1")
    load_dataset(tmp_path / "set").save(tmp_path / "plain")
    assert [row["id"] for row in predicted(model, tmp_path / "plain", capsys)] == ["a"]
    assert main(["predict", str(model), str(tmp_path / "plain"), "--keep", "smiles"]) == 2
    assert "has no column 'smiles' to keep; its columns: logS, note" in capsys.readouterr().err


def test_the_graph_that_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("id,smiles\n2,C\nb,CC\nb,CCC\n0,CCCC\n,CO\n4,CN\n")
    main(["data", "import", str(path), "--unlabelled", "--out", str(tmp_path / "set")])
    for place in (path, tmp_path / "set"):
        assert [position_of(place, text) for text in ("2", "0", "1", "4", "77")] == [0, 3, 1, 5, 77]
        with pytest.raises(UserError, match=r"several graphs of .* have the id 'b'.* 1 and 2"):
            position_of(place, "b")
        for text in ("c", "-1", "1.0", "", "٣", "9" * 30):
            with pytest.raises(UserError, match=r"has the id .*, and it is not a position, counted from 0"):
                position_of(place, text)
    assert position_of(path, "CCCC", Asked(id="smiles")) == 3
    assert position_of("motifs", "5") == 5


def test_a_set_imported_in_another_way(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.csv").write_text("smiles\nCCO.Cl\n")
    arguments = ["data", "import", str(tmp_path / "new.csv"), "--unlabelled", "--out", str(tmp_path / "set")]
    assert main([*arguments, "--largest-fragment"]) == 0
    assert main(["predict", str(model), str(tmp_path / "set")]) == 2
    said = capsys.readouterr().err
    assert "imported with --largest-fragment, the model's training set without it: import it again without" in said
    assert main(["explain", str(model), str(tmp_path / "set"), "--graph", "0"]) == 2
    assert "imported with --largest-fragment" in capsys.readouterr().err
    assert main(arguments) == 0
    assert main(["predict", str(model), str(tmp_path / "set")]) == 0
    features = tmp_path / "set" / "features.json"
    features.write_text(features.read_text().replace('"rdkit": "', '"rdkit": "0'))
    assert main(["predict", str(model), str(tmp_path / "set")]) == 0


def test_the_featurizer_travels_with_the_set(model: Path, tmp_path: Path) -> None:
    graphs = load_dataset(model.parent / "train")
    fitted = GraphClassifier(method="topk", width=8, epochs=2).fit(graphs)
    assert fitted.predict(["CCO"]).shape == (1,)
    assert fitted.model_.featurizer == graphs.featurizer
    graphs.subset(range(11)).save(tmp_path / "part")
    again = GraphClassifier(method="topk", width=8, epochs=2).fit(GraphSet.load(tmp_path / "part"))
    assert again.predict_proba(["CCO", "C"]).shape == (2, 2)


def test_a_molecule_too_large_has_a_row(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.csv"
    path.write_text(f"id,smiles\na,C\nb,C1{'C' * 20000}1\n")
    rows = predicted(model, path, capsys)
    assert "at most 3,000 are read" in rows[1]["reason"]
    assert rows[0]["prediction"]
    rows = predicted(model, path, capsys, "--max-atoms", "1")
    assert rows[0]["prediction"]


def test_a_pipe_is_not_read(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "new.csv")
    assert main(["predict", str(model), str(tmp_path / "new.csv")]) == 2
