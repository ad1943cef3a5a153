"""Sources that are too large, damaged or hostile: one line each, in little memory and time."""

import csv
import gzip
import io
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("rdkit")

from rdkit import Chem

from cgipool.cli import main
from cgipool.cli.options import parse_size
from cgipool.data.importers import ImportOptions, import_data
from cgipool.data.importers.table import _rows_pattern, open_table
from cgipool.data.importers.text import TextFile
from cgipool.data.molecules import MoleculeFeaturizer, NotAMoleculeError, parse_block, parse_smiles
from cgipool.errors import UserError


def refused(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        import_data(path, options=ImportOptions(**options))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    return str(caught.value)


def test_a_compressed_table_that_expands_too_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgipool.data.importers.text.FREE", 10**6)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"smiles,label\n" + b"C,0\nCC,1\n" * 200_000))
    assert "expands to more than 1 MB, which is refused; --max-size allows more" in refused(path)
    assert open_table(path, 10**7).count() == 400_000
    assert "expands to more than 1 kB" in refused(path, max_size=1000)


@pytest.mark.parametrize("content", [b"x" * 5_000_000, b'smiles,label\n"' + b"C\n" * 2_500_000], ids=["line", "quote"])
@pytest.mark.parametrize("name", ["mine.csv", "mine.csv.gz"])
def test_a_line_or_row_without_end(tmp_path: Path, content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    said = refused(path, unlabelled=True)
    assert "of more than 4 MB" in said or "cannot be read" in said


def test_a_bomb_takes_little_memory(tmp_path: Path) -> None:
    """200 MB of one line in 1 MB."""
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"smiles,label\n")
        for _ in range(100):
            stream.write(b"C" * 2_000_000)
    tracemalloc.start()
    assert "has a line of more than 4 MB" in refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000_000


def test_parquet_that_expands_too_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"smiles": ["C" * 1_000_000] * 100, "label": [0, 1] * 50}), path)
    assert path.stat().st_size < 1_000_000
    assert "column 'smiles' has texts that are too long" in refused(path)
    monkeypatch.setattr("cgipool.data.importers.table.FREE", 1000)
    monkeypatch.setattr("cgipool.data.importers.table.RATIO", 1)
    assert "expands to more than" in refused(path)


@pytest.mark.parametrize("damage", ["cut", "nonsense", "footer", "nested"])
def test_damaged_parquet(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"smiles": [["C"], ["CC"]], "label": [0, 1]}), path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    if damage == "footer":
        path.write_bytes(path.read_bytes()[:-60] + b"\xff" * 52 + path.read_bytes()[-8:])
    if damage == "nonsense":
        path.write_bytes(b"PAR1nonsensePAR1")
    said = refused(path)
    assert str(path) in said
    assert ("which is not text" in said) == (damage == "nested")


def ring_of(atoms: int) -> str:
    return f"C1{'C' * (atoms - 2)}C1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ring_of(29_000), "it has 29,000 atoms; at most 3,000 are read (--max-atoms)"),
        ("C" * 30_001, "its text has 30,001 characters; at most 30,000 are read (--max-atoms)"),
        ("C1CC1" * 400, "it has 400 rings; at most 300 are read (--max-atoms)"),
        ("C(" * 15_000, "not valid SMILES"),
    ],
)
def test_molecules_that_are_too_large(text: str, reason: str) -> None:
    """In a process of its own: what is not stopped ends in a crash or takes many GB."""
    code = (
        "import sys; from cgipool.data.molecules import parse_smiles\n"
        "try: parse_smiles(sys.stdin.read())\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]
    assert reason in done.stdout


def test_the_bound_on_atoms_can_be_moved(tmp_path: Path) -> None:
    assert parse_smiles(ring_of(3000)).GetNumAtoms() == 3000
    assert parse_smiles(ring_of(3100), max_atoms=4000).GetNumAtoms() == 3100
    with pytest.raises(NotAMoleculeError, match="it has 10 atoms; at most 9"):
        parse_smiles("C" * 10, max_atoms=9)
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("C" * 20))
    assert parse_block(block).GetNumAtoms() == 20
    with pytest.raises(NotAMoleculeError, match="it has 20 atoms; at most 19"):
        parse_block(block, max_atoms=19)
    with pytest.raises(UserError, match="molecule 1, 'CCC") as caught:
        MoleculeFeaturizer().graphs(["C", "C" * 4000])
    assert len(str(caught.value)) < 400


def test_a_row_that_is_too_large_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"smiles,label\nC,0\n{ring_of(4000)},1\nCC,1\n{'C' * 40},1\n")
    assert main(["data", "import", str(path), "--out", str(tmp_path / "set"), "--max-atoms", "30", "--json"]) == 0
    skipped = json.loads(capsys.readouterr().out)["skipped"]
    assert [(row["row"], row["reason"].partition(";")[0]) for row in skipped] == [
        (2, "its text has 4,002 characters"),
        (4, "it has 40 atoms"),
    ]


@pytest.mark.parametrize("name", ["mine.csv", "mine.sdf", "mine.graphml", "mine.pt", "mine.zip", "mine.parquet"])
def test_pipes_and_devices(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / name)
    assert main(["data", "import", str(tmp_path / name), "--out", str(tmp_path / "set")]) == 2
    assert "it is not a regular file" in capsys.readouterr().err
    assert main(["data", "import", "/dev/zero", "--format", "smiles", "--out", str(tmp_path / "set")]) == 2


