"""Digests of saved sets and cache entries: every flipped bit is found, and a check that was done is remembered."""

import json
import os
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_sets import assert_equal, graph_sets, write_tu

from cgipool.data import GraphSet, digests, load_dataset, motifs, read_tu, store
from cgipool.errors import UserError
from cgipool.files import sealed


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(content))


def failure(action: Callable[[], object]) -> str:
    """What a UserError says; empty where there is none."""
    try:
        action()
    except UserError as error:
        return str(error)
    return ""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The array files that were hashed."""
    hashed: list[Path] = []
    start_of_data = digests.start_of_data

    def noted(file: IO[bytes]) -> int | None:
        hashed.append(Path(file.name))
        return start_of_data(file)

    monkeypatch.setattr(digests, "start_of_data", noted)
    return hashed


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once, though the time of their last change of any kind cannot be set back."""
    monkeypatch.setattr(digests, "SETTLED", 0.0)


@given(graphs=graph_sets())
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_digest_of_a_saved_set_is_that_of_the_set(tmp_path_factory: pytest.TempPathFactory, graphs: GraphSet) -> None:
    folder = tmp_path_factory.mktemp("saved") / "set"
    graphs.save(folder)
    assert store.content_digest(folder) == digests.content_of(graphs)


@pytest.mark.parametrize("mmap", [False, True])
def test_every_flip_is_found(tmp_path: Path, own_cache: Path, mmap: bool) -> None:
    """Wherever it is: an error in one line, or the same set (as after a flip in a blank of the index)."""
    graphs = motifs(6)
    graphs.save(tmp_path / "set")
    files = sorted((tmp_path / "set").iterdir())
    draw = random.Random(0)
    for _ in range(150):
        file = draw.choice(files)
        content = file.read_bytes()
        flip(file, draw.randrange(8 * len(content)))
        message = failure(lambda: assert_equal(GraphSet.load(tmp_path / "set", mmap=mmap, checked=True), graphs))
        assert "\n" not in message
        assert len(message) < 600
        file.write_bytes(content)
    assert_equal(GraphSet.load(tmp_path / "set"), graphs)


def test_flip_in_values_is_said(tmp_path: Path, own_cache: Path) -> None:
    motifs(6).save(tmp_path / "set")
    flip(tmp_path / "set" / "y.npy", 8 * 130)
    with pytest.raises(UserError, match=r"y\.npy is damaged: its content does not match its SHA-256 in graphset\.json"):
        GraphSet.load(tmp_path / "set", mmap=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"format": 2', '"format": 1'), "says format 1 but has entries of a later format"),
        (lambda text: text.replace('"format": 2', '"format": 3'), "has format 3; this version of cgipool reads"),
        (lambda text: text.replace('"format"', '"gormat"'), "has format None"),
        (lambda text: text[::-1].replace('"652ahs"', '"752ahs"', 1)[::-1], "is damaged: it has no SHA-256"),
        (lambda text: text.replace('"motifs"', '"motift"'), "its content does not match its SHA-256"),
        (lambda text: text.replace('"format": 2', '"format": 1').replace("sha256", "sha257"), "of a later format"),
    ],
)
def test_a_set_cannot_be_made_to_look_older(
    tmp_path: Path, own_cache: Path, change: Callable[[str], str], message: str
) -> None:
    motifs(6).save(tmp_path / "set")
    index = tmp_path / "set" / "graphset.json"
    assert change(index.read_text()) != index.read_text()
    index.write_text(change(index.read_text()))
    with pytest.raises(UserError, match=message):
        GraphSet.load(tmp_path / "set")


