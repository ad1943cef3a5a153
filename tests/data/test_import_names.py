"""Ids of graphs, names of nodes and columns: kept by imports, saved sets, subsets and joins."""

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_sets import assert_equal

from cgipool.cli import main
from cgipool.data import GraphSet, load_dataset, motifs
from cgipool.data.importers import ImportOptions, import_data, import_to, read_skipped
from cgipool.data.names import Texts, natural_key, printable
from cgipool.errors import UserError


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def brains(tmp_path: Path) -> Path:
    return write(
        tmp_path / "brains",
        graphs="graph,label\nsub-1,a\nsub-2,b\n",
        edges="graph,source,target,kind,length\nsub-1,roi0,roi10,x,0.5\nsub-1,roi10,roi2,y,1.5\nsub-2,roi1,roi2,x,2.5\n",
        nodes="graph,node,tissue,volume\nsub-1,roi10,grey,1.5\nsub-1,roi2,white,2.5\nsub-1,roi0,grey,3.5\n"
        "sub-2,roi2,white,4.5\nsub-2,roi1,grey,5.5\n",
    )


def test_edge_lists_keep_every_name(brains: Path, tmp_path: Path) -> None:
    graphs = import_to(brains, tmp_path / "set").graphs
    for found in (graphs, GraphSet.load(tmp_path / "set"), GraphSet.load(tmp_path / "set", mmap=True)):
        assert found.graph_ids is not None
        assert found.node_names is not None
        assert list(found.graph_ids) == ["sub-1", "sub-2"]
        assert list(found.node_names) == ["roi0", "roi2", "roi10", "roi1", "roi2"]
        assert found.attributes is not None
        assert found.attributes[:, 0].tolist() == [3.5, 2.5, 1.5, 5.5, 4.5]
        assert found.column_names == {
            "category": ("tissue",),
            "attributes": ("volume",),
            "edge_category": ("kind",),
            "edge_attributes": ("length",),
        }


