"""Labels in training: which graphs have labels that are used (the others count only in the method's own loss), and
batches in which every class is equally frequent."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cgipool.data.graphs import GraphSet
from cgipool.data.join import merge
from cgipool.data.splits import Ids
from cgipool.errors import UserError, counted
from cgipool.pool import method_named
from cgipool.training.job import Job
from cgipool.training.objective import own_weight
from cgipool.training.recipe import Recipe

LABELLED = 5
"""Purpose of the random draw of labelled graphs. It differs from those of job.py."""


def labelled_graphs(job: Job, graphs: GraphSet) -> Ids:
    """The training graphs of a split whose targets are used: those of positive weight, or a share of
    them, stratified by class. The draw depends only on the seed and the split, so that all methods and all members of
    an ensemble use the same graphs."""
    train = job.split.train if job.sample_weight is None else job.split.train[job.sample_weight[job.split.train] > 0]
    share = job.recipe.labelled
    if share == 1.0:
        return train
    stratum = graphs.y[train] if graphs.task == "classification" else np.zeros(len(train), np.int64)
    _, stratum, members = np.unique(stratum, return_inverse=True, return_counts=True)
    count = round(share * len(train))
    if count < len(members):
        kept = f"labelled={share:g} keeps the labels of {count} of {counted(len(train), 'training graph')}"
        raise UserError(f"{kept}, fewer than the {counted(len(members), 'class')}; use a larger share")
    # One graph of each class, and the rest in proportion: the class that lacks most of its share gets the next one.
    quota = np.ones(len(members), np.int64)
    for _ in range(count - len(members)):
        quota[np.argmax(np.where(quota < members, members * count / len(train) - quota, -np.inf))] += 1
    generator = np.random.default_rng([LABELLED, job.seed, job.split.index])
    drawn = [generator.permutation(train[stratum == c])[:n] for c, n in enumerate(quota)]
    return np.sort(np.concatenate(drawn))


def task_weights(job: Job, graphs: GraphSet) -> NDArray[np.float32] | None:
    """[G] the weights of all graphs in the task's loss: 0 for training graphs whose targets are not used. None: all 1.

    The method's own loss uses these graphs as well, so it can learn from graphs without labels.
    """
    if job.recipe.labelled == 1.0:
        return job.sample_weight
    weight = np.ones(graphs.n_graphs, np.float32) if job.sample_weight is None else job.sample_weight.copy()
    weight[np.setdiff1d(job.split.train, labelled_graphs(job, graphs))] = 0.0
    return weight


def check_own_loss(method: str, recipe: Recipe, dataset: str) -> None:
    """Raise UserError unless a method has a loss that uses graphs without labels."""
    chosen = method_named(method)
    reads_targets = recipe.negative == "sufficient" and chosen.reads("negative")
    has_loss = chosen.reads("alpha") or chosen.reads("own_loss")
    if reads_targets or not has_loss or own_weight(recipe, method, dataset, 1) == 0.0:
        raise UserError(
            "graphs without labels need a method with an unsupervised loss, such as cgi with alpha above 0 and any "
            f'negative except "sufficient"; {method} with these settings has none'
        )


def with_extra(
    graphs: GraphSet, extra: GraphSet, sample_weight: ArrayLike | None
) -> tuple[GraphSet, NDArray[np.float64]]:
    """The graphs and, after them, those without labels (their own, if any, are not used), and the weights of all in the
    task's loss: 0 for the latter. Raise UserError if their columns differ."""
    count = extra.n_graphs
    classes = graphs.task == "classification"
    targets = None if graphs.targets is None else np.full((count, graphs.targets.shape[1]), np.nan)
    alike = replace(
        extra,
        y=np.full(count, 0 if classes else -1, np.int64),
        class_names=graphs.class_names,
        task=graphs.task,
        targets=targets,
        node_truth=None,
        checked=True,
    )
    weight = np.ones(graphs.n_graphs) if sample_weight is None else np.asarray(sample_weight, np.float64)
    return merge([replace(graphs, node_truth=None, checked=True), alike]), np.concatenate([weight, np.zeros(count)])


class Balance(NamedTuple):
    """Turns the order of an epoch into a balanced one of the same length: every class occurs equally often, and the
    graphs of rare classes are repeated. Shapes: n training graphs of a split."""

    stratum: Tensor
    """[…, n] the class of each training graph; for several 0/1 columns, whether any of them is 1."""
    place: Tensor
    """[…, n] for each place of the balanced order, the place to take from the order sorted by class."""

    @classmethod
    def of(cls, job: Job, graphs: GraphSet) -> "Balance | None":
        """The balance of a job's training graphs; None unless its recipe asks for it."""
        if not job.recipe.balanced_batches:
            return None
        train = job.split.train
        stratum = graphs.y[train] if graphs.targets is None else (graphs.targets[train] == 1.0).any(1)
        _, stratum, count = np.unique(stratum, return_inverse=True, return_counts=True)
        turn, number = np.arange(len(train)) % len(count), np.arange(len(train)) // len(count)
        place = (count.cumsum() - count)[turn] + number % count[turn]
        return cls(torch.from_numpy(stratum), torch.from_numpy(place))

    def reordered(self, order: Tensor) -> Tensor:
        """[…, n] places of training graphs: classes take turns; a class that is used up starts again."""
        stratum, place = (table.expand_as(order) for table in self)
        by_class = order.gather(-1, stratum.gather(-1, order).argsort(dim=-1, stable=True))
        return by_class.gather(-1, place)
