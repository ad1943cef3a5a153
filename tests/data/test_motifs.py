"""The generated motifs: one motif a graph, marked, not told by size or order, the same for the same seed."""

import random

import networkx as nx
import numpy as np
import pytest
import torch
from random_sets import assert_equal

from cgipool.data import GraphSet, motifs
from cgipool.errors import UserError

MOTIF_EDGES = {"house": 6, "cycle": 5, "grid": 12, "clique": 6}
MOTIF_NODES = {"house": 5, "cycle": 5, "grid": 9, "clique": 4}


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return motifs(400, seed=3)


def test_classes_are_balanced(graphs: GraphSet) -> None:
    assert graphs.class_names == ("house", "cycle", "grid", "clique")
    assert np.bincount(graphs.y).tolist() == [100] * 4
    assert graphs.category is None
    assert graphs.dropped == {}


def test_each_graph_carries_its_motif(graphs: GraphSet) -> None:
    for graph in graphs.to_networkx():
        motif = graph.subgraph([p for p, values in graph.nodes(data=True) if values["truth"]])
        name = graph.graph["y"]
        assert (motif.number_of_nodes(), motif.number_of_edges()) == (MOTIF_NODES[name], MOTIF_EDGES[name])
        assert nx.is_connected(motif)
        assert nx.cut_size(graph, motif.nodes) == 1


def test_size_and_order_do_not_tell_the_class(graphs: GraphSet) -> None:
    assert graphs.sizes.min() == 15
    assert graphs.sizes.max() == 30
    means = [graphs.sizes[graphs.y == c].mean() for c in range(4)]
    assert max(means) - min(means) < 6 * 4.6 / np.sqrt(100)
    place = (np.arange(graphs.n_nodes) - np.repeat(graphs.node_ptr[:-1], graphs.sizes)) / np.repeat(
        graphs.sizes, graphs.sizes
    )
    assert graphs.node_truth is not None
    assert abs(place[graphs.node_truth].mean() - place[~graphs.node_truth].mean()) < 0.05


def test_seed_decides_everything(graphs: GraphSet) -> None:
    assert_equal(motifs(400, seed=3), graphs)
    other = motifs(400, seed=4)
    assert other.edge_disp.tolist() != graphs.edge_disp.tolist()


def test_global_generators_are_left_alone() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    wanted = torch.rand(3), np.random.rand(3), random.random()
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    motifs(8)
    assert torch.equal(torch.rand(3), wanted[0])
    np.testing.assert_array_equal(np.random.rand(3), wanted[1])
    assert random.random() == wanted[2]


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (10, -1)])
def test_refuses(count: int, seed: int) -> None:
    with pytest.raises(UserError, match="motifs needs at least 1 graph and a seed that is not negative"):
        motifs(count, seed)
