"""Rebuild a molecule from its graph and draw it at every pooling level. Needs RDKit (the extra `chem`).

RDKit draws the panels. The text around them is drawn separately, because RDKit only supports ASCII text.
"""

import contextlib
import io
import textwrap
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import font_manager
from matplotlib.colors import to_rgb
from PIL import Image, ImageDraw, ImageFont
from rdkit import Chem, rdBase
from rdkit.Chem import rdCIPLabeler, rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from cgipool.data.columns import is_molecules
from cgipool.data.graphs import GraphSet
from cgipool.data.molecules import ATOM, BOND, CIP_STEPS, rebuilt
from cgipool.explain.picture import INK, Scale

if TYPE_CHECKING:
    from cgipool.explain.explanation import Explanation

CW, CCW = Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW
CIS, TRANS = Chem.BondStereo.STEREOCIS, Chem.BondStereo.STEREOTRANS
ROUNDS = 20
"""Maximum number of times that labels are assigned. Drugs need one or two."""
UNLABELLED = ("none", "unknown")


def restore_stereo(molecule: "Chem.RWMol", graph: GraphSet) -> None:
    """Set the stereo of atoms and double bonds from the CIP labels in the columns of a set of one graph.

    Stereo that cannot be matched is left unspecified, so the result is never a different isomer.
    """
    labels = _labelled_atoms(molecule, graph) + _labelled_bonds(molecule, graph)
    try:
        with rdBase.BlockLogs():
            _assign(molecule, labels)
    except RuntimeError:  # the CIP rules take too long
        for thing, _ in labels:
            _clear(thing)


def _assign(molecule: "Chem.RWMol", labels: list[tuple[Any, str]]) -> None:
    """Invert atoms and bonds with a wrong label until all labels are right, then clear those that are still wrong.

    Labels can depend on each other, so one round may not be enough. If inverting all at once does not help, as for the
    two centres of 1,4-dimethylcyclohexane, one is inverted at a time.
    """
    before = len(labels) + 1
    for turn in range(min(2 * len(labels), ROUNDS)):
        wrong = [thing for thing in _wrong(molecule, labels) if thing.HasProp("_CIPCode")]
        if not wrong:
            break
        for thing in wrong if len(wrong) < before else [wrong[turn % len(wrong)]]:
            _invert(thing)
        before = len(wrong)
    while wrong := _wrong(molecule, labels):
        for thing in wrong:
            _clear(thing)
        labels = [(thing, label) for thing, label in labels if _is_set(thing)]


def _wrong(molecule: "Chem.RWMol", labels: list[tuple[Any, str]]) -> list[Any]:
    """The atoms and bonds whose computed label differs from the given one."""
    for thing, _ in labels:
        thing.ClearProp("_CIPCode")
    if labels:
        rdCIPLabeler.AssignCIPLabels(molecule, maxRecursiveIterations=CIP_STEPS)
    return [thing for thing, label in labels if not thing.HasProp("_CIPCode") or thing.GetProp("_CIPCode") != label]


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
    """Return the molecule of a set of one graph, with 2D coordinates; None if the columns are not from our featurizer.

    Stereo comes from the CIP labels. Isotopes and the direction of dative bonds are not in the columns.
    """
    if graph.category is None or graph.edge_category is None:
        return None
    if not is_molecules(graph):
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


def draw_level(one: "Explanation", level: int, wide: int, high: int) -> tuple[str, list[tuple[float, float]]]:
    """Draw one level as the content of an SVG element of this size; also return the positions of the n atoms.

    Level 0 is the input. Letters are SVG text.
    """
    canvas = _drawn(rdMolDraw2D.MolDraw2DSVG(wide, high, -1, -1, True), one, level)
    points = (canvas.GetDrawCoords(atom) for atom in range(one.graph.n_nodes))
    content = canvas.GetDrawingText().partition("<!-- END OF HEADER -->\n")[2].rpartition("</svg>")[0]
    # RDKit places letters by the widths of Arial; a wider font would make them overlap.
    content = content.replace("font-family:sans-serif", "font-family:Arial,Liberation Sans,Helvetica,sans-serif")
    return content, [(point.x, point.y) for point in points]


def paint_level(one: "Explanation", level: int, wide: int, high: int, sharp: int) -> bytes:
    """Draw one level as PNG, enlarged by the factor `sharp`."""
    return _drawn(rdMolDraw2D.MolDraw2DCairo(sharp * wide, sharp * high), one, level, sharp).GetDrawingText()


def _drawn(canvas: Any, one: "Explanation", level: int, sharp: int = 1) -> Any:
    """Draw the molecule and colour the atoms that a level keeps by their score."""
    options = canvas.drawOptions()
    options.prepareMolsBeforeDrawing = False  # it is kekulised and laid out already
    options.clearBackground = False
    options.useBWAtomPalette()  # colour shows scores and nothing else
    options.flagCloseContactsDist = -1  # no red boxes where atoms are close
    options.bondLineWidth *= sharp
    options.minFontSize, options.maxFontSize = 6 * sharp, 22 * sharp
    options.fixedBondLength = 42.0 * sharp  # a maximum: small molecules are not enlarged
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


