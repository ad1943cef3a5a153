"""How long cells will take: a rough model at first, corrected by what the store has measured. No torch.

An epoch's cost grows with its nodes; methods differ by a factor. The numbers are medians of our own measurements
(docs/performance.md), to early stopping with 20 splits; they are right to a factor of two, which is what a plan needs.
"""

import math
import statistics
from typing import TYPE_CHECKING

from cgipool.data.catalogue import CATALOGUE
from cgipool.study.store import Store

if TYPE_CHECKING:
    from cgipool.study.cell import Cell
    from cgipool.training.recipe import Recipe

FACTORS = {
    "topk": 0.7, "sag": 0.7, "random": 0.7, "none": 0.6, "dgcnn": 0.8, "set2set": 1.6, "vip": 3.0, "asap": 5.0,
    "diffpool": 2.5, "mincut": 2.0, "structure-free": 0.3, "majority": 0.001,
}  # fmt: skip
"""Cost of an epoch beside CGIPool's."""

CPU_NODE, GPU_NODE, GPU_STEP, GPU_START = 6e-6, 3.5e-8, 1.5e-3, 8.0
"""Seconds: on a CPU of a node in an epoch of one split; on a GPU of a node in an epoch of one of many splits, of a step
at least, and of starting a cell."""

BEFORE_BEST = 120
"""Epochs that pass before the best one."""


def trainings_of(cell: "Cell") -> int:
    """How many trainings a cell is made of: each member of each split."""
    return cell.protocol.splits * cell.protocol.ensemble


def predicted(cell: "Cell", device: str) -> float:
    """Seconds by the model alone."""
    entry, recipe = CATALOGUE.get(cell.dataset), cell.recipe
    graphs, nodes = (entry.graphs, entry.nodes) if entry else (1000, 30.0)
    if not device.startswith("cuda"):
        return on_a_cpu(cell.method, recipe, trainings_of(cell), graphs * nodes)
    steps = math.ceil(0.8 * graphs / recipe.batch_size)
    work = _work(cell.method, trainings_of(cell), graphs * nodes) * recipe.width / 128
    return GPU_START + _epochs(recipe) * max(GPU_NODE * work, GPU_STEP * steps)


def on_a_cpu(method: str, recipe: "Recipe", trainings: int, nodes: float) -> float:
    """Seconds of so many trainings on a set of so many nodes, one after another."""
    return 0.3 + _epochs(recipe) * CPU_NODE * _work(method, trainings, nodes) * max(recipe.width / 128, 0.2)


def _epochs(recipe: "Recipe") -> int:
    return min(recipe.epochs, BEFORE_BEST + recipe.patience)


def _work(method: str, trainings: int, nodes: float) -> float:
    """Nodes in an epoch of all trainings, by what they cost."""
    return trainings * 0.8 * nodes * FACTORS.get(method, 1.0)


class Estimate:
    """The model, multiplied by what finished cells of this store took beside it."""

    def __init__(self, store: Store | None, cells: list["Cell"], device: str, jobs: int = 1) -> None:
        self.device, self.jobs = device, jobs
        kind = device.split(":")[0]
        measured = [(store.seconds(c.key, kind), predicted(c, device)) for c in cells] if store else []
        ratios = [seconds / model for seconds, model in measured if seconds is not None]
        self.factor = statistics.median(ratios) if ratios else 1.0
        self.measured = len(ratios)

    def __call__(self, cell: "Cell") -> float:
        """Seconds that a cell will take."""
        return self.factor * predicted(cell, self.device) / min(self.jobs, trainings_of(cell))


def in_words(seconds: float) -> str:
    """A duration: 40 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
