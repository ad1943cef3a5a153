"""Users' own pooling classes, named "package.module:Class", and where in their code an exception was raised."""

import importlib
import inspect
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from cgipool.errors import UserError
from cgipool.pool.method import Method
from cgipool.pool.pyg import PyGPool

PACKAGE = Path(__file__).parents[1]
RULES = PACKAGE / "contract"

CALLERS = (PACKAGE / "model" / "network.py", PACKAGE / "pool")
"""Our modules that build and call users' pools."""


class OwnCodeError(Exception):
    """An exception in a user's own pool, raised in another process; the message is its traceback (`own_traceback`)."""


def one_line(error: BaseException) -> str:
    """Return an exception as one line, with its place in the user's code or ours."""
    message = " ".join(str(error).split())
    if len(message) > 160:
        message = f"{message[:157]}..."
    return f"{type(error).__name__}{': ' if message else ''}{message} ({place_of(error)})"


def place_of(error: BaseException) -> str:
    """Return FILE:LINE of the innermost call in the traceback that is in a user's code, else in PyG's, else in ours."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename[:1] != "<"]
    at = max(enumerate(frames), key=lambda numbered: (_nearness(Path(numbered[1].filename)), numbered[0]))[1]
    return f"{_shown(at.filename)}:{at.lineno}"


def own_traceback(error: BaseException) -> str | None:
    """Return the traceback of an exception in a user's pool: the calls in the user's code (or PyG's) and the exception.
    None for other exceptions and for out-of-memory errors."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    paths = [Path(frame.filename) for frame in frames]
    called = [n for n, path in enumerate(paths) if any(map(path.is_relative_to, CALLERS))]
    theirs = [n for n in range(called[0] + 1 if called else len(frames), len(frames)) if _nearness(paths[n]) >= 2]
    if not theirs:
        return None
    shown = [
        traceback.FrameSummary(_shown(f.filename), f.lineno, f.name, line=f.line)
        for f in map(frames.__getitem__, theirs)
    ]
    lines = [*traceback.StackSummary.from_list(shown).format(), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip()


def _shown(filename: str) -> str:
    """Return a path as shown to users: relative to the working folder if it is inside."""
    path = Path(filename)
    return str(path.relative_to(os.getcwd()) if path.is_relative_to(os.getcwd()) else path)


def _nearness(path: Path) -> int:
    """Rank a file by how close it is to a pool: 3 for a user's code, 2 for PyG's, 1 for ours, 0 for everything
    below."""
    libraries = Path(torch.__file__).parents[1]
    if path.is_relative_to(libraries / "torch_geometric"):
        return 2
    if path.is_relative_to(PACKAGE):
        return 0 if path.is_relative_to(RULES) else 1
    ground = [libraries / name for name in ("torch", "numpy", "safetensors")]
    standard = path.is_relative_to(Path(os.__file__).parent) and "site-packages" not in path.parts
    return 0 if standard or str(path)[:1] == "<" or any(map(path.is_relative_to, ground)) else 3


OFFERED = ("dim", "ratio", "site", "levels", "sizes", "mi")
"""Arguments that are passed to a pool with our interface, if it has them."""

OFFERED_TO_PYG = ("in_channels", "ratio")
"""Arguments that are passed to a layer with PyG's interface, if it has them."""


def own_method(name: str) -> Method:
    """Return a user's class as a method. The second argument of its `forward` decides between two kinds: a pool with
    our interface, (x, level) → Pooled, with any of the arguments dim, ratio, site, levels, sizes and mi; or a layer
    with PyG's interface, (x, edge_index, …), with any of in_channels and ratio.

    The class attribute `own_loss` is the weight of its losses: a number or a function of the epoch. Default: 1.
    """
    pool = _class_at(name)
    takes = [p for p in inspect.signature(pool.forward).parameters.values() if p.kind in _BY_PLACE][1:]
    if len(takes) < 2 or _is_foreign(takes[1]):
        given = ", ".join(p.name for p in takes)
        raise UserError(
            f"{name}: forward must take (x, level), or (x, edge_index, …) as PyG's layers do, not ({given}); "
            "a layer of another library needs a subclass whose forward does"
        )
    of_pyg = takes[1].name == "edge_index"
    _check_arguments(name, pool, OFFERED_TO_PYG if of_pyg else OFFERED)
    build: Any = partial(PyGPool, pool) if of_pyg else pool
    about = (pool.__doc__ or "").strip().split("\n")[0]
    # PyGPool has the argument ratio even if the layer does not, and PyG's layers have their own gates.
    ignores = ("gate",) if "ratio" in inspect.signature(pool).parameters else ("gate", "ratio")
    ignored = ignores if of_pyg else ()
    kind: Any = {"own_loss": _own_loss(name, pool), "fast": not of_pyg, "new_edges": of_pyg, "ignores": ignored}
    return Method(pool.__name__, about, name, build, **kind)


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


_FOREIGN = ("adj", "adj_t", "adjacency", "edge_attr", "edge_weight", "batch", "data", "mask")
"""Names of the second argument of forward in other libraries, such as tgp."""


def _is_foreign(second: inspect.Parameter) -> bool:
    """Whether a second argument of forward is neither a level nor an edge_index."""
    kind = getattr(second.annotation, "__name__", str(second.annotation))
    if second.name == "edge_index" or kind.rpartition(".")[2].endswith("Level"):
        return False
    return second.name in _FOREIGN or kind.rpartition(".")[2] == "Tensor"


def _own_loss(name: str, pool: type) -> Any:
    weight = getattr(pool, "own_loss", 1.0)
    if callable(weight) or (isinstance(weight, int | float) and not isinstance(weight, bool)):
        return weight
    raise UserError(f"{name}: own_loss must be a number or a function of the epoch, not {weight!r}")


def _check_arguments(name: str, pool: type, offered: tuple[str, ...]) -> None:
    for parameter in inspect.signature(pool).parameters.values():
        needed = parameter.kind in _BY_NAME and parameter.default is inspect.Parameter.empty
        if needed and parameter.name not in offered:
            raise UserError(
                f"{name} needs an argument {parameter.name!r}, but only {', '.join(offered)} are passed; give it a "
                "default, or name a subclass that sets it"
            )


def _class_at(name: str) -> type[nn.Module]:
    module, _, attribute = name.partition(":")
    if not (attribute and all(map(str.isidentifier, module.split(".")))):
        raise UserError(f"method {name!r}: name your own class as package.module:Class")
    try:
        found = getattr(_imported(module), attribute)
    except ImportError as error:
        raise UserError(f"method {name!r}: cannot import {module}: {error}") from None
    except AttributeError as error:
        if getattr(error, "name", None) != attribute:  # raised by the module itself
            raise UserError(f"method {name!r}: cannot import {module}: {error!r}") from error
        raise UserError(f"method {name!r}: {module} has no {attribute}") from None
    except Exception as error:
        raise UserError(f"method {name!r}: cannot import {module}: {error!r}") from error
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise UserError(f"method {name!r} is not a class of torch modules")
    return found


def _imported(module: str) -> ModuleType:
    """Import the module. Like `python -m`, a command also looks in the working folder, which stays on the path for
    worker processes."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if os.getcwd() in sys.path or not f"{module}.".startswith(f"{missing}."):  # an import inside the module failed
            raise
        sys.path.insert(0, os.getcwd())
        importlib.invalidate_caches()
        return importlib.import_module(module)
