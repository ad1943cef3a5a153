"""Random edge lists and sets for property tests, TU files for reader tests, and equality of sets."""

import dataclasses
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from cgipool.data import GraphSet

TRIANGLE_AND_PATH = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n",
    "graph_labels": "1\n-1\n",
}
"""A triangle of class 1; an edge and an isolated last node of class -1."""


def write_tu(folder: Path, name: str = "TOY", **parts: str) -> Path:
    """A TU folder of the two small graphs, with some files added or replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, text in (TRIANGLE_AND_PATH | parts).items():
        (folder / f"{name}_{part}.txt").write_bytes(text.encode())
    return folder


def assert_equal(one: GraphSet, other: GraphSet, *, ignore: tuple[str, ...] = ()) -> None:
    for field in dataclasses.fields(GraphSet):
        if field.name in ignore:
            continue
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert right is not None, field.name
            assert left.dtype == right.dtype, field.name
            np.testing.assert_array_equal(left, right, err_msg=field.name)
        else:
            assert left == right, field.name


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    """Sizes of some graphs (also empty ones), and edges inside them in any order, with loops and repeats."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    starts = np.cumsum([0, *sizes])
    pairs = [
        (int(u), int(v))
        for g in range(len(sizes))
        for u in range(starts[g], starts[g + 1])
        for v in range(starts[g], starts[g + 1])
    ]
    return sizes, draw(st.lists(st.sampled_from(pairs), max_size=30)) if pairs else []


@st.composite
def graph_sets(draw: st.DrawFn) -> GraphSet:
    """Sets with every combination of columns, also without classes; edge columns may differ by direction."""
    sizes, pairs = draw(edge_lists())
    nodes = sum(sizes)
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    plain = GraphSet.from_edges("random", sizes, source, target, np.arange(len(sizes)))
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    columns: dict = {}
    if draw(st.booleans()):
        columns |= {"y": np.full(len(sizes), -1), "class_names": ()}
    if draw(st.booleans()):
        columns["category"] = generator.integers(0, 3, (nodes, 2)).astype(np.int32)
        columns["category_names"] = (("-1", "2", "10"), ("C", "N", "O"))
    if draw(st.booleans()):
        columns["attributes"] = generator.normal(size=(nodes, 3)).astype(np.float32)
    if draw(st.booleans()):
        columns["node_truth"] = generator.random(nodes) < 0.5
    if draw(st.booleans()):
        columns["edge_weight"] = generator.random(plain.n_edges).astype(np.float32)
    if draw(st.booleans()):
        columns["edge_category"] = generator.integers(0, 2, (plain.n_edges, 1)).astype(np.int32)
        columns["edge_category_names"] = (("single", "double"),)
    if draw(st.booleans()):
        columns["edge_attributes"] = generator.normal(size=(plain.n_edges, 2)).astype(np.float32)
    return dataclasses.replace(plain, dropped={}, **columns)
