"""Draw a graph as it is, without an explanation: a molecule by RDKit, any other graph by a layout of its nodes.

The drawing is an SVG element whose colours are those of the page around it, so that it is legible on light and dark.
"""

import importlib.util
from typing import Any

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.explain.picture import layout, rough_layout, steps

MOST_NODES, MOST_EDGES = 400, 1500
"""Larger graphs are not drawn: nothing could be seen, and the page would be large."""

EXACT = 120
"""Nodes up to which the layout uses the distances between all nodes."""

COLOURS = {"#000000": "currentColor", "#0000FF": "var(--accent)", "#FF0000": "var(--down)", "#CCCC00": "#a88b00"}
"""RDKit's colours of carbon, nitrogen, oxygen and sulphur, and what a page with two themes shows instead."""


def drawing(graph: GraphSet, wide: int = 300, high: int = 210) -> str:
    """The drawing of a set of one graph, an SVG element of this size; nothing if the graph is too large."""
    if graph.n_nodes == 0 or graph.n_nodes > MOST_NODES or graph.n_edges // 2 > MOST_EDGES:
        return ""
    if graph.featurizer is not None and importlib.util.find_spec("rdkit") is not None:
        from cgipool.explain.molecule import molecule_of

        if (molecule := molecule_of(graph)) is not None:
            return _molecule(molecule, wide, high)
    return _nodes(graph, wide, high)


def _molecule(molecule: object, wide: int, high: int) -> str:
    from rdkit.Chem.Draw import rdMolDraw2D

    canvas: Any = rdMolDraw2D.MolDraw2DSVG(wide, high, -1, -1, True)
    options = canvas.drawOptions()
    options.prepareMolsBeforeDrawing = False  # it is kekulised and laid out already
    options.clearBackground = False
    options.flagCloseContactsDist = -1  # no red boxes where atoms are close
    options.fixedBondLength = 30.0  # a maximum: small molecules are not enlarged
    options.padding = 0.08
    options.scaleBondWidth = True  # thin lines in large molecules
    canvas.DrawMolecule(molecule)
    canvas.FinishDrawing()
    content = canvas.GetDrawingText().partition("<!-- END OF HEADER -->\n")[2].rpartition("</svg>")[0]
    # RDKit places letters by the widths of Arial; a wider font would make them overlap.
    content = content.replace("font-family:sans-serif", "font-family:Arial,Liberation Sans,Helvetica,sans-serif")
    for theirs, ours in COLOURS.items():
        content = content.replace(theirs, ours)
    return _element(content, wide, high)


def _nodes(graph: GraphSet, wide: int, high: int) -> str:
    ends = np.stack([graph.edge_source, graph.edge_source + graph.edge_disp], 1).astype(np.int64)
    edges, n = ends[graph.edge_disp > 0], graph.n_nodes
    place = layout(steps(n, edges)) if n <= EXACT else rough_layout(n, edges)
    span, margin = np.ptp(place, 0), 12.0
    scale = min((np.array([wide, high]) - 2 * margin) / np.maximum(span, 1e-9))
    at = (place - place.min(0) - span / 2) * min(scale, 60.0) + np.array([wide, high]) / 2
    lines = "".join(f"M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}" for a, b in at[edges])
    radius = float(np.clip(40.0 / np.sqrt(n), 1.6, 5.5))
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>' for x, y in at)
    content = (
        f'<path d="{lines}" fill="none" stroke="currentColor" stroke-opacity="0.35" stroke-width="1"/>'
        f'<g fill="var(--accent)">{dots}</g>'
    )
    return _element(content, wide, high)


def _element(content: str, wide: int, high: int) -> str:
    return f'<svg viewBox="0 0 {wide} {high}" role="img" aria-label="drawing of the graph">{content}</svg>'
