"""chemprop, with its default settings, on our splits of MoleculeNet's sets.

    make .venv-chemprop                                    # its own virtual environment
    python benchmarks/chemprop.py ESOL FreeSolv            # five splits each; stops and resumes
    python benchmarks/chemprop.py ESOL FreeSolv --ensemble-size 5
    python benchmarks/molecule_sets.py                     # the table

It trains with `chemprop train` for 50 epochs (the default) in one thread and keeps the epoch with the lowest validation
loss, as chemprop does by itself. On split 0 it also measures an epoch (CPU seconds of the training less those of one of
`SHORT` epochs, by the epochs between) and the rate of prediction (CPU seconds of `chemprop predict` for `MANY`
molecules less those for a few).
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
from molecule_sets import HOME, Molecules, Store, arguments, digest, wanted, write_table

CHEMPROP = HOME / ".venv-chemprop" / "bin" / "chemprop"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "200"}
ENVIRONMENT.pop("PYTHONPATH", None)
EPOCHS, SHORT = 50, 5
"""Of a training (chemprop's default), and of the one that is subtracted to get the seconds of an epoch."""

FEW, MANY = 10, 2010


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


def measure(molecules: Molecules, split: Split, ensemble: int) -> dict:
    """Train on a split and test it."""
    about, labels = molecules.about, molecules.labels
    regression = about.task == "regression"
    with tempfile.TemporaryDirectory(prefix="chemprop-") as name:
        folder = Path(name)
        for side in SIDES:
            rows = [molecules.rows[place] for place in getattr(split, side)]
            write_table(folder / f"{side}.csv", [about.smiles, *labels], rows)
        command = [str(CHEMPROP), "train", "--data-path", *(f"{side}.csv" for side in SIDES), "-s", about.smiles]
        command += ["--target-columns", *labels, "-t", "regression" if regression else "classification"]
        command += ["--pytorch-seed", str(split.index), "--ensemble-size", str(ensemble)]
        command += ["--accelerator", "cpu", "--num-workers", "0"]
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
    options = parser.parse_args()
    if shutil.which(str(CHEMPROP)) is None:
        raise SystemExit("chemprop is not installed; run `make .venv-chemprop`")
    method = "chemprop" if options.ensemble_size == 1 else f"chemprop-{options.ensemble_size}"
    for molecules, split in wanted(options, method):
        row = measure(molecules, split, options.ensemble_size)
        Store(method).add(row)
        print("{set} split {split}: {metric} {value:.4f}, {cpu:.0f} CPU s".format(**row), flush=True)


if __name__ == "__main__":
    main()
