"""Target columns of tables: which task they are, and what is refused."""

from pathlib import Path

import networkx
import numpy as np
import pytest
from pyarrow.csv import read_csv
from pyarrow.parquet import write_table

from cgipool.cli import main
from cgipool.data import GraphSet
from cgipool.data.further import names_of
from cgipool.data.importers import import_data
from cgipool.data.importers.imported import ImportOptions
from cgipool.errors import UserError

Chem = pytest.importorskip("rdkit.Chem")

TABLE = """smiles,logS,count,name,a-1,a-2,b
C,0.5,1,x,0,1,
CC,1.5,2,y,1,,0
CCC,,3,x,0,0,1
CCCC,2.5,4,y,1,1,2
"""


def read(folder: Path, text: str = TABLE, **options: object) -> GraphSet:
    path = folder / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return import_data(path, options=ImportOptions(**options)).graphs


def test_a_column_with_fractions_is_a_regression(tmp_path: Path) -> None:
    graphs = read(tmp_path, label="logS")
    assert (graphs.task, graphs.target_names, graphs.class_names) == ("regression", ("logS",), ())
    np.testing.assert_array_equal(graphs.targets, [[0.5], [1.5], [np.nan], [2.5]])


def test_many_whole_numbers_are_a_regression(tmp_path: Path) -> None:
    text = "smiles,label\n" + "".join(f"C,{i}\nCC,{i}\n" for i in range(21))
    assert read(tmp_path, text).task == "regression"
    assert read(tmp_path, text, task="classification").n_classes == 21


def test_few_whole_numbers_and_names_are_classes(tmp_path: Path) -> None:
    for label in ("b", "name"):
        graphs = read(tmp_path, TABLE.replace(",\n", ",1\n"), label=label)
        assert graphs.task == "classification"
    assert read(tmp_path, label="count", task="regression").targets.ravel().tolist() == [1, 2, 3, 4]


