"""Edge lists, GraphML, PyG files and TU sets as data of one's own."""

import csv
import pickle
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from random_sets import assert_equal, write_tu
from torch_geometric.data import Data, InMemoryDataset

from cgipool.data import GraphSet, load_dataset, read_tu
from cgipool.data.importers import ImportOptions, Skipped, import_data, read_ids
from cgipool.data.importers.read import load_unlabelled
from cgipool.data.writer import GraphSetWriter
from cgipool.errors import UserError

EDGES = {
    "graphs.csv": "graph,label\nfirst,yes\nsecond,no\nthird,yes\n",
    "edges.csv": "graph,source,target\nsecond,a,b\nfirst,10,9\nfirst,9,2\nthird,x,y\nthird,y,x\n",
}
NODES = "graph,node,label,height\nfirst,2,C,0.5\nfirst,9,N,1\nfirst,10,C,2\nsecond,b,O,3\nsecond,a,C,4\n"
NODES += "third,x,C,5\nthird,y,C,6\nthird,z,N,7\n"


NAMES = ("dropped", "graph_ids", "node_names", "column_names")
"""What an import keeps and a list of networkx graphs does not have."""


def folder(place: Path, **files: str) -> Path:
    place.mkdir(exist_ok=True)
    for name, text in files.items():
        (place / f"{name}.csv").write_text(text)
    return place


def edge_lists(place: Path, **changes: str) -> Path:
    return folder(place / "mine", **({name.removesuffix(".csv"): text for name, text in EDGES.items()} | changes))


