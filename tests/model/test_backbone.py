"""The backbone's choices (root weight, normalisation, unit gates, readouts side by side) against torch and NumPy in
double precision, on static, compact and padded levels."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, stack_module_state

from cgipool.data.batch import Batch, Capacity, stack
from cgipool.errors import UserError
from cgipool.model.build import build_network
from cgipool.model.layers import CONVOLUTIONS, InputSize, RootGCN
from cgipool.model.level import LEAST_MEAN, Level
from cgipool.model.network import Network, Output
from cgipool.model.norm import BatchNorm, LayerNorm
from cgipool.model.readout import ReadoutsSideBySide
from cgipool.pool import METHODS, Sizes
from cgipool.pool.set2set import Set2Set
from cgipool.training.presets import PAPER
from small import SIZES, Case, adjacency, double, random_case, random_network, rows, traced

NETWORKS = [name for name, method in METHODS.items() if method.build and name != "oracle"]  # it needs sets with truth
UNGATED = ("set2set", "dgcnn", "diffpool", "mincut", "none", "random")
GATES: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "cgi": ("y_d", lambda y: y),
    "cgi-rs": ("y_d", lambda y: y),
    "cgi-nomi": ("y_d", lambda y: y),
    "topk": ("s", torch.tanh),
    "sag": ("s", torch.tanh),
    "asap": ("phi", lambda y: y),
    "vip": ("t", lambda y: y),
}
"""By method, the score that is its gate, and the function between."""

RELEASED = [("released", "cgi"), ("released", "cgi-rs")]

CHOICES = [{"conv": "gcn-root"}, {"norm": "batch"}, {"norm": "layer"}, {"gate": "unit"}, {"jumping": "concat"}]
choices = pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(*choice.items()))
both_ways = pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])

ROOM = Capacity(positions=50, entries=300, graphs=9, cells=400)


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def network_of(case: Case, method: str, seed: int = 0, **options: object) -> Network:
    return random_network(case.size, seed, method=method, sizes=Sizes.of(SIZES), dropout=0.0, **options)


def batch_of(case: Case, ids: list[int] | None = None, room: Capacity | None = None, key: int = 0) -> Batch:
    chosen = np.arange(case.graphs.n_graphs) if ids is None else np.asarray(ids)
    return double(case.batcher.batch(chosen, key, room))


def levels_of(case: Case, compact: bool) -> list[Level]:
    """The whole graphs, what topk and ASAP leave of them, and DiffPool's clusters."""
    batch = batch_of(case, room=None if compact else ROOM)
    found = [Level.whole(batch, compact)]
    for method in ("topk", "asap", "diffpool"):
        _, steps = traced(network_of(case, method, compact=compact), batch)
        found.append(steps[1].after)
    return found


@both_ways
@pytest.mark.parametrize("bias", [True, False])
def test_root_weight(compact: bool, bias: bool) -> None:
    conv = RootGCN(5, 4, bias)
    if conv.gcn.bias is not None:
        torch.nn.init.normal_(conv.gcn.bias)
    for level in levels_of(random_case(1), compact):
        x, here = torch.randn(len(level.alive), 5), rows(level)
        loops = adjacency(level) + torch.eye(len(here))
        root = loops.sum(1).rsqrt()
        normalised = root.unsqueeze(1) * loops * root
        w, w_s = conv.gcn.linear.weight.T, conv.root.weight.T
        expected = normalised @ (x[here] @ w) + x[here] @ w_s + (0.0 if conv.gcn.bias is None else conv.gcn.bias)
        torch.testing.assert_close(conv(x, level)[here], expected)
        torch.testing.assert_close(conv(x, level, relu=True)[here], expected.relu())


