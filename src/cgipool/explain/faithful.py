"""Whether the nodes that a model keeps mean anything, in numbers.

Shapes: G graphs, N nodes of all graphs end to end, L levels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.explain.trace import Trace, cut, member_of, random_nodes, sum_by_graph, trace
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict import NOT_FINITE
from cgipool.inference.predict_input import graph_chunks, known_to


@dataclass(frozen=True)
class Faithfulness:
    """What the kept nodes are worth."""

    graphs: int
    """How many graphs this is about."""
    unread: int
    """How many could not be read, and are left out."""
    left: float
    """Share of a graph's nodes that is left after the last level, mean over graphs."""
    motif: list[float] | None
    """[L] share that each level leaves of the nodes that decide the class; None where these are not known."""
    chance: list[float] | None
    """[L] share of all nodes of the same graphs: what as many random nodes would hold of the motif, on average."""
    accuracy: dict[str, float] | None
    """Of the same model, by what is left of the graphs; None where no graph is of a class that the model knows."""


def faithfulness(model: FittedModel, graphs: GraphSet, member: int = 0, seed: int = 0) -> Faithfulness:
    """Measure on these graphs; graphs that the model has not been trained on tell more.

    The nodes kept at the last level are left alone, or taken away; `seed` draws as many random ones to compare with.
    """
    alone = member_of(model, member)
    left, motif, chance, right, unread = [], [], [], [], 0
    for number, chunk in enumerate(known_to(alone, graph_chunks(graphs))):
        unread += len(chunk.reasons)
        if chunk.graphs is None:
            continue
        found = trace(alone, chunk.graphs)
        if found.unsure.any():
            raise UserError(f"{graphs.name}: {NOT_FINITE} ({found.unsure.sum()} of {len(chunk.ids)} graphs)")
        left.append(sum_by_graph(chunk.graphs, found.alive[-1]) / np.maximum(chunk.graphs.sizes, 1))
        right.append(_right(alone, chunk.graphs, found, np.random.default_rng([seed, number])))
        if chunk.graphs.node_truth is not None:
            decide, every = shares_left(chunk.graphs, chunk.graphs.node_truth, found.alive)
            motif.append(decide)
            chance.append(every)
    if not left:
        raise UserError(f"{graphs.name}: there is no graph that can be read")
    told = {name: np.concatenate([part[name] for part in right]) for name in right[0]}
    return Faithfulness(
        graphs=graphs.n_graphs - unread,
        unread=unread,
        left=float(np.concatenate(left).mean()),
        motif=_means(motif),
        chance=_means(chance),
        accuracy=None
        if any(not part.size for part in told.values())
        else {n: float(p.mean()) for n, p in told.items()},
    )


def _means(parts: list[NDArray[np.float64]]) -> list[float] | None:
    """[L] the means over the graphs of all parts [L, G], if there are any."""
    return np.concatenate(parts, 1).mean(1).tolist() if any(part.size for part in parts) else None


def _right(
    model: FittedModel, graphs: GraphSet, found: Trace, generator: np.random.Generator
) -> dict[str, NDArray[np.bool_]]:
    """Whether each graph whose class the model knows is classified rightly, by what is left of it."""
    code = {name: number for number, name in enumerate(model.class_names)}
    y = np.array([*(code.get(name, -1) for name in graphs.class_names), -1])[graphs.y]  # unknown, −1, is the last
    kept = found.alive[-1]
    drawn = random_nodes(graphs, sum_by_graph(graphs, kept), generator)
    cuts = {
        "only the kept nodes": kept,
        "only as many random nodes": drawn,
        "without the kept nodes": ~kept,
        "without as many random nodes": ~drawn,
    }
    try:
        guesses = {name: model.predict_proba(cut(graphs, nodes)).argmax(1) for name, nodes in cuts.items()}
    except UserError as error:  # a degree that only a part of a graph has
        raise UserError(f"the model cannot be asked about parts of graphs: {error}") from None
    return {name: (guess == y)[y >= 0] for name, guess in ({"the graphs as they are": found.guess} | guesses).items()}


def shares_left(
    graphs: GraphSet, of: NDArray[np.bool_], alive: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares that are alive [L, N] of some nodes [N] and of all nodes of each graph that has any of these, [L, G']."""
    count = sum_by_graph(graphs, of)
    there = count > 0
    some = sum_by_graph(graphs, alive & of)[:, there] / count[there]
    return some, sum_by_graph(graphs, alive)[:, there] / graphs.sizes[there]


def kept(graphs: GraphSet, alive: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    """[L] shares left of the nodes that decide a graph's class and of the whole graph, means over graphs."""
    if graphs.node_truth is None:
        raise UserError(f"{graphs.name} does not say which nodes decide the class")
    motif, chance = (share.mean(1).tolist() for share in shares_left(graphs, graphs.node_truth, alive))
    return motif, chance
