"""chemprop, with its default settings, on our splits of MoleculeNet's sets.

    make .venv-chemprop                                    # its own virtual environment
    python benchmarks/chemprop.py ESOL FreeSolv            # five splits each; stops and resumes
    python benchmarks/chemprop.py ESOL FreeSolv --ensemble-size 5
    python benchmarks/molecule_sets.py                     # the table
    python benchmarks/chemprop.py Lipophilicity --epoch    # an epoch of chemprop and of our network, in turns

It trains with `chemprop train` for 50 epochs (the default) in one thread and keeps the epoch with the lowest validation
loss, as chemprop does by itself. On split 0 it also measures an epoch (CPU seconds of the training less those of one of
`SHORT` epochs, by the epochs between) and the rate of prediction (CPU seconds of `chemprop predict` for `MANY`
molecules less those for a few).

With `--epoch` nothing is stored: chemprop and our network without pooling, with bonds (`conv=gine`) and about as many
parameters, take turns at epochs on the training molecules of split 0, each in one thread and in batches of 64. An epoch
is training and validation, in CPU seconds of its process.
"""

import csv
import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from cgipool.data.splits import SIDES, Split
from cgipool.training.job import Progress
from cgipool.training.presets import resolve_recipe
from cgipool.training.run import train
from molecule_sets import HOME, Molecules, Store, arguments, digest, read, wanted, write_table

CHEMPROP = HOME / ".venv-chemprop" / "bin" / "chemprop"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "200"}
ENVIRONMENT.pop("PYTHONPATH", None)
EPOCHS, SHORT = 50, 5
"""Of a training (chemprop's default), and of the one that is subtracted to get the seconds of an epoch."""

FEW, MANY = 10, 2010

TURNS, WIDTH = 5, 156
"""Of `--epoch`: epochs that are compared, after one to warm up, and the width of our network that has about as many
parameters as chemprop's."""

WAITING = """
import sys, time
from lightning import pytorch as pl

class Turns(pl.Callback):
    def on_train_epoch_start(self, trainer, model):
        sys.stdin.readline()
        self.began = time.process_time()

    def on_train_epoch_end(self, trainer, model):
        seconds, size = time.process_time() - self.began, sum(weight.numel() for weight in model.parameters())
        sys.stderr.write(f"EPOCH {seconds} {size}\\n")
        sys.stderr.flush()

make = pl.Trainer.__init__

def with_turns(self, *args, callbacks=None, **given):
    make(self, *args, callbacks=[*(callbacks or []), Turns()], **given)

pl.Trainer.__init__ = with_turns
from chemprop.cli.main import main
main()
"""
"""`chemprop` with a callback that waits for a line before each epoch and tells how long the epoch took."""


