"""What a model sees of a node: the column numbers of one joint one-hot input, and float columns.

The one-hot matrix itself is never built (COLLAB's would need 0.7 GB): a model looks up one row of weights per column
number. Shapes: N nodes, K label columns (1 for degrees), D float columns.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import ranges
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.errors import UserError, unknown

SOURCES = ("auto", "label", "degree")
VOCABULARIES = ("train", "all")


@dataclass(frozen=True, eq=False)
class Inputs:
    """Encoded nodes."""

    category: NDArray[np.int32]
    """[N, K] column numbers, each label column in its own stretch of the `columns`."""
    columns: int
    """Width of the joint one-hot input."""
    floats: NDArray[np.float32] | None
    """[N, D] standardised attributes."""


@dataclass(frozen=True)
class Encoder:
    """A fixed map from nodes to inputs, fitted on the training graphs of one split.

    The columns are the values of the whole data set in sorted order, so that all splits have the same number of them.
    With vocabulary "train" each label column has one more, "other": a value that no training graph shows goes there,
    whether it is met in test or in new data. With "all" (as the authors' released code does) every value of the set
    has its own column, trained or not, and there is no "other".
    """

    source: str
    """"label" or "degree"."""
    vocabulary: str
    """"train" or "all"."""
    values: tuple[Names, ...]
    """Per label column, the values that have a column."""
    seen: tuple[tuple[bool, ...], ...]
    """Per label column and value, whether it may use its own column; the rest go to "other"."""
    mean: tuple[float, ...] | None = None
    """Per float column, the mean over the training nodes; None without attributes."""
    scale: tuple[float, ...] | None = None
    """Per float column, the standard deviation over the training nodes, 1 where it is 0."""

    @classmethod
    def fit(
        cls,
        graphs: GraphSet,
        train_ids: NDArray[Any] | None = None,
        *,
        source: str = "auto",
        vocabulary: str = "train",
        attributes: bool = False,
    ) -> "Encoder":
        """Choose the columns from `graphs`, and what is known of them from the graphs `train_ids` (by default all)."""
        if source not in SOURCES:
            raise unknown("feature source", source, SOURCES)
        if vocabulary not in VOCABULARIES:
            raise unknown("vocabulary", vocabulary, VOCABULARIES)
        if source == "auto":
            source = "degree" if graphs.category is None else "label"
        ids = np.arange(graphs.n_graphs) if train_ids is None else np.asarray(train_ids, dtype=np.int64)
        nodes = ranges(graphs.node_ptr[ids], graphs.sizes[ids])
        codes, values = _codes(graphs, source)
        seen = []
        for j, names in enumerate(values):
            known = np.full(len(names), vocabulary == "all")
            known[codes[nodes, j]] = True
            seen.append(tuple(known.tolist()))
        mean, scale = _moments(graphs, nodes) if attributes else (None, None)
        return cls(source, vocabulary, values, tuple(seen), mean, scale)

    @property
    def columns(self) -> int:
        """Width of the joint one-hot input."""
        return sum(map(len, self.values)) + (len(self.values) if self.vocabulary == "train" else 0)

    @property
    def others(self) -> tuple[int, ...]:
        """The columns that stand for "other"; no training node is in one."""
        ends = np.cumsum([len(names) + 1 for names in self.values]) - 1
        return tuple(ends.tolist()) if self.vocabulary == "train" else ()

    @property
    def n_floats(self) -> int:
        """D, the float columns."""
        return 0 if self.mean is None else len(self.mean)

    def encode(self, graphs: GraphSet) -> Inputs:
        """The inputs of these graphs, of the fitted set or of others."""
        codes, values = _codes(graphs, self.source)
        if len(values) != len(self.values):
            raise UserError(f"{graphs.name}: {len(values)} node label columns where {len(self.values)} were fitted")
        category = np.empty(codes.shape, dtype=np.int32)
        offset = 0
        for j, names in enumerate(values):
            place = self._places(j, names)[codes[:, j]]
            if self.vocabulary == "all" and (strange := place == len(self.values[j])).any():
                what = "degree" if self.source == "degree" else f"node label (column {j})"
                value = names[codes[np.argmax(strange), j]]
                raise UserError(f"{graphs.name}: {what} {value} is not in the vocabulary, which has no 'other' column")
            category[:, j] = offset + place
            offset += len(self.values[j]) + (self.vocabulary == "train")
        return Inputs(category, self.columns, self._floats(graphs))

    def _places(self, j: int, names: Names) -> NDArray[np.int32]:
        """[len(names)] for each value of label column j, its place in the stretch of j; "other" is the last."""
        other = len(self.values[j])
        place = {name: c if self.seen[j][c] else other for c, name in enumerate(self.values[j])}
        return np.array([place.get(name, other) for name in names], dtype=np.int32)

    def _floats(self, graphs: GraphSet) -> NDArray[np.float32] | None:
        if self.mean is None:
            return None
        width = 0 if graphs.attributes is None else graphs.attributes.shape[1]
        if graphs.attributes is None or width != len(self.mean):
            raise UserError(f"{graphs.name}: {width} attribute columns where {len(self.mean)} were fitted")
        return ((graphs.attributes - np.array(self.mean)) / np.array(self.scale)).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """The encoder as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Encoder":
        """The encoder that `to_json` wrote."""
        try:
            return cls(
                source=plain["source"],
                vocabulary=plain["vocabulary"],
                values=tuple(map(tuple, plain["values"])),
                seen=tuple(map(tuple, plain["seen"])),
                mean=None if plain["mean"] is None else tuple(plain["mean"]),
                scale=None if plain["scale"] is None else tuple(plain["scale"]),
            )
        except (KeyError, TypeError) as error:
            raise UserError(f"not a saved encoder: {error!r}") from None


def _codes(graphs: GraphSet, source: str) -> tuple[NDArray[Any], tuple[Names, ...]]:
    """[N, K] codes of the nodes' labels or degrees, and the names of the codes."""
    if source == "label":
        if graphs.category is None:
            raise UserError(f"{graphs.name} has no node labels; use source 'degree'")
        return graphs.category, graphs.category_names
    present = np.flatnonzero(np.bincount(graphs.degree))
    rank = np.zeros(present[-1] + 1 if len(present) else 0, dtype=np.int32)
    rank[present] = np.arange(len(present))
    return rank[graphs.degree][:, None], (tuple(map(str, present.tolist())),)


def _moments(graphs: GraphSet, nodes: NDArray[np.int64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of the attributes over these nodes, in float64."""
    if graphs.attributes is None:
        raise UserError(f"{graphs.name} has no node attributes")
    values = graphs.attributes[nodes].astype(np.float64)
    if len(values) == 0:
        raise UserError(f"{graphs.name}: no training nodes to standardise the attributes by")
    deviation = values.std(axis=0)
    return tuple(values.mean(axis=0).tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist())
