"""Several sets as one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import pointer
from cgipool.data.names import Names, Texts, sort_key
from cgipool.errors import UserError

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

LABELS = ("category", "edge_category")
COLUMNS = ("category", "attributes", "edge_weight", "edge_category", "edge_attributes", "node_truth")


def join(sets: Sequence["GraphSet"], name: str | None = None) -> "GraphSet":
    """The graphs of all sets, in order; an error unless they have the same columns and names."""
    from cgipool.data.graphs import GraphSet

    if not sets:
        raise UserError("there are no graphs to join")
    first = sets[0]
    for other in sets[1:]:
        check_alike(first, other)
        for what in LABELS:
            if getattr(other, f"{what}_names") != getattr(first, f"{what}_names"):
                raise _different(first, other, f"{what}_names")

    def together(what: str) -> NDArray[Any] | None:
        return None if getattr(first, what) is None else np.concatenate([getattr(part, what) for part in sets])

    columns: dict[str, Any] = {what: together(what) for what in COLUMNS}
    return GraphSet(
        name or first.name,
        pointer(np.concatenate([part.sizes for part in sets])),
        pointer(np.concatenate([part.degree for part in sets])),
        np.concatenate([part.edge_disp for part in sets]),
        np.concatenate([part.y for part in sets]),
        first.class_names,
        category_names=first.category_names,
        edge_category_names=first.edge_category_names,
        graph_ids=_texts(sets, "graph_ids", [part.n_graphs for part in sets]),
        node_names=_texts(sets, "node_names", [part.n_nodes for part in sets]),
        column_names=shared_columns(sets),
        featurizer=first.featurizer if all(part.featurizer == first.featurizer for part in sets) else None,
        **columns,
        checked=True,
    )


def shared_columns(sets: Iterable["GraphSet"]) -> dict[str, Names]:
    """The column names on which all sets agree."""
    first, *others = (part.column_names for part in sets)
    return {what: names for what, names in first.items() if all(part.get(what) == names for part in others)}


def _texts(sets: Sequence["GraphSet"], what: str, counts: Sequence[int]) -> Texts | None:
    """Ids or names of all sets; empty texts for a set that has none."""
    held = [getattr(part, what) for part in sets]
    if all(texts is None for texts in held):
        return None
    return Texts.join([Texts.of([""] * n) if texts is None else texts for texts, n in zip(held, counts, strict=True)])


def merge(sets: Sequence["GraphSet"]) -> "GraphSet":
    """The parts of one set, of which each names the labels that it holds; what was dropped is added up."""
    if len(sets) == 1:
        return sets[0]
    changes: list[dict[str, Any]] = [{} for _ in sets]
    for what in LABELS:
        held = [getattr(part, what) for part in sets]
        if any(codes is None for codes in held):
            continue
        union = Union()
        coded = [union.add(codes, getattr(part, f"{what}_names")) for codes, part in zip(held, sets, strict=True)]
        for change, codes in zip(changes, coded, strict=True):
            change |= {what: union.in_order(codes), f"{what}_names": union.names}
    alike = [replace(part, **change, checked=True) for part, change in zip(sets, changes, strict=True)]
    dropped: Counter[str] = Counter()
    for part in sets:
        dropped.update(part.dropped)
    return replace(join(alike), dropped=dict(dropped), checked=True)


class Union:
    """The names of label columns in several sets, coded in the order in which they come.

    In the end the names are sorted, unless those of the first set are all there are: these stay as they stand.
    """

    def __init__(self) -> None:
        self._tables: list[dict[str, int]] = []
        self._first: tuple[Names, ...] = ()
        self._new = False

    def add(self, codes: NDArray[np.int32], names: tuple[Names, ...]) -> NDArray[np.int32]:
        """Codes [n, K] into the names of a set, as codes into the names of all sets so far."""
        if not self._tables:
            self._first = names
            self._tables = [{name: code for code, name in enumerate(column)} for column in names]
        if names == self._first:
            return codes
        before = sum(map(len, self._tables))
        moved = [
            np.array([table.setdefault(name, len(table)) for name in column], np.int32)
            for table, column in zip(self._tables, names, strict=True)
        ]
        self._new = self._new or sum(map(len, self._tables)) > before
        return _recoded(codes, moved)

    @property
    def names(self) -> tuple[Names, ...]:
        """The names of each column, in their final order."""
        return tuple(tuple(sorted(table, key=sort_key)) for table in self._tables) if self._new else self._first

    @property
    def is_ordered(self) -> bool:
        """Whether the codes that `add` gave are those of `names`."""
        return not self._new or _stay(self._ranks())

    def in_order(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Codes that `add` gave as codes into `names`."""
        return _recoded(codes, self._ranks()) if self._new else codes

    def _ranks(self) -> list[NDArray[np.int32]]:
        """Per column, the place in `names` of each code that `add` gave."""
        ranks = []
        for table, names in zip(self._tables, self.names, strict=True):
            rank = np.empty(len(table), np.int32)
            rank[[table[name] for name in names]] = np.arange(len(table))
            ranks.append(rank)
        return ranks


def check_alike(one: "GraphSet", other: "GraphSet") -> None:
    """An error unless two sets have the same classes and columns."""
    if other.class_names != one.class_names:
        raise _different(one, other, "class_names")
    for what in COLUMNS:
        if _width(getattr(other, what)) != _width(getattr(one, what)):
            raise _different(one, other, f"columns_of_{what}")


def _recoded(codes: NDArray[np.int32], ranks: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """[n, K] the codes with each column's moved to other places; the same array where all stay."""
    if _stay(ranks):
        return codes
    return np.stack([rank[column] for rank, column in zip(ranks, codes.T, strict=True)], axis=1)


def _stay(ranks: Sequence[NDArray[np.int32]]) -> bool:
    return all(np.array_equal(rank, np.arange(len(rank))) for rank in ranks)


def _different(one: "GraphSet", other: "GraphSet", what: str) -> UserError:
    return UserError(f"{one.name} and {other.name} have different {what.replace('_', ' ')}")


def _width(values: NDArray[Any] | None) -> tuple[int, ...] | None:
    return None if values is None else values.shape[1:]
