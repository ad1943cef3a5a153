"""What an import gives, and how it is kept: a saved GraphSet with a few plain files beside its arrays."""

import csv
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, write_splits
from cgipool.data.store import is_saved
from cgipool.errors import UserError
from cgipool.files import read_json, write_json

IDS, SKIPPED, FEATURES, SCAFFOLDS = "ids.csv", "skipped.csv", "features.json", "scaffold-splits.json"


class Skipped(NamedTuple):
    """A row of the source that is no graph of the set."""

    row: int
    """Counted from 1."""
    reason: str
    text: str
    """What stood there, or the name of it."""


@dataclass(frozen=True, eq=False)
class Imported:
    """A set and where its graphs come from."""

    graphs: GraphSet
    ids: Mapping[str, Sequence[Any]]
    """Columns with one entry per graph: "row" in the source from 1 and, where there are such, "id" and "smiles"."""
    skipped: Sequence[Skipped] = ()
    """The rows left out because they could not be read."""
    features: dict[str, Any] | None = None
    """The featuriser of molecules as plain values."""
    splits: dict[str, list[Split]] = field(default_factory=dict)
    """Splits that go with the set, by file name."""

    def with_scaffold_splits(self, count: int, seed: int) -> "Imported":
        """The same with the splits 0 … count − 1 of the seed, by the scaffolds of its molecules."""
        if "smiles" not in self.ids:
            raise UserError(f"{self.graphs.name} is no set of molecules: it has no scaffolds to split by")
        from cgipool.data.scaffolds import scaffold_splits

        splits = scaffold_splits(self.ids["smiles"], seed=seed, indices=range(count))
        return replace(self, splits=self.splits | {SCAFFOLDS: splits})

    def save(self, folder: str | Path) -> None:
        """Write everything into one folder, which appears whole or not at all; an earlier import in it is replaced."""
        target = Path(folder)
        check_target(target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as aside:
                fresh, previous = Path(aside, "fresh"), Path(aside, "previous")
                self._write(fresh)
                if target.exists():
                    os.replace(target, previous)
                try:
                    os.replace(fresh, target)
                except OSError:
                    if previous.exists():
                        shutil.move(previous, target)
                    raise
        except OSError as error:
            raise UserError(f"cannot save {self.graphs.name} to {target}: {error.strerror or error}") from error

    def _write(self, folder: Path) -> None:
        self.graphs.save(folder)
        numbers = range(self.graphs.n_graphs)
        _write_csv(folder / IDS, ["graph", *self.ids], zip(numbers, *self.ids.values(), strict=True))
        if self.skipped:
            _write_csv(folder / SKIPPED, Skipped._fields, self.skipped)
        if self.features is not None:
            write_json(folder / FEATURES, self.features)
        for name, splits in self.splits.items():
            write_splits(folder / name, splits)


def check_target(folder: Path) -> None:
    """An error if the folder holds anything but a saved set, before the work is done and not after."""
    if folder.exists() and not is_saved(folder):
        raise UserError(f"{folder} exists and is not a saved GraphSet; it is not overwritten")


def featurizer_of(data: str | Path) -> dict[str, Any] | None:
    """How the molecules of a saved import, or of the built-in set of molecules, became graphs; None for other sets."""
    path = Path(data) / FEATURES
    if path.is_file():
        return read_json(path)
    if str(data).lower() == "solubility":
        from cgipool.data.molecules import MoleculeFeaturizer

        return MoleculeFeaturizer().to_json()
    return None


def read_ids(folder: str | Path) -> dict[str, list[str]]:
    """The columns of a saved import's ids.csv by name, one entry per graph."""
    path = Path(folder) / IDS
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
            return {name: list(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, csv.Error):
        raise UserError(f"{path} is damaged: it is no table with a header") from None


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
