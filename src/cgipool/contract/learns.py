"""Rules of learning: gradients reach every weight, and a small set can be overfitted."""

import math
import re

import numpy as np
import torch

from cgipool.contract.subject import (
    CLASSES,
    TASK,
    Broken,
    NotApplicable,
    batch_of,
    build,
    graphs_of,
    logits_of,
    network_of,
    precision,
    ways,
)
from cgipool.data.batch import Batch, Batcher
from cgipool.data.features import Encoder
from cgipool.data.generated import motifs
from cgipool.model.layers import InputSize
from cgipool.model.network import Model
from cgipool.pool import Sizes, method_named
from cgipool.training.objective import objective
from cgipool.training.optimiser import Adam
from cgipool.training.presets import PAPER

TRIES = 8
"""A gradient must reach each weight in at least one of this many networks; two are always tried."""

VANISHING = 1e-12
"""In double precision, less than this is rounding."""

GRAPHS, WIDTH, RATE, STEPS, EVERY = 32, 32, 0.01, 300, 10
"""Number of graphs to overfit, width, learning rate, maximum number of steps, and steps between two checks."""


def gradients(name: str) -> str:
    """Gradients are finite and reach every weight, with the method's own loss added with weight 1.

    A gradient must reach a pool's weight on at least one level: edges do not matter after the last pool, and on graphs
    with nearly equal features, a weight that acts only at the kink of an activation may have no effect.
    """
    for compact in ways(name):
        unreached: set[str] | None = None
        for seed in range(TRIES):
            sizes = _gradient_sizes(network_of(name, seed, compact), batch_of(graphs_of(seed)))
            if wrong := [weight for weight, size in sizes.items() if not math.isfinite(size)]:
                raise Broken(f"the gradient of {wrong[0]} is not finite")
            reached = {_on_any_level(weight) for weight, size in sizes.items() if size > VANISHING}
            unreached = ({_on_any_level(weight) for weight in sizes} if unreached is None else unreached) - reached
            if seed > 0 and not unreached:
                break
        if unreached:
            raise Broken(f"no gradient reaches {', '.join(sorted(unreached))}")
    return f"finite, and they reach all {len(sizes)} weights"


def _gradient_sizes(model: Model, batch: Batch) -> dict[str, float]:
    """The largest entry of each weight's gradient."""
    weights = _weights(model.train())
    objective(model(batch), batch, TASK, torch.ones(CLASSES, dtype=torch.float64), 1.0).backward()
    return {name: 0.0 if w.grad is None else w.grad.abs().max().item() for name, w in weights.items()}


def _on_any_level(weight: str) -> str:
    return re.sub(r"^pools\.\d+\.", "pools.*.", weight)


def _weights(model: Model) -> dict[str, torch.nn.Parameter]:
    weights = dict(model.named_parameters())
    if not weights:
        raise NotApplicable("nothing to learn")
    return weights


@precision(torch.float32)
def overfits(name: str) -> str:
    """Some graphs of the built-in data set can be overfitted, in single precision as in training."""
    graphs = motifs(GRAPHS)
    encoder = Encoder.fit(graphs)
    batch = Batcher(graphs, encoder.encode(graphs)).batch(np.arange(GRAPHS))
    inputs = InputSize(encoder.columns, encoder.n_floats, encoder.others)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build(name, inputs, np.bincount(graphs.y) / GRAPHS, Sizes.of(graphs.sizes), WIDTH, 0.0)
    model.compact = True
    _weights(model)
    best, steps = _learn(name, model, batch)
    if best < GRAPHS:
        raise Broken(f"{best} of {GRAPHS} graphs of motifs are classified correctly after {steps} steps")
    return f"{GRAPHS} graphs of motifs are all classified correctly after {steps} steps"


def _learn(name: str, model: Model, batch: Batch) -> tuple[int, int]:
    """Return the highest number of graphs classified correctly at once, and the steps until all were."""
    optimizer = Adam(model.parameters(), RATE)
    method, even = method_named(name), torch.ones(len(batch.y.unique()))
    best = 0
    for step in range(STEPS):
        if step % EVERY == 0:
            best = max(best, int((logits_of(model, batch).argmax(1) == batch.y).sum()))
            if best == GRAPHS:
                return best, step
        output = model.train()(batch._replace(key=torch.tensor(step)))
        loss = objective(output, batch, TASK, even, method.weight(PAPER.alpha, step + 1))
        model.zero_grad()
        loss.backward()
        optimizer.step()
        model.update(output.buffers)
    return best, STEPS
