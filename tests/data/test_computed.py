"""Results kept in the cache folder: computed once by all processes, and again if an entry is damaged."""

import contextvars
import hashlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool.data import Encoder, GraphSet, computed, structure
from cgipool.data.computed import kept
from cgipool.data.structure import laplacian_encodings, return_probabilities
from small import random_graphs

VALUES = np.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def always(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Training, with an entry however short a computation is."""
    monkeypatch.setattr(computed, "LONG", 0.0)
    with computed.writing():
        yield own_cache / "computed"


class Counted:
    """A computation that counts how often it is done."""

    def __init__(self, **values: Any) -> None:
        self.times, self.values = 0, values or {"found": VALUES, "more": np.array([1], np.int32)}

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return self.values


def test_it_is_computed_once() -> None:
    compute = Counted()
    for _ in range(2):
        found = kept("this 1", [VALUES, None], compute)
        assert found.keys() == {"found", "more"}
        np.testing.assert_array_equal(found["found"], VALUES)
        assert found["more"].dtype == np.int32
    assert compute.times == 1


@pytest.mark.parametrize(
    ("what", "reads"),
    [
        ("this 2", [VALUES, None]),
        ("this 1", [VALUES + 1, None]),
        ("this 1", [VALUES.T, None]),
        ("this 1", [VALUES.astype(np.float32), None]),
        ("this 1", [None, VALUES]),
    ],
)
def test_anything_else_is_computed_anew(what: str, reads: list[Any]) -> None:
    compute = Counted()
    kept("this 1", [VALUES, None], compute)
    kept(what, reads, compute)
    assert compute.times == 2


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def _link(path: Path) -> None:
    aside = path.with_name("aside")
    path.rename(aside)
    path.symlink_to(aside)


@pytest.mark.parametrize("harm", [_damage, _link, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("kind", ["found.npy", "json"])
def test_a_damaged_entry_is_computed_again(kind: str, harm: Callable[[Path], None], always: Path) -> None:
    compute = Counted()
    kept("this 1", [VALUES], compute)
    (path,) = always.glob(f"*.{kind}")
    harm(path)
    np.testing.assert_array_equal(kept("this 1", [VALUES], compute)["found"], VALUES)
    assert compute.times == 2
    assert not path.is_symlink()
    kept("this 1", [VALUES], compute)
    assert compute.times == 2, "the entry is whole again"


def test_pickles_are_not_loaded(always: Path) -> None:
    """Not even where the digests are those of the file."""
    compute = Counted()
    kept("this 1", [VALUES], compute)
    (path,) = always.glob("*.found.npy")
    np.save(path, np.array([print], dtype=object), allow_pickle=True)
    (index,) = always.glob("*.json")
    content = computed.unsealed(computed.json.loads(index.read_text()))
    content["arrays"]["found"] = hashlib.sha256(path.read_bytes()).hexdigest()
    computed.write_json(index, computed.sealed(content))
    kept("this 1", [VALUES], compute)
    assert compute.times == 2


def test_short_computations_leave_no_entry(monkeypatch: pytest.MonkeyPatch, always: Path) -> None:
    monkeypatch.setattr(computed, "LONG", 60.0)
    compute = Counted()
    for _ in range(2):
        kept("this 1", [VALUES], compute)
    assert compute.times == 2
    assert not list(always.glob("*.json"))


def test_predictions_read_entries_and_write_none(always: Path) -> None:
    compute = Counted()
    context = contextvars.Context()  # as outside of `writing`
    for _ in range(2):
        context.run(kept, "this 1", [VALUES], compute)
    assert compute.times == 2
    assert not always.exists()
    kept("this 1", [VALUES], compute)
    context.run(kept, "this 1", [VALUES], compute)
    assert compute.times == 3


def test_a_folder_that_cannot_be_written_costs_no_more_than_time(always: Path) -> None:
    always.parent.mkdir(parents=True)
    always.write_text("no folder")
    np.testing.assert_array_equal(kept("this 1", [VALUES], Counted())["found"], VALUES)


def test_entries_that_were_not_used_for_longest_go_first(monkeypatch: pytest.MonkeyPatch, always: Path) -> None:
    monkeypatch.setattr(computed, "LIMIT", 2500)
    counts = [Counted(found=np.full(100, float(i))) for i in range(3)]  # 928 bytes each
    for i in range(2):
        kept(f"{i}", [VALUES], counts[i])
    for i, path in enumerate(sorted(always.glob("*.json"), key=lambda place: place.stat().st_mtime_ns)):
        os.utime(path, (i + 1, i + 1))
    kept("0", [VALUES], counts[0])  # entry 1 is now the one that was not used for longest
    kept("2", [VALUES], counts[2])
    assert len(list(always.glob("*.json"))) == len(list(always.glob("*.npy"))) == 2
    kept("0", [VALUES], counts[0])
    kept("1", [VALUES], counts[1])
    assert [count.times for count in counts] == [1, 2, 1]


def graphs(seed: int = 1) -> GraphSet:
    """Graphs with the label column of few values, so that some colours are common."""
    made = random_graphs(seed, [6] * 40)
    assert made.category is not None
    return replace(made, category=made.category[:, 1:].copy(), category_names=made.category_names[1:])


def _colours(loaded: GraphSet) -> list[Any]:
    encoder = Encoder.fit(loaded, wl=2)
    return [encoder.values, encoder.merged, np.asarray(encoder.encode(loaded).category).tolist()]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("_walk", lambda loaded: return_probabilities(loaded, 5).tolist()),
        ("_eigenspaces", lambda loaded: laplacian_encodings(loaded, 3).tolist()),
        ("refined", _colours),
    ],
)
def test_two_loads_of_a_set_compute_its_structure_once(
    name: str, read: Callable[[GraphSet], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, times = getattr(structure, name), []

    def counting(*arguments: Any) -> Any:
        times.append(1)
        return inner(*arguments)

    monkeypatch.setattr(structure, name, counting)
    graphs().save(tmp_path / "set")
    first = read(GraphSet.load(tmp_path / "set"))
    count = len(times)
    assert count > 0
    assert read(GraphSet.load(tmp_path / "set", mmap=True)) == first
    assert len(times) == count
    read(graphs(2))
    assert len(times) > count, "other graphs have entries of their own"


def test_colours_depend_on_the_names_of_labels() -> None:
    one = graphs()
    other = replace(one, category_names=tuple(names[::-1] for names in one.category_names))
    found = [values for values in _colours(one)[0][1:] if values]
    assert found
    assert found != [values for values in _colours(other)[0][1:] if values]


class Slow:
    """A computation that leaves a file each time, in whichever process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> dict[str, Any]:
        (self.folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(0.5)
        return {"found": VALUES}


def _in_a_process(compute: Slow) -> float:
    with computed.writing():
        return float(kept("slow 1", [VALUES], compute)["found"].sum())


def test_processes_wait_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # `LONG` of the other processes is what it is
    monkeypatch.setenv("CGIPOOL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "times").mkdir()
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(_in_a_process, [Slow(tmp_path / "times")] * 2))
    assert found == [VALUES.sum()] * 2
    assert len(list((tmp_path / "times").iterdir())) == 1
