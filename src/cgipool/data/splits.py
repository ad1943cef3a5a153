"""Training, validation and test graphs. Split i of a seed depends on (seed, i) alone, never on how many are drawn."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.further import times
from cgipool.data.graphs import GraphSet
from cgipool.data.groups import (
    GROUPS,
    folds_of_groups,
    generator_of,
    group_numbers,
    scaffold_numbers,
    side_of_class,
    sides_by_labels,
    sides_by_shares,
    sides_of_groups,
    sizes_of,
    strata_of,
)
from cgipool.errors import UserError, are, counted, unknown, whole_number
from cgipool.files import check_regular, read_json, write_atomically

Ids = NDArray[np.int64]

KINDS = ("random", "stratified", "distinct", "scaffold", "cluster", "time")
SIDES = ("train", "val", "test")
STRETCH = 1 << 16
"""Graph numbers to write at a time."""
MIN_GRAPHS = 10
"""Minimum number of graphs: with fewer, validation (a tenth, rounded down) would be empty."""


@dataclass(frozen=True, eq=False)
class Split:
    """The graph numbers of the three sides. Splits that are drawn here have them sorted."""

    index: int
    train: Ids
    val: Ids
    test: Ids

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", whole_number("the number of a split", self.index))
        for side in SIDES:
            ids = np.asarray(getattr(self, side))
            if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
                raise UserError(f"{side} of a split must be a list of graph numbers, not {ids.dtype}, {ids.ndim}-d")
            object.__setattr__(self, side, ids.astype(np.int64, copy=False))


def random_splits(
    graphs: GraphSet, *, seed: int, indices: Iterable[int], kind: str = "random", time: str | None = None
) -> list[Split]:
    """Draw splits into ⌊0.8 N⌋ training graphs, ⌊0.1 N⌋ validation graphs and the rest for test, as in the paper.

    "random" ignores the labels; "stratified" keeps the proportions of labels on every side (for other tasks than
    classification see `strata_of`). The other kinds come as close to these sizes as they can: "distinct" keeps graphs
    that 1-WL cannot tell apart on one side; "scaffold" and "cluster" keep molecules with one scaffold or in one cluster
    together, for sets made from SMILES or SDF; "time" trains on the earliest graphs and tests on the latest, by the
    kept column `time`, so all splits are equal.
    """
    check_kind(kind, time)
    check_graphs(graphs)
    wanted = list(indices)
    if not wanted:
        raise UserError("the number of splits must be at least 1")
    if time is not None:
        side = _sides_by_time(graphs, time)
        return [_split(index, side) for index in wanted]
    group = group_numbers(graphs, kind) if kind in GROUPS else None
    return [_split(index, _draw(graphs, seed, index, kind, group)) for index in wanted]


def check_kind(kind: str, time: str | None) -> None:
    """Raise UserError for an unknown kind of split, for "time" without a column of times, or such a column without
    "time"."""
    if kind not in KINDS:
        raise unknown("kind of split", kind, KINDS)
    if (kind == "time") != (time is not None):
        need = "needs --time COLUMN, the column with the times" if kind == "time" else "does not use --time"
        raise UserError(f"--split-kind {kind} {need}")


def holdout(graphs: GraphSet, share: float, seed: int) -> tuple[Ids, Ids]:
    """Training graphs, and a share of each class held back for validation, at least one graph, for a model that will be
    used. No class is held back completely: a graph of the most frequent class takes its place."""
    if not isinstance(share, Real) or not 0.0 < share < 1.0:
        raise UserError(f"the share held back must be a number between 0 and 1, not {share!r}")
    n = graphs.n_graphs
    held = min(max(1, round(share * n)), n - 1)
    generator = generator_of(seed, 0)
    stratum = strata_of(graphs)
    side = sides_by_shares(stratum, np.array([n - held, held, 0]), generator)
    for lone in np.setdiff1d(stratum, stratum[side == 0]):
        most = np.bincount(stratum[side == 0]).argmax()
        side[np.flatnonzero(stratum == lone)[0]] = 0
        side[generator.choice(np.flatnonzero((stratum == most) & (side == 0)))] = 1
    return np.flatnonzero(side == 0), np.flatnonzero(side == 1)


def write_splits(path: str | Path, splits: Sequence[Split]) -> None:
    """Write splits as JSON: {"splits": [{"index": 0, "train": [...], "val": [...], "test": [...]}, ...]}."""
    write_atomically(Path(path), lambda temporary: _write_splits(temporary, splits))


def _write_splits(path: Path, splits: Sequence[Split]) -> None:
    """Write graph numbers piece by piece, as there may be many millions."""
    with path.open("w", encoding="utf-8") as file:
        file.write('{"splits": [\n')
        for number, split in enumerate(splits):
            file.write(",\n" if number else "")
            file.write(f'{{"index": {split.index}')
            for side in SIDES:
                file.write(f', "{side}": [')
                ids = getattr(split, side)
                for start in range(0, len(ids), STRETCH):
                    file.write(", " if start else "")
                    file.write(json.dumps(ids[start : start + STRETCH].tolist())[1:-1])
                file.write("]")
            file.write("}")
        file.write("\n]}\n")


def read_splits(path: str | Path, n_graphs: int) -> list[Split]:
    """Read splits of a set of `n_graphs` graphs. Graph numbers must be in range, sides disjoint and not empty."""
    check_regular(Path(path))
    plain = read_json(Path(path))
    try:
        splits = [_parse(row) for row in plain["splits"]]
    except (ValueError, KeyError, TypeError, OverflowError):
        raise UserError(f'{path} is not a splits file: {{"splits": [{{"index": 0, "train": [...], …}}]}}') from None
    if not splits:
        raise UserError(f"{path} has no splits")
    for split in splits:
        if problem := _problem(split, n_graphs):
            raise UserError(f"{path}: split {split.index}: {problem}")
    return splits


def check_splits(splits: Sequence[Split], n_graphs: int) -> None:
    """Raise UserError unless splits have distinct numbers and each side has graphs, all of them in the set."""
    if not splits:
        raise UserError("there are no splits")
    if not all(isinstance(split, Split) for split in splits):
        raise UserError(f"splits must be a whole number or a list of Split, not {splits!r}")
    if len({split.index for split in splits}) < len(splits):
        raise UserError("two splits have the same number")
    for split in splits:
        if problem := _invalid_side(split, n_graphs):
            raise UserError(f"split {split.index}: {problem}")


def check_labelled(graphs: GraphSet) -> None:
    """Raise UserError unless the classes or targets are known."""
    if not graphs.is_labelled:
        raise UserError(f"{graphs.name} has no known classes: its graphs can be predicted, not learned from")


def check_graphs(graphs: GraphSet) -> None:
    """Raise UserError unless there are enough graphs, with nodes and more than one class."""
    if graphs.n_graphs == 0:
        raise UserError(f"{graphs.name} is empty")
    check_labelled(graphs)
    if graphs.n_graphs < MIN_GRAPHS:
        raise UserError(f"{graphs.name} has {counted(graphs.n_graphs, 'graph')}; at least {MIN_GRAPHS} are needed")
    if graphs.targets is not None and (empty := np.flatnonzero(np.isnan(graphs.targets).all(0))).size:
        raise UserError(f"{graphs.name}: the target column {graphs.target_names[empty[0]]!r} has no values")
    if graphs.task == "classification" and len(np.unique(graphs.y)) < 2:
        raise UserError(f"{graphs.name} has graphs of one class only; there is nothing to classify")
    if graphs.n_nodes == 0:
        raise UserError(f"{graphs.name} has no nodes, so there is nothing to learn from")


def _split(index: int, side: Ids) -> Split:
    return Split(index, *(np.flatnonzero(side == s) for s in range(3)))


def _draw(graphs: GraphSet, seed: int, index: int, kind: str, group: Ids | None) -> Ids:
    """[G] the side of each graph."""
    n = graphs.n_graphs
    sizes, generator = sizes_of(n), generator_of(seed, index)
    if group is None:
        if kind == "stratified":
            return _stratified(graphs, sizes, generator)
        side = np.empty(n, dtype=np.int64)
        side[generator.permutation(n)] = np.repeat(np.arange(3), sizes)
        return side
    members = np.bincount(group)
    if kind == "distinct":
        side = side_of_class(members, sizes, generator)[group]
    elif len(members) >= 3:
        side = sides_of_groups(group, generator)
    if len(members) < 3 or np.bincount(side, minlength=3).min() == 0:
        whole = "keeps twins together" if kind == "distinct" else f"keeps {GROUPS[kind]} together"
        raise UserError(f"{graphs.name}: too few {GROUPS[kind]} for a split that {whole}")
    return side


def _stratified(graphs: GraphSet, sizes: Ids, generator: np.random.Generator) -> Ids:
    """[G] the side of each graph, for sides with these sizes and equal proportions of labels."""
    if graphs.task == "multilabel" and graphs.targets is not None:
        return sides_by_labels(graphs.targets == 1, sizes, generator)
    return sides_by_shares(strata_of(graphs), sizes, generator)


def _sides_by_time(graphs: GraphSet, column: str) -> Ids:
    """[G] the side of each graph: the earliest train, the latest test. Graphs with equal times are on one side."""
    values = times(graphs, column)
    ordered = np.sort(values)
    starts = np.flatnonzero(np.diff(ordered)) + 1
    if len(starts) < 2:
        raise UserError(f"{graphs.name}: column {column!r} has {len(starts) + 1} different times; a split needs 3")
    train, val, _ = sizes_of(len(values))
    first = starts[:-1][np.argmin(np.abs(starts[:-1] - train))]
    later = starts[starts > first]
    second = later[np.argmin(np.abs(later - (train + val)))]
    return (values >= ordered[first]).astype(np.int64) + (values >= ordered[second])


def _parse(row: dict[str, Any]) -> Split:
    sides = [row[side] for side in SIDES]
    if any(type(i) is not int for i in [row["index"], *sides[0], *sides[1], *sides[2]]):
        raise ValueError
    return Split(row["index"], *(np.array(ids, dtype=np.int64) for ids in sides))


def _invalid_side(split: Split, n_graphs: int) -> str | None:
    """A description of a side that is empty or contains a graph that does not exist; None if there is none."""
    for side in SIDES:
        ids = getattr(split, side)
        if len(ids) == 0:
            return f"{side} is empty"
        if ids.min() < 0 or ids.max() >= n_graphs:
            return f"{side} names graph {ids.min() if ids.min() < 0 else ids.max()} of {n_graphs}"
    return None


def _problem(split: Split, n_graphs: int) -> str | None:
    """What is wrong with a split that was read; None if it is valid."""
    if problem := _invalid_side(split, n_graphs):
        return problem
    ids, times = np.unique(np.concatenate([getattr(split, side) for side in SIDES]), return_counts=True)
    return f"graph {ids[np.argmax(times)]} is in it more than once" if times.max() > 1 else None


def scaffold_splits(molecules: Iterable[str] | GraphSet, *, seed: int, indices: Iterable[int]) -> list[Split]:
    """Draw splits of SMILES, or of a set that `MoleculeFeaturizer` made, with no scaffold on two sides.

    The sizes are as close to ⌊0.8 N⌋, ⌊0.1 N⌋ and the rest as the scaffolds allow: large scaffolds are drawn first,
    scaffolds with one molecule fill the sides, and no side is empty. Split i depends only on (seed, i) and the
    molecules.
    """
    group = scaffold_numbers(molecules)
    n = len(group)
    if n < MIN_GRAPHS:
        raise UserError(f"there {are(n)} {counted(n, 'molecule')}; a split needs at least {MIN_GRAPHS}")
    wanted = list(indices)
    if not wanted:
        raise UserError("the number of splits must be at least 1")
    if (count := len(np.unique(group))) < 3:
        raise UserError(f"a split needs at least 3 scaffolds; the {n} molecules have {count}")
    sides = [sides_of_groups(group, generator_of(seed, index)) for index in wanted]
    return [Split(i, *(np.flatnonzero(side == s) for s in range(3))) for i, side in zip(wanted, sides, strict=True)]


def fold_splits(graphs: GraphSet, k: int, seed: int, kind: str = "stratified", time: str | None = None) -> list[Split]:
    """k splits by cross-validation: fold i is for test, fold i + 1 (mod k) for validation, the rest for training.

    "stratified" distributes the labels evenly over the folds; "random" ignores them. "distinct" keeps graphs that 1-WL
    cannot tell apart in one fold, "scaffold" and "cluster" molecules with one scaffold or in one cluster; their folds
    are as equal in size as possible. "time" divides the graphs, ordered by time, into k + 2 blocks: split i trains on
    the blocks up to i, validates on the next one and tests on the one after it.
    """
    check_kind(kind, time)
    if k < 3:
        raise UserError(f"the number of folds must be at least 3 (train, validation, test), not {k}")
    check_graphs(graphs)
    if graphs.n_graphs < k:
        raise UserError(f"{graphs.name}: {graphs.n_graphs} graphs cannot make {k} folds")
    if time is not None:
        return _folds_by_time(graphs, k, time)
    fold = _folds(graphs, k, kind, generator_of(seed, k))
    ids = np.arange(graphs.n_graphs)
    splits = []
    for i in range(k):
        test, val = fold == i, fold == (i + 1) % k
        splits.append(Split(i, ids[~(test | val)], ids[val], ids[test]))
    return splits


def _folds(graphs: GraphSet, k: int, kind: str, generator: np.random.Generator) -> Ids:
    """[G] the fold of each graph."""
    if kind in GROUPS:
        return folds_of_groups(graphs, k, kind, generator)
    if kind == "stratified" and graphs.task == "multilabel" and graphs.targets is not None:
        sizes = np.bincount(np.arange(graphs.n_graphs) % k, minlength=k)
        return sides_by_labels(graphs.targets == 1, sizes, generator)
    order = generator.permutation(graphs.n_graphs)
    order = order[np.argsort(strata_of(graphs)[order], kind="stable")] if kind == "stratified" else order
    fold = np.empty(graphs.n_graphs, dtype=np.int64)
    fold[order] = np.arange(graphs.n_graphs) % k
    return fold


def _folds_by_time(graphs: GraphSet, k: int, column: str) -> list[Split]:
    """Splits in which training graphs are earlier than validation graphs, and these earlier than test graphs."""
    values = times(graphs, column)
    earlier = np.searchsorted(np.sort(values), values)  # equal times have equal places, so they are in one block
    block = earlier * (k + 2) // len(values)
    if (count := len(np.unique(block))) < k + 2:
        raise UserError(f"{graphs.name}: column {column!r} has too few different times for {k} folds ({count} blocks)")
    return [Split(i, *map(np.flatnonzero, (block <= i, block == i + 1, block == i + 2))) for i in range(k)]
