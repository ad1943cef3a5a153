"""Ensembles: several trainings of one split whose probabilities are averaged.

DIR/split-000/member-00/                         the files of a split, for each member
DIR/split-000/{probabilities.npy, result.json}   the mean over members, and its metrics
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.task.metrics import PER_COLUMN
from cgipool.task.registry import task_of
from cgipool.training.folder import save_array
from cgipool.training.job import Job
from cgipool.training.result import PROBABILITIES, read_probabilities, read_row, write_row


def members_of(job: Job, count: int) -> list[Job]:
    """Return the trainings of an ensemble, which differ in initial weights, order of graphs and dropout. With one
    member, return the job unchanged."""
    if count == 1:
        return [job]
    return [replace(job, folder=member_folder(job.folder, member), member=member) for member in range(count)]


def member_folder(folder: Path, member: int) -> Path:
    """Return the folder of one member in the folder of a split."""
    return folder / f"member-{member:02d}"


def combine(job: Job, members: Sequence[Job], graphs: GraphSet, *, at_once: bool) -> None:
    """Average the members' probabilities and write the ensemble's files to the split's folder, the result last.

    `at_once` says whether the members trained at the same time, so that the split took as long as the slowest one.
    """
    rows, task = [read_row(member.folder) for member in members], task_of(graphs)
    mean = np.mean([read_probabilities(member.folder) for member in members], axis=0)
    seconds = [row["seconds"] for row in rows]
    result = {
        "split": job.split.index,
        "epochs": max(row["epochs"] for row in rows),
        "best_epoch": max(row["best_epoch"] for row in rows),
        "val_loss": float(np.mean([row["val_loss"] for row in rows])),
        "test": task.evaluate(task.targets(graphs, job.split.test), mean),
        "parameters": sum(row["parameters"] for row in rows),
        "epoch_seconds": float(np.median([row["epoch_seconds"] for row in rows])),
        "seconds": max(seconds) if at_once else sum(seconds),
        "members": [_member(row, task.primary) for row in rows],
    }
    save_array(job.folder / PROBABILITIES, mean)
    write_row(job.folder, result)


def _member(row: dict[str, Any], primary: str) -> dict[str, Any]:
    plain = {name: row[name] for name in ("epochs", "best_epoch", "val_loss")}
    test = {name: value for name, value in row["test"].items() if name != PER_COLUMN}
    return {f"test_{primary}": row["test"][primary], "test": test} | plain
