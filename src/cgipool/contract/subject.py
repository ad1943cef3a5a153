"""The small graphs and networks that the rules run on, and the exceptions that report their results.

Shapes: N nodes, B graphs.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgipool.data.batch import Batch, Batcher, Capacity
from cgipool.data.encoded import Inputs
from cgipool.data.graphs import GraphSet
from cgipool.model.build import build_model
from cgipool.model.layers import InputSize
from cgipool.model.network import Model
from cgipool.pool import Sizes, method_named
from cgipool.task.classification import Classification

SIZES, EDGELESS, FLOATS, CLASSES, WIDTH, KINDS = (7, 1, 5, 12, 2, 9), 2, 4, 3, 16, 4
"""Sizes of the graphs (graph 1 has one node, graph 2 no edges) and widths of features, classes and layers."""

TASK = Classification(tuple(map(str, range(CLASSES))))

RATIO = 0.7

ROOM = Capacity(positions=40, entries=280, graphs=8, cells=310)
"""More room than graphs of these sizes need: they have 36 nodes, at most 268 neighbours and 304 pairs of nodes."""

TOLERANCE = 1e-7
"""Networks compute in double precision; scores are ranked in single precision."""


class Broken(Exception):
    """A rule is broken; the message is one line."""


class NotApplicable(Exception):
    """A rule does not apply to this method; the message is one line."""


@contextlib.contextmanager
def precision(dtype: torch.dtype) -> Iterator[None]:
    """Set torch's default floating-point type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def graphs_of(seed: int = 0, sizes: Sequence[int] = SIZES) -> GraphSet:
    """Random graphs with continuous attributes, so all nodes are different."""
    generator = np.random.default_rng(seed)
    start = np.cumsum(sizes) - sizes
    ends = [np.nonzero(np.triu(generator.random((n, n)) < 0.4, 1)) for n in sizes]
    ends[EDGELESS] = (np.zeros(0, np.int64),) * 2
    source, target = (np.concatenate([pair[side] + s for pair, s in zip(ends, start, strict=True)]) for side in (0, 1))
    attributes = generator.normal(size=(int(sum(sizes)), FLOATS)).astype(np.float32)
    y = np.arange(len(sizes)) % CLASSES
    truth = np.random.default_rng([seed, 1]).random(int(sum(sizes))) < 0.5
    truth[start] = True
    return GraphSet.from_edges("small", sizes, source, target, y, attributes=attributes, node_truth=truth)


def relabelled(graphs: GraphSet, seed: int) -> GraphSet:
    """The same graphs with the nodes of each in another order."""
    generator = np.random.default_rng(seed)
    parts = zip(graphs.node_ptr[:-1], graphs.sizes, strict=True)
    new = np.concatenate([start + generator.permutation(n) for start, n in parts])
    source, target = new[graphs.edge_source], new[graphs.edge_source + graphs.edge_disp]
    assert graphs.attributes is not None
    assert graphs.node_truth is not None
    attributes, truth = graphs.attributes[np.argsort(new)], graphs.node_truth[np.argsort(new)]
    return GraphSet.from_edges(
        graphs.name, graphs.sizes, source, target, graphs.y, attributes=attributes, node_truth=truth
    )


def with_edge_data(graphs: GraphSet, seed: int = 0) -> GraphSet:
    """The same graphs with a label, an attribute and a weight on every edge, other ones in the other direction."""
    generator = np.random.default_rng(seed)
    return replace(
        graphs,
        edge_category=generator.integers(0, KINDS, (graphs.n_edges, 1)).astype(np.int32),
        edge_category_names=(tuple(map(str, range(KINDS))),),
        edge_attributes=generator.normal(size=(graphs.n_edges, 1)).astype(np.float32),
        edge_weight=generator.uniform(0.5, 1.5, graphs.n_edges).astype(np.float32),
    )


def batch_of(graphs: GraphSet, ids: Sequence[int] | None = None, key: int = 0, room: Capacity | None = None) -> Batch:
    """Some of the graphs, by default all, in double precision."""
    chosen = np.arange(graphs.n_graphs) if ids is None else np.asarray(ids)
    edges = None if graphs.edge_category is None else Inputs(graphs.edge_category, KINDS, graphs.edge_attributes)
    batcher = Batcher(graphs, Inputs(np.zeros((graphs.n_nodes, 0), np.int32), 0, graphs.attributes, edges))
    batch = batcher.batch(chosen, key, room)
    return Batch(*(t.double() if t.is_floating_point() else t for t in batch))


def network_of(name: str, seed: int = 0, compact: bool | None = None, dropout: float = 0.0, conv: str = "gcn") -> Model:
    """A narrow network with random weights in double precision. By default, levels are static if the method supports
    it. Convolutions other than GCN read the data of `with_edge_data`."""
    inputs = InputSize(0, FLOATS, edges=None if conv == "gcn" else InputSize(KINDS, 1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build(name, inputs, np.ones(CLASSES) / CLASSES, Sizes.of(SIZES), WIDTH, dropout, conv)
        with torch.no_grad():
            for parameter, value in model.named_parameters():
                if parameter.endswith("bias"):  # a bias of zeros would hide that it is not used
                    value.uniform_(-0.3, 0.3)
    model.compact = not method_named(name).fast if compact is None else compact
    return model.double()


def build(
    name: str, inputs: InputSize, shares: Any, sizes: Sizes, width: int, dropout: float, conv: str = "gcn"
) -> Model:
    """A model of a method, with the settings of the paper's recipe except width and convolution."""
    return build_model(
        name,
        inputs,
        torch.tensor(shares, dtype=torch.float32).log(),
        form="paper",
        conv=conv,
        width=width,
        levels=3,
        readout="max-mean",
        ratio=RATIO,
        dropout=dropout,
        mi="gan",
        sizes=sizes,
    )


def ways(name: str) -> tuple[bool, ...]:
    """The values of `compact` to try: static levels if the method supports them, and compact ones."""
    return (False, True) if method_named(name).fast else (True,)


def only_compact(name: str) -> None:
    """Raise NotApplicable for a method without static shapes."""
    if not method_named(name).fast:
        raise NotApplicable("a layer with PyG's interface: shapes depend on the data")


@torch.no_grad()
def logits_of(model: Model, batch: Batch) -> Tensor:
    """[B, classes] in evaluation mode."""
    return model.eval()(batch).logits


def must_agree(what: str, one: Tensor, other: Tensor) -> None:
    """Raise Broken unless two results are equal up to rounding."""
    if one.shape != other.shape:
        raise Broken(f"{what}: shapes {tuple(one.shape)} and {tuple(other.shape)}")
    if not torch.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE):
        gap = (one - other).abs().max().item()
        raise Broken(f"{what}, by {gap:.2g}")
