"""The TU reader: every form the format comes in, and every fault with its file and line."""

import io
import os
import random
import struct
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_sets import assert_equal, write_tu

from cgipool.data import archive, read_tu, tu
from cgipool.data import archive as limits
from cgipool.data import tu_table as table
from cgipool.errors import UserError


def zipped(folder: Path, compression: int = zipfile.ZIP_DEFLATED, inside: str = "TOY/") -> Path:
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", compression) as bundle:
        for file in sorted(folder.iterdir()):
            bundle.write(file, inside + file.name)
    return target


def failure(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_tu(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_two_small_graphs(tmp_path: Path) -> None:
    graphs = read_tu(write_tu(tmp_path / "toy"))
    assert (graphs.name, graphs.class_names, graphs.y.tolist()) == ("TOY", ("-1", "1"), [1, 0])
    assert graphs.sizes.tolist() == [3, 3]
    assert graphs.degree.tolist() == [2, 2, 2, 1, 1, 0]
    assert graphs.edge_disp.tolist() == [1, 2, -1, 1, -2, -1, 1, -1]
    assert graphs.dropped == {}


def test_columns_follow_their_edges(tmp_path: Path) -> None:
    folder = write_tu(
        tmp_path / "toy",
        A="3, 1\n1, 3\n1, 2\n2, 1\n2, 2\n1, 2\n5, 4\n",
        node_labels="7, -1\n7, 10\n0, 9\n7, 9\n7, 9\n0, 9\n",
        node_attributes="0.5\n1e3\n-2\n0\n0\n0\n",
        edge_labels="3\n1\n2\n2\n1\n9\n1\n",
        edge_attributes="0.3, 1\n0.1, 1\n0.2, 1\n0.2, 1\n0, 1\n0.9, 1\n0.7, 1\n",
    )
    graphs = read_tu(folder)
    assert graphs.dropped == {"self-loops": 1, "repeated edges": 1, "one-way edges completed": 1}
    assert graphs.category_names == (("0", "7"), ("-1", "9", "10"))
    assert graphs.category is not None
    assert graphs.category.tolist() == [[1, 0], [1, 2], [0, 1], [1, 1], [1, 1], [0, 1]]
    assert graphs.attributes is not None
    assert graphs.attributes.tolist() == [[0.5], [1000], [-2], [0], [0], [0]]
    assert (graphs.edge_source + graphs.edge_disp).tolist() == [1, 2, 0, 0, 4, 3]
    assert graphs.edge_category is not None
    assert [graphs.edge_category_names[0][c] for c in graphs.edge_category[:, 0]] == ["2", "1", "2", "3", "1", "1"]
    assert graphs.edge_attributes is not None
    np.testing.assert_allclose(graphs.edge_attributes[:, 0], [0.2, 0.1, 0.2, 0.3, 0.7, 0.7], rtol=1e-6)


@pytest.mark.parametrize("end", ["\r\n", "\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("comma", [",", ", ", " ,  "])
def test_spelling_does_not_matter(tmp_path: Path, end: str, comma: str) -> None:
    plain = write_tu(tmp_path / "plain")
    other = tmp_path / "other"
    other.mkdir()
    for file in plain.iterdir():
        text = file.read_text().replace(", ", comma).replace("\n", end)
        (other / file.name).write_bytes(text.encode())
    assert_equal(read_tu(other), read_tu(plain))


def test_last_line_without_an_end(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "toy", graph_labels="1\n-1", A="1,2\n2,1")
    assert read_tu(folder).n_edges == 2


def test_graphs_without_edges_and_without_nodes(tmp_path: Path) -> None:
    graphs = read_tu(write_tu(tmp_path / "toy", A="", graph_indicator="1\n3\n", graph_labels="0\n1\n1\n0\n"))
    assert graphs.sizes.tolist() == [1, 0, 1, 0]
    assert graphs.n_edges == 0


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("inside", ["TOY/", "", "deeper/TOY/"])
def test_archive_equals_folder(tmp_path: Path, compression: int, inside: str) -> None:
    folder = write_tu(tmp_path / "toy", node_labels="1\n1\n2\n3\n1\n1\n")
    assert_equal(read_tu(zipped(folder, compression, inside)), read_tu(folder))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"A": "1, 2\n\n2, x\n"}, "TOY_A.txt, line 3: 'x' is not a whole number"),
        ({"A": "1, 2\n2, 1.5\n"}, "TOY_A.txt, line 2: '1.5' is not a whole number"),
        ({"A": "1, 2\n2,\n"}, "TOY_A.txt, line 2: 2 values expected, 1 found"),
        ({"A": "1, 2\n,2\n"}, "TOY_A.txt, line 2: '' is not a whole number"),
        ({"A": "1, 2\n,\n"}, "TOY_A.txt, line 2: '' is not a whole number"),
        ({"A": "1, 2\n1,,2\n"}, "TOY_A.txt, line 2: 2 values expected, 3 found"),
        ({"A": "1, 0x2\n"}, "TOY_A.txt, line 1: '0x2' is not a whole number"),
        ({"graph_labels": "0X1\n2\n"}, "TOY_graph_labels.txt, line 1: '0X1' is not a whole number"),
        ({"A": "1, 2e10\n"}, "TOY_A.txt, line 1: 2e10 is too large"),
        ({"graph_labels": "1\n1e16\n"}, "line 2: 1e16 is too large to be exact with a point or an exponent"),
        ({"graph_labels": "1\n1_0\n"}, "TOY_graph_labels.txt, line 2: '1_0' is not a whole number"),
        ({"graph_labels": "1\nnan\n"}, "TOY_graph_labels.txt, line 2: 'nan' is not a whole number"),
        ({"graph_labels": "1\n" + 300 * "9" + "\n"}, "TOY_graph_labels.txt, line 2: 999"),
        ({"graph_labels": "1\n٣\n"}, "TOY_graph_labels.txt, line 2: '٣' is not a whole number"),
        ({"A": "1, 2\n2\n"}, "TOY_A.txt, line 2: 2 values expected, 1 found"),
        ({"A": "1, 2, 3\n"}, "TOY_A.txt, line 1: 2 values expected, 3 found"),
        ({"A": "1, 99999999999\n"}, "TOY_A.txt, line 1: 99999999999 is too large"),
        (
            {"A": "1, 2\n2, 1\n\n3, 4\n"},
            "TOY_A.txt, line 4: an edge between nodes 3 and 4, which are in graphs 1 and 2",
        ),
        ({"A": "1, 2\n2, 7\n"}, "TOY_A.txt, line 2: node 7; nodes go from 1 to 6"),
        ({"A": "1, 2\n0, 1\n"}, "TOY_A.txt, line 2: node 0; nodes go from 1 to 6"),
        ({"graph_indicator": "1\n1\n2\n1\n2\n2\n"}, "TOY_graph_indicator.txt, line 4: graph 1 comes after graph 2"),
        ({"graph_indicator": "1\n1\n1\n2\n2\n3\n"}, "TOY_graph_indicator.txt, line 6: graph 3 of 2 labelled graphs"),
        ({"graph_indicator": "0\n1\n1\n2\n2\n2\n"}, "TOY_graph_indicator.txt, line 1: graph 0 of 2 labelled graphs"),
        ({"graph_labels": "1\nyes\n"}, "TOY_graph_labels.txt, line 2: 'yes' is not a whole number"),
        ({"graph_labels": ""}, "the data set is empty, TOY_graph_labels.txt has no line"),
        ({"node_labels": "1\n1\n1\n1\n1\n"}, "TOY_node_labels.txt ends at line 5: 5 rows for 6 nodes"),
        ({"node_labels": "1\n1\n\n1\n1\n1\n1\n1\n"}, "TOY_node_labels.txt, line 8: there are only 6 nodes"),
        ({"node_labels": "1\n1\n1, 2\n1\n1\n1\n"}, "TOY_node_labels.txt, line 3: 1 value expected, 2 found"),
        ({"node_labels": ""}, "TOY_node_labels.txt ends at line 0: 0 rows for 6 nodes"),
        ({"edge_labels": "1\n"}, "TOY_edge_labels.txt ends at line 1: 1 row for 8 edges"),
        ({"node_attributes": "1\n2\nlow\n4\n5\n6\n"}, "TOY_node_attributes.txt, line 3: 'low' is not a number"),
        (
            {"node_attributes": "1, 1\n2, nan\n3, 1\n4, NaN\n5, inf\n6, 1\n"},
            "{path}: TOY_node_attributes.txt, line 2: column 1 is nan for node 2, in graph 1; the file has 3 "
            "values that are NaN or infinite",
        ),
        (
            {"edge_attributes": "1, 1\n\n1, 1\n" + 5 * "2, 1\n" + "inf, 1\n"},
            "{path}: TOY_edge_attributes.txt, line 9: column 0 is inf for the edge from node 5 to node 4, in graph 2",
        ),
    ],
)
def test_fault_has_file_and_line(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    folder = write_tu(tmp_path / "toy", **parts)
    for path in (folder, zipped(folder)):
        assert message.format(path=path) in failure(path)


@pytest.mark.parametrize(("most", "said"), [(1, "has 2 graphs, and"), (5, "has 6 nodes, and"), (6, None)])
def test_more_than_numbers_of_32_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, said: str | None
) -> None:
    folder = write_tu(tmp_path / "toy")
    monkeypatch.setattr(tu, "MOST", most)
    if said is None:
        read_tu(folder)
    else:
        assert f"{folder} {said} a TU set may have {most}: import parts of it" in failure(folder)


