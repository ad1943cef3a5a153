"""A control for molecules that is no graph network: ECFP fingerprints and a random forest.

Rogers and Hahn: Extended-Connectivity Fingerprints. J. Chem. Inf. Model. 2010. Bits of radius 2 folded to 2,048, and
500 trees with scikit-learn's settings: what a chemist would try first. It trains on the training graphs of a split
alone. Needs RDKit.
"""

import importlib.util
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.importers import read_ids
from cgipool.data.importers.imported import IDS
from cgipool.data.splits import Split, random_splits
from cgipool.errors import UserError
from cgipool.ops.draws import key_of
from cgipool.training.job import Progress, ProgressCallback
from cgipool.training.metrics import report
from cgipool.training.result import RESULT, read_row, write_row
from cgipool.training.run import identity_of, prepare, split_folder

if TYPE_CHECKING:
    from cgipool.study.cell import Cell

NAME, TITLE = "ecfp-rf", "ECFP + random forest"
RADIUS, BITS, TREES = 2, 2048, 500


def smiles_of(source: str | Path) -> list[str] | None:
    """The SMILES of a data set, graph by graph; None for one that is not of molecules."""
    if str(source).lower() == "solubility":
        from cgipool.data.importers.options import ImportOptions
        from cgipool.data.importers.solubility import read_solubility

        return list(read_solubility(ImportOptions()).ids["smiles"])
    if not (Path(source) / IDS).is_file():
        return None
    return read_ids(source).get("smiles")


def missing() -> str | None:
    """What is not installed and the control needs, in a sentence; None if nothing is missing."""
    if importlib.util.find_spec("rdkit") is None:
        return f"{TITLE} ({NAME}) needs RDKit: pip install 'cgipool[chem]'"
    return None


def check(source: str | Path) -> None:
    """An error unless the control can be trained on a data set."""
    if lacking := missing():
        raise UserError(lacking)
    if smiles_of(source) is None:
        raise UserError(f"{TITLE} ({NAME}) needs molecules, and {source} is not a set of molecules")


def fingerprints(smiles: list[str]) -> NDArray[np.uint8]:
    """[G, BITS] the fingerprint of each molecule."""
    from rdkit.Chem import rdFingerprintGenerator

    from cgipool.data.molecules import parse_smiles

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    return np.stack([generator.GetFingerprintAsNumPy(parse_smiles(text)) for text in smiles])


def train_control(graphs: GraphSet, cell: "Cell", folder: Path, tell: ProgressCallback) -> None:
    """Train and test the control on the splits of a cell; the folder then holds what a training's would."""
    smiles = smiles_of(cell.path or cell.dataset)
    if smiles is None:
        raise UserError(f"{TITLE} ({NAME}) needs molecules, and {cell.dataset} is not a set of molecules")
    from sklearn.ensemble import RandomForestClassifier

    protocol = cell.protocol
    indices = range(protocol.first, protocol.first + protocol.splits)
    splits = random_splits(graphs, seed=protocol.seed, indices=indices, kind=protocol.split_kind)
    identity = identity_of(graphs, cell.method, cell.recipe, protocol.seed, splits, "cpu", False)
    prepare(folder, identity, splits, True, False)
    x = fingerprints(smiles)
    for split in splits:
        home = split_folder(folder, split.index)
        if not (home / RESULT).exists():
            forest = RandomForestClassifier(TREES, random_state=key_of(protocol.seed, split.index))
            home.mkdir(parents=True, exist_ok=True)
            write_row(home, _result(forest, x, graphs, split))
        loss = read_row(home)["val_loss"]
        tell(Progress(split.index, 0, loss, math.nan, 0, done=True))


def _result(forest: Any, x: NDArray[np.uint8], graphs: GraphSet, split: Split) -> dict[str, Any]:
    began = time.perf_counter()
    forest.fit(x[split.train], graphs.y[split.train])

    def probabilities(ids: NDArray[np.int64]) -> NDArray[np.float64]:
        p = np.zeros((len(ids), graphs.n_classes))
        p[:, forest.classes_] = forest.predict_proba(x[ids])
        return p

    right = probabilities(split.val)[np.arange(len(split.val)), graphs.y[split.val]]
    return {
        "split": split.index,
        "epochs": 0,
        "best_epoch": 0,
        "val_loss": float(-np.log(right.clip(1e-6)).mean()),
        "test": report(graphs.y[split.test], probabilities(split.test)),
        "parameters": sum(tree.tree_.node_count for tree in forest.estimators_),
        "epoch_seconds": 0.0,
        "seconds": time.perf_counter() - began,
    }
