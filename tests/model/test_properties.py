"""What must hold of the network on any graphs: order, batch and padding do not matter, and k is exact.

The features are continuous; graphs in which scores tie at a cut all the same are left out.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgipool.data import GraphSet
from cgipool.data.batch import Batch, Capacity
from cgipool.model.network import Network
from small import (
    Case,
    adjacency,
    case_of,
    clear_graphs,
    double,
    kept,
    kept_by_graph,
    objective,
    random_case,
    random_graphs,
    random_network,
    rows,
    traced,
)

VARIANTS = [(method, form) for method in ("cgi", "cgi-nomi", "cgi-rs") for form in ("paper", "released")]

variants = pytest.mark.parametrize(("method", "form"), VARIANTS, ids=[f"{m}-{f}" for m, f in VARIANTS])
both_ways = pytest.mark.parametrize("compact", [False, True], ids=["static", "compact"])

seeds = st.integers(0, 2**32 - 1)
sizes = st.lists(st.integers(1, 10), min_size=1, max_size=5)
densities = st.sampled_from([0.0, 0.3, 0.8])
ratios = st.one_of(st.sampled_from([0.5, 0.8, 1.0, 1, 3]), st.integers(5, 100).map(lambda h: h / 100))

few = settings(max_examples=12)


def network_of(case: Case, method: str, form: str, ratio: float | int, compact: bool = False, **options) -> Network:
    conv = "sage" if form == "released" else "gcn"
    network = random_network(case.size, 1, method=method, form=form, conv=conv, ratio=ratio, compact=compact, **options)
    return network.double().eval()


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def relabelled(graphs: GraphSet, new: np.ndarray) -> GraphSet:
    """The same graphs, node p now called new[p]."""
    old = np.argsort(new)
    return GraphSet.from_edges(
        graphs.name,
        graphs.sizes,
        new[graphs.edge_source],
        new[graphs.edge_source + graphs.edge_disp],
        graphs.y,
        class_names=graphs.class_names,
        attributes=graphs.attributes[old],
    )


@variants
@both_ways
@given(seed=seeds, sizes=sizes, density=densities, ratio=ratios)
@few
def test_the_order_of_nodes_does_not_matter(method, form, compact, seed, sizes, density, ratio) -> None:
    graphs = random_graphs(seed, sizes, density)
    generator = np.random.default_rng(seed)
    parts = zip(graphs.node_ptr[:-1], graphs.sizes, strict=True)
    new = np.concatenate([start + generator.permutation(n) for start, n in parts])
    case, moved = case_of(graphs), case_of(relabelled(graphs, new))
    network = network_of(case, method, form, ratio, compact)
    output, steps = traced(network, double(case.batch()))
    other, other_steps = traced(network, double(moved.batch()))
    clear = clear_graphs(steps)
    assume(clear)

    close(other.logits[clear], output.logits[clear])
    graph = torch.from_numpy(graphs.node_graph)
    for step, other_step in zip(steps, other_steps, strict=True):
        before, after = kept(step.after), kept(other_step.after)
        before, after = (p[torch.isin(graph[p], torch.tensor(clear))].numpy() for p in (before, after))
        assert sorted(new[before].tolist()) == after.tolist()
    if method != "cgi-rs" and len(clear) == len(sizes):  # whose random negatives are drawn by position
        close(other.own_loss, output.own_loss)
        assert other.metrics.keys() == output.metrics.keys()
        for name, values in output.metrics.items():
            torch.testing.assert_close(other.metrics[name], values)


@variants
@both_ways
@given(seed=seeds, sizes=sizes, density=densities, ratio=ratios)
@few
def test_a_batch_is_its_graphs_one_by_one(method, form, compact, seed, sizes, density, ratio) -> None:
    case = random_case(seed, sizes=sizes, density=density)
    network = network_of(case, method, form, ratio, compact)
    order = np.random.default_rng(seed).permutation(len(sizes))
    batch = double(case.batch(order))
    together, steps = traced(network, batch)
    clear = clear_graphs(steps)
    assume(clear)
    alone = [traced(network, double(case.batch([g]))) for g in order]

    close(together.logits[clear], torch.cat([output.logits for output, _ in alone])[clear])
    for level, step in enumerate(steps):
        nodes = kept_by_graph(step.after, batch)
        assert [nodes[g] for g in clear] == [kept(alone[g][1][level].after).tolist() for g in clear]
    if method != "cgi-rs" and len(clear) == len(sizes):
        close(together.own_loss, torch.stack([output.own_loss for output, _ in alone]).mean())
        close(together.metrics["mi"], torch.stack([output.metrics["mi"] for output, _ in alone]).mean(0))


@variants
@both_ways
@given(seed=seeds, sizes=sizes, density=densities, ratio=ratios)
@few
def test_kept_edges_join_the_nodes_they_joined(method, form, compact, seed, sizes, density, ratio) -> None:
    case = random_case(seed, sizes=sizes, density=density)
    _, steps = traced(network_of(case, method, form, ratio, compact), double(case.batch()))
    whole = np.zeros((case.graphs.n_nodes, case.graphs.n_nodes))
    for g, (start, n) in enumerate(zip(case.graphs.node_ptr, sizes, strict=False)):
        whole[start : start + n, start : start + n] = case.adjacency(g)
    for _, pooled in steps:
        level, nodes = pooled.level, kept(pooled.level).numpy()
        a = torch.from_numpy(whole[np.ix_(nodes, nodes)])
        close(adjacency(level), a)
        x = torch.randn(len(level.alive), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        here = rows(level)
        loops = a + torch.eye(len(a), dtype=torch.float64)
        root = loops.sum(1).rsqrt()
        close(level.propagate(x)[here], (root[:, None] * loops * root) @ x[here])
        close(level.neighbor_sum(x)[here], a @ x[here])
        close(level.neighbor_mean(x)[here], a @ x[here] / a.sum(1, keepdim=True).clamp(min=1))


@variants
@both_ways
@given(seed=seeds, sizes=sizes, ratio=ratios)
@few
def test_k_is_exact(method, form, compact, seed, sizes, ratio) -> None:
    case = random_case(seed, sizes=sizes)
    batch = double(case.batch())
    _, steps = traced(network_of(case, method, form, ratio, compact), batch)
    expected = list(sizes)
    for step in steps:
        expected = [min(ratio, n) if isinstance(ratio, int) else -(-n * round(100 * ratio) // 100) for n in expected]
        assert [len(nodes) for nodes in kept_by_graph(step.after, batch)] == expected
        assert step.after.sizes.tolist() == expected
        assert set(kept(step.after).tolist()) <= set(kept(step.before).tolist())


def test_k_does_not_round_in_single_precision() -> None:
    assert math.ceil(np.float32(0.6) * np.float32(25)) == 16
    case = random_case(0, sizes=(25,))
    _, steps = traced(random_network(case.size, ratio=0.6, levels=1).eval(), case.batch())
    assert steps[0].after.sizes.tolist() == [15]


@variants
@both_ways
@pytest.mark.parametrize("ratio", [1.0, 100])
def test_ratio_one_keeps_all(method: str, form: str, compact: bool, ratio: float | int) -> None:
    case = random_case(2)
    _, steps = traced(network_of(case, method, form, ratio, compact), double(case.batch()))
    for step in steps:
        assert kept(step.after).tolist() == list(range(case.graphs.n_nodes))


@variants
@both_ways
@pytest.mark.parametrize("ratio", [0.3, 0.8, 2])
def test_ties_go_to_the_lower_index(method: str, form: str, compact: bool, ratio: float | int) -> None:
    case = random_case(2)
    network = network_of(case, method, form, ratio, compact)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if ".gnn." in name or ".score_" in name:
                parameter.zero_()
    batch = double(case.batch())
    output, steps = traced(network, batch)
    for step in steps:
        assert kept_by_graph(step.after, batch) == [list(range(k)) for k in step.after.sizes.tolist()]
    if method != "cgi-rs":
        assert output.metrics["overlap"].tolist() == [1.0] * 3


@variants
@both_ways
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_one_node_and_edgeless_graphs(method: str, form: str, compact: bool, mode: str) -> None:
    case = random_case(8, sizes=(1, 4, 1, 3), edgeless=range(4))
    network = network_of(case, method, form, 0.5, compact).train(mode == "train")
    batch = double(case.batch())
    output = network(batch)
    objective(output, batch, torch.ones(3, dtype=torch.float64), 1.0).backward()
    assert output.logits.isfinite().all()
    for name, parameter in network.named_parameters():
        assert parameter.grad.isfinite().all(), name
    assert kept_by_graph(traced(network, batch)[1][0].after, batch)[0] == [0]


def differentiated(network: Network, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    network.zero_grad()
    loss = objective(network(batch), batch, torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64), 0.7)
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in network.parameters()]


@variants
@both_ways
@given(
    seed=seeds,
    sizes=sizes,
    ratio=ratios,
    more=st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)),
)
@few
def test_padding_changes_nothing(method, form, compact, seed, sizes, ratio, more) -> None:
    case = random_case(seed, sizes=sizes)
    network = network_of(case, method, form, ratio, compact, dropout=0.5)
    ids = np.arange(len(sizes))
    needed = case.batcher.capacity(ids)
    room = Capacity(*(a + b for a, b in zip(needed, more, strict=True)))
    exact, padded = double(case.batcher.batch(ids, 77)), double(case.batcher.batch(ids, 77, room))
    assert (len(padded.alive), len(padded.neighbor), len(padded.y), padded.room.shape[1]) == room

    output, steps = traced(network, exact)
    assume(len(clear_graphs(steps)) == len(ids))
    other, other_steps = traced(network, padded)
    close(other.logits[: len(ids)], output.logits)
    close(other.own_loss, output.own_loss)
    for name, values in output.metrics.items():
        torch.testing.assert_close(other.metrics[name], values)
    for step, other_step in zip(steps, other_steps, strict=True):
        assert kept(other_step.after).tolist() == kept(step.after).tolist()

    network.train()  # with dropout, and the random negatives of the same step
    loss, gradients = differentiated(network, exact)
    other_loss, other_gradients = differentiated(network, padded)
    close(other_loss, loss)
    for mine, theirs in zip(gradients, other_gradients, strict=True):
        close(theirs, mine)


@variants
@both_ways
def test_a_graph_without_nodes_does_not_count(method: str, form: str, compact: bool) -> None:
    case = random_case(17, sizes=(0, 6, 0, 9, 0), edgeless=())
    network = network_of(case, method, form, 0.5, compact)
    output, _ = traced(network, double(case.batch()))
    assert output.logits.isfinite().all()
    only, _ = traced(network, double(case.batch([1, 3])))
    close(output.logits[[1, 3]], only.logits)
    close(output.metrics["mi"], only.metrics["mi"])
    loss, gradients = differentiated(network, double(case.batch()))
    other_loss, other_gradients = differentiated(network, double(case.batch([1, 3])))
    close(loss, other_loss)
    for mine, theirs in zip(gradients, other_gradients, strict=True):
        close(mine, theirs)


@variants
def test_compact_and_static_levels_agree(method: str, form: str) -> None:
    case = random_case(31, "both")
    static, compact = (network_of(case, method, form, 0.6, c, dropout=0.5).train() for c in (False, True))
    batch = double(case.batch(key=5))
    loss, gradients = differentiated(static, batch)
    other_loss, other_gradients = differentiated(compact, batch)
    close(other_loss, loss)
    for mine, theirs in zip(gradients, other_gradients, strict=True):
        close(theirs, mine)


@variants
@both_ways
def test_imposed_nodes_are_kept(method: str, form: str, compact: bool) -> None:
    case = random_case(13)
    network = network_of(case, method, form, 0.6, compact)
    batch = double(case.batch())
    output, steps = traced(network, batch)
    masks = []
    for step in steps:
        mask = torch.zeros(len(batch.alive), dtype=torch.float64)
        mask[kept(step.after)] = 1.0
        masks.append(mask)
    same, _ = traced(network, batch, masks)
    close(same.logits, output.logits)

    # Others, as many: the last instead of the best.
    last = [torch.zeros_like(m) for m in masks]
    for mask, step in zip(last, steps, strict=True):
        for stop, k in zip(batch.slot_ptr[1:].tolist(), step.after.sizes.tolist(), strict=True):
            mask[stop - k : stop] = 1.0
    other, other_steps = traced(network, batch, last)
    for mask, step in zip(last, other_steps, strict=True):
        assert kept(step.after).tolist() == torch.nonzero(mask).squeeze(1).tolist()
    assert not torch.allclose(other.logits, output.logits)