def test_fault_beyond_the_first_block(tmp_path: Path) -> None:
    rows = ["1, 2"] * 400_000
    rows[390_000] = "1; 2"
    folder = write_tu(tmp_path / "toy", A="\n".join(rows))
    assert failure(folder) == f"{folder}: TOY_A.txt, line 390001: '1;' is not a whole number"


def test_edge_between_graphs_beyond_the_first_block(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "toy", A="1, 2\n" * 300_000 + "4, 1\n")
    assert "TOY_A.txt, line 300001: an edge between nodes 4 and 1, which are in graphs 2 and 1" in failure(folder)


@pytest.mark.parametrize("size", [1, 2, 5, 16])
def test_blocks_end_with_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Whatever their size, also where a block has blank lines alone."""
    parts = {"A": "\n\n\n\n\n\n\n1, 2\r\n2, 1\r\n\r\n\r\n\r\n4, 5\n5, 4\n\n\n\n", "node_labels": "1\n2\n3\n\n4\n5\n6"}
    whole = read_tu(write_tu(tmp_path / "toy", **parts))
    monkeypatch.setattr(table, "BLOCK", size)
    assert_equal(read_tu(tmp_path / "toy"), whole)


def test_no_other_thread_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of pyarrow's that is in Python code while the interpreter ends, after an error, aborts the process."""
    read = archive._Exact.readinto
    threads = set()

    def noted(stream: archive._Exact, buffer: Any) -> int:
        threads.add(threading.current_thread())
        return read(stream, buffer)

    monkeypatch.setattr(archive._Exact, "readinto", noted)
    monkeypatch.setattr(table, "BLOCK", 4)
    assert "graph 2 of 1 labelled graphs" in failure(zipped(write_tu(tmp_path / "toy", graph_labels="1\n")))
    assert threads == {threading.main_thread()}


