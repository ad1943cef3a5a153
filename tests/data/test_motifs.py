"""The generated motifs: one motif a graph, marked, not told by size or order, the same for the same seed."""

import random
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import torch
from random_sets import assert_equal
from torch_geometric.data import Data
from torch_geometric.datasets.graph_generator import BAGraph, ERGraph
from torch_geometric.datasets.motif_generator import CycleMotif, GridMotif, HouseMotif

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


def by_pyg(graphs: int, seed: int) -> GraphSet:
    """The same by PyG's generators of motifs and graphs, which draw from the global generators of torch and NumPy."""
    pairs = torch.tensor([(i, j) for i in range(4) for j in range(4) if i != j])
    shapes = [HouseMotif()(), CycleMotif(5)(), GridMotif()(), Data(num_nodes=4, edge_index=pairs.T)]
    draw = np.random.default_rng([seed, graphs])
    y = draw.permutation(np.arange(graphs) % 4)
    sizes = draw.integers(15, 31, size=graphs)
    torch.manual_seed(int(draw.integers(2**62)))
    np.random.seed(int(draw.integers(2**32)))
    ends, truth, start = [], [], 0
    for motif, size in zip((shapes[c] for c in y), sizes.tolist(), strict=True):
        rest = size - motif.num_nodes
        grown = BAGraph(rest, 1)() if draw.random() < 0.5 else ERGraph(rest, 1.5 / rest)()
        bridge = np.array([[draw.integers(rest)], [rest + draw.integers(motif.num_nodes)]])
        shuffle = draw.permutation(size)
        parts = [grown.edge_index.numpy(), motif.edge_index.numpy() + rest, bridge, bridge[::-1]]
        ends.append(start + shuffle[np.concatenate(parts, axis=1)])
        truth.append(np.isin(np.arange(size), shuffle[rest:]))
        start += size
    names = ("house", "cycle", "grid", "clique")
    columns = {"class_names": names, "node_truth": np.concatenate(truth)}
    return GraphSet.from_edges("motifs", sizes, *np.concatenate(ends, axis=1), y, **columns)


@pytest.mark.parametrize(("count", "seed"), [(1, 0), (120, 0), (97, 8)])
def test_the_graphs_are_those_of_pyg(count: int, seed: int) -> None:
    with torch.random.fork_rng(devices=[]):
        assert_equal(motifs(count, seed), by_pyg(count, seed))


def test_making_them_does_not_wait_for_pyg() -> None:
    code = "import sys; from cgipool.data import motifs; motifs(8); print('torch_geometric' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


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
    with pytest.raises(UserError, match="motifs needs at least 1 graph and a non-negative seed"):
        motifs(count, seed)
