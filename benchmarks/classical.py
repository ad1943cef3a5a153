"""Classical methods and `cgipool fit --auto` on the splits that benchmarks/chemprop.py gives to chemprop.

    python benchmarks/classical.py ESOL FreeSolv           # forests, kernels, and the search, five splits each
    python benchmarks/classical.py SIDER --methods rdkit-svm wl
    python benchmarks/classical.py BBBP --methods auto --budget 120
    python benchmarks/molecule_sets.py                     # the table

Classical methods choose their settings by the validation molecules of a split. `auto` is given the training and the
validation molecules as one set, and makes folds and a held-out part of its own. Test molecules are predicted once. Run
it in one thread (OMP_NUM_THREADS=1), since seconds are CPU seconds of the process.
"""

import importlib.metadata
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from cgipool.auto.fit import fit_auto
from cgipool.data.molecules import MoleculeFeaturizer
from cgipool.data.splits import Split
from cgipool.errors import UnusedDataWarning
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import trained_model
from cgipool.training.folder import split_folder
from cgipool.training.presets import resolve_recipe
from cgipool.training.run import train
from molecule_sets import Molecules, Store, arguments, digest, wanted

METHODS = ("majority", "wl", "wl-oa", "ecfp-count-rf", "rdkit-rf", "rdkit-et", "rdkit-svm", "auto")
MANY = 2000


def rate(molecules: Molecules, model: FittedModel) -> float:
    """Molecules in a CPU second, from SMILES to predictions."""
    smiles = [molecules.smiles[place % len(molecules.smiles)] for place in range(MANY)]
    began = time.process_time()
    model.predictions(MoleculeFeaturizer().graphs(smiles))
    return MANY / (time.process_time() - began)


def searched(molecules: Molecules, split: Split, folder: Path, budget: float) -> FittedModel:
    """The model of `fit --auto` on the training and validation molecules."""
    known = molecules.graphs.subset(np.sort(np.concatenate([split.train, split.val])))
    metric = molecules.about.metric
    return fit_auto(known, folder, budget=budget, metric=metric, seed=split.index).model


def fitted(molecules: Molecules, split: Split, method: str, folder: Path) -> FittedModel:
    """The model of a method on the training molecules."""
    recipe = resolve_recipe("strong", {})(molecules.graphs.family)
    train(molecules.graphs, method=method, recipe=recipe, splits=[split], seed=split.index, out=folder)
    return trained_model(split_folder(folder, split.index), molecules.graphs, split.train, method, recipe)


def measure(molecules: Molecules, split: Split, method: str, budget: float) -> dict:
    """Train on a split and test it."""
    with tempfile.TemporaryDirectory(prefix="cgipool-") as name:
        folder, file = Path(name) / "run", Path(name) / "model.safetensors"
        began, cpu = time.perf_counter(), time.process_time()
        auto = method == "auto"
        model = searched(molecules, split, folder, budget) if auto else fitted(molecules, split, method, folder)
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - began
        model.save(file)
        size = file.stat().st_size
    test = molecules.graphs.subset(split.test)
    row = {
        "set": molecules.about.name,
        "split": split.index,
        "molecules": digest(split),
        "metric": molecules.about.metric,
        "value": round(molecules.value(split, model.predictions(test)), 6),
        "cpu": round(cpu, 2),
        "seconds": round(seconds, 2),
        "rate": round(rate(molecules, model), 1) if split.index == 0 else None,
        "bytes": size,
        "seed": split.index,
        "versions": {package: importlib.metadata.version(package) for package in ("torch", "scikit-learn", "rdkit")},
    }
    return row | ({"budget": budget, "chosen": model.about["blend"]} if auto else {})


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--methods", nargs="+", default=METHODS, metavar="METHOD", help="default: %(default)s")
    parser.add_argument("--budget", type=float, default=300.0, metavar="SECONDS", help="of auto (default: %(default)s)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnusedDataWarning)
    for method in options.methods:
        for molecules, split in wanted(options, method):
            row = measure(molecules, split, method, options.budget)
            Store(method).add(row)
            print(
                f"{method}: " + "{set} split {split}: {metric} {value:.4f}, {cpu:.1f} CPU s".format(**row), flush=True
            )


if __name__ == "__main__":
    main()