@pytest.mark.parametrize("form", [Path, zipped])
def test_an_error_leaves_nothing_open(tmp_path: Path, form: Callable[[Path], Path]) -> None:
    files = archive.TuFiles(form(write_tu(tmp_path / "toy", node_labels="1\n" * 9)))
    with files:
        rows = table.RowReader(files, "node_labels", "int64", 6, "nodes")
        with pytest.raises(UserError, match="only 6 nodes"):
            rows.take(6)
    assert files._opened
    assert all(stream.closed for stream in files._opened)


def test_missing_files(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "toy")
    (folder / "TOY_graph_labels.txt").unlink()
    assert failure(folder) == f"{folder}: TOY_graph_labels.txt is missing"
    (folder / "TOY_A.txt").unlink()
    assert failure(folder) == f"{folder} is not a TU data set: it contains no NAME_A.txt"
    assert failure(tmp_path / "nowhere.zip") == f"cannot open {tmp_path / 'nowhere.zip'}: No such file or directory"


def test_two_sets_in_one_archive(tmp_path: Path) -> None:
    write_tu(tmp_path / "toy")
    folder = write_tu(tmp_path / "toy", name="ALSO")
    assert failure(folder) == f"{folder}: it contains several data sets (ALSO, TOY); one is expected"


def test_files_that_macos_adds_are_passed_over(tmp_path: Path) -> None:
    path = zipped(write_tu(tmp_path / "toy"))
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr("__MACOSX/TOY/._TOY_A.txt", b"\0\5\x16\7")
    assert read_tu(path).n_graphs == 2


