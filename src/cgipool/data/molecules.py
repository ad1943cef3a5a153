"""Molecules as graphs: atoms are nodes, bonds are edges. Needs RDKit, the extra `chem`.

Hydrogens are not nodes but a count at their atom, except where RDKit keeps them as atoms: isotopes ([2H]), H2 and the
like. Stereo is told by CIP labels, which do not depend on how a SMILES is written. Isotopes of other elements, atom
maps and coordinates are not used.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.chem import Chem, rdBase, rdCIPLabeler, rdMolDescriptors
from cgipool.data.importers.gather import Gather
from cgipool.data.importers.options import MAX_ATOMS
from cgipool.data.names import Names
from cgipool.errors import UserError, excerpt

Column = tuple[int, Callable[[Any], str]]
"""The version of a column, raised when it gives another value for the same atom or bond, and how a value is read."""

CIP_STEPS = 100_000
"""After so many steps a label that the CIP rules have not settled is "unknown"; drugs take some hundreds."""


def _stereo(thing: Any) -> str:
    return thing.GetProp("_CIPCode") if thing.HasProp("_CIPCode") else "none"


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


ATOM: dict[str, Column] = {
    "element": (1, lambda atom: atom.GetSymbol()),
    "degree": (1, lambda atom: str(atom.GetDegree())),
    "charge": (1, lambda atom: str(atom.GetFormalCharge())),
    "hydrogens": (1, lambda atom: str(atom.GetTotalNumHs())),
    "aromatic": (1, lambda atom: _yes(atom.GetIsAromatic())),
    "ring": (1, lambda atom: _yes(atom.IsInRing())),
    "hybridisation": (1, lambda atom: str(atom.GetHybridization()).lower()),
    "chirality": (1, _stereo),
}
"""The node label columns, in order. The degree counts neighbours in the graph; chirality is R, S, r, s or none."""

BOND: dict[str, Column] = {
    "type": (1, lambda bond: str(bond.GetBondType()).lower()),
    "stereo": (1, _stereo),
}
"""The edge label columns, in order. Stereo is that of double bonds: E, Z or none."""


class NotAMoleculeError(UserError):
    """Text that RDKit cannot read as a molecule; the message is the reason alone."""


@dataclass(frozen=True)
class MoleculeFeaturizer:
    """A fixed map from molecules to graphs, which can be kept as JSON and applied to new molecules."""

    largest_fragment: bool = False
    """Keep only the fragment with the most heavy atoms: salts and solvents go. Otherwise all stay, as components."""

    def graph(self, smiles: str) -> GraphSet:
        """A set of this one molecule."""
        return self.graphs([smiles], name=smiles)

    def graphs(self, smiles: Iterable[str], name: str = "molecules") -> GraphSet:
        """A set of these molecules, of unknown class; the first that is none is an error with its number from 0."""
        gather = self.gather()
        count = 0
        for text in smiles:
            try:
                self.add(gather, self.trim(parse_smiles(text)))
            except NotAMoleculeError as error:
                raise UserError(f"molecule {count}, {excerpt(text)!r}: {error}") from None
            count += 1
        return self.graph_set(gather, name, [-1] * count, ())

    def graph_set(
        self, gather: Gather, name: str, y: Sequence[int], class_names: Names, graph_ids: Sequence[str] | None = None
    ) -> GraphSet:
        """The set of the molecules that were added."""
        columns = {"category": tuple(ATOM), "edge_category": tuple(BOND)}
        return gather.graph_set(
            name, y, class_names, graph_ids=graph_ids, column_names=columns, featurizer=self.to_json()
        )

    def gather(self) -> Gather:
        """An empty set in the making, with these columns."""
        return Gather(len(ATOM), len(BOND))

    def trim(self, molecule: "Chem.Mol") -> "Chem.Mol":
        """The molecule itself, or its largest fragment where that was asked for and there are several.

        Among fragments with as many heavy atoms the heavier one is taken, then the last by canonical SMILES.
        """
        if not self.largest_fragment:
            return molecule
        try:
            with rdBase.BlockLogs():
                fragments = Chem.GetMolFrags(molecule, asMols=True)
        except Chem.MolSanitizeException as error:
            raise NotAMoleculeError(f"its fragments are no molecules: {excerpt(str(error))}") from None
        return molecule if len(fragments) == 1 else max(fragments, key=_weight)

    def add(self, gather: Gather, molecule: "Chem.Mol") -> None:
        """Add a molecule to a set in the making."""
        _label_stereo(molecule)
        bonds = list(molecule.GetBonds())
        ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
        rows = [tuple(read(bond) for _, read in BOND.values()) for bond in bonds]
        gather.add(molecule.GetNumAtoms(), ends + [(target, source) for source, target in ends])
        gather.nodes.extend(tuple(read(atom) for _, read in ATOM.values()) for atom in molecule.GetAtoms())
        gather.edges.extend(rows + rows)

    def to_json(self) -> dict[str, Any]:
        """The featuriser as plain values; the version of RDKit is a note, its perception may differ between them."""
        return {
            "featurizer": "molecules",
            "atoms": [{"name": name, "version": version} for name, (version, _) in ATOM.items()],
            "bonds": [{"name": name, "version": version} for name, (version, _) in BOND.items()],
            "largest_fragment": self.largest_fragment,
            "rdkit": rdBase.rdkitVersion,
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "MoleculeFeaturizer":
        """The featuriser that `to_json` wrote; one with other columns than this version makes is an error."""
        if not isinstance(plain, dict) or not isinstance(plain.get("largest_fragment"), bool):
            raise UserError("not a saved molecule featuriser")
        made = cls(largest_fragment=plain["largest_fragment"])
        now = made.to_json()
        for key in ("featurizer", "atoms", "bonds"):
            if plain.get(key) != now[key]:
                raise UserError(f"a featuriser with other {key} than this version of cgipool makes: {plain.get(key)}")
        return made


def rebuilt(graphs: GraphSet, g: int) -> "Chem.RWMol":
    """The molecule of a graph with these columns, from what they tell: without stereo and isotopes, and not sanitised.
    A value that is none of an atom or a bond is a KeyError, ValueError or RuntimeError."""
    assert graphs.category is not None
    assert graphs.edge_category is not None
    start, stop = map(int, graphs.node_ptr[g : g + 2])
    first, last = map(int, graphs.edge_ptr[[start, stop]])
    molecule = Chem.RWMol()
    for codes in graphs.category[start:stop]:
        molecule.AddAtom(_atom({key: graphs.category_names[j][codes[j]] for j, key in enumerate(ATOM)}))
    kinds, kind = graphs.edge_category_names, list(BOND).index("type")
    source = np.repeat(np.arange(stop - start), graphs.degree[start:stop])
    for p, step, codes in zip(source, graphs.edge_disp[first:last], graphs.edge_category[first:last], strict=True):
        if step > 0:
            molecule.AddBond(int(p), int(p + step), Chem.BondType.names[kinds[kind][codes[kind]].upper()])
    return molecule


def _atom(values: dict[str, str]) -> "Chem.Atom":
    atom = Chem.Atom(values["element"])
    atom.SetFormalCharge(int(values["charge"]))
    atom.SetNumExplicitHs(int(values["hydrogens"]))
    atom.SetNoImplicit(True)
    atom.SetIsAromatic(values["aromatic"] == "yes")
    return atom


def parse_smiles(text: str, max_atoms: int = MAX_ATOMS) -> "Chem.Mol":
    """The molecule of a SMILES, without a word on stderr. One with more atoms, or with more rings than a tenth of that,
    is not read."""
    plain = text.strip()
    with rdBase.BlockLogs():
        _check_size(len(plain), 10 * max_atoms, lambda: Chem.MolFromSmiles(plain, sanitize=False), max_atoms)
        molecule = Chem.MolFromSmiles(plain)
        return _sound(molecule, lambda: Chem.MolFromSmiles(plain, sanitize=False), "it is no SMILES")


def parse_block(block: str, max_atoms: int = MAX_ATOMS) -> "Chem.Mol":
    """The molecule of a molfile (one record of an SDF without its data), without a word on stderr. For the bound see
    `parse_smiles`."""
    with rdBase.BlockLogs():
        _check_size(len(block), 500 * max_atoms, lambda: Chem.MolFromMolBlock(block, sanitize=False), max_atoms)
        molecule = Chem.MolFromMolBlock(block)
        return _sound(molecule, lambda: Chem.MolFromMolBlock(block, sanitize=False), "it is no molfile")


def _check_size(length: int, longest: int, raw: Callable[[], Any], max_atoms: int) -> None:
    """Raise for a molecule that is too large, before RDKit looks for its rings: that may take very long, much memory,
    or crash. An atom takes a character of text at least, a ring two."""
    if length <= max_atoms // 5:
        return
    if length > longest:
        raise NotAMoleculeError(f"its text has {length:,} characters; at most {longest:,} are read (--max-atoms)")
    if (molecule := raw()) is None:
        return
    atoms = molecule.GetNumAtoms()
    if atoms > max_atoms:
        raise NotAMoleculeError(f"it has {atoms:,} atoms; at most {max_atoms:,} are read (--max-atoms)")
    rings = molecule.GetNumBonds() - atoms + len(Chem.GetMolFrags(molecule))
    if rings > max_atoms // 10:
        raise NotAMoleculeError(f"it has {rings:,} rings; at most {max_atoms // 10:,} are read (--max-atoms)")


def _sound(molecule: Any, raw: Callable[[], Any], unread: str) -> "Chem.Mol":
    """The molecule, or the reason why it is none: `raw` reads the text again without looking at its chemistry."""
    if molecule is not None and molecule.GetNumAtoms():
        return molecule
    if molecule is not None:
        raise NotAMoleculeError("it has no atoms")
    unchecked = raw()
    problems: Sequence[Any] = ()
    with suppress(RuntimeError):  # some that it reads RDKit cannot look at
        problems = () if unchecked is None else Chem.DetectChemistryProblems(unchecked)
    raise NotAMoleculeError(next((excerpt(problem.Message()) for problem in problems), unread))


def _label_stereo(molecule: "Chem.Mol") -> None:
    """Set `_CIPCode` on atoms and bonds with stereo; "unknown" where the rules take too long."""
    with rdBase.BlockLogs():
        try:
            rdCIPLabeler.AssignCIPLabels(molecule, maxRecursiveIterations=CIP_STEPS)
        except RuntimeError:
            for atom in molecule.GetAtoms():
                if atom.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED and not atom.HasProp("_CIPCode"):
                    atom.SetProp("_CIPCode", "unknown")


def _weight(fragment: "Chem.Mol") -> tuple[int, float, str]:
    return fragment.GetNumHeavyAtoms(), rdMolDescriptors.CalcExactMolWt(fragment), Chem.MolToSmiles(fragment)
