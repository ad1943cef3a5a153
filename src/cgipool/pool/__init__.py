"""The pooling methods, one file each, and their registry.

Classes are imported lazily, because most questions about a method are answered by the registry, without torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from cgipool.pool.method import FORMS, Method
from cgipool.pool.registry import BY_NEGATIVE, METHODS, NETWORKS, is_own, method_named

if TYPE_CHECKING:
    from cgipool.pool.asap import ASAP
    from cgipool.pool.base import Pooled, Sizes
    from cgipool.pool.cgi import CGIPool, ReleasedCGIPool
    from cgipool.pool.controls import NoPool, OraclePool, RandomPool
    from cgipool.pool.dgcnn import DGCNN
    from cgipool.pool.diffpool import DiffPool
    from cgipool.pool.mincut import MinCutPool
    from cgipool.pool.sag import SAGPool
    from cgipool.pool.set2set import Set2Set
    from cgipool.pool.topk import TopKPool
    from cgipool.pool.vip import VIPool

__all__ = [
    "ASAP",
    "BY_NEGATIVE",
    "DGCNN",
    "FORMS",
    "METHODS",
    "NETWORKS",
    "CGIPool",
    "DiffPool",
    "Method",
    "MinCutPool",
    "NoPool",
    "OraclePool",
    "Pooled",
    "RandomPool",
    "ReleasedCGIPool",
    "SAGPool",
    "Set2Set",
    "Sizes",
    "TopKPool",
    "VIPool",
    "is_own",
    "method_named",
]

_MODULES = {
    "asap": ("ASAP",),
    "base": ("Pooled", "Sizes"),
    "cgi": ("CGIPool", "ReleasedCGIPool"),
    "controls": ("NoPool", "OraclePool", "RandomPool"),
    "dgcnn": ("DGCNN",),
    "diffpool": ("DiffPool",),
    "mincut": ("MinCutPool",),
    "sag": ("SAGPool",),
    "set2set": ("Set2Set",),
    "topk": ("TopKPool",),
    "vip": ("VIPool",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"cgipool.pool.{module}"), name)
    raise AttributeError(f"module 'cgipool.pool' has no attribute {name!r}")
