"""Stereo of a rebuilt molecule, from the CIP labels in its graph's columns. Needs RDKit, the extra `chem`."""

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from rdkit import Chem, rdBase
from rdkit.Chem import rdCIPLabeler, rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from cgipool.data.graphs import GraphSet
from cgipool.data.molecules import ATOM, BOND, CIP_STEPS, rebuilt

if TYPE_CHECKING:
    from cgipool.explain.one import Explained

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


KEPT_BOND = (0.87, 0.88, 0.9)


def molecule_of(graph: GraphSet) -> "Chem.Mol | None":
    """The molecule of a set of one graph with the columns of our featuriser, with 2D coordinates; None for others.

    Stereo comes from the CIP labels. Isotopes and the direction of dative bonds are not in the columns.
    """
    if graph.category is None or graph.edge_category is None:
        return None
    if graph.category.shape[1] != len(ATOM) or graph.edge_category.shape[1] != len(BOND):
        return None
    molecule = rebuilt(graph, 0)
    molecule.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(molecule)
    restore_stereo(molecule, graph)
    with rdBase.BlockLogs(), contextlib.suppress(Chem.MolSanitizeException):  # RDKit then draws aromatic bonds dashed
        Chem.Kekulize(molecule, clearAromaticFlags=True)
    rdDepictor.Compute2DCoords(molecule)
    Chem.WedgeMolBonds(molecule, molecule.GetConformer())
    return molecule.GetMol()


def draw_level(one: "Explained", level: int, wide: int, high: int) -> tuple[str, list[tuple[float, float]]]:
    """One level as the content of an SVG element of this size, whose letters are text, and where the n atoms are.

    Level 0 is the input.
    """
    canvas = _drawn(rdMolDraw2D.MolDraw2DSVG(wide, high, -1, -1, True), one, level)
    points = (canvas.GetDrawCoords(atom) for atom in range(one.graph.n_nodes))
    content = canvas.GetDrawingText().partition("<!-- END OF HEADER -->\n")[2].rpartition("</svg>")[0]
    # RDKit places letters by the widths of Arial; a wider font would make them overlap.
    content = content.replace("font-family:sans-serif", "font-family:Arial,Liberation Sans,Helvetica,sans-serif")
    return content, [(point.x, point.y) for point in points]


def paint_level(one: "Explained", level: int, wide: int, high: int, sharp: int) -> bytes:
    """The same drawing as a PNG with `sharp` pixels along each side of a pixel."""
    return _drawn(rdMolDraw2D.MolDraw2DCairo(sharp * wide, sharp * high), one, level, sharp).GetDrawingText()


def _drawn(canvas: Any, one: "Explained", level: int, sharp: int = 1) -> Any:
    """The molecule with the atoms that a level keeps coloured by their score."""
    options = canvas.drawOptions()
    options.prepareMolsBeforeDrawing = False  # it is kekulised and laid out already
    options.clearBackground = False
    options.useBWAtomPalette()  # colour shows scores and nothing else
    options.flagCloseContactsDist = -1  # no red boxes where atoms are close
    options.bondLineWidth *= sharp
    options.minFontSize, options.maxFontSize = 6 * sharp, 22 * sharp
    options.fixedBondLength = 42.0 * sharp  # at most: small molecules are not blown up
    kept = np.flatnonzero(one.alive(level)).tolist() if level else []
    bonds = _bonds_among(one, set(kept))
    canvas.DrawMolecule(
        one.molecule,
        highlightAtoms=kept,
        highlightBonds=bonds,
        highlightAtomColors={atom: to_rgb(one.colour(level, atom)) for atom in kept},
        highlightBondColors=dict.fromkeys(bonds, KEPT_BOND),
    )
    canvas.FinishDrawing()
    return canvas


def _bonds_among(one: "Explained", atoms: set[int]) -> list[int]:
    """The numbers of the bonds between these atoms."""
    assert one.molecule is not None
    pairs = [pair for pair in one.edges.tolist() if atoms.issuperset(pair)]
    return [one.molecule.GetBondBetweenAtoms(*pair).GetIdx() for pair in pairs]
