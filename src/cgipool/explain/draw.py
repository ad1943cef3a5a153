"""A picture of what a model keeps of a graph, as SVG or PNG."""

import io

from cgipool.explain.one import Explained
from cgipool.explain.picture import pooling_figure


def draw(one: Explained, form: str) -> bytes:
    """The file's content in the form "svg" or "png": the graph, then a panel for each level."""
    if one.molecule is not None:
        from cgipool.explain.sheet import draw_molecule

        return draw_molecule(one, form)
    figure = pooling_figure(
        edges=one.edges,
        ringed=one.graph.node_truth,
        alive=one.trace.alive,
        score=one.trace.score,
        title=f"{one.name}: {one.verdict}",
        scale=one.scale,
        names=one.node_names,
    )
    out = io.BytesIO()
    figure.savefig(out, format=form)
    return out.getvalue()
