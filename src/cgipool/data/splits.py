"""Training, validation and test graphs. Split i of a seed depends on (seed, i) alone, never on how many are drawn."""

import heapq
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.duplicates import wl_classes
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, counted, unknown, whole_number
from cgipool.files import check_regular, read_json, write_atomically

Ids = NDArray[np.int64]

KINDS = ("random", "stratified", "distinct", "scaffold")
SIDES = ("train", "val", "test")
STRETCH = 1 << 16
"""Graph numbers that are written at a time."""
MIN_GRAPHS = 10
"""Fewer graphs would leave validation (a tenth, rounded down) empty."""


@dataclass(frozen=True, eq=False)
class Split:
    """Graph numbers of the three sides, sorted where they are drawn."""

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


def random_splits(graphs: GraphSet, *, seed: int, indices: Iterable[int], kind: str = "random") -> list[Split]:
    """Splits of ⌊0.8 N⌋ training, ⌊0.1 N⌋ validation graphs and the rest for test, as in the paper.

    "random" ignores the classes; "stratified" keeps their shares on every side as nearly as whole graphs allow;
    "distinct" keeps graphs that 1-WL cannot tell apart on one side, with sizes as near as that allows; "scaffold" keeps
    molecules of one scaffold together, in sets that were made of SMILES or SDF.
    """
    if kind not in KINDS:
        raise unknown("kind of split", kind, KINDS)
    check_graphs(graphs)
    wanted = list(indices)
    if not wanted:
        raise UserError("the number of splits must be at least 1")
    if kind == "scaffold":
        from cgipool.data.scaffolds import scaffold_splits  # RDKit, which only molecules need

        return scaffold_splits(graphs, seed=seed, indices=wanted)
    twins = wl_classes(graphs) if kind == "distinct" else None
    return [_draw(graphs, seed, index, kind, twins) for index in wanted]


def holdout(graphs: GraphSet, share: float, seed: int) -> tuple[Ids, Ids]:
    """Training graphs, and a share of each class held back, at least one graph: for a model that is to be used. No
    class is held back as a whole: a graph of the most frequent one takes its place."""
    if not isinstance(share, Real) or not 0.0 < share < 1.0:
        raise UserError(f"the share held back must be a number between 0 and 1, not {share!r}")
    n = graphs.n_graphs
    held = min(max(1, round(share * n)), n - 1)
    generator = generator_of(seed, 0)
    side = _side_by_shares(graphs.y, np.array([n - held, held, 0]), generator)
    for lone in np.setdiff1d(graphs.y, graphs.y[side == 0]):
        most = np.bincount(graphs.y[side == 0]).argmax()
        side[np.flatnonzero(graphs.y == lone)[0]] = 0
        side[generator.choice(np.flatnonzero((graphs.y == most) & (side == 0)))] = 1
    return np.flatnonzero(side == 0), np.flatnonzero(side == 1)


def write_splits(path: str | Path, splits: Sequence[Split]) -> None:
    """Write splits as JSON: {"splits": [{"index": 0, "train": [...], "val": [...], "test": [...]}, ...]}."""
    write_atomically(Path(path), lambda temporary: _write_splits(temporary, splits))


def _write_splits(path: Path, splits: Sequence[Split]) -> None:
    """Some graph numbers at a time, as there may be many millions."""
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
    """Read splits of a set of `n_graphs` graphs; each must be whole numbers in range, disjoint, with no empty side."""
    check_regular(Path(path))
    plain = read_json(Path(path))
    try:
        splits = [_parse(row) for row in plain["splits"]]
    except (ValueError, KeyError, TypeError, OverflowError):
        raise UserError(f'{path} is no splits file: {{"splits": [{{"index": 0, "train": [...], …}}]}}') from None
    if not splits:
        raise UserError(f"{path} holds no split")
    for split in splits:
        if problem := _problem(split, n_graphs):
            raise UserError(f"{path}: split {split.index}: {problem}")
    return splits


