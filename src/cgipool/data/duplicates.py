"""Which graphs of a set the Weisfeiler–Leman colouring (1-WL) cannot tell apart.

Isomorphic graphs always share a class. The converse fails for few real graphs, so the classes serve to keep twins on
one side of a split. A colour is a 64-bit hash; a round adds up the hashed colours of the neighbours, and sums do not
depend on order. Two different colours collide with odds about (number of colours)² / 2⁶⁵.

Each graph is refined by itself, until a round splits none of its colours, and known by its colours after that round.
Two graphs that agree in these have cells of the same sizes with the same numbers of neighbours in each, so no further
round can tell them apart; hence a stretch of graphs is looked at at a time, and nothing is held of the others.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import CHUNK, mix
from cgipool.data.graphs import GraphSet

ROUND, GRAPH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
"""Odd constants that keep a node's own colour apart from its neighbours', and a graph's from its nodes'."""

Words = NDArray[np.uint64]


def wl_classes(graphs: GraphSet, rounds: int | None = None) -> NDArray[np.int64]:
    """[G] a class number per graph, counted in the order of first appearance.

    Colours start from all node label columns, or equal where there are none, and are refined `rounds` times, by default
    until a round splits no colour further.
    """
    words = [_words(graphs.subset(np.arange(first, last)), rounds) for first, last in graphs.stretches(CHUNK)]
    words.append(np.empty(0, np.uint64))
    _, first, inverse = np.unique(np.concatenate(words), True, True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _words(graphs: GraphSet, rounds: int | None) -> Words:
    """[G] one word for each graph, which stands for all that 1-WL can tell of it."""
    words, left = np.empty(graphs.n_graphs, np.uint64), np.arange(graphs.n_graphs)
    colour, done = _start(graphs), 0
    count = _colours(graphs, colour)
    while len(left):
        if rounds is not None and done == rounds:
            words[left] = _of_graphs(graphs, colour)
            break
        colour = mix(colour * ROUND + _neighbour_sums(graphs, mix(colour.copy())))
        before, count, done = count, _colours(graphs, colour), done + 1
        if rounds is None:
            going = count > before
            words[left[~going]] = _of_graphs(graphs, colour)[~going]
            colour, left, count = colour[np.repeat(going, graphs.sizes)], left[going], count[going]
            graphs = graphs.subset(np.flatnonzero(going))
    return words


def _colours(graphs: GraphSet, colour: Words) -> NDArray[np.int64]:
    """[G] the number of different colours in each graph. As many bits of a colour are compared as fit into a word
    beside the graph's number."""
    bits = np.uint64(max(graphs.n_graphs - 1, 1).bit_length())
    number = graphs.node_graph.astype(np.uint64) << (np.uint64(64) - bits)
    key = np.sort(number | (colour >> bits))
    first = key[np.flatnonzero(np.diff(key, prepend=~key[:1]))]
    return np.bincount((first >> (np.uint64(64) - bits)).astype(np.int64), minlength=graphs.n_graphs)


def _of_graphs(graphs: GraphSet, colour: Words) -> Words:
    """[G] a word from the colours of each graph's nodes, in any order, and their number."""
    total = _segment_sums(mix(colour * GRAPH), graphs.node_ptr)
    return mix(total + mix(graphs.sizes.view(np.uint64) + GRAPH))


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
