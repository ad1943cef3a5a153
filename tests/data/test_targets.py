"""Targets of graphs from PyG, NetworkX and TU files, and what a set does with them."""

from collections.abc import Sequence
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from cgipool.data import GraphSet, load_dataset, motifs
from cgipool.data.importers import import_data, import_to
from cgipool.data.importers.imported import ImportOptions
from cgipool.errors import UserError

ENDS = torch.tensor([[0, 1], [1, 0]])
GAP = float("nan")


def pyg(*labels: object, dtype: torch.dtype | None = torch.float32) -> list[Data]:
    return [Data(edge_index=ENDS, num_nodes=2, y=torch.tensor(label, dtype=dtype)) for label in labels]


def nx(*labels: object, key: str = "y") -> list[networkx.Graph]:
    graphs = [networkx.path_graph(3) for _ in labels]
    for graph, label in zip(graphs, labels, strict=True):
        graph.graph[key] = label
    return graphs


@pytest.mark.parametrize(
    ("labels", "dtype", "task", "expected"),
    [
        ([[0], [2], [1]], torch.int64, "classification", [0, 2, 1]),
        ([5, 7, 5], torch.int64, "classification", [0, 1, 0]),
        ([[0.0], [1.0], [1.0]], torch.float32, "classification", [0, 1, 1]),
        ([0.5, 1.5, 2.0], torch.float32, "regression", [[0.5], [1.5], [2.0]]),
        ([[[0.0, 1.0]], [[GAP, 0.0]], [[1.0, GAP]]], torch.float32, "multilabel", [[0, 1], [GAP, 0], [1, GAP]]),
        ([[[0.5, 2.0]], [[GAP, 0.0]], [[1.0, 3.0]]], torch.float32, "regression", [[0.5, 2], [GAP, 0], [1, 3]]),
    ],
)
def test_the_three_shapes_of_pyg(tmp_path: Path, labels: list, dtype: torch.dtype, task: str, expected: list) -> None:
    data = pyg(*labels, dtype=dtype)
    torch.save([graph.to_dict() for graph in data], tmp_path / "mine.pt")
    for graphs in (GraphSet.from_pyg(data, "g"), import_data(tmp_path / "mine.pt").graphs):
        assert graphs.task == task
        np.testing.assert_array_equal(graphs.y if task == "classification" else graphs.targets, expected)
    back = GraphSet.from_pyg(graphs.to_pyg(), "g", task=task)
    np.testing.assert_array_equal(back.y if task == "classification" else back.targets, expected)
    back = GraphSet.from_networkx(graphs.to_networkx(), "g", task=task)
    assert back.task == task
    if task != "classification":
        np.testing.assert_array_equal(back.targets, expected)


def test_pyg_columns_are_chosen_by_number(tmp_path: Path) -> None:
    data = pyg(*([[float(i), i / 2, i % 2]] for i in range(30)))
    torch.save([graph.to_dict() for graph in data], tmp_path / "mine.pt")
    graphs = import_data(tmp_path / "mine.pt", options=ImportOptions(label="target 1")).graphs
    assert (graphs.task, graphs.target_names, graphs.targets[3, 0]) == ("regression", ("target 1",), 1.5)
    graphs = import_data(tmp_path / "mine.pt", options=ImportOptions(label="target 1", threshold=5)).graphs
    assert graphs.class_names == ("below 5", "5 and above")
    assert import_data(tmp_path / "mine.pt", options=ImportOptions(label="target 2")).graphs.task == "classification"


