"""CGIPool: learning from whole graphs with learned pooling."""

from typing import TYPE_CHECKING, Any

from cgipool.version import __version__

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet
    from cgipool.data.sources import load_dataset
    from cgipool.inference.estimator import GraphClassifier
    from cgipool.inference.regressor import GraphRegressor
    from cgipool.inference.released import load_released
    from cgipool.training.recipe import Recipe
    from cgipool.training.run import train

__all__ = [
    "GraphClassifier",
    "GraphRegressor",
    "GraphSet",
    "Recipe",
    "__version__",
    "load_dataset",
    "load_released",
    "train",
]

_HOMES = {
    "GraphClassifier": "cgipool.inference.estimator",
    "GraphRegressor": "cgipool.inference.regressor",
    "GraphSet": "cgipool.data.graphs",
    "load_dataset": "cgipool.data.sources",
    "load_released": "cgipool.inference.released",
    "Recipe": "cgipool.training.recipe",
    "train": "cgipool.training.run",
}


def __getattr__(name: str) -> Any:
    """Import public names on first access, so that `cgipool --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cgipool' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names too, so that completion and `dir` show them before they are imported."""
    return sorted({*globals(), *__all__})