def test_patterns_and_several_columns(tmp_path: Path) -> None:
    graphs = read(tmp_path, label=("a-*",))
    assert (graphs.task, graphs.target_names) == ("multilabel", ("a-1", "a-2"))
    assert np.isnan(graphs.targets[1, 1])
    graphs = read(tmp_path, label=("b", "a-1"))
    assert (graphs.task, graphs.target_names) == ("regression", ("a-1", "b"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"label": ("name", "logS")},
            "column 'name' has 4 values that are not a finite number, the first in row 1: 'x'",
        ),
        ({"label": "name", "task": "regression"}, "for class names use --task classification"),
        (
            {"label": ("a-1", "b"), "task": "multilabel"},
            "column 'b' has values other than 0 and 1; use --task regression",
        ),
        ({"label": ("a-1", "b"), "task": "classification"}, "needs one label column, not 2"),
        ({"label": "logS", "threshold": 1.0, "task": "regression"}, "--threshold makes two classes, which --task"),
        ({"label": "z*"}, "has no label column 'z*'"),
        ({"label": "logS", "task": "ranking"}, "unknown task 'ranking'"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_infinite_and_empty_columns(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1 value that is not a finite number, the first in row 2: 'inf'"):
        read(tmp_path, "smiles,y,z\nC,0.5,1\nCC,inf,2\n", label="y", task="regression")
    with pytest.raises(UserError, match="is empty in all 2 rows"):
        read(tmp_path, "smiles,y,z\nC,,0.5\nCC,,1.5\n", label=("y", "z"))


def test_edge_lists_have_targets_too(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "graphs.csv").write_text("graph,size\na,1.5\nb,2.5\nc,\n")
    (folder / "edges.csv").write_text("graph,source,target\na,1,2\nb,1,2\nb,2,3\nc,1,2\n")
    graphs = import_data(folder).graphs
    assert graphs.task == "regression"
    np.testing.assert_array_equal(graphs.targets.ravel(), [1.5, 2.5, np.nan])


def test_the_import_says_which_task_it_chose(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "mine.csv").write_text(TABLE)
    command = ["data", "import", str(tmp_path / "mine.csv"), "--label", "a-*", "--out", str(tmp_path / "set")]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "2 label columns: task multilabel, because all values are 0 or 1 (choose another with --task)" in shown
    assert "a-1: 4 values from 0 to 1" in shown


@pytest.mark.parametrize(
    ("text", "task", "reason"),
    [
        ("0.5 1 2", "regression", "there are numbers with fractions"),
        (" ".join(map(str, range(21))), "regression", "there are more than 20 different numbers"),
        ("1 2 1 2", "classification", "there are only 2 different numbers, all whole"),
        ("1 2 unknown 1 2 unknown", "classification", "not all values are numbers"),
    ],
)
def test_why_a_task_was_chosen(tmp_path: Path, text: str, task: str, reason: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("smiles,y\n" + "".join(f"C,{value}\n" for value in text.split()))
    found = import_data(path)
    assert found.graphs.task == task
    assert f"{path}: column 'y': task {task}, because {reason} (choose another with --task)" in found.notes
    assert not any("because" in note for note in import_data(path, options=ImportOptions(task=task)).notes)


def test_text_among_measurements_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"column 'y' has 2 values that are not a finite number, the first in row 2: 'n"
    ):
        read(tmp_path, "smiles,y\nC,0.5\nCC,n.d.\nCCC,?\n")


def test_500_different_numbers_are_not_classes(tmp_path: Path) -> None:
    text = "smiles,y\n" + "".join(f"C,{i}\n" for i in range(500))
    with pytest.raises(
        UserError, match=r"holds 500 different numbers in 500 rows, which are not classes; use --task regression"
    ):
        read(tmp_path, text, task="classification")


def test_rows_without_any_target_can_be_skipped(tmp_path: Path) -> None:
    assert read(tmp_path, label=("a-2", "b"), task="regression").n_graphs == 4
    graphs = read(
        tmp_path, TABLE.replace("CC,1.5,2,y,1,,0", "CC,1.5,2,y,1,,"), label=("a-2", "b"), skip_unlabelled=True
    )
    assert graphs.n_graphs == 3
    assert graphs.dropped == {"rows without a label": 1}


def test_other_columns_are_kept(tmp_path: Path) -> None:
    graphs = read(tmp_path, label="logS")
    assert names_of(graphs) == ("count", "a-1", "a-2", "b"), "all but SMILES, id and label"
    assert graphs.column("a-2") == ["1", "", "0", "1"]
    table = read_csv(tmp_path / "mine.csv")
    write_table(table, tmp_path / "mine.parquet")
    loaded = import_data(tmp_path / "mine.parquet", options=ImportOptions(label="logS")).graphs
    assert loaded.table == graphs.table


def test_sdf_and_graphs_keep_columns_too(tmp_path: Path) -> None:
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CO"))
    records = [f"{block}>  <y>\n{i}.5\n\n>  <year>\n20{i:02}\n\n$$$$\n" for i in range(3)]
    (tmp_path / "some.sdf").write_text("".join(records))
    graphs = import_data(tmp_path / "some.sdf", options=ImportOptions(label="y")).graphs
    assert (graphs.task, graphs.targets.ravel().tolist(), graphs.column("year")) == (
        "regression",
        [0.5, 1.5, 2.5],
        ["2000", "2001", "2002"],
    )
    folder = tmp_path / "edges"
    folder.mkdir()
    (folder / "graphs.csv").write_text("graph,split,label,year\na,train,1.5,1990\nb,test,2.5,1991\nc,test,,1992\n")
    (folder / "edges.csv").write_text("graph,source,target\na,1,2\nc,1,2\n")
    graphs = import_data(folder).graphs
    assert (graphs.task, names_of(graphs), graphs.column("year")) == ("regression", ("year",), ["1990", "1992"])


@pytest.mark.parametrize("table", [True, False])
def test_graphml_has_targets(tmp_path: Path, table: bool) -> None:
    values = [{"a": 1, "b": 0, "mass": 2.5}, {"a": 0, "mass": 3.5}, {"a": 0, "b": 1, "mass": 4.5}]
    for number, keys in enumerate(values):
        graph = networkx.path_graph(number + 2)
        graph.graph.update({} if table else keys)
        networkx.write_graphml(graph, tmp_path / f"g{number}.graphml")
    if table:
        rows = [f"g{i},{keys['a']},{keys.get('b', '')},{keys['mass']}\n" for i, keys in enumerate(values)]
        (tmp_path / "labels.csv").write_text("graph,a,b,mass\n" + "".join(rows))
    graphs = import_data(tmp_path, options=ImportOptions(label=("a", "b"))).graphs
    assert (graphs.task, graphs.target_names) == ("multilabel", ("a", "b"))
    np.testing.assert_array_equal(graphs.targets, [[1, 0], [0, np.nan], [0, 1]])
    assert graphs.column("mass") == ["2.5", "3.5", "4.5"]
    assert import_data(tmp_path, options=ImportOptions(label="mass")).graphs.task == "regression"
