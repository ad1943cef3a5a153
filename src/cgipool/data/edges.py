"""What a model reads of the edges of a data set, in the form that batches are cut from.

An entry (p, q) of the neighbour lists is the message that p receives from q, so it carries the weight and the features
of the edge from q to p. Shapes: E stored edges, U kinds of edges, K category columns, V float columns.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.encoded import Inputs
from cgipool.data.graphs import GraphSet


@dataclass(frozen=True, eq=False)
class EdgeColumns:
    """Edge data by entry of the neighbour lists. What is not read is empty and takes no memory.

    Edges with equal categories are of one kind, so that a model embeds a few kinds instead of every edge.
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
    """[E] the number of the reverse entry minus the entry's own; [0] if all edges have the same data both ways."""

    @classmethod
    def of(cls, graphs: GraphSet, inputs: Inputs | None) -> "EdgeColumns":
        """The weights of a set, and its encoded features unless `inputs` is None."""
        kind, code = np.zeros((0, 0), np.int32), np.zeros(0, np.int32)
        floats, weight = np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
        if graphs.edge_weight is not None:
            weight = np.asarray(graphs.edge_weight)
        if inputs is not None and graphs.edge_category is not None:
            code, example = kinds_of(np.asarray(graphs.edge_category))
            kind = np.asarray(inputs.category[example])
        if inputs is not None and inputs.floats is not None:
            floats = np.asarray(inputs.floats)
        read = [column for column in (code, floats, weight) if len(column)]
        if not read:
            return cls(kind, code, floats, weight, np.zeros(0, np.int32))
        back = reverse_of(graphs)
        if all(np.array_equal(column, column[back]) for column in read):
            return cls(kind, code, floats, weight, np.zeros(0, np.int32))
        code, weight = (code[back] if len(code) else code), (weight[back] if len(weight) else weight)
        floats = floats[back] if len(floats) else floats
        return cls(kind, code, floats, weight, (back - np.arange(len(back))).astype(np.int32))

    def encoded_by(self, inputs: Inputs | None) -> "EdgeColumns":
        """The same edges as another split encodes them, which has a vocabulary and a standardisation of its own."""
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
    """[E] the number of each row of [E, K] codes among the distinct rows, and [U] an example of each."""
    key = np.zeros(len(category), np.int64)
    for column in category.T:
        _, place = np.unique(column, return_inverse=True)
        key = key * (int(place.max(initial=0)) + 1) + place
        _, key = np.unique(key, return_inverse=True)  # small again, so that no product overflows
    _, example, code = np.unique(key, return_index=True, return_inverse=True)
    return code.astype(np.int32), example


def reverse_of(graphs: GraphSet) -> NDArray[np.int64]:
    """[E] the number of each stored edge's reverse. Rows are sorted, so a stable sort by target lists the reverses."""
    return np.argsort(graphs.edge_source + np.asarray(graphs.edge_disp), kind="stable")