def check_splits(splits: Sequence[Split], n_graphs: int) -> None:
    """An error unless there are splits of different numbers, with graphs of the set, and some, on each side."""
    if not splits:
        raise UserError("there are no splits")
    if not all(isinstance(split, Split) for split in splits):
        raise UserError(f"splits must be a whole number or a list of Split, not {splits!r}")
    if len({split.index for split in splits}) < len(splits):
        raise UserError("two of the splits bear the same number, and each needs a folder of its own")
    for split in splits:
        if problem := _astray(split, n_graphs):
            raise UserError(f"split {split.index}: {problem}")


def check_labelled(graphs: GraphSet) -> None:
    """An error unless the classes are known."""
    if not graphs.is_labelled:
        raise UserError(f"{graphs.name} has no known classes: its graphs can be predicted, not learned from")


def check_graphs(graphs: GraphSet) -> None:
    """An error unless there are enough graphs, of more than one class, and nodes in them."""
    if graphs.n_graphs == 0:
        raise UserError(f"{graphs.name} is empty")
    check_labelled(graphs)
    if graphs.n_graphs < MIN_GRAPHS:
        raise UserError(f"{graphs.name} has {counted(graphs.n_graphs, 'graph')}; at least {MIN_GRAPHS} are needed")
    if len(np.unique(graphs.y)) < 2:
        raise UserError(f"{graphs.name} has graphs of one class only; there is nothing to classify")
    if graphs.n_nodes == 0:
        raise UserError(f"{graphs.name} has not a single node; there is nothing to learn from")


def sizes_of(n: int) -> Ids:
    """[3] how many of n graphs train, validate and test: ⌊0.8 n⌋, ⌊0.1 n⌋ and the rest."""
    train, val = n * 8 // 10, n // 10
    return np.array([train, val, n - train - val])


def generator_of(seed: int, index: int) -> np.random.Generator:
    """The source of the draws of one split."""
    if seed < 0 or index < 0:
        raise UserError(f"seed and split number must not be negative: {seed}, {index}")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index])))


def _draw(graphs: GraphSet, seed: int, index: int, kind: str, twins: Ids | None) -> Split:
    n = graphs.n_graphs
    sizes, generator = sizes_of(n), generator_of(seed, index)
    if twins is not None:
        side = side_of_class(np.bincount(twins), sizes, generator)[twins]
    elif kind == "stratified":
        side = _side_by_shares(graphs.y, sizes, generator)
    else:
        side = np.empty(n, dtype=np.int64)
        side[generator.permutation(n)] = np.repeat(np.arange(3), sizes)
    train, val, test = (np.flatnonzero(side == s) for s in range(3))
    if min(len(train), len(val), len(test)) == 0:
        raise UserError(f"{graphs.name}: too few distinct graphs for a split that keeps twins together")
    return Split(index, train, val, test)


def _side_by_shares(y: Ids, sizes: Ids, generator: np.random.Generator) -> Ids:
    """[G] side of each graph: each class within one graph of its share, the sides of exactly these sizes."""
    members = np.bincount(y)
    quota = np.outer(members, sizes) // len(y)
    room = sizes - quota.sum(axis=0)
    for c, left in enumerate(members - quota.sum(axis=1)):
        # Handing a class's left-over graphs to the sides that lack most always comes out even (Gale and Ryser).
        lacking = np.argsort(-room, kind="stable")[:left]
        quota[c, lacking] += 1
        room[lacking] -= 1
    side = np.empty(len(y), dtype=np.int64)
    for c in range(len(members)):
        side[generator.permutation(np.flatnonzero(y == c))] = np.repeat(np.arange(3), quota[c])
    return side


def side_of_class(members: Ids, sizes: Ids, generator: np.random.Generator) -> Ids:
    """[classes] side of each class of twins, drawn by the room left on the sides, large classes first.

    The classes of one graph come last and fill what is left, so the sizes are met wherever enough of them exist.
    """
    side = np.empty(len(members), dtype=np.int64)
    room = sizes.copy()
    order = generator.permutation(len(members))
    order = order[np.argsort(-members[order], kind="stable")]
    shared = order[members[order] > 1]
    for c, draw in zip(shared, generator.random(len(shared)), strict=True):
        fits = np.where(room >= members[c], room, 0)
        if not fits.any():
            fits = room == room.max()
        side[c] = np.searchsorted(np.cumsum(fits), draw * fits.sum(), side="right")
        room[side[c]] -= members[c]
    single = order[len(shared) :]
    free = np.repeat(np.arange(3), np.maximum(room, 0))
    side[single] = generator.permutation(free)[: len(single)]
    return side


