"""A study file: which cells, which settings, and the published numbers beside them.

name, title, about, source     what it is, and where the published numbers are from
baseline                       the method that the others are compared with
curves                         the axis to draw curves over; without it the study is a table
[protocol]                     splits, first, seed, split_kind, ensemble
[settings]                     recipe, and any of its settings to change for all cells
[axes]                         method, dataset, and any setting that varies; cells are all combinations
[data]                         NAME = "path", from the file's folder: data sets of the user's own
[published.METHOD]             DATASET = [mean, ±] in percent
"""

import functools
import itertools
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from cgipool.data.splits import KINDS
from cgipool.errors import UserError, excerpt, unknown
from cgipool.files import names_a_file, parsing, read_regular
from cgipool.pool import METHODS, method_named
from cgipool.study import fingerprints
from cgipool.study.cell import Cell, Protocol
from cgipool.study.records import place_in_words
from cgipool.study.sets import Sets, family_in, origin_of, own_sets
from cgipool.training.recipe import SETTINGS, Recipe, recipe_named, value_of

TEXTS = ("name", "title", "about", "source", "baseline", "curves")
TABLES = ("protocol", "settings", "axes", "data", "published")
DEEPEST = 10
"""How deeply tables and lists of a file may be nested."""

AXES = ("method", "dataset", "recipe", "split_kind", *SETTINGS)

Made = TypeVar("Made")


@dataclass(frozen=True)
class Study:
    """Cells in the order in which they are run and shown."""

    name: str
    title: str
    about: str
    source: str
    baseline: str | None
    curves: str | None
    axes: dict[str, list[Any]]
    cells: list[Cell]
    skipped: tuple[str, ...] = ()
    """Data sets of the user's own that nobody asked for: they were not read, and `cells` has none of theirs."""

    def to_json(self) -> dict[str, Any]:
        """What a store keeps of it."""
        known = {name: method.title for name, method in METHODS.items()} | {fingerprints.NAME: fingerprints.TITLE}
        titles = {value: known[value] for value in self.axes["method"] if value in known}
        texts = {name: getattr(self, name) for name in TEXTS}
        cells = [
            {"key": c.key, "at": c.at, "published": c.published and list(c.published)}
            | ({"unread": list(c.unread)} if c.unread else {})
            for c in self.cells
        ]
        return texts | {"axes": self.axes, "titles": {"method": titles}, "cells": cells}

    def only(self, wanted: dict[str, list[str]]) -> list[Cell]:
        """The cells whose values on these axes are among those named; of several with one result, the first."""
        _check_wanted(wanted, self.axes)
        chosen = [c for c in self.cells if all(str(c.at[axis]) in values for axis, values in wanted.items())]
        return list({c.key: c for c in reversed(chosen)}.values())[::-1]


def read_study(path: Path, only: Mapping[str, Sequence[str]] | None = None) -> Study:
    """The study of a file; whatever it says that has no meaning is an error. `only` gives values by axis, as for
    `Study.only`: of the user's own data sets just those are read."""
    return read_toml(path, functools.partial(study_of, folder=path.parent, only=only))


