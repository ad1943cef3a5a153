"""A study file: which cells, which settings, and the published numbers beside them.

name, title, about, source     what it is, and where the published numbers are from
baseline                       the method that the others are compared with
curves                         the axis to draw curves over; without it the study is a table
[protocol]                     splits, first, seed, split_kind, ensemble, seeds, select, time, sample_weight
[settings]                     recipe, and any of its settings to change for all cells
[axes]                         method, dataset, and any setting that varies; cells are all combinations
[data]                         NAME = "path", from the file's folder: data sets of the user's own
[published.METHOD]             DATASET = [mean, ±], shares in percent
metric, margin, [contrasts], [ceiling], [[choices]]    see analysis.py
"""

import functools
import itertools
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cgipool.errors import UserError, excerpt, unknown
from cgipool.files import names_a_file, parsing, read_regular
from cgipool.pool import METHODS, method_named
from cgipool.study import analysis
from cgipool.study.analysis import Analysis
from cgipool.study.cell import Cell, Protocol, of_kind, protocol_of
from cgipool.study.nested import BEST, BEST_TITLE, entry_of
from cgipool.study.records import place_in_words
from cgipool.study.sets import Sets, edges_in, family_in, origin_of, own_sets
from cgipool.task.metrics import KNOWN, primary_of
from cgipool.training.presets import recipe_named, value_of
from cgipool.training.reading import check_edges
from cgipool.training.recipe import SETTINGS, Recipe

TEXTS = ("name", "title", "about", "source", "baseline", "curves")
TABLES = ("protocol", "settings", "axes", "data", "published", *analysis.TABLES)
OTHERS = (*analysis.VALUES, "choices")
DEEPEST = 10
"""Maximum nesting of tables and lists in a file."""

AXES = ("method", "dataset", "recipe", "split_kind", *SETTINGS)

Made = TypeVar("Made")


@dataclass(frozen=True)
class Study:
    """Cells in the order of running and display."""

    name: str
    title: str
    about: str
    source: str
    baseline: str | None
    curves: str | None
    axes: dict[str, list[Any]]
    cells: list[Cell]
    skipped: tuple[str, ...] = ()
    """The user's own data sets that were not selected: they were not read, and `cells` has none of their cells."""
    analysis: Analysis = field(default_factory=Analysis)

    def to_json(self) -> dict[str, Any]:
        """The content stored for a study."""
        known = {name: method.title for name, method in METHODS.items()} | {BEST: BEST_TITLE}
        if {*self.axes["dataset"]} <= self.analysis.tasks.keys():
            known |= {name: "No graph" for name, method in METHODS.items() if method.architecture == "constant"}
        titles = {value: known[value] for value in self.axes["method"] if value in known}
        texts = {name: getattr(self, name) for name in TEXTS}
        content = texts | {"axes": self.axes, "titles": {"method": titles}, "cells": self._cells_json(titles)}
        how = self.analysis.to_json()
        return content | ({"analysis": how} if how else {})

    def _cells_json(self, titles: Mapping[str, str]) -> list[dict[str, Any]]:
        """The cells; cells at the same place are the choices of one, and those of all methods the choices of `BEST`."""
        places: dict[str, list[Cell]] = {}
        for cell in self.cells:
            places.setdefault(repr(cell.at), []).append(cell)
        content, best = [], dict[str, tuple[dict[str, Any], list[tuple[str, str]]]]()
        for cells in places.values():
            first = cells[0]
            value: dict[str, Any] = {"key": first.key, "at": first.at}
            value["published"] = first.published and list(first.published)
            value |= {"unread": list(first.unread)} if first.unread else {}
            if first.choice is not None:
                value |= entry_of([(str(cell.choice), cell.key) for cell in cells])
            content.append(value)
            at, title = first.at | {"method": BEST}, titles.get(first.method, first.method)
            alone = [("", value["key"])]
            choices = [(f"{title}: {name}" if name else title, key) for name, key in value.get("choices", alone)]
            best.setdefault(repr(at), (at, []))[1].extend(choices)
        if BEST in self.axes["method"]:
            content += [{"at": at, "published": None} | entry_of(choices) for at, choices in best.values()]
        return content

    def only(self, wanted: dict[str, list[str]]) -> list[Cell]:
        """The cells whose values on these axes are among those named; of several with one result, the first."""
        _check_wanted(wanted, self.axes)
        chosen = [c for c in self.cells if all(str(c.at[axis]) in values for axis, values in wanted.items())]
        return list({c.key: c for c in reversed(chosen)}.values())[::-1]


def read_study(path: Path, only: Mapping[str, Sequence[str]] | None = None) -> Study:
    """Read a study from a file. Meaningless entries are errors. `only` selects values by axis, as in `Study.only`: of
    the user's own data sets, only the selected ones are read."""
    return read_toml(path, functools.partial(study_of, folder=path.parent, only=only))


