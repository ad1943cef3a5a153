"""Predictions for many graphs, a chunk at a time, so that memory does not grow with their number.

A broken graph is reported with its number and the reason; the others are predicted. Shapes: C classes.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError, csv_cell
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict_input import CHUNK, Chunk

NOT_FINITE = "the model's output is not finite: its weights or the features of the graph are too large"
"""The reason of a row for which the network gave NaN."""


class Row(NamedTuple):
    """What is said of one graph."""

    id: str
    probabilities: NDArray[np.float64] | None
    """[C]; None for a graph that cannot be read, or for which the model's output is not finite."""
    reason: str = ""
    """Why there are none."""
    kept: tuple[str, ...] = ()
    """Fields of the input that are passed through."""


def shard_of(count: int, number: int, shards: int) -> tuple[int, int]:
    """Start and stop of one of several consecutive shares of so many graphs; shares are numbered from 1.

    Where each can have a whole chunk they begin where the chunks of the whole do: the networks then see the very same
    batches, and give the very same numbers.
    """
    unit = CHUNK if count >= shards * CHUNK else 1
    chunks = -(-count // unit)
    start, stop = (min(count, unit * (chunks * n // shards)) for n in (number - 1, number))
    return start, stop


def predictions(model: FittedModel, chunks: Iterable[Chunk], strict: bool = False) -> Iterator[Row]:
    """A row for every graph, in order. With `strict` the first graph without an answer is an error."""
    for chunk in chunks:
        if strict and chunk.reasons:
            place, reason = min(chunk.reasons.items())
            raise UserError(f"graph {chunk.ids[place]}: {reason}")
        given = iter(() if chunk.graphs is None else model.predict_proba(chunk.graphs))
        for place, name in enumerate(chunk.ids):
            kept = chunk.kept[place] if chunk.kept else ()
            if place in chunk.reasons:
                yield Row(name, None, chunk.reasons[place], kept)
            elif np.isfinite(answer := next(given)).all():
                yield Row(name, answer, kept=kept)
            elif strict:
                raise UserError(f"graph {name}: {NOT_FINITE}")
            else:
                yield Row(name, None, NOT_FINITE, kept)


class Rows(NamedTuple):
    """Rows as they are written, some thousands together."""

    text: str
    """Without a header."""
    graphs: int
    bad: int
    """How many could not be read."""
    nodes: int = 0
    """Of those that have one."""
    unseen: int = 0
    """Nodes with a label or degree that the model was not trained on."""
    hollow: int = 0
    """Graphs without nodes, which all have the same prediction."""
    unsure: int = 0
    """Graphs for which the model's output is not finite."""


def written(
    model: FittedModel, chunks: Iterable[Chunk], as_json: bool, strict: bool = False, keep: Sequence[str] = ()
) -> Iterator[Rows]:
    """The rows of every chunk, in order; `keep` names the columns that are passed through."""
    for chunk in chunks:
        out, without = io.StringIO(), 0
        writer = Writer(out, model.class_names, as_json, headed=False, keep=keep)
        for row in predictions(model, [chunk], strict):
            writer.write(row)
            without += row.probabilities is None
        read, bad = chunk.graphs, len(chunk.reasons)
        seen = (0, 0, 0)
        if read is not None:
            seen = read.n_nodes, model.encoder.unseen(read), int(np.count_nonzero(read.sizes == 0))
        yield Rows(out.getvalue(), len(chunk.ids), bad, *seen, unsure=without - bad)


class Writer:
    """Rows as CSV or as lines of JSON: id, prediction, a probability for each class, why there is none, and columns of
    the input that are passed through.

    `headed` says whether a CSV begins with the names of its columns.
    """

    def __init__(
        self, out: TextIO, class_names: Sequence[str], as_json: bool, headed: bool = True, keep: Sequence[str] = ()
    ) -> None:
        self.out, self.names, self.as_json, self.keep = out, class_names, as_json, keep
        self.table = csv.writer(out, lineterminator="\n")
        if headed and not as_json:
            own = ["id", "prediction", *(f"p({name})" for name in class_names), "reason"]
            kept = (f"input {name}" if name in own else name for name in keep)
            self.table.writerow([csv_cell(name) for name in (*own, *kept)])

    def write(self, row: Row) -> None:
        """One line."""
        p = row.probabilities
        best = None if p is None else self.names[int(p.argmax())]
        if self.as_json:
            told = None if p is None else {n: round(float(v), 6) for n, v in zip(self.names, p, strict=True)}
            plain = {"id": row.id, "prediction": best, "probabilities": told} | (
                {"reason": row.reason} if row.reason else {}
            )
            kept = {"input": dict(zip(self.keep, row.kept, strict=True))} if self.keep else {}
            self.out.write(json.dumps(plain | kept, allow_nan=False) + "\n")
        else:
            numbers = ["" for _ in self.names] if p is None else [f"{v:.6f}" for v in p]
            texts = (row.id, best or "", *numbers, row.reason, *row.kept)
            self.table.writerow(map(csv_cell, texts))
