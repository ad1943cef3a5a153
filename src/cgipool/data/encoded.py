"""Encoded inputs, the encoder of edges, and the edge data that batches are cut from.

The entry (p, q) of the neighbour lists is the message that p receives from q, so it carries the weight and the features
of the edge from q to p. Shapes: N nodes, E stored edges, G graphs, U kinds of edges, K category columns, V float
columns.
"""

from dataclasses import dataclass, replace
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
    """[N, K] column numbers; each category column has its own range of the `columns`."""
    columns: int
    """Width of the joint one-hot input."""
    floats: NDArray[np.float32] | Rows | None
    """[N, D] standardised attributes."""
    edges: "Inputs | None" = None
    """The encoded edges [E, …], in stored order; None if edges are not read."""
    descriptors: NDArray[np.float32] | None = None
    """[G, V] standardised descriptors of the graphs; None if none are read."""


@dataclass(frozen=True)
class EdgeEncoder(Columns):
    """A fixed map from edges to inputs, fitted on the edges of the training graphs; see `Encoder`."""

    vocabulary: str
    values: tuple[Names, ...]
    seen: tuple[tuple[bool, ...], ...]
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    reads: Names = ()
    """Names of the label columns to read; empty if all are read by position."""
    called: tuple[Names, Names] = ((), ())
    """The source's names of the label columns and the attribute columns."""

    @classmethod
    def fit(
        cls,
        graphs: GraphSet,
        train_ids: NDArray[Any] | None = None,
        *,
        vocabulary: str = "train",
        reads: Names = (),
    ) -> "EdgeEncoder":
        """Fit the label columns `reads` (default: all) and the attributes of the edges on the graphs `train_ids`
        (default: all)."""
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
        """The edge labels of a set. Raise UserError unless it has the columns that the encoder was fitted on."""
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
    """The inputs as arrays; for a memory-mapped set, computed when rows are read."""
    if graphs.is_mapped:
        return Inputs(category, columns, floats, edges)
    return Inputs(np.asarray(category), columns, None if floats is None else np.asarray(floats), edges)


@dataclass(frozen=True, eq=False)
class EdgeColumns:
    """Edge data by entry of the neighbour lists. Data that is not read is empty and takes no memory.

    Edges with equal categories are of one kind, so a model embeds a few kinds instead of every edge.
    """

    kind: NDArray[np.int32]
    """[U, K] the one-hot columns of each kind."""
    code: NDArray[np.int32]
    """[E] the kind of each entry, or [0]."""
    floats: NDArray[np.float32]
    """[E, V] standardised attributes, or [0, 0]."""
    weight: NDArray[np.float32]
    """[E] or [0]."""
    reverse: NDArray[np.int32]
    """[E] number of the reverse entry minus the entry's own; [0] if all edges have equal data in both directions."""

    @classmethod
    def of(cls, graphs: GraphSet, inputs: Inputs | None) -> "EdgeColumns":
        """The edge weights of a set, and its encoded edge features unless `inputs` is None."""
        kind, code = np.zeros((0, 0), np.int32), np.zeros(0, np.int32)
        floats, weight = np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
        if graphs.edge_weight is not None:
            weight = np.asarray(graphs.edge_weight)
        if inputs is not None and graphs.edge_category is not None:
            code, example = kinds_of(np.asarray(graphs.edge_category))
            kind = np.asarray(inputs.category[example])
        if inputs is not None and inputs.floats is not None:
            floats = np.asarray(inputs.floats)
        present = [column for column in (code, floats, weight) if len(column)]
        if not present:
            return cls(kind, code, floats, weight, np.zeros(0, np.int32))
        back = reverse_of(graphs)
        if all(np.array_equal(column, column[back]) for column in present):
            return cls(kind, code, floats, weight, np.zeros(0, np.int32))
        code, weight = (code[back] if len(code) else code), (weight[back] if len(weight) else weight)
        floats = floats[back] if len(floats) else floats
        return cls(kind, code, floats, weight, (back - np.arange(len(back))).astype(np.int32))

    def encoded_by(self, inputs: Inputs | None) -> "EdgeColumns":
        """The same edges in the encoding of another split, with its own vocabulary and standardisation."""
        if inputs is None:
            return self
        kind, floats = self.kind, self.floats
        entry = np.arange(max(len(self.code), len(self.floats)))
        stored = entry + self.reverse if len(self.reverse) else entry
        if len(self.code):
            _, example = np.unique(self.code, return_index=True)
            kind = np.asarray(inputs.category[stored[example]])
        if len(floats):
            floats = np.asarray(inputs.floats)[stored]
        return replace(self, kind=kind, floats=floats)

    @property
    def columns(self) -> tuple[NDArray[Any], ...]:
        """The data by entry: code, floats, weight, reverse."""
        return self.code, self.floats, self.weight, self.reverse


def kinds_of(category: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """[E] the number of each row of [E, K] codes among the distinct rows, and [U] an example of each distinct row."""
    key = np.zeros(len(category), np.int64)
    for column in category.T:
        _, place = np.unique(column, return_inverse=True)
        key = key * (int(place.max(initial=0)) + 1) + place
        _, key = np.unique(key, return_inverse=True)  # small again, so that no product overflows
    _, example, code = np.unique(key, return_index=True, return_inverse=True)
    return code.astype(np.int32), example


def reverse_of(graphs: GraphSet) -> NDArray[np.int64]:
    """[E] the number of the reverse of each stored edge. Rows are sorted, so a stable sort by target gives it."""
    return np.argsort(graphs.edge_source + np.asarray(graphs.edge_disp), kind="stable")
