"""Generated data sets whose answer is known.

`motifs`: each graph contains one of four motifs, and the motif is its class. The number of nodes is drawn independently
of the class, and the nodes are shuffled, so neither gives the class away. The graphs equal those that PyG's generators
make, number by number, without importing PyG, which takes two seconds.
`needle`: a few nodes decide the class and the others hide them, so a pooling must keep the right ones.
`circulant`: graphs that 1-WL, and therefore message passing, cannot tell apart.

The nodes that decide the class are stored as `node_truth`, which shows whether a pooling keeps them.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError

Pairs = NDArray[np.int64]
"""[m, 2] the ends of edges, each edge once."""

SMALLEST, LARGEST = 15, 30
"""Smallest and largest number of nodes of a graph, including the motif."""

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
        raise UserError(f"motifs needs at least 1 graph and a non-negative seed, not {graphs} and {seed}")
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
    """The edges of one graph with shuffled node numbers, and a mask of the nodes of its motif."""
    nodes = int(motif.max()) + 1
    rest = size - nodes
    grown = base.tree(rest) if generator.random() < 0.5 else base.sparse(rest)
    bridge = [(generator.integers(rest), rest + generator.integers(nodes))]
    shuffle = generator.permutation(size)
    return shuffle[np.concatenate([grown, motif + rest, bridge])], np.isin(np.arange(size), shuffle[rest:])


class _Base:
    """Draws the graphs that motifs are joined to, with the same generators as PyG, to give the same numbers."""

    def __init__(self, generator: np.random.Generator) -> None:
        import torch

        self.uniform = torch.Generator().manual_seed(int(generator.integers(2**62)))
        self.whole = np.random.RandomState(int(generator.integers(2**32)))

    def tree(self, nodes: int) -> Pairs:
        """A random tree by preferential attachment: each new node joins a node drawn from the ends of all edges so far,
        itself included. A node that draws itself joins no other, so the result may be a forest."""
        joined = [0]
        for node in range(1, nodes):
            drawn = self.whole.randint(2 * node + 1)
            joined.append(drawn if drawn <= node else joined[drawn - node - 1])
        pairs = np.stack([np.arange(nodes), joined], axis=1)
        return pairs[pairs[:, 0] != pairs[:, 1]]

    def sparse(self, nodes: int) -> Pairs:
        """A random graph. With a mean degree of 1.5 it has few cycles that could be mistaken for a motif."""
        import torch

        pairs = np.stack(np.triu_indices(nodes, 1), axis=1)
        return pairs[(torch.rand(len(pairs), generator=self.uniform) < 1.5 / nodes).numpy()]


KEYS, MAJORITY = 5, 4
"""The number of keys of a graph, and of keys with the colour of the class. There are equally many decoys, tags of keys
and tags of other nodes."""

COLOURS = ("blue", "red")
LABELS = ("hay blue", "hay red", "mark blue", "mark red", "tag")


def needle(nodes: int = 60, graphs: int = 1000, seed: int = 0) -> GraphSet:
    """`graphs` graphs of `nodes` nodes in two classes, blue and red.

    Five nodes, the keys, decide the class: four of them have its colour. A key is marked and has a tag, a leaf node
    attached to it. The other nodes form a random tree with a few more edges and have random colours. Five of them, the
    decoys, are marked but have no tag, and five unmarked nodes have a tag, so neither marks nor tags alone identify the
    keys. The keys are anywhere in the tree; `node_truth` marks them. Nodes are shuffled.
    """
    least = 6 * KEYS
    if nodes < least or graphs < 1 or seed < 0:
        raise UserError(f"needle needs at least {least} nodes, 1 graph and a non-negative seed")
    generator = np.random.default_rng([seed, graphs, nodes])
    y = generator.permutation(np.arange(graphs) % 2)
    tree = nodes - 2 * KEYS
    """Positions below this number are nodes of the tree; the others are tags."""
    rows = np.arange(graphs)[:, None]

    roles = np.argsort(generator.random((graphs, tree)), axis=1)
    keys, decoys, holders = (roles[:, i * KEYS : (i + 1) * KEYS] for i in range(3))
    child = np.arange(1, tree)
    parent = np.floor(generator.random((graphs, tree - 1)) * child).astype(np.int64)
    extra = generator.integers(tree, size=(graphs, nodes // 10, 2))
    tagged = np.concatenate([keys, holders], 1)
    tags = np.broadcast_to(np.arange(tree, nodes), tagged.shape)
    grown = np.stack([np.broadcast_to(child, parent.shape), parent], 2)
    pairs = np.concatenate([grown, extra, np.stack([tagged, tags], 2)], 1)

    label = generator.integers(2, size=(graphs, nodes))
    own = np.where(np.arange(KEYS) < MAJORITY, y[:, None], 1 - y[:, None])
    label[rows, keys] = own
    label[rows, np.concatenate([keys, decoys], 1)] += 2
    label[:, tree:] = 4

    place = np.argsort(generator.random((graphs, nodes)), axis=1)
    """The shuffled position of each node."""
    shuffled, truth = np.empty((graphs, nodes), np.int32), np.zeros((graphs, nodes), bool)
    shuffled[rows, place] = label
    truth[rows, place[rows, keys]] = True
    start = nodes * np.arange(graphs)[:, None]
    source, target = ((place[rows, pairs[:, :, end]] + start).ravel() for end in (0, 1))
    return GraphSet.from_edges(
        f"needle-{nodes}",
        np.full(graphs, nodes),
        np.concatenate([source, target]),
        np.concatenate([target, source]),
        y,
        class_names=COLOURS,
        category=shuffled.reshape(-1, 1),
        category_names=(LABELS,),
        node_truth=truth.ravel(),
    )


def by_counting(graphs: GraphSet) -> dict[str, float]:
    """The accuracy of counting colours on a `needle` set: over all coloured nodes, the marked nodes, and the keys. A
    tie counts one half."""
    assert graphs.category is not None
    assert graphs.node_truth is not None
    code = graphs.category[:, 0]
    score = np.where(code == len(LABELS) - 1, 0, 2 * (code % 2) - 1)
    chosen = {"all nodes": code < 4, "marked nodes": (code == 2) | (code == 3), "keys": graphs.node_truth}
    sign = 2 * graphs.y - 1
    votes = {what: np.add.reduceat(score * nodes, graphs.node_ptr[:-1]) * sign for what, nodes in chosen.items()}
    return {what: float(((vote > 0) + 0.5 * (vote == 0)).mean()) for what, vote in votes.items()}


SKIPS = (2, 3)
"""The classes of `circulant`: how far each node's second pair of neighbours is away."""


