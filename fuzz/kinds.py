"""What is damaged, which commands then read it, and what they may answer."""

import csv
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cgipool.training.checkpoint import digest_of, load_tensors, save_tensors

from . import mutate
from .mutate import Rng, pick
from .seeds import TRAIN

Mutate = Callable[[Rng, Path], Path]
"""Damages one file of a folder; which one."""

Words = list[str]
Commands = Callable[[Rng, Path, Path], list[Words]]
"""The commands that read a damaged folder; the last argument is the folder `shared` with sound files."""

Answer = Callable[[Path, list[str]], Any]
"""What came of it, from the folder and what the commands printed, to be compared with what sound files give."""


def equal(found: Any, expected: Any) -> bool:
    """The same answer."""
    return found == expected


def among(found: Any, expected: Any) -> bool:
    """Rows left out, as those of a damaged cell are, but none that is wrong."""
    return set(found) <= set(expected)


def among_and_told(found: Any, expected: Any) -> bool:
    """Likewise, of a store: what is left out is told."""
    (rows, told), (every, _) = found, expected
    return among(rows, every) and (told or len(rows) == len(every))


@dataclass(frozen=True)
class Kind:
    """A kind of case."""

    seed: str
    """The folder of seeds.py that is damaged."""
    mutate: Mutate
    commands: Commands
    share: float = 1.0
    """Of the cases, beside those of other kinds."""
    answer: Answer | None = None
    """None: what is read has no digest, so that damage may give other data."""
    agrees: Callable[[Any, Any], bool] = equal
    covered: Callable[[Path], bool] = lambda file: True
    """Whether a digest or other redundancy covers a file, so that damage to it must not change the answer."""
    codes: tuple[int, ...] = (0, 1)
    """Exit codes of a command that accepted what it read."""


CHANGES = {
    ".zip": mutate.archive(mutate.text),
    ".json": mutate.json_text,
    ".jsonl": mutate.text,
    ".npy": mutate.array,
    ".safetensors": mutate.tensors,
    ".pt": mutate.archive(mutate.raw),
}
"""How the files with an ending are damaged; others as text."""


def one_of(*patterns: str) -> Mutate:
    """Damage one of the files that match."""

    def change(rng: Rng, folder: Path) -> Path:
        file = pick(rng, sorted(file for pattern in patterns for file in folder.glob(pattern) if file.is_file()))
        how = mutate.raw if rng.random() < 0.3 else CHANGES.get(file.suffix, mutate.text)
        _replace(file, how(rng, file.read_bytes()))
        return file

    return change


