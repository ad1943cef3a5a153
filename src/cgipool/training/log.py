"""What is kept of every epoch, as lines of JSON, each with a digest of its own; no torch."""

import json
import math
from pathlib import Path
from typing import Any

from cgipool.errors import UserError
from cgipool.files import DIGEST, parsing, sealed, unsealed, write_atomically
from cgipool.words import counted


class Log:
    """metrics.jsonl: one line per epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cut_back_to(self, epoch: int) -> None:
        """Drop what was written after that epoch, whatever state a power failure left it in."""
        rows = self.rows(epoch)
        if len(rows) != epoch:
            raise UserError(f"{self.path} holds {len(rows)} of the {counted(epoch, 'epoch')} before the checkpoint")
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
                message = f"{self.path}, line {number} is damaged; remove {self.path.parent} to train anew"
                raise UserError(message) from None
        return rows

    def whole(self, epochs: int) -> list[dict[str, Any]]:
        """All epochs of a training that has ended after so many; an error if some are missing."""
        rows = self.rows()
        if len(rows) != epochs:
            raise UserError(f"{self.path} is damaged: it holds {len(rows)} of {counted(epochs, 'epoch')}")
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
