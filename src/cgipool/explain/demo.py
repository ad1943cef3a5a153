"""The demo: train CGIPool on graphs with known motifs and measure how much of each motif the pooling keeps.

Shapes: G test graphs, L levels.
"""

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cgipool.data.generated import motifs
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import random_splits
from cgipool.explain.fidelity import kept
from cgipool.explain.picture import Scale, draw_pooling, steps
from cgipool.explain.scores import scale_of
from cgipool.explain.trace import Trace, edges_of, trace_batch
from cgipool.files import writable
from cgipool.model.network import Network
from cgipool.training.checkpoint import load_tensors
from cgipool.training.folder import split_folder
from cgipool.training.job import EVALUATION, Job, ProgressCallback
from cgipool.training.loop import Training
from cgipool.training.parallel import one_thread
from cgipool.training.presets import PAPER
from cgipool.training.recipe import Recipe
from cgipool.training.run import train

EPOCHS = 50
"""Takes about 10 seconds; the validation accuracy is then within a few graphs of its final value."""


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo."""

    accuracy: float
    """Test accuracy, from 0 to 1."""
    classes: int
    graphs: int
    """G, the number of test graphs."""
    motif: list[float]
    """[L] share of a graph's motif nodes left after each level, mean over graphs."""
    chance: list[float]
    """[L] share of all nodes left: the expected share of the motif in a random selection of equal size."""
    picture: Path


def run_demo(
    out: Path,
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    tell: ProgressCallback = lambda progress: None,
    graphs: GraphSet | None = None,
    recipe: Recipe = PAPER,
) -> DemoResult:
    """Train on one split of `motifs`, measure what the pools keep of its test graphs, and draw one of them."""
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
    return DemoResult(
        accuracy=result.test_accuracy[0],
        classes=graphs.n_classes,
        graphs=test.n_graphs,
        motif=motif,
        chance=chance,
        picture=draw(out / "demo.png", test, trace, scale_of(network.pools[0], trace)),
    )


def trained(job: Job, graphs: GraphSet, weights: Path) -> Training:
    """Return a training whose network has these weights."""
    training = Training(job, graphs)
    training.state.network.load_state_dict(load_tensors(weights)[0])
    return training


def follow(training: Training) -> Trace:
    """Trace the test graphs through the network."""
    job, network = training.job, training.state.network.eval()
    batch = training.batcher.batch(job.split.test, job.key(EVALUATION))
    return trace_batch(network, batch, job.method, partial(training.task.predictions, constants=training.constants))


def draw(path: Path, graphs: GraphSet, trace: Trace, scale: Scale | None = None) -> Path:
    """Draw the first connected graph at every level, whether predicted correctly or not; the first graph if none is
    connected."""
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
