"""A data set by name or path, parsed once: later loads take the parsed arrays from the cache."""

import hashlib
import os
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from cgipool.aside import lock
from cgipool.data.catalogue import CATALOGUE
from cgipool.data.fetch import Progress, cache_folder, fetch
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.read import detect
from cgipool.data.importers.solubility import solubility
from cgipool.data.motifs import motifs
from cgipool.data.spill import Work
from cgipool.data.store import LARGE, is_large, is_saved, replacing
from cgipool.data.tu import has_classes, read_tu, text_size, tu_parts
from cgipool.data.writer import GraphSetWriter
from cgipool.errors import UserError, unknown

READER = 1
"""Raised when the reader gives other arrays for the same archive, so that what an earlier one cached is not used."""


def load_dataset(
    name_or_path: str | Path,
    *,
    cache: bool = True,
    mmap: bool = False,
    unlabelled: bool = False,
    progress: Progress | None = None,
) -> GraphSet:
    """The set at a path (zip archive, TU folder, saved GraphSet) or of a name in `CATALOGUE`, in any case of letters.

    A name is looked for as NAME.zip or NAME/ in the folder CGIPOOL_DATA, then in the cache, then downloaded. `mmap`
    leaves the arrays on disk, which needs the cache or a saved set; large arrays (`store.LARGE`) are left there anyhow.
    `unlabelled` says that graphs without classes will do, as for predictions: a TU set without graph labels is an error
    otherwise. `progress` is told about a download.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        kind = type(name_or_path).__name__
        raise UserError(
            f"a data set is a GraphSet, a name or a path, not {kind}; GraphSet.from_pyg and from_networkx make one"
        )
    path = Path(name_or_path)
    if not _holds_data(path):
        name = _known_name(str(name_or_path))
        if name == "motifs":
            return motifs()
        if name == "solubility" and find(name) is None:
            return solubility()
        path = path if name is None else find(name) or _fetched(name, progress)
    if is_saved(path):
        return GraphSet.load(path, mmap=mmap or is_large(path))
    _check_form(path, unlabelled)
    unlabelled = unlabelled and not has_classes(path)
    return _parsed(path, mmap, unlabelled) if cache else read_tu(path, unlabelled=unlabelled)


def _fetched(name: str, progress: Progress | None) -> Path:
    """The archive of that name, downloaded; where that fails, a wrong CGIPOOL_DATA may be why it was tried."""
    try:
        return fetch(name, progress)
    except UserError as error:
        folder = data_folder()
        if folder is None or folder.is_dir():
            raise
        raise UserError(f"{error} (and CGIPOOL_DATA names {folder}, which is no folder)") from None


def _check_form(path: Path, unlabelled: bool) -> None:
    """An error that names the way in, where the path holds data that is to be imported first."""
    try:
        form = detect(path)
    except UserError:
        return  # of no known format: the TU reader says what is wrong with it
    if form != "tu":
        way = f"cgipool data import {shlex.quote(str(path))} --out DIR"
        way += " (with --unlabelled, if its graphs have no class)" if unlabelled else ""
        raise UserError(f"{path} is neither in the TU format nor a saved set; import it first: {way}")


def data_folder() -> Path | None:
    """The folder CGIPOOL_DATA where the user keeps data sets, if it is set."""
    chosen = os.environ.get("CGIPOOL_DATA")
    return Path(chosen) if chosen else None


def _holds_data(path: Path) -> bool:
    return path.is_file() or is_saved(path) or (path.is_dir() and any(path.glob("*_A.txt")))


def _known_name(given: str) -> str | None:
    """The name as the catalogue or the data folder spells it; None for a path that exists but is neither."""
    folder = data_folder()
    local = [] if folder is None or not folder.is_dir() else [p for p in folder.iterdir() if _holds_data(p)]
    names = [p.stem if p.suffix == ".zip" else p.name for p in local if p.is_dir() or p.suffix == ".zip"]
    spelt = {name.lower(): name for name in [*names, *CATALOGUE]}
    if given.lower() in spelt:
        return spelt[given.lower()]
    if Path(given).exists():
        return None
    if Path(given).suffix or Path(given).name != given:
        raise UserError(f"there is no data set at {given}")
    raise unknown("data set", given, spelt.values())


def find(name: str) -> Path | None:
    """Where the set of this name is on this machine: in the folder CGIPOOL_DATA, else in the cache; None if nowhere."""
    for folder in (data_folder(), cache_folder()):
        for path in () if folder is None else (folder / f"{name}.zip", folder / name):
            if _holds_data(path):
                return path
    return None


def _parsed(path: Path, mmap: bool, unlabelled: bool) -> GraphSet:
    """The set from the cache where this very content was parsed before, else parsed and kept there.

    A cache that cannot be written only means that nothing is kept, unless the set is large; a damaged entry is written
    anew.
    """
    kind = "-unlabelled" if unlabelled else ""
    entry = cache_folder() / "parsed" / f"{path.stem}-{_fingerprint(path)}{kind}"
    with suppress(UserError):
        return _of_cache(entry, mmap)
    with _alone(entry):
        return _parsed_now(path, entry, mmap, unlabelled)


@contextmanager
def _alone(entry: Path) -> Iterator[None]:
    """One process at a time parses a set into a cache that several may share. Where nothing can be written or locked,
    each does."""
    locks = cache_folder() / "locks"
    with ExitStack() as stack:
        with suppress(OSError):
            locks.mkdir(parents=True, exist_ok=True)
            lock(stack.enter_context((locks / entry.name).open("w", encoding="utf-8")), wait=True)
        yield


def _parsed_now(path: Path, entry: Path, mmap: bool, unlabelled: bool) -> GraphSet:
    with suppress(UserError):  # another process may have parsed it meanwhile
        return _of_cache(entry, mmap)
    small = read_tu(path, unlabelled=unlabelled) if text_size(path) < LARGE else None
    try:
        _keep(path, small, entry, unlabelled)
        if small is None or mmap:
            return _of_cache(entry, mmap)
    except UserError:
        with suppress(UserError):  # another process was faster by an instant
            return _of_cache(entry, mmap)
        if small is None:
            raise
    return small


def _keep(path: Path, small: GraphSet | None, entry: Path, unlabelled: bool = False) -> None:
    """Put a set into the cache, part by part unless it is there as a whole. What another process put there meanwhile is
    not replaced: who has it open might lose it, if the cache is on a network file system."""
    with replacing(entry, path.stem, partial(_is_whole, entry)) as fresh, GraphSetWriter(fresh) as writer:
        for part in tu_parts(path, Work(fresh.parent), unlabelled) if small is None else (small,):
            writer.append(part)


def _is_whole(entry: Path) -> bool:
    try:
        _of_cache(entry, mmap=True)
    except UserError:
        return False
    return True


def _of_cache(entry: Path, mmap: bool) -> GraphSet:
    try:
        return GraphSet.load(entry, mmap=mmap or is_large(entry), checked=True)
    except OSError as error:
        raise UserError(f"cannot read {entry}: {error.strerror or error}") from None


def _fingerprint(path: Path) -> str:
    """A hash of an archive's content, or of a folder's place, file names, sizes and times."""
    digest = hashlib.sha256(f"reader {READER}".encode())
    try:
        if path.is_dir():
            digest.update(str(path.resolve()).encode())
            for file in sorted(path.iterdir()):
                status = file.stat()
                digest.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\n".encode())
        else:
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    return digest.hexdigest()[:24]
