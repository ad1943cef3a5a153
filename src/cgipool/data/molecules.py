"""Convert molecules to graphs: atoms are nodes, bonds are edges. Needs RDKit, the extra `chem`.

Hydrogens are a count at their atom, not nodes, unless RDKit keeps them as atoms: isotopes ([2H]), H2 and a few others.
Stereo is given by CIP labels, which do not depend on how a SMILES is written. Atom maps and coordinates are not used.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.columns import LABELS
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import MAX_ATOMS
from cgipool.data.join import GraphSetBuilder
from cgipool.data.names import Names
from cgipool.errors import UserError, excerpt

try:
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdCIPLabeler, rdMolDescriptors
    from rdkit.Chem.Scaffolds import MurckoScaffold as MurckoScaffold  # used in groups.py
except ImportError:
    raise UserError("molecules need RDKit: pip install 'cgipool[chem]'") from None

Column = tuple[int, Callable[[Any], str]]
"""The version of a column, which increases when its values change, and the function that reads a value."""

CIP_STEPS = 100_000
"""Maximum number of steps of the CIP rules, after which a label is "unknown". Drugs need a few hundred."""


def _stereo(thing: Any) -> str:
    return thing.GetProp("_CIPCode") if thing.HasProp("_CIPCode") else "none"


# Look-up tables, because these functions run for every atom and bond.
_YES = {False: "no", True: "yes"}
_HYBRIDISATION = {kind: str(kind).lower() for kind in Chem.HybridizationType.values.values()}
_BOND_TYPE = {kind: str(kind).lower() for kind in Chem.BondType.values.values()}


ATOM: dict[str, Column] = {
    "element": (1, lambda atom: atom.GetSymbol()),
    "degree": (1, lambda atom: str(atom.GetDegree())),
    "charge": (1, lambda atom: str(atom.GetFormalCharge())),
    "hydrogens": (1, lambda atom: str(atom.GetTotalNumHs())),
    "aromatic": (1, lambda atom: _YES[atom.GetIsAromatic()]),
    "ring": (1, lambda atom: _YES[atom.IsInRing()]),
    "hybridisation": (1, lambda atom: _HYBRIDISATION[atom.GetHybridization()]),
    "chirality": (1, _stereo),
    "mass": (1, lambda atom: str(round(atom.GetMass()))),
}
"""The node label columns, in order. The degree counts neighbours in the graph; chirality is R, S, r, s or none. The
mass is a category because it only adds information for isotopes: otherwise it follows from the element."""

BOND: dict[str, Column] = {
    "type": (1, lambda bond: _BOND_TYPE[bond.GetBondType()]),
    "stereo": (1, _stereo),
    "conjugated": (1, lambda bond: _YES[bond.GetIsConjugated()]),
    "ring": (1, lambda bond: _YES[bond.IsInRing()]),
}
"""The edge label columns, in order. Stereo is that of double bonds: E, Z or none."""

Own = Callable[[Any], Mapping[str, Any]]
"""A user's function for further features: takes an RDKit molecule and returns numbers, "atoms" [atoms, K] and "bonds"
[bonds, K] in RDKit's order, or one of them."""


class NotAMoleculeError(UserError):
    """Text that RDKit cannot read as a molecule. The message is only the reason."""


