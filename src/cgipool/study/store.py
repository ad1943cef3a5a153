"""Writing a store: studies, finished cells and failures, each file whole or not at all. records.py reads it.
No torch."""

import json
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from cgipool.errors import UserError
from cgipool.files import read_json, write_atomically, write_json
from cgipool.study.claims import Claims
from cgipool.study.records import FORMAT

PARTS = ("studies", "cells", "failed", "work", "claims")


def now() -> str:
    """The time, as it is written everywhere."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Store:
    """A folder of results; several runs may use one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            for part in PARTS:
                (folder / part).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the store {folder}: {error.strerror or error}") from None
        self.claims = Claims(folder / "claims")

    def remember(self, study: dict[str, Any]) -> None:
        """Keep what a study asks for, so that a report needs the store alone. What a study of this name asked for
        before is replaced: the file is what counts; finished cells stay."""
        path = self._file("studies", study["name"])
        if _read(path) != json.loads(json.dumps(study)):
            write_json(path, study)

    def has(self, key: str) -> bool:
        """Whether a cell is finished; a damaged file is none."""
        return _read(self._file("cells", key)).get("key") == key

    def failure(self, key: str) -> tuple[str, str] | None:
        """Why a cell could not be finished, and when that was, if it could not."""
        path = self._file("failed", key)
        if not path.exists():
            return None
        told = _read(path)
        return str(told.get("reason", "unknown, as its file is damaged")), str(told.get("when", ""))

    def told(self, key: str) -> dict[str, Any]:
        """All that is kept of a cell that is finished or failed, as plain values; nothing of another."""
        return _read(self._file("cells", key)) or _read(self._file("failed", key))

    def take_over(self, key: str, told: dict[str, Any]) -> None:
        """Keep what another store told of a cell."""
        if "splits" in told:
            self.finish(key, told["cell"], told["splits"], told["provenance"])
        else:
            self.fail(key, told["cell"], told["reason"], told["log"])

    def seconds(self, key: str, kind: str) -> float | None:
        """How long a finished cell took, if it was on this kind of device."""
        told = _read(self._file("cells", key)).get("provenance", {})
        return float(told["seconds"]) if told.get("kind") == kind and "seconds" in told else None

    def work(self, key: str) -> Path:
        """The training folder of a cell in hand."""
        return self.folder / "work" / key

    def set_damaged_aside(self, key: str) -> None:
        """A damaged cell is to be made anew; its file is kept under another name."""
        path = self._file("cells", key)
        if path.exists() and not self.has(key):
            path.replace(path.with_name(f"{key}.damaged.json"))

    def finish(self, key: str, cell: dict[str, Any], splits: list[dict[str, Any]], provenance: dict[str, Any]) -> None:
        """Write a finished cell; what it was made from is no longer needed."""
        head = {"format": FORMAT, "key": key, "cell": cell, "provenance": provenance}
        text = json.dumps(head, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
        rows = ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in splits)
        whole = f'{text},\n "splits": [\n{rows}\n ]\n}}\n'
        write_atomically(self._file("cells", key), partial(Path.write_text, data=whole, encoding="utf-8"))
        self._file("failed", key).unlink(missing_ok=True)
        self._clear(key)

    def fail(self, key: str, cell: dict[str, Any], reason: str, log: str) -> None:
        """Keep why a cell could not be finished, and its log."""
        path = self._file("failed", key)
        write_json(path, {"format": FORMAT, "key": key, "cell": cell, "when": now(), "reason": reason, "log": log})

    def forget_failure(self, key: str) -> None:
        """A failed cell is to be tried again, from its start."""
        self._file("failed", key).unlink(missing_ok=True)
        self._clear(key)

    def _clear(self, key: str) -> None:
        shutil.rmtree(self.work(key), ignore_errors=True)
        self._file("work", f"{key}.legs").unlink(missing_ok=True)

    def _file(self, part: str, name: str) -> Path:
        return self.folder / part / f"{name}.json"


def _read(path: Path) -> dict[str, Any]:
    """What a file holds; nothing if it is not there or damaged."""
    try:
        value = read_json(path)
    except UserError:
        return {}
    return value if isinstance(value, dict) else {}
