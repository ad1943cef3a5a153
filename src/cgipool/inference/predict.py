"""Predict many graphs, a chunk at a time, so that memory does not grow with their number.

A graph that cannot be read is reported with its id and the reason; the others are predicted. Shapes: C classes.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from cgipool.errors import UserError, csv_cell
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict_input import CHUNK, Chunk
from cgipool.task.decisions import class_of

NOT_FINITE = "the model's output is not finite: its weights or the features of the graph are too large"
"""The reason in a row without a finite prediction."""


UNSEEN = "unseen_nodes"
"""The column with the number of nodes whose label or degree does not occur in the training graphs."""


class Row(NamedTuple):
    """The prediction for one graph."""

    id: str
    values: NDArray[np.float64] | None
    """[O] probabilities, or values of a regression; None if the graph cannot be read or the output is not finite."""
    reason: str = ""
    """Why there is no prediction."""
    kept: tuple[str, ...] = ()
    """Fields of the input to copy."""
    spread: NDArray[np.float64] | None = None
    """[O] the standard deviation over the members of an ensemble, if requested."""
    unseen: int | None = None
    """Number of nodes whose label or degree does not occur in the training graphs; None if the graph cannot be read."""


def shard_of(count: int, number: int, shards: int) -> tuple[int, int]:
    """Start and stop of one of several consecutive parts of `count` graphs; parts are numbered from 1.

    If there is a chunk for every part, parts begin at the borders of chunks: the batches, and so the results, are then
    the same as without parts.
    """
    unit = CHUNK if count >= shards * CHUNK else 1
    chunks = -(-count // unit)
    start, stop = (min(count, unit * (chunks * n // shards)) for n in (number - 1, number))
    return start, stop


def predictions(
    model: FittedModel, chunks: Iterable[Chunk], strict: bool = False, spread: bool = False
) -> Iterator[Row]:
    """Yield a row for every graph, in order. With `strict`, the first graph without a prediction raises UserError."""
    for chunk in chunks:
        if strict and chunk.reasons:
            place, reason = min(chunk.reasons.items())
            raise UserError(f"graph {chunk.ids[place]}: {reason}")
        members = None if chunk.graphs is None else model.member_predictions(chunk.graphs)
        given: Iterator[Any] = iter(())
        if chunk.graphs is not None and members is not None:
            unseen = model.encoder.unseen_by_graph(chunk.graphs).tolist()
            given = zip(members.mean(0), members.std(0), unseen, strict=True)
        for place, name in enumerate(chunk.ids):
            kept = chunk.kept[place] if chunk.kept else ()
            if place in chunk.reasons:
                yield Row(name, None, chunk.reasons[place], kept)
                continue
            answer, deviation, new = next(given)
            if np.isfinite(answer).all():
                yield Row(name, answer, kept=kept, spread=deviation if spread else None, unseen=new)
            elif strict:
                raise UserError(f"graph {name}: {NOT_FINITE}")
            else:
                yield Row(name, None, NOT_FINITE, kept, unseen=new)


class WrittenRows(NamedTuple):
    """The text of some thousand rows, and counts for the summary."""

    text: str
    """The text without a header."""
    graphs: int
    bad: int
    """Number of graphs that could not be read."""
    nodes: int = 0
    """Number of nodes of the graphs that could be read."""
    unseen: int = 0
    """Number of nodes with a label or degree that the model was not trained on."""
    empty: int = 0
    """Number of graphs without nodes, which all have the same prediction."""
    not_finite: int = 0
    """Number of graphs for which the model's output is not finite."""


def written(
    model: FittedModel,
    chunks: Iterable[Chunk],
    as_json: bool,
    strict: bool = False,
    keep: Sequence[str] = (),
    spread: bool = False,
) -> Iterator[WrittenRows]:
    """Yield the rows of every chunk, in order; `keep` names the columns to copy."""
    for chunk in chunks:
        out, without, unseen = io.StringIO(), 0, 0
        how: dict[str, Any] = {"task": model.task_name, "spread": spread, "thresholds": model.thresholds}
        writer = Writer(out, model.task.columns, as_json, headed=False, keep=keep, **how)
        for row in predictions(model, [chunk], strict, spread):
            writer.write(row)
            without += row.values is None
            unseen += row.unseen or 0
        read, bad = chunk.graphs, len(chunk.reasons)
        seen = (0, 0, 0)
        if read is not None:
            seen = read.n_nodes, unseen, int(np.count_nonzero(read.sizes == 0))
        yield WrittenRows(out.getvalue(), len(chunk.ids), bad, *seen, not_finite=without - bad)


class Writer:
    """Writes rows as CSV or as JSON lines.

    A row has the id, the prediction (the class and a probability for each class; the value of each target; the
    probability of each label), the standard deviation over the members of an ensemble if requested, the number of nodes
    that the model was not trained on, the reason if there is no prediction, and columns copied from the input. `headed`
    says whether a CSV begins with a header.
    """

    def __init__(
        self,
        out: TextIO,
        names: Sequence[str],
        as_json: bool,
        headed: bool = True,
        keep: Sequence[str] = (),
        task: str = "classification",
        spread: bool = False,
        thresholds: NDArray[np.float64] | None = None,
    ) -> None:
        self.out, self.names, self.as_json, self.keep, self.thresholds = out, names, as_json, keep, thresholds
        self.classes, self.is_value, self.spread = task == "classification", task == "regression", spread
        self.table = csv.writer(out, lineterminator="\n")
        if headed and not as_json:
            own = ["id", *(["prediction"] if self.classes else [])]
            own += names if self.is_value else [f"p({name})" for name in names]
            own += [f"sd({name})" for name in names] if spread else []
            own += [UNSEEN, "reason"]
            kept = (f"input {name}" if name in own else name for name in keep)
            self.table.writerow([csv_cell(name) for name in (*own, *kept)])

    def write(self, row: Row) -> None:
        """One line."""
        p = row.values
        best = None if p is None or not self.classes else self.names[int(class_of(p, self.thresholds))]
        if self.as_json:
            kept = {"input": dict(zip(self.keep, row.kept, strict=True))} if self.keep else {}
            self.out.write(json.dumps(self._plain(row, best) | kept, allow_nan=False) + "\n")
        else:
            numbers = ["" for _ in self.names] if p is None else [self._text(v) for v in p]
            if self.spread:
                numbers += ["" for _ in self.names] if row.spread is None else [self._text(v) for v in row.spread]
            unseen = "" if row.unseen is None else str(row.unseen)
            texts = (row.id, *([best or ""] if self.classes else []), *numbers, unseen, row.reason, *row.kept)
            self.table.writerow(map(csv_cell, texts))

    def _plain(self, row: Row, best: str | None) -> dict[str, Any]:
        """A row as a JSON object."""

        def named(values: NDArray[np.float64] | None) -> dict[str, float] | None:
            if values is None:
                return None
            return {n: float(self._text(v)) for n, v in zip(self.names, values, strict=True)}

        plain: dict[str, Any] = {"id": row.id} | ({"prediction": best} if self.classes else {})
        plain["values" if self.is_value else "probabilities"] = named(row.values)
        plain |= {"spread": named(row.spread)} if self.spread else {}
        plain |= {} if row.unseen is None else {UNSEEN: row.unseen}
        return plain | ({"reason": row.reason} if row.reason else {})

    def _text(self, value: float) -> str:
        """A probability with six decimals, a value with six significant digits."""
        return f"{value:.6g}" if self.is_value else f"{value:.6f}"
