"""The learning curve of a search: how its best candidate does with fewer training graphs."""

import math
from collections.abc import Sequence

import numpy as np

from cgipool.auto.attempt import Attempt
from cgipool.auto.search import AutoSearch, plain
from cgipool.data.splits import Split, holdout
from cgipool.errors import UserError

CURVE = (0.25, 0.5)
"""Shares of the training graphs."""


def learning_curve(search: AutoSearch, trial: Attempt, folds: Sequence[int]) -> tuple[list[tuple[int, float]], int]:
    """By the number of training graphs, the mean of a trial's metric over folds; and over how many, which is as many as
    the budget allows, without those where a training fails or the metric is not defined. Empty if none is left."""
    found: list[list[float]] = []
    counts: list[int] = []
    for fold in folds:
        split = search.folds[fold]
        parts = [holdout(search.graphs.subset(split.train), 1.0 - share, search.seed)[0] for share in CURVE]
        row = []
        for share, kept in zip(CURVE, parts, strict=True):
            if search.spent + share * trial.cost > search.budget:
                break
            part = Split(split.index, split.train[kept], split.val, split.test)
            out = search.folder / f"{plain(trial.candidate.name)}-{fold}-share-{share:g}"
            try:
                answers = search.answers(trial.candidate, trial.recipe or trial.candidate.recipe, part, out, math.inf)
            except (UserError, MemoryError):  # fewer graphs may be too few; the model itself is finished
                row.append(math.nan)
            else:
                row.append(search.score([fold], {fold: answers}))
        if len(row) < len(CURVE):
            break
        row.append(search.score([fold], trial.answers))
        if any(map(math.isnan, row)):
            continue
        found.append(row)
        counts = [*map(len, parts), len(split.train)]
    return list(zip(counts, np.mean(found, axis=0).tolist(), strict=True)) if found else [], len(found)
