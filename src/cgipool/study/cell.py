"""Cells of a study: what determines a result, and the key that is its hash. For a method of the user's own this
includes its source: its module and all modules of the user's that it depends on."""

import ast
import hashlib
import importlib.util
import shlex
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.further import numbers
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import KINDS, Split, random_splits
from cgipool.errors import UserError, unknown
from cgipool.pool import BY_NEGATIVE, method_named
from cgipool.study.records import key_of, place_in_words
from cgipool.training.presets import keyed
from cgipool.training.recipe import Recipe

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = {"site-packages", "dist-packages"}
"""Folders that packages are installed in."""

DYNAMIC = ("import_module", "__import__")


def source_of(method: str) -> str | None:
    """Return a hash of the source files of a method of the user's own; None for ours (see `GENERATION`).

    The files are that of the class and, transitively, of every module that it imports anywhere in its text and that is
    neither in the standard library, nor installed in site-packages, nor in this package. A single file has the hash of
    its content. Names computed at run time and data files are not included.
    """
    name, colon, attribute = method.partition(":")
    if not colon:
        return None
    method_named(method)  # imports it, and raises if it is invalid
    files = _files_behind(name)
    for base in getattr(sys.modules[name], attribute).__mro__:  # the module may have imported it
        files |= _files_behind(base.__module__)
    root = _file_of(_spec(name))
    if root is not None:
        files[name] = root  # also one that is installed
    digests = {module: hashlib.sha256(file.read_bytes()).hexdigest() for module, file in files.items()}
    if len(digests) < 2:
        return next(iter(digests.values()), None)
    plain = "".join(f"{module} {digests[module]}\n" for module in sorted(digests))
    return hashlib.sha256(plain.encode()).hexdigest()


def _files_behind(name: str) -> dict[str, Path]:
    """Return the user's own files that a module depends on, itself included, by module name."""
    found: dict[str, Path] = {}
    waiting, seen = [name], set[str]()
    while waiting:
        module = waiting.pop()
        parents = module.split(".")
        waiting += [".".join(parents[:end]) for end in range(1, len(parents))]
        if module in seen or not _may_be_own(module):
            continue
        seen.add(module)
        spec = _spec(module)
        file = _file_of(spec)
        if spec is None or file is None or not _is_own(file):
            continue
        found[module] = file
        waiting += [other for other in _imports(file, spec) if other not in seen]
    return found


def _may_be_own(module: str) -> bool:
    """Whether a module can be the user's, judged by its top-level package, which needs no import."""
    first = module.partition(".")[0]
    if first in sys.stdlib_module_names or first in sys.builtin_module_names:
        return False
    spec = _spec(first)
    file = _file_of(spec)
    return spec is not None and (file is None or _is_own(file))  # a namespace package has no file of its own


def _spec(module: str) -> ModuleSpec | None:
    """Return the spec of a module, or None if it is not found. Looking into a package imports it, which may fail."""
    with suppress(Exception):
        return importlib.util.find_spec(module)
    file = getattr(sys.modules.get(module), "__file__", None)  # of a script, or one that was loaded by hand
    return None if file is None else importlib.util.spec_from_file_location(module, file)


def _file_of(spec: ModuleSpec | None) -> Path | None:
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    file = Path(spec.origin)
    return file if file.is_file() else None


def _is_own(file: Path) -> bool:
    place = file.resolve()
    library = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (
        not INSTALLED.intersection(place.parts) and library.isdisjoint(place.parents) and PACKAGE not in place.parents
    )


def _imports(file: Path, spec: ModuleSpec) -> Iterator[str]:
    """Yield the modules that a file imports. `from a import b` also yields a.b, which may be a module."""
    if file.suffix != ".py":
        return
    with suppress(SyntaxError, ValueError, RecursionError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = _absolute("." * node.level + (node.module or ""), spec)
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Call) and _name_of(node.func) in DYNAMIC and node.args:
                given = node.args[0]
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield _absolute(given.value, spec)


