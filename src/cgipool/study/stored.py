"""Write, read and check the files of a store. No torch.

Every file is a JSON object with a format number and the SHA-256 of the rest. Files of earlier versions have no SHA-256
and are read without this check.
"""

import math
from pathlib import Path
from types import NoneType
from typing import Any

from cgipool.errors import UserError, excerpt
from cgipool.files import parsing, read_json, sealed, unsealed, write_json

TEXTS = ("task", "command", "device", "kind", "precision", "started", "finished", "data", "splits")
"""Names of texts in a provenance."""

NUMBERS = ("epochs", "best_epoch", "val_loss", "parameters", "seconds")
"""Names of numbers in the row of a split; some rows lack some of them."""


def check_provenance(provenance: dict[str, Any]) -> None:
    """Raise an error unless a provenance can be shown; older ones have fewer parts."""
    for name, value in provenance.items():
        if name in TEXTS:
            parts_of(provenance, **{name: str})
        elif name == "seconds":
            check_number(name, value)
    parts_of(
        {"versions": {}, "legs": [], "commit": None} | provenance, versions=dict, legs=list, commit=(str, NoneType)
    )


def check_row(row: dict[str, Any], metric: str = "accuracy") -> None:
    """Raise an error unless the row of a split has the primary metric of its task and sizes, and numbers where numbers
    are expected. Only accuracy is always defined; ROC-AUC, for example, is not if all test graphs have one label."""

    def check(values: dict[str, Any], name: str) -> None:
        if values[name] is not None or metric == "accuracy":
            check_number(name, values[name])

    parts_of(row, test=dict)
    check(row["test"], metric)
    parts_of(row, split=int)
    parts_of(row["graphs"], train=int, test=int)
    for name in (*NUMBERS, f"val_{metric}"):
        if row.get(name) is not None:
            check_number(name, row[name])
    for member in row.get("members", []):
        check(member, f"test_{metric}")
        parts_of({"test": {}} | member, test=dict)


def check_number(name: str, value: Any) -> None:
    """Raise an error unless a value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"its {name} is not a number")


def parts_of(value: dict[str, Any], /, **kinds: Any) -> list[Any]:
    """Return the values of these names, in their order; raise an error unless each has its type."""
    for name, kind in kinds.items():
        if not isinstance(value[name], kind):
            raise ValueError(f"its {name} has the wrong type, {type(value[name]).__name__}")
    return [value[name] for name in kinds]


FORMAT = 1
"""The format of the files of a store. It is increased when an earlier version would misread them."""


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
