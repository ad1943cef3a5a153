"""Diagnostics, ablations, names and ranges: what a user reads off a model, and what one may ask of it."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool.data import random_splits
from cgipool.data.batch import Batch
from cgipool.errors import UserError
from cgipool.model.build import build_network
from cgipool.model.layers import InputLinear, InputSize
from cgipool.model.level import Level
from cgipool.model.network import Network
from cgipool.pool import CGIPool, ReleasedCGIPool
from cgipool.pool.cgi import Discriminator
from cgipool.training.job import Job
from cgipool.training.loop import Training
from cgipool.training.presets import PAPER, RELEASED
from small import Step, double, kept, objective, random_case, random_graphs, random_network, rows, traced, watching

FORMS = ["paper", "released"]
CGI = ["cgi", "cgi-rs", "cgi-nomi"]


def discriminators(network: Network) -> list[Discriminator]:
    return [pool.discriminator for pool in network.pools]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", CGI)
def test_metrics_in_range(method: str, form: str) -> None:
    for seed in range(5):
        case = random_case(seed)
        network = random_network(case.size, seed, method=method, form=form, ratio=0.8).eval()
        output, steps = traced(network, case.batch())
        assert all(values.shape == (3,) for values in output.metrics.values())
        accuracy, overlap = output.metrics["discriminator_accuracy"], output.metrics["overlap"]
        assert ((accuracy >= 0.0) & (accuracy <= 1.0)).all()
        # Two choices of k among n nodes share at least 2k − n: at ratio 0.8, 60 % of the nodes.
        for share, (before, pooled) in zip(overlap.tolist(), steps, strict=True):
            n, k = before.sizes, pooled.level.sizes
            assert (2 * k - n).clamp(min=0).sum() / k.sum() - 1e-6 <= share <= 1.0
            assert share >= 0.6
        assert output.own_loss == pytest.approx(output.metrics["mi"].mean().item())


def test_training_mode_does_not_pay_for_metrics() -> None:
    case = random_case(0)
    assert random_network(case.size).train()(case.batch()).metrics == {}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("logit", "right"), [(1.0, 0.5), (-1.0, 0.5)])
def test_a_blind_discriminator_is_right_half_the_time(form: str, logit: float, right: float) -> None:
    case = random_case(0)
    network = random_network(case.size, form=form).eval()
    with torch.no_grad():
        for discriminator in discriminators(network):
            discriminator[2].weight.zero_()
            discriminator[2].bias.fill_(logit)
    output, _ = traced(network, case.batch())
    assert output.metrics["discriminator_accuracy"].tolist() == [right] * 3
    loss = math.log1p(math.exp(-logit)) + math.log1p(math.exp(logit))
    expected = loss / 2 if form == "released" else loss
    assert output.metrics["mi"].tolist() == pytest.approx([expected] * 3)


@pytest.mark.parametrize(("mi", "even"), [("gan", 0.0), ("kl", 1.0)])
@pytest.mark.parametrize(("above", "right"), [(0.5, 1.0), (-0.5, 0.5)])
def test_a_discriminator_that_knows_is_always_right(mi: str, even: float, above: float, right: float) -> None:
    """In CGIPool-RS with y_r pressed to 0 the real graph's mean is 0, and the fake one's is not: T is a number of our
    choice on real pairs and far below on fake ones. It decides where its bound is even."""
    case = random_case(0)
    network = random_network(case.size, method="cgi-rs", levels=1, mi=mi).eval()
    with torch.no_grad():
        network.convs[0].bias.fill_(50.0)  # H > 0
        network.pools[0].gnn.linear.weight.zero_()
        network.pools[0].gnn.bias.fill_(-100.0)
        first, _, last = network.pools[0].discriminator
        width = first.weight.shape[0]
        first.weight.zero_()
        first.weight[:, width:] = torch.eye(width)  # e_coarse, the second of the pair
        first.bias.zero_()
        last.weight.fill_(-1.0)
        last.bias.fill_(even + above)
    output, _ = traced(network, case.batch())
    assert output.metrics["discriminator_accuracy"].tolist() == [right]


@pytest.mark.parametrize("form", FORMS)
def test_without_mi_nothing_teaches_the_discriminator(form: str, tmp_path: Path) -> None:
    graphs = random_graphs(0, [5] * 20, density=0.5)
    (split,) = random_splits(graphs, seed=0, indices=[0])
    recipe = (PAPER if form == "paper" else RELEASED).but(width=8, batch_size=8, weight_decay=0.0, alpha=1.0)
    stays = {}
    for method in ("cgi", "cgi-nomi"):
        training = Training(Job(method, recipe, split, 0, "cpu", tmp_path), graphs)
        assert training.own_weight(1) == (1.0 if method == "cgi" else 0.0)
        before = training.state.best
        training.train_epoch()
        after = training.state.network.state_dict()
        stays[method] = {name for name in after if torch.equal(after[name], before[name])}
    assert stays["cgi-nomi"] == {name for name in after if ".discriminator." in name}
    assert stays["cgi"] == set()


def test_a_loss_of_weight_zero_cannot_spoil_the_objective() -> None:
    case = random_case(0)
    batch = case.batch()
    output = random_network(case.size).train()(batch)._replace(own_loss=torch.tensor(torch.inf))
    assert objective(output, batch, torch.ones(output.logits.shape[1]), 0.0).isfinite()
    assert not objective(output, batch, torch.ones(output.logits.shape[1]), 0.1).isfinite()


def negatives(network: Network, batch: Batch) -> list[Step]:
    network.train()
    with watching(network) as steps, torch.no_grad():
        network(batch)
    return steps


def test_random_negatives_are_fresh_each_step() -> None:
    case = random_case(0)
    network = random_network(case.size, method="cgi-rs", ratio=0.5)
    first, again, other = (negatives(network, case.batch(key=key)) for key in (1, 1, 2))
    for one, same, different in zip(first, again, other, strict=True):
        here = rows(one.before)
        assert torch.equal(one.pooled.scores["y_f"], same.pooled.scores["y_f"])
        assert torch.equal(one.pooled.losses["mi"], same.pooled.losses["mi"])
        assert not (one.pooled.scores["y_f"][here] == different.pooled.scores["y_f"][here]).any()
        assert one.pooled.losses["mi"] != different.pooled.losses["mi"]
        assert torch.equal(one.pooled.x, different.pooled.x), "the output is by y_r alone"
    site_0, site_1 = (first[level].pooled.scores["y_f"][rows(first[1].before)] for level in (0, 1))
    assert not (site_0 == site_1).any(), "each level draws its own"


def test_random_negatives_are_uniform() -> None:
    case, draws = random_case(0, sizes=(5,), edgeless=()), 1000
    pool, count = CGIPool(3, 0.4, negative="random"), torch.zeros(5)
    for key in range(draws):
        level = Level.whole(case.batch(key=key))
        with torch.no_grad():
            score = pool(torch.ones(5, 3), level).scores["y_f"]
        chosen = level.select(score.unsqueeze(1), level.kept(0.4)).squeeze(1)
        assert chosen.sum() == 2
        count += chosen
    # A node's share is 2 of 5, with a standard error of 0.015.
    assert ((count / draws - 0.4).abs() < 0.06).all()


def mean_of(h: Tensor, weight: Tensor, count: int) -> Tensor:
    return (h * weight.unsqueeze(1)).sum(0) / count


@pytest.mark.oracle("cgi-rs")
def test_random_negatives_by_hand() -> None:
    """k random nodes with gate 1 are the fake graph; y_r alone chooses and gates the output."""
    case = random_case(3, sizes=(9,), edgeless=())
    pool, batch = CGIPool(4, 0.5, site=2, negative="random"), case.batch(key=8)
    h, level = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), Level.whole(batch)
    with torch.no_grad():
        pooled = pool(h, level)
        y_r = torch.sigmoid(pool.gnn(h, level)).squeeze(1)
        fake = torch.zeros(9)
        fake[level.uniform(2).argsort(descending=True)[:5]] = 1.0
        real = torch.zeros(9)
        real[y_r.argsort(descending=True)[:5]] = 1.0
        e = h.mean(0)
        t_r = pool.discriminator(torch.cat([e, mean_of(h, real * y_r, 5)]))
        t_f = pool.discriminator(torch.cat([e, mean_of(h, fake, 5)]))
        expected = -F.logsigmoid(t_r) - F.logsigmoid(-t_f)
    torch.testing.assert_close(pooled.losses["mi"], expected.squeeze())
    assert kept(pooled.level).tolist() == torch.nonzero(real).squeeze(1).tolist()
    torch.testing.assert_close(pooled.x, h * (real * y_r).unsqueeze(1))


def test_released_form_by_hand() -> None:
    """The published log-probabilities say nothing of L_MI: all nodes, tanh gates, [coarse ‖ whole], half of the sum."""
    case = random_case(3, sizes=(9,), edgeless=())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        pool, x = ReleasedCGIPool(4, 0.5), torch.randn(9, 4)
    a = torch.from_numpy(case.adjacency(0)).float()

    def graph_conv(layer: nn.Module, h: Tensor) -> Tensor:
        return a @ h @ layer.neighbors.weight.T + layer.bias + h @ layer.root.weight.T

    with torch.no_grad():
        pooled = pool(x, Level.whole(case.batch()))
        h, h_r, h_f = F.leaky_relu(graph_conv(pool.hidden, x), 0.2).split(4, 1)
        s_r, s_f = graph_conv(pool.score_r, h_r).squeeze(1), graph_conv(pool.score_f, h_f).squeeze(1)
        t_r = pool.discriminator(torch.cat([mean_of(h, s_r.tanh(), 9), h.mean(0)]))
        t_f = pool.discriminator(torch.cat([mean_of(h, s_f.tanh(), 9), h.mean(0)]))
        expected = (-F.logsigmoid(t_r) - F.logsigmoid(-t_f)) / 2.0
        keep = torch.zeros(9)
        keep[(s_r - s_f).argsort(descending=True)[:5]] = 1.0
    torch.testing.assert_close(pooled.losses["mi"], expected.squeeze())
    torch.testing.assert_close(pooled.x, h * ((s_r - s_f).tanh() * keep).unsqueeze(1))
    assert kept(pooled.level).tolist() == torch.nonzero(keep).squeeze(1).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "cgi-sr"}, r"unknown method 'cgi-sr'; did you mean 'cgi-rs'\? known: asap, cgi"),
        ({"method": "cig"}, r"did you mean 'cgi'\?"),
        (
            {"conv": "sgae"},
            r"unknown convolution 'sgae'; did you mean 'sage'\? known: gcn, gcn-root, gin, gine",
        ),
        ({"conv": "GCN"}, r"did you mean 'gcn'\?"),
        ({"mi": "gann"}, r"unknown mutual-information bound 'gann'; did you mean 'gan'\? known: gan, kl"),
        ({"mi": "gann", "form": "released"}, r"did you mean 'gan'\?"),
        ({"mi": "xyz"}, "unknown mutual-information bound 'xyz'; known: gan, kl"),
    ],
)
def test_unknown_names(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        build_network(InputSize(3), 2, width=4, **options)
    assert "\n" not in str(error.value)


def test_unknown_form() -> None:
    with pytest.raises(UserError, match=r"unknown form 'realeased'; did you mean 'released'\?"):
        build_network(InputSize(3), 2, width=4, form="realeased")


def test_unknown_negatives() -> None:
    with pytest.raises(
        UserError,
        match=r"'randon'; did you mean 'random'\? known: batch, complement, learned, predict, random, sufficient",
    ):
        CGIPool(4, negative="randon")


BAD_RATIOS = [0, 0.0, -1, -0.5, math.nan, math.inf, 1.5, 2**63, True, False, "0.8", None]


@pytest.mark.parametrize("ratio", BAD_RATIOS, ids=repr)
@pytest.mark.parametrize("pool", [CGIPool, ReleasedCGIPool])
def test_ratio_out_of_range(pool: type[nn.Module], ratio: Any) -> None:
    with pytest.raises(UserError, match=r"ratio must be a share in \(0, 1\] or a whole number of nodes from 1"):
        pool(4, ratio)


@pytest.mark.parametrize("ratio", [r for r in BAD_RATIOS if r is not None], ids=repr)
def test_recipe_checks_its_ratio(ratio: Any) -> None:
    with pytest.raises(UserError, match="ratio must be"):
        PAPER.but(ratio=ratio)


@pytest.mark.parametrize("ratio", [1e-9, 0.5, 1.0, 1, 7])
def test_ratio_in_range(ratio: float | int) -> None:
    case = random_case(0)
    _, steps = traced(random_network(case.size, ratio=ratio), case.batch())
    assert (steps[-1].after.sizes >= 1).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", CGI)
def test_repr(method: str, form: str) -> None:
    network = build_network(InputSize(3, 2), 2, width=4, ratio=0.75, method=method, form=form, mi="kl")
    for pool in network.pools:
        assert "ratio=0.75, mi='kl'" in repr(pool)
        assert ("negative='random'" in repr(pool)) == (method == "cgi-rs")
    assert "ratio=0.75" in repr(network)
    assert "3 one-hot + 2 float columns, 4" in repr(network)


def test_a_category_never_seen_contributes_nothing(tmp_path: Path) -> None:
    graphs = random_graphs(0, [6] * 30, density=0.4)
    (split,) = random_splits(graphs, seed=0, indices=[0])
    for recipe in (PAPER, RELEASED.but(vocabulary="train")):
        training = Training(Job("cgi", recipe.but(width=8, batch_size=8), split, 0, "cpu", tmp_path), graphs)
        for _ in range(3):
            training.train_epoch()
        network = training.state.network
        inputs = [module for module in network.modules() if isinstance(module, InputLinear)]
        assert inputs
        for linear in inputs:
            silent = list(linear.size.silent)
            assert len(silent) == 2
            assert (linear.weight[silent] == 0.0).all()
            used = sorted({*training.batcher.batch(split.train).category.flatten().tolist()})
            assert not set(used) & set(silent)
            assert (linear.weight[used] != 0.0).all()

            batch = training.batcher.batch(split.test)
            unseen = batch.category == silent[0]
            assert unseen.any(), "the test graphs should show some label for the first time"
            other = linear.weight[batch.category[:, 1].long()]
            here = unseen[:, 0]
            torch.testing.assert_close(linear(batch)[here], other[here])


def test_silent_rows_start_at_zero() -> None:
    for conv in ("gcn", "sage"):
        network = build_network(InputSize(5, 2, silent=(1, 4)), 2, width=4, conv=conv)
        for linear in network.convs[0].children():
            assert torch.nonzero((linear.weight == 0.0).all(1)).squeeze(1).tolist() == [1, 4]


@pytest.mark.parametrize("form", FORMS)
def test_extreme_scores_stay_finite(form: str) -> None:
    """L_MI is computed from logits: a discriminator that is very sure must not give log 0."""
    case = random_case(0)
    network = random_network(case.size, form=form).double()
    with torch.no_grad():
        for discriminator in discriminators(network):
            discriminator[2].weight.mul_(1e5)
    batch = double(case.batch())
    output = network(batch)
    objective(output, batch, torch.ones(3, dtype=torch.float64), 1.0).backward()
    assert output.own_loss.isfinite()
    assert output.own_loss > 100.0
    for name, parameter in network.named_parameters():
        assert parameter.grad.isfinite().all(), name
