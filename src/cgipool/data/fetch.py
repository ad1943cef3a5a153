"""Download a TU archive into the cache. An incomplete or damaged download is never kept."""

import hashlib
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from cgipool.data.archive import DAMAGE, first_line
from cgipool.data.caches import cache_folder
from cgipool.data.catalogue import CATALOGUE
from cgipool.data.tu import class_counts
from cgipool.errors import UserError, excerpt, unknown
from cgipool.files import private_folder, read_json, sync_folder

MIRROR = "https://www.chrsmrrs.com/graphkerneldatasets"
BLOCK = 1 << 18
TIMEOUT = 30.0
"""Seconds without data after which a connection counts as lost."""

Progress = Callable[[int, int | None], None]
"""Called with the bytes received so far and the total, which is None if the server does not send it."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web addresses, but never from https to http."""

    def redirect_request(self, request: Any, *rest: Any) -> urllib.request.Request | None:
        """The request for the new address, which is the last argument. Raise UserError if it must not be followed."""
        scheme, before = urllib.parse.urlsplit(rest[-1]).scheme, request.type
        if scheme not in ("http", "https") or (before == "https" and scheme != "https"):
            raise UserError(f"{request.full_url} redirects to {excerpt(rest[-1])}; only https is followed from https")
        return super().redirect_request(request, *rest)


def fetch(name: str, progress: Progress | None = None) -> Path:
    """Download NAME.zip from CGIPOOL_MIRROR, by default the TU site. Its URL, size and SHA-256 are written next to it.

    The default address is https, and redirects must be https too. CGIPOOL_MIRROR may be any address.
    """
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
                stream.flush()
                os.fsync(stream.fileno())
            _prove(url, name, fresh)
            note.write_text(json.dumps({"url": url, "size": size, "sha256": digest}), encoding="utf-8")
            os.replace(note, _note(target))
            os.replace(fresh, target)
            sync_folder(target.parent)
    except OSError as error:
        raise UserError(f"cannot write {name} to {target.parent}: {error.strerror or error}") from error
    return target


def check_note(archive: Path, digest: str) -> None:
    """Raise UserError if an archive does not have the SHA-256 that was recorded when it was downloaded."""
    note = _note(archive)
    if not note.is_file():
        return
    kept = read_json(note)
    noted = kept.get("sha256") if isinstance(kept, dict) else None
    if noted != digest:
        again = f"run `cgipool data fetch {archive.stem}` to download it again, or delete {note}"
        raise UserError(f"{archive} is not the file that was downloaded: its SHA-256 differs; {again}")


def _note(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.json")


def _download(url: str, stream: IO[bytes], progress: Progress | None) -> tuple[int, str]:
    """Copy the body of a URL to a stream; return its size and SHA-256."""
    digest = hashlib.sha256()
    size = 0
    try:
        response = urllib.request.build_opener(_Redirects()).open(url, timeout=TIMEOUT)
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


def _prove(url: str, name: str, path: Path) -> None:
    """Raise UserError unless the file is an intact zip archive of this data set."""
    try:
        graphs, classes = class_counts(path)
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except UserError as error:
        raise UserError(f"{url} is not a valid TU archive: {str(error).replace(str(path), path.name)}") from None
    except (*DAMAGE, ValueError) as error:
        raise UserError(f"{url} is not a valid zip archive: {first_line(error)}") from None
    if bad is not None:
        raise UserError(f"{url} is not a valid zip archive: {excerpt(bad)} is damaged")
    if difference := CATALOGUE[name].difference(graphs, classes):
        raise UserError(f"{url} is not the public data set {name}: {difference}")
