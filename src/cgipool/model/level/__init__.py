"""A level of the hierarchy: which nodes are alive, and how features travel among them.

Shapes: C positions, B graphs, F features, M columns. There are two ways from a level to the next, with the same
numbers. With static shapes a dropped node keeps its position and is no longer alive: with D^-½ = 0 there, the
normalised adjacency of the coarsened graph is the same formula as that of the whole graph, and every shape is known
before the step runs, as `vmap` and captured steps need; where it is known how many nodes the next level has at most,
the kept ones move together into so many positions. A compact level drops positions for good: on a CPU, fewer rows
are less work. Features at dead positions are never read.
"""

from cgipool.errors import check_ratio
from cgipool.model.level.base import (
    GATES,
    LEAST_MEAN,
    Level,
    Nodes,
    Origin,
    cells_of,
    decimal,
    kept_of,
)
from cgipool.model.level.sparse import Edges, SparseLevel, TiledLevel, WeightedLevel

__all__ = [
    "GATES",
    "LEAST_MEAN",
    "Edges",
    "Level",
    "Nodes",
    "Origin",
    "SparseLevel",
    "TiledLevel",
    "WeightedLevel",
    "cells_of",
    "check_ratio",
    "decimal",
    "kept_of",
]
