"""The folds that a search of `fit --auto` trains and scores on, and the graphs that are held out from every choice."""

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, fold_splits, holdout
from cgipool.errors import UserError, counted

FOLDS = 5
HELD_OUT, STOPPING = 0.1, 0.1
"""The share of the graphs for the final estimate, and the share of each fold's training graphs for early stopping."""

FEWEST = 30
"""Minimum number of graphs for a search."""


def check_data(graphs: GraphSet) -> None:
    """Raise UserError for data that a search cannot work with."""
    if graphs.n_graphs < FEWEST:
        raise UserError(f"{graphs.name} has {counted(graphs.n_graphs, 'graph')}; --auto needs at least {FEWEST}")
    if graphs.task == "classification":
        if np.count_nonzero(np.bincount(graphs.y, minlength=1)) < 2:
            raise UserError(f"{graphs.name} has only one class; --auto needs graphs of at least two")
    elif not any(len(np.unique(column[~np.isnan(column)])) > 1 for column in np.asarray(graphs.targets).T):
        raise UserError(f"{graphs.name}: every target column has only one value; --auto needs at least two values")


def folds_of(graphs: GraphSet, dev: NDArray[np.int64], seed: int) -> list[Split]:
    """The folds of the graphs `dev` as splits, whose test part is the fold."""
    folds = []
    for split in fold_splits(graphs.subset(dev), FOLDS, seed):
        rest = np.sort(np.concatenate([split.train, split.val]))
        kept, stopping = holdout(graphs.subset(dev[rest]), STOPPING, seed)
        folds.append(Split(split.index, dev[rest[kept]], dev[rest[stopping]], dev[split.test]))
    return folds