@dataclass(frozen=True)
class MoleculeFeaturizer:
    """A fixed map from molecules to graphs, which can be saved as JSON and applied to new molecules."""

    largest_fragment: bool = False
    """Keep only the fragment with the most heavy atoms, which removes salts and solvents. By default all fragments are
    kept, as components of the graph."""
    own: str | None = None
    """A function of your own, MODULE:FUNCTION, whose numbers become attributes of atoms and bonds; see `Own`."""
    atoms: Names = field(default=tuple(ATOM), kw_only=True)
    """The node label columns; earlier versions had fewer."""
    bonds: Names = field(default=tuple(BOND), kw_only=True)
    """The edge label columns."""

    @cached_property
    def _own(self) -> "OwnFeatures | None":
        return None if self.own is None else OwnFeatures(self.own)

    def graph(self, smiles: str) -> GraphSet:
        """A set with only this molecule."""
        return self.graphs([smiles], name=smiles)

    def graphs(self, smiles: Iterable[str], name: str = "molecules") -> GraphSet:
        """A set of these molecules, without classes. Raise UserError for the first text that is not a molecule."""
        builder = self.builder()
        count = 0
        for text in smiles:
            try:
                self.add(builder, self.trim(parse_smiles(text)))
            except NotAMoleculeError as error:
                raise UserError(f"molecule {count}, {excerpt(text)!r}: {error}") from None
            count += 1
        return self.graph_set(builder, name, [-1] * count, ())

    def graph_set(
        self,
        builder: GraphSetBuilder,
        name: str,
        y: Sequence[int],
        class_names: Names,
        graph_ids: Sequence[str] | None = None,
    ) -> GraphSet:
        """Build the set of the molecules that were added."""
        names = {"category": self.atoms, "edge_category": self.bonds}
        columns: dict[str, Any] = {"column_names": names, "featurizer": self.to_json()}
        return builder.graph_set(name, y, class_names, graph_ids=graph_ids, **columns)

    def builder(self) -> GraphSetBuilder:
        """An empty builder with these columns."""
        widths = (0, 0) if self._own is None else self._own.widths
        return GraphSetBuilder(len(self.atoms), len(self.bonds), *widths)

    def trim(self, molecule: "Chem.Mol") -> "Chem.Mol":
        """The molecule, or its largest fragment if `largest_fragment` is set. Ties in the number of heavy atoms are
        broken by weight, then by canonical SMILES (the last one wins)."""
        if not self.largest_fragment:
            return molecule
        try:
            with rdBase.BlockLogs():
                fragments = Chem.GetMolFrags(molecule, asMols=True)
        except Chem.MolSanitizeException as error:
            raise NotAMoleculeError(f"a fragment is not a molecule: {excerpt(str(error))}") from None
        return molecule if len(fragments) == 1 else max(fragments, key=_weight)

    def add(self, builder: GraphSetBuilder, molecule: "Chem.Mol") -> None:
        """Add a molecule to a builder."""
        _label_stereo(molecule)
        # By index, because RDKit's iterators are slow: they are written in Python.
        atoms = list(map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms())))
        bonds = list(map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())))
        ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
        of_atoms, of_bonds = ([known[name][1] for name in names] for known, names in self._columns())
        rows = list(zip(*(map(read, bonds) for read in of_bonds), strict=True))
        if self._own is not None:
            builder.add_attributes(*self._own(molecule))
        builder.add(len(atoms), ends + [(target, source) for source, target in ends])
        builder.nodes.extend(zip(*(map(read, atoms) for read in of_atoms), strict=True))
        builder.edges.extend(rows + rows)

    def _columns(self) -> tuple[tuple[dict[str, Column], Names], ...]:
        return (ATOM, self.atoms), (BOND, self.bonds)

    def to_json(self) -> dict[str, Any]:
        """The featurizer as plain values, with the version of RDKit for information."""
        atoms, bonds = (
            [{"name": name, "version": known[name][0]} for name in names] for known, names in self._columns()
        )
        plain = {"featurizer": "molecules", "atoms": atoms, "bonds": bonds, "largest_fragment": self.largest_fragment}
        own = {} if self._own is None else {"own": {"function": self.own, "widths": list(self._own.widths)}}
        return plain | own | {"rdkit": rdBase.rdkitVersion}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "MoleculeFeaturizer":
        """The featurizer that `to_json` wrote. Raise UserError for columns that this version does not know. A user's
        own function is imported, which runs the code of its module."""
        if not isinstance(plain, dict) or not isinstance(plain.get("largest_fragment"), bool):
            raise UserError("not a saved molecule featurizer")
        if plain.get("featurizer") != "molecules":
            raise UserError(f"a featurizer of another kind: {excerpt(str(plain.get('featurizer')))}")
        names: dict[str, Names] = {}
        for key, known in (("atoms", ATOM), ("bonds", BOND)):
            versions = {name: {"name": name, "version": version} for name, (version, _) in known.items()}
            given = plain.get(key)
            if not isinstance(given, list) or not given or any(column not in versions.values() for column in given):
                raise UserError(f"the featurizer has {key} that this version of cgipool does not know: {given}")
            names[key] = tuple(column["name"] for column in given)
        own = plain.get("own") or {}
        made = cls(plain["largest_fragment"], own.get("function"), **names)
        if made._own is not None and list(made._own.widths) != own.get("widths"):
            now, then = list(made._own.widths), own.get("widths")
            raise UserError(
                f"featurizer {made.own} gives {now} columns for atoms and bonds; at training it gave {then}"
            )
        return made


class OwnFeatures:
    """A user's function. Its results are checked: one row per atom or bond, and always the same columns."""

    def __init__(self, name: str) -> None:
        self.name, self._function = name, _function_at(name)
        self.widths: tuple[int, int] = (-1, -1)
        atoms, bonds = self(parse_smiles("CC"))
        self.widths = atoms.shape[1], bonds.shape[1]

    def __call__(self, molecule: "Chem.Mol") -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """[atoms, K] and [bonds, K] numbers."""
        try:
            made = self._function(molecule)
        except Exception as error:
            raise self._wrong(molecule, f"raised {type(error).__name__}: {excerpt(str(error), 200)}") from error
        if not isinstance(made, Mapping) or not set(made) <= {"atoms", "bonds"} or not made:
            raise self._wrong(molecule, 'must return a dictionary with "atoms", "bonds" or both')
        counts = {"atoms": molecule.GetNumAtoms(), "bonds": molecule.GetNumBonds()}
        atoms, bonds = (
            self._checked(molecule, what, made.get(what), count, width)
            for (what, count), width in zip(counts.items(), self.widths, strict=True)
        )
        return atoms, bonds

    def _checked(self, molecule: "Chem.Mol", what: str, given: Any, count: int, width: int) -> NDArray[np.float32]:
        try:
            values = np.zeros((count, 0), np.float32) if given is None else np.asarray(given, np.float32)
        except (TypeError, ValueError):
            raise self._wrong(molecule, f"gave {what} that are not numbers in rows of equal length") from None
        if not values.size and len(values) == count:
            values = np.zeros((count, max(width, 0)), np.float32)
        if values.ndim != 2 or len(values) != count:
            raise self._wrong(
                molecule, f"gave {what} of shape {list(values.shape)}, where [{count}, columns] is needed"
            )
        if width not in (-1, values.shape[1]):
            raise self._wrong(molecule, f"gave {values.shape[1]} columns for {what}, and {width} for other molecules")
        if not np.isfinite(values).all():
            raise self._wrong(molecule, f"gave {what} with NaN or infinite values")
        return values

    def _wrong(self, molecule: "Chem.Mol", what: str) -> UserError:
        return UserError(f"featurizer {self.name} {what}, for the molecule {excerpt(Chem.MolToSmiles(molecule))}")


