"""The scores of every node of many graphs as CSV, a chunk of graphs at a time: memory does not grow with their number.

Columns: graph, its id if the set has ids, node, its name if nodes have names, the level that dropped it (blank if none
did), every score of every level (y_d_2 is y_d of level 2, blank for a node that was dropped before), and why a graph
could not be read.
"""

import csv
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TextIO

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, csv_cell
from cgipool.explain.one import node_names
from cgipool.explain.trace import Trace, member_of, trace
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict import NOT_FINITE
from cgipool.inference.predict_input import Chunk, graph_chunks, known_to


def write_scores(
    out: TextIO, model: FittedModel, graphs: GraphSet, member: int = 0, ids: Iterable[str] = ()
) -> tuple[int, int]:
    """Write a row for every node, and one with the reason for a graph that cannot be read; `ids` are those of the
    graphs, if they have any. Returns the number of graphs and how many of them could not be read."""
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
            heads += ["node", "name", "dropped"] if len(node_names(chunk.graphs)) else ["node", "dropped"]
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
