"""A generated data set whose answer is known: each graph carries one of four motifs, and the motif is its class.

The number of nodes is drawn independently of the class, and the nodes are shuffled, so neither reveals it. The nodes
of the motif are kept as `node_truth`, so one can ask whether a pooling keeps what matters. The graphs are those that
PyG's generators give, number by number, without the two seconds that it takes to import PyG.
"""

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError

Pairs = NDArray[np.int64]
"""[m, 2] the ends of edges, each edge once."""

SMALLEST, LARGEST = 15, 30
"""Nodes of a graph, motif included."""

MOTIFS: dict[str, Pairs] = {
    "house": np.array([(0, 1), (1, 2), (2, 3), (3, 0), (4, 0), (4, 1)]),
    "cycle": np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
    "grid": np.array([(node, node + 1) for node in range(9) if node % 3 < 2] + [(node, node + 3) for node in range(6)]),
    "clique": np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
}
"""By class name."""


def motifs(graphs: int = 1000, seed: int = 0) -> GraphSet:
    """`graphs` graphs in balanced classes: a random tree or a sparse random graph, joined by one edge to one motif."""
    if graphs < 1 or seed < 0:
        raise UserError(f"motifs needs at least 1 graph and a seed that is not negative, not {graphs} and {seed}")
    generator = np.random.default_rng([seed, graphs])
    y = generator.permutation(np.arange(graphs) % len(MOTIFS))
    sizes = generator.integers(SMALLEST, LARGEST + 1, size=graphs)
    kinds, base = list(MOTIFS.values()), _Base(generator)
    made = [_graph(kinds[c], int(size), base, generator) for c, size in zip(y, sizes, strict=True)]
    starts = np.cumsum(sizes) - sizes
    pairs = np.concatenate([ends + start for (ends, _), start in zip(made, starts, strict=True)])
    source, target = np.concatenate([pairs, pairs[:, ::-1]]).T
    truth = np.concatenate([part for _, part in made])
    return GraphSet.from_edges("motifs", sizes, source, target, y, class_names=tuple(MOTIFS), node_truth=truth)


def _graph(motif: Pairs, size: int, base: "_Base", generator: np.random.Generator) -> tuple[Pairs, NDArray[np.bool_]]:
    """The edges of one graph, in shuffled numbers, and which of its nodes are the motif's."""
    nodes = int(motif.max()) + 1
    rest = size - nodes
    grown = base.tree(rest) if generator.random() < 0.5 else base.sparse(rest)
    bridge = [(generator.integers(rest), rest + generator.integers(nodes))]
    shuffle = generator.permutation(size)
    return shuffle[np.concatenate([grown, motif + rest, bridge])], np.isin(np.arange(size), shuffle[rest:])


class _Base:
    """What motifs are joined to. Drawn by the kinds of generators that PyG draws from, for the same numbers."""

    def __init__(self, generator: np.random.Generator) -> None:
        import torch

        self.uniform = torch.Generator().manual_seed(int(generator.integers(2**62)))
        self.whole = np.random.RandomState(int(generator.integers(2**32)))

    def tree(self, nodes: int) -> Pairs:
        """A random tree by preferential attachment: each new node joins one that is drawn among the ends of all edges
        so far. Itself is among these; a node that draws itself joins none, and the tree is a forest."""
        joined = [0]
        for node in range(1, nodes):
            drawn = self.whole.randint(2 * node + 1)
            joined.append(drawn if drawn <= node else joined[drawn - node - 1])
        pairs = np.stack([np.arange(nodes), joined], axis=1)
        return pairs[pairs[:, 0] != pairs[:, 1]]

    def sparse(self, nodes: int) -> Pairs:
        """A random graph. A mean degree of 1.5 leaves it few cycles of its own that could pass for a motif."""
        import torch

        pairs = np.stack(np.triu_indices(nodes, 1), axis=1)
        return pairs[(torch.rand(len(pairs), generator=self.uniform) < 1.5 / nodes).numpy()]
