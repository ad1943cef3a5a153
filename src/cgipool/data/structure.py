"""Structural node features: Weisfeiler–Lehman colours, random-walk and Laplacian encodings.

They are computed once per set: cached in memory and, if they take long, on disk.
Shapes: G graphs, N nodes, K label columns.
"""

import hashlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import CHUNK, mix, ranges
from cgipool.data.columns import STRETCH, Codes, SideBySide, label_codes
from cgipool.data.computed import kept
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.errors import UserError

Doubles = NDArray[np.float64]
Words = NDArray[np.uint64]
T = TypeVar("T")

ROUND = np.uint64(0x9E3779B97F4A7C15)
"""An odd constant that distinguishes a node's own colour from those of its neighbours."""

COMMON = 5
"""A colour gets its own input column if it occurs in at least this many graphs of the set."""

VERSION = 1
"""Raised when one of these computations gives other results, so that earlier entries of the cache are not used."""

_RESULTS: "WeakKeyDictionary[GraphSet, dict[Any, Any]]" = WeakKeyDictionary()
"""Results by set and key, for as long as the set is in memory."""


def cached(graphs: GraphSet, key: Any, compute: Callable[[], T]) -> T:
    """Return `compute()`, computed once for this set and key and kept as long as the set is in memory."""
    results = _RESULTS.setdefault(graphs, {})
    if key not in results:
        results[key] = compute()
    return results[key]


class Colours:
    """The colours of all nodes of a set after a round of refinement, as hashes.

    Two nodes, of the same or of different sets, have the same colour if 1-WL cannot distinguish their neighbourhoods of
    this depth.
    """

    def __init__(self, found: Words, codes: NDArray[np.int32], graphs: NDArray[np.int64]) -> None:
        """`codes` [N] are indices into `found`, and `graphs` says in how many graphs each of these occurs."""
        self.names: Names = tuple(f"{word:016x}" for word in found.tolist())
        self.column = label_codes(codes[:, None], (self.names,))
        self.graphs = graphs


def wl_colours(graphs: GraphSet, start: Codes, key: Any, rounds: int) -> tuple[Colours, ...]:
    """The colours of rounds 1 to `rounds` of Weisfeiler–Lehman refinement, from the initial colours `start`. `key`
    identifies the initial colours in the cache."""

    if rounds == 0:
        return ()

    def compute() -> tuple[Colours, ...]:
        words = _initial(graphs, start)
        made = kept(
            f"wl {rounds} {VERSION}",
            (*_structure(graphs), graphs.edge_weight if graphs.directed else None, words),
            lambda: _coloured(graphs, words, rounds),
        )
        return tuple(Colours(*(made[f"{part}{i}"] for part in ("found", "codes", "graphs"))) for i in range(rounds))

    return cached(graphs, ("wl", key, rounds), compute)


def _coloured(graphs: GraphSet, words: Words, rounds: int) -> dict[str, NDArray[Any]]:
    """By round, the arrays of its colours."""
    made: dict[str, NDArray[Any]] = {}
    for i in range(rounds):
        words = refined(graphs, words)
        found, codes = np.unique(words, return_inverse=True)
        of_graph = graphs.node_graph * max(len(found), 1) + codes
        made[f"found{i}"], made[f"codes{i}"] = found, codes.astype(np.int32)
        made[f"graphs{i}"] = np.bincount(np.unique(of_graph) % max(len(found), 1), minlength=len(found))
    return made


def _structure(graphs: GraphSet) -> tuple[NDArray[Any], ...]:
    return graphs.node_ptr, graphs.edge_ptr, graphs.edge_disp


def _initial(graphs: GraphSet, start: Codes) -> Words:
    """[N] a 64-bit word for each node from the names of its categories, so it does not depend on their codes."""
    tables = [np.array([_word(name) for name in names], np.uint64) for names in start.names]
    words = np.ones(graphs.n_nodes, np.uint64)
    for first in range(0, graphs.n_nodes, STRETCH):
        nodes = np.arange(first, min(first + STRETCH, graphs.n_nodes))
        for table, column in zip(tables, start.of(nodes).T, strict=True):
            words[nodes] = mix(words[nodes] * ROUND + table[column])
    return words


