"""CGIPool's other kinds of negatives: their losses by NumPy, the diagnostics, the contract, and their settings."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cgipool import contract
from cgipool.contract import check_method
from cgipool.data.batch import Capacity
from cgipool.data.generated import needle
from cgipool.errors import UserError
from cgipool.model.level import Level
from cgipool.pool import METHODS, CGIPool, Method, Pooled
from cgipool.study.cell import Cell, Protocol
from cgipool.training.presets import PAPER
from cgipool.training.run import train
from oracles import infomax as oracle
from small import TASK, Case, double, objective, random_case, random_network

OURS = ("batch", "complement", "predict", "sufficient")
DIM, OUTPUTS = 6, 3


def pool_of(negative: str, seed: int = 0, **options: Any) -> CGIPool:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pool = CGIPool(DIM, negative=negative, outputs=OUTPUTS, **options).double()
        with torch.no_grad():
            for name, value in pool.named_parameters():
                value.uniform_(-0.8, 0.8) if name.endswith("bias") else value.mul_(2.0)
    return pool


def answer(pool: CGIPool, case: Case, compact: bool, padded: bool) -> tuple[Pooled, list[oracle.Level]]:
    """What the pool gives, and the same graphs for the oracle."""
    h = torch.randn(case.graphs.n_nodes, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64).relu()
    ids = np.arange(case.graphs.n_graphs)
    room = Capacity(case.graphs.n_nodes + 5, 400, len(ids) + 2, 800) if padded else None
    level = Level.whole(double(case.batcher.batch(ids, room=room)), compact)
    rows = torch.cat([h, torch.full((5, DIM), 7.0, dtype=torch.float64)]) if padded else h
    params = {name: value.numpy() for name, value in pool.state_dict().items()}
    parts = np.split(h.numpy(), case.graphs.node_ptr[1:-1])
    unit = pool.encoding == "unit"
    levels = [oracle.level(params, case.adjacency(g), parts[g], pool.ratio, unit) for g in ids]
    with torch.no_grad():
        return pool(rows, level), levels


@pytest.mark.parametrize("way", ["compact", "static", "padded"])
@pytest.mark.parametrize("encoding", ["plain", "unit"])
@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("negative", OURS)
def test_losses_by_numpy(negative: str, ratio: float, encoding: str, way: str) -> None:
    for seed in range(3):
        case, pool = random_case(seed), pool_of(negative, seed, ratio=ratio, encoding=encoding).eval()
        pooled, levels = answer(pool, case, way == "compact", way == "padded")
        params = {name: value.numpy() for name, value in pool.state_dict().items()}
        if negative == "sufficient":
            for reader, output in enumerate(pooled.readings):
                read = [oracle.read(params, reader, g.e_f if reader else g.e_r) for g in levels]
                np.testing.assert_allclose(output[: len(levels)], read, rtol=1e-9, atol=1e-9)
            assert not pooled.losses
            continue
        if negative == "batch":
            expected, accuracy = oracle.batch(params, levels)
            assert pooled.metrics["discriminator_accuracy"].item() == pytest.approx(accuracy)
            assert pooled.metrics["mi_bound"].item() == pytest.approx(np.log(len(levels)) - expected)
        elif negative == "complement":
            expected = oracle.complement(params, levels)
            swapped = oracle.swapped(params, levels, encoding == "unit")
            assert pooled.metrics["swapped_accuracy"].item() == pytest.approx(swapped)
        else:
            expected = oracle.predict(params, levels, encoding == "unit")
        assert pooled.losses["mi"].item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("negative", OURS)
def test_the_real_graph_is_passed_on(negative: str) -> None:
    case = random_case(2)
    pooled, levels = answer(pool_of(negative, ratio=0.5), case, False, False)
    alive, start = pooled.level.alive.numpy(), case.graphs.node_ptr[:-1]
    for graph, expected in enumerate(levels):
        nodes = alive[start[graph] : start[graph] + len(expected.H)]
        assert np.flatnonzero(nodes).tolist() == expected.kept.tolist()
    gated = np.concatenate([g.H * g.y[:, None] for g in levels]) * alive[:, None]
    np.testing.assert_allclose(pooled.x, gated, rtol=1e-12)


def test_what_is_dropped_is_pushed_to_say_nothing() -> None:
    """C' descends its own loss, and all below it climbs: both losses and gradients by hand."""
    case = random_case(4)
    network = random_network(case.size, 4, ratio=0.5, levels=1, negative="sufficient", dropout=0.0).double().train()
    batch = double(case.batch())
    output = network(batch)
    ones = torch.ones(3, dtype=torch.float64)
    kept, dropped = (TASK.loss(logits, batch, ones, batch.size > 0) for logits in output.readings)
    whole = objective(output, batch, ones, 0.7)
    assert whole.item() == pytest.approx((objective(output, batch, ones, 0.0) + 0.7 * (kept + dropped)).item())

    readers, gnn = network.pools[0].readers, network.pools[0].gnn
    by_reader, by_score = torch.autograd.grad(dropped, [readers[1].weight, gnn.linear.weight], retain_graph=True)

    def loss(change: Tensor, weight: Tensor, step: float) -> float:
        with torch.no_grad():
            weight += step * change
            found = TASK.loss(network(batch).readings[1], batch, ones, batch.size > 0).item()
            weight -= step * change
        return found

    for gradient, weight, sign in ((by_reader, readers[1].weight, 1.0), (by_score, gnn.linear.weight, -1.0)):
        slope = (loss(gradient, weight, 1e-6) - loss(gradient, weight, -1e-6)) / 2e-6
        assert slope == pytest.approx(sign * gradient.square().sum().item(), rel=1e-4)


