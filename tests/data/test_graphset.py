"""GraphSet: the rules it holds to, building from edge lists, cutting, saving."""

import dataclasses
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from random_sets import assert_equal, edge_lists, graph_sets

from cgipool.data import GraphSet, store
from cgipool.errors import UserError


@pytest.fixture
def small() -> GraphSet:
    """A path of three nodes, an isolated node, and an edge, with every kind of column."""
    plain = GraphSet.from_edges("small", [3, 1, 2], [0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4], [0, 1, 0])
    return dataclasses.replace(
        plain,
        category=np.array([[0], [1], [0], [0], [1], [1]], dtype=np.int32),
        category_names=(("C", "O"),),
        attributes=np.arange(12, dtype=np.float32).reshape(6, 2),
        edge_weight=np.ones(6, dtype=np.float32),
        edge_category=np.zeros((6, 1), dtype=np.int32),
        edge_category_names=(("-",),),
        edge_attributes=np.ones((6, 1), dtype=np.float32),
        node_truth=np.array([1, 0, 0, 0, 1, 1], dtype=bool),
        dropped={"self-loops": 2},
    )


def test_counts(small: GraphSet) -> None:
    assert (small.n_graphs, small.n_nodes, small.n_edges, small.n_classes, len(small)) == (3, 6, 6, 2, 3)
    assert small.sizes.tolist() == [3, 1, 2]
    assert small.degree.tolist() == [1, 2, 1, 0, 1, 1]
    assert small.node_graph.tolist() == [0, 0, 0, 1, 2, 2]
    assert (small.edge_source + small.edge_disp).tolist() == [1, 0, 2, 1, 5, 4]
    assert repr(small) == "GraphSet('small', graphs=3, nodes=6, edges=3)"


def test_reading_data_needs_no_torch() -> None:
    program = "import sys, cgipool.data; sys.exit('torch' in sys.modules or 'networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def steps(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


NAN = np.array([[0, 1], [np.nan, 1], [0, np.inf], [0, 0], [np.nan, 0], [0, 0]], dtype=np.float32)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"y": steps(0, 1, 0)}, "y must be a 1-d array of int64, not int32, 1-d"),
        ({"y": None}, "y must be a 1-d array of int64, not NoneType"),
        ({"attributes": np.ones(6, dtype=np.float32)}, "attributes must be a 2-d array of float32, not float32, 1-d"),
        ({"node_ptr": ints(0, 3, 6)}, "node_ptr has 3 entries; 3 graphs (y) need one more"),
        ({"node_ptr": ints(0, 3, 4, 7)}, "node_ptr must start at 0 and end at 6, not 0 and 7"),
        ({"node_ptr": ints(0, 4, 3, 6)}, "node_ptr decreases at entry 2"),
        ({"edge_ptr": ints(0, 1, 3, 4, 4, 5, 5)}, "edge_ptr must start at 0 and end at 6, not 0 and 5"),
        ({"edge_ptr": ints(0, 3, 1, 4, 4, 5, 6)}, "edge_ptr decreases at entry 2"),
        ({"edge_ptr": ints()}, "edge_ptr is empty; it must have one entry more than there are nodes"),
        ({"edge_disp": steps(1, -1, 1, -1, 0, -1)}, "edge 4 is a self-loop"),
        ({"edge_disp": steps(1, 1, -1, -1, 1, -1)}, "edge 2 is a repeated or unsorted neighbour"),
        ({"edge_disp": steps(1, 1, 1, -1, 1, -1)}, "edge 2 is a repeated or unsorted neighbour"),
        ({"edge_disp": steps(1, -1, 1, 1, 1, -1)}, "an edge of node 2 leaves its graph 0"),
        ({"edge_disp": steps(2, -1, 1, -1, 1, -1)}, "the edges are not symmetric: some edge has no reverse"),
        ({"y": ints(0, 1, 2)}, "y goes from 0 to 2 but 2 names are given"),
        ({"y": ints(0, 1, -1)}, "y goes from -1 to 1 but 2 names are given"),
        ({"y": ints(-1, 0, -1), "class_names": ()}, "y goes from -1 to 0 but 0 names are given"),
        ({"y": ints(-1, -1, -1)}, "y goes from -1 to -1 but 2 names are given"),
        ({"node_truth": np.ones(5, dtype=bool)}, "node_truth has 5 rows for 6 nodes"),
        ({"edge_weight": np.ones(5, dtype=np.float32)}, "edge_weight has 5 rows for 6 edges"),
        ({"category_names": (("C",),)}, "column 0 of category goes from 0 to 1 but 1 name is given"),
        ({"category_names": ()}, "category has 1 column but category_names has 0"),
        ({"edge_category": None}, "edge_category has 0 columns but edge_category_names has 1"),
        (
            {"attributes": NAN},
            "column 0 of attributes holds 2 values that are NaN or infinite, the first at node 1 of graph 0",
        ),
        (
            {"edge_weight": NAN[:, 1].copy()},
            "edge_weight holds 1 value that is NaN or infinite, the first at the edge from node 1 to node 2 of graph 0",
        ),
    ],
)
def test_broken_rule_names_itself(small: GraphSet, broken: dict, message: str) -> None:
    with pytest.raises(UserError) as caught:
        dataclasses.replace(small, **broken)
    assert str(caught.value) == f"small: {message}"


