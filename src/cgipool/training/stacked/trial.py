"""Whether a pool of the user's own can train with all splits at once: it is tried before it is relied on."""

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
from cgipool.pool import method_named
from cgipool.pool.own import is_own, told
from cgipool.training.job import Job
from cgipool.training.stacked.group import Group

GRAPHS = 8
"""Graphs of each part of a split that a trial takes, at most."""

log = logging.getLogger("cgipool")


def tried(tasks: Sequence[Job], graphs: GraphSet) -> list[Job]:
    """The tasks as they can be trained: split by split where a trial of a user's own pool with several splits at once
    fails. The reason is logged in one line."""
    reason = slow_because(tasks[0], graphs)
    if reason is None:
        return list(tasks)
    log.warning("%s trains split by split, as it cannot train several splits at once: %s", tasks[0].method, reason)
    return [replace(task, stacked=False) for task in tasks]


def slow_because(task: Job, graphs: GraphSet) -> str | None:
    """Why the engine cannot train a task, in one line; None if it can. Only pools of the user's own are tried, on a CPU
    first: there nothing can be left in a bad state."""
    if not (is_own(task.method) and method_named(task.method).fast):
        return None
    small, split = _few(graphs, task.split)
    plain = replace(task, split=split, sample_weight=None)  # weights go by the numbers of the whole set
    for device in dict.fromkeys(("cpu", task.device)):
        try:
            _one_epoch([replace(plain, device=device, member=member) for member in (0, 1)], small)
        except (UserError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            return told(error)
    return None


def _few(graphs: GraphSet, split: Split) -> tuple[GraphSet, Split]:
    """The first graphs of each part of a split, and the split of these alone."""
    parts = [part[:GRAPHS] for part in (split.train, split.val, split.test)]
    ends = np.cumsum([len(part) for part in parts])
    few = graphs.subset(np.concatenate(parts))
    return few, Split(split.index, *np.split(np.arange(ends[-1]), ends[:-1]))


def _one_epoch(tasks: Sequence[Job], graphs: GraphSet) -> None:
    """Steps, validation and test as the engine runs them."""
    group = Group(tasks, graphs)
    with _waiting_is_an_error(group.device):
        group.capture()
    group.run_epoch(1)
    group.told(range(1, 2))
    group.test()


@contextmanager
def _waiting_is_an_error(device: torch.device) -> Iterator[None]:
    """Inside, what waits for a GPU raises. It cannot be captured, and must not be met while capturing: a capture that
    fails leaves torch's generator unusable."""
    if device.type != "cuda":
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