def _bonds_among(one: "Explanation", atoms: set[int]) -> list[int]:
    """Indices of the bonds between these atoms."""
    assert one.molecule is not None
    pairs = [pair for pair in one.edges.tolist() if atoms.issuperset(pair)]
    return [one.molecule.GetBondBetweenAtoms(*pair).GetIdx() for pair in pairs]


WIDE, HIGH, LEAST = 340, 280, 760
"""Width and height of a panel and minimum width of a picture, in pixels."""

HEAD, CAPTION, STRIP, LINE = 46, 26, 56, 19
"""Heights of the title, of the captions, of the colour scale and of a line of the notes."""

SHARP = 2
"""Scale factor from SVG to PNG pixels."""

STEPS = 60
"""Number of boxes in the colour scale."""


class TextMark(NamedTuple):
    """A line of text; x is its left end, or its middle if `centred`."""

    x: float
    y: float
    words: str
    size: int
    centred: bool = False


class BoxMark(NamedTuple):
    """A filled rectangle."""

    x: float
    y: float
    wide: float
    high: float
    colour: str


def draw_molecule(one: "Explanation", form: str) -> bytes:
    """Return the picture of all levels in the format "svg" or "png"."""
    wide = max(WIDE * (one.trace.levels + 1), LEAST)
    marks: list[TextMark | BoxMark] = [TextMark(20, HEAD / 2, f"{one.name}: {one.verdict}", 17)]
    for level in range(one.trace.levels + 1):
        marks.append(TextMark(WIDE * (level + 0.5), HEAD + HIGH + CAPTION / 2, one.caption(level), 14, centred=True))
    below = HEAD + HIGH + CAPTION
    if one.scale is not None:
        marks += _scale_marks(one.scale, below + 14)
        below += STRIP
    for line in textwrap.wrap(one.about_colours, wide // 7):
        below += LINE
        marks.append(TextMark(20, below, line, 13))
    make = _svg if form == "svg" else _png
    return make(one, wide, below + LINE, marks)


def _scale_marks(scale: Scale, top: float) -> list[TextMark | BoxMark]:
    left, long, thick = 76.0, 260.0, 13.0
    marks: list[TextMark | BoxMark] = [TextMark(20, top + thick / 2, scale.score, 14)]
    for step in range(STEPS):
        colour = scale.colour(scale.low + (scale.high - scale.low) * (step + 0.5) / STEPS)
        marks.append(BoxMark(left + long * step / STEPS, top, long / STEPS + 0.5, thick, colour))
    for tick in scale.ticks:
        marks.append(TextMark(left + long * scale.share(tick), top + thick + 14, f"{tick:g}", 13, centred=True))
    return marks


def _svg(one: "Explanation", wide: int, high: int, marks: list[TextMark | BoxMark]) -> bytes:
    parts = [f'<rect width="{wide}" height="{high}" fill="#ffffff"/>']
    for level in range(one.trace.levels + 1):
        content, _ = draw_level(one, level, WIDE, HIGH)
        parts.append(f'<svg class="level" x="{WIDE * level}" y="{HEAD}" width="{WIDE}" height="{HIGH}">{content}</svg>')
    for mark in marks:
        if isinstance(mark, BoxMark):
            size = f'width="{mark.wide:.2f}" height="{mark.high:.2f}"'
            parts.append(f'<rect x="{mark.x:.2f}" y="{mark.y:.2f}" {size} fill="{mark.colour}"/>')
        else:
            anchor = ' text-anchor="middle"' if mark.centred else ""
            place = f'x="{mark.x:.2f}" y="{mark.y:.2f}" font-size="{mark.size}"{anchor}'
            parts.append(f'<text class="word" {place}>{escape(mark.words)}</text>')
    style = f".word {{ font-family: sans-serif; fill: {INK}; dominant-baseline: central; }}"
    root = f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">'
    body = "\n".join([root, f"<style>{style}</style>", *parts, "</svg>\n"])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode()


def _png(one: "Explanation", wide: int, high: int, marks: list[TextMark | BoxMark]) -> bytes:
    image = Image.new("RGB", (SHARP * wide, SHARP * high), "white")
    for level in range(one.trace.levels + 1):
        panel = Image.open(io.BytesIO(paint_level(one, level, WIDE, HIGH, SHARP))).convert("RGBA")
        image.paste(panel, (SHARP * WIDE * level, SHARP * HEAD), panel)
    pen, face = ImageDraw.Draw(image), font_manager.findfont("DejaVu Sans")
    for mark in marks:
        x, y = SHARP * mark.x, SHARP * mark.y
        if isinstance(mark, BoxMark):
            pen.rectangle((x, y, x + SHARP * mark.wide, y + SHARP * mark.high), fill=mark.colour)
        else:
            font = ImageFont.truetype(face, 0.93 * SHARP * mark.size)
            pen.text((x, y), mark.words, fill=INK, font=font, anchor="mm" if mark.centred else "lm")
    made = io.BytesIO()
    image.save(made, "PNG")
    return made.getvalue()