def refused(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        import_data(path, options=ImportOptions(**options))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_edge_lists(tmp_path: Path) -> None:
    found = import_data(edge_lists(tmp_path))
    graphs = found.graphs
    assert (graphs.name, graphs.class_names, graphs.y.tolist()) == ("mine", ("no", "yes"), [1, 0, 1])
    assert graphs.sizes.tolist() == [3, 2, 2]
    assert graphs.degree.tolist() == [1, 2, 1, 1, 1, 1, 1]  # of the first graph: nodes 2, 9, 10
    assert graphs.dropped == {"one-way edges completed": 3}
    assert found.ids == {"row": [1, 2, 3], "id": ["first", "second", "third"]}


def test_nodes_bring_labels_attributes_and_isolated_nodes(tmp_path: Path) -> None:
    graphs = import_data(edge_lists(tmp_path, nodes=NODES)).graphs
    assert graphs.sizes.tolist() == [3, 2, 3]
    assert graphs.category is not None
    assert graphs.category_names == (("C", "N", "O"),)
    assert graphs.category[:, 0].tolist() == [0, 1, 0, 0, 2, 0, 0, 1]
    assert graphs.attributes is not None
    assert graphs.attributes[:, 0].tolist() == [0.5, 1, 2, 4, 3, 5, 6, 7]
    assert graphs.degree[-1] == 0


def test_columns_of_edges(tmp_path: Path) -> None:
    edges = "graph,source,target,weight,kind,length\nfirst,0,1,2,3,0.5\nsecond,0,1,4,5,1e1\n"
    graphs = import_data(edge_lists(tmp_path, edges=edges, graphs="graph,label\nfirst,0\nsecond,1\n")).graphs
    assert graphs.edge_weight is not None
    assert graphs.edge_weight.tolist() == [2, 2, 4, 4]
    assert graphs.edge_category_names == (("3", "5"),)
    assert graphs.edge_attributes is not None
    assert graphs.edge_attributes[:, 0].tolist() == [0.5, 0.5, 10, 10]


def test_graphs_without_nodes_or_labels(tmp_path: Path) -> None:
    listed = "graph,label\nfirst,yes\nsecond,\nempty,no\nthird,no\n"
    path = edge_lists(tmp_path, graphs=listed)
    assert "has no label in 1 of 4 rows, the first of them row 2" in refused(path)
    found = import_data(path, options=ImportOptions(skip_unlabelled=True))
    assert found.skipped == [Skipped(3, "it has no nodes", "empty")]
    assert found.ids == {"row": [1, 4], "id": ["first", "third"]}
    assert found.graphs.sizes.tolist() == [3, 2]
    assert found.graphs.dropped == {
        "one-way edges completed": 2,
        "graphs without nodes": 1,
        "graphs without a label": 1,
    }
    assert "row 3: graph 'empty': it has no nodes" in refused(path, skip_unlabelled=True, strict=True)


def test_edge_lists_against_a_slow_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgipool.data.importers.text.BLOCK", 256)
    generator = np.random.default_rng(0)
    made = [nx.gnp_random_graph(int(n), 0.4, seed=int(n)) for n in generator.integers(4, 15, 20)]
    rows = [(g, u, v) for g, graph in enumerate(made) for u, v in graph.edges]
    rows = [rows[i] for i in generator.permutation(len(rows))]
    nodes = [(g, node) for g, graph in enumerate(made) for node in graph]
    path = edge_lists(
        tmp_path,
        edges="graph,source,target\n" + "".join(f"g{g},{u},{v}\n" for g, u, v in rows),
        graphs="graph,label\n" + "".join(f"g{g},{g % 2}\n" for g in range(20)),
        nodes="graph,node\n" + "".join(f"g{nodes[i][0]},{nodes[i][1]}\n" for i in generator.permutation(len(nodes))),
    )
    for g, graph in enumerate(made):
        graph.graph["y"] = g % 2
    assert_equal(import_data(path).graphs, GraphSet.from_networkx(made, "mine"), ignore=NAMES)


EDGE_FAULTS = {
    "no graphs.csv": ({"graphs": None}, "{path} needs graphs.csv with the columns "),
    "missing column": ({"edges": "graph,from,to\n"}, "{path}/edges.csv has no column 'source'; its columns: graph, "),
    "unknown graph": (
        {"edges": EDGES["edges.csv"] + "tenth,1,2\n"},
        "{path}/edges.csv, row 6: graph 'tenth' is not in",
    ),
    "graph twice": ({"graphs": EDGES["graphs.csv"] + "first,no\n"}, "{path}/graphs.csv, row 4: graph 'first' appears"),
    "node twice": ({"nodes": NODES + "first,2,C,1\n"}, "{path}/nodes.csv, row 9: this node of this graph appears"),
    "unknown node": (
        {"nodes": NODES, "edges": EDGES["edges.csv"] + "first,2,77\n"},
        "{path}/edges.csv, row 6: the target is not a node of nodes.csv",
    ),
    "blank value": ({"nodes": NODES.replace("N,7", ",7")}, "{path}/nodes.csv, row 8: column 'label' is empty"),
    "weight in words": (
        {"edges": "graph,source,target,weight\nfirst,1,2,much\n"},
        "{path}/edges.csv: column 'weight' must hold numbers",
    ),
    "no edges at all": ({"edges": "graph,source,target\n"}, "{path}/graphs.csv, row 1: graph 'first': it has no nodes"),
    "not a number": (
        {"nodes": NODES.replace("0.5", "nan")},
        "mine: column 'height' of attributes holds 1 value that is NaN",
    ),
}


def test_edges_csv_alone_names_its_folder(tmp_path: Path) -> None:
    path = edge_lists(tmp_path)
    assert refused(path / "edges.csv").endswith("is an edge list; import its folder, with graphs.csv next to edges.csv")


@pytest.mark.parametrize("fault", EDGE_FAULTS)
def test_faults_of_edge_lists(tmp_path: Path, fault: str) -> None:
    changes, message = EDGE_FAULTS[fault]
    path = edge_lists(tmp_path, **{name: text for name, text in changes.items() if text is not None})
    for name, text in changes.items():
        if text is None:
            (path / f"{name}.csv").unlink()
    assert refused(path).startswith(message.format(path=path))


def graphml(place: Path, graphs: list[nx.Graph], labels: str | None) -> Path:
    place.mkdir(exist_ok=True)
    for i, graph in enumerate(graphs):
        nx.write_graphml(graph, place / f"g{i}.graphml")
    if labels is not None:
        (place / "labels.csv").write_text(labels)
    return place


def coloured(n: int, **own: object) -> nx.Graph:
    graph = nx.path_graph(n)
    graph.graph.update(own)
    for node in graph:
        graph.nodes[node].update(colour="rb"[node % 2], size=node / 2, shelf=node)
    for u, v in graph.edges:
        graph.edges[u, v].update(weight=u + 1, kind=f"k{u}")
    return graph


def test_graphml_folder(tmp_path: Path) -> None:
    path = graphml(
        tmp_path / "nets", [nx.empty_graph(0), coloured(3), coloured(2)], "graph,label\ng2.graphml,x\ng0,y\ng1,y\n"
    )
    found = import_data(path)
    graphs = found.graphs
    assert (graphs.name, graphs.class_names, graphs.y.tolist()) == ("nets", ("x", "y"), [1, 1, 0])
    assert found.ids == {"row": [1, 2, 3], "id": ["g0", "g1", "g2"]}
    assert graphs.sizes.tolist() == [0, 3, 2]
    assert graphs.category_names == (("b", "r"), ("0", "1", "2"))
    assert graphs.attributes is not None
    assert graphs.attributes[:, 0].tolist() == [0, 0.5, 1, 0, 0.5]
    assert graphs.edge_weight is not None
    assert graphs.edge_weight.tolist() == [1, 1, 2, 2, 1, 1]
    assert graphs.edge_category_names == (("k0", "k1"),)
    assert graphs.dropped == {}


def test_graphml_that_carries_its_class(tmp_path: Path) -> None:
    path = graphml(tmp_path / "nets", [coloured(3, label="a"), coloured(4, label="b")], None)
    assert import_data(path).graphs.y.tolist() == [0, 1]
    one = import_data(path / "g0.graphml", name="one")
    assert (one.graphs.name, one.graphs.class_names) == ("one", ("a",))
    graphml(tmp_path / "nets", [coloured(3, colour="a", size="s"), coloured(4, colour="b", size="s")], None)
    assert "several columns could hold the label (colour, size); choose with --label" in refused(path)
    assert import_data(path, options=ImportOptions(label="colour")).graphs.class_names == ("a", "b")


def test_several_graphs_in_a_file(tmp_path: Path) -> None:
    path = graphml(tmp_path / "nets", [coloured(2, label="a")], None) / "g0.graphml"
    text = path.read_text()
    start, end = text.index("<graph "), text.index("</graph>") + len("</graph>")
    path.write_text(text[:end] + text[start:end] + text[end:])
    assert import_data(path).ids["id"] == ["g0#0", "g0#1"]
    labels = path.with_name("labels.csv")
    labels.write_text("graph,label\ng0,a\n")
    assert refused(path.parent) == f"{labels} has one class per file, but a file has several graphs: g0#0"


def test_graphml_named_and_directed_edges(tmp_path: Path) -> None:
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 2)], label="a")
    for i, (u, v) in enumerate(graph.edges):
        graph.edges[u, v]["id"] = f"e{i}"
    found = import_data(graphml(tmp_path / "nets", [graph], None)).graphs
    assert found.edge_category is None
    assert found.dropped == {"self-loops": 1, "one-way edges completed": 2}


