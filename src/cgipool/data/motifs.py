"""A generated data set whose answer is known: each graph carries one of four motifs, and the motif is its class.

The number of nodes is drawn apart from the class, and the nodes are shuffled, so neither tells it. The nodes
of the motif are kept as `node_truth`, so one can ask whether a pooling keeps what matters. The graphs come from PyG's
generators.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

SMALLEST, LARGEST = 15, 30
"""Nodes of a graph, motif included."""


def motifs(graphs: int = 1000, seed: int = 0) -> GraphSet:
    """`graphs` graphs in balanced classes: a random tree or a sparse random graph, joined by one edge to one motif."""
    if graphs < 1 or seed < 0:
        raise UserError(f"motifs needs at least 1 graph and a seed that is not negative, not {graphs} and {seed}")
    generator = np.random.default_rng([seed, graphs])
    shapes = _shapes()
    y = generator.permutation(np.arange(graphs) % len(shapes))
    sizes = generator.integers(SMALLEST, LARGEST + 1, size=graphs)
    kinds = list(shapes.values())
    with _global_seed(generator):
        made = [_graph(kinds[c], int(size), generator) for c, size in zip(y, sizes, strict=True)]
    starts = np.cumsum(sizes) - sizes
    source, target = np.concatenate([ends + start for (ends, _), start in zip(made, starts, strict=True)], axis=1)
    truth = np.concatenate([part for _, part in made])
    return GraphSet.from_edges("motifs", sizes, source, target, y, class_names=tuple(shapes), node_truth=truth)


def _graph(motif: "Data", size: int, generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Edges [2, E] of one graph, in shuffled numbers, and which of its nodes are the motif's."""
    from torch_geometric.datasets.graph_generator import BAGraph, ERGraph

    base = size - motif.num_nodes
    # A mean degree of 1.5 leaves the random graph few cycles of its own that could pass for a motif.
    grown = BAGraph(base, 1)() if generator.random() < 0.5 else ERGraph(base, 1.5 / base)()
    bridge = np.array([[generator.integers(base)], [base + generator.integers(motif.num_nodes)]])
    parts = [grown.edge_index.numpy(), motif.edge_index.numpy() + base, bridge, bridge[::-1]]
    shuffle = generator.permutation(size)
    return shuffle[np.concatenate(parts, axis=1)], np.isin(np.arange(size), shuffle[base:])


@contextmanager
def _global_seed(generator: np.random.Generator) -> Iterator[None]:
    """Seed the global generators of torch and NumPy, which PyG draws from, and put them back afterwards."""
    import torch

    before = np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator.integers(2**62)))
        np.random.seed(int(generator.integers(2**32)))
        try:
            yield
        finally:
            np.random.set_state(before)


def _shapes() -> dict[str, "Data"]:
    """The motifs by class name."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.datasets.motif_generator import CustomMotif, CycleMotif, GridMotif, HouseMotif

    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    clique = CustomMotif(Data(num_nodes=4, edge_index=torch.tensor(pairs).T))
    return {"house": HouseMotif()(), "cycle": CycleMotif(5)(), "grid": GridMotif()(), "clique": clique()}