def test_pyg_refuses() -> None:
    for data, message in (
        (pyg([0.5, 1.5]), r"shape \[1, T\]; it is not in 1 graph, first in graph 0: shape \[2\]"),
        (pyg([[0.5, 1.5]], [[0.5]]), "graphs 0 and 1 differ: 2 and 1 values of y"),
        (pyg([float("inf")], [1.0]), "target column 'target 0' has 1 infinite value, first in graph 0"),
        (
            [*pyg(1, 2, dtype=torch.int64), Data(edge_index=ENDS, num_nodes=2)],
            "y is missing in 1 graph, first in graph 2",
        ),
    ):
        with pytest.raises(UserError, match=message):
            GraphSet.from_pyg(data, "g")
    with pytest.raises(UserError, match="class labels must be whole numbers"):
        GraphSet.from_pyg(pyg([0.5], [1.0]), "g", task="classification")
    many = pyg(*range(101), dtype=torch.int64)
    assert GraphSet.from_pyg(many[:100], "g").n_classes == 100
    for task in ("auto", "classification"):
        with pytest.raises(UserError, match="y holds 101 different numbers in 101 graphs, which are not classes"):
            GraphSet.from_pyg(many, "g", task=task)
    assert GraphSet.from_pyg(many, "g", task="regression").targets.shape == (101, 1)
    with pytest.raises(UserError, match="unknown task 'ranking'"):
        GraphSet.from_pyg(pyg([0.5], [1.0]), "g", task="ranking")


def test_networkx() -> None:
    assert GraphSet.from_networkx(nx(0.5, None, 2.0), "g").targets.ravel().tolist()[::2] == [0.5, 2.0]
    graphs = GraphSet.from_networkx(nx(np.array([0, 1]), [1, GAP]), "g")
    assert (graphs.task, graphs.targets[0].tolist()) == ("multilabel", [0, 1])
    graphs = nx(0.5, 1.5, key="mass")
    graphs[0].graph["charge"] = 2.0
    found = GraphSet.from_networkx(graphs, "g", label=("mass", "charge"))
    assert found.target_names == ("mass", "charge")
    np.testing.assert_array_equal(found.targets, [[0.5, 2.0], [1.5, np.nan]])
    assert GraphSet.from_networkx(nx(1, 2, 2), "g", task="regression").targets.ravel().tolist() == [1, 2, 2]
    with pytest.raises(UserError, match="a list of numbers; it is not in 1 graph, first in graph 1: 'high'"):
        GraphSet.from_networkx(nx(0.5, "high"), "g")
    names = (
        r"graph\['y'\] is not a number in 2 graphs, first in graph 0: 'a'; for class names use task='classification'"
    )
    with pytest.raises(UserError, match=names):
        GraphSet.from_networkx(nx("a", "b"), "g", task="regression")


def write_tu(folder: Path, attributes: str, labels: str | None = None) -> Path:
    folder.mkdir()
    (folder / "G_A.txt").write_text("1, 2\n2, 1\n3, 4\n4, 3\n")
    (folder / "G_graph_indicator.txt").write_text("1\n1\n2\n2\n3\n")
    (folder / "G_graph_attributes.txt").write_text(attributes)
    if labels:
        (folder / "G_graph_labels.txt").write_text(labels)
    return folder


def test_tu_attributes_of_graphs_are_targets(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "G", "1\n2.5\nnan\n")
    for graphs in (load_dataset(folder), load_dataset(folder, unlabelled=True), import_data(folder).graphs):
        assert graphs.task == "regression"
        np.testing.assert_array_equal(graphs.targets, [[1], [2.5], [np.nan]])
    saved = import_to(folder, tmp_path / "saved", options=ImportOptions(skip_unlabelled=True)).graphs
    assert saved.targets.ravel().tolist() == [1, 2.5]
    graphs = import_data(write_tu(tmp_path / "H", "1, 0\n0, 1\n1, 1\n")).graphs
    assert (graphs.task, graphs.target_names) == ("multilabel", ("target 0", "target 1"))
    both = write_tu(tmp_path / "I", "1\n2.5\n3\n", "0\n1\n0\n")
    assert load_dataset(both).task == import_data(both).graphs.task == "classification"
    assert import_data(both, options=ImportOptions(task="regression")).graphs.targets.ravel().tolist() == [1, 2.5, 3]
    with pytest.raises(UserError, match=r"G_graph_attributes\.txt, line 2: a target is infinite"):
        load_dataset(write_tu(tmp_path / "J", "1\ninf\n2\n"))


