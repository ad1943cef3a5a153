"""TU folders of any size, made fast: random trees with a few chords, whose node labels hint at the class."""

from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

BLOCK = 50_000
"""Graphs made at a time."""

SMALLEST, LARGEST, CHORDS, LABELS = 20, 40, 4, 5
"""Nodes of a graph, edges beside its tree, and values of the node label."""


def write_large_tu(folder: Path, graphs: int, seed: int = 0) -> Path:
    """A folder of `graphs` graphs of 30 nodes on average, the lines of edges in the order of the nodes."""
    folder.mkdir(parents=True)
    name = folder.name
    parts = ("A", "graph_indicator", "graph_labels", "node_labels")
    files: list[IO[bytes]] = [(folder / f"{name}_{part}.txt").open("wb") for part in parts]
    nodes = 0
    for first in range(0, graphs, BLOCK):
        rng = np.random.default_rng([seed, first])
        sizes = rng.integers(SMALLEST, LARGEST + 1, min(BLOCK, graphs - first))
        y = rng.integers(0, 2, len(sizes))
        graph = np.repeat(np.arange(len(sizes)), sizes)
        labels = (rng.random(len(graph)) * (LABELS - y[graph])).astype(np.int64)
        tables = (edges_of(sizes, rng) + nodes + 1, graph[:, None] + first + 1, y[:, None], labels[:, None])
        for file, table in zip(files, tables, strict=True):
            write_lines(file, table)
        nodes += len(graph)
    for file in files:
        file.close()
    return folder


def edges_of(sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[R, 2] the edges of graphs of these sizes, both directions, sorted."""
    starts = np.cumsum(sizes) - sizes
    place = np.arange(sizes.sum()) - np.repeat(starts, sizes)
    child = np.flatnonzero(place > 0)
    parent = child - place[child] + (rng.random(len(child)) * place[child]).astype(np.int64)
    first, second = (rng.random((2, len(sizes), CHORDS)) * sizes[:, None]).astype(np.int64)
    second = np.where(first == second, (second + 1) % sizes[:, None], second)
    source = np.concatenate([child, (starts[:, None] + first).ravel()])
    target = np.concatenate([parent, (starts[:, None] + second).ravel()])
    keys = np.sort(np.concatenate([source * sizes.sum() + target, target * sizes.sum() + source]))
    return np.stack(np.divmod(keys, sizes.sum()), axis=1)


def write_lines(file: IO[bytes], table: np.ndarray) -> None:
    """Rows of whole numbers as lines `a,b`."""
    columns: dict[str, Any] = {str(j): column for j, column in enumerate(np.ascontiguousarray(table.T))}
    pa.csv.write_csv(pa.table(columns), file, pa.csv.WriteOptions(include_header=False))
