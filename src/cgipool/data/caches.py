"""Folders for downloads, parsed data sets and compiled kernels.

Triton keeps compiled kernels in the home folder. On a cluster that is often a network file system, which is slow to
lock and shared by nodes with different GPUs, so there they go to the node's own disk. Inductor's cache is in the
temporary folder of each node anyway.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from cgipool.errors import UserError

VARIABLE = "TRITON_CACHE_DIR"
SHARED = {
    "9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "panfs",
    "pvfs2", "smb3", "smbfs", "virtiofs", "wekafs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "fuse.quobyte",
}  # fmt: skip
"""File systems that several machines may have mounted."""

MOUNTS = Path("/proc/mounts")


def cache_folder() -> Path:
    """The folder for downloads and parsed data sets: CGIPOOL_CACHE, else cgipool in the user's cache folder.

    A user without a home folder, as in many containers, gets a private folder among the temporary files.
    """
    if chosen := os.environ.get("CGIPOOL_CACHE"):
        return Path(chosen)
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "cgipool"
    try:
        return Path.home() / ".cache" / "cgipool"
    except RuntimeError:  # no HOME, and the user id has no entry in the password database
        return _own_temporary_folder()


def _own_temporary_folder() -> Path:
    """Return a folder that only this user can write to, so that nothing in it comes from another user."""
    folder = Path(tempfile.gettempdir(), f"cgipool-{os.getuid()}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022:
            return folder
    raise UserError("there is no home folder for the cache; set CGIPOOL_CACHE to a folder")


def keep_kernels_local() -> None:
    """Choose the folder of Triton's cache, unless the user has chosen one: if the home folder is shared, a temporary
    folder to which nobody else may write."""
    if VARIABLE in os.environ or file_system_of(Path(os.path.expanduser("~"))) not in SHARED:
        return
    folder = Path(tempfile.gettempdir(), f"cgipool-kernels-{os.getuid()}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.lstat().st_uid == os.getuid():  # never run code that another user left there
            os.environ[VARIABLE] = str(folder)


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the type of the file system of a path; None if the system does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    above = {path.resolve(), *path.resolve().parents}
    found = [(Path(_plain(where)), kind) for _, where, kind, *_ in (line.split() for line in lines)]
    fitting = [(len(where.parts), kind) for where, kind in found if where in above]
    # If several file systems are mounted at one place, the last one is visible.
    return max(enumerate(fitting), key=lambda one: (one[1][0], one[0]))[1][1] if fitting else None


def _plain(text: str) -> str:
    """Decode escapes such as \\040 for a blank."""
    return text.encode().decode("unicode_escape") if "\\" in text else text
