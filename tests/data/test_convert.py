"""PyG and networkx: round trips without loss, objects made elsewhere, and faults with the graph's number."""

import dataclasses
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from random_sets import assert_equal, graph_sets
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import OneHotDegree
from torch_geometric.utils import one_hot

from cgipool.data import GraphSet
from cgipool.errors import UnusedDataWarning, UserError

EDGE = torch.tensor([[0, 1], [1, 0]])


def names_of(graphs: GraphSet) -> dict:
    return {
        "class_names": graphs.class_names,
        "category_names": graphs.category_names,
        "edge_category_names": graphs.edge_category_names,
    }


@given(graph_sets())
def test_pyg_and_back(graphs: GraphSet) -> None:
    assert_equal(GraphSet.from_pyg(graphs.to_pyg(), "random", **names_of(graphs)), graphs)


@given(graph_sets())
def test_pyg_models_can_read_x(graphs: GraphSet) -> None:
    """The one-hot labels, as PyG makes them, and the attributes; without either the one-hot degree."""
    width = max(graphs.degree, default=0) + 1
    for data, size in zip(graphs.to_pyg(), graphs.sizes, strict=True):
        names = zip(graphs.category_names, data.category.T if graphs.category_names else (), strict=True)
        expected = [one_hot(codes, len(values)) for values, codes in names]
        if graphs.attributes is not None:
            expected.append(data.attributes)
        if not expected:
            data.x, x = None, data.x
            data = OneHotDegree(width - 1)(data)
            data.x, expected = x, [data.x]
        assert data.x.dtype == torch.float32
        assert data.x.shape == (size, data.num_features)
        assert torch.equal(data.x, torch.cat(expected, 1).float())


def test_x_of_the_users_own_is_read() -> None:
    labels = GraphSet.from_pyg([Data(edge_index=EDGE, x=torch.tensor([5, 7]), y=0)], "g")
    (data,) = labels.to_pyg()
    assert GraphSet.from_pyg([data], "g").attributes is None
    for own in (data.x.flip(0), 2 * data.x, data.x + 1, data.x[:, :1], torch.cat([data.x, data.x], 1)):
        data.x = own
        attributes = GraphSet.from_pyg([data], "g").attributes
        assert attributes is not None
        assert attributes.tolist() == own.tolist()


@given(graph_sets())
def test_networkx_and_back(graphs: GraphSet) -> None:
    # networkx has no place for the columns of a set without nodes or edges.
    nodes = ("category", "category_names", "attributes", "node_truth") if graphs.n_nodes == 0 else ()
    edges = ("edge_category", "edge_category_names", "edge_weight", "edge_attributes") if graphs.n_edges == 0 else ()
    back = GraphSet.from_networkx(graphs.to_networkx(), "random", **names_of(graphs))
    assert_equal(back, graphs, ignore=nodes + edges)


def test_pyg_objects_do_not_share_memory_with_the_set() -> None:
    graphs = GraphSet.from_pyg([Data(edge_index=EDGE, x=torch.ones(2, 1), y=torch.tensor(0))], "g")
    graphs.to_pyg()[0].attributes.zero_()
    assert graphs.attributes is not None
    assert graphs.attributes.tolist() == [[1], [1]]


def test_pyg_keys_of_other_makers() -> None:
    graphs = GraphSet.from_pyg(
        [
            Data(edge_index=EDGE, x=torch.tensor([5, 7]), edge_attr=torch.tensor([4, 4]), y=torch.tensor([3])),
            Data(x=torch.tensor([7]), y=torch.tensor(-1)),
        ],
        "g",
    )
    assert graphs.sizes.tolist() == [2, 1]
    assert (graphs.class_names, graphs.y.tolist()) == (("-1", "3"), [1, 0])
    assert graphs.category_names == (("5", "7"),)
    assert graphs.category is not None
    assert graphs.category.tolist() == [[0], [1], [1]]
    assert graphs.edge_category_names == (("4",),)
    floats = GraphSet.from_pyg([Data(edge_index=EDGE, x=torch.eye(2), edge_attr=torch.rand(2), y=0)], "g")
    assert floats.attributes is not None
    assert floats.attributes.tolist() == [[1, 0], [0, 1]]
    assert floats.edge_attributes is not None
    assert floats.edge_attributes.shape == (2, 1)


def test_columns_of_no_width_are_none() -> None:
    """Of such a matrix only the number of its rows is told."""
    for kind in (torch.long, torch.float):
        empty = torch.empty(3, 0, dtype=kind)
        graphs = GraphSet.from_pyg([Data(edge_index=EDGE, x=empty, edge_attr=empty[:2], y=0)], "g")
        assert (graphs.n_nodes, graphs.category, graphs.attributes) == (3, None, None)
        assert (graphs.edge_category, graphs.edge_attributes) == (None, None)