@pytest.mark.parametrize("mmap", [False, True])
def test_sets_saved_before_there_were_digests(
    tmp_path: Path, own_cache: Path, mmap: bool, as_format_1: Callable[[Path], None]
) -> None:
    graphs = motifs(6)
    graphs.save(tmp_path / "set")
    as_format_1(tmp_path / "set")
    assert_equal(GraphSet.load(tmp_path / "set", mmap=mmap), graphs)
    assert store.content_digest(tmp_path / "set") is None
    pointers = np.load(tmp_path / "set" / "node_ptr.npy")
    pointers[2] ^= 1 << 32  # as one flipped bit would: billions of nodes
    np.save(tmp_path / "set" / "node_ptr.npy", pointers)
    with pytest.raises(UserError, match="node_ptr decreases at entry 3"):
        GraphSet.load(tmp_path / "set", mmap=mmap)


@pytest.mark.parametrize("shape", ["(10000000000000,)", "(1, 7, 7)", "(-1,)"])
def test_header_is_compared_before_memory_is_allocated(tmp_path: Path, own_cache: Path, shape: str) -> None:
    motifs(6).save(tmp_path / "set")
    file = tmp_path / "set" / "y.npy"
    content = file.read_bytes()
    file.write_bytes(content.replace(b"(6,), }".ljust(len(shape) + 3), f"{shape}, }}".encode(), 1))
    assert file.read_bytes() != content
    with pytest.raises(UserError, match=r"y\.npy is damaged: it has \d+ bytes, its header declares"):
        GraphSet.load(tmp_path / "set")


def test_a_check_is_remembered(tmp_path: Path, own_cache: Path, counted: list[Path], settled: None) -> None:
    motifs(6).save(tmp_path / "set")
    counted.clear()
    for mmap in (True, True, False):
        GraphSet.load(tmp_path / "set", mmap=mmap)
    assert len(counted) == len(list((tmp_path / "set").glob("*.npy")))
    flip(tmp_path / "set" / "y.npy", 8 * 130)
    with pytest.raises(UserError, match=r"y\.npy is damaged"):
        GraphSet.load(tmp_path / "set", mmap=True)


def test_times_that_were_set_back_do_not_help(tmp_path: Path, own_cache: Path, settled: None) -> None:
    motifs(6).save(tmp_path / "set")
    GraphSet.load(tmp_path / "set", mmap=True)
    file = tmp_path / "set" / "y.npy"
    before = file.stat()
    flip(file, 8 * 130)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(UserError, match=r"y\.npy is damaged"):
        GraphSet.load(tmp_path / "set", mmap=True)


