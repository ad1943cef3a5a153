"""The results of a run: the log of epochs, the row of each split, and the whole result. No torch."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError, counted, excerpt, unknown
from cgipool.files import (
    DIGEST,
    parsing,
    read_array,
    read_json,
    sealed,
    sha256_of_file,
    unsealed,
    write_atomically,
    write_json,
)
from cgipool.task.metrics import CLASS_1, METRICS, PER_CLASS, PER_COLUMN, Classes, shown


class Log:
    """metrics.jsonl: one line per epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cut_back_to(self, epoch: int) -> None:
        """Drop the lines after that epoch, even if a power failure damaged them."""
        rows = self.rows(epoch)
        if len(rows) != epoch:
            raise UserError(f"{self.path} has only {len(rows)} of the {counted(epoch, 'epoch')} before the checkpoint")
        text = "".join(map(_line, rows))
        write_atomically(self.path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def append(self, row: dict[str, Any]) -> None:
        """Add one line."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(row))
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}") from error

    def column(self, name: str) -> list[float]:
        """Return one value per epoch."""
        return [row[name] for row in self.rows()]

    def rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """Return the first `most` epochs, by default all; an incomplete last line is skipped.

        Lines from earlier versions have no digest. Resuming rewrites the file, so either all lines have one or none.
        """
        with parsing(self.path):
            content = self.path.read_bytes() if self.path.exists() else b""
        rows: list[dict[str, Any]] = []
        digests = False
        for number, line in enumerate(content.split(b"\n")[:-1][:most], start=1):
            try:
                row = json.loads(line) | {}
                digests = digests or DIGEST in row
                rows.append(_content(row, digests))
            except (ValueError, TypeError, RecursionError):
                message = f"{self.path}, line {number} is damaged; remove {self.path.parent} to train again"
                raise UserError(message) from None
        return rows

    def whole(self, epochs: int) -> list[dict[str, Any]]:
        """Return all epochs of a training that ended after `epochs`. Raise UserError if some are missing."""
        rows = self.rows()
        if len(rows) != epochs:
            raise UserError(f"{self.path} is damaged: it has {len(rows)} of {counted(epochs, 'epoch')}")
        return rows


def _content(row: dict[str, Any], sealed_so_far: bool) -> dict[str, Any]:
    """Return a line without its digest. Raise ValueError if the digest does not match, or is missing although earlier
    lines have one. A line holds only numbers, so any text is a digest whose name was damaged."""
    content = unsealed(row)
    if (sealed_so_far and DIGEST not in row) or any(isinstance(value, str) for value in content.values()):
        raise ValueError("it has no digest")
    return content


def _line(row: dict[str, Any]) -> str:
    """Return a row as a line of JSON. NaN and infinity become null, as JSON has neither."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(v) for v in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(sealed({name: plain(value) for name, value in row.items()}), allow_nan=False) + "\n"


RESULT, PROBABILITIES = "result.json", "probabilities.npy"
"""Files of a trained split: its row of the result, and the probabilities [n, classes] of the test graphs."""

_PROBABILITIES = f"{DIGEST} of {PROBABILITIES}"

_ROW = ("split", "epochs", "best_epoch", "val_loss", "test", "parameters", "epoch_seconds", "seconds", "members")
"""All names that any version has written into a row, except digests. Any other name means damage. If it were ignored,
one flipped bit in the digest's name would make the file look like an old one without a digest."""


def write_row(folder: Path, row: dict[str, Any]) -> None:
    """Write the row of a split with its digest and the digest of the probabilities file, if there is one."""
    path = folder / PROBABILITIES
    digest = {_PROBABILITIES: sha256_of_file(path)} if path.exists() else {}
    write_json(folder / RESULT, sealed(row | digest))


def read_row(folder: Path) -> dict[str, Any]:
    """Read the row of a split. Raise UserError if it is damaged. Rows from earlier versions have no digest."""
    return {name: value for name, value in _checked(folder).items() if name != _PROBABILITIES}


def read_probabilities(folder: Path) -> NDArray[Any]:
    """Read the probabilities [n, classes] of a split's test graphs. Raise UserError if the file is damaged."""
    path, digest = folder / PROBABILITIES, _checked(folder).get(_PROBABILITIES)
    values = read_array(path)
    if digest is not None and digest != sha256_of_file(path):
        raise _damaged(folder, path, "its content does not match its SHA-256")
    return values


def _checked(folder: Path) -> dict[str, Any]:
    path = folder / RESULT
    held = read_json(path)
    if not isinstance(held, dict):
        raise _damaged(folder, path, "it has no epochs")
    try:
        row = unsealed(held)
    except ValueError as error:
        raise _damaged(folder, path, str(error)) from None
    known = {*_ROW, _PROBABILITIES} if DIGEST in held else {*_ROW}
    if unexpected := sorted(row.keys() - known):
        raise _damaged(folder, path, f"it has an unknown entry {excerpt(unexpected[0])!r}")
    for name in ("epochs", "val_loss", "best_epoch"):
        if name not in row:
            raise _damaged(folder, path, f"it has no {name}")
    return row


def _damaged(folder: Path, path: Path, what: str) -> UserError:
    return UserError(f"{path} is damaged: {what}; remove {folder} to train this split again")


@dataclass(frozen=True, repr=False)
class Result:
    """The test results of all splits. Accuracies are shares between 0 and 1."""

    dataset: str
    method: str
    recipe: str
    settings: dict[str, Any]
    """The settings that differ from the recipe of that name."""
    seed: int
    seconds: float
    """Wall time of this call only; earlier calls of a resumed run are not included."""
    rows: list[dict[str, Any]]
    """Per split: split, epochs, best_epoch, val_loss, test (metrics by name), parameters, epoch_seconds, seconds (over
    all calls that trained it); for an ensemble also members, with test (metrics by name), epochs, best_epoch and
    val_loss of each."""
    ensemble: int = 1
    """How many members' probabilities were averaged in each split."""
    task: str = "classification"
    """What was predicted."""
    classes: Classes | None = None
    """The classes, and which one ROC-AUC and PR-AUC refer to; None if a split has no per-class values."""
    columns: tuple[str, ...] = ()
    """The target columns, if there are several and every split has the metrics of each."""

    def __post_init__(self) -> None:
        if not all(PER_CLASS in row["test"] for row in self.rows):  # a run that an earlier version started
            object.__setattr__(self, "classes", None)
        if not all(PER_COLUMN in row["test"] for row in self.rows):
            object.__setattr__(self, "columns", ())

    @property
    def positive(self) -> str:
        """The class that ROC-AUC and PR-AUC refer to, or "mean over classes"."""
        return CLASS_1 if self.classes is None else self.classes.label

    def of_class(self, name: str) -> "Result":
        """Return the same result with ROC-AUC and PR-AUC of another class."""
        if self.classes is None:
            raise UserError("some splits were trained by an earlier version, which stored no values for single classes")
        return replace(self, classes=self.classes.but(name))

    @property
    def primary(self) -> str:
        """The metric by which models are compared: accuracy, rmse or roc_auc."""
        return next(iter(METRICS[self.task]))

    @property
    def metrics(self) -> list[str]:
        """The test metrics that every split has; splits that earlier versions trained have fewer."""
        names = [shown(row["test"], self.classes) for row in self.rows]
        return [name for name in names[0] if all(name in test for test in names)] if names else []

    @property
    def test_scores(self) -> list[Any]:
        """The primary test metric, one per split."""
        return self.column(self.primary)

    @property
    def test_accuracy(self) -> list[float]:
        """One value per split."""
        return self.column("accuracy")

    def column(self, metric: str) -> list[Any]:
        """Return one value of a test metric per split."""
        if metric not in self.metrics:
            raise unknown("metric", metric, self.metrics)
        return [shown(row["test"], self.classes)[metric] for row in self.rows]

    @property
    def member_accuracy(self) -> list[list[float | None]]:
        """The primary test metric of each member of an ensemble on its own, None if it is not defined; one list per
        split."""
        return [[member[f"test_{self.primary}"] for member in row["members"]] for row in self.rows]

    def summary(self, metric: str) -> tuple[float | None, float | None, float | None]:
        """Return mean, standard deviation and standard error over splits; the latter two need two splits."""
        values = [value for value in self.column(metric) if value is not None]
        if not values:
            return None, None, None
        mean = float(np.mean(values))
        if len(values) < 2:
            return mean, None, None
        deviation = float(np.std(values, ddof=1))
        return mean, deviation, deviation / math.sqrt(len(values))

    def __repr__(self) -> str:
        """A summary over several lines; `rows` has every split."""
        count = len(self.rows)
        head = f"Result of {self.method} on {self.dataset}: {counted(count, 'split')}"
        head += f", ensemble of {self.ensemble}" if self.ensemble > 1 else ""
        changed = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        lines = [head, f"  recipe {self.recipe}{changed}, seed {self.seed}"]
        for metric in self.metrics:
            mean, deviation, _ = self.summary(metric)
            spread = "" if deviation is None else f" ± {deviation:.4f} (SD)"
            lines.append(f"  test {metric:<17} " + ("not defined" if mean is None else f"{mean:.4f}{spread}"))
        return "\n".join([*lines, f"  trained for {self.seconds:.1f} s"])

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the output of `cgipool train --json`."""
        plain: dict[str, Any] = {
            "dataset": self.dataset,
            "method": self.method,
            "recipe": self.recipe,
            "settings": self.settings,
            "seed": self.seed,
            "splits": len(self.rows),
        }
        if self.ensemble > 1:
            plain |= {"ensemble": self.ensemble, f"test_{self.primary}_members": self.member_accuracy}
        if self.task == "classification":
            plain["positive"] = self.positive
        else:
            plain["task"] = self.task
        for metric in self.metrics:
            mean, deviation, error = self.summary(metric)
            plain[f"test_{metric}"] = self.column(metric)
            plain |= {f"test_{metric}_mean": mean, f"test_{metric}_sd": deviation, f"test_{metric}_se": error}
        return (
            plain
            | self._each(PER_CLASS, () if self.classes is None else self.classes.names)
            | self._each(PER_COLUMN, self.columns)
            | {
                "epochs": [row["epochs"] for row in self.rows],
                "best_epoch": [row["best_epoch"] for row in self.rows],
                "parameters": self.rows[0]["parameters"],
                "epoch_seconds": float(np.median([row["epoch_seconds"] for row in self.rows])),
                "seconds": self.seconds,
            }
        )

    def _each(self, part: str, names: Sequence[str]) -> dict[str, Any]:
        """Return the metrics of each class or target column by name: one value per split."""
        if not names:
            return {}
        return {
            f"test_{metric}_{part}": {
                name: [row["test"][part][metric][place] for row in self.rows] for place, name in enumerate(names)
            }
            for metric in self.rows[0]["test"][part]
        }
