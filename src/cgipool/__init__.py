"""CGIPool: graph classification with learned pooling."""

from typing import TYPE_CHECKING, Any

from cgipool.version import __version__

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet
    from cgipool.data.sources import load_dataset
    from cgipool.inference.estimator import GraphClassifier
    from cgipool.inference.released import load_released
    from cgipool.training.recipe import Recipe
    from cgipool.training.run import train

__all__ = ["GraphClassifier", "GraphSet", "Recipe", "__version__", "load_dataset", "load_released", "train"]

_HOMES = {
    "GraphClassifier": "cgipool.inference.estimator",
    "GraphSet": "cgipool.data.graphs",
    "load_dataset": "cgipool.data.sources",
    "load_released": "cgipool.inference.released",
    "Recipe": "cgipool.training.recipe",
    "train": "cgipool.training.run",
}


def __getattr__(name: str) -> Any:
    """Public names are imported when first asked for, so that `cgipool --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cgipool' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names as well, so that completion and `dir` show them before they are imported."""
    return sorted({*globals(), *__all__})