def test_one_weight_per_edge() -> None:
    graph = nx.Graph([(0, 1, {"weight": [1.0, 2.0]})], y=0)
    for make in (
        lambda: GraphSet.from_pyg([Data(edge_index=EDGE, edge_weight=torch.ones(2, 2), num_nodes=2, y=0)], "g"),
        lambda: GraphSet.from_networkx([graph], "g"),
    ):
        with pytest.raises(UserError, match="edge_weight has 2 columns; it must have one"):
            make()


def test_what_pyg_loses_is_counted() -> None:
    loops = torch.tensor([[0, 0, 0, 1], [0, 1, 1, 2]])
    graphs = GraphSet.from_pyg([Data(edge_index=loops, num_nodes=4, y=torch.tensor(0))], "g")
    assert graphs.dropped == {"self-loops": 1, "repeated edges": 1, "one-way edges completed": 2}
    assert graphs.degree.tolist() == [1, 2, 1, 0]


GOOD = Data(edge_index=EDGE, x=torch.ones(2, 3), y=torch.tensor([0]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "y is missing in 1 graph, first in graph 1"),
        (
            {"y": torch.tensor([0, 1])},
            "y must be one number, or targets of shape [1, T]; it is not in 1 graph, first in graph 1: shape [2]",
        ),
        (
            {"y": "first"},
            "y must be one number, or targets of shape [1, T]; it is not in 1 graph, first in graph 1: first",
        ),
        ({"x": None, "num_nodes": 2}, "graphs 0 and 1 differ: 3 and 0 columns of attributes"),
        ({"x": torch.ones(2, 2)}, "graphs 0 and 1 differ: 3 and 2 columns of attributes"),
        ({"x": torch.ones(2, 3, 1)}, "graph 1: x is not an array of numbers with one or two dimensions"),
        ({"attributes": torch.ones(2, 1)}, "graph 1: 'x' and another key both hold attributes"),
        ({"edge_weight": torch.ones(2)}, "graphs 0 and 1 differ: 0 and 1 columns of edge_weight"),
        ({"num_nodes": 3}, "graph 1: attributes has 2 rows but needs 3"),
        ({"num_nodes": -1}, "graph 1: num_nodes must be a whole number from 0"),
        ({"num_nodes": "two"}, "graph 1: num_nodes must be a whole number from 0"),
        ({"num_nodes": 2.5}, "graph 1: num_nodes must be a whole number from 0"),
        ({"x": None}, "graph 1: neither num_nodes nor a node column says how many nodes it has"),
        ({"edge_index": EDGE + 1}, "graph 1: edge_index goes from 1 to 2; it has 2 nodes"),
        ({"edge_index": EDGE.float()}, "graph 1: edge_index must be whole numbers of shape [2, E]"),
        (
            {"edge_index": EDGE[:1]},
            "graph 1: edge_index must be whole numbers of shape [2, E]",
        ),
        (
            {"x": torch.full((2, 3), torch.nan)},
            "g: column 0 of attributes holds 2 values that are NaN or infinite, the first at node 0 of graph 1",
        ),
    ],
)
def test_pyg_fault_has_the_graph(changes: dict, message: str) -> None:
    bad = GOOD.clone()
    for key, value in changes.items():
        bad[key] = value
    with pytest.raises(UserError) as caught:
        GraphSet.from_pyg([GOOD, bad], "g")
    assert str(caught.value) == message


def test_networkx_graphs_of_other_makers() -> None:
    path = nx.path_graph(["c", "a", "b"], create_using=nx.Graph)
    path.graph["y"] = 10
    path.add_edge("a", "a")
    arrows = nx.MultiDiGraph([(0, 1), (0, 1)], y=9)
    graphs = GraphSet.from_networkx([path, arrows], "g")
    assert (graphs.class_names, graphs.y.tolist()) == (("9", "10"), [1, 0])
    assert graphs.degree.tolist() == [1, 2, 1, 1, 1]
    assert graphs.dropped == {"self-loops": 1, "repeated edges": 1, "one-way edges completed": 1}


def labelled(**node: object) -> nx.Graph:
    graph = nx.Graph(y=0)
    graph.add_node(0, **node)
    graph.add_node(1, **node)
    graph.add_edge(0, 1)
    return graph


def test_networkx_keys() -> None:
    graph = labelled(category="C", attributes=[1, 2], truth=True)
    graph.edges[0, 1]["weight"] = 2.5
    graphs = GraphSet.from_networkx([graph], "g")
    assert graphs.category_names == (("C",),)
    assert graphs.attributes is not None
    assert graphs.attributes.tolist() == [[1, 2], [1, 2]]
    assert graphs.edge_weight is not None
    assert graphs.edge_weight.tolist() == [2.5, 2.5]
    (back,) = graphs.to_networkx()
    assert not back.is_directed()
    assert back.nodes[1] == {"category": ["C"], "attributes": [1, 2], "truth": True}
    one_way = dataclasses.replace(graphs, edge_weight=np.array([1, 2], dtype=np.float32))
    assert one_way.to_networkx()[0].edges[1, 0]["weight"] == 2


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.Graph(), "g: y is missing in 1 graph, first in graph 1; class labels must be whole numbers"),
        (nx.Graph(y=[0, 1]), "graphs 0 and 1 differ: 1 and 2 values of y"),
        (labelled(category=["C", "O"]), "graphs 0 and 1 differ: 1 and 2 columns of category"),
        (labelled(), "graphs 0 and 1 differ: 1 and 0 columns of category"),
        (labelled(category="C", attributes="high"), "graph 1: 'attributes' must be the same number of float32 values"),
    ],
)
def test_networkx_fault_has_the_graph(graph: nx.Graph, message: str) -> None:
    with pytest.raises(UserError) as caught:
        GraphSet.from_networkx([labelled(category="C"), graph], "g")
    assert str(caught.value).startswith(message)


