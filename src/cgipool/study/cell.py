"""The source of a method of the user's own: its module and all modules of the user's that it depends on."""

import ast
import hashlib
import importlib.util
import shlex
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from cgipool.pool import method_named
from cgipool.study import fingerprints
from cgipool.study.records import key_of, place_in_words
from cgipool.training.recipe import Recipe

PACKAGE = Path(__file__).resolve().parents[1]
INSTALLED = {"site-packages", "dist-packages"}
"""Folders that packages are installed in."""

DYNAMIC = ("import_module", "__import__")


def source_of(method: str) -> str | None:
    """A hash of the files that a method of the user's own is written in; None for ours (see `GENERATION`).

    These are the file of the class and, transitively, every module that it imports, anywhere in its text, and that is
    the user's: neither of the standard library, nor installed in site-packages, nor of this package. One file alone has
    the hash of its content. What cannot be read from the text (a name computed at run time, a data file) is not seen.
    """
    name, colon, attribute = method.partition(":")
    if not colon:
        return None
    method_named(method)  # imports it; what is wrong with it is told here
    files = _files_behind(name)
    for base in getattr(sys.modules[name], attribute).__mro__:  # the module may have it from elsewhere, by any way
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
    """By module, the files of the user's own that a module is made of, itself among them."""
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
    """Whether a module can be the user's, judged by its first package, for which nothing has to be imported."""
    first = module.partition(".")[0]
    if first in sys.stdlib_module_names or first in sys.builtin_module_names:
        return False
    spec = _spec(first)
    file = _file_of(spec)
    return spec is not None and (file is None or _is_own(file))  # a namespace package has no file of its own


def _spec(module: str) -> ModuleSpec | None:
    """Where a module is; None where there is none. To look into a package is to import it, and that may fail."""
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
    """The modules that a file names in its imports. Of `from a import b` also a.b, which may be a module."""
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
    """The full name of a module, of which a relative one begins with dots."""
    package = spec.name if spec.submodule_search_locations is not None else spec.parent
    with suppress(ImportError):
        return importlib.util.resolve_name(name, package)
    return ""


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@dataclass(frozen=True)
class Protocol:
    """How often and how a data set is divided."""

    splits: int = 20
    """How many random splits. Paper: 20."""
    first: int = 0
    """The number of the first of them."""
    seed: int = 0
    """Of splits, weights and all draws."""
    split_kind: str = "random"
    """"random", "stratified", "distinct" or, for molecules, "scaffold". Paper: random."""
    ensemble: int = 1
    """Members of an ensemble in each split, whose probabilities are averaged."""


@dataclass(frozen=True)
class Cell:
    """All that determines a result, and where it stands in its study."""

    method: str
    dataset: str
    """A name of the catalogue, or what a set of the user's own is called."""
    recipe: Recipe
    protocol: Protocol
    at: dict[str, Any] = field(default_factory=dict)
    """Its value on each axis of the study."""
    published: tuple[float, float | None] | None = None
    """The paper's mean and its ±, in percent."""
    path: Path | None = None
    """Where a data set of the user's own lies."""
    content: str | None = None
    """The hash of such a data set: its name alone says little."""
    unread: tuple[str, ...] = ()
    """Axes whose setting the method does not read. Along them all cells are one result, so they share their recipe."""

    @cached_property
    def config(self) -> dict[str, Any]:
        """Plain values: what the key is a hash of. Neither device nor versions belong to it: the same settings give
        the same result up to rounding wherever they are run."""
        own = {} if self.content is None else {"content": self.content}
        source = source_of(self.method)
        own |= {} if source is None else {"source": source}
        protocol = {name: getattr(self.protocol, name) for name in Protocol.__dataclass_fields__}
        recipe = self.recipe.keyed() | {"alpha": self.recipe.alpha_on(self.dataset)}
        del recipe["alpha_proteins"]
        return {"method": self.method, "dataset": self.dataset, "recipe": recipe} | protocol | own

    @cached_property
    def key(self) -> str:
        """Its name in a store."""
        return key_of(self.config)

    @property
    def name(self) -> str:
        """Its place in words."""
        return place_in_words(self.at)

    def command(self, device: str) -> str:
        """The command that trains just this; the control by fingerprints is trained by comparisons alone."""
        protocol = self.protocol
        how, option = ("compare", "--methods") if self.method == fingerprints.NAME else ("train", "--method")
        words = ["cgipool", how, str(self.path or self.dataset), option, self.method]
        usual = Protocol(splits=1)
        words += ["--recipe", self.recipe.name, "--splits", str(protocol.splits), "--seed", str(protocol.seed)]
        for option in ("first", "split_kind", "ensemble"):
            if getattr(protocol, option) != getattr(usual, option):
                words += [f"--{option.replace('_', '-')}", str(getattr(protocol, option))]
        for setting, value in self.recipe.settings().items():
            words += ["--set", f"{setting}={plain(value)}"]
        return shlex.join([*words, "--device", device.split(":")[0]])


def plain(value: Any) -> str:
    """A setting's value as `--set` takes it."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
