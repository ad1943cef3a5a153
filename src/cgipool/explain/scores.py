"""The scores that pools rank nodes by: their meaning, their colour scale, and their export as CSV."""

import csv
import math
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TextIO

import numpy as np
from matplotlib.ticker import MaxNLocator
from torch import nn

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, csv_cell
from cgipool.explain.picture import Scale
from cgipool.explain.trace import Trace, member_of, node_names, trace
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict import NOT_FINITE
from cgipool.inference.predict_input import Chunk, graph_chunks, known_to
from cgipool.pool import ASAP, CGIPool, RandomPool, ReleasedCGIPool, SAGPool, TopKPool, VIPool

Range = tuple[float, float] | None
"""The range of a score; None if it is unbounded."""

ONE = 1.0 / (1.0 + math.exp(-1.0))
"""σ(1). The largest y_d, since y_r and y_f lie between 0 and 1."""

NO_DIRECTION = "It ranks the nodes of a level and has no class direction: a high score is not evidence for a class."

ABOUT: dict[type[nn.Module], tuple[Range, str]] = {
    ReleasedCGIPool: (None, "is the difference of two learned scores; kept features are multiplied by its tanh."),
    VIPool: ((0.0, 1.0), "is how well a node fits its neighbourhood, from 0 to 1; kept features are multiplied by it."),
    ASAP: ((0.0, 1.0), "is the fitness of the cluster around a node; kept features are multiplied by it."),
    SAGPool: (None, "is the output of a graph convolution; kept features are multiplied by its tanh."),
    TopKPool: (None, "is the projection on a learned direction; kept features are multiplied by its tanh."),
    RandomPool: ((0.0, 1.0), "is a random number: this method keeps random nodes."),
}
"""For each pool, the range and the meaning of the score that it ranks nodes by."""


def scale_of(pool: nn.Module, trace: Trace) -> Scale | None:
    """Return the colour scale of the score that a pool ranks nodes by; None if it reports no score.

    The scale does not adapt to the range of the scores, so similar scores always get similar colours.
    """
    name = trace.ranking
    if name is None:
        return None
    bounds, about = _about(pool)
    meaning = f"{name} {about} {NO_DIRECTION}"
    if bounds is not None:
        return Scale(name, *bounds, meaning, f"The scale spans all values that {name} can take.")
    known = np.abs(trace.score[np.isfinite(trace.score)])
    end = float(MaxNLocator(1, steps=[1, 2, 5, 10]).tick_values(0.0, float(known.max(initial=0.0)) or 1.0)[-1])
    return Scale(name, -end, end, meaning, "The scale is symmetric around 0 and covers all levels of this graph.")


def _about(pool: nn.Module) -> tuple[Range, str]:
    if isinstance(pool, CGIPool):
        if pool.negative == "random":
            return (0.0, 1.0), "is a learned gate, from 0 to 1; kept features are multiplied by it."
        return (1.0 - ONE, ONE), "= σ(y_r − y_f) is a learned gate; kept features are multiplied by it."
    return ABOUT.get(type(pool), (None, "is the score that the method ranks nodes by."))


def write_scores(
    out: TextIO, model: FittedModel, graphs: GraphSet, member: int = 0, ids: Iterable[str] = ()
) -> tuple[int, int]:
    """Write the scores of every node as CSV; return the number of graphs and how many of them could not be read.

    Columns: graph, its id if the set has ids, node, its name if nodes have names, the level that dropped it (blank if
    it was kept), every score of every level (y_d_2 is y_d at level 2, blank for a node dropped earlier), and the reason
    why a graph could not be read. `ids` are the ids of the graphs, if they have any. Graphs are read in chunks, so
    memory does not grow with their number.
    """
    alone = member_of(model, member)
    table = csv.writer(out, lineterminator="\n")
    count, unread = 0, 0
    heads: list[str] | None = None
    known = iter(ids)
    first = next(known, None)
    own = None if first is None else chain([first], known)
    for chunk in known_to(alone, graph_chunks(graphs)):
        starts = [[str(count + place)] for place in range(len(chunk.ids))]
        count, unread = count + len(starts), unread + len(chunk.reasons)
        found = None if chunk.graphs is None else trace(alone, chunk.graphs)
        if heads is None:
            if found is None or chunk.graphs is None:
                raise UserError(f"not one of the first {count} graphs can be read; graph 0: {chunk.reasons[0]}")
            heads = ["graph"] if own is None else ["graph", "id"]
            heads += ["node", "name", "dropped"] if node_names(chunk.graphs) else ["node", "dropped"]
            heads += [f"{name}_{level + 1}" for level in range(found.levels) for name in found.scores] + ["reason"]
            table.writerow(heads)
        if own is not None:
            starts = [[*start, csv_cell(name)] for start, name in zip(starts, islice(own, len(starts)), strict=False)]
        if len(starts) < len(chunk.ids):
            raise UserError(f"{graphs.name} has more graphs than ids")
        unread += 0 if found is None else int(found.unsure.sum())
        table.writerows(_rows(chunk, starts, found, len(heads)))
    if not count:
        raise UserError(f"{graphs.name}: there are no graphs")
    return count, unread


def _rows(chunk: Chunk, starts: list[list[str]], found: Trace | None, width: int) -> Iterator[list[str]]:
    """The rows of a chunk's graphs, in order; `starts` are the first cells of each graph."""
    blank = [""] * (width - len(starts[0]) - 1)
    if chunk.graphs is None or found is None:
        yield from ([*start, *blank, csv_cell(chunk.reasons[place])] for place, start in enumerate(starts))
        return
    columns = [found.scores[name][level] for level in range(found.levels) for name in found.scores]
    scores = np.stack(columns, 1) if columns else np.empty((chunk.graphs.n_nodes, 0))
    dropped, ends, graph, names = found.dropped, chunk.graphs.node_ptr.tolist(), 0, node_names(chunk.graphs)
    for place, start in enumerate(starts):
        if place in chunk.reasons:
            yield [*start, *blank, csv_cell(chunk.reasons[place])]
            continue
        first, last = ends[graph : graph + 2]
        graph += 1
        if found.unsure[graph - 1]:
            yield [*start, *blank, NOT_FINITE]
            continue
        for node in range(first, last):
            numbers = ["" if value != value else f"{value:.6g}" for value in scores[node].tolist()]
            level = int(dropped[node])
            yield [
                *start,
                str(node - first),
                *map(csv_cell, names[node : node + 1]),
                str(level) if level else "",
                *numbers,
                "",
            ]
