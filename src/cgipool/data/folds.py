"""Cross-validation."""

import heapq

import numpy as np

from cgipool.data.duplicates import wl_classes
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import KINDS, Ids, Split, check_graphs, generator_of
from cgipool.errors import UserError, unknown


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
