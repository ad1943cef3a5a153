"""Splits by Bemis–Murcko scaffold: the molecules of one scaffold are all on one side.

A scaffold is what is left of a molecule without its side chains: rings, and the chains between them. All molecules
without a ring have the same, empty scaffold. Needs RDKit, the extra `chem`.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.chem import Chem, MurckoScaffold, rdBase
from cgipool.data.molecules import ATOM, BOND, NotAMoleculeError, parse_smiles, rebuilt
from cgipool.data.splits import MIN_GRAPHS, Split, generator_of, side_of_class, sizes_of
from cgipool.errors import UserError, are, counted

Ints = NDArray[np.int64]


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
    return [_draw(group, seed, index) for index in wanted]


def scaffolds_of(molecules: Iterable[str] | GraphSet) -> Iterator[str]:
    """The scaffold of each molecule as canonical SMILES without stereo, empty for one without rings."""
    found = _rebuilt(molecules) if isinstance(molecules, GraphSet) else _parsed(molecules)
    with rdBase.BlockLogs():
        for molecule in found:
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


def _draw(group: Ints, seed: int, index: int) -> Split:
    n, members = len(group), np.bincount(group)
    if len(members) < 3:
        raise UserError(f"a split needs at least 3 scaffolds; the {n} molecules have {len(members)}")
    generator = generator_of(seed, index)
    side = side_of_class(members, sizes_of(n), generator)
    _fill_empty(side, members, generator)
    train, val, test = (np.flatnonzero(side[group] == s) for s in range(3))
    return Split(index, train, val, test)


def _fill_empty(side: Ints, members: Ints, generator: np.random.Generator) -> None:
    """Give each empty side a smallest scaffold of a side that has several; among equals it is drawn."""
    order = generator.permutation(len(members))
    order = order[np.argsort(members[order], kind="stable")]
    for empty in np.flatnonzero(np.bincount(side, minlength=3) == 0):
        spare = np.bincount(side, minlength=3)[side[order]] > 1
        side[order[np.argmax(spare)]] = empty


def _rebuilt(graphs: GraphSet) -> "Iterable[Chem.Mol]":
    """The molecules of a set, from its columns; what no column tells (isotopes, stereo) does not matter here."""
    if len(graphs.category_names) != len(ATOM) or len(graphs.edge_category_names) != len(BOND):
        raise UserError(f"{graphs.name} has not the columns of a set of molecules, so it has no scaffolds to split by")
    return (_molecule(graphs, g) for g in range(graphs.n_graphs))


def _molecule(graphs: GraphSet, g: int) -> "Chem.Mol":
    try:
        built = rebuilt(graphs, g)
        Chem.SanitizeMol(built)
    except (KeyError, ValueError, RuntimeError):
        raise UserError(f"graph {g} of {graphs.name} cannot be put back as a molecule; give the SMILES") from None
    # Hydrogens that are fixed would leave holes where side chains are cut off; those of a SMILES grow back.
    return parse_smiles(Chem.MolToSmiles(built))
