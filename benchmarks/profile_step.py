"""Where a training step on a CPU spends its time.

    python benchmarks/profile_step.py [NAME …]

Milliseconds a step of the paper form, batch 128: the whole step; matrix products, and the rest of torch's kernels, by
torch's profiler; and the step's fixed cost, which is that of the same network 16 wide on batches of 4 graphs, where
arithmetic is next to nothing and Python and dispatch are all. Then the sum over neighbours of one batch, by
our loop and by gather and scatter.
"""

import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from cgipool import ops
from cgipool.data import load_dataset, random_splits
from cgipool.training.job import STEP, Job, epoch_ids
from cgipool.training.loop import Training, flushed_denormals
from cgipool.training.presets import PAPER
from cgipool.training.recipe import Recipe
from cpu import DATA, REQUIRED

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")


def prepare(name: str, recipe: Recipe) -> Training:
    graphs = load_dataset(DATA / f"{name}.zip")
    (split,) = random_splits(graphs, seed=0, indices=[0])
    training = Training(Job("cgi", recipe, split, 0, "cpu", Path()), graphs)
    training.train_epoch()
    return training


def milliseconds_a_step(training: Training, epochs: int = 3) -> float:
    steps = sum(1 for _ in epoch_ids(training.job, 1))
    start = time.perf_counter()
    for _ in range(epochs):
        training.train_epoch()
    return (time.perf_counter() - start) / steps / epochs * 1e3


def kernels(training: Training) -> tuple[float, float]:
    """Milliseconds a step in matrix products and in all other kernels of torch."""
    steps = sum(1 for _ in epoch_ids(training.job, 1))
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        training.train_epoch()
    own = {event.key: event.self_cpu_time_total / steps / 1e3 for event in recorded.key_averages()}
    products = sum(own.get(name, 0.0) for name in PRODUCTS)
    return products, sum(time for name, time in own.items() if name.startswith("aten::")) - products


def neighbour_sums(training: Training, repeats: int = 20) -> tuple[float, float]:
    """Milliseconds of A x for one batch, 128 wide: ours, and gathered and scattered."""
    job = training.job
    batch = training.batcher.batch(next(epoch_ids(job, 1)), job.key(STEP, 1, 0))
    edges = (batch.row_ptr, batch.neighbor)
    row = torch.repeat_interleave(torch.diff(batch.row_ptr).long())
    x = torch.randn(len(batch.alive), 128)

    def scattered() -> None:
        torch.zeros_like(x).index_add_(0, row, x[batch.neighbor.long()])

    times = []
    for run in (lambda: ops.propagate(x, batch.alive, 0.0, *edges), scattered):
        run()
        start = time.perf_counter()
        for _ in range(repeats):
            run()
        times.append((time.perf_counter() - start) / repeats * 1e3)
    return times[0], times[1]


def main(names: list[str]) -> None:
    with flushed_denormals():
        fixed = milliseconds_a_step(prepare("IMDB-MULTI", PAPER.but(batch_size=4, width=16)), 1)
        print(f"{torch.get_num_threads()} threads; fixed cost of a step {fixed:.1f} ms")
        for name in names:
            training = prepare(name, PAPER)
            whole = milliseconds_a_step(training)
            products, rest = kernels(training)
            print(f"{name:12} step {whole:5.1f} ms   matrix products {products:5.1f}   other kernels {rest:5.1f}")
            bags, scattered = neighbour_sums(training)
            print(f"{'':12} sum over neighbours {bags:.2f} ms, by gather and scatter {scattered:.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1:] or list(REQUIRED))
