"""Rows a second of `predict`: from a table of SMILES, and from the set that it was imported to.

    python benchmarks/predict.py [TABLE …] [--device cpu|cuda] [--recipe strong|paper] [--repeats N] [--profile]

A CGIPool network is trained on each table for one epoch, its file is loaded, and rows are predicted and written as CSV
in this process, as the command does. Torch gets one thread. The rate is the best of so many repeats, in seconds of
processor time, which other work on the machine changes least; on a GPU, in seconds. Tables have a column of SMILES.
Default: the tables of $CGIPOOL_MOLECULES, by default ../shared/data/molecules, that are named Lipophilicity and Tox21.
"""

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from cgipool.data import load_dataset
from cgipool.data.importers import ImportOptions, import_to
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit
from cgipool.inference.predict import written
from cgipool.inference.predict_input import chunks_of

MOLECULES = Path(os.environ.get("CGIPOOL_MOLECULES", Path(__file__).resolve().parents[2] / "shared/data/molecules"))
LABELS = {"Lipophilicity": "exp", "Tox21": "*-*"}


def prepare(table: Path, folder: Path, recipe: str) -> tuple[Path, Path]:
    """The saved set of a table, and the file of a model."""
    import_to(table, folder / "set", options=ImportOptions(label=LABELS.get(table.stem), skip_unlabelled=True))
    model = folder / "model.safetensors"
    fit(load_dataset(folder / "set"), method="cgi", recipe=recipe, epochs=1).save(model)
    return folder / "set", model


def rows(model: FittedModel, data: Path) -> int:
    """Predict all rows."""
    return sum(part.graphs for part in written(model, chunks_of(data, model), as_json=False))


def best(run: Callable[[], int], repeats: int, clock: Callable[[], float]) -> float:
    """The highest rate of several runs, after one to warm up."""
    run()
    rates = []
    for _ in range(repeats):
        start = clock()
        rates.append(run() / (clock() - start))
    return max(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path, default=[MOLECULES / f"{name}.csv" for name in LABELS])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--recipe", default="strong")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    for table in options.tables:
        with tempfile.TemporaryDirectory() as folder:
            saved, file = prepare(table, Path(folder), options.recipe)
            model = FittedModel.load(file, options.device)
            for what, data in (("table", table), ("saved set", saved)):
                run = partial(rows, model, data)
                print(f"{table.stem:14} {what:10} {best(run, options.repeats, clock):8,.0f} rows a second", flush=True)
                if options.profile:
                    profiler = cProfile.Profile(clock)
                    profiler.runcall(run)
                    pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    main()