def _parse(row: dict[str, Any]) -> Split:
    sides = [row[side] for side in SIDES]
    if any(type(i) is not int for i in [row["index"], *sides[0], *sides[1], *sides[2]]):
        raise ValueError
    return Split(row["index"], *(np.array(ids, dtype=np.int64) for ids in sides))


def _astray(split: Split, n_graphs: int) -> str | None:
    """Which side of a split has no graphs, or one that is not there, if any."""
    for side in SIDES:
        ids = getattr(split, side)
        if len(ids) == 0:
            return f"{side} is empty"
        if ids.min() < 0 or ids.max() >= n_graphs:
            return f"{side} names graph {ids.min() if ids.min() < 0 else ids.max()} of {n_graphs}"
    return None


def _problem(split: Split, n_graphs: int) -> str | None:
    """What is wrong with a split that was read, if anything."""
    if astray := _astray(split, n_graphs):
        return astray
    ids, times = np.unique(np.concatenate([getattr(split, side) for side in SIDES]), return_counts=True)
    return f"graph {ids[np.argmax(times)]} stands in it more than once" if times.max() > 1 else None


def fold_splits(graphs: GraphSet, k: int, seed: int, kind: str = "stratified") -> list[Split]:
    """k splits by cross-validation: fold i is tested, fold i + 1 (mod k) validates, the rest train.

    "stratified" spreads each class evenly over the folds; "random" ignores the classes. "distinct" keeps graphs that
    1-WL cannot tell apart in one fold, and "scaffold" molecules of one scaffold; their folds are as equal in size as
    that allows.
    """
    if kind not in KINDS:
        raise unknown("kind of split", kind, KINDS)
    if k < 3:
        raise UserError(f"the number of folds must be at least 3 (train, validation, test), not {k}")
    check_graphs(graphs)
    if graphs.n_graphs < k:
        raise UserError(f"{graphs.name}: {graphs.n_graphs} graphs cannot make {k} folds")
    generator = generator_of(seed, k)
    if kind in ("random", "stratified"):
        order = generator.permutation(graphs.n_graphs)
        order = order[np.argsort(graphs.y[order], kind="stable")] if kind == "stratified" else order
        fold = np.empty(graphs.n_graphs, dtype=np.int64)
        fold[order] = np.arange(graphs.n_graphs) % k
    else:
        fold = _grouped(graphs, k, kind, generator)
    ids = np.arange(graphs.n_graphs)
    splits = []
    for i in range(k):
        test, val = fold == i, fold == (i + 1) % k
        splits.append(Split(i, ids[~(test | val)], ids[val], ids[test]))
    return splits


def _grouped(graphs: GraphSet, k: int, kind: str, generator: np.random.Generator) -> Ids:
    """[G] the fold of each graph: whole groups, the largest first, each into the fold that has fewest graphs. Groups of
    equal size come in random order."""
    if kind == "scaffold":
        from cgipool.data.scaffolds import scaffold_numbers  # RDKit, which only molecules need

        group = scaffold_numbers(graphs)
    else:
        group = wl_classes(graphs)
    members = np.bincount(group)
    if len(members) < k:
        what = "scaffolds" if kind == "scaffold" else "distinct graphs"
        raise UserError(f"{graphs.name}: {len(members)} {what} cannot make {k} folds")
    order = generator.permutation(len(members))
    order = order[np.argsort(-members[order], kind="stable")]
    fold = np.empty(len(members), dtype=np.int64)
    loads = [(0, i) for i in range(k)]
    for number in order:
        load, place = loads[0]
        fold[number] = place
        heapq.heapreplace(loads, (load + int(members[number]), place))
    return fold[group]
