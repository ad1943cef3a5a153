"""GINE with edge features against GIN without, in one run: how much longer a training epoch takes.

    python benchmarks/edges.py [NAME …] [--methods METHOD …] [--convs CONV …] [--device cpu|cuda] [--epochs N]

Epochs of the convolutions are trained in turns, so whatever else the machine does falls on all of them. On a CPU one
split is trained, on a GPU 20 splits at once. At most 1.5 is required of GINE. Archives: $CGIPOOL_DATA, by default
../shared/data/tu.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

DATA = Path(os.environ.get("CGIPOOL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data" / "tu"))
REQUIRED = 1.5


def epoch_of(name: str, method: str, conv: str, device: str) -> Callable[[], None]:
    """A function that trains one epoch with a convolution, on a GPU of 20 splits and with validation."""
    import torch

    from cgipool.data import load_dataset, random_splits
    from cgipool.training.initial import prepared
    from cgipool.training.job import Job
    from cgipool.training.loop import Training, flushed_denormals
    from cgipool.training.presets import PAPER
    from cgipool.training.stacked.group import Group

    graphs, recipe = load_dataset(DATA / f"{name}.zip"), PAPER.but(conv=conv)
    splits = random_splits(graphs, seed=0, indices=range(20 if device == "cuda" else 1))
    jobs = [Job(method, recipe, split, 0, device, Path()) for split in splits]
    if device == "cuda":
        group, number = Group([prepared(job, graphs) for job in jobs], graphs), iter(range(1, 1000))
        group.capture()

        def captured() -> None:
            group.run_epoch(next(number))
            torch.cuda.synchronize()

        return captured
    training = Training(jobs[0], graphs)

    def plain() -> None:
        with flushed_denormals():
            training.train_epoch()

    return plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=["Mutagenicity"])
    parser.add_argument("--methods", nargs="+", default=["cgi", "none"])
    parser.add_argument("--convs", nargs="+", default=["gin", "gine"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=7)
    given = parser.parse_args()
    for name in given.names:
        for method in given.methods:
            epochs = {conv: epoch_of(name, method, conv, given.device) for conv in given.convs}
            times: dict[str, list[float]] = {conv: [] for conv in epochs}
            for turn in range(given.epochs + 1):
                for conv, epoch in epochs.items():
                    start = time.perf_counter()
                    epoch()
                    if turn:  # the first one warms up
                        times[conv].append(time.perf_counter() - start)
            first, *others = given.convs
            middle = {conv: statistics.median(each) for conv, each in times.items()}
            print(f"{name} {method}: {first} {middle[first]:.3f} s", end="")
            for conv in others:
                ratios = [one / base for one, base in zip(times[conv], times[first], strict=True)]
                print(f", {conv} {middle[conv]:.3f} s, {statistics.median(ratios):.2f} times", end="")
            print(f" (required of gine: at most {REQUIRED})", flush=True)


if __name__ == "__main__":
    main()
