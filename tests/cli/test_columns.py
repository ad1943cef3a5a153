"""Options that name a column of imported data: weights and times."""

import json
from pathlib import Path

import numpy as np
import pytest

from cgipool import load_dataset, train
from cgipool.cli import main
from cgipool.data import read_splits
from cgipool.study.cell import Protocol
from cgipool.study.compare import comparison
from cgipool.training.presets import recipe_named

QUICK = ["--method", "none", "--recipe", "paper", "--epochs", "2", "--width", "8"]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A saved set of 40 rings and paths with years and weights."""
    source = tmp_path / "source"
    source.mkdir()
    graphs, edges = ["graph,label,year,trust"], ["graph,source,target"]
    for i in range(40):
        graphs.append(f"g{i},{'ring' if i % 2 else 'path'},{1980 + i * 7 % 40},{1 + i % 3}")
        size = 4 + i % 5
        edges += [f"g{i},{j},{j + 1}" for j in range(size)] + ([f"g{i},0,{size}"] if i % 2 else [])
    (source / "graphs.csv").write_text("\n".join(graphs) + "\n")
    (source / "edges.csv").write_text("\n".join(edges) + "\n")
    assert main(["data", "import", str(source), "--out", str(tmp_path / "mine")]) == 0
    return tmp_path / "mine"


def test_train_by_time_with_weights(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = tmp_path / "run"
    command = ["train", str(mine), "--time", "year", "--sample-weight", "trust", "--splits", "2", *QUICK]
    assert main([*command, "--out", str(run), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["splits"] == 2
    year = np.array(load_dataset(mine).column("year"), int)
    for split in read_splits(run / "splits.json", 40):
        assert year[split.train].max() < year[split.val].min() <= year[split.val].max() < year[split.test].min()
    weight = np.array(load_dataset(mine).column("trust"), float)
    same = {
        "method": "none",
        "recipe": "paper",
        "epochs": 2,
        "width": 8,
        "splits": 2,
        "split_kind": "time",
        "time": "year",
    }
    by_array = train(str(mine), sample_weight=weight, **same)
    by_name = train(str(mine), sample_weight="trust", **same)
    assert [row["val_loss"] for row in by_name.rows] == [row["val_loss"] for row in by_array.rows]
    saved = [json.loads(path.read_text())["val_loss"] for path in sorted(run.glob("*/result.json"))]
    assert saved == [row["val_loss"] for row in by_array.rows]
    unweighted = train(str(mine), **same)
    assert by_array.rows[0]["val_loss"] != unweighted.rows[0]["val_loss"]


def test_fit_with_weights(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "model.safetensors"
    assert main(["fit", str(mine), "--sample-weight", "trust", "--out", str(out), *QUICK]) == 0
    assert out.exists()
    capsys.readouterr()
    for options, message in (
        (["--sample-weight", "mass"], "source has no column 'mass'; its columns: year, trust"),
        (
            ["--sample-weight", "trust", "--time", "year", "--split-kind", "random"],
            "--split-kind random does not use --t",
        ),
        (["--split-kind", "time"], "--split-kind time needs --time COLUMN"),
    ):
        assert main(["train", str(mine), *options, *QUICK]) == 2
        assert message in capsys.readouterr().err


def test_compare_knows_its_columns(mine: Path, tmp_path: Path) -> None:
    recipe = recipe_named("paper").but(epochs=1, width=8)
    graphs = load_dataset(mine)
    plain, timed, weighed = (
        comparison(graphs, str(mine), ["none"], recipe, 2, kind, 0, time=time, sample_weight=weight).cells[0]
        for kind, time, weight in (("random", "", ""), ("time", "year", ""), ("random", "", "trust"))
    )
    assert len({plain.key, timed.key, weighed.key}) == 3
    assert "time" not in plain.config
    assert "sample_weight" not in plain.config
    assert "--time year" in timed.command("cpu")
    assert "--sample-weight trust" in weighed.command("cpu")
    table = graphs.column("year")
    assert Protocol(time="year", split_kind="time").draw(graphs)[0].test.tolist() == sorted(
        int(i) for i in np.argsort(np.array(table, int))[-4:]
    )
    command = ["compare", str(mine), "--methods", "none,majority", "--time", "year", "--sample-weight", "trust"]
    options = [
        "--splits",
        "1",
        "--epochs",
        "1",
        "--width",
        "8",
        "--recipe",
        "paper",
        "--store",
        str(tmp_path / "store"),
    ]
    assert main([*command, *options]) == 0
