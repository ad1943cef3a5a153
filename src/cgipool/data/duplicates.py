"""Which graphs of a set the Weisfeiler–Leman colouring (1-WL) cannot tell apart.

Isomorphic graphs always share a class. The converse fails for few real graphs, so the classes serve to keep twins on
one side of a split. A colour is a 64-bit hash; a round adds up the hashed colours of the neighbours, and sums do not
depend on order. Two different colours collide with odds about (number of colours)² / 2⁶⁵.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import CHUNK, mix
from cgipool.data.graphs import GraphSet

ROUND, GRAPH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
"""Odd constants that keep a node's own colour apart from its neighbours', and a graph's from its nodes'."""


def wl_classes(graphs: GraphSet, rounds: int | None = None) -> NDArray[np.int64]:
    """[G] a class number per graph, counted in the order of first appearance.

    Colours start from all node label columns, or equal where there are none, and are refined `rounds` times, by default
    until a round splits no colour further.
    """
    colour = _start(graphs)
    found = len(np.unique(colour))
    done = 0
    while rounds is None or done < rounds:
        refined = mix(colour * ROUND + _neighbour_sums(graphs, mix(colour.copy())))
        now = len(np.unique(refined))
        if rounds is None and now == found:
            break
        colour, found, done = refined, now, done + 1
    total = _segment_sums(mix(colour * GRAPH), graphs.node_ptr)
    _, first, inverse = np.unique(mix(total + mix(graphs.sizes.view(np.uint64) + GRAPH)), True, True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _start(graphs: GraphSet) -> NDArray[np.uint64]:
    colour = np.ones(graphs.n_nodes, dtype=np.uint64)
    if graphs.category is not None:
        for column in graphs.category.T:
            colour = mix(colour * ROUND + column.astype(np.uint64))
    return colour


def _neighbour_sums(graphs: GraphSet, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """[N] sum over the neighbours, a stretch of rows at a time so that no array of E words is made."""
    sums = np.empty(graphs.n_nodes, dtype=np.uint64)
    cuts = np.searchsorted(graphs.edge_ptr, np.arange(CHUNK, graphs.n_edges, CHUNK))
    for first, last in pairwise([0, *cuts.tolist(), graphs.n_nodes]):
        ptr = graphs.edge_ptr[first : last + 1]
        target = np.repeat(np.arange(first, last), np.diff(ptr))
        target += graphs.edge_disp[ptr[0] : ptr[-1]]
        sums[first:last] = _segment_sums(words[target], ptr - ptr[0])
    return sums


def _segment_sums(words: NDArray[np.uint64], ptr: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Sums modulo 2⁶⁴ of words[ptr[i]:ptr[i + 1]]; an empty segment gives 0."""
    running = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum(words, out=running[1:])
    return running[ptr[1:]] - running[ptr[:-1]]
