"""The demo: CGIPool on graphs whose answer is known, and how much of that answer its pooling keeps.

Shapes: N nodes of all test graphs end to end, G test graphs, L levels.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.motifs import motifs
from cgipool.data.splits import random_splits
from cgipool.errors import UserError
from cgipool.network import Network
from cgipool.picture import draw_pooling, steps
from cgipool.pool import Pooled
from cgipool.threads import one_thread
from cgipool.training.checkpoint import load_tensors
from cgipool.training.recipe import PAPER, Recipe
from cgipool.training.run import split_folder, train
from cgipool.training.split import EVALUATION, Task, Tell, Training

EPOCHS = 50
"""About 10 seconds; the validation accuracy is then within a few graphs of its end."""


@dataclass(frozen=True)
class Shown:
    """What the demo found."""

    accuracy: float
    """On the test graphs, a share."""
    classes: int
    graphs: int
    """G."""
    motif: list[float]
    """[L] share of a graph's motif nodes that are alive after each level, mean over graphs."""
    chance: list[float]
    """[L] share of all its nodes: what a random selection of as many would keep of the motif, on average."""
    picture: Path


@dataclass(frozen=True)
class Trace:
    """What the network did to the test graphs."""

    guess: NDArray[np.int64]
    """[G] the predicted classes."""
    alive: NDArray[np.bool_]
    """[L, N] which nodes are left after each level."""
    score: NDArray[np.float32]
    """[L, N] y_d of the nodes that a level was given, NaN for those that were gone before."""


def run_demo(
    out: Path,
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    tell: Tell = lambda progress: None,
    graphs: GraphSet | None = None,
    recipe: Recipe = PAPER,
) -> Shown:
    """Train on one split of `motifs`, see what the pools keep on its test graphs, and draw one of them."""
    graphs = motifs() if graphs is None else graphs
    (split,) = random_splits(graphs, seed=seed, indices=[0])
    recipe = recipe.but(epochs=epochs)
    with one_thread(), tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
        result = train(graphs, recipe=recipe, splits=[split], seed=seed, out=folder, tell=tell)
        weights = split_folder(Path(folder), split.index) / "weights.safetensors"
        training = trained(Task("cgi", recipe, split, seed, "cpu", Path(folder)), graphs, weights)
    test = graphs.subset(split.test)
    trace = follow(training)
    motif, chance = kept(test, trace.alive)
    return Shown(
        accuracy=result.test_accuracy[0],
        classes=graphs.n_classes,
        graphs=test.n_graphs,
        motif=motif,
        chance=chance,
        picture=draw(out / "demo.png", test, trace),
    )


def trained(task: Task, graphs: GraphSet, weights: Path) -> Training:
    """A finished training, its network with these weights."""
    training = Training(task, graphs)
    training.state.network.load_state_dict(load_tensors(weights)[0])
    return training


@torch.no_grad()
def follow(training: Training) -> Trace:
    """Pass the test graphs through the network and note what each pool does."""
    task, network = training.task, training.state.network.eval()
    batch = training.batcher.batch(task.split.test, task.key(EVALUATION))
    nodes = len(batch.alive)
    alive, score = [], []

    def note(_: torch.nn.Module, given: tuple[Any, ...], pooled: Pooled) -> None:
        before, after = given[1], pooled.level
        scores = np.full(nodes, np.nan, np.float32)
        scores[before.position[before.alive > 0].numpy()] = pooled.scores["y_d"][before.alive > 0].numpy()
        left = np.zeros(nodes, bool)
        left[after.position[after.alive > 0].numpy()] = True
        score.append(scores)
        alive.append(left)

    assert isinstance(network, Network)
    hooks = [pool.register_forward_hook(note) for pool in network.pools]
    guess = network(batch).logits.argmax(1).numpy()
    for hook in hooks:
        hook.remove()
    return Trace(guess, np.stack(alive), np.stack(score))


def kept(graphs: GraphSet, alive: NDArray[np.bool_]) -> tuple[list[float], list[float]]:
    """[L] shares left of a graph's motif and of the whole graph, means over graphs."""
    if graphs.node_truth is None:
        raise UserError(f"{graphs.name} does not say which nodes decide the class")

    def share(of: NDArray[np.bool_]) -> list[float]:
        count = np.add.reduceat(of, graphs.node_ptr[:-1], dtype=np.float64)
        left = np.add.reduceat(alive & of, graphs.node_ptr[:-1], axis=1, dtype=np.float64)
        return (left / count).mean(1).tolist()

    return share(graphs.node_truth), share(np.ones(graphs.n_nodes, bool))


def edges_of(graph: GraphSet) -> NDArray[np.int64]:
    """[m, 2] the edges of a set of one graph, each once."""
    one_way = graph.edge_disp > 0
    source = graph.edge_source[one_way]
    return np.stack([source, source + graph.edge_disp[one_way]], 1)


def draw(path: Path, graphs: GraphSet, trace: Trace) -> Path:
    """Draw what became of the first graph in one piece, right or wrong; of the first graph where none is."""
    singles = (graphs.subset([g]) for g in range(graphs.n_graphs))
    whole = (g for g, one in enumerate(singles) if np.isfinite(steps(one.n_nodes, edges_of(one))).all())
    which = next(whole, 0)
    graph = graphs.subset([which])
    nodes = slice(graphs.node_ptr[which], graphs.node_ptr[which + 1])
    true, guess = (graph.class_names[c] for c in (graph.y[0], trace.guess[which]))
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_pooling(
        path,
        edges=edges_of(graph),
        ringed=graph.node_truth,
        alive=trace.alive[:, nodes],
        score=trace.score[:, nodes],
        title=f"A test graph with a {true}; CGIPool says {guess}",
    )
    return path
