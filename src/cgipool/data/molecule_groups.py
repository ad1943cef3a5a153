"""Groups of molecules that a split keeps on one side: Bemis–Murcko scaffolds, and clusters of similar molecules.

A scaffold is a molecule without its side chains: rings, and the chains between them. All molecules without a ring have
the same, empty scaffold. Clusters are those of Butina (1999): the molecule with most neighbours, those at least
`SIMILAR` to it by the Tanimoto similarity of ECFP4 fingerprints, and these neighbours are the first cluster; the same
is repeated with the molecules that are left. Needs RDKit, the extra `chem`.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cgipool.data.columns import is_molecules
from cgipool.data.graphs import GraphSet
from cgipool.data.groups import generator_of, sides_of_groups
from cgipool.data.molecules import Chem, MurckoScaffold, NotAMoleculeError, parse_smiles, rdBase, rebuilt
from cgipool.data.splits import MIN_GRAPHS, Split
from cgipool.errors import UserError, are, counted

Ints = NDArray[np.int64]

SIMILAR = 0.4
"""Least similarity of a cluster's molecules to its centre: a distance of 0.6, the default of DeepChem's splitter."""

RADIUS, BITS = 2, 2048
"""Of the fingerprints."""

BLOCK = 256
"""Molecules that are compared with all others at a time."""


def scaffold_splits(molecules: Iterable[str] | GraphSet, *, seed: int, indices: Iterable[int]) -> list[Split]:
    """Splits of SMILES, or of a set that `MoleculeFeaturizer` made, with no scaffold on two sides.

    The sizes are as near ⌊0.8 N⌋, ⌊0.1 N⌋ and the rest as that allows: large scaffolds are drawn first, those of one
    molecule fill what is left, and no side is empty. Split i depends on (seed, i) and the molecules alone.
    """
    group = scaffold_numbers(molecules)
    n = len(group)
    if n < MIN_GRAPHS:
        raise UserError(f"there {are(n)} {counted(n, 'molecule')}; a split needs at least {MIN_GRAPHS}")
    wanted = list(indices)
    if not wanted:
        raise UserError("the number of splits must be at least 1")
    if (count := len(np.unique(group))) < 3:
        raise UserError(f"a split needs at least 3 scaffolds; the {n} molecules have {count}")
    sides = [sides_of_groups(group, generator_of(seed, index)) for index in wanted]
    return [Split(i, *(np.flatnonzero(side == s) for s in range(3))) for i, side in zip(wanted, sides, strict=True)]


def scaffolds_of(molecules: Iterable[str] | GraphSet) -> Iterator[str]:
    """The scaffold of each molecule as canonical SMILES without stereo, empty for one without rings."""
    with rdBase.BlockLogs():
        for molecule in molecules_of(molecules):
            yield MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=False)


def _parsed(smiles: Iterable[str]) -> "Iterable[Chem.Mol]":
    for number, text in enumerate(smiles):
        try:
            yield parse_smiles(text)
        except NotAMoleculeError as error:
            raise UserError(f"molecule {number}, {text!r}: {error}") from None


def scaffold_numbers(molecules: Iterable[str] | GraphSet) -> Ints:
    """[N] the number of each molecule's scaffold, in the order of first appearance."""
    number: dict[str, int] = {}
    found = scaffolds_of(molecules)
    return np.fromiter((number.setdefault(scaffold, len(number)) for scaffold in found), np.int64)


def molecules_of(molecules: Iterable[str] | GraphSet) -> "Iterable[Chem.Mol]":
    """The molecules of SMILES, or of a set from its columns. These do not tell isotopes, nor stereo as SMILES do."""
    if not isinstance(molecules, GraphSet):
        return _parsed(molecules)
    graphs = molecules
    if not is_molecules(graphs):
        lacks = "does not have the columns of a set of molecules"
        raise UserError(f"{graphs.name} {lacks}, so it has no scaffolds or clusters to split by")
    return (_sanitised(graphs, g) for g in range(graphs.n_graphs))


def _sanitised(graphs: GraphSet, g: int) -> "Chem.Mol":
    try:
        built = rebuilt(graphs, g)
        Chem.SanitizeMol(built)
    except (KeyError, ValueError, RuntimeError):
        raise UserError(f"graph {g} of {graphs.name} cannot be put back as a molecule; give the SMILES") from None
    # Hydrogens that are fixed would leave holes where side chains are cut off; those of a SMILES grow back.
    return parse_smiles(Chem.MolToSmiles(built))


def cluster_numbers(molecules: Iterable[str] | GraphSet, similar: float = SIMILAR) -> Ints:
    """[N] the number of each molecule's cluster, the largest cluster first. Ties keep input order."""
    bits = _fingerprints(molecules)
    near = _neighbours(bits, similar)
    cluster = np.full(bits.shape[0], -1, np.int64)
    for centre in np.argsort([-len(places) for places in near], kind="stable"):
        if cluster[centre] < 0:
            free = near[centre][cluster[near[centre]] < 0]
            cluster[free] = cluster.max() + 1
    return cluster


def _fingerprints(molecules: Iterable[str] | GraphSet) -> csr_array:
    """[N, BITS] 1 where a molecule has a bit."""
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    rows = [np.array(generator.GetFingerprint(molecule).GetOnBits(), np.int32) for molecule in molecules_of(molecules)]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    places = np.concatenate([np.empty(0, np.int32), *rows])
    return csr_array((np.ones(len(places), np.int32), places, ptr), shape=(len(rows), BITS))


def _neighbours(bits: csr_array, similar: float) -> list[Ints]:
    """For each molecule those that are similar to it, itself among them (two without any bit are equal)."""
    size = bits.sum(1)
    every, near = bits.T.tocsr(), []
    for start in range(0, bits.shape[0], BLOCK):
        shared = (bits[start : start + BLOCK] @ every).tocsr()
        rows = start + np.repeat(np.arange(shared.shape[0]), np.diff(shared.indptr))
        close = shared.data >= similar * (size[rows] + size[shared.indices] - shared.data)
        for i in range(shared.shape[0]):
            span = slice(shared.indptr[i], shared.indptr[i + 1])
            found = np.sort(shared.indices[span][close[span]]).astype(np.int64)
            near.append(found if size[start + i] else np.flatnonzero(size == 0))
    return near
