"""The encoder: columns, the home of unseen values, standardised attributes, and JSON."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given
from random_sets import graph_sets

from cgipool.data import Encoder, GraphSet, read_tu
from cgipool.errors import UserError
from cgipool.inference.inputs import to_graphset

RELEASED_DEGREES = [*range(1, 41), *range(42, 52), 53, 56, 58, 59, 62, 67, 76, 77, 88]
"""The degree that each of the 59 input columns of the authors' IMDB-MULTI weights stands for."""


@pytest.fixture
def molecules() -> GraphSet:
    """C-O, N alone, C-C; a second label column; two attributes, the second constant."""
    plain = GraphSet.from_edges("molecules", [2, 1, 2], [0, 3], [1, 4], [0, 1, 0])
    return dataclasses.replace(
        plain,
        category=np.array([[0, 0], [2, 0], [1, 1], [0, 0], [0, 1]], dtype=np.int32),
        category_names=(("C", "N", "O"), ("0", "1")),
        attributes=np.array([[1, 7], [3, 7], [100, 7], [1, 7], [3, 7]], dtype=np.float32),
    )


def test_unseen_goes_to_other(molecules: GraphSet) -> None:
    inputs = Encoder.fit(molecules, np.array([0, 2])).encode(molecules)
    assert inputs.columns == 3 + 1 + 2 + 1
    assert inputs.category.dtype == np.int32
    assert inputs.category.tolist() == [[0, 4], [2, 4], [3, 5], [0, 4], [0, 5]]
    assert inputs.floats is None


def test_all_has_no_other(molecules: GraphSet) -> None:
    encoder = Encoder.fit(molecules, np.array([0]), vocabulary="all")
    inputs = encoder.encode(molecules)
    assert inputs.columns == encoder.columns == 3 + 2
    assert inputs.category.tolist() == [[0, 3], [2, 3], [1, 4], [0, 3], [0, 4]]


def test_columns_do_not_depend_on_the_split(molecules: GraphSet) -> None:
    assert {Encoder.fit(molecules, np.array([i])).columns for i in range(3)} == {7}


def test_degree_source(molecules: GraphSet) -> None:
    encoder = Encoder.fit(molecules, np.array([0]), source="degree")
    assert encoder.values == (("0", "1"),)
    assert encoder.encode(molecules).category[:, 0].tolist() == [1, 1, 2, 1, 1]
    assert Encoder.fit(dataclasses.replace(molecules, category=None, category_names=())).source == "degree"
    assert Encoder.fit(molecules).source == "label"


def test_new_data(molecules: GraphSet) -> None:
    new = dataclasses.replace(molecules, category_names=(("S", "C", "N"), ("0", "1")))
    train = Encoder.fit(molecules).encode(new)
    assert train.category[:, 0].tolist() == [3, 1, 0, 3, 3]
    message = r"molecules: node label \(column 0\) S is not in the vocabulary, which has no 'other' column"
    with pytest.raises(UserError, match=message):
        Encoder.fit(molecules, vocabulary="all").encode(new)
    unused = dataclasses.replace(molecules, category_names=(("C", "N", "O", "S"), ("0", "1")))
    assert Encoder.fit(molecules, vocabulary="all").encode(unused).columns == 5
    star = GraphSet.from_edges("star", [4], [0, 0, 0], [1, 2, 3], [0])
    with pytest.raises(UserError, match="star: degree 3 is not in the vocabulary"):
        Encoder.fit(molecules, source="degree", vocabulary="all").encode(star)


def test_attributes_by_the_training_nodes(molecules: GraphSet) -> None:
    encoder = Encoder.fit(molecules, np.array([0, 2]), attributes=True)
    assert encoder.n_floats == 2
    assert encoder.scale == (1.0, 1.0)
    floats = encoder.encode(molecules).floats
    assert floats is not None
    assert floats.dtype == np.float32
    assert floats.tolist() == [[-1, 0], [1, 0], [98, 0], [-1, 0], [1, 0]]


