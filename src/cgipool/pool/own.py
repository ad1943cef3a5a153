"""Pools of the user's own, named as "package.module:Class"."""

import importlib
import inspect
import os
import sys
from functools import partial
from typing import Any

from torch import nn

from cgipool.errors import UserError
from cgipool.pool.method import Method
from cgipool.pool.pyg import PyGPool

OFFERED = {"dim", "ratio", "site", "levels", "sizes", "mi"}
"""What a builder can ask for."""


def is_own(name: str) -> bool:
    """Whether a method's name points at a class."""
    return ":" in name


def own_method(name: str) -> Method:
    """The class as a method. It is one of two kinds, told by the second argument of its `forward`: a pool of ours,
    (x, level) → Pooled, built from what it names of dim, ratio, site, levels, sizes and mi; or a layer of PyG's
    conventions, (x, edge_index, …), built from in_channels and ratio.

    The weight of its own losses is the class attribute `own_loss`, by default 1.
    """
    pool = _class_at(name)
    takes = list(inspect.signature(pool.forward).parameters)[2:3]
    about = (inspect.getdoc(pool) or "").split("\n")[0] if pool.__doc__ else ""
    own_loss = getattr(pool, "own_loss", 1.0)
    if takes == ["edge_index"]:
        _check_arguments(name, pool, {"in_channels", "ratio"})
        build: Any = partial(PyGPool, pool)
    elif takes:
        _check_arguments(name, pool, OFFERED)
        build = pool
    else:
        raise UserError(f"{name}: forward must take (x, level), or (x, edge_index, …) as PyG's layers do")
    return Method(pool.__name__, about, name, build, own_loss=own_loss, fast=takes != ["edge_index"])


def _check_arguments(name: str, pool: type, offered: set[str]) -> None:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for parameter in list(inspect.signature(pool.__init__).parameters.values())[1:]:  # type: ignore[misc]
        needed = parameter.kind in kinds and parameter.default is inspect.Parameter.empty
        if needed and parameter.name not in offered:
            raise UserError(
                f"{name} needs an argument {parameter.name!r}; give it a default, as only "
                f"{', '.join(sorted(offered))} are passed"
            )


def _class_at(name: str) -> type[nn.Module]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(_imported(module), attribute)
    except ImportError as error:
        raise UserError(f"method {name!r}: cannot import {module}: {error}") from None
    except AttributeError:
        raise UserError(f"method {name!r}: {module} has no {attribute}") from None
    if not (inspect.isclass(found) and issubclass(found, nn.Module)):
        raise UserError(f"method {name!r} is not a class of torch modules")
    return found


def _imported(module: str) -> Any:
    """The module; like `python -m`, a command also looks into the working folder."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if os.getcwd() in sys.path or error.name != module.partition(".")[0]:
            raise
        sys.path.insert(0, os.getcwd())
        importlib.invalidate_caches()
        return importlib.import_module(module)
