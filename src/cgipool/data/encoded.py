"""Encoded inputs, and the encoder of the edges."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import graph_ids
from cgipool.data.columns import (
    Codes,
    Columns,
    Rows,
    check_source_names,
    edge_stretches,
    known,
    label_codes,
    moments,
    numbers_of,
    other_width,
    source_names,
)
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names


@dataclass(frozen=True, eq=False)
class Inputs:
    """Encoded nodes, or encoded edges."""

    category: NDArray[np.int32] | Rows
    """[N, K] column numbers, each category column in its own stretch of the `columns`."""
    columns: int
    """Width of the joint one-hot input."""
    floats: NDArray[np.float32] | Rows | None
    """[N, D] standardised attributes."""
    edges: "Inputs | None" = None
    """The encoded edges [E, …], in the order in which the set stores them; None where edges are not read."""
    descriptors: NDArray[np.float32] | None = None
    """[G, V] standardised descriptors of the graphs; None where none are read."""


@dataclass(frozen=True)
class EdgeEncoder(Columns):
    """A fixed map from edges to inputs, fitted on the edges of the training graphs; see `Encoder`."""

    vocabulary: str
    values: tuple[Names, ...]
    seen: tuple[tuple[bool, ...], ...]
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    reads: Names = ()
    """The label columns that are read, by name; without names, all by position."""
    called: tuple[Names, Names] = ((), ())
    """What the source calls the label columns and the attribute columns."""

    @classmethod
    def fit(
        cls,
        graphs: GraphSet,
        train_ids: NDArray[Any] | None = None,
        *,
        vocabulary: str = "train",
        reads: Names = (),
    ) -> "EdgeEncoder":
        """Fit the label columns (by default all) and the attributes of the edges on the graphs `train_ids` (by default
        all)."""
        ids = graph_ids(graphs, train_ids)
        codes = label_codes(
            graphs.edge_category, graphs.edge_category_names, numbers_of(graphs, "edge_category", reads)
        )
        seen = known(codes, edge_stretches(graphs, ids), vocabulary)
        if graphs.edge_attributes is None:
            return cls(vocabulary, codes.names, seen, reads=reads, called=source_names(graphs, "edge_"))
        nothing = f"{graphs.name}: no edges in the training graphs to standardise the edge attributes by"
        values = np.asarray(graphs.edge_attributes)
        fitted = moments(values, lambda: edge_stretches(graphs, ids), nothing)
        return cls(vocabulary, codes.names, seen, *fitted, reads=reads, called=source_names(graphs, "edge_"))

    def encode(self, graphs: GraphSet) -> Inputs:
        """The inputs of these graphs' edges."""
        codes = self.codes(graphs)
        category = self.categories(codes, graphs.n_edges)
        floats = None
        if self.mean is not None:
            width = 0 if graphs.edge_attributes is None else graphs.edge_attributes.shape[1]
            if graphs.edge_attributes is None or width != len(self.mean):
                raise other_width(graphs, width, "edge attribute column", len(self.mean))
            check_source_names(graphs, "edge attribute", source_names(graphs, "edge_")[1], self.called[1])
            floats = self.standardised(np.asarray(graphs.edge_attributes))
        return inputs_of(graphs, category, self.columns, floats)

    def codes(self, graphs: GraphSet) -> Codes:
        """The edge labels of a set, which must have the columns that were fitted."""
        columns = numbers_of(graphs, "edge_category", self.reads)
        codes = label_codes(graphs.edge_category, graphs.edge_category_names, columns)
        if len(codes.names) != len(self.values):
            raise other_width(graphs, len(codes.names), "edge label column", len(self.values))
        if not self.reads:
            check_source_names(graphs, "edge label", source_names(graphs, "edge_")[0], self.called[0])
        return codes


def fitted_in(plain: dict[str, Any]) -> dict[str, Any]:
    """The fields that `Encoder` and `EdgeEncoder` share."""
    return {
        "values": tuple(map(tuple, plain["values"])),
        "seen": tuple(map(tuple, plain["seen"])),
        "mean": None if plain["mean"] is None else tuple(plain["mean"]),
        "scale": None if plain["scale"] is None else tuple(plain["scale"]),
        "reads": tuple(plain.get("reads", ())),
        "called": tuple(map(tuple, plain.get("called", ((), ())))),
    }


def inputs_of(
    graphs: GraphSet, category: Rows, columns: int, floats: Rows | None, edges: Inputs | None = None
) -> Inputs:
    """The inputs as arrays; of a set on disk, computed for the rows that are asked for."""
    if graphs.is_mapped:
        return Inputs(category, columns, floats, edges)
    return Inputs(np.asarray(category), columns, None if floats is None else np.asarray(floats), edges)