def test_not_a_zip_or_cut_short(tmp_path: Path) -> None:
    path = zipped(write_tu(tmp_path / "toy"))
    whole = path.read_bytes()
    for content in (b"<html>not found</html>", b"", whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert failure(path) == f"{path} is not a zip archive, or is truncated"


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_damaged_member_is_named(tmp_path: Path, compression: int) -> None:
    path = zipped(write_tu(tmp_path / "toy", A="1, 2\n2, 1\n" * 500), compression)
    with zipfile.ZipFile(path) as bundle:
        info = bundle.getinfo("TOY/TOY_A.txt")
    content = bytearray(path.read_bytes())
    middle = info.header_offset + 30 + len(info.filename) + info.compress_size // 2
    for i in range(middle, middle + 4):
        content[i] = ord("1") if compression == zipfile.ZIP_STORED else content[i] ^ 0xFF
    path.write_bytes(bytes(content))
    assert f"{path}: TOY_A.txt" in failure(path)


def with_declared_size(path: Path, member: str, size: int) -> None:
    """Change the size that the central directory declares for a member."""
    content = bytearray(path.read_bytes())
    at = content.rindex(member.encode()) - 46
    assert content[at : at + 4] == b"PK\x01\x02"
    content[at + 24 : at + 28] = struct.pack("<I", size)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(("size", "reason"), [(40, "Bad CRC-32"), (60_000, "bytes shorter than the archive declares")])
def test_declared_size_must_be_true(tmp_path: Path, size: int, reason: str) -> None:
    path = zipped(write_tu(tmp_path / "toy", A="1, 2\n2, 1\n" * 500))
    with_declared_size(path, "TOY/TOY_A.txt", size)
    message = failure(path)
    assert message.startswith(f"{path}: TOY_A.txt cannot be read: ")
    assert reason in message


def test_expansion_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(write_tu(tmp_path / "toy"))
    with_declared_size(path, "TOY/TOY_A.txt", limits.HARMLESS + 1)
    said = "raise --max-size or CGIPOOL_MAX_SIZE, for example to 1GB"
    told = f"expands to {limits.HARMLESS + 1:,} bytes, and {limits.HARMLESS:,} are allowed; if you trust it, {said}"
    assert failure(path) == f"{path}: member 'TOY/TOY_A.txt' {told}"
    monkeypatch.setenv("CGIPOOL_MAX_SIZE", "1G")
    assert "bytes shorter than the archive declares" in failure(path)


def test_the_whole_archive_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member is within the limit, all together are not; members that are never read count as well."""
    path = zipped(write_tu(tmp_path / "toy"))
    monkeypatch.setattr(limits, "HARMLESS", 3_000)
    monkeypatch.setattr(limits, "RATIO", 1)
    read_tu(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("TOY/one.txt", b"0" * 2_000)
        bundle.writestr("TOY/other.txt", b"0" * 2_000)
    assert f"{path} expands to 4," in failure(path)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("2k", 2048), ("500M", 500 << 20), ("20GB", 20 << 30), (" 1 T", None), ("x", None)],
)
def test_sizes_as_users_write_them(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(UserError, match="must be a size such as 500MB or 20GB"):
            limits.parse_size("--max-size", text)
    else:
        assert limits.parse_size("--max-size", text) == size


@pytest.mark.parametrize("part", ["A", "node_attributes"])
def test_long_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    monkeypatch.setattr(table, "LINE", 1 << 20)
    monkeypatch.setattr(table, "BLOCK", 1 << 10)
    folder = write_tu(tmp_path / "toy", **{part: "1," * (1 << 20)})
    assert failure(folder) == f"{folder}: TOY_{part}.txt has a line of more than 1 MB"


def test_many_columns_are_refused(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "toy", node_attributes=("1," * limits.COLUMNS + "1\n") * 6)
    assert failure(folder) == f"{folder}: TOY_node_attributes.txt has 16,385 columns, and 16,384 are allowed"


def test_messages_quote_little(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "toy", graph_labels="1\n" + "z" * 100_000 + "\x1b[2J\n")
    assert len(failure(folder)) < len(str(folder)) + 300
    path = zipped(write_tu(tmp_path / "more"))
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr("../" + "z" * 60_000, "")
    assert len(failure(path)) < len(str(path)) + 300


def test_a_label_file_of_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tu, "CLASSES", 1)
    folder = write_tu(tmp_path / "toy")
    assert failure(folder) == f"{folder}: TOY_graph_labels.txt has more than 1 classes"


def test_one_line_cannot_ask_for_billions_of_graphs(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "toy", graph_indicator="1\n1\n1\n2\n2\n2147483647\n")
    (folder / "TOY_graph_labels.txt").unlink()
    with pytest.raises(UserError, match="has 6 nodes but graph numbers up to 2,147,483,647"):
        read_tu(folder, unlabelled=True)


def test_pipes_and_devices(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "TOY.zip")
    assert failure(tmp_path / "TOY.zip") == f"cannot read {tmp_path / 'TOY.zip'}: it is not a regular file"
    assert failure(Path("/dev/zero")) == "cannot read /dev/zero: it is not a regular file"
    folder = write_tu(tmp_path / "toy")
    os.mkfifo(folder / "TOY_node_labels.txt")
    assert failure(folder) == f"cannot read {folder / 'TOY_node_labels.txt'}: it is not a regular file"


def test_name_that_is_not_text(tmp_path: Path) -> None:
    """A file name may hold any bytes; Python gives those that are not UTF-8 as lone surrogates."""
    name = os.fsdecode(b"T\xffY")
    graphs = read_tu(write_tu(tmp_path / "toy", name=name))
    assert graphs.name == "T?Y"
    write_tu(tmp_path / "bad", name=name, A="1, x\n")
    assert failure(tmp_path / "bad") == f"{tmp_path / 'bad'}: T?Y_A.txt, line 1: 'x' is not a whole number"


def flipped(path: Path, at: int, to: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + len(to)] = to
    path.write_bytes(bytes(content))


def test_member_without_a_name(tmp_path: Path) -> None:
    path = zipped(write_tu(tmp_path / "toy"))
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr("x", "")
    content = path.read_bytes()
    flipped(path, content.rindex(b"PK\x01\x02") + 46, b"\0")
    assert failure(path) == f"{path}: a member has no name; refused"


@pytest.mark.parametrize("where", [0, 2, 4], ids=["first", "middle", "last"])
@pytest.mark.parametrize("fault", ["renamed", "dropped"])
def test_directory_must_list_what_is_there(tmp_path: Path, where: int, fault: str) -> None:
    """Else the labels of the nodes, say, would be missing and nobody would know."""
    path = zipped(write_tu(tmp_path / "toy", node_labels="1\n" * 6, edge_labels="1\n" * 8))
    read_tu(path)
    with zipfile.ZipFile(path) as bundle:
        member = sorted(bundle.infolist(), key=lambda info: info.header_offset)[where]
    content = path.read_bytes()
    entry = content.rindex(member.filename.encode()) - 46
    if fault == "renamed":
        flipped(path, entry + 46 + len(member.filename) - 5, b"~")
    else:
        length = 46 + len(member.filename)
        end = content.rindex(b"PK\x05\x06")
        (size,) = struct.unpack("<I", content[end + 12 : end + 16])
        counts = struct.pack("<HH", 4, 4)
        tail = content[end : end + 8] + counts + struct.pack("<I", size - length) + content[end + 16 :]
        path.write_bytes(content[:entry] + content[entry + length : end] + tail)
    assert failure(path) == f"{path} is damaged: its directory does not list the files it contains"


def test_damaged_archive_is_one_line_or_the_same_set(tmp_path: Path) -> None:
    """Flips, cuts and insertions anywhere; what is read nevertheless is what was there before."""
    folder = write_tu(tmp_path / "toy", node_labels="1\n2\n3\n4\n5\n6\n", edge_labels="1\n" * 8)
    path, right, draw, failed = zipped(folder), read_tu(folder), random.Random(0), 0
    content = path.read_bytes()
    for number in range(300):
        damaged, at = bytearray(content), draw.randrange(len(content))
        if number % 3 == 0:
            damaged[at] ^= 1 << draw.randrange(8)
        elif number % 3 == 1:
            del damaged[at : at + draw.randrange(1, 60)]
        else:
            damaged[at:at] = draw.randbytes(draw.randrange(1, 30))
        path.write_bytes(damaged)
        try:
            found = read_tu(path)
        except UserError as error:
            failed += "\n" not in str(error)
        else:
            assert_equal(found, right)
            failed += 1
    assert failed == 300


def test_archives_that_programs_write(tmp_path: Path) -> None:
    """Written to a pipe, sizes follow the data; something may stand before the archive."""
    folder = write_tu(tmp_path / "toy", node_labels="1\n" * 6)

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.content = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.content += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as bundle:  # type: ignore[type-var]
        for file in sorted(folder.iterdir()):
            bundle.write(file, f"TOY/{file.name}")
    for before in (b"", b"#!/bin/sh\n"):
        (tmp_path / "TOY.zip").write_bytes(before + pipe.content)
        assert_equal(read_tu(tmp_path / "TOY.zip"), read_tu(folder))


@pytest.mark.parametrize("name", ["../TOY_A.txt", "/TOY_A.txt", "a/../../TOY_A.txt", "..\\TOY_A.txt", "C:/TOY_A.txt"])
def test_member_outside_is_refused(tmp_path: Path, name: str) -> None:
    path = zipped(write_tu(tmp_path / "toy"))
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr(name, "1, 2\n")
    assert failure(path) == f"{path}: member {name!r} points outside the archive; refused"


def test_encrypted_member(tmp_path: Path) -> None:
    path = zipped(write_tu(tmp_path / "toy"))
    content = bytearray(path.read_bytes())
    at = content.rindex(b"TOY/TOY_A.txt") - 46
    content[at + 8] |= 1
    path.write_bytes(bytes(content))
    assert "encrypted" in failure(path)


def test_a_member_that_is_the_archive_itself(tmp_path: Path) -> None:
    path = zipped(write_tu(tmp_path / "toy"))
    plain = read_tu(path)
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr("./", "")
        bundle.writestr(".", "")
    assert read_tu(path).n_nodes == plain.n_nodes


def test_the_same_file_twice(tmp_path: Path) -> None:
    path = zipped(write_tu(tmp_path / "toy"))
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr("OTHER/TOY_A.txt", "1, 2\n")
    assert failure(path) == f"{path}: TOY_A.txt is in the archive twice, as TOY/TOY_A.txt and OTHER/TOY_A.txt"
