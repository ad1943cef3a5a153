"""Saved sets, run folders and model files of an earlier version are read, continued and give the same numbers."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from cgipool import GraphClassifier, GraphSet, load_dataset
from cgipool.cli import main
from cgipool.training.checkpoint import load_tensors

FILES = Path(__file__).parent / "written_before"
SMALL = ["--set", "width=4", "--set", "epochs=3"]


def test_saved_sets_are_read() -> None:
    graphs = GraphSet.load(FILES / "set")
    motifs = load_dataset("motifs").subset(np.arange(0, 1000, 25))
    for name in ("node_ptr", "edge_ptr", "edge_disp", "y", "node_truth"):
        np.testing.assert_array_equal(getattr(graphs, name), getattr(motifs, name))
    molecules = load_dataset(FILES / "molecules")
    assert (len(molecules), molecules.class_names) == (20, ("alcohol", "alkane"))


def test_a_run_is_continued_with_the_same_weights(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(FILES / "run", run)
    shutil.rmtree(run / "split-001")
    (run / "result.json").unlink()
    command = ["train", str(FILES / "set"), "--method", "cgi", "--splits", "2", "--out", str(run), "--resume"]
    assert main([*command, *SMALL]) == 0
    for split in ("split-000", "split-001"):
        before = load_tensors(FILES / "run" / split / "weights.safetensors")[0]
        after = load_tensors(run / split / "weights.safetensors")[0]
        assert before.keys() == after.keys()
        for name, value in before.items():
            # Another machine may add in another order; on one machine the bits are equal.
            np.testing.assert_allclose(after[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-6)


def test_a_model_file_gives_the_same_predictions(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    out = tmp_path / "predictions.csv"
    model = FILES / "model.safetensors"
    assert main(["predict", str(model), str(FILES / "mol.csv"), "--out", str(out)]) == 0
    before, after = (
        list(csv.DictReader(path.read_text(encoding="utf-8").splitlines())) for path in (FILES / "predictions.csv", out)
    )
    assert [row["id"] for row in before] == [row["id"] for row in after]
    for name in ("alkane", "alcohol"):
        column = next(key for key in before[0] if name in key)
        old, new = ([float(row[column]) for row in rows] for rows in (before, after))
        np.testing.assert_allclose(new, old, atol=1e-6)
    estimator = GraphClassifier.load(model)
    assert estimator.classes_.tolist() == ["alcohol", "alkane"]
