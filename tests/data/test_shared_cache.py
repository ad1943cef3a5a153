"""Several processes that load one data set at the same instant, into a cache that they share."""

import threading
from pathlib import Path
from typing import Any

import pytest
from random_sets import assert_equal, write_tu

from cgipool.data import GraphSet, load_dataset, read_tu, sources, store


class Together:
    """Several threads that load one set, each as a process of its own would."""

    def __init__(self, source: Path, count: int = 2) -> None:
        self.found: list[GraphSet | Exception] = []
        self.threads = [threading.Thread(target=self._load, args=(source,)) for _ in range(count)]
        self.barrier = threading.Barrier(count, timeout=20)

    def _load(self, source: Path) -> None:
        try:
            self.found.append(load_dataset(source, mmap=True))
        except Exception as error:
            self.found.append(error)

    def run(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join()


@pytest.mark.parametrize("large", [False, True])
def test_one_of_several_processes_parses(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """The others have looked into the cache, and wait."""
    write_tu(tmp_path / "small")
    monkeypatch.setattr(sources, "LARGE", 0 if large else 1 << 28)
    together, parsed = Together(tmp_path / "small", 3), []
    alone, keep = sources._one_at_a_time, sources._keep

    def meeting(entry: Path) -> Any:
        together.barrier.wait()
        return alone(entry)

    monkeypatch.setattr(sources, "_one_at_a_time", meeting)
    monkeypatch.setattr(sources, "_keep", lambda *given: (parsed.append(given), keep(*given)))
    together.run()
    assert len(parsed) == 1
    for found in together.found:
        assert isinstance(found, GraphSet), found
        assert_equal(found, read_tu(tmp_path / "small"))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("meet_at", ["look", "rename"])
def test_without_locks_several_processes_parse_and_one_entry_is_kept(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, large: bool, meet_at: str
) -> None:
    """Both have parsed before one looks whether the other was faster; or both have looked before one renames."""
    write_tu(tmp_path / "small")
    monkeypatch.setattr(sources, "LARGE", 0 if large else 1 << 28)
    monkeypatch.setattr(sources, "lock", lambda file, *, wait: None)
    together, swap, keep = Together(tmp_path / "small"), store._swap, sources._keep

    def late(*given: Any) -> None:
        together.barrier.wait()
        (swap if meet_at == "rename" else keep)(*given)

    monkeypatch.setattr(*((store, "_swap", late) if meet_at == "rename" else (sources, "_keep", late)))
    together.run()
    for found in together.found:
        assert isinstance(found, GraphSet), found
        assert_equal(found, read_tu(tmp_path / "small"))
    (entry,) = (own_cache / "parsed").iterdir()
    assert_equal(GraphSet.load(entry), read_tu(tmp_path / "small"))


def test_an_entry_that_came_meanwhile_is_not_replaced(tmp_path: Path, own_cache: Path) -> None:
    """Another process may have it mapped."""
    write_tu(tmp_path / "small")
    load_dataset(tmp_path / "small")
    (entry,) = (own_cache / "parsed").iterdir()
    before = (entry / "node_ptr.npy").stat().st_ino
    sources._keep(tmp_path / "small", None, entry)
    assert (entry / "node_ptr.npy").stat().st_ino == before