def test_networkx_column_on_some_nodes_only() -> None:
    graph = labelled(category="C")
    graph.add_node(2)
    with pytest.raises(UserError, match="graph 0: 'category' is on 2 of 3 nodes or edges; it must be on all or none"):
        GraphSet.from_networkx([graph], "g")


def test_networkx_name_that_is_not_given() -> None:
    with pytest.raises(UserError, match="category 'C' is not among the given names: N, O"):
        GraphSet.from_networkx([labelled(category="C")], "g", category_names=(("N", "O"),))


def test_one_graph_is_no_list() -> None:
    data = Data(edge_index=EDGE, num_nodes=2, y=torch.tensor(0))
    for one in (data, Batch.from_data_list([data, data])):
        with pytest.raises(UserError, match="takes a list of Data"):
            GraphSet.from_pyg(one, "g")


def test_keys_of_data_that_are_not_read_are_told() -> None:
    kept = {
        "edge_index": EDGE,
        "num_nodes": 2,
        "y": torch.tensor(0),
        "x": torch.ones(2, 1),
        "edge_weight": torch.ones(2),
    }
    GraphSet.from_pyg([Data(**kept)], "g")
    with pytest.warns(UnusedDataWarning, match="keys of Data that are not read: 'pos', 'z'; features are read") as told:
        GraphSet.from_pyg([Data(**kept, pos=torch.ones(2, 3)), Data(**kept, z=torch.ones(2))], "g")
    assert [warning.filename for warning in told] == [__file__]
    with pytest.warns(UnusedDataWarning, match="not read: 'aaa") as told:
        GraphSet.from_pyg([Data(**kept, **{"a" * 1000 + "\n": torch.ones(2)})], "g")
    assert len(str(told[0].message)) < 400
    assert "\n" not in str(told[0].message)


def test_keys_of_networkx_graphs_that_are_not_read_are_told() -> None:
    graph = nx.path_graph(3)
    graph.graph["y"] = 0
    nx.set_node_attributes(graph, "C", "atom")
    with pytest.warns(UserWarning, match="keys of nodes that are not read: 'atom'; labels are read from 'category'"):
        assert GraphSet.from_networkx([graph], "g").category is None
    nx.set_node_attributes(graph, "C", "category")
    with pytest.warns(UnusedDataWarning, match="keys of nodes that are not read: 'atom'"):
        assert GraphSet.from_networkx([graph], "g").category_names == (("C",),)
    read = nx.path_graph(3)
    read.graph["y"] = 0
    nx.set_edge_attributes(read, 1.0, "weight")
    GraphSet.from_networkx([read], "g")
    nx.set_edge_attributes(read, 1.0, "distance")
    with pytest.warns(UnusedDataWarning, match="keys of edges that are not read: 'distance'"):
        GraphSet.from_networkx([read], "g")


@pytest.mark.parametrize(
    "nodes",
    [torch.tensor([1, 2]), torch.tensor([1, 2]).to_sparse(), 2.5, "3", 10**400, -1],
    ids=["list", "sparse list", "float", "text", "huge", "negative"],
)
def test_num_nodes_must_be_a_number(nodes: Any) -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0]), num_nodes=nodes)
    with pytest.raises(UserError, match="graph 0: num_nodes must be a whole number from 0"):
        GraphSet.from_pyg([data], "odd")


@pytest.mark.parametrize("nodes", [3, np.int64(3), torch.tensor(3), torch.tensor([3]), torch.tensor(3).to_sparse()])
def test_num_nodes_of_every_kind(nodes: Any) -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0]), num_nodes=nodes)
    assert GraphSet.from_pyg([data], "one").n_nodes == 3


@pytest.mark.parametrize("key", ["x", "edge_index", "y"])
def test_sparse_columns(key: str) -> None:
    held = {"x": torch.eye(2), "edge_index": torch.tensor([[0, 1], [1, 0]]), "y": torch.tensor([0])}
    data = Data(**held | {key: held[key].to_sparse()})
    problem = "y must be one number" if key == "y" else f"graph 0: {key} is not an array of numbers"
    with pytest.raises(UserError, match=problem):
        GraphSet.from_pyg([data], "odd")
