"""Claims on cells: which run trains which cell, on a local or a shared file system, without a server. No torch.

A claim is a file that only one process can create; its modification time is the last heartbeat. KEY.json is the first
claim on a cell. A process that finds an expired claim takes over by creating KEY.after-TOKEN, with the token of the
expired claim. The claims on a cell thus form a chain, and its last link is the valid one. Files are never renamed or
overwritten, so:

* Of several processes, exactly one takes over an expired claim, because the file system lets only one create the file.
* A delayed process fails, because the claim it saw already has a successor. If all claims were released in the
  meantime, it can create its file. So after creating a file, each process checks that the chain leads from KEY.json to
  it, and otherwise removes it. In this case the chain does not: KEY.json is removed before its successors, and tokens
  are random and used once.
* A process that releases a claim first adds a link to its own claim. If that fails, another process has taken over, and
  nothing is removed; otherwise no process can take over while it removes files. If it dies there, its last link expires
  like any other.
* A process that was suspended beyond its expiry believes that it still holds its claim until it checks; no file can
  prevent this.
"""

import errno
import io
import json
import os
import re
import secrets
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from cgipool.errors import UserError, excerpt
from cgipool.files import open_without_links

TOKEN = re.compile("[0-9a-f]{16}")
LONGEST = 4096
"""Maximum number of bytes read of a claim; a claim has a few hundred."""


@dataclass(frozen=True)
class Holder:
    """The holder of a cell: who it is, since when (ISO time, UTC), and the seconds since the last heartbeat."""

    host: str
    pid: int
    since: str
    age: float
    expired: bool


