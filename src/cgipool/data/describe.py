"""A data set in plain values, for people and for JSON, and what a training leaves out of it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cgipool.data.catalogue import CATALOGUE
from cgipool.data.duplicates import wl_classes
from cgipool.data.graphs import GraphSet
from cgipool.errors import UnusedDataWarning, counted, warn_user

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


ONE_WAY = "one-way edges completed"
"""How a set names, in `dropped`, edges that its source lists in one direction only."""

DISCARDED = "direction is discarded"


def warn_of_unused(graphs: GraphSet, attributes: bool) -> None:
    """One warning for each thing that is left out; `attributes` says whether node attributes are used.

    The sets of the catalogue are known, and so is what the paper's protocol leaves out: they get a single note.
    """
    left_out = [f"{thing} are not used{why}" for thing, why in _unused(graphs, attributes)]
    if one_way := graphs.dropped.get(ONE_WAY):
        left_out.append(f"{DISCARDED}: {counted(one_way, 'one-way edge')} count in both directions")
    if graphs.name in CATALOGUE and left_out:
        left_out = ["; ".join(left_out)]
    for said in left_out:
        warn_user(f"{graphs.name}: {said}", UnusedDataWarning)


def _unused(graphs: GraphSet, attributes: bool) -> Iterator[tuple[str, str]]:
    """What is not used, and what to know about it."""
    if graphs.attributes is not None and not attributes:
        alone = "" if graphs.category is not None else " and nodes have no labels, so only their degrees are seen"
        alone += "; set attributes=true to use them"
        yield f"node attributes ({_columns(graphs.attributes.shape[1])})", alone
    if graphs.edge_weight is not None:
        yield "edge weights", ""
    if graphs.edge_category is not None:
        yield f"edge labels ({_columns(graphs.edge_category.shape[1])})", ""
    if graphs.edge_attributes is not None:
        yield f"edge attributes ({_columns(graphs.edge_attributes.shape[1])})", ""


def _columns(count: int) -> str:
    return counted(count, "column")