@pytest.mark.parametrize("kind", ["floats", "labels", "both"])
def test_root_weight_of_input_features(kind: str) -> None:
    case = random_case(2, kind)
    conv, batch = RootGCN(case.size, 4), batch_of(case)
    out = conv(batch, Level.whole(batch)).detach().numpy()
    for graph in range(case.graphs.n_graphs):
        first, last = case.graphs.node_ptr[graph : graph + 2]
        loops, x = case.adjacency(graph) + np.eye(last - first), case.features(graph)
        degree = loops.sum(1)
        w, w_s = conv.gcn.linear.weight.detach().numpy(), conv.root.weight.detach().numpy()
        expected = loops / np.sqrt(np.outer(degree, degree)) @ x @ w + x @ w_s
        np.testing.assert_allclose(out[first:last], expected, atol=1e-12)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_without_bias(name: str) -> None:
    case = random_case(3)
    batch = batch_of(case)
    level, x = Level.whole(batch), torch.randn(sum(SIZES), 6)
    conv = CONVOLUTIONS[name](6, 4)
    bare = CONVOLUTIONS[name](6, 4, bias=False)
    assert set(conv.state_dict()) - set(bare.state_dict()) == {
        {"gcn-root": "gcn.bias", "gin": "second.bias", "gine": "second.bias"}.get(name, "bias")
    }
    bare.load_state_dict(conv.state_dict(), strict=False)
    last = {"gin": "second", "gine": "second", "gcn-root": "gcn"}.get(name, "")
    torch.nn.init.zeros_(conv.get_submodule(last).bias)
    torch.testing.assert_close(bare(x, level), conv(x, level))
    torch.testing.assert_close(bare(x, level, relu=True), conv(x, level).relu())


@both_ways
def test_batch_norm_is_torchs_on_the_living_nodes(compact: bool) -> None:
    for level in levels_of(random_case(4), compact):
        ours, theirs, here = BatchNorm(6), torch.nn.BatchNorm1d(6), rows(level)
        for part in ("weight", "bias"):
            torch.nn.init.normal_(getattr(ours, part))
            getattr(theirs, part).data.copy_(getattr(ours, part))
        for step in range(3):
            x = (torch.randn(len(level.alive), 6) * 3.0 + step).requires_grad_()
            y = x.detach()[here].requires_grad_()
            weight = torch.randn(len(here), 6)
            normed, expected = ours(x, level), theirs(y)
            torch.testing.assert_close(normed.x[here], expected)
            (normed.x[here] * weight).sum().backward()
            (expected * weight).sum().backward()
            torch.testing.assert_close(x.grad[here], y.grad)
            assert x.grad.sum(0).abs().max() < 1e-9, "nothing flows to the dead"
            ours.load_state_dict(ours.state_dict() | dict(normed.buffers))
        for name in ("weight", "bias"):
            torch.testing.assert_close(getattr(ours, name).grad, getattr(theirs, name).grad)
        for name in ("running_mean", "running_var"):
            torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
        x = torch.randn(len(level.alive), 6)
        assert ours.eval()(x, level).buffers == {}
        torch.testing.assert_close(ours(x, level).x[here], theirs.eval()(x[here]))


@pytest.mark.parametrize("nodes", [0, 1])
def test_batch_norm_of_hardly_anything(nodes: int) -> None:
    case = random_case(5)
    level = Level.whole(batch_of(case, [1][:nodes] or [1], ROOM))
    assert level.alive.sum() == 1, "graph 1 has one node"
    level.alive = level.alive * nodes
    norm = BatchNorm(3)
    torch.nn.init.normal_(norm.bias)
    x = torch.randn(len(level.alive), 3, requires_grad=True)
    normed = norm(x, level)
    (normed.x * level.alive.unsqueeze(1)).sum().backward()
    assert normed.x.isfinite().all()
    if nodes:
        torch.testing.assert_close(normed.x[0], norm.bias)
    torch.testing.assert_close(normed.buffers["running_var"], norm.running_var)
    torch.testing.assert_close(normed.buffers["running_mean"], 0.1 * nodes * x[0].detach())
    assert torch.equal(x.grad, torch.zeros_like(x))


