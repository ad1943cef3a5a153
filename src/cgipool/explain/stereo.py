"""Stereo of a rebuilt molecule, from the CIP labels in its graph's columns. Needs RDKit, the extra `chem`."""

from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdCIPLabeler

from cgipool.data.graphs import GraphSet
from cgipool.data.molecules import ATOM, BOND, CIP_STEPS

CW, CCW = Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW
CIS, TRANS = Chem.BondStereo.STEREOCIS, Chem.BondStereo.STEREOTRANS
ROUNDS = 20
"""At most this many times labels are assigned; drugs take one or two."""
UNLABELLED = ("none", "unknown")


def restore_stereo(molecule: "Chem.RWMol", graph: GraphSet) -> None:
    """Give the centres and double bonds of a molecule the CIP labels that the columns of its graph, a set of one, hold.

    What cannot be made to match is left unspecified, so the molecule is never another isomer.
    """
    wanted = _labelled_atoms(molecule, graph) + _labelled_bonds(molecule, graph)
    try:
        with rdBase.BlockLogs():
            _settle(molecule, wanted)
    except RuntimeError:  # the CIP rules take too long
        for thing, _ in wanted:
            _clear(thing)


def _settle(molecule: "Chem.RWMol", wanted: list[tuple[Any, str]]) -> None:
    """Invert what has a wrong label until all labels are right; then clear what is still wrong.

    A label may depend on others. So one round is not always enough, and where inverting all at once does not help,
    as for the two centres of 1,4-dimethylcyclohexane, one is inverted at a time.
    """
    before = len(wanted) + 1
    for turn in range(min(2 * len(wanted), ROUNDS)):
        wrong = [thing for thing in _wrong(molecule, wanted) if thing.HasProp("_CIPCode")]
        if not wrong:
            break
        for thing in wrong if len(wrong) < before else [wrong[turn % len(wrong)]]:
            _invert(thing)
        before = len(wrong)
    while wrong := _wrong(molecule, wanted):
        for thing in wrong:
            _clear(thing)
        wanted = [(thing, label) for thing, label in wanted if _is_set(thing)]


def _wrong(molecule: "Chem.RWMol", wanted: list[tuple[Any, str]]) -> list[Any]:
    """Atoms and bonds whose label is not the wanted one."""
    for thing, _ in wanted:
        thing.ClearProp("_CIPCode")
    if wanted:
        rdCIPLabeler.AssignCIPLabels(molecule, maxRecursiveIterations=CIP_STEPS)
    return [thing for thing, label in wanted if not thing.HasProp("_CIPCode") or thing.GetProp("_CIPCode") != label]


def _labelled_atoms(molecule: "Chem.RWMol", graph: GraphSet) -> list[tuple[Any, str]]:
    assert graph.category is not None
    column = list(ATOM).index("chirality")
    labels = [graph.category_names[column][code] for code in graph.category[:, column]]
    found = [(molecule.GetAtomWithIdx(i), label) for i, label in enumerate(labels) if label not in UNLABELLED]
    for atom, _ in found:
        atom.SetChiralTag(CW)
    return found


def _labelled_bonds(molecule: "Chem.RWMol", graph: GraphSet) -> list[tuple[Any, str]]:
    assert graph.edge_category is not None
    column, found = list(BOND).index("stereo"), []
    for source, step, code in zip(graph.edge_source, graph.edge_disp, graph.edge_category[:, column], strict=True):
        label = graph.edge_category_names[column][code]
        bond = molecule.GetBondBetweenAtoms(int(source), int(source + step))
        if step < 0 or label in UNLABELLED or bond.GetBondType() != Chem.BondType.DOUBLE:
            continue
        ends = bond.GetBeginAtom(), bond.GetEndAtom()
        beside = [
            [a.GetIdx() for a in end.GetNeighbors() if a.GetIdx() != other.GetIdx()]
            for end, other in (ends, ends[::-1])
        ]
        if all(beside):
            bond.SetStereoAtoms(beside[0][0], beside[1][0])
            bond.SetStereo(CIS)
            found.append((bond, label))
    return found


def _is_set(thing: Any) -> bool:
    if isinstance(thing, Chem.Atom):
        return thing.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED
    return thing.GetStereo() != Chem.BondStereo.STEREONONE


def _invert(thing: Any) -> None:
    if isinstance(thing, Chem.Atom):
        thing.SetChiralTag(CCW if thing.GetChiralTag() == CW else CW)
    else:
        thing.SetStereo(TRANS if thing.GetStereo() == CIS else CIS)


def _clear(thing: Any) -> None:
    if isinstance(thing, Chem.Atom):
        thing.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    else:
        thing.SetStereo(Chem.BondStereo.STEREONONE)
