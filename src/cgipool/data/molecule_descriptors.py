"""What chemists compute from a molecule: ECFP fingerprints and RDKit's 2D descriptors. Needs RDKit, the extra `chem`.

Rogers and Hahn: Extended-Connectivity Fingerprints. J. Chem. Inf. Model. 2010.
"""

import importlib.util
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.computed import kept
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.data.structure import remembered
from cgipool.errors import UserError

RADIUS, BITS = 2, 2048
"""ECFP4, folded to this many columns."""

SLOW = ("Ipc", "AvgIpc")
"""Descriptors that are left out: they take most of the time on large molecules, and Ipc overflows there."""

LARGEST = 1e30
"""Descriptors are cut off here: a few grow with the factorial of a molecule's size, and trees read 32-bit floats."""

VERSION = 1
"""Raised when a computation here gives other results, so that earlier entries of the cache are not used."""

Features = Callable[[GraphSet], NDArray[np.float32]]


def check_molecules(graphs: GraphSet, what: str) -> None:
    """Raise UserError unless the graphs are molecules and RDKit is installed."""
    if importlib.util.find_spec("rdkit") is None:
        raise UserError(f"{what} needs RDKit: pip install 'cgipool[chem]'")
    if graphs.featurizer is None:
        raise UserError(f"{what} needs molecules, and {graphs.name} is not a set of molecules")


def ecfp_bits(graphs: GraphSet) -> NDArray[np.float32]:
    """[G, BITS] which environments of radius 2 a molecule has."""
    return _computed(graphs, "ecfp bits", lambda: _ecfp(graphs, counts=False))


def ecfp_counts(graphs: GraphSet, bits: int = BITS) -> NDArray[np.float32]:
    """[G, bits] how many environments of radius 2 a molecule has."""
    return _computed(graphs, f"ecfp counts {bits}", lambda: _ecfp(graphs, counts=True, bits=bits))


def rdkit_descriptors(graphs: GraphSet) -> NDArray[np.float32]:
    """[G, D] RDKit's 2D descriptors; 0 for one that is not defined, such as a charge of an exotic atom."""
    return np.nan_to_num(rdkit_values(graphs, rdkit_names())).astype(np.float32)


def rdkit_names() -> Names:
    """The 2D descriptors that the installed RDKit computes."""
    from rdkit.Chem import Descriptors

    return tuple(name for name, _ in Descriptors.descList if name not in SLOW)


def rdkit_values(graphs: GraphSet, names: Names) -> NDArray[np.float64]:
    """[G, names] these 2D descriptors of RDKit; NaN for one that is not defined."""
    known = rdkit_names()
    if missing := [name for name in names if name not in known]:
        raise UserError(f"the installed RDKit has no descriptor {missing[0]!r}, which the model reads")

    def make() -> NDArray[np.float64]:
        from rdkit import rdBase
        from rdkit.Chem import Descriptors

        computes = [compute for name, compute in Descriptors.descList if name in known]
        with rdBase.BlockLogs():
            rows = [[_value(compute, molecule) for compute in computes] for molecule in _molecules(graphs)]
        return np.array(rows, dtype=np.float64).reshape(graphs.n_graphs, len(known)).clip(-LARGEST, LARGEST)

    values = _computed(graphs, "rdkit", make)
    return values if names == known else values[:, [known.index(name) for name in names]]


def _computed(graphs: GraphSet, what: str, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """What `compute` gives for these molecules, computed once for a set, and kept on disk if that takes long."""
    from rdkit import rdBase

    names = json.dumps([graphs.category_names, graphs.edge_category_names, graphs.column_names.get("category")])
    said = f"{what} {VERSION} {rdBase.rdkitVersion} {names}"
    reads = (graphs.node_ptr, graphs.edge_ptr, graphs.edge_disp, graphs.category, graphs.edge_category)
    return remembered(graphs, what, lambda: kept(said, reads, lambda: {"found": compute()})["found"])


def _value(compute: Callable[[Any], float], molecule: Any) -> float:
    """A descriptor; NaN where RDKit raises an error, as it does for some exotic atoms."""
    try:
        return compute(molecule)
    except Exception:
        return math.nan


def _ecfp(graphs: GraphSet, counts: bool, bits: int = BITS) -> NDArray[np.float32]:
    from rdkit import rdBase
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=bits)
    make = generator.GetCountFingerprintAsNumPy if counts else generator.GetFingerprintAsNumPy
    with rdBase.BlockLogs():
        return np.array([make(m) for m in _molecules(graphs)], dtype=np.float32).reshape(graphs.n_graphs, bits)


def _molecules(graphs: GraphSet) -> Iterable[Any]:
    """The molecules, put back from atoms and bonds: the same in training and in prediction, whatever was read."""
    from cgipool.data.molecule_groups import molecules_of

    return molecules_of(graphs)
