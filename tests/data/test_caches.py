"""Compiled kernels stay on the node where the home folder is shared."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cgipool.data import caches

TABLE = """\
overlay / overlay rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local ext4 rw 0 0
server:/old /data nfs rw 0 0
/dev/sdc1 /data xfs rw 0 0
server:/space /my\\040home lustre rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ann", "nfs4"),
        ("/home/local/ann", "ext4"),
        ("/homes", "overlay"),
        ("/data/x", "xfs"),
        ("/my home/x", "lustre"),
    ],
)
def test_the_longest_mount_counts_and_of_two_the_last(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / "mounts").write_text(TABLE)
    assert caches.file_system_of(Path(path), tmp_path / "mounts") == kind


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert caches.file_system_of(tmp_path, tmp_path / "none") is None


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder on a shared file system, by what the table says."""
    (tmp_path / "mounts").write_text(f"server:/home {tmp_path} nfs rw 0 0\n")
    monkeypatch.setattr(caches, "file_system_of", lambda path: "nfs")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(caches.VARIABLE, raising=False)
    return tmp_path


@pytest.mark.usefixtures("home")
def test_a_shared_home_is_left_alone() -> None:
    caches.keep_kernels_local()
    assert Path(os.environ[caches.VARIABLE]).parent == Path(tempfile.gettempdir())
    del os.environ[caches.VARIABLE]


@pytest.mark.usefixtures("home")
def test_the_users_choice_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(caches.VARIABLE, "/mine")
    caches.keep_kernels_local()
    assert os.environ[caches.VARIABLE] == "/mine"


def test_a_home_of_ones_own_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(caches.VARIABLE, raising=False)
    monkeypatch.setattr(caches, "file_system_of", lambda path: "ext4")
    caches.keep_kernels_local()
    assert caches.VARIABLE not in os.environ


def test_it_is_chosen_before_triton_compiles() -> None:
    pytest.importorskip("triton", reason="needs Triton")
    code = (
        "import os, cgipool.data.caches as c\n"
        "c.file_system_of = lambda path: 'lustre'\n"
        "import cgipool.ops.gpu.neighbors\n"
        "from triton import knobs\n"
        "print(knobs.cache.dir)"
    )
    environment = {name: value for name, value in os.environ.items() if name != caches.VARIABLE}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == str(Path(tempfile.gettempdir(), f"cgipool-kernels-{os.getuid()}")), done.stderr
