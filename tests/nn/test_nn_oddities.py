"""Batches that are not as they should be, and those that are but rarely: every layer takes them as PyG's layers do."""

import pytest
import torch
from pyg_batches import DIM, LAYERS, close, dense, random_batch
from torch import Tensor

from cgipool.errors import UserError
from cgipool.nn import PoolingOutput, TopKPooling

NO_EDGES = torch.zeros(2, 0, dtype=torch.long)

every = pytest.mark.parametrize("name", LAYERS)


def finite(out: PoolingOutput) -> bool:
    return all(bool(value.isfinite().all()) for value in (out.x, out.score, out.aux_loss))


def by_node(out: PoolingOutput) -> tuple[list[int], Tensor, Tensor, Tensor]:
    """Kept nodes, features, scores and weights in the order of the nodes."""
    order = out.perm.argsort()
    weights = dense(out.edge_index, None if out.edge_attr is None else out.edge_attr.double(), len(order))
    return out.perm[order].tolist(), out.x[order], out.score[order], weights[order][:, order]


def same(a: PoolingOutput, b: PoolingOutput) -> None:
    (kept, *ours), (expected, *theirs) = by_node(a), by_node(b)
    assert kept == expected
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)


@every
def test_no_batch_is_one_graph(name: str) -> None:
    graphs, layer = random_batch(0, sizes=(11,)), LAYERS[name](DIM, 0.5).double().eval()
    without = layer(graphs.x, graphs.edge_index, graphs.edge_attr)
    same(without, layer(graphs.x, graphs.edge_index, graphs.edge_attr, graphs.batch))
    assert without.batch.tolist() == [0] * 6


@every
def test_the_order_within_a_graph_is_that_of_the_scores(name: str) -> None:
    graphs = random_batch(1)
    out = LAYERS[name](DIM, 0.8).double()(graphs.x, graphs.edge_index, batch=graphs.batch)
    assert out.batch.tolist() == graphs.batch[out.perm].tolist() == sorted(out.batch.tolist())
    assert torch.bincount(out.batch).tolist() == [8, 1, 6, 10, 8]
    inside = out.batch[1:] == out.batch[:-1]
    assert bool((out.score[:-1] >= out.score[1:])[inside].all())


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "asap"])
def test_edges_and_their_attributes_are_carried_along(name: str) -> None:
    """Loops and parallel edges too: what is left is what joins two kept nodes, in the order it came."""
    graphs = random_batch(2, directed=True)
    attr = torch.arange(3 * graphs.edge_index.shape[1]).view(-1, 3)
    out = LAYERS[name](DIM, 0.6).double()(graphs.x, graphs.edge_index, attr, graphs.batch)
    expected = [e for e, ends in enumerate(graphs.edge_index.T.tolist()) if set(ends) <= set(out.perm.tolist())]
    assert (out.edge_attr[:, 0] // 3).tolist() == expected
    assert out.perm[out.edge_index].tolist() == graphs.edge_index[:, expected].tolist()
    assert bool((out.edge_index[0] == out.edge_index[1]).any()), "no loop was put to the test"


@every
def test_attributes_of_edges_keep_their_shape(name: str) -> None:
    graphs = random_batch(2)
    layer, attr = LAYERS[name](DIM, 0.6).double().eval(), torch.randn(graphs.edge_index.shape[1], 6).double()
    flat, shaped = (
        layer(graphs.x, graphs.edge_index, each, graphs.batch) for each in (attr, attr.unsqueeze(2).view(-1, 3, 2))
    )
    assert shaped.edge_attr.shape == (shaped.edge_index.shape[1], 3, 2)
    close(shaped.edge_attr.flatten(1), flat.edge_attr)
    column = layer(graphs.x, graphs.edge_index, attr.unsqueeze(2), graphs.batch)
    assert column.edge_attr.shape == (column.edge_index.shape[1], 6, 1)
    close(column.x, flat.x)


@every
def test_a_wrong_number_of_edge_attributes_is_one_line(name: str) -> None:
    graphs = random_batch(2)
    layer, edges = LAYERS[name](DIM, 0.6).double(), graphs.edge_index.shape[1]
    for attr in (torch.ones(3), torch.ones(edges + 1, 4).double(), torch.tensor(1.0)):
        rows = f"{len(attr)} rows" if attr.ndim else "0 rows"
        with pytest.raises(UserError, match=f"^{type(layer).__name__}: .* have {rows} for {edges} edges$"):
            layer(graphs.x, graphs.edge_index, attr, graphs.batch)


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "asap"])
def test_attributes_of_edges_do_not_count(name: str) -> None:
    graphs, layer = random_batch(2), LAYERS[name](DIM, 0.5).double().eval()
    plain, with_attr = (
        layer(graphs.x, graphs.edge_index, attr, graphs.batch) for attr in (None, 1e3 * graphs.edge_attr.unsqueeze(1))
    )
    assert plain.edge_attr is None
    assert plain.perm.tolist() == with_attr.perm.tolist()
    close(plain.x, with_attr.x)


def test_weights_of_edges_count_in_asap() -> None:
    graphs, layer = random_batch(2), LAYERS["asap"](DIM, 0.5).double()
    plain, ones, weighted = (
        layer(graphs.x, graphs.edge_index, weight, graphs.batch).scores["phi"].detach()
        for weight in (None, torch.ones_like(graphs.edge_attr), graphs.edge_attr)
    )
    close(plain, ones)
    assert float((plain - weighted).abs().max()) > 1e-3


