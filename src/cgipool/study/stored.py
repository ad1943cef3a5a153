"""The files of a store: the one way in which they are written, read and checked. No torch.

Every file is a JSON object with a format number and the SHA-256 of the rest. Files written before there was a digest
have none and are read as they are.
"""

import math
from pathlib import Path
from types import NoneType
from typing import Any

from cgipool.errors import UserError, excerpt
from cgipool.files import parsing, read_json, sealed, unsealed, write_json

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


FORMAT = 1
"""Of the files of a store. Raised when an older reader would misread them."""


class OtherFormat(UserError):
    """A file that is intact, but written by a version of the package that uses another format."""


def write_stored(path: Path, value: dict[str, Any]) -> None:
    """Write a file of a store. A symbolic link in its place is replaced, not followed."""
    if path.parent.is_symlink():
        raise UserError(f"{path.parent} is a link: a store keeps its files in folders of its own")
    write_json(path, stamped(value), follow=False)


def stamped(value: dict[str, Any]) -> dict[str, Any]:
    """What a file of a store holds: the format, the values, their digest."""
    return sealed({"format": FORMAT} | value)


def read_stored(path: Path) -> dict[str, Any]:
    """The values of a file of a store. An error if it cannot be read, is damaged, or has another format."""
    value = read_json(path)
    with parsing(path):
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        content = unsealed(value)
    found = content.pop("format", FORMAT)
    if type(found) is not int or found != FORMAT:
        raise OtherFormat(f"{path} has format {excerpt(repr(found), 20)}, and this version reads {FORMAT}")
    return content
