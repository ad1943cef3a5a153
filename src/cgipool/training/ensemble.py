"""Ensembles: several trainings of one split whose probabilities are averaged.

DIR/split-000/member-00/                         what the folder of a split holds otherwise, for each member
DIR/split-000/{probabilities.npy, result.json}   the members' mean, and what it is worth
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.training.folder import save_array
from cgipool.training.job import Job
from cgipool.training.metrics import report
from cgipool.training.result import PROBABILITIES, read_probabilities, read_row, write_row


def members_of(task: Job, count: int) -> list[Job]:
    """The trainings of an ensemble: they differ in initial weights, order of graphs and dropout. Of one member: the
    task as it is."""
    if count == 1:
        return [task]
    return [replace(task, folder=member_folder(task.folder, member), member=member) for member in range(count)]


def member_folder(folder: Path, member: int) -> Path:
    """Where the folder of a split keeps the files of one member."""
    return folder / f"member-{member:02d}"


def combine(task: Job, members: Sequence[Job], graphs: GraphSet, *, at_once: bool) -> None:
    """Write what an ensemble leaves in its split's folder, from what its members left in theirs; the result last.

    `at_once` says whether the members trained side by side, so that the split took as long as the last of them.
    """
    rows = [read_row(member.folder) for member in members]
    mean = np.mean([read_probabilities(member.folder) for member in members], axis=0)
    seconds = [row["seconds"] for row in rows]
    result = {
        "split": task.split.index,
        "epochs": max(row["epochs"] for row in rows),
        "best_epoch": max(row["best_epoch"] for row in rows),
        "val_loss": float(np.mean([row["val_loss"] for row in rows])),
        "test": report(graphs.y[task.split.test], mean),
        "parameters": sum(row["parameters"] for row in rows),
        "epoch_seconds": float(np.median([row["epoch_seconds"] for row in rows])),
        "seconds": max(seconds) if at_once else sum(seconds),
        "members": [_member(row) for row in rows],
    }
    save_array(task.folder / PROBABILITIES, mean)
    write_row(task.folder, result)


def _member(row: dict[str, Any]) -> dict[str, Any]:
    plain = {name: row[name] for name in ("epochs", "best_epoch", "val_loss")}
    return {"test_accuracy": row["test"]["accuracy"]} | plain
