"""What is kept of every epoch, as lines of JSON; no torch."""

import json
import math
from pathlib import Path
from typing import Any

from cgipool.errors import UserError
from cgipool.files import write_atomically
from cgipool.words import counted


class Log:
    """metrics.jsonl: one line per epoch."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cut_back_to(self, epoch: int) -> None:
        """Drop what was written after that epoch, and a last line that was never finished."""
        rows = [row for row in self.rows() if row["epoch"] <= epoch]
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

    def rows(self) -> list[dict[str, Any]]:
        """All epochs; a last line that was never finished is left out."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        rows = []
        for number, line in enumerate(text.splitlines(keepends=True), start=1):
            if not line.endswith("\n"):
                break
            try:
                rows.append(json.loads(line) | {})
            except (ValueError, TypeError):
                raise UserError(f"{self.path}, line {number} is damaged") from None
        return rows


def _line(row: dict[str, Any]) -> str:
    """JSON has no NaN and no infinity: null stands for both."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(v) for v in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps({name: plain(value) for name, value in row.items()}, allow_nan=False) + "\n"
