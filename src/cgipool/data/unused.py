"""What a set holds and a training does not use, said in plain sentences."""

from collections.abc import Iterator

from cgipool.data.catalogue import CATALOGUE
from cgipool.data.graphs import GraphSet
from cgipool.errors import UnusedDataWarning, warn_user
from cgipool.words import counted

ONE_WAY = "one-way edges completed"
"""How a set names, in `dropped`, edges that its source lists in one direction only."""

DISCARDED = "direction is discarded"


def warn_of_unused(graphs: GraphSet, attributes: bool) -> None:
    """One warning for each thing that is left out; `attributes` says whether node attributes are used.

    The sets of the catalogue are known, and so is what the paper's protocol leaves out: they get a single note.
    """
    left_out = [f"{thing} are not used{why}" for thing, why in _unused(graphs, attributes)]
    if one_way := graphs.dropped.get(ONE_WAY):
        left_out.append(f"{DISCARDED}: {counted(one_way, 'one-way edge')} count in both directions")
    if graphs.name in CATALOGUE and left_out:
        left_out = ["; ".join(left_out)]
    for said in left_out:
        warn_user(f"{graphs.name}: {said}", UnusedDataWarning)


def _unused(graphs: GraphSet, attributes: bool) -> Iterator[tuple[str, str]]:
    """What is not used, and what to know about it."""
    if graphs.attributes is not None and not attributes:
        alone = "" if graphs.category is not None else " and nodes have no labels, so only their degrees are seen"
        alone += "; set attributes=true to use them"
        yield f"node attributes ({_columns(graphs.attributes.shape[1])})", alone
    if graphs.edge_weight is not None:
        yield "edge weights", ""
    if graphs.edge_category is not None:
        yield f"edge labels ({_columns(graphs.edge_category.shape[1])})", ""
    if graphs.edge_attributes is not None:
        yield f"edge attributes ({_columns(graphs.edge_attributes.shape[1])})", ""


def _columns(count: int) -> str:
    return counted(count, "column")
