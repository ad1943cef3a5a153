"""What a layer returns keeps its loss where torch puts outputs together anew."""

import copy
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from pyg_batches import DIM, LAYERS, Graphs, random_batch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils import _pytree
from torch.utils.checkpoint import checkpoint

from cgipool.nn import CGIPooling, PoolingOutput
from cgipool.nn.base import _known

every = pytest.mark.parametrize("name", LAYERS)


@pytest.fixture
def graphs() -> Graphs:
    return random_batch(0)


@pytest.fixture
def one_process() -> Iterator[None]:
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def gradients(layer: nn.Module, call: Callable[..., PoolingOutput], graphs: Graphs) -> list[Tensor | None]:
    """Of a loss that x, score and aux_loss enter, by all weights and the features."""
    x = graphs.x.clone().requires_grad_()
    torch.manual_seed(3)
    out = call(x, graphs.edge_index, None, graphs.batch)
    assert isinstance(out, PoolingOutput)
    assert set(out.scores)
    layer.zero_grad()
    (out.x.square().sum() + out.score.sum() + 2.0 * out.aux_loss).backward()
    return [x.grad, *(p.grad for p in layer.parameters())]


def same(ours: list[Tensor | None], theirs: list[Tensor | None]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        a, b = (torch.zeros(()) if g is None else g for g in (a, b))
        torch.testing.assert_close(a, b if a.shape == b.shape else b.expand_as(a), check_dtype=False)


@every
@pytest.mark.parametrize("kind", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_backward_hook(name: str, kind: str, graphs: Graphs) -> None:
    layer = LAYERS[name](DIM, 0.5).double()
    expected = gradients(layer, layer, graphs)
    seen: list[Any] = []
    getattr(layer, kind)(lambda *told: seen.append(told) or None)
    same(gradients(layer, layer, graphs), expected)
    assert seen


@every
@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("options", [{}, {"find_unused_parameters": True}, {"static_graph": True}], ids=str)
def test_ddp_around_the_layer(name: str, options: dict[str, bool], graphs: Graphs) -> None:
    layer = LAYERS[name](DIM, 0.5).double()
    expected = gradients(layer, layer, graphs)
    parallel = DistributedDataParallel(layer, **options)
    for _ in range(2):
        same(gradients(layer, parallel, graphs), expected)


@every
def test_checkpoint_without_reentrance(name: str, graphs: Graphs) -> None:
    layer = LAYERS[name](DIM, 0.5).double()
    expected = gradients(layer, layer, graphs)
    same(gradients(layer, lambda *args: checkpoint(layer, *args, use_reentrant=False), graphs), expected)


@every
def test_reentrant_checkpoint(name: str, graphs: Graphs) -> None:
    """Torch gives a plain tuple of what it is given; docs/howto/pyg-layers.md names the way around."""
    layer = LAYERS[name](DIM, 0.5).double()
    expected = gradients(layer, layer, graphs)

    def with_loss(*args: Any) -> tuple[Any, ...]:
        pooled = layer(*args)
        return *pooled, pooled.aux_loss

    x = graphs.x.clone().requires_grad_()
    torch.manual_seed(3)
    bare = checkpoint(layer, x, graphs.edge_index, None, graphs.batch, use_reentrant=True)
    assert type(bare) is tuple
    torch.manual_seed(3)
    kept, _, _, _, _, score, aux_loss = checkpoint(
        with_loss, x, graphs.edge_index, None, graphs.batch, use_reentrant=True
    )
    layer.zero_grad()
    (kept.square().sum() + score.sum() + 2.0 * aux_loss).backward()
    same([x.grad, *(p.grad for p in layer.parameters())], expected)


@every
def test_pytrees(name: str, graphs: Graphs) -> None:
    out = LAYERS[name](DIM, 0.5).double().eval()(graphs.x, graphs.edge_index, None, graphs.batch)
    leaves, spec = _pytree.tree_flatten(out)
    back = _pytree.tree_unflatten(leaves, spec)
    assert isinstance(back, PoolingOutput)
    assert back.aux_loss is out.aux_loss
    assert back.scores.keys() == out.scores.keys()
    assert back.metrics.keys() == out.metrics.keys()
    halves = _pytree.tree_map(lambda leaf: leaf.detach() / 2 if isinstance(leaf, Tensor) else leaf, out)
    assert torch.equal(halves.aux_loss, out.aux_loss / 2)
    assert not halves.aux_loss.requires_grad
    assert PoolingOutput(*out).aux_loss is out.aux_loss


def test_functional_call(graphs: Graphs) -> None:
    layer = CGIPooling(DIM, 0.5).double()
    inputs = (graphs.x, graphs.edge_index, None, graphs.batch)
    weights = {key: weight.detach().clone().requires_grad_() for key, weight in layer.named_parameters()}
    out, plain = torch.func.functional_call(layer, weights, inputs), layer(*inputs)
    by = torch.autograd.grad(out.aux_loss, list(weights.values()), allow_unused=True)
    same(list(by), list(torch.autograd.grad(plain.aux_loss, list(layer.parameters()), allow_unused=True)))
    assert out.aux_loss.item() == plain.aux_loss.item()


def test_other_ways_to_put_it_together(graphs: Graphs) -> None:
    out = CGIPooling(DIM, 0.5).double()(graphs.x, graphs.edge_index, None, graphs.batch)
    for made in (PoolingOutput(part for part in out), type(out)(*out), copy.copy(out), out._replace(score=None)):
        assert made.aux_loss is out.aux_loss
        assert made.x is out.x
    copies = PoolingOutput(*(None if part is None else part.clone() for part in out))
    with pytest.raises(AttributeError, match="copies of its six parts, without its loss"):
        _ = copies.aux_loss


def test_nothing_is_held_when_the_output_is_gone(graphs: Graphs) -> None:
    gc.collect()
    before = len(_known)
    out = CGIPooling(DIM, 0.5).double()(graphs.x, graphs.edge_index, None, graphs.batch)
    assert len(_known) == before + 1
    del out
    assert len(_known) == before
