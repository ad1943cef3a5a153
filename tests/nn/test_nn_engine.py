"""The layers against the modules that the trainer runs, on the trainer's own levels: the same weights give the same
numbers and the same gradients."""

import pytest
import torch
from pyg_batches import DIM, LAYERS, close, dense, double, engine_level, random_batch, without_ties
from torch import Tensor

from cgipool.model.level import Level
from cgipool.nn.edges import PyGLevel
from cgipool.pool import ASAP, CGIPool, ReleasedCGIPool, SAGPool, TopKPool, VIPool

ENGINE = {
    "cgi": (CGIPool, {}, "y_d"),
    "cgi-kl": (CGIPool, {"mi": "kl"}, "y_d"),
    "cgi-rs": (CGIPool, {"negative": "random"}, "y_d"),
    "released": (ReleasedCGIPool, {}, "y_d"),
    "released-rs": (ReleasedCGIPool, {"negative": "random"}, "y_d"),
    "vip": (VIPool, {}, "t"),
    "vip-2": (VIPool, {"hops": 2}, "t"),
    "sag": (SAGPool, {}, "s"),
    "topk": (TopKPool, {}, "s"),
    "asap": (ASAP, {}, "phi"),
}


@pytest.fixture(autouse=True)
def _same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer draws by a key, the layers from torch's generator: here both by the site alone."""

    def uniform(level: Level, site: int, columns: int | None = None) -> Tensor:
        shape = [len(level.alive)] if columns is None else [len(level.alive), columns]
        return torch.rand(shape, generator=torch.Generator().manual_seed(site))

    monkeypatch.setattr(Level, "uniform", uniform)
    monkeypatch.setattr(PyGLevel, "uniform", uniform)


def gradients(x: Tensor, by: list[Tensor], out: Tensor, loss: Tensor) -> list[Tensor]:
    """Of one number that everything the module gives enters, the features in any order."""
    total = (out * out.detach().sin()).sum() + 3.0 * loss
    found = torch.autograd.grad(total, [x, *by], allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip([x, *by], found, strict=True)]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("compact", [True, False], ids=["compact", "static"])
@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.0, 4])
@pytest.mark.parametrize("name", ENGINE)
def test_same_numbers(name: str, ratio: float | int, compact: bool, training: bool) -> None:
    build, options, score = ENGINE[name]
    graphs = random_batch(1)
    engine, layer = double(build(DIM, ratio, **options)).train(training), LAYERS[name](DIM, ratio).double()
    layer.train(training).pool.load_state_dict(engine.state_dict())

    x, other = graphs.x.clone().requires_grad_(), graphs.x.clone().requires_grad_()
    level = engine_level(graphs, compact)
    expected = engine(other, level)
    out = layer(x, graphs.edge_index, batch=graphs.batch)
    assert without_ties(out, graphs.batch, score)

    order, alive = out.perm.argsort(), expected.level.alive.nonzero().squeeze(1)
    assert out.perm[order].tolist() == expected.level.position[alive].tolist()
    close(out.x[order], expected.x[alive])
    for key, value in expected.scores.items():
        close(out.scores[key], value)
    for key, value in expected.metrics.items():
        close(out.metrics[key], value)
    loss = sum(expected.losses.values(), start=torch.zeros((), dtype=torch.float64))
    close(out.aux_loss, loss)

    ours = gradients(x, list(layer.parameters()), out.x, out.aux_loss)
    theirs = gradients(other, list(engine.parameters()), expected.x[alive], loss)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)


@pytest.mark.parametrize("name", ENGINE)
def test_same_edges(name: str) -> None:
    build, options, _ = ENGINE[name]
    graphs = random_batch(2)
    engine, layer = double(build(DIM, 0.6, **options)), LAYERS[name](DIM, 0.6).double()
    layer.pool.load_state_dict(engine.state_dict())
    after = engine(graphs.x, engine_level(graphs, compact=True)).level
    out = layer(graphs.x, graphs.edge_index, batch=graphs.batch)
    order = out.perm.argsort()
    ours = dense(out.edge_index, out.edge_attr, len(order))[order][:, order]
    close(ours, after.neighbor_sum(torch.eye(len(order), dtype=torch.float64)))
    assert ours.count_nonzero() > 20


def test_gradient_by_the_weights_of_the_edges() -> None:
    """Through ASAP's weights a loss of a later level reaches an earlier one."""
    graphs = random_batch(3)
    first, second = (double(LAYERS["asap"](DIM, 0.7)) for _ in range(2))

    def total(weight: Tensor) -> Tensor:
        x, edges, weight, batch, _, _ = first(graphs.x, graphs.edge_index, weight, graphs.batch)
        return second(x, edges, weight, batch).x.sum()

    weight = graphs.edge_attr.clone().requires_grad_()
    (slope,) = torch.autograd.grad(total(weight), weight)
    for edge in (0, 17, 40):
        step = torch.zeros_like(weight)
        step[edge] = 1e-6
        numeric = (total(graphs.edge_attr + step) - total(graphs.edge_attr - step)) / 2e-6
        close(slope[edge], numeric, 1e-6)
    assert slope.count_nonzero() > len(slope) // 2
