"""What a model sees of a node: the column numbers of one joint one-hot input, and float columns.

The one-hot matrix itself is never built (COLLAB's would need 0.7 GB): a model looks up one row of weights per column
number. Of a set that lies on disk nothing of the size of its nodes is held. Shapes: N nodes, K label columns (1 for
degrees), D float columns.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import ranges
from cgipool.data.check import column_name, graph_ids
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.errors import UserError, counted, unknown

SOURCES = ("auto", "label", "degree")
VOCABULARIES = ("train", "all")

STRETCH = 1 << 22
"""Nodes that are looked at at a time."""


class NodeRows:
    """[N, …] what is known of the nodes of a set on disk, worked out for those that are asked for."""

    def __init__(self, nodes: int, rows: Callable[[NDArray[np.int64]], NDArray[Any]]) -> None:
        self._nodes, self._rows = nodes, rows

    def __len__(self) -> int:
        return self._nodes

    def __getitem__(self, nodes: NDArray[np.int64]) -> NDArray[Any]:
        return self._rows(nodes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._rows(np.arange(self._nodes)), dtype)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Encoded nodes."""

    category: NDArray[np.int32] | NodeRows
    """[N, K] column numbers, each label column in its own stretch of the `columns`."""
    columns: int
    """Width of the joint one-hot input."""
    floats: NDArray[np.float32] | NodeRows | None
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
        ids = np.arange(graphs.n_graphs) if train_ids is None else graph_ids(graphs, train_ids)
        codes = _Codes(graphs, source)
        known = [np.full(len(names), vocabulary == "all") for names in codes.names]
        for nodes in _stretches(graphs, ids):
            for seen, column in zip(known, codes.of(nodes).T, strict=True):
                seen[column] = True
        mean, scale = _moments(graphs, ids) if attributes else (None, None)
        return cls(source, vocabulary, codes.names, tuple(tuple(seen.tolist()) for seen in known), mean, scale)

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
        if strange := self.strange(graphs):
            raise UserError(f"{graphs.name}: {strange[min(strange)]}")
        codes = self._codes(graphs)
        offset, tables = 0, []
        for j, names in enumerate(codes.names):
            tables.append(offset + self._places(j, names))
            offset += len(self.values[j]) + (self.vocabulary == "train")
        category = NodeRows(graphs.n_nodes, lambda nodes: _looked_up(tables, codes.of(nodes)))
        floats = self._floats(graphs)
        if graphs.is_mapped:
            return Inputs(category, self.columns, floats)
        return Inputs(np.asarray(category), self.columns, None if floats is None else np.asarray(floats))

    def strange(self, graphs: GraphSet) -> dict[int, str]:
        """By number, why some of these graphs cannot be encoded: they have a label or degree that no column stands for,
        and there is no "other"."""
        if self.vocabulary == "train":
            return {}
        codes = self._codes(graphs)
        unknown = self._unknown(codes)
        if not any(column.any() for column in unknown):
            return {}
        reasons: dict[int, str] = {}
        called = graphs.column_names.get("category", ())
        for nodes in _stretches(graphs, np.arange(graphs.n_graphs)):
            for j, column in enumerate(codes.of(nodes).T):
                what = "degree" if self.source == "degree" else f"node label ({column_name(called, j)})"
                found = np.flatnonzero(unknown[j][column])
                number = np.searchsorted(graphs.node_ptr, nodes[found], side="right") - 1
                for graph, place in zip(*np.unique(number, return_index=True), strict=True):
                    story = f"{what} {codes.names[j][column[found[place]]]} is not in the vocabulary"
                    reasons.setdefault(int(graph), f"{story}, which has no 'other' column")
        return reasons

    def unseen(self, graphs: GraphSet) -> int:
        """How many nodes of these graphs have a label or degree that no training graph had."""
        codes = self._codes(graphs)
        unknown = self._unknown(codes)
        if not any(column.any() for column in unknown):
            return 0
        stretches = map(codes.of, _stretches(graphs, np.arange(graphs.n_graphs)))
        return sum(int(np.any([unknown[j][column] for j, column in enumerate(of.T)], axis=0).sum()) for of in stretches)

    def _unknown(self, codes: "_Codes") -> list[NDArray[np.bool_]]:
        """By label column and code, whether no column of the input stands for it."""
        return [self._places(j, names) == len(self.values[j]) for j, names in enumerate(codes.names)]

    def _codes(self, graphs: GraphSet) -> "_Codes":
        if self.source == "label" and graphs.category is None:
            if graphs.n_nodes == 0:
                raise UserError(f"{graphs.name}: there is not a single node, so nothing to tell a class by")
            fitted = f"{counted(len(self.values), 'column')} of them {_were(len(self.values))} fitted"
            raise UserError(f"{graphs.name} has no node labels, where {fitted}")
        codes = _Codes(graphs, self.source)
        if len(codes.names) != len(self.values):
            raise _other_width(graphs, len(codes.names), "node label column", len(self.values))
        return codes

    def _places(self, j: int, names: Names) -> NDArray[np.int32]:
        """[len(names)] for each value of label column j, its place in the stretch of j; "other" is the last."""
        other = len(self.values[j])
        place = {name: c if self.seen[j][c] else other for c, name in enumerate(self.values[j])}
        return np.array([place.get(name, other) for name in names], dtype=np.int32)

    def _floats(self, graphs: GraphSet) -> NodeRows | None:
        if self.mean is None:
            return None
        width = 0 if graphs.attributes is None else graphs.attributes.shape[1]
        if graphs.attributes is None or width != len(self.mean):
            raise _other_width(graphs, width, "attribute column", len(self.mean))
        values, mean, scale = np.asarray(graphs.attributes), np.array(self.mean), np.array(self.scale)
        return NodeRows(graphs.n_nodes, lambda nodes: ((values[nodes] - mean) / scale).astype(np.float32))

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


