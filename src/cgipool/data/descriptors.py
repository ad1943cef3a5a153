"""Graph-level descriptors: columns of the source's table and, for molecules, RDKit's 2D descriptors and ECFP counts.

Rogers and Hahn: Extended-Connectivity Fingerprints. J. Chem. Inf. Model. 2010. RDKit is imported only when it is
needed. Shapes: G graphs, n training graphs, V descriptors, table columns first.
"""

import importlib.util
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import graph_called
from cgipool.data.computed import kept
from cgipool.data.further import checked, column, few, is_missing, names_of, number_in
from cgipool.data.graphs import GraphSet
from cgipool.data.groups import BITS, RADIUS, molecules_of
from cgipool.data.names import Names
from cgipool.data.structure import cached
from cgipool.errors import UnusedDataWarning, UserError, counted, excerpt, meant, warn_user

LARGEST = 10.0
"""Standardised values computed from molecules are clipped to ± this: for a few descriptors, a single molecule can be
thousands of standard deviations from the mean."""


@dataclass(frozen=True)
class Descriptors:
    """The descriptors to read, and their standardisation, fitted on the training graphs."""

    names: Names
    """Columns of the table."""
    mean: tuple[float, ...]
    """[V]"""
    scale: tuple[float, ...]
    """[V] the standard deviation; 0 for a descriptor that is constant in training, which is then always 0."""
    impute: bool
    """Whether a missing value of the table is replaced by the mean over the training graphs."""
    rdkit: Names = ()
    """RDKit's 2D descriptors, by name."""
    bits: int = 0
    """Length of the ECFP count vector; 0 for none."""

    @property
    def width(self) -> int:
        """V."""
        return len(self.mean)

    @classmethod
    def fit(
        cls,
        graphs: GraphSet,
        ids: NDArray[np.int64],
        names: Names,
        impute: bool,
        rdkit: bool = False,
        bits: int = 0,
    ) -> "Descriptors":
        """Fit the columns of the table, and descriptors computed from molecules, on the graphs `ids`."""
        _need(graphs, names)
        if rdkit or bits:
            check_molecules(graphs, "rdkit_descriptors" if rdkit else "fingerprints")
        found = {} if impute else _problems(graphs, names, impute)
        if missing := {graph: reason for graph, reason in found.items() if reason.endswith(NO_VALUE)}:
            graph, reason = min(missing.items())
            count, first = counted(len(missing), "graph"), graph_called(graphs, graph)
            raise UserError(f"{graphs.name}: {reason} in {count}, first in {first}; impute=mean fills such gaps")
        unfitted = cls(names, (), (), impute, rdkit_names() if rdkit else (), bits)
        train = unfitted._values(graphs)[ids]
        known = ~np.isnan(train)
        if empty := [name for j, name in enumerate(names) if not known[:, j].any()]:
            raise UserError(f"{graphs.name}: column {excerpt(empty[0])!r} has no value in the training graphs")
        count = np.maximum(known.sum(0), 1)
        mean = np.where(known, train, 0.0).sum(0) / count
        scale = np.sqrt(np.square(np.where(known, train - mean, 0.0)).sum(0) / count)
        return cls(names, tuple(mean.tolist()), tuple(scale.tolist()), impute, unfitted.rdkit, bits)

    def encode(self, graphs: GraphSet) -> NDArray[np.float32]:
        """[G, V] the standardised values. A missing or undefined value is replaced by the training mean."""
        scale = np.array(self.scale)
        values = self._values(graphs) - np.array(self.mean)
        values = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
        values[:, len(self.names) :] = values[:, len(self.names) :].clip(-LARGEST, LARGEST)
        return np.nan_to_num(values).astype(np.float32)

    def problems(self, graphs: GraphSet) -> dict[int, str]:
        """By number, why graphs cannot be encoded: a field of the table is not a number, or missing."""
        _need(graphs, self.names)
        return _problems(graphs, self.names, self.impute)

    def _values(self, graphs: GraphSet) -> NDArray[np.float64]:
        """[G, V] NaN where missing or not defined."""
        parts = [table_values(graphs, self.names)]
        if self.rdkit or self.bits:
            check_molecules(graphs, "the model")
        parts += [rdkit_values(graphs, self.rdkit)] if self.rdkit else []
        parts += [ecfp_counts(graphs, self.bits).astype(np.float64)] if self.bits else []
        return np.concatenate(parts, axis=1)


NO_VALUE = "has no value"


def table_values(graphs: GraphSet, names: Names) -> NDArray[np.float64]:
    """[G, names] kept columns of a set as numbers, NaN where missing. Raise UserError for other text."""
    values = np.empty((graphs.n_graphs, len(names)))
    for j, name in enumerate(names):
        texts = column(graphs, name)
        gaps = np.array([is_missing(text) for text in texts], dtype=bool)
        found = np.array([np.nan if gap else number_in(text) for gap, text in zip(gaps, texts, strict=True)], float)
        values[:, j] = checked(graphs, name, texts, gaps | np.isfinite(found), found, "a finite number")
    return values