def test_layer_norm_is_torchs() -> None:
    ours, theirs = LayerNorm(6), torch.nn.LayerNorm(6)
    for part in ("weight", "bias"):
        torch.nn.init.normal_(getattr(ours, part))
    theirs.load_state_dict(ours.state_dict())
    level, x = Level.whole(batch_of(random_case(6))), torch.randn(sum(SIZES), 6)
    torch.testing.assert_close(ours(x, level).x, theirs(x))
    assert ours(x, level).buffers == {}


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_the_norm_stands_between_convolution_and_relu(norm: str) -> None:
    case = random_case(7)
    network, batch = network_of(case, "none", norm=norm, levels=2), batch_of(case)
    given: list[Tensor] = []
    for pool in network.pools:
        pool.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    level, x = Level.whole(batch), batch
    network(batch)
    for conv, normalise, pooled in zip(network.convs, network.norms, given, strict=True):
        out, parts = conv(x, level), (normalise.weight, normalise.bias)
        expected = F.layer_norm(out, (8,), *parts) if norm == "layer" else F.batch_norm(out, None, None, *parts, True)
        torch.testing.assert_close(pooled, expected.relu())
        assert (pooled == 0).any()
        x = pooled


def test_only_batch_norm_takes_the_place_of_the_bias() -> None:
    assert {name.rpartition(".")[2] for name, _ in network_of(random_case(0), "none").convs.named_parameters()} == {
        "weight",
        "bias",
    }
    for norm, bias in (("batch", False), ("layer", True)):
        network = network_of(random_case(0), "none", norm=norm)
        assert any(name.endswith("bias") for name, _ in network.convs.named_parameters()) == bias
        assert len(network.norms) == 3


@pytest.mark.parametrize(("form", "method"), [*(("paper", m) for m in GATES), *RELEASED])
def test_unit_gates(form: str, method: str) -> None:
    case = random_case(8)
    score, function = GATES[method]
    function = torch.tanh if form == "released" else function
    known = METHODS[method].selects
    for compact, sizes in [(False, ()), (True, ())] + [(False, (33, 27, 24))] * known:
        plain, unit = (network_of(case, method, form=form, gate=gate, compact=compact) for gate in ("plain", "unit"))
        plain.rows = unit.rows = sizes
        batch = batch_of(case)
        before, first = traced(plain.eval(), batch)[1][0], traced(unit.eval(), batch)[1][0]
        here, old = rows(first.after), before.pooled.x[rows(before.after)]
        gate, graph = function(first.pooled.scores[score]).abs(), first.after.graph[here]
        for g in range(len(SIZES)):
            kept = first.after.position[here][graph == g]
            mean = gate[kept].mean()
            assert mean > LEAST_MEAN
            torch.testing.assert_close(first.pooled.x[here][graph == g], old[graph == g] / mean)


def test_the_mean_of_a_unit_gate_is_a_constant() -> None:
    level = Level.whole(batch_of(random_case(9)), gate="unit")
    gate = torch.randn(len(level.alive), requires_grad=True)
    k = level.kept(0.7)
    keep = level.select(gate.unsqueeze(1), k).squeeze(1)
    acting = level.acting(gate, keep, k)
    mean = torch.stack([gate[(level.graph == g) & (keep > 0)].abs().mean() for g in range(len(SIZES))]).detach()
    torch.testing.assert_close(acting, gate / mean[level.graph])
    (by_gate,) = torch.autograd.grad(acting.sum(), gate)
    torch.testing.assert_close(by_gate, 1.0 / mean[level.graph])
    nothing = torch.zeros_like(gate).requires_grad_()
    (steepest,) = torch.autograd.grad(level.acting(nothing, keep, k).sum(), nothing)
    assert level.acting(nothing, keep, k).eq(0).all()
    torch.testing.assert_close(steepest, torch.full_like(gate, 1.0 / LEAST_MEAN))