def test_a_check_in_memory_is_valid_for_a_day(
    tmp_path: Path, own_cache: Path, counted: list[Path], settled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits may change on the disk without any time of the file."""
    motifs(6).save(tmp_path / "set")
    GraphSet.load(tmp_path / "set")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + digests.VALID + 1)
    counted.clear()
    GraphSet.load(tmp_path / "set", mmap=True)
    assert not counted
    GraphSet.load(tmp_path / "set")
    assert counted


def test_files_of_this_instant_are_not_remembered(tmp_path: Path, own_cache: Path) -> None:
    """They may change again within the resolution of the clock."""
    motifs(6).save(tmp_path / "set")
    GraphSet.load(tmp_path / "set")
    assert not (own_cache / "verified").exists()


@pytest.mark.parametrize("damage", ["flip", "text", "list", "unsealed"])
def test_a_damaged_memory_is_no_memory(
    tmp_path: Path, own_cache: Path, counted: list[Path], settled: None, damage: str
) -> None:
    motifs(6).save(tmp_path / "set")
    GraphSet.load(tmp_path / "set")
    (memory,) = (own_cache / "verified").iterdir()
    kept = json.loads(memory.read_text())
    if damage == "flip":
        kept["files"]["y"][1] += 1
    elif damage == "unsealed":
        del kept["sha256"]
    memory.write_text({"text": "{", "list": "[]"}.get(damage, json.dumps(kept)))
    counted.clear()
    GraphSet.load(tmp_path / "set")
    assert counted


def test_cache_that_cannot_be_written_costs_a_check(tmp_path: Path, monkeypatch, counted: list[Path]) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CGIPOOL_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(digests, "SETTLED", 0.0)
    graphs = motifs(6)
    graphs.save(tmp_path / "set")
    for _ in range(2):
        counted.clear()
        assert_equal(GraphSet.load(tmp_path / "set"), graphs)
        assert counted


def test_damaged_cache_entries_are_rebuilt_and_said(tmp_path: Path, own_cache: Path) -> None:
    """Whatever bit it is, the set is the right one afterwards, and the entry as well."""
    folder = write_tu(tmp_path / "TOY", node_labels="1\n2\n3\n4\n5\n6\n")
    right = load_dataset(folder)
    (entry,) = (own_cache / "parsed").iterdir()
    draw = random.Random(1)
    told = 0
    for _ in range(60):
        file = draw.choice(sorted(entry.iterdir()))
        flip(file, draw.randrange(8 * file.stat().st_size))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert_equal(load_dataset(folder), right)
        for warning in caught:
            assert str(warning.message).endswith(f"; {folder} is parsed again")
        told += len(caught)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_equal(load_dataset(folder), right)
    assert told > 40


@pytest.mark.parametrize("damage", ["no index", "a file", "a link", "an older version"])
def test_what_is_not_an_entry_is_replaced(
    tmp_path: Path, own_cache: Path, damage: str, as_format_1: Callable[[Path], None]
) -> None:
    folder = write_tu(tmp_path / "TOY")
    right = load_dataset(folder)
    (entry,) = (own_cache / "parsed").iterdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    if damage == "no index":
        (entry / "graphset.json").unlink()
    elif damage == "an older version":
        as_format_1(entry)
    else:
        entry.rename(tmp_path / "moved")
        entry.touch() if damage == "a file" else entry.symlink_to(tmp_path / "mine")
    with pytest.warns(UserWarning, match="is parsed again"):
        assert_equal(load_dataset(folder), right)
    assert_equal(load_dataset(folder), right)
    assert (tmp_path / "mine" / "notes").exists()


def test_files_are_on_the_disk_before_they_get_their_name(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file of the set, then the folder they are in, then, after the rename, the folder above."""
    events: list[str] = []
    replace = os.replace

    def named(handle: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)

    def renamed(source: Path, target: Path) -> None:
        replace(source, target)
        if Path(source).name == "fresh":
            events.append("renamed")

    monkeypatch.setattr(os, "fsync", named)
    monkeypatch.setattr(os, "replace", renamed)
    motifs(6).save(tmp_path / "set")
    files = sorted(file.name for file in (tmp_path / "set").iterdir())
    assert sorted(events[: len(files)]) == files
    assert events[len(files) :] == ["fresh", "renamed", tmp_path.name]


def test_set_without_a_name_that_is_text(tmp_path: Path, own_cache: Path) -> None:
    name = os.fsdecode(b"T\xffY")
    folder = write_tu(tmp_path / name, name=name)
    assert load_dataset(folder).name == "T?Y"
    assert_equal(load_dataset(folder), read_tu(folder))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("class_names",), [1, 2]),
        (("class_names",), "motif"),
        (("category_names",), [[[]]]),
        (("name",), "z" * 100_000),
        (("dropped",), []),
        (("arrays", "y", "dtype"), "z" * 100_000),
        (("arrays", "y", "shape"), [10**18]),
        (("arrays", "y", "shape"), None),
        (("arrays", "y", "sha256"), None),
        (("arrays", "y"), []),
        (("arrays",), None),
    ],
)
@pytest.mark.parametrize("mmap", [False, True])
def test_forged_index(tmp_path: Path, own_cache: Path, place: tuple[str, ...], value: object, mmap: bool) -> None:
    """Its own digest is right: it was written so, and not by us."""
    motifs(6).save(tmp_path / "set")
    index = json.loads((tmp_path / "set" / "graphset.json").read_text())
    held = index
    for key in place[:-1]:
        held = held[key]
    held[place[-1]] = value
    (tmp_path / "set" / "graphset.json").write_text(json.dumps(sealed(index)))
    message = failure(lambda: GraphSet.load(tmp_path / "set", mmap=mmap))
    assert bool(message) == (place != ("name",))
    assert "\n" not in message
    assert len(message) < 600
