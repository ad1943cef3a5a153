"""Synthetic stores, written as plain JSON in the format of cgipool.study.records."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.study.records import key_of
from cgipool.study.stored import FORMAT

METHODS = {
    "set2set": "Set2Set",
    "dgcnn": "DGCNN",
    "diffpool": "DiffPool",
    "topk": "TopKPool",
    "sag": "SAGPool",
    "asap": "ASAP",
    "vip": "VIPool",
    "cgi": "CGIPool",
}
DATASETS = {
    "NCI1": 76.0,
    "NCI109": 75.0,
    "Mutagenicity": 79.0,
    "IMDB-BINARY": 72.0,
    "IMDB-MULTI": 50.0,
    "COLLAB": 79.0,
    "PROTEINS": 73.0,
}
"""With the accuracy, in percent, that a synthetic cell is drawn around."""
GRAPHS = {"train": 880, "val": 110, "test": 110}


def cell_of(at: Mapping[str, Any], splits: int = 20) -> dict[str, Any]:
    """What determines a cell."""
    recipe = {"name": "paper", "conv": "gcn", "width": 128, "ratio": 0.8, "alpha": 0.001, "epochs": 1000}
    recipe |= {name: value for name, value in at.items() if name in recipe}
    seeds = {"seed": 0, "splits": splits, "first": 0, "split_kind": "random", "ensemble": 1}
    return {"method": at["method"], "dataset": at["dataset"], "recipe": recipe} | seeds


def curve_of(rng: np.random.Generator, epochs: int) -> dict[str, list[float]]:
    """A course of training that falls and then rises a little."""
    epoch = np.arange(1, epochs + 1)
    train = 0.35 + 0.35 * np.exp(-epoch / 15) + 0.01 * rng.standard_normal(epochs)
    val = 0.50 + 0.2 * np.exp(-epoch / 10) + 0.001 * epoch + 0.015 * rng.standard_normal(epochs)
    accuracy = 0.75 - 0.2 * np.exp(-epoch / 12) + 0.01 * rng.standard_normal(epochs)
    values = {"train_loss": train, "val_loss": val, "val_accuracy": accuracy}
    return {"epoch": epoch.tolist()} | {name: np.round(value, 5).tolist() for name, value in values.items()}


def split_of(rng: np.random.Generator, number: int, accuracy: float) -> dict[str, Any]:
    """The result of one split."""
    epochs = int(rng.integers(50, 70))
    curve = curve_of(rng, epochs)
    best = int(np.argmin(curve["val_loss"]))
    test = {"accuracy": accuracy, "balanced_accuracy": accuracy - 0.01, "mcc": 2 * accuracy - 1}
    return {
        "split": number,
        "epochs": epochs,
        "best_epoch": curve["epoch"][best],
        "val_loss": curve["val_loss"][best],
        "test": test | {"roc_auc": accuracy + 0.05, "pr_auc": None},
        "graphs": GRAPHS,
        "parameters": 103_042,
        "seconds": 12.5,
        "curve": curve,
        "diagnostics": {"kept_share": [0.8, 0.64, 0.51], "mi_loss": rng.uniform(0.5, 1.4, 3).round(4).tolist()},
    }


def record_of(at: Mapping[str, Any], percent: float, splits: int = 20) -> dict[str, Any]:
    """A finished cell with accuracies around a percentage; split i is as hard for every method."""
    cell = cell_of(at, splits)
    key = key_of(cell)
    rng = np.random.default_rng(int(key, 16) % 2**32)
    hard = np.random.default_rng(7).standard_normal(splits)
    shares = np.round((percent + 2.5 * hard + 1.0 * rng.standard_normal(splits)) / 100, 4)
    rows = [split_of(rng, number, float(share)) for number, share in enumerate(shares)]
    provenance = {
        "command": f"cgipool train {at['dataset']} --method {at['method']} --splits {splits} --device cuda",
        "versions": {"cgipool": "0.1.0", "torch": "2.13.0", "numpy": "2.4.6", "python": "3.12.1"},
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "device": "cuda: NVIDIA H200",
        "precision": "tf32",
        "started": "2025-01-02T03:04:05+00:00",
        "finished": "2025-01-02T03:09:15+00:00",
        "seconds": 310.0,
        "data": "sha256:8d1f",
        "splits": "sha256:77aa",
    }
    return {"format": FORMAT, "key": key, "cell": cell, "splits": rows, "provenance": provenance}


def write(path: Path, value: Any) -> Path:
    """Write a file of a store."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def add_study(
    store: Path,
    name: str,
    axes: Mapping[str, Sequence[Any]],
    *,
    curves: str | None = None,
    baseline: str | None = "cgi",
    published: Mapping[tuple[Any, ...], tuple[float, float | None]] | None = None,
    **words: str,
) -> list[dict[str, Any]]:
    """Write a study and return the cells it wants, each with its place on the axes."""
    cells = []
    for values in itertools.product(*axes.values()):
        at = dict(zip(axes, values, strict=True))
        found = (published or {}).get(values)
        cells.append({"key": key_of(cell_of(at)), "at": at, "published": found})
    study = {
        "format": FORMAT,
        "name": name,
        "title": words.get("title", f"The study {name}"),
        "about": words.get("about", "Accuracy over 20 random splits, 80/10/10."),
        "source": words.get("source", "Table 1 of the paper"),
        "axes": {axis: list(values) for axis, values in axes.items()},
        "titles": {"method": METHODS},
        "curves": curves,
        "baseline": baseline,
        "cells": cells,
    }
    write(store / "studies" / f"{name}.json", study)
    return cells


