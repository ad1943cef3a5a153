"""Estimate how long cells take: by the model of training/duration.py, scaled by the times in the store. No torch."""

import statistics
from typing import TYPE_CHECKING

from cgipool.data.catalogue import CATALOGUE
from cgipool.study.store import Store
from cgipool.training.duration import cpu_seconds, gpu_seconds

if TYPE_CHECKING:
    from cgipool.study.cell import Cell


def trainings_of(cell: "Cell") -> int:
    """The number of trainings of a cell: one for each member of each split."""
    return cell.protocol.splits * cell.protocol.trainings


def predicted(cell: "Cell", device: str) -> float:
    """Seconds according to the model, without measurements."""
    entry = CATALOGUE.get(cell.dataset)
    graphs, nodes = (entry.graphs, entry.nodes) if entry else (1000, 30.0)
    if device.startswith("cuda"):
        return gpu_seconds(cell.method, cell.recipe, trainings_of(cell), graphs, graphs * nodes)
    return cpu_seconds(cell.method, cell.recipe, trainings_of(cell), graphs * nodes)


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
