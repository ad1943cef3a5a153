"""Weisfeiler-Lehman features, held to programs of their own with dictionaries and with an assignment of every node."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from cgipool.classical.wl import colours, entries, matrix, squared_norms
from cgipool.data import GraphSet, motifs

ROUNDS = 3


def labelled(graphs: int, seed: int = 0) -> GraphSet:
    """Random graphs, some of them alike, with two node label columns and one edge label column."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 9, graphs)
    start = np.cumsum(sizes) - sizes
    pairs = [(a + s, b + s) for n, s in zip(sizes, start, strict=True) for a in range(n) for b in range(a)]
    chosen = [pair for pair in pairs if draw.random() < 0.35]
    source, target = (np.array([pair[side] for pair in chosen], int) for side in (0, 1))
    return GraphSet.from_edges(
        "random", sizes, source, target, np.zeros(graphs, int),
        category=draw.integers(0, 2, (sizes.sum(), 2)).astype(np.int32), category_names=(("a", "b"), ("c", "d")),
        edge_category=draw.integers(0, 2, (len(chosen), 1)).astype(np.int32), edge_category_names=(("x", "y"),),
    )  # fmt: skip


def by_dictionary(graphs: GraphSet, rounds: int, labels: bool, edge_labels: bool) -> list[list[int]]:
    """[rounds + 1][N] colours numbered by a dictionary of (own colour, sorted neighbours)."""
    names: dict[object, int] = {}

    def number(what: object) -> int:
        return names.setdefault(what, len(names))

    if labels:
        assert graphs.category is not None
        found = [[number(("start", *row)) for row in graphs.category.tolist()]]
    else:
        found = [[number(("start", d)) for d in graphs.degree.tolist()]]
    for step in range(rounds):
        rows = []
        for node in range(graphs.n_nodes):
            around = []
            for e in range(graphs.edge_ptr[node], graphs.edge_ptr[node + 1]):
                edge = tuple(graphs.edge_category[e]) if edge_labels and graphs.edge_category is not None else ()
                around.append((found[-1][node + graphs.edge_disp[e]], edge))
            rows.append(number((step, found[-1][node], tuple(sorted(around)))))
        found.append(rows)
    return found


def gram(graphs: GraphSet, assignment: bool, labels: bool = True, edge_labels: bool = True) -> NDArray[np.float64]:
    """[G, G] the kernel from the explicit features."""
    total = np.zeros((graphs.n_graphs, graphs.n_graphs))
    for colour in colours(graphs, ROUNDS, labels=labels, edge_labels=edge_labels):
        found = entries(graphs, colour, assignment)
        x = matrix(found, graphs.n_graphs, np.unique(found.feature))
        total += (x @ x.T).toarray()
        assert np.allclose(squared_norms(found, graphs.n_graphs), (x @ x.T).diagonal())
    return total


@pytest.mark.oracle("wl")
@pytest.mark.parametrize(("labels", "edge_labels"), list(product([False, True], repeat=2)))
def test_subtree_kernel_is_that_of_a_dictionary(labels: bool, edge_labels: bool) -> None:
    graphs = labelled(30)
    wanted = np.zeros((30, 30))
    for colour in by_dictionary(graphs, ROUNDS, labels, edge_labels):
        counts = [Counter(colour[a:b]) for a, b in zip(graphs.node_ptr, graphs.node_ptr[1:], strict=False)]
        wanted += [[sum(n * other[c] for c, n in one.items()) for other in counts] for one in counts]
    assert np.array_equal(gram(graphs, False, labels, edge_labels), wanted)


@pytest.mark.oracle("wl-oa")
def test_assignment_kernel_is_an_optimal_assignment() -> None:
    graphs = labelled(14)
    found = np.array(by_dictionary(graphs, ROUNDS, True, True))
    parts = [found[:, a:b] for a, b in zip(graphs.node_ptr, graphs.node_ptr[1:], strict=False)]
    wanted = np.zeros((14, 14))
    for i, one in enumerate(parts):
        for j, other in enumerate(parts):
            same = (one[:, :, None] == other[:, None, :]).sum(0)  # rounds in which two nodes have the same colour
            wanted[i, j] = same[linear_sum_assignment(same, maximize=True)].sum()
    assert np.array_equal(gram(graphs, True), wanted)


def test_a_graph_alone_has_the_colours_that_it_has_among_others() -> None:
    graphs = labelled(20)
    together = list(colours(graphs, ROUNDS, labels=True, edge_labels=True))
    alone = list(colours(graphs[7], ROUNDS, labels=True, edge_labels=True))
    nodes = slice(graphs.node_ptr[7], graphs.node_ptr[8])
    assert all(np.array_equal(one[nodes], other) for one, other in zip(together, alone, strict=True))


def test_colours_do_not_depend_on_codes() -> None:
    graphs = labelled(20)
    assert graphs.category is not None
    turned = graphs.from_edges(
        "turned", graphs.sizes, graphs.edge_source, graphs.edge_source + graphs.edge_disp, graphs.y,
        category=1 - graphs.category, category_names=(("b", "a"), ("d", "c")),
        edge_category=graphs.edge_category, edge_category_names=graphs.edge_category_names,
    )  # fmt: skip
    for one, other in zip(*(colours(g, 2, labels=True, edge_labels=True) for g in (graphs, turned)), strict=True):
        assert np.array_equal(one, other)


def test_features_outside_the_vocabulary_are_left_out() -> None:
    graphs = motifs(6)
    found = entries(graphs, next(iter(colours(graphs, 0, labels=True, edge_labels=True))), False)
    all_of_it = np.unique(found.feature)
    whole = matrix(found, 6, all_of_it).toarray()
    assert np.array_equal(matrix(found, 6, all_of_it[1:]).toarray(), whole[:, 1:])
    assert matrix(found, 6, all_of_it[:0]).shape == (6, 0)