def test_a_broken_row_is_named_by_the_id_of_its_graph(small: GraphSet) -> None:
    for ids, called in ((["a", "", "c"], r"graph 0 \(id 'a'\)$"), (["", "b", "c"], "graph 0$"), (["a"], "graph 0$")):
        with pytest.raises(UserError, match=f"first at node 1 of {called}"):
            dataclasses.replace(small, attributes=NAN, graph_ids=ids)
    with pytest.raises(UserError, match=r"first in graph 2 \(id 'c'\)"):
        dataclasses.replace(small, graph_ids=["a", "b", "c"]).with_targets([1.0, 2.0, np.inf])


@given(edge_lists())
def test_from_edges_is_the_set_of_pairs(lists: tuple[list[int], list[tuple[int, int]]]) -> None:
    sizes, pairs = lists
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.arange(len(pairs), dtype=np.float32)
    graphs = GraphSet.from_edges("g", sizes, source, target, np.zeros(len(sizes)), edge_weight=weight)
    bare = GraphSet.from_edges("g", sizes, source, target, np.zeros(len(sizes)))
    proper = {(u, v) for u, v in pairs if u != v}
    both = proper | {(v, u) for u, v in proper}
    stored = list(zip(graphs.edge_source.tolist(), (graphs.edge_source + graphs.edge_disp).tolist(), strict=True))
    assert stored == sorted(both)
    loops = sum(u == v for u, v in pairs)
    counts = {
        "self-loops": loops,
        "repeated edges": len(pairs) - loops - len(proper),
        "one-way edges completed": len(both) - len(proper),
    }
    assert graphs.dropped == {name: count for name, count in counts.items() if count}
    first = {pair: k for k, pair in reversed(list(enumerate(pairs)))}
    assert graphs.edge_weight is not None
    assert graphs.edge_weight.tolist() == [first.get((u, v), first.get((v, u))) for u, v in stored]
    assert_equal(bare, graphs, ignore=("edge_weight",))


@pytest.mark.parametrize(
    ("source", "target", "weight", "message"),
    [
        ([0, 7], [1, 0], None, "an edge names node 7; nodes go from 0 to 2"),
        ([0, -1], [1, 0], None, "an edge names node -1; nodes go from 0 to 2"),
        ([0.5], [1.0], None, "edge ends must be whole numbers, not float64 and float64"),
        ([0, 1], [1], None, "2 edge sources but 1 edge targets"),
        ([0, 1], [1, 0], np.ones(3, dtype=np.float32), "an edge column has 3 entries for 2 edges"),
        ([0], [2], None, "g: an edge of node 0 leaves its graph 0"),
    ],
)
def test_from_edges_refuses(source: list, target: list, weight: np.ndarray | None, message: str) -> None:
    with pytest.raises(UserError) as caught:
        GraphSet.from_edges("g", [2, 1], source, target, [0, 1], edge_weight=weight)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("sizes", "y", "message"),
    [
        ([2, 1], [0.7, 1.0], "y must be whole numbers, not 0.7"),
        ([2, 1], [0.0, np.nan], "y must be whole numbers, not nan"),
        ([2.5, 1], [0, 1], "sizes must be whole numbers, not 2.5"),
    ],
)
def test_nothing_is_cut_off(sizes: list, y: list, message: str) -> None:
    with pytest.raises(UserError) as caught:
        GraphSet.from_edges("g", sizes, [0], [1], y)
    assert str(caught.value) == message