class _Codes:
    """The labels or degrees of nodes as codes, and the names of the codes."""

    def __init__(self, graphs: GraphSet, source: str) -> None:
        self._edge_ptr, self._rank = np.asarray(graphs.edge_ptr), np.empty(0, np.int32)
        self._category = None
        if source == "label":
            if graphs.category is None:
                raise UserError(f"{graphs.name} has no node labels; use 'degree'")
            self._category, self.names = np.asarray(graphs.category), graphs.category_names
            return
        present = self._degrees()
        self._rank = np.zeros(present[-1] + 1 if len(present) else 0, dtype=np.int32)
        self._rank[present] = np.arange(len(present))
        self.names = (tuple(map(str, present.tolist())),)

    def of(self, nodes: NDArray[np.int64]) -> NDArray[np.int32]:
        """[n, K] the codes of some nodes."""
        if self._category is not None:
            return self._category[nodes]
        return self._rank[self._edge_ptr[nodes + 1] - self._edge_ptr[nodes]][:, None]

    def _degrees(self) -> NDArray[np.int64]:
        """The degrees that occur, sorted."""
        present = np.empty(0, np.int64)
        for start in range(0, len(self._edge_ptr) - 1, STRETCH):
            degree = np.diff(self._edge_ptr[start : start + STRETCH + 1])
            present = np.union1d(present, np.flatnonzero(np.bincount(degree)))
        return present


def _other_width(graphs: GraphSet, width: int, thing: str, fitted: int) -> UserError:
    return UserError(f"{graphs.name}: {counted(width, thing)} where {fitted} {_were(fitted)} fitted")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _looked_up(tables: list[NDArray[np.int32]], codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """[n, K] the codes of each column in its table."""
    found = np.empty(codes.shape, dtype=np.int32)
    for j, table in enumerate(tables):
        found[:, j] = table[codes[:, j]]
    return found


def _stretches(graphs: GraphSet, ids: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The nodes of the graphs `ids`, some at a time."""
    ends = np.cumsum(graphs.sizes[ids])
    marks = np.searchsorted(ends, np.arange(STRETCH, ends[-1] if len(ends) else 0, STRETCH))
    for first, last in pairwise(np.unique(np.concatenate([[0], marks, [len(ids)]])).tolist()):
        some = ids[first:last]
        yield ranges(graphs.node_ptr[some], graphs.sizes[some])


def _moments(graphs: GraphSet, ids: NDArray[np.int64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of the attributes over the nodes of these graphs, in float64."""
    if graphs.attributes is None:
        raise UserError(f"{graphs.name} has no node attributes")
    values, count = np.asarray(graphs.attributes), int(graphs.sizes[ids].sum())
    if count == 0:
        raise UserError(f"{graphs.name}: no training nodes to standardise the attributes by")
    mean, square = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    for nodes in _stretches(graphs, ids):
        mean += values[nodes].astype(np.float64).sum(axis=0)
    mean /= count
    for nodes in _stretches(graphs, ids):
        square += np.square(values[nodes].astype(np.float64) - mean).sum(axis=0)
    deviation = np.sqrt(square / count)
    return tuple(mean.tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist())