def circulant(graphs: int = 1000, seed: int = 0) -> GraphSet:
    """`graphs` rings of 15 to 30 nodes in two classes: each node is also joined to the nodes 2 steps away, or 3.

    All nodes have four neighbours, so 1-WL and any message-passing network cannot distinguish graphs of one size, and
    half of the graphs of each size are of each class. Only a model that breaks the symmetry of equivalent nodes can be
    right more than half of the time. Murphy et al. (Relational Pooling for Graph Representations, ICML 2019) test
    networks on these graphs.
    """
    if graphs < 1 or seed < 0:
        raise UserError(f"circulant needs at least 1 graph and a non-negative seed, not {graphs} and {seed}")
    generator = np.random.default_rng([seed, graphs])
    order = generator.permutation(graphs)
    y = (np.arange(graphs) % 2)[order]
    sizes = np.repeat(generator.integers(15, 31, size=(graphs + 1) // 2), 2)[order]
    ends = []
    for start, size, kind in zip(np.cumsum(sizes) - sizes, sizes, y, strict=True):
        place, node = start + generator.permutation(size), np.arange(size)
        ends += [np.stack([place, place[(node + step) % size]]) for step in (1, SKIPS[kind])]
    source, target = np.concatenate(ends, 1)
    both = np.concatenate([source, target]), np.concatenate([target, source])
    return GraphSet.from_edges("circulant", sizes, *both, y, class_names=tuple(f"skip {skip}" for skip in SKIPS))


GENERATED: dict[str, Callable[[], GraphSet]] = {
    "motifs": motifs,
    **{f"needle-{nodes}": partial(needle, nodes) for nodes in (30, 60, 100, 300, 1000)},
    "circulant": circulant,
}
"""The generated sets by name."""