def test_swapping_shows_a_critic_that_reads_gates() -> None:
    """Where all real gates are near 1 and all fake ones near 0, a critic of sizes is right before and after the swap;
    with encodings without size it cannot be."""
    case = random_case(5, sizes=(9, 8, 12), edgeless=())
    accuracy = {}
    for encoding in ("plain", "unit"):
        pool = pool_of("learned", ratio=0.5, encoding=encoding).eval()
        with torch.no_grad():
            pool.gnn.linear.weight.mul_(0.01)
            pool.gnn.bias.copy_(torch.tensor([4.0, -4.0]))
            first, _, last = pool.discriminator
            first.weight.zero_()
            first.weight[:, DIM:] = torch.eye(DIM)
            first.bias.zero_()
            last.weight.fill_(1.0)
            last.bias.fill_(-1.5)
        accuracy[encoding] = answer(pool, case, True, False)[0].metrics
    assert accuracy["plain"]["discriminator_accuracy"] == accuracy["plain"]["swapped_accuracy"] == 1.0
    assert accuracy["unit"]["swapped_accuracy"] == pytest.approx(0.5)


@pytest.mark.parametrize("negative", OURS)
def test_variants_keep_the_contract(negative: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build = partial(CGIPool, negative=negative)
    monkeypatch.setitem(METHODS, "variant", Method("Variant", "", "", build, selects=True))
    findings = check_method("variant")
    assert [finding for finding in findings if not finding.ok] == []
    assert len(findings) == len(contract.RULES)


def test_a_partial_decides_for_a_method(tmp_path: Path) -> None:
    """cgi-nomi and cgi-rs stay what they are whatever `negative` says; random negatives of cgi are cgi-rs."""
    graphs, few = needle(30, 40), {"epochs": 1, "width": 4, "batch_size": 16}

    def weights(name: str, **options: Any) -> dict[str, Tensor]:
        from cgipool.training.checkpoint import load_tensors

        train(graphs, out=tmp_path / name, **few, **options)
        return load_tensors(tmp_path / name / "split-000" / "weights.safetensors")[0]

    plain = weights("rs", method="cgi-rs")
    for name, options in {
        "same": {"method": "cgi", "negative": "random"},
        "rs again": {"method": "cgi-rs", "negative": "batch"},
    }.items():
        other = weights(name, **options)
        assert plain.keys() == other.keys()
        assert all(torch.equal(plain[each], other[each]) for each in plain)
    nomi = [weights(f"nomi {kind}", method="cgi-nomi", negative=kind) for kind in ("learned", "complement")]
    assert all(torch.equal(nomi[0][each], nomi[1][each]) for each in nomi[0])
    asked = ("negative", "encoding", "critic_weight_decay")
    methods = ("cgi", "cgi-rs", "cgi-nomi", "topk")
    reads = {name: [setting for setting in asked if METHODS[name].reads(setting)] for name in methods}
    assert reads == {
        "cgi": ["negative", "encoding", "critic_weight_decay"],
        "cgi-rs": ["encoding", "critic_weight_decay"],
        "cgi-nomi": [],
        "topk": [],
    }


def test_random_negatives_have_the_key_of_cgi_rs() -> None:
    keys = {
        Cell(method, "NCI1", PAPER.but(**settings), Protocol()).key
        for method, settings in (("cgi-rs", {}), ("cgi", {"negative": "random"}))
    }
    others = {Cell("cgi", "NCI1", PAPER.but(negative=kind), Protocol()).key for kind in ("learned", "batch")}
    assert len(keys) == 1
    assert len(keys | others) == 3


def test_what_may_be_asked_for() -> None:
    with pytest.raises(UserError, match="unknown kind of negatives 'other'"):
        PAPER.but(negative="other")
    with pytest.raises(UserError, match="unknown encoding 'small'"):
        PAPER.but(encoding="small")
    with pytest.raises(UserError, match="the released form of CGIPool supports only negative=learned or random"):
        random_network(random_case(0).size, form="released", negative="batch")
    with pytest.raises(UserError, match="needs the number of outputs"):
        CGIPool(4, negative="sufficient")