def run(command: list[str], folder: Path) -> tuple[float, float]:
    """CPU seconds and seconds of a command."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}{done.stdout[-1000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - began


def predictions(path: Path, labels: tuple[str, ...]) -> np.ndarray:
    with path.open(newline="") as file:
        return np.array([[float(row[label]) for label in labels] for row in csv.DictReader(file)])


def rate(molecules: Molecules, model: Path, folder: Path) -> float:
    """Molecules that `chemprop predict` takes in a CPU second, beside its start."""
    seconds = []
    for count in (FEW, MANY):
        rows = [molecules.rows[place % len(molecules.rows)] for place in range(count)]
        write_table(folder / "new.csv", [molecules.about.smiles], rows)
        command = [str(CHEMPROP), "predict", "-i", "new.csv", "-s", molecules.about.smiles, "--num-workers", "0"]
        seconds.append(run([*command, "--model-paths", str(model), "-o", "out.csv", "--accelerator", "cpu"], folder)[0])
    return (MANY - FEW) / max(seconds[1] - seconds[0], 1e-6)


def prepared(molecules: Molecules, split: Split, folder: Path) -> list[str]:
    """Write the tables of a split, and return the arguments of chemprop for them."""
    about, labels = molecules.about, molecules.labels
    for side in SIDES:
        rows = [molecules.rows[place] for place in getattr(split, side)]
        write_table(folder / f"{side}.csv", [about.smiles, *labels], rows)
    words = ["train", "--data-path", *(f"{side}.csv" for side in SIDES), "-s", about.smiles]
    words += ["--target-columns", *labels, "-t", "regression" if about.task == "regression" else "classification"]
    return [*words, "--pytorch-seed", str(split.index), "--accelerator", "cpu", "--num-workers", "0"]


def epochs_in_turns(molecules: Molecules, split: Split) -> None:
    """Print the CPU seconds of epochs of chemprop and of our network, and their ratio."""
    ours, theirs, parameters, began = list[float](), list[float](), 0, 0.0
    with tempfile.TemporaryDirectory(prefix="chemprop-") as name:
        words = [*prepared(molecules, split, Path(name)), "--epochs", str(TURNS + 1), "-o", "out"]
        command = [str(CHEMPROP.with_name("python")), "-c", WAITING, *words]
        pipes: dict = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, cwd=name, env=ENVIRONMENT, text=True, **pipes) as chemprop:

            def turn(progress: Progress) -> None:
                nonlocal began, parameters
                if not progress.done:
                    ours.append(time.process_time() - began)
                    print("\n", end="", file=chemprop.stdin, flush=True)
                    line = next((line for line in chemprop.stderr if line.startswith("EPOCH ")), None)
                    if line is None:
                        raise SystemExit("chemprop ended before its last epoch")
                    theirs.append(float(line.split()[1]))
                    parameters = int(line.split()[2])
                began = time.process_time()

            recipe = resolve_recipe("strong", {"conv": "gine", "width": WIDTH, "epochs": TURNS + 1})("molecules")
            began = time.process_time()
            result = train(molecules.graphs, method="none", recipe=recipe, splits=[split], tell=turn)
            chemprop.communicate()
    ratios = np.array(theirs[1:]) / np.array(ours[1:])
    size = result.rows[0]["parameters"]
    print(f"{molecules.about.name}, {len(split.train):,} training molecules; CPU s of an epoch, median of {TURNS}:")
    print(f"  chemprop {np.median(theirs[1:]):.3f} ({parameters:,} parameters)")
    print(f"  ours     {np.median(ours[1:]):.3f} ({size:,} parameters)")
    print(f"  ratio    {np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})")


def measure(molecules: Molecules, split: Split, ensemble: int) -> dict:
    """Train on a split and test it."""
    about, labels = molecules.about, molecules.labels
    with tempfile.TemporaryDirectory(prefix="chemprop-") as name:
        folder = Path(name)
        command = [str(CHEMPROP), *prepared(molecules, split, folder), "--ensemble-size", str(ensemble)]
        cpu, seconds = run([*command, "--epochs", str(EPOCHS), "-o", "out"], folder)
        files = sorted((folder / "out").rglob("best.pt"))
        table = next((folder / "out").rglob("test_predictions.csv"))
        given = predictions(table, labels)
        if about.task == "classification":
            given = np.hstack([1.0 - given, given])
        first = split.index == 0
        if first:
            short = run([*command, "--epochs", str(SHORT), "-o", "short"], folder)[0]
        return {
            "set": about.name,
            "split": split.index,
            "molecules": digest(split),
            "metric": about.metric,
            "value": round(molecules.value(split, given), 6),
            "cpu": round(cpu, 2),
            "seconds": round(seconds, 2),
            "epochs": EPOCHS,
            "epoch_cpu": round((cpu - short) / (EPOCHS - SHORT) / ensemble, 3) if first else None,
            "rate": round(rate(molecules, files[0].parent, folder), 1) if first else None,
            "bytes": sum(file.stat().st_size for file in files),
            "seed": split.index,
            "versions": versions(),
        }


def versions() -> dict[str, str]:
    names = ("chemprop", "torch", "rdkit")
    code = f"import json, {', '.join(names)}; print(json.dumps([{', '.join(f'{n}.__version__' for n in names)}]))"
    command = [str(CHEMPROP.with_name("python")), "-c", code]
    told = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    return dict(zip(names, json.loads(told.stdout), strict=True))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--ensemble-size", type=int, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument("--epoch", action="store_true", help="measure an epoch of chemprop and of our network in turns")
    options = parser.parse_args()
    if shutil.which(str(CHEMPROP)) is None:
        raise SystemExit("chemprop is not installed; run `make .venv-chemprop`")
    if options.epoch:
        for name in options.sets or ["Lipophilicity"]:
            molecules = read(name)
            epochs_in_turns(molecules, molecules.splits([0])[0])
        return
    method = "chemprop" if options.ensemble_size == 1 else f"chemprop-{options.ensemble_size}"
    for molecules, split in wanted(options, method):
        row = measure(molecules, split, options.ensemble_size)
        Store(method).add(row)
        print("{set} split {split}: {metric} {value:.4f}, {cpu:.0f} CPU s".format(**row), flush=True)


if __name__ == "__main__":
    main()
