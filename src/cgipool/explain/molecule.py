"""Molecules as RDKit draws them, with what a model keeps of them. Needs RDKit, the extra `chem`.

Shapes: n atoms, L levels.
"""

import contextlib
import io
import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps, font_manager
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from cgipool.data.graphs import GraphSet
from cgipool.data.molecules import ATOM, BOND, rebuilt
from cgipool.picture import span_of
from cgipool.words import counted

if TYPE_CHECKING:
    from cgipool.explain.one import Explained

WIDE, HIGH, STRIP = 340, 300, 72
"""Of a panel and of the strip under all panels, in pixels."""

PALE = 0.5
"""How much white the colours of scores are mixed with, so that the letters of atoms stay readable on them."""

KEPT_BOND = (0.82, 0.84, 0.86)


def molecule_of(graph: GraphSet) -> "Chem.Mol | None":
    """The molecule of a set of one graph with the columns of our featuriser, with 2D coordinates; None for others.

    It is for the eye alone: stereo, isotopes and the direction of dative bonds are not in the columns.
    """
    if graph.category is None or graph.edge_category is None:
        return None
    if graph.category.shape[1] != len(ATOM) or graph.edge_category.shape[1] != len(BOND):
        return None
    return _laid_out(rebuilt(graph, 0))


def _laid_out(molecule: "Chem.RWMol") -> "Chem.Mol":
    molecule.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(molecule)
    with rdBase.BlockLogs(), contextlib.suppress(Chem.MolSanitizeException):  # RDKit then draws aromatic bonds dashed
        Chem.Kekulize(molecule, clearAromaticFlags=True)
    rdDepictor.Compute2DCoords(molecule)
    return molecule.GetMol()


def _size(atoms: int, bonds: int) -> str:
    return f"{counted(atoms, 'atom')}, {counted(bonds, 'bond')}"


def draw_molecule(one: "Explained", form: str) -> bytes:
    """A picture, "svg" or "png": the molecule, then each level with the kept atoms coloured by their score."""
    panels, score = one.trace.levels + 1, one.trace.score
    low, high = span_of(score[one.trace.alive])
    alive = [np.zeros(one.graph.n_nodes, bool), *one.trace.alive]
    bonds = [_bonds_among(one.edges, one.molecule, here) for here in alive]
    colours = [{}, *({i: _pale(v, low, high) for i, v in enumerate(row.tolist())} for row in score)]
    left = zip(one.nodes_left, one.edges_left, strict=True)
    said = [f"level {level}: {_size(*here)}" for level, here in enumerate(left, 1)]

    kind = rdMolDraw2D.MolDraw2DSVG if form == "svg" else rdMolDraw2D.MolDraw2DCairo
    canvas = kind(WIDE * panels, HIGH + STRIP, WIDE, HIGH)
    options: Any = canvas.drawOptions()
    options.prepareMolsBeforeDrawing = False  # it is kekulised and laid out already
    options.legendFontSize = 17
    canvas.DrawMolecules(
        [one.molecule] * panels,
        highlightAtoms=[np.flatnonzero(here).tolist() for here in alive],
        highlightBonds=bonds,
        highlightAtomColors=colours,
        highlightBondColors=[dict.fromkeys(some, KEPT_BOND) for some in bonds],
        legends=[f"input: {_size(one.graph.n_nodes, len(one.edges))}", *said],
    )
    canvas.SetFontSize(15)
    if one.trace.ranking is not None:
        _draw_scale(canvas, one.trace.ranking, low, high)
    canvas.FinishDrawing()
    return _captioned(canvas.GetDrawingText(), f"{one.name}: {one.verdict}")


def _captioned(picture: str | bytes, words: str) -> bytes:
    """A drawing with a line under it. RDKit's own text is ASCII, and names of sets and classes need not be."""
    left, middle, size, ink = 20, HIGH + 52, 15, "#333333"
    if isinstance(picture, str):
        style = f'font-family="sans-serif" font-size="{size}" fill="{ink}" dominant-baseline="central"'
        line = f'<text x="{left}" y="{middle}" {style}>{escape(words)}</text>'
        whole = f"{picture.rpartition('</svg>')[0]}{line}\n</svg>\n"
        return whole.encode("ascii", "xmlcharrefreplace")  # it declares another encoding than UTF-8
    image, made = Image.open(io.BytesIO(picture)), io.BytesIO()
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)
    ImageDraw.Draw(image).text((left, middle), words, fill=ink, font=font, anchor="lm")
    image.save(made, "PNG")
    return made.getvalue()


def _bonds_among(edges: NDArray[np.int64], molecule: Any, alive: NDArray[np.bool_]) -> list[int]:
    """The numbers of the bonds between kept atoms."""
    pairs = edges[alive[edges].all(1)].tolist()
    return [molecule.GetBondBetweenAtoms(one, other).GetIdx() for one, other in pairs]


def _pale(value: float, low: float, high: float) -> tuple[float, float, float]:
    """The colour of a score; plain for atoms without one."""
    if math.isnan(value):
        return KEPT_BOND
    share = (value - low) / (high - low) if high > low else 0.5
    red, green, blue, _ = (PALE + (1.0 - PALE) * part for part in colormaps["viridis"](share))
    return red, green, blue


def _draw_scale(canvas: Any, name: str, low: float, high: float) -> None:
    """A strip of colours under the panels, with the scores at its ends."""
    steps, left, top, long, thick = 40, 150.0, HIGH + 16.0, 200.0, 14.0
    canvas.SetFillPolys(True)
    for step in range(steps):
        canvas.SetColour(_pale(low + (high - low) * (step + 0.5) / steps, low, high))
        start = left + long * step / steps
        canvas.DrawRect(Point2D(start, top), Point2D(start + long / steps, top + thick), True)
    canvas.SetColour((0.2, 0.2, 0.2))
    canvas.DrawString(f"{name}  {low:.4f}", Point2D(left - 8, top + thick / 2), 2, True)
    canvas.DrawString(f"{high:.4f}", Point2D(left + long + 8, top + thick / 2), 1, True)