def read_toml(path: Path, make: Callable[[dict[str, Any], str], Made]) -> Made:
    """Apply a function to the values of a file and its name without the ending; an error names the file."""
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
    """Raise UserError for content that no study has and that would fail later: deep nesting and integers beyond 64
    bits."""
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
    """Build a study from plain values; paths are relative to a folder. For `only` see `read_study`."""
    if "space" in given:
        raise UserError("this is a search file: run it with `cgipool study search`")
    check_keys(given, TEXTS, TABLES, OTHERS)
    axes = _axes(given.get("axes", {}))
    _check_wanted(only or {}, axes)
    needed = (only or {}).get("dataset", axes["dataset"])
    protocol = protocol_of(given.get("protocol", {}))
    sets = own_sets(given.get("data", {}), folder, axes["dataset"], needed, protocol.columns)
    skipped = tuple(name for name in axes["dataset"] if name in given.get("data", {}) and name not in sets)
    methods = [name for name in axes["method"] if name != BEST]
    if methods != axes["method"] and (not methods or protocol.select != "nested"):
        raise UserError(f'the method {BEST} needs other methods, and select = "nested" in [protocol]')
    read = axes | {"method": methods, "dataset": [name for name in axes["dataset"] if name not in skipped]}
    trivial = [name for name in methods if method_named(name).architecture in ("sum", "constant")]
    tasks = {name: own.task for name, own in sets.items() if own.task != "classification"}
    how = analysis.analysis_of(given, axes, seeds=protocol.seeds, trivial=trivial, tasks=tasks)
    _check_published(given.get("published", {}), axes, how)
    choices = _choices(given.get("choices"), protocol, given.get("settings", {}), axes)
    cells = [
        cell
        for name, changes in choices.items()
        for cell in _cells(read, sets, protocol, given.get("settings", {}) | changes, given.get("published", {}), name)
    ]
    networks = [cell for cell in cells if not method_named(cell.method).classical]
    if len({(repr(cell.at), cell.key) for cell in networks}) < len(networks):
        raise UserError("two of [[choices]] are the same settings")
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
    return Study(*texts, baseline, curves, axes, cells, skipped, how)


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
    """Return the name. Raise UserError if it cannot be a file name."""
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
        if method != BEST:
            method_named(method)
    first = ("method", "dataset")
    return {name: given[name] for name in (*first, *(name for name in given if name not in first))}


def _choices(
    given: Any, protocol: Protocol, settings: dict[str, Any], axes: dict[str, list[Any]]
) -> dict[str | None, dict[str, Any]]:
    """The changes of each of [[choices]], by name; without nested selection, one unnamed choice without changes."""
    if (protocol.select == "nested") != (given is not None):
        raise UserError('[[choices]] and select = "nested" in [protocol] need each other')
    if given is None:
        return {None: {}}
    if not isinstance(given, list) or len(given) < 2 or not all(isinstance(one, dict) for one in given):
        raise UserError("[[choices]] must be at least two tables of settings")
    found: dict[str | None, dict[str, Any]] = {}
    for one in given:
        changes = {name: value for name, value in one.items() if name != "name"}
        check_settings(changes, "choices")
        for name in changes:
            if name in axes:
                raise UserError(f"{name} appears in both [[choices]] and [axes]")
        words = place_in_words(changes) or "as in [settings]"
        name = one.get("name", words)
        if not isinstance(name, str) or name in found:
            raise UserError(f"[[choices]] needs a different name, a string, for each of its tables: {name!r}")
        found[name] = changes
    return found


def _cells(
    axes: dict[str, list[Any]],
    sets: Sets,
    protocol: Protocol,
    settings: dict[str, Any],
    published: dict[str, Any],
    choice: str | None,
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
        check_edges([method], recipe, edges_in(sets, dataset))
        numbers = published.get(method, {}).get(dataset)
        drawn = of_kind(protocol, at.get("split_kind", protocol.split_kind))
        cells.append(
            Cell(
                method,
                dataset,
                recipe,
                drawn.of_method(method),
                at,
                None if numbers is None else (numbers[0], numbers[1]),
                unread=tuple(name for name in unread if len(axes[name]) > 1),
                choice=choice,
                **origin_of(sets, dataset, recipe, drawn.columns),
            )
        )
    if len({cell.key for cell in cells}) < len({place_in_words(_read_part(cell)) for cell in cells}):
        raise UserError("two cells of [axes] are the same")
    return cells


def _shared(values: list[Any], usual: Recipe, name: str) -> Any:
    """The value that represents an axis whose setting is not read: the recipe's own if the axis has it, so that the
    result is shared with other studies, otherwise the first."""
    own = getattr(usual, name)
    return next((value for value in values if value_of(name, value) == own), values[0])


def _read_part(cell: Cell) -> dict[str, Any]:
    """The position of a cell on the axes that affect it."""
    return {axis: value for axis, value in cell.at.items() if axis not in cell.unread}


def check_settings(given: dict[str, Any], table: str) -> None:
    """Raise UserError unless a table of a file has only a recipe's name and settings."""
    if not isinstance(given.get("recipe", ""), str):
        raise UserError(f"recipe of [{table}] must be a name")
    for name in given:
        if name != "recipe" and name not in SETTINGS:
            raise unknown(f"key of [{table}]", name, ("recipe", *SETTINGS))


def recipe_of(given: dict[str, Any], family: str) -> Recipe:
    """The recipe that a file names, for a family of data sets, with the file's changes."""
    changes = {name: value_of(name, value) for name, value in given.items() if name != "recipe"}
    return recipe_named(given.get("recipe", "paper"), family).but(**changes)


def _check_published(published: dict[str, Any], axes: dict[str, list[Any]], how: Analysis) -> None:
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
            percent = KNOWN[primary_of(how.tasks.get(dataset, "classification"))].percent
            if not sound or pair[1] < 0 or (percent and not 0 <= pair[0] <= 100):
                raise UserError(
                    f"[published.{method}] {dataset} must be [mean, ±]" + (" in percent" if percent else "")
                )
