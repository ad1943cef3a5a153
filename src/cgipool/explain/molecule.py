"""Molecules as RDKit draws them, with what a model keeps of them. Needs RDKit, the extra `chem`.

Shapes: n atoms, L levels.
"""

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_rgb
from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from cgipool.data.graphs import GraphSet
from cgipool.data.molecules import ATOM, BOND, rebuilt
from cgipool.explain.stereo import restore_stereo

if TYPE_CHECKING:
    from cgipool.explain.one import Explained

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
