"""What the values of a stored cell must be, so that reports and runs can rely on them. No torch."""

import math
from types import NoneType
from typing import Any

TEXTS = ("command", "device", "kind", "precision", "started", "finished", "data", "splits")
"""What is text in a provenance."""

NUMBERS = ("epochs", "best_epoch", "val_loss", "parameters", "seconds", "val_accuracy")
"""What is a number in the row of a split, where it is there."""


def check_provenance(told: dict[str, Any]) -> None:
    """An error unless a provenance can be shown; older ones have fewer parts."""
    for name, value in told.items():
        if name in TEXTS:
            parts_of(told, **{name: str})
        elif name == "seconds":
            check_number(name, value)
    parts_of({"versions": {}, "legs": [], "commit": None} | told, versions=dict, legs=list, commit=(str, NoneType))


def check_row(row: dict[str, Any]) -> None:
    """An error unless the row of a split has an accuracy and sizes, and numbers where numbers are expected."""
    parts_of(row, test=dict)
    check_number("accuracy", row["test"]["accuracy"])
    parts_of(row, split=int)
    parts_of(row["graphs"], train=int, test=int)
    for name in NUMBERS:
        if row.get(name) is not None:
            check_number(name, row[name])
    for member in row.get("members", []):
        check_number("test_accuracy", member["test_accuracy"])


def check_number(name: str, value: Any) -> None:
    """An error unless a value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"its {name} is no number")


def parts_of(value: dict[str, Any], /, **kinds: Any) -> list[Any]:
    """What stands under these names, in their order; an error unless each is of its kind."""
    for name, kind in kinds.items():
        if not isinstance(value[name], kind):
            raise ValueError(f"its {name} is of another kind, {type(value[name]).__name__}")
    return [value[name] for name in kinds]
