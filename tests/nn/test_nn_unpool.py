"""The way back from a coarsened graph."""

import pytest
import torch
from pyg_batches import DIM, random_batch

from cgipool.errors import UserError
from cgipool.nn import CGIPooling, TopKPooling, unpool


def test_by_hand() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    back = unpool(x, torch.tensor([3, 0]), 4)
    assert back.tolist() == [[3.0, 4.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]
    assert unpool(x[:, 0], torch.tensor([1, 2]), 3).tolist() == [0.0, 1.0, 3.0]


def test_undoes_pooling_but_for_the_gate() -> None:
    graphs = random_batch(0)
    out = CGIPooling(DIM, 0.5).double()(graphs.x, graphs.edge_index, batch=graphs.batch)
    back = unpool(out.x / out.score.unsqueeze(1), out.perm, len(graphs.x))
    kept = torch.isin(torch.arange(len(graphs.x)), out.perm)
    torch.testing.assert_close(back[kept], graphs.x[kept])
    assert not back[~kept].any()


def test_gradient() -> None:
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda value: unpool(value, torch.tensor([4, 1, 2]), 6), x)


def test_several_levels() -> None:
    """At once, and one after the other."""
    graphs = random_batch(1)
    x, edges, batch, perms, nodes = graphs.x, graphs.edge_index, graphs.batch, [], []
    for _ in range(3):
        nodes.append(len(x))
        x, edges, _, batch, perm, _ = TopKPooling(DIM, 0.7).double()(x, edges, batch=batch)
        perms.append(perm)
    step = x
    for perm, count in zip(reversed(perms), reversed(nodes), strict=True):
        step = unpool(step, perm, count)
    at_once = unpool(x, perms, nodes[0])
    assert torch.equal(at_once, step)
    assert at_once.any(1).sum() == len(x) < nodes[-1]
    assert graphs.batch[at_once.any(1)].bincount().tolist() == batch.bincount().tolist()


def test_perm_of_another_graph() -> None:
    with pytest.raises(UserError, match="perm has 3 nodes, but x_coarse has 2"):
        unpool(torch.ones(2, 1), torch.tensor([0, 1, 2]), 5)