def test_parallel_edges_are_one_of_their_weight_in_asap() -> None:
    graphs, layer = random_batch(2), LAYERS["asap"](DIM, 0.5).double()
    twice = torch.cat([graphs.edge_index, graphs.edge_index], 1)
    parallel = layer(graphs.x, twice, torch.cat([graphs.edge_attr, graphs.edge_attr]), graphs.batch)
    same(parallel, layer(graphs.x, graphs.edge_index, 2.0 * graphs.edge_attr, graphs.batch))


@every
def test_loops_are_not_seen(name: str) -> None:
    graphs, layer = random_batch(3), LAYERS[name](DIM, 0.5).double().eval()
    loops = torch.tensor([[0, 4, 9, 20], [0, 4, 9, 20]])
    plain = layer(graphs.x, graphs.edge_index, batch=graphs.batch)
    looped = layer(graphs.x, torch.cat([loops, graphs.edge_index], 1), batch=graphs.batch)
    assert looped.perm.tolist() == plain.perm.tolist()
    close(looped.x, plain.x)


@every
def test_order_of_the_edges_does_not_matter(name: str) -> None:
    graphs, layer = random_batch(0), LAYERS[name](DIM, 0.5).double().eval()
    order = torch.randperm(graphs.edge_index.shape[1])
    shuffled = layer(graphs.x, graphs.edge_index[:, order], graphs.edge_attr[order], graphs.batch)
    same(shuffled, layer(graphs.x, graphs.edge_index, graphs.edge_attr, graphs.batch))


@every
def test_nodes_of_the_graphs_mixed_up(name: str) -> None:
    graphs, layer = random_batch(1), LAYERS[name](DIM, 0.5).double().eval()
    order = torch.randperm(len(graphs.batch))
    place = order.argsort()
    straight = layer(graphs.x, graphs.edge_index, graphs.edge_attr, graphs.batch)
    mixed = layer(graphs.x[order], place[graphs.edge_index], graphs.edge_attr, graphs.batch[order])
    assert mixed.batch.tolist() == straight.batch.tolist()
    assert order[mixed.perm].tolist() == straight.perm.tolist()
    close(mixed.x, straight.x)
    for key, value in straight.scores.items():
        if key != "y_f" or not name.endswith("-rs"):  # which is drawn afresh
            close(mixed.scores[key], value[order])


@every
def test_numbers_of_graphs_that_do_not_occur(name: str) -> None:
    graphs, layer = random_batch(1), LAYERS[name](DIM, 0.5).double().eval()
    torch.manual_seed(0)
    straight = layer(graphs.x, graphs.edge_index, batch=graphs.batch)
    torch.manual_seed(0)
    gaps = layer(graphs.x, graphs.edge_index, batch=2 * graphs.batch + 3)
    assert gaps.batch.tolist() == (2 * straight.batch + 3).tolist()
    close(gaps.x, straight.x)
    close(gaps.aux_loss, straight.aux_loss)


@every
@pytest.mark.parametrize("training", [True, False])
def test_nodes_without_edges_and_graphs_of_one_node(name: str, training: bool) -> None:
    layer = LAYERS[name](DIM, 0.5).double().train(training)
    x = torch.randn(8, DIM, dtype=torch.float64, requires_grad=True)
    for batch in ([0, 0, 0, 1, 2, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6, 7], [0] * 8):
        out = layer(x, NO_EDGES, None, torch.tensor(batch))
        assert out.edge_index.shape == (2, 0)
        assert out.batch.unique().tolist() == sorted(set(batch))
        assert finite(out)
        (by_x,) = torch.autograd.grad(out.x.sum() + out.aux_loss, x)
        assert bool(by_x.isfinite().all())


@every
def test_one_node(name: str) -> None:
    layer = LAYERS[name](DIM, 0.5)
    for edges in (NO_EDGES, torch.zeros(2, 1, dtype=torch.long)):
        out = layer(torch.randn(1, DIM), edges)
        assert (out.perm.tolist(), out.batch.tolist()) == ([0], [0])
        assert finite(out)


@every
def test_no_nodes(name: str) -> None:
    out = LAYERS[name](DIM, 0.5)(torch.randn(0, DIM), NO_EDGES, torch.zeros(0), torch.zeros(0, dtype=torch.long))
    assert [len(part) for part in out] == [0, 2, 0, 0, 0, 0]
    assert out.aux_loss.item() == 0.0


@every
def test_all_nodes(name: str) -> None:
    """A share of 1.0 is all nodes, and so is a count that no graph reaches."""
    graphs = random_batch(0)
    for ratio in (1.0, 100):
        out = LAYERS[name](DIM, ratio).double()(graphs.x, graphs.edge_index, batch=graphs.batch)
        assert sorted(out.perm.tolist()) == list(range(len(graphs.x)))


def test_one_column_may_be_flat() -> None:
    out = TopKPooling(1, 0.5)(torch.tensor([3.0, -1.0, 2.0, 5.0]), NO_EDGES)
    assert out.x.shape == (2, 1)
    assert set(out.perm.tolist()) in ({0, 3}, {1, 2})