@pytest.mark.parametrize("method", UNGATED)
def test_methods_without_a_gate_ignore_it(method: str) -> None:
    case = random_case(10)
    one, other = (network_of(case, method, gate=gate).eval()(batch_of(case)).logits for gate in ("plain", "unit"))
    assert torch.equal(one, other)


@pytest.mark.parametrize("method", ["cgi", "topk", "diffpool", "set2set"])
def test_readouts_side_by_side(method: str) -> None:
    case = random_case(11)
    added, joined = (network_of(case, method, jumping=jumping).eval() for jumping in ("sum", "concat"))
    assert (added.head[0].in_features, joined.head[0].in_features) == (16, 48)
    shared = {name: value for name, value in added.state_dict().items() if not name.startswith("head.")}
    joined.load_state_dict(shared, strict=False)
    batch = batch_of(case)
    one, other = added(batch).embedding, joined(batch).embedding
    assert other.shape == (len(SIZES), 48)
    torch.testing.assert_close(other.unflatten(1, (3, 16)).sum(1), one)
    if method != "set2set":
        _, steps = traced(joined, batch)
        for part, (_, pooled) in zip(other.split(16, 1), steps, strict=True):
            here = rows(pooled.level)
            x, graph = pooled.x[here].numpy(), pooled.level.graph[here].numpy()
            parts = [np.append(x[graph == g].max(0), x[graph == g].mean(0)) for g in range(len(SIZES))]
            np.testing.assert_allclose(part.detach().numpy(), parts, atol=1e-12)


def test_dgcnn_reads_all_levels_anyway() -> None:
    case = random_case(12)
    one, other = (network_of(case, "dgcnn", jumping=jumping).eval() for jumping in ("sum", "concat"))
    assert torch.equal(one(batch_of(case)).logits, other(batch_of(case)).logits)


def answers(network: Network, batch: Batch, graphs: int) -> list[Tensor]:
    """Logits, own loss and buffers of a training step."""
    output: Output = network.train()(batch)
    return [output.logits[:graphs], output.own_loss, *output.buffers.values()]


@choices
@pytest.mark.parametrize("method", NETWORKS)
def test_padding_and_the_form_of_levels_change_nothing(method: str, choice: dict[str, str]) -> None:
    case = random_case(13)
    static, compact = (network_of(case, method, compact=compact, **choice) for compact in (False, True))
    expected = answers(static, batch_of(case), len(SIZES))
    assert len(expected) == (8 if choice == {"norm": "batch"} else 2)
    for network, room in ((static, ROOM), (compact, None)):
        for one, other in zip(answers(network, batch_of(case, room=room), len(SIZES)), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-7)


