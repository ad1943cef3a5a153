"""Sound files of every kind, small, written once for a run of the fuzzers."""

import csv
import io
import os
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import torch

from cgipool.cli import main
from cgipool.data import GraphSet, motifs
from cgipool.data.features import Encoder
from cgipool.inference.fitted import FittedModel
from cgipool.pool import Sizes
from cgipool.task.registry import task_of
from cgipool.training.initial import model_of
from cgipool.training.presets import PAPER

from .mutate import packed

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "C1CCCCC1", "CN", "O=C=O", "CC#N", "c1ccncc1", "OCC(O)CO", "ClC(Cl)Cl"]

STUDY = """name = "small"
title = "A small study"

[protocol]
splits = 2

[settings]
recipe = "paper"
width = 4
levels = 1
epochs = 1

[axes]
method = ["topk", "none"]
dataset = ["tiny"]

[data]
tiny = "tiny"
"""

TRAIN = ["--splits", "2", "--set", "width=4", "--set", "levels=1", "--set", "epochs=3", "--set", "batch_size=16"]
"""Settings of a training that takes a moment."""


def quietly(*words: str) -> int:
    """Run a command without a word."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return main(list(words))


def write_seeds(folder: Path) -> None:
    """One folder for each kind of kinds.py that needs files of its own."""
    graphs = replace(motifs(24, seed=1), name="tiny")
    labelled = replace(
        graphs,
        category=(np.arange(graphs.n_nodes, dtype=np.int32) % 3)[:, None],
        category_names=(("a", "b", "c"),),
        node_truth=None,
    )
    _home(folder, "tu", "TINY.zip").write_bytes(packed(tu_files(labelled)))
    for name, content in tu_files(labelled):
        _home(folder, "tu-folder", "TINY", name).write_bytes(content)
    labelled.save(_home(folder, "saved", "set"))
    graphs.save(_home(folder, "shared", "set"))
    untrained(graphs, 2).save(_home(folder, "model", "model.safetensors"))
    untrained(labelled, 1).save(folder / "shared" / "labelled.safetensors")
    _write_molecules(folder)
    _write_networks(folder, labelled)
    _home(folder, "study", "small.toml").write_text(STUDY)
    graphs.save(folder / "study" / "tiny")
    _write_cache(folder)
    _write_store(folder)
    _write_runs(folder)


def write_for_crashes(folder: Path) -> None:
    """What the commands of crash.py read."""
    graphs = replace(motifs(24, seed=1), name="tiny", node_truth=None)
    graphs.save(_home(folder, "shared", "set"))
    _home(folder, "study", "small.toml").write_text(STUDY)
    graphs.save(folder / "study" / "tiny")
    _write_networks(folder, graphs)


def _home(folder: Path, *names: str) -> Path:
    path = folder.joinpath(*names)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def tu_files(graphs: GraphSet) -> list[tuple[str, bytes]]:
    """A set as the text files of the TU format."""
    source = np.repeat(np.arange(graphs.n_nodes), np.diff(graphs.edge_ptr))
    target = source + graphs.edge_disp
    graph = np.repeat(np.arange(graphs.n_graphs), graphs.sizes)
    columns = {
        "A": [f"{s + 1}, {t + 1}" for s, t in zip(source, target, strict=True)],
        "graph_indicator": [str(g + 1) for g in graph],
        "graph_labels": [str(y) for y in graphs.y],
        "node_labels": [str(row[0]) for row in graphs.category],
        "node_attributes": [f"{n / 7:.3f}, {-n}" for n in range(graphs.n_nodes)],
    }
    return [(f"TINY_{name}.txt", ("\n".join(lines) + "\n").encode()) for name, lines in columns.items()]


def untrained(graphs: GraphSet, members: int, featurizer: dict | None = None) -> FittedModel:
    """A model as it is before training: as good as any for a reader."""
    recipe, encoder, sizes = PAPER.but(width=4, levels=2), Encoder.fit(graphs), Sizes.of(graphs.sizes)
    names = graphs.class_names or ("no", "yes")
    shares = (1 / len(names),) * len(names)
    torch.manual_seed(0)
    weights = [
        dict(model_of("cgi", recipe, encoder, task_of(graphs), shares, sizes).state_dict()) for _ in range(members)
    ]
    return FittedModel("cgi", recipe, names, encoder, shares, sizes, weights, {}, featurizer)


def _write_molecules(folder: Path) -> None:
    from rdkit import Chem

    from cgipool.data.molecules import MoleculeFeaturizer

    rows = [["id", "smiles", "class"], *([f"m{i}", s, "yn"[i % 2]] for i, s in enumerate(SMILES))]
    for kind in ("smiles", "table"):
        with _home(folder, kind, "molecules.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    blocks = []
    for number, smiles in enumerate(SMILES):
        block = Chem.MolToMolBlock(Chem.MolFromSmiles(smiles))
        blocks.append(f"{block}> <class>\n{'yn'[number % 2]}\n\n$$$$\n")
    _home(folder, "sdf", "molecules.sdf").write_text("".join(blocks))
    made = MoleculeFeaturizer()
    untrained(made.graphs(SMILES), 1, made.to_json()).save(folder / "shared" / "molecules.safetensors")


def _write_networks(folder: Path, graphs: GraphSet) -> None:
    for number, graph in enumerate(graphs.subset(range(6)).to_networkx()):
        plain = nx.Graph(label=int(graphs.y[number]))
        plain.add_nodes_from((n, {"kind": "xy"[n % 2], "size": n / 3}) for n in graph.nodes)
        plain.add_edges_from(graph.edges)
        nx.write_graphml(plain, _home(folder, "graphml", "graphs", f"{number}.graphml"))
    tables = {"graphs": ["graph,label"], "nodes": ["graph,node,kind,size"], "edges": ["graph,source,target,weight"]}
    for number, graph in enumerate(graphs.subset(range(6)).to_networkx()):
        tables["graphs"].append(f"g{number},{'ab'[number % 2]}")
        tables["nodes"] += [f"g{number},n{n},{'xy'[n % 2]},{n / 2}" for n in graph.nodes]
        tables["edges"] += [f"g{number},n{s},n{t},1.5" for s, t in graph.edges]
    for name, lines in tables.items():
        _home(folder, "edges", "lists", f"{name}.csv").write_text("\n".join(lines) + "\n")
    data = [
        {
            "edge_index": torch.tensor([[0, 1], [1, 0]]),
            "num_nodes": 2,
            "y": torch.tensor([n % 2]),
            "x": torch.ones(2, 1),
        }
        for n in range(6)
    ]
    torch.save(data, _home(folder, "pyg", "data.pt"))


def _write_cache(folder: Path) -> None:
    """An archive with its entry in the cache beside it."""
    content = (folder / "tu" / "TINY.zip").read_bytes()
    archive = _home(folder, "cache", "TINY.zip")
    archive.write_bytes(content)
    _in_cache(folder / "cache" / "cache", "data", "info", str(archive))


def _in_cache(cache: Path, *words: str) -> None:
    before = os.environ.get("CGIPOOL_CACHE")
    os.environ["CGIPOOL_CACHE"] = str(cache)
    try:
        assert quietly(*words) == 0, words
    finally:
        os.environ.pop("CGIPOOL_CACHE")
        os.environ.update({"CGIPOOL_CACHE": before} if before else {})


def _write_store(folder: Path) -> None:
    """A store with the finished cells of a study."""
    study, store = folder / "study" / "small.toml", folder / "store" / "store"
    store.parent.mkdir(exist_ok=True)
    assert quietly("study", "run", str(study), "--store", str(store)) == 0


def _write_runs(folder: Path) -> None:
    """A run that ended, and one whose second split was interrupted between two epochs."""
    from cgipool.data import load_dataset
    from cgipool.training.job import Progress
    from cgipool.training.run import train

    def stop(progress: Progress) -> None:
        if progress.split == 1 and progress.epoch == 2:
            raise KeyboardInterrupt

    graphs = load_dataset(folder / "shared" / "set")
    settings = {"width": 4, "levels": 1, "epochs": 3, "batch_size": 16}
    train(graphs, method="topk", splits=2, ensemble=2, out=_home(folder, "ensemble", "run"), **settings)
    content = (folder / "ensemble" / "run" / "splits.json").read_bytes()
    _home(folder, "splits", "splits.json").write_bytes(content)
    try:
        train(graphs, method="topk", splits=2, out=_home(folder, "run", "run"), tell=stop, **settings)
    except KeyboardInterrupt:
        return
    raise AssertionError("the training was not interrupted")