def read_toml(path: Path, make: Callable[[dict[str, Any], str], Made]) -> Made:
    """What a function makes of a file's values and of its name without the ending; an error names the file."""
    with parsing(path):
        try:
            given = tomllib.loads(read_regular(path).decode("utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{path} is not valid TOML: {excerpt(str(error))}") from None
        except UnicodeDecodeError:
            raise UserError(f"{path} is not valid TOML: it is not UTF-8 text") from None
    try:
        _check_bounds(given)
        return make(given, path.stem)
    except UserError as error:
        raise UserError(f"{path}: {excerpt(str(error), 1000)}") from None


def _check_bounds(value: Any, depth: int = 0) -> None:
    """An error for what no study can mean, and what would fail further on: deep nesting, and numbers beyond 64 bits."""
    if depth > DEEPEST:
        raise UserError("tables and lists are nested too deeply")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_bounds(part, depth + 1)
    if isinstance(value, int) and abs(value) >= 2**63:
        raise UserError("an integer has more than 64 bits")


def study_of(
    given: dict[str, Any],
    default_name: str = "study",
    folder: Path = Path(),
    only: Mapping[str, Sequence[str]] | None = None,
) -> Study:
    """A study from plain values; paths in it start in a folder. For `only` see `read_study`."""
    if "space" in given:
        raise UserError("this is a search file: run it with `cgipool study search`")
    check_keys(given, TEXTS, TABLES)
    axes = _axes(given.get("axes", {}))
    _check_wanted(only or {}, axes)
    needed = (only or {}).get("dataset", axes["dataset"])
    sets = own_sets(given.get("data", {}), folder, axes["dataset"], needed)
    skipped = tuple(name for name in axes["dataset"] if name in given.get("data", {}) and name not in sets)
    protocol = protocol_of(given.get("protocol", {}))
    read = axes | {"dataset": [name for name in axes["dataset"] if name not in skipped]}
    _check_published(given.get("published", {}), axes)
    cells = _cells(read, sets, protocol, given.get("settings", {}), given.get("published", {}))
    curves, baseline = given.get("curves"), given.get("baseline")
    if curves is not None and curves not in axes:
        raise unknown("axis in curves", curves, axes)
    if baseline is not None and baseline not in axes["method"]:
        raise unknown("baseline", baseline, axes["method"])
    name = check_name(given.get("name", default_name))
    if given.get("published") and not given.get("source"):
        raise UserError("published numbers need a source")
    if curves in ("method", "dataset"):
        raise UserError("curves must name a setting, not method or dataset")
    texts = (name, given.get("title", name), given.get("about", ""), given.get("source", ""))
    return Study(*texts, baseline, curves, axes, cells, skipped)


def _check_wanted(wanted: Mapping[str, Sequence[str]], axes: Mapping[str, list[Any]]) -> None:
    for axis, values in wanted.items():
        if axis not in axes:
            raise unknown("axis", axis, axes)
        known = {str(value) for value in axes[axis]}
        for value in values:
            if value not in known:
                raise unknown(axis, value, known)


def check_keys(given: dict[str, Any], texts: Sequence[str], tables: Sequence[str], others: Sequence[str] = ()) -> None:
    """Raise an error unless a file has only these keys, with strings and tables where they are required."""
    for name in given:
        if name not in (*texts, *tables, *others):
            raise unknown("key", name, (*texts, *tables, *others))
    for name in tables:
        if not isinstance(given.get(name, {}), dict):
            raise UserError(f"{name} must be a table, [{name}]")
    for name in texts:
        if not isinstance(given.get(name, ""), str):
            raise UserError(f"{name} must be a string")


def check_name(name: str) -> str:
    """The name, unless no file can be named after it."""
    if not names_a_file(name):
        raise UserError(
            f"the name {name!r} may have only letters, digits, '.', '_' and '-', as files are named after it"
        )
    return name


def _axes(given: dict[str, Any]) -> dict[str, list[Any]]:
    for name, values in given.items():
        if name not in AXES:
            raise unknown("axis", name, AXES)
        if not isinstance(values, list) or not values:
            raise UserError(f"axis {name} must be a list of values")
        if name in ("method", "dataset", "recipe", "split_kind") and not all(isinstance(v, str) for v in values):
            raise UserError(f"axis {name} must be a list of names")
        if len(set(map(str, values))) < len(values):
            raise UserError(f"axis {name} lists a value twice")
    for needed in ("method", "dataset"):
        if needed not in given:
            raise UserError(f"[axes] has no {needed}")
    for method in given["method"]:
        method_named(method)
    first = ("method", "dataset")
    return {name: given[name] for name in (*first, *(name for name in given if name not in first))}


def protocol_of(given: dict[str, Any]) -> Protocol:
    """What [protocol] of a file says, checked."""
    usual = Protocol()
    for name, value in given.items():
        if name not in Protocol.__dataclass_fields__:
            raise unknown("key of [protocol]", name, Protocol.__dataclass_fields__)
        kind = type(getattr(usual, name))
        if type(value) is not kind:
            raise UserError(f"{name} of [protocol] must be {'an integer' if kind is int else 'a string'}")
    protocol = replace(usual, **given)
    if protocol.splits < 1 or protocol.ensemble < 1 or protocol.first < 0 or protocol.seed < 0:
        raise UserError("in [protocol], splits and ensemble must be at least 1, first and seed at least 0")
    return _of_kind(protocol, protocol.split_kind)


def _of_kind(protocol: Protocol, kind: str) -> Protocol:
    if kind not in KINDS:
        raise unknown("kind of split", str(kind), KINDS)
    return replace(protocol, split_kind=kind)


def _cells(
    axes: dict[str, list[Any]], sets: Sets, protocol: Protocol, settings: dict[str, Any], published: dict[str, Any]
) -> list[Cell]:
    check_settings(settings, "settings")
    for name in settings:
        if name in axes:
            raise UserError(f"{name} appears in both [settings] and [axes]")
    cells = []
    for values in itertools.product(*axes.values()):
        at = dict(zip(axes, values, strict=True))
        method, dataset, family = at["method"], at["dataset"], family_in(sets, at["dataset"])
        given = settings | {name: value for name, value in at.items() if name in (*SETTINGS, "recipe")}
        recipe = recipe_of(given, family)
        unread = tuple(name for name in at if name in SETTINGS and not method_named(method).reads(name))
        if unread:
            usual = recipe_of({name: value for name, value in given.items() if name not in unread}, family)
            recipe = recipe_of(given | {name: _shared(axes[name], usual, name) for name in unread}, family)
        numbers = published.get(method, {}).get(dataset)
        cells.append(
            Cell(
                method,
                dataset,
                recipe,
                _of_kind(protocol, at.get("split_kind", protocol.split_kind)),
                at,
                None if numbers is None else (numbers[0], numbers[1]),
                unread=tuple(name for name in unread if len(axes[name]) > 1),
                **origin_of(sets, dataset),
            )
        )
    if len({cell.key for cell in cells}) < len({place_in_words(_read_part(cell)) for cell in cells}):
        raise UserError("two cells of [axes] are the same")
    return cells


def _shared(values: list[Any], usual: Recipe, name: str) -> Any:
    """The value on an axis that stands for all where none is read: the recipe's own if the axis has it, so that the
    result is shared with other studies, else the first."""
    own = getattr(usual, name)
    return next((value for value in values if value_of(name, value) == own), values[0])


def _read_part(cell: Cell) -> dict[str, Any]:
    """The place of a cell on the axes that make a difference to it."""
    return {axis: value for axis, value in cell.at.items() if axis not in cell.unread}


def check_settings(given: dict[str, Any], table: str) -> None:
    """An error unless a table of a file has a recipe's name and settings, and nothing else."""
    if not isinstance(given.get("recipe", ""), str):
        raise UserError(f"recipe of [{table}] must be a name")
    for name in given:
        if name != "recipe" and name not in SETTINGS:
            raise unknown(f"key of [{table}]", name, ("recipe", *SETTINGS))


def recipe_of(given: dict[str, Any], family: str) -> Recipe:
    """The recipe that a file names, for a family of data sets, with the settings that it changes."""
    changes = {name: value_of(name, value) for name, value in given.items() if name != "recipe"}
    return recipe_named(given.get("recipe", "paper"), family).but(**changes)


def _check_published(published: dict[str, Any], axes: dict[str, list[Any]]) -> None:
    if published and len(axes) > 2:
        raise UserError("[published] needs [axes] with method and dataset only")
    for method, numbers in published.items():
        if method not in axes["method"]:
            raise unknown("method in [published]", method, map(str, axes["method"]))
        if not isinstance(numbers, dict):
            raise UserError(f"[published.{method}] must be a table of data sets")
        for dataset, pair in numbers.items():
            if dataset not in axes["dataset"]:
                raise unknown(f"data set in [published.{method}]", dataset, axes["dataset"])
            sound = isinstance(pair, list) and len(pair) == 2 and all(isinstance(v, int | float) for v in pair)
            if not sound or not 0 <= pair[0] <= 100 or pair[1] < 0:
                raise UserError(f"[published.{method}] {dataset} must be [mean, ±] in percent")
