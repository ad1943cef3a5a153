"""The ids and names that a data set carries: of its graphs, its nodes and its columns."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.lines import given_ids


def graph_ids(path: Path, graphs: GraphSet | None = None) -> Iterator[str]:
    """The ids of the graphs of a set at a path, or of the molecules in a file, in order; nothing if the source has
    none."""
    return given_ids(path) if graphs is None or graphs.graph_ids is None else iter(graphs.graph_ids)


def id_at(path: Path, number: int, graphs: GraphSet | None = None) -> str:
    """The id of the graph at a position; empty if it has none."""
    return next(islice(graph_ids(path, graphs), number, None), "")


def node_names(graphs: GraphSet) -> Sequence[str]:
    """[N] the names of the nodes of all graphs; empty if they have none."""
    return () if graphs.node_names is None else list(graphs.node_names)


def column_names(graphs: GraphSet, featurizer: dict[str, Any] | None) -> Sequence[str]:
    """The names of the node label columns; empty if they have none."""
    if featurizer is not None:
        return [str(column["name"]) for column in featurizer["atoms"]]
    return graphs.column_names.get("category", ())