def test_asymmetry_across_many_chunks_is_noticed() -> None:
    n = 200_000
    path = np.arange(n - 1)
    whole = GraphSet.from_edges("path", [n], np.r_[path, path + 1], np.r_[path + 1, path], [0])
    step = whole.edge_disp.copy()
    step[300_001] = 3 if step[300_001] == 1 else -3
    with pytest.raises(UserError, match="not symmetric"):
        dataclasses.replace(whole, edge_disp=step)


@given(graph_sets())
def test_subset_of_all_in_two_steps(graphs: GraphSet) -> None:
    order = np.arange(graphs.n_graphs)[::-1]
    backwards = graphs.subset(order)
    dataclasses.replace(backwards)
    assert backwards.sizes.tolist() == graphs.sizes[::-1].tolist()
    assert_equal(backwards.subset(order.tolist()), graphs)


def test_subset_refuses_strange_ids(small: GraphSet) -> None:
    assert small.subset([]).n_graphs == 0
    for ids in ([3], [-1]):
        with pytest.raises(UserError, match="graph ids go from 0 to 2"):
            small.subset(ids)
    for ids in (small.y == 0, [0.5, 1.0]):
        with pytest.raises(
            UserError, match=r"graph ids must be whole numbers, not (bool|float64); convert a mask with np.flatnonzero"
        ):
            small.subset(ids)


@pytest.mark.parametrize(
    ("which", "sizes"),
    [
        (1, [1]),
        (-1, [2]),
        (slice(1, None), [1, 2]),
        ([2, 0], [2, 3]),
        ((-1, -3), [2, 3]),
        (np.array([True, False, True]), [3, 2]),
        ([False, True, False], [1]),
        ([], []),
    ],
)
def test_graphs_by_brackets(small: GraphSet, which: object, sizes: list[int]) -> None:
    assert small[which].sizes.tolist() == sizes


@pytest.mark.parametrize("which", [3, -4, [3], [0, -4], np.array([0.5]), np.array([True, False])])
def test_brackets_refuse_what_is_not_there(small: GraphSet, which: object) -> None:
    """As NumPy does; a number behind the last graph is no other graph."""
    with pytest.raises(IndexError):
        small[which]


@given(graphs=graph_sets())
def test_save_and_load(tmp_path_factory: pytest.TempPathFactory, graphs: GraphSet) -> None:
    folder = tmp_path_factory.mktemp("saved") / "set"
    graphs.save(folder)
    assert_equal(GraphSet.load(folder), graphs)
    assert_equal(GraphSet.load(folder, mmap=True), graphs)
    assert [p.name for p in folder.parent.iterdir()] == ["set"]


def test_mmap_leaves_arrays_on_disk(small: GraphSet, tmp_path: Path) -> None:
    small.save(tmp_path / "set")
    loaded = GraphSet.load(tmp_path / "set", mmap=True)
    assert isinstance(loaded.edge_disp, np.memmap)
    assert_equal(loaded.subset([2, 0]), small.subset([2, 0]))


def damage(folder: Path, what: str) -> None:
    index = json.loads((folder / "graphset.json").read_text())
    if what == "format":
        index["format"] = 99
    elif what == "unlisted":
        del index["arrays"]["y"]
    elif what == "strange":
        index["arrays"]["../../y"] = index["arrays"]["y"]
    elif what == "keys":
        del index["name"]
    elif what == "counts":
        index["dropped"] = {"self-loops": "many"}
    (folder / "graphset.json").write_text("{" if what == "json" else json.dumps(index))
    if what == "missing":
        (folder / "edge_disp.npy").unlink()
    elif what == "shape":
        np.save(folder / "edge_disp.npy", np.zeros(2, dtype=np.int32))
    elif what == "truncated":
        os.truncate(folder / "edge_disp.npy", 140)
    elif what == "empty":
        os.truncate(folder / "edge_disp.npy", 0)
    elif what == "content":
        np.save(folder / "edge_disp.npy", np.array([2, -1, 1, -1, 1, -1], dtype=np.int32))
    elif what == "pickle":
        np.save(folder / "edge_disp.npy", np.array([{}], dtype=object), allow_pickle=True)


