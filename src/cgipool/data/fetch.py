"""Download a TU archive into the cache: whole and proven, or not at all."""

import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from cgipool.aside import private_folder
from cgipool.data.archive import DAMAGE, first_line
from cgipool.data.catalogue import CATALOGUE
from cgipool.errors import UserError, unknown

MIRROR = "https://www.chrsmrrs.com/graphkerneldatasets"
BLOCK = 1 << 18
TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as lost."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes so far, and in all where the server says."""


def cache_folder() -> Path:
    """Where downloads and parsed sets are kept: CGIPOOL_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("CGIPOOL_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cgipool"


def fetch(name: str, progress: Progress | None = None) -> Path:
    """Download NAME.zip from CGIPOOL_MIRROR (by default the TU site); its address, size and SHA-256 go beside it."""
    if name not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    url = f"{os.environ.get('CGIPOOL_MIRROR') or MIRROR}/{name}.zip"
    target = cache_folder() / f"{name}.zip"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with private_folder(target) as aside:
            fresh, note = aside / target.name, aside / "note"
            with fresh.open("wb") as stream:
                size, digest = _download(url, stream, progress)
            _prove(url, fresh)
            note.write_text(json.dumps({"url": url, "size": size, "sha256": digest}), encoding="utf-8")
            os.replace(note, target.with_name(f"{target.name}.json"))
            os.replace(fresh, target)
    except OSError as error:
        raise UserError(f"cannot keep {name} in {target.parent}: {error.strerror or error}") from error
    return target


def _download(url: str, stream: IO[bytes], progress: Progress | None) -> tuple[int, str]:
    """Copy the body of a URL; its size and SHA-256."""
    digest = hashlib.sha256()
    size = 0
    try:
        response = urllib.request.urlopen(url, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            raise UserError(f"{url} answered {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UserError(f"cannot reach {url}: {getattr(error, 'reason', None) or error}") from None
    with response:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        while block := _receive(url, response):
            stream.write(block)
            digest.update(block)
            size += len(block)
            if progress is not None:
                progress(size, total)
    if total is not None and size != total:
        raise UserError(f"{url}: the connection was lost after {size} of {total} bytes")
    return size, digest.hexdigest()


def _receive(url: str, response: IO[bytes]) -> bytes:
    try:
        return response.read(BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise UserError(f"{url}: the connection was lost: {error}") from None


def _prove(url: str, path: Path) -> None:
    """Refuse what is not a sound zip archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except (*DAMAGE, ValueError) as error:
        raise UserError(f"{url} is not a sound zip archive: {first_line(error)}") from None
    if bad is not None:
        raise UserError(f"{url} is not a sound zip archive: {bad} is damaged")
