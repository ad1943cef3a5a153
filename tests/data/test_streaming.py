"""Imports made piece by piece: the files are those of the whole import, in any number of pieces, and nothing is left
behind where one fails."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from large_sets import write_large_tu, write_lines
from random_sets import assert_equal, graph_sets

from cgipool.data import GraphSet, load_dataset, read_tu, sources, store, tu
from cgipool.data.importers import ImportOptions, import_data, import_to, read_skipped
from cgipool.data.importers import edges as edge_lists
from cgipool.data.names import encode, encode_columns
from cgipool.data.writer import GraphSetWriter
from cgipool.errors import UserError


def files_of(folder: Path) -> dict[str, object]:
    """Every file of a saved import; of the index, what it says."""
    files: dict[str, object] = {file.name: file.read_bytes() for file in folder.iterdir()}
    return files | {store.INDEX: json.loads((folder / store.INDEX).read_text())}


def compare(path: Path, place: Path, **options: object) -> GraphSet:
    """The set streamed to disk, once it has been found to be that of the in-memory import."""
    options = ImportOptions(**options)  # type: ignore[arg-type]
    import_data(path, options=options).save(place / "whole")
    saved = import_to(path, place / "streamed", options=options)
    assert files_of(place / "streamed") == files_of(place / "whole")
    assert saved.skipped == len(list(read_skipped(place / "whole")))
    return load_dataset(place / "streamed")


def slowly(folder: Path) -> GraphSet:
    """A TU folder read whole by NumPy."""
    name = folder.name

    def table(part: str, dtype: type = np.int64) -> np.ndarray:
        return np.loadtxt(folder / f"{name}_{part}.txt", dtype, delimiter=",", ndmin=2)

    y, class_names = encode(table("graph_labels")[:, 0])
    source, target = table("A").T - 1
    columns: dict = {}
    for part, field in (("node_labels", "category"), ("edge_labels", "edge_category")):
        if (folder / f"{name}_{part}.txt").exists():
            columns[field], columns[f"{field}_names"] = encode_columns(table(part))
    for part, field in (("node_attributes", "attributes"), ("edge_attributes", "edge_attributes")):
        if (folder / f"{name}_{part}.txt").exists():
            columns[field] = table(part, np.float32)
    sizes = np.bincount(table("graph_indicator")[:, 0] - 1, minlength=len(y))
    return GraphSet.from_edges(name, sizes, source, target, y, class_names=class_names, **columns)


@pytest.mark.parametrize("part", [1, 500, 1 << 21])
@pytest.mark.parametrize("shuffled", [False, True])
def test_tu_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int, shuffled: bool) -> None:
    monkeypatch.setattr(tu, "PART", part)
    monkeypatch.setattr("cgipool.data.tu.STRETCH", 300)
    monkeypatch.setattr("cgipool.data.tu_table.BLOCK", 512)
    monkeypatch.setattr("cgipool.data.writer.STRETCH", 100)
    folder = write_large_tu(tmp_path / "mine", 60)
    rng = np.random.default_rng(0)
    lines = np.loadtxt(folder / "mine_A.txt", np.int64, delimiter=",")
    lines = np.concatenate([lines[: len(lines) // 2], lines[:20], [[7, 7]]])
    if shuffled:
        rng.shuffle(lines)
    else:
        lines = lines[np.argsort(lines[:, 0], kind="stable")]
    nodes = len((folder / "mine_node_labels.txt").read_text().splitlines())
    for name, table in (
        ("A", lines),
        ("edge_labels", rng.integers(-3, 12, (len(lines), 2))),
        ("edge_attributes", rng.integers(0, 9, (len(lines), 1))),
        ("node_labels", np.stack([np.arange(nodes) // 40 % 13 - 5, np.arange(nodes)[::-1] // 100], 1)),
        ("node_attributes", rng.integers(0, 9, (nodes, 2))),
    ):
        with (folder / f"mine_{name}.txt").open("wb") as file:
            write_lines(file, table)
    assert_equal(compare(folder, tmp_path), slowly(folder))


def test_tu_archive_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tu, "PART", 300)
    folder = write_large_tu(tmp_path / "mine", 40)
    with zipfile.ZipFile(tmp_path / "mine.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
        for file in folder.iterdir():
            bundle.write(file, f"mine/{file.name}")
    assert_equal(compare(tmp_path / "mine.zip", tmp_path), slowly(folder))


@pytest.mark.parametrize("name", ["PROTEINS", "Mutagenicity", "IMDB-BINARY"])
def test_public_archives_in_parts(
    tu_archive: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with zipfile.ZipFile(tu_archive(name)) as bundle:
        bundle.extractall(tmp_path)
    monkeypatch.setattr(tu, "PART", 20_000)
    assert_equal(compare(tu_archive(name), tmp_path), slowly(tmp_path / name))


MOLECULES = [("CCO", 0), ("C(", 1), ("c1ccccc1Br", 1), ("[Na+].[Cl-]", 0), ("N#N", 1), ("", 0), ("CP", ""), ("S", 1)]


@pytest.mark.parametrize("piece", [1, 3, 100])
@pytest.mark.parametrize("ids", ["named", "blank", "none"])
def test_smiles_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, ids: str) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.setattr("cgipool.data.importers.molecular.PIECE", 100)
    head = "smiles,label" if ids == "none" else "smiles,label,id"
    tail = {"named": ',"a,{}"', "blank": ",", "none": ""}[ids]
    rows = [f"{smiles},{label}{tail.format(row)}" for row, (smiles, label) in enumerate(MOLECULES * 5)]
    (tmp_path / "mine.csv").write_text("\n".join([head, *rows]) + "\n")
    options = ImportOptions(skip_unlabelled=True, largest_fragment=True)
    import_data(tmp_path / "mine.csv", options=options).save(tmp_path / "at once")
    monkeypatch.setattr("cgipool.data.importers.molecular.PIECE", piece)
    graphs = compare(tmp_path / "mine.csv", tmp_path, skip_unlabelled=True, largest_fragment=True)
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "at once")
    assert graphs.n_graphs == 25
    assert graphs.category_names[0] == ("Br", "C", "Cl", "N", "O", "S")


def test_an_sdf_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    with chem.SDWriter(str(tmp_path / "mine.sdf")) as writer:
        for number, smiles in enumerate(["CCO", "c1ccccc1", "CBr", "N", "CC(=O)O"]):
            molecule = chem.MolFromSmiles(smiles)
            molecule.SetProp("class", "ab"[number % 2])
            writer.write(molecule)
    import_data(tmp_path / "mine.sdf").save(tmp_path / "at once")
    monkeypatch.setattr("cgipool.data.importers.molecular.PIECE", 2)
    compare(tmp_path / "mine.sdf", tmp_path)
    assert files_of(tmp_path / "streamed") == files_of(tmp_path / "at once")


@pytest.mark.parametrize("with_nodes", [False, True])
def test_edge_lists_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_nodes: bool) -> None:
    monkeypatch.setattr("cgipool.data.importers.text.BLOCK", 400)
    monkeypatch.setattr(edge_lists, "PIECE", 200)
    rng = np.random.default_rng(1)
    folder = tmp_path / "mine"
    folder.mkdir()
    graphs = [f"g{g},{'' if g == 5 else g % 2}" for g in range(30)]
    used = [g for g in range(30) if g not in (3, 29)]
    edges = [f"g{rng.choice(used)},n{a},n{b},{a / 4},{'xyz'[a % 3]},{a}" for a, b in rng.integers(0, 9, (400, 2))]
    (folder / "graphs.csv").write_text("graph,label\n" + "\n".join(graphs) + "\n")
    (folder / "edges.csv").write_text("graph,source,target,weight,kind,far\n" + "\n".join(edges) + "\n")
    if with_nodes:
        named = [(g, n) for g in used for n in range(10)]
        rng.shuffle(named)
        nodes = [f"g{g},n{n},{'uvw'[(g + n) % 3] if g > 20 else 'b'},{g * 0.5}" for g, n in named]
        (folder / "nodes.csv").write_text("graph,node,label,height\n" + "\n".join(nodes) + "\n")
    found = compare(folder, tmp_path, skip_unlabelled=True)
    assert found.n_graphs == 27
    assert (found.dropped["graphs without nodes"], found.dropped["graphs without a label"]) == (2, 1)
    with pytest.raises(UserError, match="row 4: graph 'g3': it has no nodes"):
        import_to(folder, tmp_path / "strict", options=ImportOptions(skip_unlabelled=True, strict=True))
    with (folder / "edges.csv").open("a") as file:
        file.write("g7,n0,n1,1,x,\n")
    with pytest.raises(UserError, match=r"edges\.csv, row 401: column 'far' is empty"):
        import_to(folder, tmp_path / "strict", options=ImportOptions(skip_unlabelled=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "streamed", "whole"]


@pytest.mark.parametrize(
    ("part", "text", "said"),
    [
        ("A", "1,2\n1;2\n", "line {}: 2 values expected, 1 found"),
        ("A", "1,2\n1,900\n", "line {}: an edge between nodes 1 and 900, which are in graphs 1 and "),
        ("node_labels", "1\n1\n", "line {}: there are only "),
    ],
)
def test_a_fault_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, text: str, said: str
) -> None:
    monkeypatch.setattr(tu, "PART", 200)
    folder = write_large_tu(tmp_path / "mine", 40)
    path = folder / f"mine_{part}.txt"
    lines = len(path.read_text().splitlines())
    path.write_text(path.read_text() + text)
    with pytest.raises(UserError, match=said.format(lines + (1 if part == "node_labels" else 2))):
        import_to(folder, tmp_path / "set")
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tu, "PART", 1000)
    folder, told = write_large_tu(tmp_path / "mine", 100), []
    import_to(folder, tmp_path / "set", tell=lambda what, count: told.append((what, count)))
    graphs = load_dataset(tmp_path / "set")
    assert ("nodes", graphs.n_nodes) in told
    assert told[-1] == ("graphs", 100)
    assert len([count for what, count in told if what == "graphs"]) > 5


@given(graph_sets(), st.integers(0, 5), st.integers(0, 5))
def test_a_writer_given_parts_writes_what_save_writes(
    tmp_path_factory: pytest.TempPathFactory, graphs: GraphSet, first: int, second: int
) -> None:
    place = tmp_path_factory.mktemp("sets")
    (place / "parts").mkdir()
    first, second = sorted((min(first, graphs.n_graphs), min(second, graphs.n_graphs)))
    with GraphSetWriter(place / "parts") as writer:
        for some in (range(first), range(first, second), range(second, graphs.n_graphs)):
            writer.append(graphs.subset(some))
    graphs.save(place / "whole")
    assert files_of(place / "parts") == files_of(place / "whole")
    assert_equal(GraphSet.load(place / "parts", checked=False), graphs)


def test_parts_must_be_alike(tmp_path: Path) -> None:
    one = GraphSet.from_edges("one", [2], [0], [1], [0])
    other = GraphSet.from_edges("other", [2], [0], [1], [0], edge_weight=np.ones(1, np.float32))
    with GraphSetWriter(tmp_path) as writer:
        writer.append(one)
        with pytest.raises(UserError, match="one and other have different columns of edge weight"):
            writer.append(other)


def test_large_sets_stay_on_disk(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_large_tu(tmp_path / "mine", 40)
    import_to(folder, tmp_path / "set")
    assert not load_dataset(tmp_path / "set").is_mapped
    expected = read_tu(folder)
    monkeypatch.setattr(store, "LARGE", 1000)
    monkeypatch.setattr(sources, "LARGE", 1000)
    assert load_dataset(tmp_path / "set").is_mapped
    for _ in range(2):
        parsed = load_dataset(folder)
        assert parsed.is_mapped
        assert_equal(parsed, expected)


def test_several_processes_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.setattr("cgipool.data.importers.molecular.PIECE", 16)
    rows = [f"{smiles},{label},{row}" for row, (smiles, label) in enumerate(MOLECULES * 5)]
    table = tmp_path / "mine.csv"
    table.write_text("\n".join(["smiles,label,id", *rows]) + "\n")
    options = ImportOptions(skip_unlabelled=True)
    one, two = (import_to(table, tmp_path / f"{jobs}", options=options, jobs=jobs) for jobs in (1, 2))
    assert files_of(tmp_path / "1") == files_of(tmp_path / "2")
    assert (one.skipped, one.notes) == (two.skipped, two.notes)
    assert one.skipped == 10

    strict, said = ImportOptions(skip_unlabelled=True, strict=True), []
    for jobs in (1, 2):
        with pytest.raises(UserError, match="is not a molecule") as raised:
            import_to(table, tmp_path / "strict", options=strict, jobs=jobs)
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert not (tmp_path / "strict").exists()