def test_targets_are_saved_mapped_joined_and_cut(tmp_path: Path) -> None:
    values = np.arange(24.0).reshape(8, 3)
    values[2, 1] = np.nan
    graphs = motifs(8).with_targets(values, ("a", "b", "c"))
    graphs.save(tmp_path / "set")
    for loaded in (GraphSet.load(tmp_path / "set"), GraphSet.load(tmp_path / "set", mmap=True)):
        assert (loaded.task, loaded.target_names) == ("regression", ("a", "b", "c"))
        np.testing.assert_array_equal(loaded.targets, values)
        np.testing.assert_array_equal(loaded[[3, 2]].targets, values[[3, 2]])
    joined = GraphSet.join([graphs, graphs[4:]])
    np.testing.assert_array_equal(joined.targets, np.concatenate([values, values[4:]]))
    assert joined.target_names == ("a", "b", "c")


INFINITE, NUMBER = float("inf"), 1.5


@pytest.mark.parametrize(
    ("targets", "names", "message"),
    [
        (["a"] * 8, ["q"], "target column 'q' has 8 values that are not a number, first in graph 0: 'a'"),
        (
            [NUMBER] * 7 + ["x"],
            None,
            "target column 'target 0' has 1 value that is not a number, first in graph 7: 'x'",
        ),
        ([INFINITE] * 8, "q", "target column 'q' has 8 infinite values, first in graph 0"),
        ([GAP] * 8, ["q"], "target column 'q' has no value: it is missing in 8 graphs, first in graph 0"),
        (
            [[NUMBER, None]] * 8,
            ["q", "r"],
            "target column 'r' has no value: it is missing in 8 graphs, first in graph 0",
        ),
        ([[NUMBER, NUMBER]] * 8, ["q", "q"], "2 target columns are named 'q'"),
        ([[NUMBER, NUMBER]] * 8, ["q"], "targets has 2 columns, but 1 name is given"),
        (
            [[NUMBER, NUMBER]] * 7 + [[NUMBER]],
            None,
            r"targets must be of shape \[G\] or \[G, T\]; the rows differ in length",
        ),
        (NUMBER, None, r"targets must be of shape \[G\] or \[G, T\], not \[\]"),
        ([NUMBER] * 3, None, "targets has 3 rows for 8 graphs"),
    ],
)
def test_bad_targets_are_named(targets: object, names: Sequence[str] | None, message: str) -> None:
    with pytest.raises(UserError, match=f"^motifs: {message}$"):
        motifs(8).with_targets(targets, names)


def test_targets_may_be_numbers_in_text_or_none() -> None:
    assert motifs(2).with_targets(["1.5", "2"]).targets.ravel().tolist() == [1.5, 2.0]
    np.testing.assert_array_equal(motifs(2).with_targets([None, 2.5], "q").targets, [[GAP], [2.5]])


def test_bad_labels_of_data_are_counted() -> None:
    for task, message in (
        ("auto", "g: target column 'target 1' has no value: it is missing in 2 graphs, first in graph 0"),
        ("classification", "g: y has 2 columns; class labels are one column"),
    ):
        with pytest.raises(UserError, match=message):
            GraphSet.from_pyg(pyg([[0.5, GAP]], [[1.5, GAP]]), "g", task=task)
    for labels, message in (
        ((0.0, GAP, GAP), "g: y is missing in 2 graphs, first in graph 1; class labels must be whole numbers"),
        (
            (0.0, INFINITE, NUMBER),
            "g: y is not a whole number in 2 graphs, first in graph 1: inf; class labels must be",
        ),
    ):
        with pytest.raises(UserError, match=message):
            GraphSet.from_pyg(pyg(*([label] for label in labels)), "g", task="classification")
    for labels, message in (
        (("ring", None, None), r"g: graph.graph\['y'\] is missing in 2 graphs, first in graph 1"),
        (("ring", 0.5, "path"), r"g: graph.graph\['y'\] is not a class in 1 graph, first in graph 1: 0.5"),
    ):
        with pytest.raises(UserError, match=message):
            GraphSet.from_networkx(nx(*labels), "g")
    with pytest.raises(UserError, match="label names the key 'y' 2 times"):
        GraphSet.from_networkx(nx(0.5, 1.5), "g", label=("y", "y"))
