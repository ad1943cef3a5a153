"""The demo: CGIPool on graphs whose answer is known, and how much of that answer its pooling keeps.

Shapes: G test graphs, L levels.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.data.motifs import motifs
from cgipool.data.splits import random_splits
from cgipool.explain.faithful import kept
from cgipool.explain.picture import Scale, draw_pooling, steps
from cgipool.explain.scale import scale_of
from cgipool.explain.trace import Trace, edges_of, trace_batch
from cgipool.files import writable
from cgipool.model.network import Network
from cgipool.training.checkpoint import load_tensors
from cgipool.training.job import EVALUATION, Job, ProgressCallback
from cgipool.training.loop import Training
from cgipool.training.parallel import one_thread
from cgipool.training.recipe import PAPER, Recipe
from cgipool.training.run import split_folder, train

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


def run_demo(
    out: Path,
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    tell: ProgressCallback = lambda progress: None,
    graphs: GraphSet | None = None,
    recipe: Recipe = PAPER,
) -> Shown:
    """Train on one split of `motifs`, see what the pools keep on its test graphs, and draw one of them."""
    out.mkdir(parents=True, exist_ok=True)
    writable(out / "demo.png")
    graphs = motifs() if graphs is None else graphs
    (split,) = random_splits(graphs, seed=seed, indices=[0])
    recipe = recipe.but(epochs=epochs)
    with one_thread(), tempfile.TemporaryDirectory(prefix="cgipool-") as folder:
        result = train(graphs, recipe=recipe, splits=[split], seed=seed, out=folder, tell=tell)
        weights = split_folder(Path(folder), split.index) / "weights.safetensors"
        training = trained(Job("cgi", recipe, split, seed, "cpu", Path(folder)), graphs, weights)
    test = graphs.subset(split.test)
    trace, network = follow(training), training.state.network
    assert isinstance(network, Network)
    motif, chance = kept(test, trace.alive)
    return Shown(
        accuracy=result.test_accuracy[0],
        classes=graphs.n_classes,
        graphs=test.n_graphs,
        motif=motif,
        chance=chance,
        picture=draw(out / "demo.png", test, trace, scale_of(network.pools[0], trace)),
    )


def trained(task: Job, graphs: GraphSet, weights: Path) -> Training:
    """A finished training, its network with these weights."""
    training = Training(task, graphs)
    training.state.network.load_state_dict(load_tensors(weights)[0])
    return training


def follow(training: Training) -> Trace:
    """What the network does to the test graphs."""
    task, network = training.task, training.state.network.eval()
    return trace_batch(network, training.batcher.batch(task.split.test, task.key(EVALUATION)), task.method)


def draw(path: Path, graphs: GraphSet, trace: Trace, scale: Scale | None = None) -> Path:
    """Draw what became of the first graph in one piece, right or wrong; of the first graph where none is."""
    singles = (graphs.subset([g]) for g in range(graphs.n_graphs))
    whole = (g for g, one in enumerate(singles) if np.isfinite(steps(one.n_nodes, edges_of(one))).all())
    which = next(whole, 0)
    graph = graphs.subset([which])
    nodes = slice(graphs.node_ptr[which], graphs.node_ptr[which + 1])
    true, guess = (graph.class_names[c] for c in (graph.y[0], trace.guess[which]))
    draw_pooling(
        path,
        edges=edges_of(graph),
        ringed=graph.node_truth,
        alive=trace.alive[:, nodes],
        score=trace.score[:, nodes],
        title=f"A test graph with a {true}; CGIPool predicts {guess}",
        scale=scale,
    )
    return path
