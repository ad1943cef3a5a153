"""Describe a data set in plain values, and warn about parts of it that training does not use."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import CHUNK, mix
from cgipool.data.catalogue import CATALOGUE
from cgipool.data.further import few, names_of
from cgipool.data.graphs import GraphSet
from cgipool.data.structure import ROUND, Words, refined, segment_sums
from cgipool.errors import UnusedDataWarning, counted, warn_user

STRETCH = 1 << 20
"""Nodes to process at a time."""

UNUSED = "edge labels and attributes are read by the convolutions gine and transformer"
ASKED = "without node attributes (attributes=false) nodes are known by degree"


def describe(graphs: GraphSet) -> dict[str, Any]:
    """Counts, sizes, classes, columns, what was dropped from the source, and duplicates."""
    n = max(graphs.n_graphs, 1)
    sizes = graphs.sizes if graphs.n_graphs else np.zeros(1, dtype=np.int64)
    members = np.bincount(graphs.y, minlength=graphs.n_classes).tolist() if graphs.n_classes else []
    edge_columns = {
        "weight": graphs.edge_weight is not None,
        "labels": [len(names) for names in graphs.edge_category_names],
        "attributes": 0 if graphs.edge_attributes is None else graphs.edge_attributes.shape[1],
    }
    return {
        "name": graphs.name,
        "graphs": graphs.n_graphs,
        "nodes": graphs.n_nodes,
        "edges": _edges(graphs),
        "directed": graphs.directed,
        "nodes_per_graph": graphs.n_nodes / n,
        "edges_per_graph": _edges(graphs) / n,
        "smallest": int(sizes.min()),
        "median": float(np.median(sizes)),
        "largest": int(sizes.max()),
        "graphs_without_nodes": _empty(graphs),
        "isolated_nodes": sum(
            int(np.count_nonzero(np.diff(graphs.edge_ptr[start : start + STRETCH + 1]) == 0))
            for start in range(0, graphs.n_nodes, STRETCH)
        ),
        "classes": [
            {"name": name, "graphs": count, "share": count / n}
            for name, count in zip(graphs.class_names, members, strict=True)
        ],
        "targets": _targets(graphs),
        "node_columns": {
            "labels": [len(names) for names in graphs.category_names],
            "attributes": 0 if graphs.attributes is None else graphs.attributes.shape[1],
            "truth": graphs.node_truth is not None,
        },
        "edge_columns": edge_columns,
        "columns": list(names_of(graphs)),
        "column_names": {what: list(names) for what, names in graphs.column_names.items()},
        "note": "; ".join(_notes(graphs, bool(edge_columns["labels"] or edge_columns["attributes"]))) or None,
        "dropped": dict(graphs.dropped),
        "duplicates": duplicates(graphs),
    }


def _targets(graphs: GraphSet) -> list[dict[str, Any]]:
    """Each target column: its name, known values, and their range and mean."""
    if graphs.targets is None:
        return []
    columns = []
    for name, column in zip(graphs.target_names, graphs.targets.T, strict=True):
        known = column[~np.isnan(column)]
        values = {"smallest": known.min(), "largest": known.max(), "mean": known.mean()} if len(known) else {}
        columns.append({"name": name, "known": len(known)} | {what: float(value) for what, value in values.items()})
    return columns


def _edges(graphs: GraphSet) -> int:
    """The number of edges: half of the stored ones for an undirected set."""
    if graphs.directed and graphs.edge_weight is not None:
        return int(np.count_nonzero(graphs.edge_weight))
    return graphs.n_edges // 2


def _empty(graphs: GraphSet) -> int:
    return int(np.count_nonzero(graphs.sizes == 0))


def _notes(graphs: GraphSet, has_edge_columns: bool) -> Iterator[str]:
    if empty := _empty(graphs):
        have = "has" if empty == 1 else "have"
        yield f"{counted(empty, 'graph')} {have} no nodes, so only the majority class can be predicted for them"
    if graphs.attributes is not None and graphs.category is None:
        yield ASKED
    if has_edge_columns:
        yield UNUSED


def duplicates(graphs: GraphSet) -> dict[str, int | float | None]:
    """Count graphs that 1-WL cannot distinguish. A kind is a set of such graphs.

    `distinct` is the number of kinds, `with_twin` the number of graphs that are not alone in their kind. If classes are
    known, `conflicting` is the number of kinds with several classes, and `ceiling` the largest accuracy of a classifier
    that sees only the kind.
    """
    kind = wl_classes(graphs)
    members = np.bincount(kind)
    found: dict[str, int | float | None] = {
        "distinct": len(members),
        "with_twin": int(members[members > 1].sum()),
        "conflicting": None,
        "ceiling": None,
    }
    if not graphs.n_classes:
        return found
    pairs, counts = np.unique(kind * graphs.n_classes + graphs.y, return_counts=True)
    of_kind = pairs // graphs.n_classes
    largest = np.zeros_like(members)
    np.maximum.at(largest, of_kind, counts)
    return found | {
        "conflicting": int(np.count_nonzero(np.bincount(of_kind) > 1)),
        "ceiling": float(largest.sum() / graphs.n_graphs) if graphs.n_graphs else None,
    }


ONE_WAY = "one-way edges completed"
"""The key in `dropped` of edges that the source lists in one direction only."""

DISCARDED = "direction is discarded"


def warn_of_unused(graphs: GraphSet, unread: Mapping[str, str]) -> None:
    """Warn about each part of the data that is not used. `unread` has those of "node attributes", "edge labels" and
    "edge attributes" that are not read, with a hint for each.

    For sets of the catalogue it is known what the paper's protocol leaves out, so all parts are in one warning.
    """
    left_out = [f"{thing} are not used{why}" for thing, why in _unused(graphs, unread)]
    if one_way := graphs.dropped.get(ONE_WAY):
        left_out.append(f"{DISCARDED}: {counted(one_way, 'one-way edge')} count in both directions")
    if graphs.name in CATALOGUE and left_out:
        left_out = ["; ".join(left_out)]
    left_out += _constant_labels(graphs)
    for message in left_out:
        warn_user(f"{graphs.name}: {message}", UnusedDataWarning)


def _constant_labels(graphs: GraphSet) -> Iterator[str]:
    """A message about the label columns of a multi-label task that have one value only."""
    if graphs.task != "multilabel" or graphs.targets is None:
        return
    names = [
        name
        for name, column in zip(graphs.target_names, graphs.targets.T, strict=True)
        if len(np.unique(column[~np.isnan(column)])) == 1
    ]
    if names:
        have, they = ("has", "it is") if len(names) == 1 else ("have", "they are")
        shown = f"{counted(len(names), 'label column')} ({few(names)}) {have} one value only"
        yield f"{shown}: {they} trained, but left out of mean ROC-AUC and PR-AUC"


def _unused(graphs: GraphSet, unread: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The parts that are not used, each with a hint."""
    columns: dict[str, NDArray[Any] | None] = {
        "node attributes": graphs.attributes,
        "edge labels": graphs.edge_category,
        "edge attributes": graphs.edge_attributes,
    }
    for thing, hint in unread.items():
        if (values := columns[thing]) is not None:
            alone = thing == "node attributes" and graphs.category is None
            seen = " and nodes have no labels, so only their degrees are seen" if alone else ""
            yield f"{thing} ({_columns(values.shape[1])})", seen + hint


