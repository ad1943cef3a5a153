"""The scores of every node of many graphs as CSV, a chunk of graphs at a time: memory does not grow with their number.

Columns: graph, node, the level that dropped it (blank if none did), every score of every level (y_d_2 is y_d of level
2, blank for a node that was gone before), and why a graph could not be read.
"""

import csv
from collections.abc import Iterator
from typing import TextIO

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.explain.trace import Trace, member_of, trace
from cgipool.fitted import FittedModel
from cgipool.predict import Chunk, graph_chunks, known_to


def write_scores(out: TextIO, model: FittedModel, graphs: GraphSet, member: int = 0) -> tuple[int, int]:
    """Write a row for every node, and one with the reason for a graph that cannot be read; how many graphs there were,
    and how many of them could not be read."""
    alone = member_of(model, member)
    table = csv.writer(out, lineterminator="\n")
    count, unread = 0, 0
    names: list[str] | None = None
    for chunk in known_to(alone, graph_chunks(graphs)):
        count, unread = count + len(chunk.ids), unread + len(chunk.reasons)
        found = None if chunk.graphs is None else trace(alone, chunk.graphs)
        if names is None:
            if found is None:
                raise UserError(f"not one of the first {count} graphs can be read; graph 0: {chunk.reasons[0]}")
            names = [f"{name}_{level + 1}" for level in range(found.levels) for name in found.scores]
            table.writerow(["graph", "node", "dropped", *names, "reason"])
        table.writerows(_rows(chunk, found, len(names)))
    if not count:
        raise UserError(f"{graphs.name}: there are no graphs")
    return count, unread


def _rows(chunk: Chunk, found: Trace | None, width: int) -> Iterator[list[str]]:
    """The rows of a chunk's graphs, in order."""
    blank = [""] * (width + 2)
    if chunk.graphs is None or found is None:
        yield from ([name, *blank, chunk.reasons[place]] for place, name in enumerate(chunk.ids))
        return
    columns = [found.scores[name][level] for level in range(found.levels) for name in found.scores]
    scores = np.stack(columns, 1) if columns else np.empty((chunk.graphs.n_nodes, 0))
    dropped, ends, graph = found.dropped, chunk.graphs.node_ptr.tolist(), 0
    for place, name in enumerate(chunk.ids):
        if place in chunk.reasons:
            yield [name, *blank, chunk.reasons[place]]
            continue
        first, last = ends[graph : graph + 2]
        graph += 1
        for node in range(first, last):
            numbers = ["" if value != value else f"{value:.6g}" for value in scores[node].tolist()]
            level = int(dropped[node])
            yield [name, str(node - first), str(level) if level else "", *numbers, ""]
