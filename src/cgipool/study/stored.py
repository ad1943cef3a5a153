"""The files of a store: the one way in which they are written and read. No torch.

Every file is a JSON object with a format number and the SHA-256 of the rest. Files written before there was a digest
have none and are read as they are.
"""

from pathlib import Path
from typing import Any

from cgipool.errors import UserError, excerpt
from cgipool.files import parsing, read_json, sealed, unsealed, write_json

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