def test_faults_of_graphml(tmp_path: Path) -> None:
    path = graphml(tmp_path / "nets", [coloured(3), coloured(2)], None)
    assert refused(path) == (
        f"{path}: the graphs have no class, and there is no labels.csv with columns graph and label; "
        "to import graphs without classes for prediction, use --unlabelled"
    )
    for labels, message in (
        ("graph,label\ng0,1\n", "labels.csv has no row for g1.graphml"),
        ("graph,label\ng0,1\ng1,2\ng2,1\n", "labels.csv, row 3: there is no file g2.graphml"),
        ("graph,label\ng0,1\ng0,2\n", "labels.csv, row 2: graph 'g0' appears twice"),
        ("file,label\ng0,1\n", "labels.csv has no column 'graph'; its columns: file, label"),
        ("graph,label\ng0,1\ng1,\n", "column 'label' has no label in 1 of 2 rows"),
    ):
        (path / "labels.csv").write_text(labels)
        assert message in refused(path)
    found = import_data(path, options=ImportOptions(skip_unlabelled=True))
    assert (found.ids["id"], found.graphs.dropped) == (["g0"], {"graphs without a label": 1})
    (path / "labels.csv").write_text("graph,label\ng0,1\ng1,2\n")
    nx.write_graphml(nx.path_graph(2), path / "g1.graphml")
    assert "graph 'g1': key 'colour' is on some nodes or edges only; it must be on all or none" in refused(path)
    for text in ("<graphml><graph>", "plain text", "<html/>", "<?xml version='1.0' encoding='utf-3'?><graphml/>"):
        (path / "g1.graphml").write_text(text)
        assert "g1.graphml " in refused(path)
    heavy = coloured(2)
    nx.set_edge_attributes(heavy, "heavy", "weight")
    for name in ("g0", "g1"):
        nx.write_graphml(heavy, path / f"{name}.graphml")
    assert refused(path) == "graph 'g0': key 'weight' must hold numbers, not 'heavy'"