def _absolute(name: str, spec: ModuleSpec) -> str:
    """Return the full name of a module; a relative name begins with dots."""
    package = spec.name if spec.submodule_search_locations is not None else spec.parent
    with suppress(ImportError):
        return importlib.util.resolve_name(name, package)
    return ""


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@dataclass(frozen=True)
class Protocol:
    """How a data set is split, and how many times."""

    splits: int = 20
    """Number of random splits. Paper: 20."""
    first: int = 0
    """Number of the first split."""
    seed: int = 0
    """Seed of splits, weights and all random draws."""
    split_kind: str = "random"
    """"random", "stratified", "distinct", "time" or, for molecules, "scaffold" or "cluster". Paper: random."""
    ensemble: int = 1
    """Members of an ensemble in each split, whose predictions are averaged."""
    seeds: int = 1
    """Trainings in each split; the split's number is the mean of their metrics. They are trained as an ensemble of this
    size, so both readings share a cell."""
    select: str = "none"
    """"nested": each split chooses one of the study's choices by its own validation graphs. "none": no choices."""
    time: str = ""
    """The column with the times, for splits by time."""
    sample_weight: str = ""
    """The column with the weights of the graphs in the loss, if any."""

    @property
    def trainings(self) -> int:
        """Trainings in each split."""
        return max(self.ensemble, self.seeds)

    def of_method(self, method: str) -> "Protocol":
        """The protocol of a method's cells: a classical method is fitted once in each split."""
        return replace(self, ensemble=1, seeds=1) if method_named(method).classical else self

    def keyed(self) -> dict[str, Any]:
        """The part of the protocol that belongs to a cell's key. Seeds and choices affect how cells are read, not how
        they are trained."""
        return {
            "splits": self.splits,
            "first": self.first,
            "seed": self.seed,
            "split_kind": self.split_kind,
            "ensemble": self.trainings,
        } | {name: value for name, value in (("time", self.time), ("sample_weight", self.sample_weight)) if value}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a data set that the protocol names."""
        return tuple(name for name in (self.time, self.sample_weight) if name)

    def draw(self, graphs: GraphSet) -> list[Split]:
        """The splits of a data set."""
        indices = range(self.first, self.first + self.splits)
        return random_splits(graphs, seed=self.seed, indices=indices, kind=self.split_kind, time=self.time or None)

    def weights(self, graphs: GraphSet) -> NDArray[np.float64] | None:
        """[G] the weights of the graphs, if a column has them."""
        return numbers(graphs, self.sample_weight) if self.sample_weight else None


def protocol_of(given: dict[str, Any]) -> Protocol:
    """Read and check [protocol] of a file."""
    usual = Protocol()
    for name, value in given.items():
        if name not in Protocol.__dataclass_fields__:
            raise unknown("key of [protocol]", name, Protocol.__dataclass_fields__)
        kind = type(getattr(usual, name))
        if type(value) is not kind:
            raise UserError(f"{name} of [protocol] must be {'an integer' if kind is int else 'a string'}")
    return checked(replace(usual, **given))


def checked(protocol: Protocol) -> Protocol:
    """Return a valid protocol. Raise UserError otherwise."""
    if min(protocol.splits, protocol.ensemble, protocol.seeds) < 1 or min(protocol.first, protocol.seed) < 0:
        raise UserError("in [protocol], splits, ensemble and seeds must be at least 1, first and seed at least 0")
    if protocol.seeds > 1 and protocol.ensemble > 1:
        raise UserError(
            "seeds and ensemble cannot be combined: seeds = N trains what ensemble = N trains, and reads the mean of "
            "the metrics instead of the metric of the mean prediction"
        )
    if protocol.select not in ("none", "nested"):
        raise unknown("value of select", protocol.select, ("none", "nested"))
    if protocol.split_kind not in KINDS:
        raise unknown("kind of split", protocol.split_kind, KINDS)
    return protocol


def of_kind(protocol: Protocol, kind: str) -> Protocol:
    """The protocol with another kind of split. Raise UserError for an unknown kind. Only splits by time keep `time`."""
    if kind not in KINDS:
        raise unknown("kind of split", str(kind), KINDS)
    if kind == "time" and not protocol.time:
        raise UserError("splits by time need time in [protocol], the column with the times")
    return replace(protocol, split_kind=kind, time=protocol.time if kind == "time" else "")


@dataclass(frozen=True)
class Cell:
    """Everything that determines a result, and its place in the study."""

    method: str
    dataset: str
    """A name of the catalogue, or the name of the user's own set."""
    recipe: Recipe
    protocol: Protocol
    at: dict[str, Any] = field(default_factory=dict)
    """Its value on each axis of the study."""
    published: tuple[float, float | None] | None = None
    """The paper's mean and its ±, in percent."""
    path: Path | None = None
    """Path of the user's own data set."""
    content: str | None = None
    """The hash of such a data set, as its name alone does not identify it."""
    task: str = "classification"
    """The task of the data set."""
    choice: str | None = None
    """The name of its choice, in a study with nested selection."""
    unread: tuple[str, ...] = ()
    """Axes whose setting the method does not read. Cells that differ only in these share one result and one recipe."""

    @cached_property
    def config(self) -> dict[str, Any]:
        """Return what the key hashes, as plain values. Device and versions are left out, because the same settings
        give the same result up to rounding everywhere."""
        own = {} if self.content is None else {"content": self.content}
        source = source_of(self.method)
        own |= {} if source is None else {"source": source}
        own |= {} if self.task == "classification" else {"task": self.task}
        recipe = keyed(self.recipe) | {"alpha": self.recipe.alpha_on(self.dataset)}
        del recipe["alpha_proteins"]
        protocol = self.protocol.keyed()
        method = method_named(self.method)
        if method.classical:  # only what it reads: one result for all recipes. A record holds the metric of stop_by.
            read = {name for name in recipe if name == "stop_by" or (name != "name" and method.reads(name))}
            recipe = {name: value for name, value in recipe.items() if name in read}
        name = BY_NEGATIVE.get((self.method, self.recipe.negative), self.method)
        if name != self.method:
            del recipe["negative"]
        return {"method": name, "dataset": self.dataset, "recipe": recipe} | protocol | own

    @cached_property
    def key(self) -> str:
        """Return the name of the cell in a store: a hash of `config`."""
        return key_of(self.config)

    @property
    def name(self) -> str:
        """Return its place in the study in words."""
        return place_in_words(self.at if self.choice is None else self.at | {"choice": self.choice})

    def command(self, device: str) -> str:
        """Return the command that trains this cell alone."""
        protocol = self.protocol
        words = ["cgipool", "train", str(self.path or self.dataset), "--method", self.method]
        usual = Protocol(splits=1)
        words += ["--recipe", self.recipe.name, "--splits", str(protocol.splits), "--seed", str(protocol.seed)]
        for option in ("first", "split_kind", "ensemble", "time", "sample_weight"):
            value = protocol.keyed().get(option, "")
            if value != getattr(usual, option):
                words += [f"--{option.replace('_', '-')}", str(value)]
        for setting, value in self.recipe.settings().items():
            words += ["--set", f"{setting}={plain(value)}"]
        return shlex.join([*words, "--device", device.split(":")[0]])


def plain(value: Any) -> str:
    """Return a setting's value in the form that `--set` accepts."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