def without_digests(folder: Path) -> None:
    index = json.loads((folder / "graphset.json").read_text())
    index = {key: index[key] for key in store.KEYS}
    for about in index["arrays"].values():
        del about["sha256"]
    (folder / "graphset.json").write_text(json.dumps(index | {"format": 1}))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("format", "graphset.json has format 99; this version of cgipool reads formats 1 and 2"),
        ("unlisted", "graphset.json does not list y"),
        ("strange", "graphset.json lists '../../y', which is not part of a GraphSet"),
        ("keys", "graphset.json is damaged: KeyError('name')"),
        ("counts", "graphset.json is damaged: ValueError("),
        ("json", "graphset.json is damaged: Expecting property name"),
        ("missing", "edge_disp.npy: No such file or directory"),
        ("shape", "edge_disp.npy contains int32[2], but graphset.json says int32[6]"),
        ("truncated", "edge_disp.npy is damaged: "),
        ("empty", "edge_disp.npy is damaged: "),
        ("content", "small: the edges are not symmetric"),
        ("pickle", "edge_disp.npy is damaged: Object arrays cannot be loaded"),
    ],
)
def test_damaged_folder_is_one_line(small: GraphSet, tmp_path: Path, what: str, message: str) -> None:
    """Of a set without digests, as versions before them saved it: what they find does not come first."""
    small.save(tmp_path / "set")
    without_digests(tmp_path / "set")
    damage(tmp_path / "set", what)
    with pytest.raises(UserError) as caught:
        GraphSet.load(tmp_path / "set")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_load_of_another_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a saved GraphSet: graphset\.json: No such file"):
        GraphSet.load(tmp_path)


@pytest.mark.parametrize("failing", ["save", 1, 2, 3, 4])
def test_full_disk_leaves_the_previous_folder(
    small: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str | int
) -> None:
    """Of the renames: the folder's lock, the set where none is yet, what is replaced, the set."""
    small.save(tmp_path / "set")
    renames = []
    replace = os.replace

    def no_space(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def count_then_fail(source: Path, target: Path) -> None:
        renames.append(target)
        if len(renames) == failing:
            no_space()
        replace(source, target)

    with monkeypatch.context() as patch:
        if failing == "save":
            patch.setattr(np.lib.format, "write_array_header_1_0", no_space)
        else:
            patch.setattr(os, "replace", count_then_fail)
        with pytest.raises(UserError, match=r"cannot save small to .*: No space left on device"):
            small.subset([0]).save(tmp_path / "set")
    assert_equal(GraphSet.load(tmp_path / "set"), small)
    assert [p.name for p in tmp_path.iterdir()] == ["set"]
    small.subset([0]).save(tmp_path / "set")
    assert GraphSet.load(tmp_path / "set").n_graphs == 1


def test_stopped_between_the_renames(small: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small.save(tmp_path / "set")
    replace = os.replace

    def stopped(source: Path, target: Path) -> None:
        if Path(source).name == "fresh" and not target.exists():
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        small.subset([0]).save(tmp_path / "set")
    assert_equal(GraphSet.load(tmp_path / "set"), small)


def test_save_in_the_place_of_a_link(small: GraphSet, tmp_path: Path) -> None:
    """The link is replaced; what it led to stays."""
    small.save(tmp_path / "other")
    (tmp_path / "set").symlink_to(tmp_path / "other")
    small.subset([0]).save(tmp_path / "set")
    assert GraphSet.load(tmp_path / "set").n_graphs == 1
    assert_equal(GraphSet.load(tmp_path / "other"), small)


def test_save_does_not_overwrite_other_things(small: GraphSet, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(UserError, match="exists and is not a saved GraphSet; it is not overwritten"):
        small.save(tmp_path / "letters")
