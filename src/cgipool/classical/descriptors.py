"""What chemists compute from a molecule: ECFP fingerprints and RDKit's 2D descriptors. Needs RDKit, the extra `chem`.

Rogers and Hahn: Extended-Connectivity Fingerprints. J. Chem. Inf. Model. 2010.
"""

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.classical.base import remembered
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError

RADIUS, BITS = 2, 2048
"""ECFP4, folded to this many columns."""

LARGEST = 1e30
"""Descriptors are cut off here: a few grow with the factorial of a molecule's size, and trees read 32-bit floats."""

Features = Callable[[GraphSet], NDArray[np.float32]]


def check_molecules(graphs: GraphSet, what: str) -> None:
    """Raise UserError unless the graphs are molecules and RDKit is installed."""
    if importlib.util.find_spec("rdkit") is None:
        raise UserError(f"{what} needs RDKit: pip install 'cgipool[chem]'")
    if graphs.featurizer is None:
        raise UserError(f"{what} needs molecules, and {graphs.name} is not a set of molecules")


def ecfp_bits(graphs: GraphSet) -> NDArray[np.float32]:
    """[G, BITS] which environments of radius 2 a molecule has."""
    return remembered(graphs, "ecfp bits", lambda: _ecfp(graphs, counts=False))


def ecfp_counts(graphs: GraphSet) -> NDArray[np.float32]:
    """[G, BITS] how many environments of radius 2 a molecule has."""
    return remembered(graphs, "ecfp counts", lambda: _ecfp(graphs, counts=True))


def rdkit_descriptors(graphs: GraphSet) -> NDArray[np.float32]:
    """[G, D] RDKit's 2D descriptors; 0 for one that is not defined, such as a charge of an exotic atom."""

    def make() -> NDArray[np.float32]:
        from rdkit.Chem import Descriptors

        rows = [[compute(m) for _, compute in Descriptors.descList] for m in _molecules(graphs)]
        values = np.array(rows, dtype=np.float64).reshape(graphs.n_graphs, len(Descriptors.descList))
        return np.clip(np.nan_to_num(values, nan=0.0), -LARGEST, LARGEST).astype(np.float32)

    return remembered(graphs, "rdkit", make)


def _ecfp(graphs: GraphSet, counts: bool) -> NDArray[np.float32]:
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    make = generator.GetCountFingerprintAsNumPy if counts else generator.GetFingerprintAsNumPy
    return np.array([make(m) for m in _molecules(graphs)], dtype=np.float32).reshape(graphs.n_graphs, BITS)


def _molecules(graphs: GraphSet) -> Iterable[Any]:
    """The molecules, put back from atoms and bonds: the same in training and in prediction, whatever was read."""
    from cgipool.data.molecule_groups import molecules_of

    return molecules_of(graphs)
