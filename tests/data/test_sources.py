"""Data sets by name and path: lookup, download from a server on this machine, and the cache of parsed sets."""

import dataclasses
import hashlib
import io
import json
import os
import sys
import tempfile
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from random_sets import TRIANGLE_AND_PATH, assert_equal, write_tu

from cgipool.data import (
    CATALOGUE,
    CatalogueEntry,
    GraphSet,
    cache_folder,
    describe,
    digests,
    fetch,
    load_dataset,
    motifs,
    read_tu,
    sources,
)
from cgipool.errors import UserError

fetching = sys.modules["cgipool.data.fetch"]


def archive(name: str, **parts: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        for part, text in (TRIANGLE_AND_PATH | parts).items():
            bundle.writestr(zipfile.ZipInfo(f"{name}/{name}_{part}.txt"), text)
    return buffer.getvalue()


SOUND = archive("MUTAG")


class Mirror(BaseHTTPRequestHandler):
    """MUTAG is sound, AIDS breaks off, BZR is a page, COX2 has a damaged member, DD does not say its length."""

    def do_GET(self) -> None:
        name = self.path.removeprefix("/sets/").removesuffix(".zip")
        member = SOUND.index(b"MUTAG/MUTAG_A.txt") + len("MUTAG/MUTAG_A.txt") + 3
        bodies = {
            "MUTAG": SOUND,
            "AIDS": SOUND,
            "BZR": b"<html>Moved</html>",
            "COX2": SOUND[:member] + bytes([SOUND[member] ^ 0xFF]) + SOUND[member + 1 :],
            "DD": archive("DD"),
        }
        if name not in bodies:
            self.send_error(404)
            return
        self.send_response(200)
        if name != "DD":
            self.send_header("Content-Length", str(len(bodies[name])))
        self.end_headers()
        self.wfile.write(bodies[name][:100] if name == "AIDS" else bodies[name])

    def log_message(self, *_: object) -> None:
        pass


SMALL = CatalogueEntry("synthetic", 2, 2, "a triangle and a path")


@pytest.fixture
def small_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue, but some of its sets have the two small graphs of these tests."""
    for name in ("MUTAG", "AIDS", "COX2", "DD", "NCI1"):
        monkeypatch.setitem(CATALOGUE, name, SMALL)


@pytest.fixture
def mirror(own_cache: Path, monkeypatch: pytest.MonkeyPatch, small_catalogue: None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}/sets"
    monkeypatch.setenv("CGIPOOL_MIRROR", address)
    monkeypatch.setenv("no_proxy", "*")
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


def test_download(mirror: str, own_cache: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = fetch("MUTAG", progress=lambda done, total: told.append((done, total)))
    assert path == own_cache / "MUTAG.zip"
    assert path.read_bytes() == SOUND
    assert told[-1] == (len(SOUND), len(SOUND))
    note = json.loads((own_cache / "MUTAG.zip.json").read_text())
    assert note == {"url": f"{mirror}/MUTAG.zip", "size": len(SOUND), "sha256": hashlib.sha256(SOUND).hexdigest()}
    assert sorted(p.name for p in own_cache.iterdir()) == ["MUTAG.zip", "MUTAG.zip.json"]


def test_only_names_of_the_catalogue_are_fetched(own_cache: Path) -> None:
    with pytest.raises(UserError, match=r"unknown data set '\.\./MUTAG'; did you mean 'MUTAG'\?"):
        fetch("../MUTAG")


def test_download_without_a_length(mirror: str) -> None:
    told: list[int | None] = []
    assert load_dataset("dd", progress=lambda _, total: told.append(total)).name == "DD"
    assert told == [None]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ENZYMES", "{mirror}/ENZYMES.zip answered 404 Not Found"),
        ("AIDS", "{mirror}/AIDS.zip: the connection was lost after 100 of {size} bytes"),
        ("BZR", "{mirror}/BZR.zip is not a valid TU archive: BZR.zip is not a zip archive, or is truncated"),
        ("COX2", "{mirror}/COX2.zip is not a valid zip archive: "),
    ],
)
def test_failed_download_leaves_nothing(mirror: str, own_cache: Path, name: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_dataset(name)
    assert str(caught.value).startswith(message.format(mirror=mirror, size=len(SOUND)))
    assert "\n" not in str(caught.value)
    assert list(own_cache.iterdir()) == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "nonsense"])
def test_mirror_that_is_not_there(own_cache: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("CGIPOOL_MIRROR", address)
    with pytest.raises(UserError, match=rf"cannot reach {address}/MUTAG\.zip: "):
        fetch("MUTAG")


def test_a_wrong_data_folder_is_told_where_the_download_fails(mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGIPOOL_DATA", "no/such/folder")
    with pytest.raises(
        UserError, match=r"404 Not Found \(and CGIPOOL_DATA names no/such/folder, which is not a folder\)"
    ):
        load_dataset("ENZYMES")


def test_download_into_a_cache_that_cannot_be_written(mirror: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CGIPOOL_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot write MUTAG to "):
        fetch("MUTAG")


def test_second_load_needs_no_mirror(mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_dataset("mutag")
    monkeypatch.setenv("CGIPOOL_MIRROR", "http://127.0.0.1:9")
    assert_equal(load_dataset("MUTAG"), first)


@pytest.mark.parametrize("form", ["archive", "folder", "saved"])
@pytest.mark.parametrize("place", ["cache", "data"])
def test_another_set_under_a_known_name_is_refused(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, form: str, place: str
) -> None:
    """As PTC_MR put into the cache as MUTAG.zip. By its path it can be used: that claims nothing."""
    folder = own_cache if place == "cache" else tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("CGIPOOL_DATA", str(tmp_path / "data"))
    path = folder / ("MUTAG.zip" if form == "archive" else "MUTAG")
    if form == "archive":
        path.write_bytes(archive("PTC_MR"))
    elif form == "folder":
        write_tu(path, name="PTC_MR")
    else:
        read_tu(write_tu(tmp_path / "toy")).save(path)
    told = f"{path} is not the public data set MUTAG: it has 2 graphs, not 188; to use it anyway, give its path"
    for cache in (True, True, False):
        with pytest.raises(UserError) as caught:
            load_dataset("mutag", cache=cache)
        assert str(caught.value) == told
    assert load_dataset(path).n_graphs == 2


@pytest.mark.parametrize("cache", [True, False])
def test_content_is_compared_where_it_is_known(tmp_path: Path, own_cache: Path, monkeypatch, cache: bool) -> None:
    """Counts agree, one edge does not. The digest does not depend on how the archive is packed and spelt."""
    right = read_tu(write_tu(tmp_path / "toy", name="MUTAG"))
    monkeypatch.setitem(CATALOGUE, "MUTAG", dataclasses.replace(SMALL, content=digests.content_of(right)))
    own_cache.mkdir()
    for parts in ({}, {"A": "2 1\n2 3\n3 1\n5 4\n", "graph_labels": "+1\r\n-1\r\n"}):
        (own_cache / "MUTAG.zip").write_bytes(archive("MUTAG", **parts))
        assert load_dataset("MUTAG", cache=cache).n_edges == right.n_edges
    (own_cache / "MUTAG.zip").write_bytes(archive("MUTAG", A="2, 1\n2, 3\n3, 1\n6, 4\n"))
    load_dataset(own_cache / "MUTAG.zip")
    for _ in range(2):
        with pytest.raises(UserError, match=r"is not the public data set MUTAG: its content has the SHA-256 \w{12}…,"):
            load_dataset("MUTAG", cache=cache)


def test_download_of_another_set_is_refused(mirror: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "MUTAG", dataclasses.replace(SMALL, graphs=188))
    with pytest.raises(UserError, match=r"MUTAG\.zip is not the public data set MUTAG: it has 2 graphs, not 188"):
        fetch("MUTAG")
    assert list(own_cache.iterdir()) == []


@pytest.mark.parametrize("damage", ["archive", "note", "not an object"])
def test_the_checksum_of_a_download_is_read(mirror: str, own_cache: Path, damage: str) -> None:
    load_dataset("MUTAG")
    if damage == "archive":
        (own_cache / "MUTAG.zip").write_bytes(archive("MUTAG", graph_labels="1\n2\n"))
    else:
        (own_cache / "MUTAG.zip.json").write_text("{" if damage == "note" else "[]")
    told = "is damaged" if damage == "note" else "is not the file that was downloaded: its SHA-256 differs"
    with pytest.raises(UserError, match=told):
        load_dataset("MUTAG")
    fetch("MUTAG")
    assert load_dataset("MUTAG").class_names == ("-1", "1")


@pytest.mark.parametrize(
    ("address", "target", "followed"),
    [
        ("https://one.org/a.zip", "https://two.org/a.zip", True),
        ("https://one.org/a.zip", "http://one.org/a.zip", False),
        ("https://one.org/a.zip", "ftp://one.org/a.zip", False),
        ("https://one.org/a.zip", "file:///etc/passwd", False),
        ("http://one.org/a.zip", "https://one.org/a.zip", True),
        ("http://one.org/a.zip", "http://two.org/a.zip", True),
        ("http://one.org/a.zip", "ftp://two.org/a.zip", False),
    ],
)
def test_redirects_keep_their_encryption(address: str, target: str, followed: bool) -> None:
    request = urllib.request.Request(address)
    handler = fetching._Redirects()
    if followed:
        assert handler.redirect_request(request, None, 302, "Found", {}, target).full_url == target
    else:
        with pytest.raises(UserError, match="only https is followed from https"):
            handler.redirect_request(request, None, 302, "Found", {}, target)


def test_the_default_address_is_encrypted() -> None:
    assert fetching.MIRROR.startswith("https://")


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    reads: list[Path] = []

    def reader(path: Path, unlabelled: bool) -> GraphSet:
        reads.append(path)
        return read_tu(path, unlabelled=unlabelled)

    monkeypatch.setattr(sources, "read_tu", reader)
    return reads


@pytest.mark.parametrize("form", ["archive", "folder"])
def test_parsed_once_until_it_changes(tmp_path: Path, own_cache: Path, monkeypatch, form: str) -> None:
    reads = count_reads(monkeypatch)
    path = tmp_path / "TOY.zip" if form == "archive" else write_tu(tmp_path / "TOY")
    if form == "archive":
        path.write_bytes(archive("TOY"))
    first = load_dataset(path)
    assert_equal(load_dataset(str(path)), first)
    assert isinstance(load_dataset(path, mmap=True).y, np.memmap)
    assert len(reads) == 1
    if form == "archive":
        path.write_bytes(archive("TOY", graph_labels="1\n1\n"))
    else:
        write_tu(path, graph_labels="1\n1\n")
    assert load_dataset(path).class_names == ("1",)
    assert len(reads) == 2
    load_dataset(path, cache=False)
    assert len(reads) == 3


@pytest.mark.parametrize("damage", ["truncated", "missing", "format"])
def test_damaged_cache_is_written_anew(tmp_path: Path, own_cache: Path, monkeypatch, damage: str) -> None:
    path = tmp_path / "TOY.zip"
    path.write_bytes(archive("TOY"))
    first = load_dataset(path)
    (entry,) = (own_cache / "parsed").iterdir()
    if damage == "truncated":
        os.truncate(entry / "edge_disp.npy", 130)
    elif damage == "missing":
        (entry / "y.npy").unlink()
    else:
        (entry / "graphset.json").write_text('{"format": 0}')
    reads = count_reads(monkeypatch)
    with pytest.warns(UserWarning, match=f"{path} is parsed again"):
        assert_equal(load_dataset(path), first)
    assert_equal(load_dataset(path), first)
    assert len(reads) == 1


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CGIPOOL_CACHE", str(tmp_path / "file"))
    path = tmp_path / "TOY.zip"
    path.write_bytes(archive("TOY"))
    assert load_dataset(path).n_graphs == load_dataset(path, mmap=True).n_graphs == 2


def test_data_folder_comes_before_the_mirror(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, small_catalogue: None
) -> None:
    monkeypatch.setenv("CGIPOOL_DATA", str(tmp_path / "data"))
    write_tu(tmp_path / "data" / "NCI1", name="NCI1")
    (tmp_path / "data" / "Own-Set.zip").write_bytes(archive("Own-Set"))
    assert load_dataset("nci1").name == "NCI1"
    assert load_dataset("own-set").name == "Own-Set"


def test_saved_set_by_path(tmp_path: Path, own_cache: Path) -> None:
    graphs = motifs(8)
    graphs.save(tmp_path / "mine")
    assert_equal(load_dataset(tmp_path / "mine"), graphs)
    assert isinstance(load_dataset(tmp_path / "mine", mmap=True).y, np.memmap)


def test_motifs_by_name(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "motifs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert_equal(load_dataset("Motifs"), motifs())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("NCI-1", "unknown data set 'NCI-1'; did you mean 'NCI1'? known: AIDS, "),
        ("nowhere/NCI1.zip", "there is no data set at nowhere/NCI1.zip"),
        (".", ". is not a data set of a known format; none of these files is in it: NAME_A.txt (TU), edges.csv and"),
    ],
)
def test_unknown(own_cache: Path, tmp_path: Path, monkeypatch, given: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        load_dataset(given)
    assert str(caught.value).startswith(message)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGIPOOL_CACHE", "/one")
    monkeypatch.setenv("XDG_CACHE_HOME", "/two")
    monkeypatch.setenv("HOME", "/three")
    assert cache_folder() == Path("/one")
    monkeypatch.delenv("CGIPOOL_CACHE")
    assert cache_folder() == Path("/two/cgipool")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/three/.cache/cgipool")


def test_without_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a user id that the system does not know, in a container."""
    for name in ("CGIPOOL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"cgipool-{os.getuid()}"
    assert cache_folder() == cache_folder() == folder
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)  # what others may have put there is not used
    with pytest.raises(UserError, match="there is no home folder for the cache; set CGIPOOL_CACHE to a folder"):
        cache_folder()
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="set CGIPOOL_CACHE"):
        cache_folder()


