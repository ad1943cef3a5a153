"""Weisfeiler–Lehman colours as explicit sparse features.

A colour is a 64-bit hash, so the same neighbourhood has the same colour in every data set, and a model needs no
dictionary of neighbourhoods: among a million colours two agree by chance with probability 3e-8.

Shapes: G graphs, N nodes, E stored edges, F entries (one for each colour of each graph).
"""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.errors import UserError

Hashes = NDArray[np.uint64]

_ODD = np.uint64(0x9E3779B97F4A7C15)


class ColourCounts(NamedTuple):
    """The features of all graphs in one round, sorted by graph."""

    graph: NDArray[np.int64]
    """[F]."""
    feature: Hashes
    """[F]."""
    value: NDArray[np.float64]
    """[F] how often it occurs."""


def colours(graphs: GraphSet, rounds: int, *, labels: bool, edge_labels: bool) -> Iterator[Hashes]:
    """[N] the colours after 0, 1, …, `rounds` rounds.

    A node starts with its labels, or with its degree. In each round its colour becomes a hash of its own and of the
    multiset of its neighbours' colours, each with the labels of the edge.
    """
    if graphs.directed:
        raise UserError(f"wl and wl-oa need undirected edges, but {graphs.name} is directed")
    if labels and graphs.category is not None:
        colour = _of_labels(graphs.category, graphs.category_names)
    else:
        colour = _mixed(graphs.degree.astype(np.uint64))
    yield colour
    edge: Hashes | np.uint64 = np.uint64(0)
    if edge_labels and graphs.edge_category is not None:
        edge = _of_labels(graphs.edge_category, graphs.edge_category_names)
    target = graphs.edge_source + graphs.edge_disp
    for _ in range(rounds):
        # The sum over neighbours, modulo 2^64: it does not depend on their order.
        total = np.zeros(graphs.n_edges + 1, np.uint64)
        np.cumsum(_mixed(colour[target] ^ edge), out=total[1:])
        around = total[graphs.edge_ptr[1:]] - total[graphs.edge_ptr[:-1]]
        colour = _mixed(colour * _ODD + around)
        yield colour


def entries(graphs: GraphSet, colour: Hashes, assignment: bool) -> ColourCounts:
    """The features of the colours [N] of one round.

    For the subtree kernel a feature is a colour, with the number of its nodes: the kernel Σ_c n_c(G) n_c(G') is a dot
    product. For the optimal assignment kernel it is "at least t nodes have colour c", for each t, with value 1: then
    the dot product is the histogram intersection Σ_c min(n_c(G), n_c(G')), which Kriege et al. show to be the value of
    an optimal assignment.
    """
    order = np.lexsort((colour, graphs.node_graph))
    owner, sorted_ = graphs.node_graph[order], colour[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (owner[1:] != owner[:-1]) | (sorted_[1:] != sorted_[:-1])
    start = np.flatnonzero(first)
    count = np.diff(np.append(start, len(order)))
    if not assignment:
        return ColourCounts(owner[start], sorted_[start], count.astype(np.float64))
    number = np.arange(len(order)) - np.repeat(start, count)
    return ColourCounts(owner, _mixed(sorted_ + _mixed(number.astype(np.uint64))), np.ones(len(order)))


def matrix(given: ColourCounts, graphs: int, vocabulary: Hashes) -> sp.csr_matrix:
    """[graphs, len(vocabulary)] the entries as a sparse matrix; features outside the sorted vocabulary are left out."""
    place = np.searchsorted(vocabulary, given.feature)
    if len(vocabulary) == 0:
        return sp.csr_matrix((graphs, 0))
    known = vocabulary[np.minimum(place, len(vocabulary) - 1)] == given.feature
    cells = (given.value[known], (given.graph[known], place[known]))
    return sp.csr_matrix(cells, shape=(graphs, len(vocabulary)))


def squared_norms(given: ColourCounts, graphs: int) -> NDArray[np.float64]:
    """[graphs] the sums of squares of a graph's entries: its kernel with itself."""
    return np.bincount(given.graph, given.value**2, minlength=graphs).astype(np.float64)


def _of_labels(codes: NDArray[np.int32], names: tuple[Names, ...]) -> Hashes:
    """[n] a hash of all label columns, from the names of the labels, so that it is the same in every data set."""
    found = np.zeros(len(codes), np.uint64)
    for column, named in zip(codes.T, names, strict=True):
        found = _mixed(found * _ODD + np.array([_of_text(name) for name in named], np.uint64)[column])
    return found


def _of_text(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _mixed(values: Hashes) -> Hashes:
    """The finaliser of SplitMix64, a bijection in which every input bit moves half of the output bits."""
    values = values + _ODD
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
