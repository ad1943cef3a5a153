"""Converts the folder of a finished training to the content of a cell. No torch.

A curve is thinned to at most `POINTS` epochs and its numbers to four digits: the store of a whole paper stays small.
"""

import math
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.errors import UserError
from cgipool.files import read_json
from cgipool.study.records import ODD
from cgipool.study.stored import read_stored, write_stored
from cgipool.training.result import Log, read_row

POINTS = 60
ARCHIVED = "commit.txt"
"""Next to this file; `git archive` writes the commit into it (see .gitattributes)."""


def split_rows(folder: Path, metric: str = "accuracy", stop_by: str = "loss") -> list[dict[str, Any]]:
    """One row per split of a training folder, see `records.Record.splits`; `metric` is the task's primary metric, and
    `stop_by` what early stopping watched."""
    sizes = {
        split["index"]: {side: len(split[side]) for side in ("train", "val", "test")}
        for split in read_json(folder / "splits.json")["splits"]
    }
    scores = tuple(dict.fromkeys((f"val_{metric}", f"val_{stop_by}")))
    return [_row(part, sizes, scores) for part in sorted(folder.glob("split-*"))]


def _row(folder: Path, sizes: dict[int, dict[str, int]], scores: tuple[str, ...]) -> dict[str, Any]:
    result = read_row(folder)
    members = result.get("members", [result])
    bests = [member["best_epoch"] for member in members]
    logs = sorted(folder.glob("member-*/metrics.jsonl"), key=lambda log: (len(log.parent.name), log))
    trained = [
        Log(log).whole(member["epochs"])
        for log, member in zip(logs or [folder / "metrics.jsonl"], members, strict=True)
    ]
    shown = trained[0]  # for an ensemble, the first member's
    row = {
        name: result[name] for name in ("split", "epochs", "best_epoch", "val_loss", "test", "parameters", "seconds")
    }
    row |= {score: _val_score(trained, bests, score) for score in scores if score != "val_loss"}
    curves = ("train_loss", "val_loss", scores[0])
    row |= {"graphs": sizes[result["split"]], "curve": _curve(shown, curves)}
    row |= {"diagnostics": _diagnostics(shown, bests[0], {"epoch", "seconds", *curves})}
    return row | ({"members": result["members"]} if "members" in result else {})


def _val_score(trained: list[list[dict[str, Any]]], bests: list[int], score: str) -> float | None:
    """The validation metric at the best epoch, for an ensemble the mean over its members, each at its own best epoch;
    None without a log."""
    found = [row[score] for epochs, best in zip(trained, bests, strict=True) for row in epochs if row["epoch"] == best]
    return None if len(found) < len(bests) or None in found else float(np.mean(found))


def _curve(epochs: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    chosen = np.unique(np.linspace(0, len(epochs) - 1, min(POINTS, len(epochs))).round().astype(int))
    rows = [epochs[i] for i in chosen]
    return {"epoch": [row["epoch"] for row in rows]} | {name: [_short(row[name]) for row in rows] for name in names}


def _diagnostics(epochs: list[dict[str, Any]], best: int, plain: set[str]) -> dict[str, list[Any]]:
    """The method's diagnostics at the best epoch, by level: all lists except the `plain` columns of the log."""
    rows = [row for row in epochs if row["epoch"] == best]
    return {
        name: list(map(_short, value))
        for row in rows
        for name, value in row.items()
        if name not in plain and isinstance(value, list)
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


class RunHistory:
    """The times at which a cell was trained: one run may start it and another finish it. Stored next to its training
    folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder.with_name(f"{folder.name}.legs.json")
        self.legs = _read_legs(self.path)
        newest = max((path.stat().st_mtime for path in folder.glob("**/*")), default=0.0)
        for leg in self.legs:  # a run that was killed ended at its last heartbeat
            leg.setdefault("seconds", max(0.0, newest - leg["at"]))

    def begin(self, started: str, versions: dict[str, str], commit: str | None) -> None:
        """A run starts or resumes the cell, with the code of a commit."""
        self.legs.append({"started": started, "at": time.time(), "versions": versions, "commit": commit})
        write_stored(self.path, {"legs": self.legs})

    def end(self, seconds: float) -> None:
        """The run ends, whether or not the cell is finished."""
        self.legs[-1]["seconds"] = seconds
        write_stored(self.path, {"legs": self.legs})

    @property
    def seconds(self) -> float:
        """Total seconds of all runs."""
        return sum(leg["seconds"] for leg in self.legs)


def _read_legs(path: Path) -> list[dict[str, Any]]:
    """Read the earlier runs; none if the file is missing or damaged, as they only record how long a cell took."""
    try:
        value = read_json(path)
        legs = value if isinstance(value, list) else read_stored(path)["legs"]  # a list was written by older versions
        return [
            leg for leg in legs if isinstance(leg["started"], str) and math.isfinite(leg["at"] + leg.get("seconds", 0))
        ]
    except (UserError, *ODD):
        return []


def commit_of(package: Path) -> str | None:
    """The git commit that a package's source stands at, with a + if there are changes; None where nothing can tell.

    In what `git archive` unpacks, which need not be a repository and may lie within another one, a file names it.
    """
    archived = (package / ARCHIVED).read_text(encoding="utf-8").strip() if (package / ARCHIVED).exists() else ""
    if re.fullmatch("[0-9a-f]{40}", archived):
        return archived

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(package), *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