@given(graph_sets())
def test_json_and_back(graphs: GraphSet) -> None:
    attributes = graphs.attributes is not None and graphs.n_nodes > 0
    encoder = Encoder.fit(graphs, attributes=attributes)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(graphs).category, encoder.encode(graphs).category)


def test_refuses(molecules: GraphSet) -> None:
    bare = dataclasses.replace(molecules, category=None, category_names=(), attributes=None)
    for make, message in (
        (lambda: Encoder.fit(molecules, source="labels"), "unknown feature source 'labels'; did you mean 'label'?"),
        (lambda: Encoder.fit(molecules, vocabulary="some"), "unknown vocabulary 'some'"),
        (lambda: Encoder.fit(bare, source="label"), "molecules has no node labels; use 'degree'"),
        (lambda: Encoder.fit(bare, attributes=True), "molecules has no node attributes"),
        (
            lambda: Encoder.fit(molecules).encode(bare),
            "molecules has no node labels; the encoder was fitted on 2 node label columns",
        ),
        (
            lambda: Encoder.fit(molecules, source="degree", attributes=True).encode(bare),
            "molecules has 0 attribute columns; the encoder was fitted on 2",
        ),
        (lambda: Encoder.fit(molecules, np.array([], dtype=np.int64), attributes=True), "no training nodes"),
        (lambda: Encoder.fit(molecules, molecules.y == 0), "graph ids must be whole numbers, not bool"),
        (lambda: Encoder.fit(molecules, [-1]), "graph ids go from 0 to"),
        (lambda: Encoder.from_json({}), "not a saved encoder: KeyError('values')"),
    ):
        with pytest.raises(UserError) as caught:
            make()
        assert message in str(caught.value)
    one_column = dataclasses.replace(
        molecules, category=molecules.category[:, :1], category_names=molecules.category_names[:1]
    )
    with pytest.raises(UserError, match="has 1 node label column; the encoder was fitted on 2"):
        Encoder.fit(molecules).encode(one_column)


def test_degrees_of_the_released_weights(tu_archive: Callable[[str], Path]) -> None:
    graphs = read_tu(tu_archive("IMDB-MULTI"))
    encoder = Encoder.fit(graphs, source="degree", vocabulary="all")
    assert [int(value) for value in encoder.values[0]] == RELEASED_DEGREES
    assert encoder.columns == 59
    column = encoder.encode(graphs).category[:, 0]
    assert [RELEASED_DEGREES[c] for c in column[:50]] == graphs.degree[:50].tolist()


def test_one_column_and_graphs_without_nodes() -> None:
    labels = {"category": np.array([[0], [0]], np.int32), "category_names": (("C",),)}
    encoder = Encoder.fit(GraphSet.from_edges("one", [1, 1], [], [], [0, 1], **labels))
    with pytest.raises(UserError, match="has no node labels; the encoder was fitted on 1 node label column"):
        encoder.encode(GraphSet.from_edges("bare", [1, 1], [], [], [0, 1]))
    with pytest.raises(UserError, match="graphs: the graphs have no nodes"):
        encoder.encode(to_graphset([networkx.Graph()]))


@pytest.fixture
def bonds() -> GraphSet:
    """Two triangles and a path, with one label and two attributes of each edge; "=" occurs in the last graph alone."""
    source, target = [0, 1, 2, 3, 4, 5, 6, 7], [1, 2, 0, 4, 5, 3, 7, 8]
    label = np.array([0, 0, 1, 0, 0, 0, 2, 0], np.int32)[:, None]
    length = np.array([[1, 5], [2, 5], [3, 5], [1, 5], [1, 5], [1, 5], [9, 5], [1, 6]], np.float32)
    return GraphSet.from_edges(
        "bonds", [3, 3, 3], source, target, [0, 1, 0],
        edge_category=label, edge_category_names=(("-", "#", "="),), edge_attributes=length,
    )  # fmt: skip


