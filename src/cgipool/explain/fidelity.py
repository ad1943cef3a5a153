"""Measure how faithful the kept nodes are: whether they contain the known motif, and whether they predict the target.

Shapes: G graphs, N nodes of all graphs, L levels.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, unknown
from cgipool.explain.trace import Trace, cut, member_of, random_nodes, sum_by_graph, trace
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict import NOT_FINITE
from cgipool.inference.predict_input import graph_chunks, known_to
from cgipool.task.base import Task


@dataclass(frozen=True)
class Faithfulness:
    """How well the kept nodes explain the predictions of a model."""

    graphs: int
    """Number of graphs measured."""
    unread: int
    """Number of graphs that could not be read and are left out."""
    left: float
    """Share of a graph's nodes left after the last level, mean over graphs."""
    motif: list[float] | None
    """[L] share of the nodes that decide the class left after each level; None if these nodes are not known."""
    chance: list[float] | None
    """[L] share of all nodes of the same graphs: the expected share of the motif in an equal random selection."""
    scores: dict[str, float] | None
    """The metric of the same model by the part of the graphs it sees; None if no graph has a known label."""
    metric: str = "accuracy"
    """The task's primary metric: accuracy, rmse or roc_auc."""
    target: str = ""
    """The target column that the metric is about; empty for classes, and for the mean over columns."""


def faithfulness(
    model: FittedModel, graphs: GraphSet, member: int = 0, seed: int = 0, target: str | None = None
) -> Faithfulness:
    """Measure the faithfulness of the kept nodes, preferably on graphs that the model was not trained on.

    The model predicts from only the nodes kept at the last level, and from all others. Both are compared with a random
    selection of equal size, drawn with `seed`. `target` names a target column; the default is the mean over columns.
    """
    alone, column = member_of(model, member), target_of(model, target)
    left, motif, chance, truth, answers, unread = [], [], [], [], [], 0
    for number, chunk in enumerate(known_to(alone, graph_chunks(graphs))):
        unread += len(chunk.reasons)
        if chunk.graphs is None:
            continue
        found = trace(alone, chunk.graphs)
        if found.unsure.any():
            raise UserError(f"{graphs.name}: {NOT_FINITE} ({found.unsure.sum()} of {len(chunk.ids)} graphs)")
        left.append(sum_by_graph(chunk.graphs, found.alive[-1]) / np.maximum(chunk.graphs.sizes, 1))
        truth.append(_labels(model, chunk.graphs))
        answers.append(_answers(alone, chunk.graphs, found, np.random.default_rng([seed, number])))
        if chunk.graphs.node_truth is not None:
            decide, every = shares_left(chunk.graphs, chunk.graphs.node_truth, found.alive)
            motif.append(decide)
            chance.append(every)
    if not left:
        raise UserError(f"{graphs.name}: none of the graphs can be read")
    parts = {name: np.concatenate([each[name] for each in answers]) for name in answers[0]}
    return Faithfulness(
        graphs=graphs.n_graphs - unread,
        unread=unread,
        left=float(np.concatenate(left).mean()),
        motif=_means(motif),
        chance=_means(chance),
        scores=_scores(model.task, np.concatenate(truth), parts, None if target is None else column),
        metric=model.task.primary,
        target=target or "",
    )


def target_of(model: FittedModel, target: str | None) -> int:
    """The number of a target column, by default the first. Raise UserError for a model that has no such column."""
    if target is None:
        return 0
    if model.task_name == "classification":
        raise UserError("--target needs a model for regression or several labels; this one is for classification")
    if target not in model.target_names:
        raise unknown("target", target, model.target_names)
    return model.target_names.index(target)


def _labels(model: FittedModel, graphs: GraphSet) -> NDArray[Any]:
    """Classes [G], −1 where the model does not know the class, or targets [G, T], NaN where they are not known."""
    if model.task_name == "classification":
        code = {name: number for number, name in enumerate(model.class_names)}
        known = [code.get(name, -1) for name in graphs.class_names] if graphs.targets is None else []
        return np.array([*known, -1])[graphs.y if known else np.full(graphs.n_graphs, -1)]
    columns = np.full((graphs.n_graphs, len(model.target_names)), np.nan)
    for place, name in enumerate(model.target_names):
        if graphs.targets is not None and name in graphs.target_names:
            columns[:, place] = graphs.targets[:, graphs.target_names.index(name)]
    return columns


def _scores(
    task: Task, truth: NDArray[Any], parts: dict[str, NDArray[np.float64]], column: int | None
) -> dict[str, float] | None:
    """The primary metric by part, over the graphs with a known label; None if it is not defined."""
    if truth.ndim == 1:
        known = truth >= 0
        return {n: float((p.argmax(1) == truth)[known].mean()) for n, p in parts.items()} if known.any() else None
    if column is not None:
        truth, parts = truth[:, [column]], {name: p[:, [column]] for name, p in parts.items()}
    values = {name: task.evaluate(truth, p)[task.primary] for name, p in parts.items()}
    return None if None in values.values() else values


def _means(parts: list[NDArray[np.float64]]) -> list[float] | None:
    """[L] means over the graphs of all parts [L, G]; None if there are no graphs."""
    return np.concatenate(parts, 1).mean(1).tolist() if any(part.size for part in parts) else None


def _answers(
    model: FittedModel, graphs: GraphSet, found: Trace, generator: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    """[G, O] the predictions for each graph, by the part of the graph that the model sees."""
    kept = found.alive[-1]
    drawn = random_nodes(graphs, sum_by_graph(graphs, kept), generator)
    cuts = {
        "only the kept nodes": kept,
        "only as many random nodes": drawn,
        "without the kept nodes": ~kept,
        "without as many random nodes": ~drawn,
    }
    try:
        answers = {name: model.predictions(cut(graphs, nodes)) for name, nodes in cuts.items()}
    except UserError as error:  # cutting a graph can create a degree that the model has not seen
        raise UserError(f"the model cannot predict from parts of graphs: {error}") from None
    return {"the graphs as they are": found.predictions} | answers


def shares_left(
    graphs: GraphSet, of: NDArray[np.bool_], alive: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[L, G'] shares of some nodes [N] and of all nodes that are alive [L, N], for each graph that has any of `of`."""
    count = sum_by_graph(graphs, of)
    present = count > 0
    some = sum_by_graph(graphs, alive & of)[:, present] / count[present]
    return some, sum_by_graph(graphs, alive)[:, present] / graphs.sizes[present]


def kept(graphs: GraphSet, alive: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    """[L] shares left of the nodes that decide the class and of all nodes, means over graphs."""
    if graphs.node_truth is None:
        raise UserError(f"{graphs.name} does not say which nodes decide the class")
    motif, chance = (share.mean(1).tolist() for share in shares_left(graphs, graphs.node_truth, alive))
    return motif, chance
