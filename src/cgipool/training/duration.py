"""A model of how long trainings take. No torch.

The time of an epoch is a constant for each step plus a constant for each node, times a factor of the method and one of
the convolution (with its norm). Batch size and epochs give the number of steps.

For a GPU the constants are fitted to the 392 cells of results/, all on one H200, most of them several at a time: 87 %
of the cells took between half and twice the estimate, 65 % were within a factor of 1.5. If each data set is predicted
by a fit to the others, it is 82 % and 57 %. For a CPU the factors of methods are those of
docs/explanation/performance.md, and those of convolutions come from one measurement.
"""

import math

from cgipool.pool.method import Method
from cgipool.pool.registry import METHODS
from cgipool.training.recipe import Recipe

CONVOLUTIONS, GPU_CONVOLUTIONS = {"gin": 1.6, "sage": 1.15}, {"gin": 2.1, "sage": 1.6}
"""Cost of an epoch, relative to the GCN convolution."""

CPU_NODE, GPU_NODE, GPU_STEP, START = 6e-6, 2.1e-7, 3.0e-3, 0.3
"""Seconds: of a node in an epoch of one split, on a CPU and on a GPU that trains all splits at once; of a step on a
GPU; and of starting a cell."""

BEFORE_BEST = 120
"""Typical number of the best epoch."""


def cpu_seconds(method: str, recipe: Recipe, trainings: int, nodes: float) -> float:
    """Seconds of `trainings` trainings, one after another, on a set with `nodes` nodes."""
    work = CPU_NODE * trainings * 0.8 * nodes * max(recipe.width / 128, 0.2)
    factor = _method(method).cost * CONVOLUTIONS.get(recipe.conv, 1.0)
    return START + _epochs(recipe) * factor * work


def gpu_seconds(method: str, recipe: Recipe, trainings: int, graphs: int, nodes: float) -> float:
    """Seconds of `trainings` trainings at once, on a set with `graphs` graphs and `nodes` nodes."""
    steps = math.ceil(0.8 * graphs / recipe.batch_size)
    work = GPU_STEP * steps + GPU_NODE * trainings * 0.8 * nodes * recipe.width / 128
    factor = _method(method).gpu_cost * GPU_CONVOLUTIONS.get(recipe.conv, 1.0)
    return START + _epochs(recipe) * factor * work


def _method(name: str) -> Method:
    """A method of the registry. A pool of the user's own is not imported for an estimate; it counts as CGIPool."""
    return METHODS.get(name, METHODS["cgi"])


def _epochs(recipe: Recipe) -> int:
    return min(recipe.epochs, BEFORE_BEST + recipe.patience)