def test_edges_are_encoded_like_nodes(bonds: GraphSet) -> None:
    encoder = Encoder.fit(bonds, np.array([0, 1]), edges=True)
    assert encoder.edges is not None
    assert encoder.edges.columns == 3 + 1
    assert encoder.edges.others == (3,)
    inputs = encoder.encode(bonds).edges
    assert inputs is not None
    source = bonds.edge_source
    got = {
        (int(p), int(p + step)): (column, floats)
        for p, step, (column,), floats in zip(
            source, bonds.edge_disp, inputs.category.tolist(), inputs.floats.tolist(), strict=True
        )
    }
    train = bonds.edge_attributes[: bonds.edge_ptr[6]].astype(float)
    mean, scale = train.mean(0), train.std(0)
    for (p, q), (column, length) in {(0, 1): (0, 1), (2, 0): (1, 3), (6, 7): (3, 9)}.items():
        for ends in ((p, q), (q, p)):  # both directions alike; "=" was never seen in training
            assert got[ends][0] == column
            assert got[ends][1] == pytest.approx([(length - mean[0]) / scale[0], 0.0])
    assert scale[1] == 0


def test_edges_are_read_on_request_only(bonds: GraphSet) -> None:
    plain = Encoder.fit(bonds)
    assert plain.edges is None
    assert plain.encode(bonds).edges is None
    assert "edges" not in plain.to_json()
    without = dataclasses.replace(bonds, edge_category=None, edge_category_names=(), edge_attributes=None)
    assert Encoder.fit(without, edges=True).edges is None
    encoder = Encoder.fit(bonds, edges=True)
    assert Encoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder
    with pytest.raises(UserError, match="bonds has 0 edge label columns; the encoder was fitted on 1"):
        encoder.encode(without)
    narrow = dataclasses.replace(bonds, edge_attributes=bonds.edge_attributes[:, :1])
    with pytest.raises(UserError, match="bonds has 1 edge attribute column; the encoder was fitted on 2"):
        encoder.encode(narrow)


def test_an_edge_label_without_a_column(bonds: GraphSet) -> None:
    encoder = Encoder.fit(bonds, vocabulary="all", edges=True)
    other = dataclasses.replace(bonds, edge_category_names=(("-", "#", "~"),))
    reasons = encoder.unencodable(other)
    assert list(reasons) == [2]
    assert reasons[2] == "edge label (column 0) ~ is not in the vocabulary, which has no 'other' column"


def test_columns_with_other_names_than_at_training(molecules: GraphSet) -> None:
    """Sources that name their columns must have the same; the first that differs is named."""
    edges = np.arange(2 * molecules.n_edges, dtype=np.float32).reshape(-1, 2)
    codes = np.zeros((molecules.n_edges, 1), np.int32)
    names = {
        "category": ("element", "kind"), "attributes": ("mass", "size"),
        "edge_category": ("bond",), "edge_attributes": ("length", "angle"),
    }  # fmt: skip
    named = dataclasses.replace(
        molecules, edge_attributes=edges, edge_category=codes, edge_category_names=(("one",),), column_names=names
    )
    encoder = Encoder.fit(named, attributes=True, edges=True)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    again.encode(dataclasses.replace(named, column_names={}))
    for what, thing, other in (
        ("category", "node label column 1 is 'class'; the encoder was fitted on 'kind'", ("element", "class")),
        ("attributes", "node attribute column 0 is 'size'; the encoder was fitted on 'mass'", ("size", "mass")),
        ("edge_category", "edge label column 0 is 'type'; the encoder was fitted on 'bond'", ("type",)),
        (
            "edge_attributes",
            "edge attribute column 1 is 'torsion'; the encoder was fitted on 'angle'",
            ("length", "torsion"),
        ),
    ):
        with pytest.raises(UserError, match=f"^molecules: {thing}$"):
            again.encode(dataclasses.replace(named, column_names=names | {what: other}))
