"""Graphs that were read one by one, put together to a set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cgipool.data.names import Names, end_to_end
from cgipool.errors import UserError

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

Coded = tuple[NDArray[np.int32] | None, tuple[Names, ...]]
"""Label columns as codes, and the names of the codes."""


class Parts:
    """Graphs, each as columns by the names that a GraphSet has for them; also size, source and target."""

    def __init__(self, parts: Sequence[dict[str, Any]]) -> None:
        self.parts = parts
        self.sizes = [part["size"] for part in parts]
        self.rows = [len(part["source"]) for part in parts]

    def of_nodes(self, key: str, dtype: DTypeLike | None = None) -> NDArray[Any] | None:
        """[N, K] the columns of all nodes; None where no graph has them."""
        return self._end_to_end(key, self.sizes, dtype)

    def of_edges(self, key: str, dtype: DTypeLike | None = None) -> NDArray[Any] | None:
        """[E, K] the columns of all edges; None where no graph has them."""
        return self._end_to_end(key, self.rows, dtype)

    def _end_to_end(self, key: str, counts: list[int], dtype: DTypeLike | None) -> NDArray[Any] | None:
        values = end_to_end(key, [part[key] for part in self.parts], counts)
        return values if values is None or dtype is None else values.astype(dtype)

    def ends(self, key: str) -> NDArray[np.int64]:
        """[E] one end of all edges, in numbers of the whole set."""
        starts = np.cumsum(self.sizes, dtype=np.int64) - np.array(self.sizes, dtype=np.int64)
        ends = (part[key] + start for part, start in zip(self.parts, starts, strict=True))
        return np.concatenate([np.empty(0, np.int64), *ends])

    def graphset(
        self, name: str, y: NDArray[np.signedinteger], class_names: Names, category: Coded, edge_category: Coded
    ) -> "GraphSet":
        """The set, with its labels as codes."""
        from cgipool.data.graphs import GraphSet

        return GraphSet.from_edges(
            name,
            self.sizes,
            self.ends("source"),
            self.ends("target"),
            y,
            class_names=class_names,
            category=category[0],
            category_names=category[1],
            attributes=self.of_nodes("attributes", np.float32),
            edge_weight=_alone("edge_weight", self.of_edges("edge_weight", np.float32)),
            edge_category=edge_category[0],
            edge_category_names=edge_category[1],
            edge_attributes=self.of_edges("edge_attributes", np.float32),
            node_truth=_alone("node_truth", self.of_nodes("node_truth", np.bool_)),
        )


def _alone(key: str, values: NDArray[Any] | None) -> NDArray[Any] | None:
    """[n] a column that stands alone."""
    if values is None:
        return None
    if values.shape[1] != 1:
        raise UserError(f"{key} has {values.shape[1]} columns, where one is due")
    return values[:, 0]
