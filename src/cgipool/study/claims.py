"""Who has a cell in hand, on a local or a shared file system, without any server. No torch.

A claim is a file that only one can create; its time of change is the last heartbeat. KEY.json is the first claim on a
cell. Who finds a claim expired succeeds to it by creating KEY.after-TOKEN, with the token of the expired claim; so the
claims on a cell are a chain, whose last link counts. Nothing is renamed or written over, and therefore:

* Exactly one of many contenders succeeds to an expired claim, as the file system lets one create the file.
* A contender that was delayed fails, as the claim it saw has its successor. If all was released meanwhile it can create
  its file; so everyone looks, after creating, whether the chain leads from KEY.json to that file, and takes it back if
  not. It does not: KEY.json is removed before any successor, and tokens are random and come once.
* Who releases succeeds to itself first. If that fails somebody took over, and nothing is removed; if not, nobody can
  take over between looking and removing. One who dies there leaves a last link that expires like any other.
* A holder that slept through its expiry believes in its claim until it looks, which no file can prevent.
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
"""Bytes of a claim that are read; one is a few hundred long."""


@dataclass(frozen=True)
class Holder:
    """Who has a cell in hand, since when (ISO time, UTC), and how many seconds ago its last heartbeat was."""

    host: str
    pid: int
    since: str
    age: float
    expired: bool


class Claims:
    """The claims in a folder. Two who contend for a key must agree on `expiry`, and beat well within it."""

    def __init__(self, folder: Path, *, expiry: float = 120.0, beat: float = 15.0) -> None:
        self.folder, self.expiry, self.beat = folder, expiry, beat

    def take(self, key: str) -> "Claim | None":
        """Take a cell in hand; None where somebody else has it and is alive."""
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
        """Who has a cell in hand now."""
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
    """A cell in hand. A thread keeps it alive until it is released, or until somebody else has taken it over."""

    def __init__(self, folder: Path, key: str, link: "_Link", beat: float) -> None:
        self.key, self.lost = key, False
        self._folder, self._link, self._beat = folder, link, beat
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"claim {key}", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Give the cell back; where it is no longer ours nothing is removed."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        # What cannot be released, for want of space or rights, is not beaten any more and expires by itself.
        with suppress(OSError):
            self.lost = _succeed(self._folder, self.key, self._link) is None
            # Listed while KEY.json is there: successors that come later may be of another chain.
            successors = list(self._folder.glob(f"{self.key}.after-*"))
            for path in [] if self.lost else [self._folder / f"{self.key}.json", *successors]:
                path.unlink(missing_ok=True)

    def look(self) -> bool:
        """Whether the cell is still ours, looked up now: `lost` is as of the last beat."""
        # A shared file system may stumble; the next look asks again.
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
    """One claim in the chain of claims on a cell; the defaults are those of a file that does not say whose it is."""

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
    while (link := _read(path)) is not None and link.token not in seen:  # a copied file would lead in a circle
        yield link
        seen.add(link.token)
        path = folder / f"{key}.after-{link.token}"


def _succeed(folder: Path, key: str, last: _Link | None) -> _Link | None:
    """Become the last link of the chain; None where somebody was quicker."""
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
    """Write a new claim. One that cannot be written, as on a full disk, is removed: it would hold the cell for nobody.
    None can have succeeded to it yet, as it has not expired."""
    try:
        if file.write(text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _read(path: Path) -> _Link | None:
    """The claim in a file. One that cannot be read, or not yet, is nobody's, and alive until it is old."""
    try:
        # To open a file is to ask an NFS server for its times; a plain stat may be answered from the cache.
        handle = open_without_links(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return None
        if error.errno != errno.ELOOP:
            raise
        status, text = path.lstat(), b""  # a link says nothing of who holds the cell, wherever it leads
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
    """What time it is for the file system that stamps the heartbeats; the clocks of hosts differ."""
    with tempfile.TemporaryFile(dir=folder) as file:
        os.utime(file.fileno())
        return os.fstat(file.fileno()).st_mtime


def _here() -> tuple[str, str]:
    """This host and its boot, empty where the system does not tell."""
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # Containers of one machine share the boot, and often the name, but not the numbers of processes.
        boot += f" {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname(), boot


def _gone(link: _Link) -> bool:
    """Whether the holder is known to be dead. Without a boot id two hosts of one name could not be told apart."""
    if link.boot and (link.host, link.boot) == _here():
        try:
            os.kill(link.pid, 0)
        except OSError as error:
            return error.errno == errno.ESRCH
        # One that has ended is listed until its parent asks how: in a container, where none may ask, for ever.
        with suppress(OSError, IndexError):
            return Path(f"/proc/{link.pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] == b"Z"
    return False
