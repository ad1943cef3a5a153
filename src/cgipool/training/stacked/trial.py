"""A trial that shows whether a custom pool can train with all splits at once."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch

from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split
from cgipool.errors import UserError
from cgipool.pool import is_own, method_named
from cgipool.pool.own import one_line
from cgipool.training.initial import prepared
from cgipool.training.job import Job
from cgipool.training.stacked.group import Group

GRAPHS = 8
"""Maximum number of graphs from each part of a split in a trial."""

log = logging.getLogger("cgipool")


def tried(trainings: Sequence[Job], graphs: GraphSet) -> list[Job]:
    """Return the trainings, set to train split by split if a custom pool fails the trial with several splits at once.
    The reason is logged in one line."""
    reason = slow_because(trainings[0], graphs)
    if reason is None:
        return list(trainings)
    log.warning("%s trains split by split, as it cannot train several splits at once: %s", trainings[0].method, reason)
    return [replace(job, stacked=False) for job in trainings]


def slow_because(job: Job, graphs: GraphSet) -> str | None:
    """Return why the engine cannot train a job, in one line; None if it can. Only custom pools are tried, first on a
    CPU, where a failure cannot leave the device in a bad state."""
    if not (is_own(job.method) and method_named(job.method).fast):
        return None
    small, split = _few(graphs, job.split)
    # Weights are indexed by graphs of the whole data set, and a share of so few labels could be none.
    plain = replace(job, split=split, sample_weight=None, recipe=job.recipe.but(labelled=1.0))
    for device in dict.fromkeys(("cpu", job.device)):
        try:
            _one_epoch([replace(plain, device=device, member=member) for member in (0, 1)], small)
        except (UserError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            return one_line(error)
    return None


def _few(graphs: GraphSet, split: Split) -> tuple[GraphSet, Split]:
    """Return the first graphs of each part of a split, and the split of these graphs."""
    parts = [part[:GRAPHS] for part in (split.train, split.val, split.test)]
    ends = np.cumsum([len(part) for part in parts])
    few = graphs.subset(np.concatenate(parts))
    return few, Split(split.index, *np.split(np.arange(ends[-1]), ends[:-1]))


def _one_epoch(trainings: Sequence[Job], graphs: GraphSet) -> None:
    """Run one epoch, validation and test with the engine."""
    group = Group([prepared(job, graphs) for job in trainings], graphs)
    with _waiting_is_an_error(group.device):
        group.capture()
    group.run_epoch(1)
    group.read_history(range(1, 2))
    group.test()


@contextmanager
def _waiting_is_an_error(device: torch.device) -> Iterator[None]:
    """Raise an error in this context if an operation waits for the GPU. Such an operation cannot be captured, and a
    failed capture leaves torch's random generator unusable."""
    if device.type != "cuda":
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that this feature is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