def _function_at(name: str) -> Own:
    module, _, attribute = name.partition(":")
    if not (attribute.isidentifier() and all(map(str.isidentifier, module.split(".")))):
        raise UserError(f"featurizer {excerpt(name)!r}: name your own function as package.module:function")
    if os.getcwd() not in sys.path:  # a command also looks into the working folder, as `python -m` does
        sys.path.append(os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise UserError(f"featurizer {name!r}: cannot import it: {excerpt(str(error), 200)}") from error
    if not callable(found):
        raise UserError(f"featurizer {name!r} is not a function")
    return found


def rebuilt(graphs: GraphSet, g: int) -> "Chem.RWMol":
    """Rebuild the molecule of a graph from its columns, without stereo and isotopes, not sanitised. Invalid values
    raise KeyError, ValueError or RuntimeError."""
    assert graphs.category is not None
    assert graphs.edge_category is not None
    start, stop = map(int, graphs.node_ptr[g : g + 2])
    first, last = map(int, graphs.edge_ptr[[start, stop]])
    molecule = Chem.RWMol()
    for codes in graphs.category[start:stop]:
        molecule.AddAtom(_atom({key: graphs.category_names[j][codes[j]] for j, key in enumerate(LABELS[0])}))
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
    """Parse a SMILES without RDKit's messages on stderr. Raise NotAMoleculeError if it is invalid, has more than
    `max_atoms` atoms, or more rings than a tenth of that."""
    plain = text.strip()
    with rdBase.BlockLogs():
        _check_size(len(plain), 10 * max_atoms, lambda: Chem.MolFromSmiles(plain, sanitize=False), max_atoms)
        molecule = Chem.MolFromSmiles(plain)
        return _valid(molecule, lambda: Chem.MolFromSmiles(plain, sanitize=False), "it is not valid SMILES")


def parse_block(block: str, max_atoms: int = MAX_ATOMS) -> "Chem.Mol":
    """Parse a molfile (a record of an SDF without its data) without RDKit's messages on stderr. The limits are those of
    `parse_smiles`."""
    with rdBase.BlockLogs():
        _check_size(len(block), 500 * max_atoms, lambda: Chem.MolFromMolBlock(block, sanitize=False), max_atoms)
        molecule = Chem.MolFromMolBlock(block)
        return _valid(molecule, lambda: Chem.MolFromMolBlock(block, sanitize=False), "it is not a valid molfile")


def _check_size(length: int, longest: int, raw: Callable[[], Any], max_atoms: int) -> None:
    """Raise NotAMoleculeError for a molecule that is too large, before RDKit searches its rings, which may take very
    long, much memory, or crash. An atom takes at least one character of text, a ring two."""
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


def _valid(molecule: Any, raw: Callable[[], Any], unread: str) -> "Chem.Mol":
    """The molecule. Raise NotAMoleculeError with the reason if there is none; `raw` reads the text again without
    checking its chemistry."""
    if molecule is not None and molecule.GetNumAtoms():
        return molecule
    if molecule is not None:
        raise NotAMoleculeError("it has no atoms")
    unchecked = raw()
    problems: Sequence[Any] = ()
    with suppress(RuntimeError):  # RDKit cannot check some molecules that it can read
        problems = () if unchecked is None else Chem.DetectChemistryProblems(unchecked)
    raise NotAMoleculeError(next((excerpt(problem.Message()) for problem in problems), unread))


def _label_stereo(molecule: "Chem.Mol") -> None:
    """Set `_CIPCode` on atoms and bonds with stereo; "unknown" if the CIP rules take too long."""
    with rdBase.BlockLogs():
        try:
            rdCIPLabeler.AssignCIPLabels(molecule, maxRecursiveIterations=CIP_STEPS)
        except RuntimeError:
            for atom in molecule.GetAtoms():
                if atom.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED and not atom.HasProp("_CIPCode"):
                    atom.SetProp("_CIPCode", "unknown")


def _weight(fragment: "Chem.Mol") -> tuple[int, float, str]:
    return fragment.GetNumHeavyAtoms(), rdMolDescriptors.CalcExactMolWt(fragment), Chem.MolToSmiles(fragment)
