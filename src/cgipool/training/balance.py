"""Balanced batches: every class comes equally often in an epoch, the graphs of rare classes several times.

Shapes: n training graphs of a split, S splits.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.training.job import Job


class Balance(NamedTuple):
    """What turns the order of an epoch into a balanced one of the same length."""

    stratum: Tensor
    """[…, n] the class of each training graph; for several 0/1 columns, whether any of them is 1."""
    place: Tensor
    """[…, n] for each place of the balanced order, the place to take from the order sorted by class."""

    @classmethod
    def of(cls, job: Job, graphs: GraphSet) -> "Balance | None":
        """The balance of a job's training graphs; None unless its recipe asks for it. Raise UserError for settings that
        need classes if the targets are numbers."""
        given = {"focal": job.recipe.focal > 0.0, "balanced_batches": job.recipe.balanced_batches}
        for name, there in given.items():
            if there and graphs.task == "regression":
                raise UserError(f"{name} is for classes and 0/1 columns; the targets of {graphs.name} are numbers")
        if not job.recipe.balanced_batches:
            return None
        train = job.split.train
        stratum = graphs.y[train] if graphs.targets is None else (graphs.targets[train] == 1.0).any(1)
        _, stratum, count = np.unique(stratum, return_inverse=True, return_counts=True)
        turn, number = np.arange(len(train)) % len(count), np.arange(len(train)) // len(count)
        place = (count.cumsum() - count)[turn] + number % count[turn]
        return cls(torch.from_numpy(stratum), torch.from_numpy(place))

    def reordered(self, order: Tensor) -> Tensor:
        """[…, n] places of training graphs: the classes by turns, each in its order, from the start again at its
        end."""
        stratum, place = (table.expand_as(order) for table in self)
        by_class = order.gather(-1, stratum.gather(-1, order).argsort(dim=-1, stable=True))
        return by_class.gather(-1, place)
