"""A data set in plain values, for people and for JSON."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cgipool.data.duplicates import wl_classes
from cgipool.data.graphs import GraphSet
from cgipool.words import counted

STRETCH = 1 << 20
"""Nodes that are looked at at a time."""

UNUSED = "edge weights, labels and attributes are kept but no present recipe uses them"
ASKED = "node attributes are used where the setting attributes=true asks for them; without it nodes are known by degree"


def describe(graphs: GraphSet) -> dict[str, Any]:
    """Counts, sizes, classes, columns, what was dropped from the source, and duplicates."""
    n = max(graphs.n_graphs, 1)
    sizes = graphs.sizes if graphs.n_graphs else np.zeros(1, dtype=np.int64)
    members = np.bincount(graphs.y, minlength=graphs.n_classes).tolist() if graphs.is_labelled else []
    edge_columns = {
        "weight": graphs.edge_weight is not None,
        "labels": [len(names) for names in graphs.edge_category_names],
        "attributes": 0 if graphs.edge_attributes is None else graphs.edge_attributes.shape[1],
    }
    return {
        "name": graphs.name,
        "graphs": graphs.n_graphs,
        "nodes": graphs.n_nodes,
        "edges": graphs.n_edges // 2,
        "nodes_per_graph": graphs.n_nodes / n,
        "edges_per_graph": graphs.n_edges / 2 / n,
        "smallest": int(sizes.min()),
        "median": float(np.median(sizes)),
        "largest": int(sizes.max()),
        "graphs_without_nodes": _hollow(graphs),
        "isolated_nodes": sum(
            int(np.count_nonzero(np.diff(graphs.edge_ptr[start : start + STRETCH + 1]) == 0))
            for start in range(0, graphs.n_nodes, STRETCH)
        ),
        "classes": [
            {"name": name, "graphs": count, "share": count / n}
            for name, count in zip(graphs.class_names, members, strict=True)
        ],
        "node_columns": {
            "labels": [len(names) for names in graphs.category_names],
            "attributes": 0 if graphs.attributes is None else graphs.attributes.shape[1],
            "truth": graphs.node_truth is not None,
        },
        "edge_columns": edge_columns,
        "column_names": {what: list(names) for what, names in graphs.column_names.items()},
        "note": "; ".join(_notes(graphs, any(edge_columns.values()))) or None,
        "dropped": dict(graphs.dropped),
        "duplicates": duplicates(graphs),
    }


def _hollow(graphs: GraphSet) -> int:
    return int(np.count_nonzero(graphs.sizes == 0))


def _notes(graphs: GraphSet, has_edge_columns: bool) -> Iterator[str]:
    if hollow := _hollow(graphs):
        have = "has" if hollow == 1 else "have"
        yield f"{counted(hollow, 'graph')} {have} no nodes, so that nothing tells of the class"
    if graphs.attributes is not None and graphs.category is None:
        yield ASKED
    if has_edge_columns:
        yield UNUSED


def duplicates(graphs: GraphSet) -> dict[str, int | float | None]:
    """Graphs up to what 1-WL can tell: distinct kinds, graphs with a twin, kinds whose graphs differ in class, and the
    largest share of all graphs that can be classified rightly by kind alone; the last two where classes are known."""
    kind = wl_classes(graphs)
    members = np.bincount(kind)
    found: dict[str, int | float | None] = {
        "distinct": len(members),
        "with_twin": int(members[members > 1].sum()),
        "conflicting": None,
        "ceiling": None,
    }
    if not graphs.is_labelled:
        return found
    pairs, counts = np.unique(kind * graphs.n_classes + graphs.y, return_counts=True)
    of_kind = pairs // graphs.n_classes
    largest = np.zeros_like(members)
    np.maximum.at(largest, of_kind, counts)
    return found | {
        "conflicting": int(np.count_nonzero(np.bincount(of_kind) > 1)),
        "ceiling": float(largest.sum() / graphs.n_graphs) if graphs.n_graphs else None,
    }