def _columns(count: int) -> str:
    return counted(count, "column")


GRAPH = np.uint64(0xD1B54A32D192ED03)
"""An odd constant that distinguishes the words of graphs from those of nodes."""


def wl_classes(graphs: GraphSet, rounds: int | None = None) -> NDArray[np.int64]:
    """[G] the number of each graph's 1-WL class, in order of first appearance.

    Initial colours come from all node label columns; without labels they are equal. They are refined `rounds` times, by
    default until no colour is split.
    """
    words = [_words(graphs.subset(np.arange(first, last)), rounds) for first, last in graphs.stretches(CHUNK)]
    words.append(np.empty(0, np.uint64))
    _, first, inverse = np.unique(np.concatenate(words), True, True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _words(graphs: GraphSet, rounds: int | None) -> Words:
    """[G] a 64-bit word for each graph; graphs that 1-WL cannot distinguish have the same word."""
    words, left = np.empty(graphs.n_graphs, np.uint64), np.arange(graphs.n_graphs)
    colour, done = _start(graphs), 0
    count = _colours(graphs, colour)
    while len(left):
        if rounds is not None and done == rounds:
            words[left] = _of_graphs(graphs, colour)
            break
        colour = refined(graphs, colour)
        before, count, done = count, _colours(graphs, colour), done + 1
        if rounds is None:
            going = count > before
            words[left[~going]] = _of_graphs(graphs, colour)[~going]
            colour, left, count = colour[np.repeat(going, graphs.sizes)], left[going], count[going]
            graphs = graphs.subset(np.flatnonzero(going))
    return words


def _colours(graphs: GraphSet, colour: Words) -> NDArray[np.int64]:
    """[G] the number of different colours in each graph. Only the bits of a colour that fit into a word together with
    the graph's number are compared."""
    bits = np.uint64(max(graphs.n_graphs - 1, 1).bit_length())
    number = graphs.node_graph.astype(np.uint64) << (np.uint64(64) - bits)
    key = np.sort(number | (colour >> bits))
    first = key[np.flatnonzero(np.diff(key, prepend=~key[:1]))]
    return np.bincount((first >> (np.uint64(64) - bits)).astype(np.int64), minlength=graphs.n_graphs)


def _of_graphs(graphs: GraphSet, colour: Words) -> Words:
    """[G] a word from the multiset of the colours of each graph's nodes and their number."""
    total = segment_sums(mix(colour * GRAPH), graphs.node_ptr)
    return mix(total + mix(graphs.sizes.view(np.uint64) + GRAPH))


def _start(graphs: GraphSet) -> NDArray[np.uint64]:
    colour = np.ones(graphs.n_nodes, dtype=np.uint64)
    if graphs.category is not None:
        for column in graphs.category.T:
            colour = mix(colour * ROUND + column.astype(np.uint64))
    return colour
