"""What a training leaves out of a data set is said: one plain sentence each."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cgipool.data import GraphSet, motifs
from cgipool.data.describe import warn_of_unused
from cgipool.errors import UnusedDataWarning


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return replace(motifs(20), name="mine")


def said(graphs: GraphSet, attributes: bool = False, edges: bool = False) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unread = {} if attributes else {"node attributes": "; set attributes=true to use them"}
        hint = "; conv=gine reads them"
        warn_of_unused(graphs, unread | ({} if edges else {"edge labels": hint, "edge attributes": hint}))
    assert all(issubclass(each.category, UnusedDataWarning) and each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


def labels(rows: int) -> np.ndarray:
    return np.zeros((rows, 1), np.int32)


def test_nothing_is_said_of_a_set_that_is_used_as_a_whole(graphs: GraphSet) -> None:
    assert said(graphs) == []
    assert said(replace(graphs, category=labels(graphs.n_nodes), category_names=(("a",),))) == []


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"edge_category": labels, "edge_category_names": (("a",),)},
         "mine: edge labels (1 column) are not used; conv=gine reads them"),
        ({"edge_attributes": lambda rows: np.ones((rows, 2))},
         "mine: edge attributes (2 columns) are not used; conv=gine reads them"),
        ({"dropped": {"one-way edges completed": 5760}},
         "mine: direction is discarded: 5,760 one-way edges count in both directions"),
    ],
)  # fmt: skip
def test_what_edges_have(graphs: GraphSet, fields: dict[str, Any], sentence: str) -> None:
    made = {name: value(graphs.n_edges) if callable(value) else value for name, value in fields.items()}
    made = {n: v.astype(np.float32) if getattr(v, "dtype", None) == np.float64 else v for n, v in made.items()}
    assert said(replace(graphs, **made)) == [sentence]
    assert said(replace(graphs, **made), attributes=True) == [sentence]


def test_node_attributes_alone_and_beside_labels(graphs: GraphSet) -> None:
    floats = replace(graphs, attributes=np.ones((graphs.n_nodes, 3), np.float32))
    both = replace(floats, category=labels(graphs.n_nodes), category_names=(("a",),))
    told = "mine: node attributes (3 columns) are not used"
    assert said(both) == [f"{told}; set attributes=true to use them"]
    assert said(floats)[0].startswith(f"{told} and nodes have no labels, so only their degrees are seen")
    assert said(floats, attributes=True) == said(both, attributes=True) == []


def test_a_set_of_the_catalogue_gets_one_note(graphs: GraphSet) -> None:
    """What the paper's protocol leaves out of PROTEINS is known; one line says it."""
    columns = {
        "attributes": np.ones((graphs.n_nodes, 1), np.float32),
        "edge_attributes": np.ones((graphs.n_edges, 1), np.float32),
    }
    assert len(said(replace(graphs, **columns))) == 2
    (note,) = said(replace(graphs, name="PROTEINS", **columns))
    assert note.startswith("PROTEINS: node attributes (1 column) are not used")
    assert note.endswith("; edge attributes (1 column) are not used; conv=gine reads them")


def test_edge_weights_are_always_used_and_the_rest_of_an_edge_by_some_convolutions(graphs: GraphSet) -> None:
    assert said(replace(graphs, edge_weight=np.ones(graphs.n_edges, np.float32))) == []
    labelled = replace(graphs, edge_category=labels(graphs.n_edges), edge_category_names=(("a",),))
    assert said(labelled, edges=True) == []


def test_labels_with_one_value_only(graphs: GraphSet) -> None:
    values = np.array([[0.0, 1.0, 1.0]] * 19 + [[1.0, np.nan, 1.0]])
    (sentence,) = said(graphs.with_targets(values, ("a", "b", "c")))
    left_out = "they are trained, but left out of mean ROC-AUC and PR-AUC"
    assert sentence == f"mine: 2 label columns (b, c) have one value only: {left_out}"
    assert said(graphs.with_targets(values[:, :2] * [1, 3], ("a", "b"))) == []
