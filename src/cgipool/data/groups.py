"""Assigns graphs to the sides of a split: in proportion to their labels, or in whole groups.

A group is a class of indistinguishable graphs, the molecules with one scaffold, or a cluster of similar molecules.
Scaffolds and clusters need RDKit, the extra `chem`, which is imported only when they are asked for.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cgipool.data.columns import is_molecules
from cgipool.data.describe import wl_classes
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError

if TYPE_CHECKING:
    from rdkit import Chem
    from scipy.sparse import csr_array

Ids = NDArray[np.int64]

SIMILAR = 0.4
"""Minimum similarity of a cluster's molecules to its centre: a distance of 0.6, the default of DeepChem's splitter."""

RADIUS, BITS = 2, 2048
"""Radius and length of ECFP4 fingerprints."""

BLOCK = 256
"""Number of molecules that are compared with all others at a time."""

GROUPS = {"distinct": "distinct graphs", "scaffold": "scaffolds", "cluster": "clusters"}
"""Kinds of splits that keep groups together, and the names of the groups."""


def group_numbers(graphs: GraphSet, kind: str) -> Ids:
    """[G] the number of each graph's group."""
    if kind == "scaffold":
        return scaffold_numbers(graphs)
    if kind == "cluster":
        return cluster_numbers(graphs)
    return wl_classes(graphs)


def sizes_of(n: int) -> Ids:
    """[3] the numbers of training, validation and test graphs among n: ⌊0.8 n⌋, ⌊0.1 n⌋ and the rest."""
    train, val = n * 8 // 10, n // 10
    return np.array([train, val, n - train - val])


def generator_of(seed: int, index: int) -> np.random.Generator:
    """The random generator of one split."""
    if seed < 0 or index < 0:
        raise UserError(f"seed and split number must not be negative: {seed}, {index}")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, index])))


def side_of_class(members: Ids, sizes: Ids, generator: np.random.Generator) -> Ids:
    """[groups] the side of each group, large groups first, drawn with probabilities proportional to the remaining sizes
    of the sides where the group fits.

    Groups of one graph come last and fill the sides, so the sizes are exact if there are enough of them.
    """
    side = np.empty(len(members), dtype=np.int64)
    room = sizes.copy()
    order = generator.permutation(len(members))
    order = order[np.argsort(-members[order], kind="stable")]
    shared = order[members[order] > 1]
    for c, draw in zip(shared, generator.random(len(shared)), strict=True):
        fits = np.where(room >= members[c], room, 0)
        if not fits.any():
            fits = room == room.max()
        side[c] = np.searchsorted(np.cumsum(fits), draw * fits.sum(), side="right")
        room[side[c]] -= members[c]
    single = order[len(shared) :]
    free = np.repeat(np.arange(3), np.maximum(room, 0))
    side[single] = generator.permutation(free)[: len(single)]
    return side


def sides_of_groups(group: Ids, generator: np.random.Generator) -> Ids:
    """[G] the side of each graph: whole groups, sizes as close to 80, 10 and 10 % as possible, and no side empty."""
    members = np.bincount(group)
    side = side_of_class(members, sizes_of(len(group)), generator)
    order = generator.permutation(len(members))
    order = order[np.argsort(members[order], kind="stable")]
    for empty in np.flatnonzero(np.bincount(side, minlength=3) == 0):
        # A smallest group of a side that has several goes to the empty side.
        spare = np.bincount(side, minlength=3)[side[order]] > 1
        side[order[np.argmax(spare)]] = empty
    return side[group]


def folds_of_groups(graphs: GraphSet, k: int, kind: str, generator: np.random.Generator) -> Ids:
    """[G] the fold of each graph: whole groups, the largest first, each into the fold with the fewest graphs. Groups of
    equal size come in random order."""
    group = group_numbers(graphs, kind)
    members = np.bincount(group)
    if len(members) < k:
        raise UserError(f"{graphs.name}: {len(members)} {GROUPS[kind]} cannot make {k} folds")
    order = generator.permutation(len(members))
    order = order[np.argsort(-members[order], kind="stable")]
    fold = np.empty(len(members), dtype=np.int64)
    loads = [(0, i) for i in range(k)]
    for number in order:
        load, place = loads[0]
        fold[number] = place
        heapq.heapreplace(loads, (load + int(members[number]), place))
    return fold[group]


QUANTILES, RARE = 10, 10
"""Strata of a regression target; label combinations with fewer graphs than this share one stratum."""


def strata_of(graphs: GraphSet) -> Ids:
    """[G] the stratum of each graph; a stratified split keeps the proportions of strata.

    Strata are classes; for regression, deciles of the first target column, and one for missing values; for multi-label
    tasks, combinations of labels, with the rare ones combined (only for `holdout`: splits and folds use
    `sides_by_labels`).
    """
    if graphs.targets is None:
        return graphs.y
    if graphs.task == "regression":
        column = graphs.targets[:, 0]
        known = np.flatnonzero(~np.isnan(column))
        stratum = np.full(graphs.n_graphs, QUANTILES, np.int64)
        order = known[np.argsort(column[known], kind="stable")]
        stratum[order] = np.arange(len(order)) * QUANTILES // max(len(order), 1)
        return np.unique(stratum, return_inverse=True)[1].astype(np.int64)
    _, pattern, count = np.unique(np.nan_to_num(graphs.targets), axis=0, return_inverse=True, return_counts=True)
    pattern = np.where(count[pattern.ravel()] < RARE, len(count), pattern.ravel())
    return np.unique(pattern, return_inverse=True)[1].astype(np.int64)


