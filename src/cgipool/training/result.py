"""What a run gave: the log of every epoch, the row of every split, the whole result. No torch."""

import json
import math
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
from cgipool.training.metrics import CLASS_1, PER_CLASS, Classes, shown


class Log:
    """metrics.jsonl: one line per epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cut_back_to(self, epoch: int) -> None:
        """Drop what was written after that epoch, whatever state a power failure left it in."""
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
        """One value per epoch."""
        return [row[name] for row in self.rows()]

    def rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """The first `most` epochs, by default all; a last line that was never finished is left out.

        Lines of earlier versions have no digest. Resuming rewrites the file, so that all lines have one or none has.
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
        """All epochs of a training that has ended after so many; an error if some are missing."""
        rows = self.rows()
        if len(rows) != epochs:
            raise UserError(f"{self.path} is damaged: it has {len(rows)} of {counted(epochs, 'epoch')}")
        return rows


def _content(row: dict[str, Any], sealed_so_far: bool) -> dict[str, Any]:
    """A line without its digest; a ValueError if it does not fit. Where other lines have one, it must have one; and it
    holds numbers alone, so that a text is what is left of a digest whose name was damaged."""
    content = unsealed(row)
    if (sealed_so_far and DIGEST not in row) or any(isinstance(value, str) for value in content.values()):
        raise ValueError("it has no digest")
    return content


def _line(row: dict[str, Any]) -> str:
    """JSON has no NaN and no infinity: null stands for both."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(v) for v in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(sealed({name: plain(value) for name, value in row.items()}), allow_nan=False) + "\n"


RESULT, PROBABILITIES = "result.json", "probabilities.npy"
"""In a split's folder, once it is trained: its row of the result, and what it said of the test graphs [n, classes]."""

_PROBABILITIES = f"{DIGEST} of {PROBABILITIES}"

_ROW = ("split", "epochs", "best_epoch", "val_loss", "test", "parameters", "epoch_seconds", "seconds", "members")
"""All that was ever written into a row beside digests. Any other name is damage: were it ignored, one flipped bit in
the name of the digest would turn a file into one from before there were digests."""


def write_row(folder: Path, row: dict[str, Any]) -> None:
    """Write the row of a split with digests of it and of the probabilities beside it, if there are any."""
    there = (folder / PROBABILITIES).exists()
    digest = {_PROBABILITIES: sha256_of_file(folder / PROBABILITIES)} if there else {}
    write_json(folder / RESULT, sealed(row | digest))


def read_row(folder: Path) -> dict[str, Any]:
    """The row of a split; a damaged one is an error that says what to do. Those of earlier versions have no digest."""
    return {name: value for name, value in _checked(folder).items() if name != _PROBABILITIES}


def read_probabilities(folder: Path) -> NDArray[Any]:
    """[n, classes] what a split said of its test graphs; damage is an error that says what to do."""
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
    if strange := sorted(row.keys() - known):
        raise _damaged(folder, path, f"it has an unknown entry {excerpt(strange[0])!r}")
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
    """Wall time of this call; a resumed run counts what the last call did."""
    rows: list[dict[str, Any]]
    """Per split: split, epochs, best_epoch, val_loss, test (metrics by name), parameters, epoch_seconds, seconds (of
    all calls that trained it); of an ensemble also members, with test_accuracy, epochs, best_epoch and val_loss of
    each."""
    ensemble: int = 1
    """How many members' probabilities were averaged in each split."""
    classes: Classes | None = None
    """The classes, and which of them ROC-AUC and PR-AUC are of; None where a split holds no values of every class."""

    def __post_init__(self) -> None:
        if not all(PER_CLASS in row["test"] for row in self.rows):  # a run that an earlier version began
            object.__setattr__(self, "classes", None)

    @property
    def positive(self) -> str:
        """What ROC-AUC and PR-AUC are of, in words: a class, or the mean over classes."""
        return CLASS_1 if self.classes is None else self.classes.label

    def of_class(self, name: str) -> "Result":
        """The same result, with ROC-AUC and PR-AUC of another class."""
        if self.classes is None:
            raise UserError("some splits were trained by an earlier version, which stored no values for single classes")
        return replace(self, classes=self.classes.but(name))

    @property
    def test_accuracy(self) -> list[float]:
        """One per split."""
        return self.column("accuracy")

    def column(self, metric: str) -> list[Any]:
        """One value of a test metric per split: accuracy, balanced_accuracy, mcc, roc_auc or pr_auc."""
        tests = [shown(row["test"], self.classes) for row in self.rows]
        if metric not in tests[0]:
            raise unknown("metric", metric, tests[0])
        return [test[metric] for test in tests]

    @property
    def member_accuracy(self) -> list[list[float]]:
        """Of an ensemble: one list per split, what each member would have had alone."""
        return [[member["test_accuracy"] for member in row["members"]] for row in self.rows]

    def summary(self, metric: str) -> tuple[float | None, float | None, float | None]:
        """Mean, standard deviation and standard error over splits; the latter two need two splits."""
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
        for metric in shown(self.rows[0]["test"], self.classes) if self.rows else ():
            mean, deviation, _ = self.summary(metric)
            spread = "" if deviation is None else f" ± {deviation:.4f} (SD)"
            lines.append(f"  test {metric:<17} " + ("not defined" if mean is None else f"{mean:.4f}{spread}"))
        return "\n".join([*lines, f"  trained for {self.seconds:.1f} s"])

    def to_json(self) -> dict[str, Any]:
        """Plain values: the figures of `cgipool train --json`."""
        plain: dict[str, Any] = {
            "dataset": self.dataset,
            "method": self.method,
            "recipe": self.recipe,
            "settings": self.settings,
            "seed": self.seed,
            "splits": len(self.rows),
        }
        if self.ensemble > 1:
            plain |= {"ensemble": self.ensemble, "test_accuracy_members": self.member_accuracy}
        plain["positive"] = self.positive
        for metric in shown(self.rows[0]["test"], self.classes):
            mean, deviation, error = self.summary(metric)
            plain[f"test_{metric}"] = self.column(metric)
            plain |= {f"test_{metric}_mean": mean, f"test_{metric}_sd": deviation, f"test_{metric}_se": error}
        return (
            plain
            | self._per_class()
            | {
                "epochs": [row["epochs"] for row in self.rows],
                "best_epoch": [row["best_epoch"] for row in self.rows],
                "parameters": self.rows[0]["parameters"],
                "epoch_seconds": float(np.median([row["epoch_seconds"] for row in self.rows])),
                "seconds": self.seconds,
            }
        )

    def _per_class(self) -> dict[str, Any]:
        """Each metric that has a positive class, by class: one value per split."""
        if self.classes is None:
            return {}
        return {
            f"test_{metric}_{PER_CLASS}": {
                name: [row["test"][PER_CLASS][metric][place] for row in self.rows]
                for place, name in enumerate(self.classes.names)
            }
            for metric in self.rows[0]["test"][PER_CLASS]
        }