def _word(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def refined(graphs: GraphSet, colour: Words) -> Words:
    """[N] the colours after one more round: a hash of a node's colour and the multiset of its neighbours' colours. In
    directed graphs, successors and predecessors are hashed separately."""
    sums = _sums_by_direction if graphs.directed else _neighbour_sums
    return mix(colour * ROUND + sums(graphs, mix(colour.copy())))


def _sums_by_direction(graphs: GraphSet, words: Words) -> Words:
    """[N] the sum of words over successors plus the sum of rehashed words over predecessors."""
    assert graphs.edge_weight is not None
    source = graphs.edge_source
    target, exists = source + graphs.edge_disp, np.asarray(graphs.edge_weight) != 0
    sums = segment_sums(np.where(exists, words[target], np.uint64(0)), np.asarray(graphs.edge_ptr))
    np.add.at(sums, target[exists], mix(words * ROUND)[source[exists]])
    return sums


def _neighbour_sums(graphs: GraphSet, words: Words) -> Words:
    """[N] the sum over the neighbours, some rows at a time, to avoid an array of E words."""
    sums = np.empty(graphs.n_nodes, dtype=np.uint64)
    cuts = np.searchsorted(graphs.edge_ptr, np.arange(CHUNK, graphs.n_edges, CHUNK))
    for first, last in pairwise([0, *cuts.tolist(), graphs.n_nodes]):
        ptr = graphs.edge_ptr[first : last + 1]
        target = np.repeat(np.arange(first, last), np.diff(ptr))
        target += graphs.edge_disp[ptr[0] : ptr[-1]]
        sums[first:last] = segment_sums(words[target], ptr - ptr[0])
    return sums


def segment_sums(words: Words, ptr: NDArray[np.int64]) -> Words:
    """Sums modulo 2⁶⁴ of words[ptr[i]:ptr[i + 1]]; an empty segment gives 0."""
    running = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum(words, out=running[1:])
    return running[ptr[1:]] - running[ptr[:-1]]


def return_probabilities(graphs: GraphSet, steps: int) -> NDArray[np.float32]:
    """[N, steps] the probability that a random walk returns to its start after 1, 2, … steps; 0 for isolated nodes."""

    def compute() -> dict[str, NDArray[np.float32]]:
        found = np.zeros((graphs.n_nodes, steps), np.float32)
        order, first = np.argsort(graphs.sizes, kind="stable"), 0
        nodes = np.cumsum(graphs.sizes[order])
        while first < len(order):  # graphs of similar size together, so the dense columns have little padding
            before = nodes[first - 1] if first else 0
            fits = (nodes - before) * graphs.sizes[order] <= STRETCH
            last = max(first + 1, first + int(np.count_nonzero(fits[first:])))
            _walk(graphs, np.sort(order[first:last]), found)
            first = last
        return {"found": found}

    what = f"walk {steps} {VERSION}"
    return cached(graphs, ("walk", steps), lambda: kept(what, _structure(graphs), compute)["found"])


def _walk(graphs: GraphSet, ids: NDArray[np.int64], found: NDArray[np.float32]) -> None:
    """Fill in the rows of some graphs. With S = D^-½ A D^-½ the probability after t steps is (Sᵗ)_ii. S is symmetric,
    so this is the scalar product of rows i of two powers of S whose exponents add up to t."""
    from scipy.sparse import csr_array

    sizes = graphs.sizes[ids]
    part, nodes = graphs.subset(ids), ranges(graphs.node_ptr[ids], sizes)
    degree, source = part.degree.astype(np.float64), part.edge_source
    target = source + part.edge_disp
    walk = csr_array((1.0 / np.sqrt(degree[source] * degree[target]), target, part.edge_ptr), (part.n_nodes,) * 2)
    place = np.arange(part.n_nodes) - np.repeat(part.node_ptr[:-1], sizes)
    width = max(1, STRETCH // max(part.n_nodes, 1))
    steps = found.shape[1]
    diagonal = np.zeros((part.n_nodes, steps))
    for start in range(0, int(sizes.max(initial=0)), width):  # a range of columns of each graph's own S
        here = np.flatnonzero((place >= start) & (place < start + width))
        power = np.zeros((part.n_nodes, min(width, int(sizes.max()) - start)))
        power[here, place[here] - start] = 1.0
        for t in range(1, steps + 1):
            if t % 2:
                before, power = power, walk @ power
            diagonal[:, t - 1] += np.einsum("ij,ij->i", before if t % 2 else power, power)
    found[nodes] = diagonal


EQUAL = 1e-6
"""Eigenvalues that differ by less count as equal. They lie between 0 and 2."""

DENSE = 400
"""For graphs up to this size all eigenvectors are computed, many graphs at a time; for larger ones, those needed."""

SPARE = 16
"""Number of additional eigenvectors: the last one needed may share its eigenvalue with further ones."""


def laplacian_encodings(graphs: GraphSet, count: int) -> NDArray[np.float32]:
    """[N, count] the absolute entries of the eigenvectors of I − D^-½ A D^-½ with the smallest positive eigenvalues; 0
    where a graph has fewer.

    For m eigenvectors with the same eigenvalue, each entry is √(Σ v² / m) over them. This depends neither on the basis
    of their eigenspace nor on signs, so the encodings do not depend on the order of the nodes.
    """

    def compute() -> dict[str, NDArray[np.float32]]:
        found = np.zeros((graphs.n_nodes, count), np.float32)
        sizes = graphs.sizes
        for size in np.unique(sizes[sizes > 1]).tolist():
            ids = np.flatnonzero(sizes == size)
            step = max(1, STRETCH // size**2)
            for start in range(0, len(ids), step):
                some = ids[start : start + step]
                nodes = graphs.node_ptr[some][:, None] + np.arange(size)
                found[nodes] = _eigenspaces(graphs.subset(some), size, count)
        return {"found": found}

    what = f"laplacian {count} {VERSION}"
    return cached(graphs, ("laplacian", count), lambda: kept(what, _structure(graphs), compute)["found"])


def _eigenspaces(graphs: GraphSet, size: int, count: int) -> Doubles:
    """[G, size, count] the encodings of graphs of one size."""
    from scipy.linalg import eigh

    degree, source = graphs.degree.astype(np.float64), graphs.edge_source
    target = source + graphs.edge_disp
    matrix = np.zeros((graphs.n_graphs, size, size))
    matrix[source // size, source % size, target % size] = -1.0 / np.sqrt(degree[source] * degree[target])
    diagonal = np.arange(size)
    matrix[:, diagonal, diagonal] = (degree > 0).reshape(-1, size)  # an isolated node has the eigenvalue 0
    if size <= DENSE:
        solved = zip(*np.linalg.eigh(matrix), strict=True)
        return np.stack([_averaged(values, vectors, count) for values, vectors in solved])
    made = np.empty((graphs.n_graphs, size, count))
    for place, one in enumerate(matrix):
        trivial = _components(graphs.subset([place]))
        last = min(size, trivial + count + SPARE) - 1
        values, vectors = eigh(one, subset_by_index=[0, last])
        if last < size - 1 and values[-1] - values[min(trivial + count, last) - 1] < EQUAL:
            values, vectors = eigh(one)
        made[place] = _averaged(values, vectors, count)
    return made


def _components(graph: GraphSet) -> int:
    """The number of connected components of a graph, which is the multiplicity of the eigenvalue 0."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    target = graph.edge_source + graph.edge_disp
    adjacency = csr_array((np.ones(graph.n_edges), target, graph.edge_ptr), (graph.n_nodes,) * 2)
    return int(connected_components(adjacency, directed=False, return_labels=False))


def _averaged(values: Doubles, vectors: Doubles, count: int) -> Doubles:
    """[n, count] the encodings from ascending eigenvalues [m] and their eigenvectors [n, m]."""
    space = np.cumsum(np.diff(values, prepend=values[0]) >= EQUAL)
    squares = np.stack([np.bincount(space, row) for row in np.square(vectors)]) / np.bincount(space)
    wanted = np.flatnonzero(values >= EQUAL)[:count]
    made = np.zeros((len(vectors), count))
    made[:, : len(wanted)] = np.sqrt(squares[:, space[wanted]])
    return made


def float_columns(graphs: GraphSet, attributes: bool, rwse: int, lappe: int) -> NDArray[np.float32] | SideBySide | None:
    """[N, D] the float columns of the nodes: attributes, return probabilities, Laplacian encodings."""
    if attributes and graphs.attributes is None:
        raise UserError(f"{graphs.name} has no node attributes")
    parts = [np.asarray(graphs.attributes)] if attributes else []
    parts += [return_probabilities(graphs, rwse)] if rwse else []
    parts += [laplacian_encodings(graphs, lappe)] if lappe else []
    return (parts[0] if len(parts) == 1 else SideBySide(parts)) if parts else None