@pytest.mark.parametrize("name", ["graphs.csv", "edges.csv", "nodes.csv"])
def test_a_pipe_in_a_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    texts = {"graphs.csv": "graph,label\na,0\nb,1\n", "edges.csv": "graph,source,target\na,1,2\nb,1,2\n"}
    for other, text in texts.items():
        if other != name:
            (folder / other).write_text(text)
    os.mkfifo(folder / name)
    with pytest.raises(UserError, match="it is not a regular file"):
        import_data(folder, form="edges")


def test_graphml_with_numbers_and_nesting_without_end(tmp_path: Path) -> None:
    graph = nx.Graph(y="1")
    graph.add_edge("a", "b", weight=10**400)
    path = tmp_path / "mine.graphml"
    nx.write_graphml(graph, path, named_key_ids=True)
    assert "key 'weight' must hold numbers, not '1000" in refused(path)
    path.write_text("<a>" * 100_000 + "</a>" * 100_000)
    assert str(path) in refused(path)


def test_numbers_of_nodes_and_tensors_without_end(tmp_path: Path) -> None:
    path = tmp_path / "mine.pt"
    torch.save([{"num_nodes": 10**10, "y": torch.tensor([0])}, {"num_nodes": 1, "y": torch.tensor([1])}], path)
    assert "more nodes than its size allows" in refused(path)
    wide = torch.zeros(1, dtype=torch.int64).expand(10**10).reshape(-1, 1)
    torch.save([{"x": wide, "num_nodes": 3, "y": torch.tensor([0])}], path)
    assert "x is larger than its data in the file" in refused(path)


def test_numbers_of_many_digits_as_labels(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"smiles,label\nC,{'1' * 400}\nCC,2\nCCC,2\n")
    assert import_data(path).graphs.class_names == ("2", "1" * 400)
    path.write_text(f"smiles,label\nC,{'x' * 5000}\nCC,2\nCCC,2\n")
    assert "has a class whose name is too long: 'xxx" in refused(path)


def test_file_names_that_are_not_unicode(tmp_path: Path) -> None:
    graph = nx.path_graph(3)
    folder = tmp_path / "nets"
    folder.mkdir()
    for number in range(2):
        graph.graph["y"] = number
        nx.write_graphml(graph, folder / f"n{number}.graphml")
    os.rename(folder / "n0.graphml", os.fsencode(folder) + b"/n\xff.graphml")
    import_data(folder).save(tmp_path / "set")
    assert (tmp_path / "set" / "ids.csv").read_text(encoding="utf-8").splitlines()[2].endswith(r"n\udcff")


@settings(max_examples=200)
@given(st.text(alphabet='a",;\n\r', max_size=30), st.sampled_from([",", ";", "\t"]))
def test_rows_end_where_a_state_machine_says(text: str, delimiter: str) -> None:
    match = _rows_pattern(delimiter).match(text.encode())
    assert (match.end() if match else 0) == end_of_rows(text, delimiter)


def end_of_rows(text: str, delimiter: str) -> int:
    state, end, place = "start", 0, 0
    while place < len(text):
        c = text[place]
        if state == "quoted":
            if c == '"' and text[place + 1 : place + 2] == '"':
                place += 1
            elif c == '"':
                state = "plain"
        elif c in "\r\n":
            place += c == "\r" and text[place + 1 : place + 2] == "\n"
            state, end = "start", place + 1
        elif c == delimiter:
            state = "start"
        else:
            state = "quoted" if c == '"' and state == "start" else "plain"
        place += 1
    return end


@settings(max_examples=60)
@given(st.lists(st.tuples(st.text(alphabet='ab",;\n é', max_size=6), st.text(alphabet="xy", max_size=3)), min_size=1))
def test_tables_are_read_as_the_csv_module_reads_them(tmp_path_factory, rows: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("table") / "mine.csv"
    out = io.StringIO(newline="")
    csv.writer(out).writerows([("first", "second"), *rows])
    path.write_bytes(out.getvalue().encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cgipool.data.importers.text.BLOCK", 16)
        found = [
            row
            for batch in open_table(path).as_written(0, 1)
            for row in zip(*map(pa.Array.to_pylist, batch), strict=True)
        ]
    assert found == rows


def test_lines_end_as_in_universal_newlines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgipool.data.importers.text.BLOCK", 3)
    for text in ("a\r\nb\rc\n\nd", "a\r\n\r\nb\r\n", "\r\r\n\n", "a"):
        (tmp_path / "text").write_bytes(text.encode())
        assert list(TextFile(tmp_path / "text").lines()) == text.replace("\r\n", "\n").replace("\r", "\n").removesuffix(
            "\n"
        ).split("\n")


def test_sizes() -> None:
    sizes = {"50GB": 50 * 10**9, "1.5 MB": 1_500_000, "700": 700, "2kB": 2000, None: None}
    assert {text: parse_size(text) for text in sizes} == sizes
    for text in ("", "GB", "-1", "1e9", "5 apples", "0"):
        with pytest.raises(UserError, match="is not a size such as 50GB"):
            parse_size(text)