def add_cell(store: Path, at: Mapping[str, Any], percent: float, splits: int = 20) -> Path:
    """Write a finished cell."""
    record = record_of(at, percent, splits)
    return write(store / "cells" / f"{record['key']}.json", record)


def fail(store: Path, at: Mapping[str, Any], reason: str) -> Path:
    """Replace a cell by the record of its failure."""
    key = key_of(cell_of(at))
    (store / "cells" / f"{key}.json").unlink(missing_ok=True)
    return write(store / "failed" / f"{key}.json", {"reason": reason})


def level_of(at: Mapping[str, Any]) -> float:
    """The accuracy that a synthetic cell is drawn around: later methods are better, a high ratio and a small α too."""
    better = 0.5 * list(METHODS).index(at["method"])
    alpha = at.get("alpha", 0.001)
    return DATASETS[at["dataset"]] + better + 4 * at.get("ratio", 0.8) - (3.2 if alpha < 0.1 else 4.2)


def add_table(store: Path, name: str = "table1", methods: int = 8, datasets: int = 7, cells: bool = True) -> None:
    """A study of methods × data sets with published numbers, all of its cells finished."""
    axes = {"method": list(METHODS)[-methods:], "dataset": list(DATASETS)[:datasets]}
    published = {
        (m, d): (round(DATASETS[d] + 0.6 * i, 2), 1.1)
        for i, m in enumerate(axes["method"])
        for d in axes["dataset"]
        if d != "COLLAB" or m != "dgcnn"
    }
    wanted = add_study(store, name, axes, published=published, title="Graph classification, eight methods")
    for cell in wanted if cells else []:
        add_cell(store, cell["at"], level_of(cell["at"]))


def add_ratios(store: Path) -> None:
    """A study of curves over the pooling ratio."""
    axes = {"method": ["topk", "sag", "asap", "cgi"], "dataset": ["NCI1", "IMDB-MULTI"], "ratio": [0.2, 0.4, 0.6, 0.8]}
    for cell in add_study(store, "figure3", axes, curves="ratio", title="Accuracy by pooling ratio"):
        add_cell(store, cell["at"], level_of(cell["at"]))


def add_alphas(store: Path) -> None:
    """A study of curves over α, of one method, 0 included."""
    axes = {"method": ["cgi"], "dataset": ["NCI1", "PROTEINS"], "alpha": [0, 0.0001, 0.001, 0.01, 0.1, 1]}
    for cell in add_study(store, "alpha", axes, curves="alpha", title="The weight α of the mutual information"):
        add_cell(store, cell["at"], level_of(cell["at"]))


def full_store(store: Path) -> Path:
    """Three studies; in the table one cell failed, with markup in its reason, and one is missing."""
    add_table(store)
    add_ratios(store)
    add_alphas(store)
    fail(store, {"method": "diffpool", "dataset": "COLLAB"}, "out of memory: <script>alert('no')</script> & more")
    (store / "cells" / f"{key_of(cell_of({'method': 'asap', 'dataset': 'PROTEINS'}))}.json").unlink()
    return store