@choices
@pytest.mark.parametrize("method", ["cgi", "topk", "asap", "diffpool", "dgcnn"])
def test_a_split_does_not_know_its_neighbours(method: str, choice: dict[str, str]) -> None:
    cases = [random_case(seed) for seed in range(3)]
    networks = [network_of(case, method, seed, **choice).train() for seed, case in enumerate(cases)]
    ids = ([0, 1, 2, 3], [5, 4], [1])
    batches = [batch_of(case, i, ROOM, key) for key, (case, i) in enumerate(zip(cases, ids, strict=True))]

    def one(state: dict[str, Tensor], batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        output = functional_call(networks[0], state, (batch,))
        return output.logits, output.own_loss, dict(output.buffers)

    weights, buffers = stack_module_state(networks)
    logits, own, moved = torch.vmap(one)(weights | buffers, stack(batches))
    (logits[:, 0].sum() + own.sum()).backward()
    for s, (network, batch) in enumerate(zip(networks, batches, strict=True)):
        alone = network(batch)
        torch.testing.assert_close(logits[s], alone.logits)
        torch.testing.assert_close(own[s], alone.own_loss)
        assert moved.keys() == alone.buffers.keys()
        for name, value in alone.buffers.items():
            torch.testing.assert_close(moved[name][s], value)
        (alone.logits[0].sum() + alone.own_loss).backward()
        for name, parameter in network.named_parameters():
            given = weights[name].grad
            if parameter.grad is not None:
                torch.testing.assert_close(given[s], parameter.grad, rtol=1e-7, atol=1e-7)


def test_new_buffers_are_written_by_who_trains() -> None:
    case = random_case(14)
    network = network_of(case, "topk", norm="batch").train()
    before = {name: value.clone() for name, value in network.named_buffers()}
    output = network(batch_of(case))
    for name, value in network.named_buffers():
        assert torch.equal(value, before[name]), "a forward pass changes nothing"
    assert output.buffers.keys() == before.keys()
    network.update(output.buffers)
    for name, value in network.named_buffers():
        assert torch.equal(value, output.buffers[name])
        assert not torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("conv", "gcn_root", r"unknown convolution 'gcn_root'; did you mean 'gcn-root'\?"),
        ("norm", "bach", r"unknown normalisation 'bach'; did you mean 'batch'\? known: batch, layer, none"),
        ("gate", "units", r"unknown gate 'units'; did you mean 'unit'\? known: plain, unit"),
        ("jumping", "cat", r"unknown jumping 'cat'; .*known: concat, sum"),
    ],
)
def test_unknown_choices(setting: str, value: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_network(InputSize(3), 2, width=4, **{setting: value})
    with pytest.raises(UserError, match=message):
        PAPER.but(**{setting: value})


def test_unknown_jumping_of_a_readout() -> None:
    with pytest.raises(UserError, match="unknown jumping"):
        Set2Set(4, jumping="max")


def test_repr_names_the_choices() -> None:
    network = network_of(random_case(0), "topk", conv="gcn-root", norm="batch", jumping="concat")
    for told in ("RootGCN", "BatchNorm(8)", "ReadoutsSideBySide(max-mean)"):
        assert told in repr(network)
    assert "LayerNorm(8)" in repr(network_of(random_case(0), "topk", norm="layer"))
    assert ReadoutsSideBySide(4, "mean", 2).width == 8


@both_ways
@pytest.mark.parametrize(("residual", "depth"), [(False, 1), (True, 1), (False, 3), (True, 3)])
@pytest.mark.parametrize("method", ["none", "topk", "sag", "asap", "diffpool"])
def test_residuals_and_depth_are_their_formula(method: str, residual: bool, depth: int, compact: bool) -> None:
    """A level's features are h ← relu(Â h W + b) for each of its convolutions, with + h where both have one width."""
    case = random_case(6)
    network = network_of(case, method, compact=compact, residual=residual, convs_per_level=depth).eval()
    entered: list[tuple[Tensor, Level]] = []
    for pool in network.pools:
        pool.register_forward_pre_hook(lambda module, inputs: entered.append(inputs))
    _, steps = traced(network, batch_of(case, room=None if compact else ROOM))
    assert len(network.convs) == 3 * depth
    x = torch.from_numpy(case.x)
    for site, (found, level) in enumerate(entered):
        here = rows(level)
        loops = adjacency(level) + torch.eye(len(here))
        root = loops.sum(1).rsqrt()
        for conv in network.convs[site * depth : (site + 1) * depth]:
            weight = conv.linear.weight.detach()
            weight = weight if conv is network.convs[0] else weight.T
            out = (root.unsqueeze(1) * loops * root @ x @ weight + conv.bias.detach()).relu()
            x = out + x if residual and out.shape == x.shape else out
        torch.testing.assert_close(found[here], x, rtol=1e-9, atol=1e-9)
        x = steps[site].pooled.x[rows(steps[site].after)]
    assert case.x.shape[1] != 8, "the first convolution has another width, so nothing is added to it"