def _replace(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def _forged_model(rng: Rng, folder: Path) -> Path:
    """Another description, or other tensors, with checksums that fit."""
    file = folder / "model.safetensors"
    tensors, header = load_tensors(file)
    plain = json.loads(header["model"])
    if rng.random() < 0.8:
        plain = mutate.value(rng, plain)
        if rng.random() < 0.3 and isinstance(plain, dict) and isinstance(plain.get("recipe"), dict):
            name = pick(rng, ("width", "levels", "ratio", "conv", "norm", "readout"))
            plain["recipe"][name] = pick(rng, (20_000, 10**9, 2**62, 0, -1, 0.5, "gin", "batch", "sum", True))
    else:
        name = pick(rng, sorted(tensors))
        tensors[name] = pick(
            rng, (tensors[name][:0], tensors[name].double(), torch.full_like(tensors[name], torch.nan))
        )
    text = json.dumps(plain)
    header |= {"model": text, "checksum": digest_of(tensors, text)}
    save_tensors(file, tensors, header)
    return file


def _pyg(rng: Rng, folder: Path) -> Path:
    file = folder / "data.pt"
    if rng.random() < 0.4:
        return one_of("data.pt")(rng, folder)
    data = torch.load(file, weights_only=True)
    graph = pick(rng, data)
    name = pick(rng, ("edge_index", "num_nodes", "y", "x", "edge_attr", "new"))
    odd = (None, -1, 10**12, 2**70, "text", [1, 2], torch.zeros(0), torch.ones(2, 2), torch.tensor([[0], [10**12]]))
    odd += (torch.tensor([[0, -5], [1, 0]]), torch.tensor(float("nan")), torch.tensor([float("inf")]), {}, float("nan"))
    odd += (torch.sparse_coo_tensor([[0], [0]], [1.0], (2, 2)), torch.ones(2, 1, dtype=torch.complex64))
    graph[name] = pick(rng, odd)
    torch.save(data if rng.random() < 0.8 else pick(rng, (graph, {}, [], (graph, {}), [data])), file)
    return file


def _claims(rng: Rng, folder: Path) -> Path:
    """A cell that is missing, and an odd claim on it."""
    store = folder / "store"
    cell = pick(rng, sorted((store / "cells").glob("*.json")))
    cell.unlink()
    claim = {"token": "ab12", "host": "elsewhere", "boot": "", "pid": 12, "since": "2020-01-01T00:00:00+00:00"}
    name = pick(rng, (f"{cell.stem}.json", f"{cell.stem}.json", f"{cell.stem}.after-ab12", "x.json", "a\x1b[31m.json"))
    file = store / "claims" / name
    content = mutate.json_text(rng, json.dumps(claim).encode()) if rng.random() < 0.9 else b""
    file.write_bytes(content)
    stamp = time.time() + float(pick(rng, (0, -60, -1000, 1000, 10**9)))
    os.utime(file, (stamp, stamp))
    return file


def _rows(file: Path) -> list[tuple[str, ...]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [tuple(row) for row in csv.reader(stream)]


def _exported(folder: Path, said: list[str]) -> tuple[list[tuple[str, ...]], bool]:
    """What the table of a store says of its cells, and whether `study status` tells of damage. Which study a cell is of
    and what was published are left out: a study that is damaged has no cells."""
    rows = _rows(folder / "out.csv")
    places = [place for place, name in enumerate(rows[0]) if name not in ("study", "published", "published_pm")]
    return [tuple(row[place] for place in places) for row in rows], "problem" in said[1]


def _predicted(folder: Path, _: list[str]) -> list[tuple[str, ...]]:
    """The rows that have a prediction: one with a reason says that it has none."""
    return [row for row in _rows(folder / "rows.csv") if not row[-1] or row[-1] == "reason"]


def _printed(_: Path, said: list[str]) -> Any:
    return json.loads(said[0])


def _trained(_: Path, said: list[str]) -> Any:
    plain = json.loads(said[0])
    return {name: value for name, value in plain.items() if "seconds" not in name}


def _has_digest(file: Path) -> bool:
    return b"sha256" in file.read_bytes()


def _set_has_digest(file: Path) -> bool:
    return _has_digest(file.parent / "graphset.json")


def _importing(name: str) -> Commands:
    return lambda rng, case, shared: [["data", "import", str(case / name), "--out", str(case / "out"), "--json"]]


def _info(name: str) -> Commands:
    return lambda rng, case, shared: [["data", "info", str(case / name), "--json"]]


def _predicting(model: Callable[[Path, Path], Path], data: Callable[[Path, Path], Path]) -> Commands:
    def commands(rng: Rng, case: Path, shared: Path) -> list[Words]:
        return [["predict", str(model(case, shared)), str(data(case, shared)), "--out", str(case / "rows.csv")]]

    return commands


_own_model = _predicting(lambda case, shared: case / "model.safetensors", lambda case, shared: shared / "set")


def _resuming(*more: str) -> Commands:
    def commands(rng: Rng, case: Path, shared: Path) -> list[Words]:
        words = ["train", str(shared / "set"), "--method", "topk", *TRAIN, *more]
        return [[*words, "--out", str(case / "run"), "--resume", "--json"]]

    return commands


def _reading_store(rng: Rng, case: Path, shared: Path) -> list[Words]:
    store = str(case / "store")
    words = [["study", "export", store, "--out", str(case / "out.zip")], ["study", "status", store]]
    return words if rng.random() < 0.8 else [*words, ["report", store, "--out", str(case / "report")]]


def _working(rng: Rng, case: Path, shared: Path) -> list[Words]:
    store = str(case / "store")
    study = str(shared.parent / "study" / "small.toml")
    return [["study", "status", store], ["study", "run", study, "--store", store, "--limit", "0.05"]]


def _split_file(rng: Rng, case: Path, shared: Path) -> list[Words]:
    return [
        ["train", str(shared / "set"), "--method", "majority", "--splits-file", str(case / "splits.json"), "--json"]
    ]


def _planning(rng: Rng, case: Path, shared: Path) -> list[Words]:
    return [["study", "plan", str(case / "small.toml"), "--store", str(case / "store")]]


RUN_FILES = ("run/**/*.safetensors", "run/**/*.json", "run/**/*.jsonl", "run/**/*.npy")

KINDS: dict[str, Kind] = {
    "TU archive": Kind("tu", one_of("TINY.zip"), _info("TINY.zip"), 2.0),
    "TU folder": Kind("tu-folder", one_of("TINY/*.txt"), _info("TINY")),
    "cache entry": Kind("cache", one_of("cache/parsed/*/*"), _info("TINY.zip"), 2.0, _printed),
    "saved set": Kind("saved", one_of("set/*"), _info("set"), 2.0, _printed, covered=_set_has_digest),
    "saved set, mapped": Kind(
        "saved",
        one_of("set/*"),
        _predicting(lambda case, shared: shared / "labelled.safetensors", lambda case, shared: case / "set"),
        1.0,
        _predicted,
        among,
        _set_has_digest,
    ),
    "model file": Kind("model", one_of("model.safetensors"), _own_model, 2.0, _predicted),
    "model file, forged": Kind("model", _forged_model, _own_model, 2.0),
    "run folder": Kind("run", one_of(*RUN_FILES), _resuming(), 1.0, _trained),
    "ensemble": Kind("ensemble", one_of(*RUN_FILES), _resuming("--ensemble", "2"), 1.0, _trained),
    "splits file": Kind("splits", one_of("splits.json"), _split_file, 0.5),
    "study file": Kind("study", one_of("small.toml"), _planning, 2.0),
    "store: cells": Kind("store", one_of("store/cells/*"), _reading_store, 2.0, _exported, among_and_told, _has_digest),
    "store: studies": Kind(
        "store", one_of("store/studies/*"), _reading_store, 1.0, _exported, among_and_told, _has_digest
    ),
    "store: claims": Kind("store", _claims, _working, 0.5, codes=(0, 1, 75)),
    "SMILES table": Kind("smiles", one_of("molecules.csv"), _importing("molecules.csv"), 2.0),
    "SMILES to predict": Kind(
        "table",
        one_of("molecules.csv"),
        _predicting(lambda case, shared: shared / "molecules.safetensors", lambda case, shared: case / "molecules.csv"),
    ),
    "SDF": Kind("sdf", one_of("molecules.sdf"), _importing("molecules.sdf")),
    "GraphML": Kind("graphml", one_of("graphs/*"), _importing("graphs")),
    "edge lists": Kind("edges", one_of("lists/*"), _importing("lists"), 1.5),
    "PyG file": Kind("pyg", _pyg, _importing("data.pt")),
}