def test_pipe_as_a_data_set(tmp_path: Path, own_cache: Path) -> None:
    for name in ("TOY.zip", "pipe"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(UserError, match="it is not a regular file"):
            load_dataset(tmp_path / name)


def test_catalogue_has_the_papers_seven_first() -> None:
    seven = ["NCI1", "NCI109", "Mutagenicity", "IMDB-BINARY", "IMDB-MULTI", "COLLAB", "PROTEINS"]
    assert [name for name, entry in CATALOGUE.items() if entry.in_paper] == list(CATALOGUE)[:7] == seven


def test_describe(tmp_path: Path) -> None:
    folder = write_tu(tmp_path / "toy", edge_labels="1\n" * 8, graph_indicator="1\n1\n1\n2\n2\n2\n3\n3\n3\n4\n4\n4\n")
    (folder / "TOY_graph_labels.txt").write_text("0\n0\n1\n0\n")
    with (folder / "TOY_A.txt").open("a") as stream:
        stream.write("7, 8\n8, 9\n9, 7\n10, 11\n")
    (folder / "TOY_edge_labels.txt").write_text("1\n" * 12)
    found = describe(read_tu(folder))
    assert json.loads(json.dumps(found)) == found
    assert (found["graphs"], found["nodes"], found["edges"], found["isolated_nodes"]) == (4, 12, 8, 2)
    assert (found["nodes_per_graph"], found["edges_per_graph"]) == (3, 2)
    assert (found["smallest"], found["median"], found["largest"]) == (3, 3, 3)
    assert found["classes"][1] == {"name": "1", "graphs": 1, "share": 0.25}
    assert found["edge_columns"] == {"weight": False, "labels": [1], "attributes": 0}
    assert found["note"] == "edge labels and attributes are read by the convolutions gine and transformer"
    assert found["dropped"] == {"one-way edges completed": 4}
    assert found["duplicates"] == {"distinct": 2, "with_twin": 4, "conflicting": 1, "ceiling": 0.75}
    floats = GraphSet.from_edges("floats", [2], [0], [1], [0], attributes=np.ones((2, 3), np.float32))
    assert describe(floats)["note"].startswith("without node attributes (attributes=false)")


def test_graphs_without_nodes_are_told(tmp_path: Path) -> None:
    """As a TU set has them whose graph_labels has more lines than graph_indicator has graphs."""
    found = describe(read_tu(write_tu(tmp_path / "toy", graph_labels="1\n-1\n1\n1\n")))
    assert (found["graphs"], found["graphs_without_nodes"]) == (4, 2)
    assert found["note"] == "2 graphs have no nodes, so only the majority class can be predicted for them"
    assert describe(motifs(4))["graphs_without_nodes"] == 0
    assert describe(motifs(4))["note"] is None


def test_describe_an_empty_set() -> None:
    found = describe(motifs(4).subset([]))
    assert (found["graphs"], found["largest"], found["duplicates"]["distinct"]) == (0, 0, 0)
    assert found["note"] is None


def test_describe_a_set_without_classes() -> None:
    found = describe(motifs(4).relabelled([-1] * 4, ()))
    assert (found["graphs"], found["classes"]) == (4, [])
    assert found["duplicates"] == {"distinct": 4, "with_twin": 0, "conflicting": None, "ceiling": None}
