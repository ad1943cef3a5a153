"""The stored cells and searches, read as plain JSON."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from recount_statistics import LEVEL, Difference, corrected, holm


@dataclass(frozen=True)
class Cell:
    """One method with one setting on one data set."""

    key: str
    content: dict[str, Any]
    seeds: bool
    """Whether members are trainings whose mean counts, and not an ensemble."""

    @property
    def splits(self) -> list[dict[str, Any]]:
        """The rows of the splits, in order."""
        return sorted(self.content["splits"], key=lambda row: row["split"])

    @cached_property
    def whole(self) -> np.ndarray:
        """[splits] test accuracy in percent; of an ensemble, of its mean prediction."""
        return 100 * np.array([row["test"]["accuracy"] for row in self.splits])

    @cached_property
    def members(self) -> np.ndarray:
        """[splits, members]."""

        def accuracy(member: dict[str, Any]) -> float:
            return member["test"]["accuracy"] if "test" in member else member["test_accuracy"]

        return 100 * np.array([[accuracy(member) for member in row["members"]] for row in self.splits])

    @property
    def values(self) -> np.ndarray:
        """[splits] what comparisons use."""
        return self.members.mean(1) if self.seeds else self.whole

    @property
    def graphs(self) -> dict[str, int]:
        """How many graphs a split trains, validates and tests on."""
        return self.splits[0]["graphs"]

    @property
    def test_to_train(self) -> float:
        """Test graphs over training graphs."""
        return float(np.mean([row["graphs"]["test"] / row["graphs"]["train"] for row in self.splits]))


@dataclass(frozen=True)
class Place:
    """A cell that a study asks for."""

    at: dict[str, Any]
    key: str
    published: tuple[float, float | None] | None
    cell: Cell | None


@dataclass(frozen=True)
class Study:
    """A study with the cells that are there."""

    name: str
    baseline: str
    titles: dict[str, str]
    axes: dict[str, list[Any]]
    places: list[Place]
    margin: float = 0.0
    contrasts: dict[str, list[str]] = field(default_factory=dict)

    def of(self, method: str, dataset: str, **more: Any) -> Place | None:
        """The place of a method on a data set, and of what else varies; a method by its name or title."""
        wanted = {"method": self.named(method), "dataset": dataset} | more
        return next((p for p in self.places if all(str(p.at[n]) == str(v) for n, v in wanted.items())), None)

    def cell(self, method: str, dataset: str, **more: Any) -> Cell | None:
        """The cell there, if it was run."""
        place = self.of(method, dataset, **more)
        return place.cell if place else None

    def named(self, title: str) -> str:
        """The name of a method with this title."""
        return next((name for name, known in self.titles.items() if known == title), title)

    def rest(self, place: Place) -> tuple[Any, ...]:
        """Where a place is, but for its method."""
        return tuple(value for axis, value in place.at.items() if axis != "method")

    @cached_property
    def against(self) -> dict[tuple[Any, ...], tuple[Difference, float]]:
        """By method and context: the baseline minus the method, and Holm's p."""
        base = {self.rest(p): p.cell for p in self.places if p.at["method"] == self.baseline}
        pairs = {
            (p.at["method"], *self.rest(p)): (base[self.rest(p)], p.cell)
            for p in self.places
            if p.cell and p.at["method"] != self.baseline and base.get(self.rest(p))
        }
        return tested(pairs)


def tested(pairs: dict[Any, tuple[Cell | None, Cell | None]]) -> dict[Any, tuple[Difference, float]]:
    """The first minus the second of each pair on the same splits, and p adjusted over all pairs that differ."""
    found, keys = {}, {}
    for name, (one, other) in pairs.items():
        if one is None or other is None:
            continue
        common = min(len(one.values), len(other.values))
        difference = corrected(one.values[:common] - other.values[:common], one.test_to_train)
        if difference is not None:
            found[name], keys[name] = difference, (one.key, other.key)
    adjusted = holm({keys[name]: one.p for name, one in found.items()})
    return {name: (one, adjusted[keys[name]]) for name, one in found.items()}


def mark(of_method: float, p: float) -> str:
    """▲ or ▼ for a significant difference of the method."""
    return "" if p >= LEVEL else "▲" if of_method > 0 else "▼"


@dataclass(frozen=True)
class Results:
    """Everything in results/."""

    studies: dict[str, Study]
    searches: dict[str, dict[str, Any]]

    def by_the_paper(self, method: str, dataset: str) -> Cell | None:
        """The cell of recipe paper."""
        found = (self.studies[name].cell(method, dataset) for name in ("table1", "table2", "controls"))
        return next((cell for cell in found if cell), None)


def read(folder: Path) -> Results:
    """Read all stores."""
    results = Results({}, {})
    for store in sorted(path for path in folder.iterdir() if path.is_dir()):
        results.studies.update((study.name, study) for study in _studies(store))
        for path in sorted(store.glob("searches/*.json")):
            results.searches[path.stem] = json.loads(path.read_text(encoding="utf-8"))
    return results


def _studies(store: Path) -> Iterator[Study]:
    cells = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in store.glob("cells/*.json")}
    for path in sorted(store.glob("studies/*.json")):
        study = json.loads(path.read_text(encoding="utf-8"))
        about = study.get("analysis") or {}
        seeds = about.get("seeds", 1) > 1
        places = []
        for place in study["cells"]:
            content = cells.get(place["key"])
            cell = Cell(place["key"], content, seeds) if content else None
            published = tuple(place["published"]) if place["published"] else None
            places.append(Place(place["at"], place["key"], published, cell))
        titles = study["titles"]["method"]
        more = about.get("margin", 0.0), about.get("contrasts", {})
        yield Study(study["name"], study["baseline"], titles, study["axes"], places, *more)