def sides_by_shares(y: Ids, sizes: Ids, generator: np.random.Generator) -> Ids:
    """[G] the side of each graph. Sides have exactly these sizes, and classes their proportion up to one graph."""
    members = np.bincount(y)
    quota = np.outer(members, sizes) // len(y)
    room = sizes - quota.sum(axis=0)
    for c, left in enumerate(members - quota.sum(axis=1)):
        # Giving the remaining graphs of a class to the sides that lack most always works out (Gale and Ryser).
        lacking = np.argsort(-room, kind="stable")[:left]
        quota[c, lacking] += 1
        room[lacking] -= 1
    side = np.empty(len(y), dtype=np.int64)
    for c in range(len(members)):
        side[generator.permutation(np.flatnonzero(y == c))] = np.repeat(np.arange(3), quota[c])
    return side


def sides_by_labels(labels: NDArray[np.bool_], sizes: Ids, generator: np.random.Generator) -> Ids:
    """[G] the side of each graph by iterative stratification (Sechidis et al. 2011); labels [G, T] are True for 1.

    The rarest label comes first: each of its graphs goes to the side that lacks most graphs with this label. Graphs
    without a label fill the sides.
    """
    n = len(labels)
    lacking = np.outer(labels.sum(0), sizes / n)
    room = sizes.astype(np.float64)
    side = np.full(n, -1, np.int64)
    while (count := labels[side < 0].sum(0)).any():
        rarest = int(np.argmin(np.where(count > 0, count, n + 1)))
        for graph in generator.permutation(np.flatnonzero((side < 0) & labels[:, rarest])):
            chosen = max(np.flatnonzero(room), key=lambda s: (lacking[rarest, s], room[s]))
            side[graph] = chosen
            lacking[labels[graph], chosen] -= 1
            room[chosen] -= 1
    side[generator.permutation(np.flatnonzero(side < 0))] = np.repeat(np.arange(len(sizes)), room.astype(np.int64))
    return side


def scaffolds_of(molecules: Iterable[str] | GraphSet) -> Iterator[str]:
    """The Bemis–Murcko scaffold of each molecule, as canonical SMILES without stereo.

    A scaffold is a molecule without its side chains: its rings and the chains between them. All molecules without a
    ring share the empty scaffold.
    """
    from cgipool.data.molecules import MurckoScaffold, rdBase

    with rdBase.BlockLogs():
        for molecule in molecules_of(molecules):
            yield MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=False)


def _parsed(smiles: Iterable[str]) -> "Iterable[Chem.Mol]":
    from cgipool.data.molecules import NotAMoleculeError, parse_smiles

    for number, text in enumerate(smiles):
        try:
            yield parse_smiles(text)
        except NotAMoleculeError as error:
            raise UserError(f"molecule {number}, {text!r}: {error}") from None


def scaffold_numbers(molecules: Iterable[str] | GraphSet) -> Ids:
    """[N] the number of each molecule's scaffold, in the order of first appearance."""
    number: dict[str, int] = {}
    found = scaffolds_of(molecules)
    return np.fromiter((number.setdefault(scaffold, len(number)) for scaffold in found), np.int64)


def molecules_of(molecules: Iterable[str] | GraphSet) -> "Iterable[Chem.Mol]":
    """The molecules of SMILES, or of a set, rebuilt from its columns without isotopes and stereo."""
    if not isinstance(molecules, GraphSet):
        return _parsed(molecules)
    graphs = molecules
    if not is_molecules(graphs):
        lacks = "does not have the columns of a set of molecules"
        raise UserError(f"{graphs.name} {lacks}, so it has no scaffolds or clusters to split by")
    return (_sanitised(graphs, g) for g in range(graphs.n_graphs))


def _sanitised(graphs: GraphSet, g: int) -> "Chem.Mol":
    from cgipool.data.molecules import Chem, parse_smiles, rebuilt

    try:
        built = rebuilt(graphs, g)
        Chem.SanitizeMol(built)
    except (KeyError, ValueError, RuntimeError):
        raise UserError(f"graph {g} of {graphs.name} cannot be rebuilt as a molecule; give the SMILES") from None
    # Explicit hydrogen counts would leave radicals where side chains are cut off; a SMILES has implicit ones.
    return parse_smiles(Chem.MolToSmiles(built))


def cluster_numbers(molecules: Iterable[str] | GraphSet, similar: float = SIMILAR) -> Ids:
    """[N] the number of each molecule's cluster by the algorithm of Butina (1999), the largest cluster first.

    The first cluster is the molecule with the most neighbours and these neighbours: all molecules whose Tanimoto
    similarity of ECFP4 fingerprints is at least `similar`. This is repeated with the remaining molecules. Ties keep
    input order.
    """
    bits = _fingerprints(molecules)
    near = _neighbours(bits, similar)
    cluster = np.full(bits.shape[0], -1, np.int64)
    for centre in np.argsort([-len(places) for places in near], kind="stable"):
        if cluster[centre] < 0:
            free = near[centre][cluster[near[centre]] < 0]
            cluster[free] = cluster.max() + 1
    return cluster


def _fingerprints(molecules: Iterable[str] | GraphSet) -> "csr_array":
    """[N, BITS] 1 where a molecule has a bit."""
    from rdkit.Chem import rdFingerprintGenerator
    from scipy.sparse import csr_array

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    rows = [np.array(generator.GetFingerprint(molecule).GetOnBits(), np.int32) for molecule in molecules_of(molecules)]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    places = np.concatenate([np.empty(0, np.int32), *rows])
    return csr_array((np.ones(len(places), np.int32), places, ptr), shape=(len(rows), BITS))


def _neighbours(bits: "csr_array", similar: float) -> list[Ids]:
    """For each molecule the similar ones, itself included. Molecules without any bit are similar to each other."""
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
