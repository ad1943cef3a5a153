"""Writing a store: studies, finished cells and failures, each file written atomically. No torch."""

import json
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from cgipool.errors import UserError
from cgipool.files import write_atomically
from cgipool.study.claims import Claims
from cgipool.study.records import read_failure, read_record, read_study_record, record_of
from cgipool.study.stored import OtherFormat, read_stored, stamped, write_stored

log = logging.getLogger("cgipool")

PARTS = ("studies", "cells", "failed", "work", "claims")


def now() -> str:
    """The current time, in the format used in all files."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Store:
    """A folder of results, which several runs can use at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            for part in PARTS:
                (folder / part).mkdir(parents=True, exist_ok=True)
                if (folder / part).is_symlink():
                    raise UserError(f"{folder / part} is a link: a store keeps its files in folders of its own")
        except OSError as error:
            raise UserError(f"cannot make the store {folder}: {error.strerror or error}") from None
        self.claims = Claims(folder / "claims")

    def remember(self, study: dict[str, Any], skipped: Sequence[str] = ()) -> None:
        """Store the definition of a study, so that a report needs only the store. It replaces an earlier study of this
        name; finished cells stay. For data sets that were skipped, the cells of the earlier version are kept."""
        path = self._file("studies", study["name"])
        if skipped:
            study = study | {"cells": study["cells"] + _cells_on(skipped, path, study["axes"])}
        if _read(path) != json.loads(json.dumps(study)):
            write_stored(path, study)

    def has(self, key: str) -> bool:
        """Whether a cell is finished. A damaged file does not count as finished. A file of another format is an error,
        because it can be neither read nor replaced."""
        return self._damage(key) is None

    def _damage(self, key: str) -> str | None:
        """The reason why a cell's file cannot be read; None for a finished cell."""
        try:
            read_record(self._file("cells", key))
        except OtherFormat:
            raise
        except UserError as error:
            return str(error)
        return None

    def failure(self, key: str) -> tuple[str, str] | None:
        """The reason and the time of a cell's failure, if it failed."""
        path = self._file("failed", key)
        if not os.path.lexists(path):
            return None
        try:
            return read_failure(path)
        except UserError:
            return "unknown, as its file is damaged", ""

    def content(self, key: str) -> dict[str, Any]:
        """Return everything stored about a finished or failed cell, as plain values; empty for any other cell."""
        return _read(self._file("cells", key)) or _read(self._file("failed", key))

    def take_over(self, key: str, content: dict[str, Any]) -> None:
        """Store what another store has about a cell."""
        if "splits" in content:
            self.finish(key, content["cell"], content["splits"], content["provenance"])
        else:
            self.fail(key, content["cell"], content["reason"], content["log"])

    def seconds(self, key: str, kind: str) -> float | None:
        """The seconds that a finished cell took, if it ran on this kind of device."""
        try:
            found = read_record(self._file("cells", key)).provenance
        except UserError:
            return None
        return float(found["seconds"]) if found.get("kind") == kind and "seconds" in found else None

    def work(self, key: str) -> Path:
        """The training folder of a running or interrupted cell."""
        return self.folder / "work" / key

    def set_damaged_aside(self, key: str) -> None:
        """Rename the file of a damaged cell, so that the cell is trained again."""
        path, reason = self._file("cells", key), self._damage(key)
        if reason is not None and os.path.lexists(path):
            aside = path.with_name(f"{key}.damaged.json")
            log.warning("%s; it is kept as %s, and the cell is trained again", reason, aside.name)
            path.replace(aside)

    def clear_links(self, key: str) -> None:
        """Remove a training folder that contains a link: training would write to its target."""
        folder = self.work(key)
        if folder.is_symlink():
            folder.unlink()
        elif any(path.is_symlink() for path in folder.rglob("*")):
            log.warning("%s holds a link; the cell is trained from its start", folder)
            shutil.rmtree(folder)

    def finish(self, key: str, cell: dict[str, Any], splits: list[dict[str, Any]], provenance: dict[str, Any]) -> None:
        """Write a finished cell and remove its training folder and earlier failure."""
        head = stamped({"key": key, "cell": cell, "provenance": provenance, "splits": splits})
        record_of(head)  # a file that cannot be read back would be trained again forever
        del head["splits"]
        text = json.dumps(head, indent=1, ensure_ascii=False, allow_nan=False).removesuffix("\n}")
        rows = ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in splits)
        whole = f'{text},\n "splits": [\n{rows}\n ]\n}}\n'
        write = partial(Path.write_text, data=whole, encoding="utf-8")
        write_atomically(self._file("cells", key), write, follow=False)
        self._file("failed", key).unlink(missing_ok=True)
        self._clear(key)

    def fail(self, key: str, cell: dict[str, Any], reason: str, trace: str) -> None:
        """Store the reason and the log of a failure."""
        failure = {"key": key, "cell": cell, "when": now(), "reason": reason, "log": trace}
        write_stored(self._file("failed", key), failure)

    def forget_failure(self, key: str) -> None:
        """Remove a failure, so that the cell is trained again from the start."""
        self._file("failed", key).unlink(missing_ok=True)
        self._clear(key)

    def _clear(self, key: str) -> None:
        shutil.rmtree(self.work(key), ignore_errors=True)
        self._file("work", f"{key}.legs").unlink(missing_ok=True)

    def _file(self, part: str, name: str) -> Path:
        return self.folder / part / f"{name}.json"


def _cells_on(datasets: Sequence[str], path: Path, axes: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that a stored study with the same axes has on some data sets."""
    try:
        before = read_study_record(path)
    except OtherFormat:
        raise
    except UserError:
        return []
    same = list(before.axes) == list(axes)
    return [asdict(cell) for cell in before.cells if same and cell.at.get("dataset") in datasets]


def _read(path: Path) -> dict[str, Any]:
    """The content of a file; empty if it is missing or damaged."""
    try:
        return read_stored(path)
    except OtherFormat:
        raise
    except UserError:
        return {}
