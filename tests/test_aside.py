"""Private folders: gone in the end, also those of killed processes, and never those of living ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cgipool import files as aside
from cgipool.cli import main
from cgipool.data import GraphSet, motifs, sources
from cgipool.files import PREVIOUS, private_folder

WRITES = """
import sys
from pathlib import Path
from cgipool.files import private_folder
with private_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half of it")
    print(folder, flush=True)
    sys.stdin.read()
"""


@contextmanager
def writing(place: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Another process that has a private folder, until it is told to end."""
    command = [sys.executable, "-c", WRITES, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def hidden(folder: Path) -> list[Path]:
    return list(folder.glob(".*"))


def test_what_a_killed_process_left_is_removed_and_a_living_ones_is_not(tmp_path: Path) -> None:
    place = tmp_path / "set"
    with writing(place) as (process, left):
        assert left.parent == tmp_path
        with private_folder(place) as mine:
            assert sorted(hidden(tmp_path)) == sorted([mine, left]), "it lives"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert hidden(tmp_path) == [left]
    text = tmp_path / "text"
    text.mkdir()
    for part, lines in {"A": "1,2\n2,1\n", "graph_indicator": "1\n1\n2\n", "graph_labels": "0\n1\n"}.items():
        (text / f"text_{part}.txt").write_text(lines)
    assert main(["data", "import", str(text), "--out", str(place)]) == 0
    assert hidden(tmp_path) == []
    assert GraphSet.load(place).n_graphs == 2


def abandoned(place: Path, machine: str) -> Path:
    """A private folder whose process is gone."""
    left = place.with_name(f".{place.name}-left")
    left.mkdir()
    (left / aside.LOCK).write_text(machine)
    return left


def test_what_was_about_to_be_replaced_comes_back(tmp_path: Path) -> None:
    """Killed between two renames, a process leaves the place empty."""
    place = tmp_path / "set"
    left = abandoned(place, aside.socket.gethostname())
    motifs(20).save(left / PREVIOUS)
    with private_folder(place):
        assert GraphSet.load(place).n_graphs == 20
    assert hidden(tmp_path) == []


def test_what_another_place_is_owed_stays(tmp_path: Path) -> None:
    left = abandoned(tmp_path / "set-2", aside.socket.gethostname())
    motifs(20).save(left / PREVIOUS)
    motifs(30).save(tmp_path / "set")
    assert hidden(tmp_path) == [left]
    with private_folder(tmp_path / "set-2"):
        assert GraphSet.load(tmp_path / "set-2").n_graphs == 20


@pytest.mark.parametrize("machine", ["another", "here"])
def test_what_cannot_be_judged_is_left(tmp_path: Path, machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine's, and all where there are no locks."""
    place = tmp_path / "set"
    left = abandoned(place, machine)
    monkeypatch.setattr(aside.socket, "gethostname", lambda: "here")
    monkeypatch.setattr(aside, "lock", lambda file, *, wait: None)
    with private_folder(place) as mine:
        assert not (mine / aside.LOCK).exists()
    assert hidden(tmp_path) == [left]


def test_a_lock_that_is_a_link_is_neither_followed_nor_emptied(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (tmp_path / "link").symlink_to(outside)
    with pytest.raises(OSError, match=r"link"):
        aside.open_lock(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        aside.open_lock(tmp_path / "pipe")
    with aside.open_lock(outside) as file:
        assert aside.lock(file, wait=False)
    assert outside.read_text() == "precious"


def test_parsing_a_set_does_not_empty_what_its_lock_links_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGIPOOL_CACHE", str(tmp_path / "cache"))
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (tmp_path / "cache" / "locks").mkdir(parents=True)
    (tmp_path / "cache" / "locks" / "entry").symlink_to(outside)
    with sources._one_at_a_time(tmp_path / "cache" / "parsed" / "entry"):
        pass
    assert outside.read_text() == "precious"


def test_a_pipe_in_place_of_a_lock_does_not_block(tmp_path: Path) -> None:
    place = tmp_path / "set"
    (tmp_path / ".set-left").mkdir()
    os.mkfifo(tmp_path / ".set-left" / aside.LOCK)
    with private_folder(place):
        pass
    assert hidden(tmp_path) == [tmp_path / ".set-left"]
