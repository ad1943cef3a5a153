"""Recipe paper on graphs without edge features: an epoch is that of a network built by hand of dense matrices, and data
of the edges that nobody reads changes no bit of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from trees import alone, weights_of

from cgipool.data import GraphSet, random_splits
from cgipool.training.initial import prepared
from cgipool.training.job import Job, epoch_ids
from cgipool.training.presets import PAPER
from small import random_graphs

RECIPE = PAPER.but(width=8, batch_size=16, epochs=1, dropout=0.0)


def graphs_of(edges: bool) -> GraphSet:
    """Graphs with labels, and perhaps with labels and attributes of their edges."""
    sizes = np.random.default_rng(7).integers(2, 12, 60).tolist()
    graphs = replace(random_graphs(7, sizes, edgeless=()), attributes=None)
    if not edges:
        return graphs
    generator = np.random.default_rng(8)
    category = generator.integers(0, 3, (graphs.n_edges, 1)).astype(np.int32)
    floats = generator.normal(size=(graphs.n_edges, 2)).astype(np.float32)
    return replace(graphs, edge_category=category, edge_category_names=(tuple("abc"),), edge_attributes=floats)


def job_of(graphs: GraphSet, method: str, folder: Path) -> Job:
    (split,) = random_splits(graphs, seed=4, indices=[0])
    return Job(method, RECIPE, split, 4, "cpu", folder)


def logits(weights: dict[str, Tensor], adjacency: Tensor, x: Tensor) -> Tensor:
    """The network without pooling on one graph: three convolutions, their readouts added up, and the head."""
    loops = adjacency + torch.eye(len(adjacency), dtype=x.dtype)
    root = loops.sum(1).rsqrt()
    normalised = root[:, None] * loops * root
    read = torch.zeros((), dtype=x.dtype)
    for level in range(3):
        weight = weights[f"convs.{level}.linear.weight"]
        x = F.relu(normalised @ x @ (weight if level == 0 else weight.T) + weights[f"convs.{level}.bias"])
        read = read + torch.cat([x.max(0).values, x.mean(0)])
    for layer in range(3):
        read = F.linear(read, weights[f"head.{layer}.weight"], weights[f"head.{layer}.bias"])
        read = F.relu(read) if layer < 2 else read
    return read


@pytest.mark.usefixtures("one_thread")
def test_an_epoch_is_that_of_a_network_built_by_hand(tmp_path: Path) -> None:
    graphs = graphs_of(edges=False)
    job = job_of(graphs, "none", tmp_path)
    _, encoder, model = prepared(job, graphs)
    weights = {name: value.detach().double().requires_grad_() for name, value in model.named_parameters()}
    inputs = encoder.encode(graphs)
    x = torch.zeros(graphs.n_nodes, inputs.columns, dtype=torch.float64)
    for column in np.asarray(inputs.category).T:
        x[np.arange(graphs.n_nodes), column] += 1.0
    dense = torch.zeros(graphs.n_nodes, graphs.n_nodes, dtype=torch.float64)
    dense[graphs.edge_source, graphs.edge_source + graphs.edge_disp] = 1.0
    adam = torch.optim.Adam(weights.values(), lr=RECIPE.lr, weight_decay=RECIPE.weight_decay)
    for ids in epoch_ids(job, 1):
        nodes = [slice(*graphs.node_ptr[g : g + 2]) for g in ids]
        answers = torch.stack([logits(weights, dense[span, span], x[span]) for span in nodes])
        adam.zero_grad()
        F.cross_entropy(answers, torch.from_numpy(graphs.y[ids])).backward()
        adam.step()
    alone([job], graphs)
    learned = weights_of(job)
    assert learned.keys() == weights.keys()
    for name, value in weights.items():
        torch.testing.assert_close(learned[name].double(), value.detach(), rtol=0.0, atol=1e-5, msg=name)
        moved = (value - model.get_parameter(name).double()).abs().max()
        assert moved > 1e-3, f"{name} was not put to the test"


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("method", ["cgi", "topk", "sag", "asap", "vip", "diffpool", "none"])
def test_edge_features_that_are_not_read_change_no_bit(method: str, tmp_path: Path) -> None:
    bits = []
    for edges in (False, True):
        graphs = graphs_of(edges)
        job = job_of(graphs, method, tmp_path / str(edges))
        alone([job], graphs)
        bits.append({name: value.numpy().tobytes() for name, value in weights_of(job).items()})
    assert bits[0] == bits[1]