class Claims:
    """The claims in a folder. All processes that use it must agree on `expiry`, and send heartbeats much more often."""

    def __init__(self, folder: Path, *, expiry: float = 120.0, beat: float = 15.0) -> None:
        self.folder, self.expiry, self.beat = folder, expiry, beat

    def take(self, key: str) -> "Claim | None":
        """Claim a cell; None if a live process has claimed it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            last = _last(self.folder, key)
            if last is not None and not self._seen(last).expired:
                return None
            mine = _succeed(self.folder, key, last)
        except OSError as error:
            raise UserError(f"cannot claim cells in {self.folder}: {error.strerror or error}") from error
        return None if mine is None else Claim(self.folder, key, mine, self.beat)

    def holder(self, key: str) -> Holder | None:
        """Return the holder of a cell."""
        try:
            last = _last(self.folder, key)
            return None if last is None else self._seen(last)
        except OSError as error:
            raise UserError(f"cannot see the claims in {self.folder}: {error.strerror or error}") from error

    def _seen(self, link: "_Link") -> Holder:
        # A clock that was set back leaves heartbeats in the future. A holder that lives beats again with the new time;
        # a heartbeat far ahead is as dead as one far behind.
        age = abs(_clock(self.folder) - link.beaten)
        return Holder(link.host, link.pid, link.since, age, age > self.expiry or _gone(link))


class Claim:
    """A claimed cell. A thread sends heartbeats until the claim is released or another process has taken it over."""

    def __init__(self, folder: Path, key: str, link: "_Link", beat: float) -> None:
        self.key, self.lost = key, False
        self._folder, self._link, self._beat = folder, link, beat
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"claim {key}", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Release the claim. If another process has taken it over, no file is removed."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        # A claim that cannot be released (disk full, no permission) gets no more heartbeats and expires.
        with suppress(OSError):
            self.lost = _succeed(self._folder, self.key, self._link) is None
            # List them while KEY.json exists: later files may belong to another chain.
            successors = list(self._folder.glob(f"{self.key}.after-*"))
            for path in [] if self.lost else [self._folder / f"{self.key}.json", *successors]:
                path.unlink(missing_ok=True)

    def look(self) -> bool:
        """Check now whether this process still holds the cell; `lost` is the state at the last heartbeat."""
        # A shared file system may fail temporarily; the next check tries again.
        with suppress(OSError):
            last = _last(self._folder, self.key)
            self.lost = self.lost or last is None or last.token != self._link.token
        return not self.lost

    def _keep(self) -> None:
        while not self._over.wait(self._beat) and self.look():
            with suppress(OSError):
                os.utime(self._link.path, follow_symlinks=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True)
class _Link:
    """One claim in the chain of a cell; the defaults are those of a file that does not name its holder."""

    path: Path
    token: str
    host: str = "unknown"
    boot: str = ""
    pid: int = 0
    since: str = ""
    beaten: float = 0.0


def _last(folder: Path, key: str) -> _Link | None:
    return [None, *_chain(folder, key)][-1]


def _chain(folder: Path, key: str) -> Iterator[_Link]:
    path, seen = folder / f"{key}.json", set[str]()
    while (link := _read(path)) is not None and link.token not in seen:  # a copied file would make a cycle
        yield link
        seen.add(link.token)
        path = folder / f"{key}.after-{link.token}"


def _succeed(folder: Path, key: str, last: _Link | None) -> _Link | None:
    """Add the last link to the chain; None if another process did so first."""
    path = folder / (f"{key}.json" if last is None else f"{key}.after-{last.token}")
    link = _Link(path, secrets.token_hex(8), *_here(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))
    fields = {name: value for name, value in vars(link).items() if name not in ("path", "beaten")}
    try:
        with path.open("xb", buffering=0) as file:
            _write(file, json.dumps(fields).encode(), path)
    except FileExistsError:
        return None
    found = any(link.token == other.token for other in _chain(folder, key))
    if not found and last is not None:
        path.unlink(missing_ok=True)
    return link if found else None


def _write(file: io.FileIO, text: bytes, path: Path) -> None:
    """Write a new claim. If that fails, for example because the disk is full, the file is removed: it would block the
    cell. No process can have taken it over yet, as it has not expired."""
    try:
        if file.write(text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _read(path: Path) -> _Link | None:
    """Read a claim. A file that cannot be read (yet) belongs to nobody, and is valid until it expires."""
    try:
        # Opening a file asks an NFS server for its times; a plain stat may be answered from the cache.
        handle = open_without_links(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return None
        if error.errno != errno.ELOOP:
            raise
        status, text = path.lstat(), b""  # a link does not identify a holder, wherever it points
    else:
        try:
            status = os.fstat(handle)
            text = os.read(handle, LONGEST) if stat.S_ISREG(status.st_mode) else b""
        finally:
            os.close(handle)
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        value = json.loads(text)
        words = {name: excerpt(str(value[name])) for name in ("token", "host", "boot", "since")}
        if TOKEN.fullmatch(words["token"]) and type(value["pid"]) is int and 0 < value["pid"] < 2**31:
            return _Link(path, pid=value["pid"], beaten=status.st_mtime, **words)
    return _Link(path, f"{status.st_ino:x}-{status.st_mtime_ns:x}", beaten=status.st_mtime)


def _clock(folder: Path) -> float:
    """The current time on the file system that stamps the heartbeats; the clocks of hosts differ."""
    with tempfile.TemporaryFile(dir=folder) as file:
        os.utime(file.fileno())
        return os.fstat(file.fileno()).st_mtime


def _here() -> tuple[str, str]:
    """The name of this host and its boot id, which is empty if the system has none."""
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # Containers of one machine share the boot, and often the name, but not the numbers of processes.
        boot += f" {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname(), boot


def _gone(link: _Link) -> bool:
    """Whether the holder is certainly dead. Without a boot id, two hosts with the same name could be confused."""
    if link.boot and (link.host, link.boot) == _here():
        try:
            os.kill(link.pid, 0)
        except OSError as error:
            return error.errno == errno.ESRCH
        # A process that has ended is listed until its parent waits for it: in a container, perhaps forever.
        with suppress(OSError, IndexError):
            return Path(f"/proc/{link.pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] == b"Z"
    return False
