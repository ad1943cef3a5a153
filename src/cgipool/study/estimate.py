"""How long cells will take: a model at first, corrected by what the store has measured. No torch.

An epoch takes a time for each of its steps and one for each node, by a factor of the method and one of the convolution
(with the norm that goes along with it); batch size and epochs say how many steps there are.

On a GPU the numbers are fitted to the 392 cells of results/, all on one H200 and most of them several at a time: 87 %
took between half and twice what the model says, 65 % were within a factor of 1.5. With the cells of each data set
predicted by a fit to the others it is 82 % and 57 %. On a CPU the factors of methods are those of
docs/explanation/performance.md, and those of convolutions come from one measurement.
"""

import math
import statistics
from typing import TYPE_CHECKING

from cgipool.data.catalogue import CATALOGUE
from cgipool.pool.method import Method
from cgipool.pool.registry import METHODS
from cgipool.study.store import Store

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.training.recipe import Recipe

CONVOLUTIONS, GPU_CONVOLUTIONS = {"gin": 1.6, "sage": 1.15}, {"gin": 2.1, "sage": 1.6}
"""Cost of an epoch, relative to the GCN convolution."""

CPU_NODE, GPU_NODE, GPU_STEP, START = 6e-6, 2.1e-7, 3.0e-3, 0.3
"""Seconds: of a node in an epoch of one split, on a CPU and on a GPU that trains all splits at once; of a step on a
GPU; and of starting a cell."""

BEFORE_BEST = 120
"""Typical number of the best epoch."""


def trainings_of(cell: "Cell") -> int:
    """The number of trainings of a cell: one for each member of each split."""
    return cell.protocol.splits * cell.protocol.trainings


def predicted(cell: "Cell", device: str) -> float:
    """Seconds according to the model, without measurements."""
    entry, recipe = CATALOGUE.get(cell.dataset), cell.recipe
    graphs, nodes = (entry.graphs, entry.nodes) if entry else (1000, 30.0)
    if not device.startswith("cuda"):
        return on_a_cpu(cell.method, recipe, trainings_of(cell), graphs * nodes)
    steps = math.ceil(0.8 * graphs / recipe.batch_size)
    work = GPU_STEP * steps + GPU_NODE * trainings_of(cell) * 0.8 * graphs * nodes * recipe.width / 128
    factor = _method(cell.method).gpu_cost * GPU_CONVOLUTIONS.get(recipe.conv, 1.0)
    return START + _epochs(recipe) * factor * work


def on_a_cpu(method: str, recipe: "Recipe", trainings: int, nodes: float) -> float:
    """Seconds of `trainings` trainings, one after another, on a set with `nodes` nodes."""
    work = CPU_NODE * trainings * 0.8 * nodes * max(recipe.width / 128, 0.2)
    factor = _method(method).cost * CONVOLUTIONS.get(recipe.conv, 1.0)
    return START + _epochs(recipe) * factor * work


def _method(name: str) -> Method:
    """A method of the registry. A pool of the user's own is not imported for an estimate; it counts as CGIPool."""
    return METHODS.get(name, METHODS["cgi"])


def _epochs(recipe: "Recipe") -> int:
    return min(recipe.epochs, BEFORE_BEST + recipe.patience)


class Estimate:
    """The model, scaled by the times of the finished cells in this store."""

    def __init__(self, store: Store | None, cells: list["Cell"], device: str, jobs: int = 1) -> None:
        self.device, self.jobs = device, jobs
        kind = device.split(":")[0]
        measured = [(store.seconds(c.key, kind), predicted(c, device)) for c in cells] if store else []
        ratios = [seconds / model for seconds, model in measured if seconds is not None]
        self.factor = statistics.median(ratios) if ratios else 1.0
        self.measured = len(ratios)

    def __call__(self, cell: "Cell") -> float:
        """The estimated seconds of a cell."""
        return self.factor * predicted(cell, self.device) / min(self.jobs, trainings_of(cell))


def in_words(seconds: float) -> str:
    """A duration: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