def test_pieces_keep_every_name(brains: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = import_to(brains, tmp_path / "whole").graphs
    monkeypatch.setattr("cgipool.data.importers.edges.PIECE", 1)
    assert_equal(import_to(brains, tmp_path / "pieces").graphs, whole)


def test_data_info_names_the_columns(brains: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "import", str(brains), "--out", str(tmp_path / "set")]) == 0
    said = capsys.readouterr().out
    assert "tissue: 2 values" in said
    assert "1 column: volume" in said
    assert main(["data", "info", str(tmp_path / "set"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["column_names"]["edge_attributes"] == ["length"]


def test_graphml_keeps_every_name(tmp_path: Path) -> None:
    for number in range(2):
        graph = nx.Graph(y=f"class {number}")
        graph.add_node("b", colour="red", height=0.5)
        graph.add_node("a", colour="blue", height=1.5)
        graph.add_edge("a", "b", kind="road")
        nx.write_graphml(graph, tmp_path / f"net{number}.graphml")
    import_to(tmp_path, tmp_path / "set")
    found = load_dataset(tmp_path / "set")
    assert found.graph_ids is not None
    assert found.node_names is not None
    assert list(found.graph_ids) == ["net0", "net1"]
    assert list(found.node_names) == ["b", "a", "b", "a"]
    assert found.column_names == {"category": ("colour",), "attributes": ("height",), "edge_category": ("kind",)}


def test_subset_join_and_relabelling_keep_names(brains: Path) -> None:
    graphs = import_data(brains).graphs
    last, first = graphs[1], graphs.subset([0])
    assert last.node_names is not None
    assert list(last.node_names) == ["roi1", "roi2"]
    assert_equal(GraphSet.join([first, last]), graphs, ignore=("dropped",))
    assert graphs.relabelled([1, 0], ("x", "y")).graph_ids == graphs.graph_ids
    without = GraphSet.join([first, GraphSet(**_plain(last))])
    assert without.graph_ids is not None
    assert list(without.graph_ids) == ["sub-1", ""]


def _plain(graphs: GraphSet) -> dict:
    """The fields of a set without ids and names."""
    names = {field.name for field in fields(GraphSet)} - {"graph_ids", "node_names"}
    return {name: getattr(graphs, name) for name in names}


def as_saved_before(folder: Path, *without: str) -> None:
    """Make a saved set one of format 1, which had neither digests nor names of columns; some arrays are left out."""
    index = folder / "graphset.json"
    plain = json.loads(index.read_text())
    for name, about in plain["arrays"].items():
        plain["arrays"][name] = {"dtype": about["dtype"], "shape": about["shape"]}
    for name in without:
        del plain["arrays"][name]
    keys = ("name", "class_names", "category_names", "edge_category_names", "dropped", "arrays")
    index.write_text(json.dumps({"format": 1} | {key: plain[key] for key in keys}))


def test_sets_saved_before_there_were_names(tmp_path: Path) -> None:
    made = motifs().subset(range(20))
    made.save(tmp_path / "set")
    as_saved_before(tmp_path / "set")
    assert_equal(GraphSet.load(tmp_path / "set"), made)


def test_molecule_sets_saved_before_know_their_columns(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    (tmp_path / "m.csv").write_text("smiles,label\nC,0\nCC,1\n")
    made = import_to(tmp_path / "m.csv", tmp_path / "set").graphs
    as_saved_before(tmp_path / "set")
    found = GraphSet.load(tmp_path / "set")
    assert found.column_names == made.column_names
    assert found.featurizer == made.featurizer is not None
    (tmp_path / "set" / "features.json").write_text("[1]")
    with pytest.raises(UserError, match=r"features\.json is damaged"):
        GraphSet.load(tmp_path / "set")


@pytest.mark.parametrize("missing", ["graph_ids", "graph_ids_ptr"])
def test_half_of_the_ids(brains: Path, tmp_path: Path, missing: str) -> None:
    import_to(brains, tmp_path / "set")
    as_saved_before(tmp_path / "set", missing)
    with pytest.raises(UserError, match="lists only one of graph_ids and graph_ids_ptr"):
        GraphSet.load(tmp_path / "set")


def test_half_a_character_in_a_saved_set(brains: Path, tmp_path: Path) -> None:
    import_to(brains, tmp_path / "set")
    as_saved_before(tmp_path / "set")
    index = tmp_path / "set" / "graphset.json"
    index.write_text(index.read_text().replace('"a"', r'"\ud800"'))
    with pytest.raises(UserError, match=r"graphset\.json is damaged"):
        GraphSet.load(tmp_path / "set")


def test_damaged_ids_are_told(brains: Path) -> None:
    ids = import_data(brains).graphs.graph_ids
    assert ids is not None
    for ptr, message in (([0, 9, 5], "does not fit"), ([0, 5], "not one for each")):
        with pytest.raises(UserError, match=message):
            Texts(np.array(ptr), ids.data).check("graph_ids", 2, "graph")
    with pytest.raises(ValueError, match="outside its array"):
        Texts(np.array([0, 1 << 60, 5]), ids.data).take(np.array([0]))


@settings(max_examples=30)
@given(st.lists(st.text(max_size=5), max_size=8), st.data())
def test_texts_are_a_list_of_texts(texts: list[str], data: st.DataObject) -> None:
    held = Texts.of(texts)
    plain = [text.encode("utf-8", "replace").decode() for text in texts]
    assert list(held) == plain
    assert held[1:3] == plain[1:3]
    assert list(Texts.join([held, held])) == plain * 2
    places = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=5)) if texts else []
    assert list(held.take(np.array(places, dtype=np.int64))) == [plain[i] for i in places]
    for text in [*plain, "not there"]:
        assert held.find(text) == [i for i, other in enumerate(plain) if other == text]


def test_the_order_of_names() -> None:
    names = ["10", "9", "-1.5", "roi10", "roi2", "roi2b10", "roi2b9", "roi", "a" + "1" * 5000]
    assert sorted(names, key=natural_key) == [
        "-1.5",
        "9",
        "10",
        "a" + "1" * 5000,
        "roi",
        "roi2",
        "roi2b9",
        "roi2b10",
        "roi10",
    ]


@given(st.text())
def test_printable_names_stay_and_others_become_printable(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(text) == text or not text.isprintable()


def test_terminal_escapes_in_ids_labels_and_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(
        tmp_path / "mine",
        graphs="graph,label\n\x1b[31mred,good\x1b]0;x\x07\nb,bad\n",
        edges="graph,source,target\n\x1b[31mred,1,2\nb,1,2\n",
        nodes="graph,node,lab\x1bel\n\x1b[31mred,1,\x1b[0m\n\x1b[31mred,2,x\nb,1,x\nb,2,x\n",
    )
    assert main(["data", "import", str(path), "--out", str(tmp_path / "set")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    found = load_dataset(tmp_path / "set")
    assert found.graph_ids is not None
    assert list(found.graph_ids) == [r"\x1b[31mred", "b"]
    assert found.class_names == ("bad", r"good\x1b]0;x\x07")
    assert found.column_names == {"category": (r"lab\x1bel",)}
    assert found.category_names == ((r"\x1b[0m", "x"),)


def test_hex_numbers_are_text(tmp_path: Path) -> None:
    path = write(
        tmp_path / "mine",
        graphs="graph,label\na,0x10\nb,16\n",
        edges="graph,source,target\na,1,2\nb,1,2\n",
        nodes="graph,node,size\na,1,0x1F\na,2,31\nb,1,2\nb,2,2\n",
    )
    found = import_data(path).graphs
    assert found.class_names == ("16", "0x10")
    assert found.attributes is None
    assert found.category_names == (("2", "31", "0x1F"),)


def test_one_long_label_takes_no_room_in_other_rows(tmp_path: Path) -> None:
    rows = "".join(f"g{g},1,x\n" for g in range(2000))
    path = write(
        tmp_path / "mine",
        graphs="graph,label\n" + "".join(f"g{g},{g % 2}\n" for g in range(2000)),
        edges="graph,source,target\n",
        nodes="graph,node,note\n" + rows.replace("g7,1,x", f"g7,1,{'y' * 1_000_000}"),
    )
    found = import_data(path).graphs
    assert sorted(map(len, found.category_names[0])) == [1, 1_000_000]


def test_a_split_column_of_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = [*["Train"] * 14, *["valid"] * 2, *["test"] * 3, ""]
    path = write(
        tmp_path / "mine",
        graphs="graph,label,split\n" + "".join(f"g{g},{g % 2},{side}\n" for g, side in enumerate(sides)),
        edges="graph,source,target\n" + "".join(f"g{g},{u},{u + 1}\n" for g in range(20) for u in range(3)),
    )
    assert main(["data", "import", str(path), "--out", str(tmp_path / "set")]) == 0
    assert "from the column 'split'" in capsys.readouterr().out
    tiny = ["--width", "8", "--epochs", "2", "--method", "topk", "--json"]
    for how in ([], ["--split-kind", "given"]):
        out = tmp_path / f"run{len(how)}"
        assert main(["train", str(tmp_path / "set"), *tiny, *how, "--out", str(out)]) == 0
        said = capsys.readouterr().err
        assert "using the split in the column 'split' of the source" in said
        assert "use 19 of the 20 graphs" in said
        (split,) = json.loads((out / "splits.json").read_text())["splits"]
        assert (split["train"], split["val"], split["test"]) == (list(range(14)), [14, 15], [16, 17, 18])
    assert main(["train", str(tmp_path / "set"), *tiny, "--splits", "1"]) == 0
    assert "drawing new splits; the column 'split' of the source is not used" in capsys.readouterr().err
    assert main(["train", "motifs", "--split-kind", "given"]) == 2
    assert "has no given-splits.json" in capsys.readouterr().err


def test_a_split_column_without_validation_or_of_other_values(tmp_path: Path) -> None:
    def table(sides: list[str]) -> Path:
        folder = tmp_path / "mine"
        shutil.rmtree(folder, ignore_errors=True)
        return write(
            folder,
            graphs="graph,label,split\n" + "".join(f"g{g},{g % 2},{side}\n" for g, side in enumerate(sides)),
            edges="graph,source,target\n" + "".join(f"g{g},1,2\n" for g in range(len(sides))),
        )

    found = import_data(table([*["train"] * 20, *["test"] * 4]), options=ImportOptions(label="label"))
    (split,) = found.splits["given-splits.json"]
    assert (len(split.train), len(split.val), split.test.tolist()) == (18, 2, [20, 21, 22, 23])
    found = import_data(table(["fold1", "fold2"] * 6), options=ImportOptions(label="label"))
    assert not found.splits
    assert "column 'split' is not used: it holds 'fold1'" in found.notes[0]


def test_networkx_keeps_the_names_of_nodes() -> None:
    graph = nx.Graph([("roi0", "roi10"), ("roi10", "roi2")], y="a")
    found = GraphSet.from_networkx([graph, nx.path_graph(3).copy()], "mine", class_names=())
    assert found.node_names is not None
    assert list(found.node_names) == ["roi0", "roi10", "roi2", "0", "1", "2"]
    back = found.to_networkx()
    assert set(back[0].edges) == {("roi0", "roi10"), ("roi10", "roi2")}
    assert_equal(GraphSet.from_networkx(back, "mine", class_names=()), found)
    assert GraphSet.from_networkx([nx.path_graph(3)], "mine", class_names=()).node_names is None
    twice = replace(found, node_names=Texts.of(["x"] * 6))
    assert list(twice.to_networkx()[0].nodes) == [0, 1, 2]


def test_damaged_lists_of_rows_left_out(tmp_path: Path) -> None:
    (tmp_path / "skipped.csv").write_text("row,reason\nx,y\n")
    with pytest.raises(UserError, match=r"skipped\.csv is damaged"):
        list(read_skipped(tmp_path))