DATA = [
    Data(x=torch.tensor([[0.5], [1.5]]), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([3])),
    Data(x=torch.tensor([[2.5]]), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([1])),
]
BARE = [
    Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=4, y=torch.tensor([0])),
    Data(edge_index=torch.tensor([[0], [2]]), num_nodes=3, y=torch.tensor([1])),
]


@pytest.mark.parametrize("data", [DATA, BARE], ids=["with x", "with num_nodes"])
@pytest.mark.parametrize("form", ["dicts", "slices", "PyG's own"])
def test_pyg_files(tmp_path: Path, data: list[Data], form: str) -> None:
    path = tmp_path / "mine.pt"
    if form == "PyG's own":
        InMemoryDataset.save(data, str(path))
    elif form == "slices":
        columns, slices = InMemoryDataset.collate(data)
        torch.save((columns.to_dict(), slices), path)
    else:
        torch.save([graph.to_dict() for graph in data], path)
    found = import_data(path)
    assert_equal(found.graphs, GraphSet.from_pyg(data, "mine"))
    assert list(found.ids["row"]) == [1, 2]


class Evil:
    """An object that would write a file if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_pyg_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.pt"
    torch.save(DATA, path)
    said = refused(path)
    assert said.endswith('from cgipool import GraphSet; GraphSet.from_pyg(list_of_data, name=...).save("DIR")')
    torch.save([Evil(tmp_path / "touched")], path)
    assert refused(path) == said
    assert not (tmp_path / "touched").exists()


def test_faults_of_pyg_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.pt"
    for held, message in (
        ([], "neither a list of dicts nor columns with slices"),
        ([{1: torch.ones(2)}], "neither a list of dicts nor columns with slices"),
        ({"x": torch.ones(2)}, "neither a list of dicts nor columns with slices"),
        (
            [{"x": torch.ones(2, 1), "y": torch.tensor([0.5, 1])}],
            "y must be one number, or targets of shape [1, T]; it is not in 1 graph, first in graph 0",
        ),
        (({"x": torch.ones(2, 1)}, {"x": torch.tensor([0, 5])}), "its slices do not fit its columns"),
        (({"x": torch.ones(2, 1)}, {"y": torch.tensor([0, 1])}), "its slices do not fit its columns"),
    ):
        torch.save(held, path)
        said = refused(path)
        assert said.startswith(f"{path}: ")
        assert message in said
    for content in (b"", b"abc", b"nothing of the kind", b"smiles,label\n", pickle.dumps([1])):
        path.write_bytes(content)
        assert refused(path).startswith(f"{path}: ")


def test_tu(tmp_path: Path) -> None:
    path = write_tu(tmp_path / "TOY")
    found = import_data(path, name="toy")
    assert_equal(found.graphs, read_tu(path), ignore=("name",))
    assert found.graphs.name == "toy"
    with zipfile.ZipFile(tmp_path / "TOY.zip", "w") as bundle:
        for file in path.iterdir():
            bundle.write(file, file.name)
    assert_equal(import_data(tmp_path / "TOY.zip").graphs, read_tu(path))


def test_what_is_no_data(tmp_path: Path) -> None:
    (tmp_path / "notes.pdf").touch()
    (tmp_path / "hollow").mkdir()
    edge_lists(tmp_path)
    for path, options, message in (
        ("nowhere", {}, "there is no file or folder "),
        ("notes.pdf", {}, "files ending in .zip, .csv, "),
        (
            "hollow",
            {},
            "is not a data set of a known format; none of these files is in it: NAME_A.txt (TU), edges.csv and",
        ),
        ("mine", {"smiles": "s"}, "--smiles cannot be used with the format edges"),
        ("mine", {"largest_fragment": True}, "--largest-fragment cannot be used with the format edges"),
    ):
        assert message in refused(tmp_path / path, **options)
    with pytest.raises(UserError, match="unknown format 'xml'; known: auto, edges, "):
        import_data(tmp_path, form="xml")


def test_saving_keeps_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = import_data(edge_lists(tmp_path))
    with pytest.raises(UserError, match="is not a saved GraphSet; it is not overwritten"):
        found.save(tmp_path / "mine")
    target = tmp_path / "new" / "set"
    found.save(target)
    assert_equal(load_dataset(target), found.graphs)
    assert read_ids(target) == {"graph": ["0", "1", "2"], "row": ["1", "2", "3"], "id": ["first", "second", "third"]}
    (target / "own.txt").touch()
    no_space = OSError(28, "No space left on device")
    monkeypatch.setattr(GraphSetWriter, "append", lambda *_: (_ for _ in ()).throw(no_space))
    with pytest.raises(UserError, match=r"cannot save mine to .*set: No space left on device"):
        found.save(target)
    assert (target / "own.txt").exists()
    assert [path.name for path in target.parent.iterdir()] == ["set"]
    monkeypatch.undo()
    found.save(target)
    assert not (target / "own.txt").exists()
    with pytest.raises(UserError, match="is already a saved GraphSet"):
        import_data(target)


def test_ids_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*ids\.csv: No such file"):
        read_ids(tmp_path)
    for text in ("", "graph,row\n0\n"):
        (tmp_path / "ids.csv").write_text(text)
        with pytest.raises(UserError, match=r"ids\.csv is damaged"):
            read_ids(tmp_path)


def test_ids_with_commas_and_quotes(tmp_path: Path) -> None:
    names = ['a,b "c"', "two\nlines"]
    with (tmp_path / "graphs.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["graph", "label"], *([name, i] for i, name in enumerate(names))])
    with (tmp_path / "edges.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["graph", "source", "target"], *([name, 0, 1] for name in names)])
    import_data(tmp_path).save(tmp_path / "set")
    assert read_ids(tmp_path / "set")["id"] == [names[0], r"two\nlines"]


@pytest.mark.usefixtures("own_cache")
def test_a_folder_of_edge_lists_is_loaded_for_prediction(tmp_path: Path) -> None:
    path = edge_lists(tmp_path)
    graphs = load_unlabelled(path)
    assert (graphs.n_classes, graphs.is_mapped) == (0, True)
    assert graphs.n_edges == import_data(path).graphs.n_edges
    assert load_unlabelled(path, directed=True).directed
    with pytest.raises(UserError, match="is neither in the TU format nor a saved set; import it first"):
        load_dataset(path)
    (tmp_path / "other").mkdir()
    looked_for = r"NAME_A.txt \(TU\), edges.csv and graphs.csv \(edge lists\), \*.graphml \(GraphML\)$"
    with pytest.raises(UserError, match=looked_for):
        load_dataset(tmp_path / "other")
