"""`train`, `fit` and `compare` take a table directly: it is imported into the cache once."""

from pathlib import Path

import pytest

from cgipool.cli import main
from cgipool.data.importers import ImportOptions, read

pytest.importorskip("rdkit")

SMILES = ["C" * n for n in range(1, 21)] + ["O" + "C" * n for n in range(1, 21)]
SMALL = ["--method", "none", "--set", "width=8", "--set", "epochs=2"]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CGIPOOL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "mine.csv"
    rows = (f"{smiles},{len(smiles) / 2},{'alcohol' if 'O' in smiles else 'alkane'}" for smiles in SMILES)
    path.write_text("smiles,half,kind\n" + "\n".join(rows) + "\n")
    return path


def test_train_imports_a_table_once(table: Path, capsys: pytest.CaptureFixture) -> None:
    command = ["train", str(table), "--label", "half", *SMALL]
    assert main(command) == 0
    first = capsys.readouterr()
    assert "imported 40 graphs" in first.err
    assert "task regression" in first.err
    assert main(command) == 0
    second = capsys.readouterr()
    assert "read from the cache" in second.err

    def metrics(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith(("RMSE", "MAE", "Spearman"))]

    assert metrics(first.out) == metrics(second.out) != []


def test_another_label_or_another_content_is_another_set(table: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["train", str(table), "--label", "half", *SMALL]) == 0
    assert main(["train", str(table), "--label", "kind", *SMALL]) == 0
    table.write_text(table.read_text() + "CN,1.5,alkane\n")
    assert main(["train", str(table), "--label", "kind", *SMALL]) == 0
    assert "imported 41 graphs" in capsys.readouterr().err
    assert len(list((table.parent / "cache" / "imported").iterdir())) == 3


def test_a_damaged_entry_is_imported_again(table: Path, capsys: pytest.CaptureFixture) -> None:
    options = ImportOptions(label="kind")
    entry, saved = read.import_cached(table, options)
    assert saved is not None
    next(entry.glob("*.npy")).write_bytes(b"")
    again, saved = read.import_cached(table, options)
    assert (again, saved is not None) == (entry, True)
    assert read.import_cached(table, options) == (entry, None)


def test_fit_and_predict_from_tables(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    model = tmp_path / "model.safetensors"
    assert main(["fit", str(table), "--label", "kind", "--out", str(model), *SMALL]) == 0
    assert main(["predict", str(model), str(table), "--out", str(tmp_path / "predictions.csv")]) == 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 41


def test_compare_takes_a_table(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    command = ["compare", str(table), "--label", "kind", "--methods", "none,majority", "--splits", "2"]
    assert main([*command, "--set", "width=8", "--set", "epochs=2", "--store", str(tmp_path / "store")]) == 0
    assert "ECFP" in capsys.readouterr().out


def test_options_of_tables_need_a_table(capsys: pytest.CaptureFixture) -> None:
    assert main(["train", "motifs", "--label", "y"]) == 2
    assert "--label says how to read a table" in capsys.readouterr().err
    assert main(["fit", "nowhere.csv", "--label", "y"]) == 2
    assert "there is no data set at nowhere.csv" in capsys.readouterr().err


def test_a_column_that_is_not_there_is_one_line(table: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["train", str(table), "--label", "nothing"]) == 2
    error = capsys.readouterr().err
    assert "nothing" in error
    assert "Traceback" not in error
