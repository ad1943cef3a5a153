"""Parts of graphs, by the nodes that are left of them.

Shapes: G graphs, N nodes of all graphs end to end, L levels, m edges of one graph.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import pointer
from cgipool.data.graphs import GraphSet


def sum_by_graph(graphs: GraphSet, values: NDArray[Any]) -> NDArray[np.int64]:
    """[…, G] for values […, N] of the nodes, their sums over each graph."""
    total = np.zeros((*values.shape[:-1], graphs.n_nodes + 1), np.int64)
    np.cumsum(values, axis=-1, out=total[..., 1:])
    return np.diff(total[..., graphs.node_ptr])


def edges_left(graphs: GraphSet, alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[L, G] how many edges of each graph have both ends among the nodes that are alive [L, N], each counted once."""
    source = graphs.edge_source
    left = alive[:, source] & alive[:, source + graphs.edge_disp] & (graphs.edge_disp > 0)
    per_node = np.zeros((len(alive), graphs.n_edges + 1), np.int64)
    np.cumsum(left, axis=1, out=per_node[:, 1:])
    return np.diff(per_node[:, graphs.edge_ptr[graphs.node_ptr]])


def cut(graphs: GraphSet, keep: NDArray[np.bool_]) -> GraphSet:
    """The graphs that these nodes [N] induce: with all columns, and the edges between two of them."""
    source, number = graphs.edge_source, np.cumsum(keep) - 1
    target = source + graphs.edge_disp
    stays = keep[source] & keep[target]
    source, target = source[stays], target[stays]

    def nodes(values: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if values is None else values[keep]

    def edges(values: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if values is None else values[stays]

    return replace(
        graphs,
        node_ptr=pointer(sum_by_graph(graphs, keep)),
        edge_ptr=pointer(np.bincount(source, minlength=graphs.n_nodes)[keep]),
        edge_disp=(number[target] - number[source]).astype(np.int32),
        category=nodes(graphs.category),
        attributes=nodes(graphs.attributes),
        node_truth=nodes(graphs.node_truth),
        edge_weight=edges(graphs.edge_weight),
        edge_category=edges(graphs.edge_category),
        edge_attributes=edges(graphs.edge_attributes),
        checked=True,
    )


def random_nodes(graphs: GraphSet, counts: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.bool_]:
    """[N] counts[g] nodes of each graph g, drawn without replacement."""
    order = np.lexsort((generator.random(graphs.n_nodes), graphs.node_graph))
    place = np.arange(graphs.n_nodes) - np.repeat(graphs.node_ptr[:-1], graphs.sizes)
    drawn = np.zeros(graphs.n_nodes, bool)
    drawn[order] = place < np.repeat(counts, graphs.sizes)
    return drawn


def edges_of(graph: GraphSet) -> NDArray[np.int64]:
    """[m, 2] the edges of a set of one graph, each once."""
    one_way = graph.edge_disp > 0
    source = graph.edge_source[one_way]
    return np.stack([source, source + graph.edge_disp[one_way]], 1)
