"""Evaluate a trained model on labelled graphs: every metric of its task.

Shapes: n graphs, O outputs, T target columns.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cgipool.data.further import is_missing, number_in
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.labels import USUAL
from cgipool.data.importers.lines import Asked, is_sdf, is_table
from cgipool.data.importers.table import few, open_table
from cgipool.errors import UserError, counted, excerpt
from cgipool.inference.fitted import FittedModel, unknown_class
from cgipool.inference.predict_input import Chunk, chunks_of, open_graphs
from cgipool.task.base import Task
from cgipool.task.decisions import class_of, ones_in
from cgipool.task.metrics import MEAN, PER_CLASS, PER_COLUMN, Classes, classes_of, shown

CLASSIFICATION = "classification"


@dataclass(frozen=True, eq=False)
class ModelEvaluation:
    """The evaluation of a model on labelled graphs."""

    model: str
    """The model in words."""
    data: str
    task: Task
    ids: list[str]
    """[n] ids of the evaluated graphs."""
    targets: NDArray[Any]
    """[n] classes, or [n, T] values with NaN where missing."""
    predictions: NDArray[np.float64]
    """[n, O]."""
    metrics: dict[str, Any]
    """All metrics by name, also for each class or column."""
    classes: Classes | None = None
    """For a classification: the classes, and the one that ROC-AUC and PR-AUC refer to."""
    unread: int = 0
    """Graphs that could not be read, or for which the output is not finite; they are left out."""
    unlabelled: int = 0
    """Graphs without a label, which are left out."""
    thresholds: NDArray[np.float64] | None = None
    """The model's thresholds (task/decisions.py)."""

    @property
    def guess(self) -> NDArray[np.int64]:
        """[n] the predicted classes."""
        return class_of(self.predictions, self.thresholds)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """[n] the probabilities of the predicted classes."""
        return np.take_along_axis(self.predictions, self.guess[:, None], 1)[:, 0]

    @property
    def values(self) -> dict[str, Any]:
        """All metrics by name; ROC-AUC and PR-AUC are those of the positive class."""
        return shown(self.metrics, self.classes)

    @property
    def positive(self) -> str:
        """The class that ROC-AUC and PR-AUC refer to, or "mean over classes"."""
        return MEAN if self.classes is None else self.classes.label

    @property
    def by_column(self) -> dict[str, dict[str, float | None]]:
        """For several target columns, all metrics of each; for classes, ROC-AUC and PR-AUC of each."""
        each = self.metrics.get(PER_COLUMN, self.metrics.get(PER_CLASS, {}))
        return {
            column: {name: values[place] for name, values in each.items()}
            for place, column in enumerate(self.task.columns)
            if each
        }

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the output of `cgipool evaluate --json`."""
        plain = {"model": self.model, "data": self.data, "task": self.task.name, "graphs": len(self.ids)}
        plain |= {"unread": self.unread, "unlabelled": self.unlabelled}
        plain |= {"positive": self.positive} if self.task.name == CLASSIFICATION else {}
        each = PER_CLASS if self.task.name == CLASSIFICATION else PER_COLUMN
        return plain | self.values | ({each: self.by_column} if self.by_column else {})


class Mistake(NamedTuple):
    """A graph with a large error."""

    place: int
    """Its place among the evaluated graphs."""
    true: str
    predicted: str


def worst_of(found: ModelEvaluation, count: int) -> list[Mistake]:
    """The graphs with the largest errors: wrong classes and values with the highest probability; for numbers the
    largest error of a column, in units of its standard deviation. Each graph is listed once, and
    columns take turns."""
    y, p, names = found.targets, found.predictions, found.task.columns
    if found.task.name == CLASSIFICATION:
        column = found.guess
        error = np.where(column != y, found.confidence, -np.inf)
    else:
        known = ~np.isnan(y)
        size = np.abs(p - np.where(known, y, 0.0))
        if found.task.name == "regression":
            size = size / np.maximum(np.nanstd(np.where(known.any(0), y, 0.0), axis=0), 1e-12)
        wrong = ones_in(p, found.thresholds) != y if found.task.name == "multilabel" else known
        each = np.where(known & wrong, size, -np.inf)
        column, error = each.argmax(1), each.max(1)
    worst = [place for place in np.argsort(-error, kind="stable").tolist() if np.isfinite(error[place])]
    if found.task.name != CLASSIFICATION:
        turn: dict[int, int] = {}
        seen = np.zeros(len(names), int)
        for place in worst:
            turn[place], seen[column[place]] = seen[column[place]], seen[column[place]] + 1
        worst.sort(key=turn.__getitem__)
    mistakes = []
    for place in worst[:count]:
        chosen = column[place]
        if found.task.name == CLASSIFICATION:
            words = names[y[place]], f"{names[chosen]} ({p[place, chosen]:.2f})"
        else:
            title = f"{names[chosen]}: " if len(names) > 1 else ""
            true, predicted = _alike(y[place, chosen], p[place, chosen])
            if found.task.name == "multilabel":
                true, predicted = f"{y[place, chosen]:.0f}", f"{p[place, chosen]:.2f}"
            words = title + true, predicted
        mistakes.append(Mistake(place, *words))
    return mistakes


def _alike(true: float, predicted: float) -> tuple[str, str]:
    """Two numbers with the same decimals: as many as four digits of the larger one have, less zeros at the end of
    both."""
    size = max(abs(true), abs(predicted))
    if not 1e-3 <= size < 1e6:
        texts = [f"{value:.4g}" for value in (true, predicted)]
    else:
        decimals = max(0, 3 - math.floor(math.log10(size)))
        texts = [f"{value:,.{decimals}f}" for value in (true, predicted)]
        while decimals and all(text.endswith("0") for text in texts):
            decimals, texts = decimals - 1, [text[:-1].removesuffix(".") for text in texts]
    first, second = (text.replace("-", "−") for text in texts)
    return first, second


def evaluate_model(
    model: FittedModel,
    path: str | Path,
    labels: Sequence[str] = (),
    asked: Asked | None = None,
    positive: str | None = None,
) -> ModelEvaluation:
    """Evaluate a model on the labelled graphs at a path: a set of graphs, or molecules in a table or an SDF.

    `labels` names the label columns of a table; by default those that the model predicts. `positive` names the class
    that ROC-AUC and PR-AUC refer to.
    """
    asked, of_texts = asked or Asked(), is_table(Path(path))
    graphs = None if of_texts else open_graphs(path)
    if graphs is not None:
        model.check_labels(graphs)
    columns = _label_columns(model, Path(path), labels) if of_texts else ()
    asked = asked._replace(keep=columns)
    ids: list[str] = []
    targets, predictions, unread = [], [], 0
    for chunk in chunks_of(path, model, asked):
        unread += len(chunk.reasons)
        if chunk.graphs is None:
            continue
        ids += [name for place, name in enumerate(chunk.ids) if place not in chunk.reasons]
        predictions.append(model.predictions(chunk.graphs))
        targets.append(_of_texts(model, path, chunk, columns) if of_texts else model.labels_of(chunk.graphs))
    if not ids:
        raise UserError(f"{path}: none of the graphs can be read")
    y, p = np.concatenate(targets), np.concatenate(predictions)
    known = (y >= 0) if y.ndim == 1 else ~np.isnan(y).all(1)
    finite = np.isfinite(p).all(1)
    if not (kept := np.flatnonzero(known & finite)).size:
        raise UserError(f"{path}: no graph has a known label and a finite prediction")
    classes = _classes(model, y[kept], graphs, positive)
    return ModelEvaluation(
        _described(model),
        str(path),
        model.task,
        [ids[place] for place in kept],
        y[kept],
        p[kept],
        model.task.evaluate(y[kept], p[kept], model.thresholds),
        classes,
        unread + int((~finite).sum()),
        int((~known).sum()),
        model.thresholds,
    )


def _described(model: FittedModel) -> str:
    """The model in words."""
    trained = model.about.get("dataset")
    return model.title + (f", trained on {trained}" if isinstance(trained, str) else "")


def _label_columns(model: FittedModel, path: Path, labels: Sequence[str]) -> tuple[str, ...]:
    """The label columns of a table."""
    from cgipool.data.importers.lines import kept_columns

    wanted = len(model.target_names) or 1
    if labels:
        if len(labels) != wanted:
            raise UserError(f"the model predicts {counted(wanted, 'column')}, but --label names {len(labels)}")
        return kept_columns(path, labels, "with labels")
    if model.target_names:
        return kept_columns(path, model.target_names, "with the values that the model predicts (--label names others)")
    if is_sdf(path):
        raise UserError(f"{path} is an SDF: name the item with the class by --label")
    columns = open_table(path).columns
    usual = [name for name in columns if name.lower() in USUAL]
    if len(usual) != 1:
        what = "several columns label, class or y" if usual else "no column label, class or y"
        raise UserError(f"{path} has {what}; choose with --label COLUMN: {few(columns)}")
    return (usual[0],)


def _of_texts(model: FittedModel, path: str | Path, chunk: Chunk, columns: Sequence[str]) -> NDArray[Any]:
    """The labels of a chunk of a table."""
    rows = [(chunk.ids[place], texts) for place, texts in enumerate(chunk.kept) if place not in chunk.reasons]
    if model.task_name == CLASSIFICATION:
        codes = _Codes(model.class_names)
        found = [codes.of(texts[0].strip()) for _, texts in rows]
        if None in found:
            raise unknown_class(path, rows[found.index(None)][1][0], model.class_names)
        return np.array(found, dtype=np.int64)
    return np.array([list(_numbers(path, name, texts, columns, model.task_name)) for name, texts in rows])


def _numbers(path: str | Path, graph: str, texts: Sequence[str], columns: Sequence[str], task: str) -> Iterator[float]:
    for column, text in zip(columns, texts, strict=True):
        value = np.nan if is_missing(text.strip()) else number_in(text)
        if value is None or (task == "multilabel" and value not in (0.0, 1.0) and not np.isnan(value)):
            wanted = "0 or 1" if task == "multilabel" else "a finite number"
            raise UserError(
                f"{path}: column {excerpt(column)!r} of graph {excerpt(graph)} is {excerpt(text)!r}, not {wanted}"
            )
        yield value


class _Codes:
    """Looks up the class of a label as it is written in a table."""

    def __init__(self, names: Sequence[str]) -> None:
        self.code = {name: number for number, name in enumerate(names)}
        self.by_number = {number_in(name): code for name, code in self.code.items()}
        below = re.fullmatch(r"below (\S+)", names[0]) if len(names) == 2 else None
        self.threshold = number_in(below[1]) if below else None

    def of(self, text: str) -> int | None:
        """The index of a class: −1 for a missing label, None for a class that the model does not know."""
        if is_missing(text):
            return -1
        number = number_in(text)
        if text in self.code or number is None:
            return self.code.get(text)
        return self.by_number.get(number) if self.threshold is None else int(number >= self.threshold)


def _classes(model: FittedModel, y: NDArray[Any], graphs: GraphSet | None, positive: str | None) -> Classes | None:
    """The classes of a classifier and the positive one: by default that of the data set, or the rarer of two."""
    if model.task_name != CLASSIFICATION:
        if positive is not None:
            raise UserError(f"--positive needs a classification model; this one is for {model.task_name}")
        return None
    names = tuple(model.class_names)
    classes = Classes(names, None)
    if positive is not None:
        return classes.but(positive)
    if len(names) != 2:
        return classes
    if graphs is not None and (label := classes_of(graphs).label) in names:
        return classes.but(label)
    count = np.bincount(y, minlength=2)
    return Classes(names, 0 if count[0] < count[1] else 1)