def _problems(graphs: GraphSet, names: Names, impute: bool) -> dict[int, str]:
    """For each graph with a field that cannot be used, its number and a message about the first such field."""
    reasons: dict[int, str] = {}
    for name in names:
        for graph, text in enumerate(column(graphs, name)):
            if is_missing(text):
                if not impute:
                    reasons.setdefault(graph, f"column {excerpt(name)!r} {NO_VALUE}")
            elif number_in(text) is None:
                reasons.setdefault(graph, f"column {excerpt(name)!r} is {excerpt(text, 60)!r}, not a finite number")
    return reasons


def warn_of_gaps(graphs: GraphSet, names: Names) -> None:
    """Warn about each column with missing values, which are filled in."""
    _need(graphs, names)
    for name, values in zip(names, table_values(graphs, names).T, strict=True):
        if count := int(np.isnan(values).sum()):
            what = f"column {excerpt(name)!r} has no value in {counted(count, 'graph')}"
            warn_user(f"{graphs.name}: {what}; the mean of the training graphs is used", UnusedDataWarning)


def _need(graphs: GraphSet, names: Names) -> None:
    """Raise UserError with the names of the columns that a set lacks."""
    known = names_of(graphs)
    check_columns(graphs.name, names, known)


def check_columns(where: object, names: Names, known: Names) -> None:
    """Raise UserError with the names of the descriptor columns that a source lacks."""
    if missing := [name for name in names if name not in known]:
        what = f"descriptor column{'s' if len(missing) > 1 else ''} {', '.join(repr(excerpt(n, 60)) for n in missing)}"
        hint = next(filter(None, (meant(name, known) for name in missing)), ";")
        has = f"its columns: {few(known)}" if known else "it has no table of columns"
        raise UserError(f"{where} has no {what}{hint} {has}")


SLOW = ("Ipc", "AvgIpc")
"""Descriptors that are left out: on large molecules they take most of the time, and Ipc overflows."""

CLIP = 1e30
"""Descriptors are clipped to ± this: a few grow with the factorial of a molecule's size, and trees read 32-bit
floats."""

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
    """[G, BITS] ECFP4: which atom environments of radius 2 a molecule has."""
    return _computed(graphs, "ecfp bits", lambda: _ecfp(graphs, counts=False))


def ecfp_counts(graphs: GraphSet, bits: int = BITS) -> NDArray[np.float32]:
    """[G, bits] ECFP4 counts: how often a molecule has each atom environment of radius 2."""
    return _computed(graphs, f"ecfp counts {bits}", lambda: _ecfp(graphs, counts=True, bits=bits))


def rdkit_descriptors(graphs: GraphSet) -> NDArray[np.float32]:
    """[G, D] RDKit's 2D descriptors; 0 for an undefined one, such as a charge of an exotic atom."""
    return np.nan_to_num(rdkit_values(graphs, rdkit_names())).astype(np.float32)


def rdkit_names() -> Names:
    """The 2D descriptors that the installed RDKit computes."""
    from rdkit.Chem import Descriptors as RDKit

    return tuple(name for name, _ in RDKit.descList if name not in SLOW)


def rdkit_values(graphs: GraphSet, names: Names) -> NDArray[np.float64]:
    """[G, names] these 2D descriptors of RDKit; NaN for an undefined one."""
    known = rdkit_names()
    if missing := [name for name in names if name not in known]:
        raise UserError(f"the installed RDKit has no descriptor {missing[0]!r}, which the model reads")

    def make() -> NDArray[np.float64]:
        from rdkit import rdBase
        from rdkit.Chem import Descriptors as RDKit

        computes = [compute for name, compute in RDKit.descList if name in known]
        with rdBase.BlockLogs():
            rows = [[_value(compute, molecule) for compute in computes] for molecule in molecules_of(graphs)]
        return np.array(rows, dtype=np.float64).reshape(graphs.n_graphs, len(known)).clip(-CLIP, CLIP)

    values = _computed(graphs, "rdkit", make)
    return values if names == known else values[:, [known.index(name) for name in names]]


def _computed(graphs: GraphSet, what: str, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Return `compute()` for these molecules, computed once per set, and kept on disk if it takes long."""
    from rdkit import rdBase

    names = json.dumps([graphs.category_names, graphs.edge_category_names, graphs.column_names.get("category")])
    label = f"{what} {VERSION} {rdBase.rdkitVersion} {names}"
    reads = (graphs.node_ptr, graphs.edge_ptr, graphs.edge_disp, graphs.category, graphs.edge_category)
    return cached(graphs, what, lambda: kept(label, reads, lambda: {"found": compute()})["found"])


def _value(compute: Callable[[Any], float], molecule: Any) -> float:
    """A descriptor; NaN if RDKit raises an error, as it does for some exotic atoms."""
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
        return np.array([make(m) for m in molecules_of(graphs)], dtype=np.float32).reshape(graphs.n_graphs, bits)
