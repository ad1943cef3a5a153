"""Load a data set by name or path. It is parsed once; later loads read the parsed arrays from the cache."""

import hashlib
import os
import shlex
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from cgipool.data.caches import cache_folder
from cgipool.data.catalogue import CATALOGUE, extra_of
from cgipool.data.digests import content_of
from cgipool.data.fetch import Progress, check_note, fetch
from cgipool.data.generated import GENERATED
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.read import detect, solubility
from cgipool.data.spill import Work
from cgipool.data.store import LARGE, content_digest, is_large, is_saved, replacing
from cgipool.data.tu import has_classes, has_targets, read_tu, text_size, tu_parts
from cgipool.data.writer import GraphSetWriter
from cgipool.errors import UserError, unknown
from cgipool.files import check_regular, lock, open_lock, sha256_of_file

READER = 2
"""The version of the reader. It is increased when the same archive is read differently, so that old cache entries are
not used."""


def load_dataset(
    name_or_path: str | Path,
    *,
    cache: bool = True,
    mmap: bool = False,
    unlabelled: bool = False,
    progress: Progress | None = None,
) -> GraphSet:
    """Load a data set by path (zip archive, TU folder, saved GraphSet) or by its name in `CATALOGUE`, ignoring case.

    A name is searched as NAME.zip or NAME/ in the folder CGIPOOL_DATA, then in the cache, then downloaded. `mmap`
    memory-maps the arrays, which needs the cache or a saved set; large arrays (`store.LARGE`) are always memory-mapped.
    A TU set without graph labels is an error unless `unlabelled` is set, as for predictions. `progress` is called
    during a download.
    """
    if not isinstance(name_or_path, str | os.PathLike):
        kind = type(name_or_path).__name__
        raise UserError(
            f"a data set is a GraphSet, a name or a path, not {kind}; convert it with GraphSet.from_pyg or "
            "GraphSet.from_networkx"
        )
    path, name = Path(name_or_path), None
    if not _holds_data(path):
        name = _known_name(str(name_or_path))
        if name in GENERATED:
            return GENERATED[name]()
        if name is not None and extra_of(name) and find(name) is None:
            return solubility()
        path = path if name is None else find(name) or _fetched(name, progress)
    check_regular(path)
    if is_saved(path):
        graphs, digest = GraphSet.load(path, mmap=mmap or is_large(path)), content_digest(path)
    else:
        _check_form(path, unlabelled)
        unlabelled = unlabelled and not (has_classes(path) or has_targets(path))
        graphs, digest = _parsed(path, mmap, unlabelled) if cache else (read_tu(path, unlabelled=unlabelled), None)
    if name is not None:
        _confirm(name, path, graphs, digest)
    return graphs


def _confirm(name: str, path: Path, graphs: GraphSet, digest: str | None) -> None:
    """Raise UserError if data found under a name of the catalogue are not that data set."""
    if name not in CATALOGUE:
        return
    difference = CATALOGUE[name].difference(graphs.n_graphs, graphs.n_classes)
    if difference is None and CATALOGUE[name].content:
        found = digest or content_of(graphs)
        if found != CATALOGUE[name].content:
            difference = f"its content has the SHA-256 {found[:12]}…, not {CATALOGUE[name].content[:12]}…"
    if difference is not None:
        raise UserError(f"{path} is not the public data set {name}: {difference}; to use it anyway, give its path")


def _fetched(name: str, progress: Progress | None) -> Path:
    """Download the archive of that name. If this fails, the message also names a CGIPOOL_DATA that does not exist."""
    try:
        return fetch(name, progress)
    except UserError as error:
        folder = data_folder()
        if folder is None or folder.is_dir():
            raise
        raise UserError(f"{error} (and CGIPOOL_DATA names {folder}, which is not a folder)") from None


def _check_form(path: Path, unlabelled: bool) -> None:
    """Raise UserError if the data must be imported first, with the command, or if a folder has no known format."""
    try:
        form = detect(path)
    except UserError:
        if path.is_dir():
            raise
        return  # the reader of archives reports what is wrong with a file
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
    """The name with the spelling of the catalogue or the data folder; None for an existing path without data."""
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
    """The path of a named set on this machine: in the folder CGIPOOL_DATA, else in the cache; None if in neither."""
    for folder in (data_folder(), cache_folder()):
        for path in () if folder is None else (folder / f"{name}.zip", folder / name):
            if _holds_data(path):
                return path
    return None


def _parsed(path: Path, mmap: bool, unlabelled: bool) -> tuple[GraphSet, str | None]:
    """The set and its digest, from the cache if the same content was parsed before; otherwise it is parsed and cached.

    If the cache cannot be written, a set that is not large is still returned, with the digest None. A damaged entry is
    replaced with a warning.
    """
    kind = "-unlabelled" if unlabelled else ""
    entry = cache_folder() / "parsed" / f"{path.stem}-{_fingerprint(path)}{kind}"
    try:
        return _of_cache(entry, mmap)
    except UserError as error:
        if os.path.lexists(entry):
            warnings.warn(f"{error}; {path} is parsed again", stacklevel=3)
    with _one_at_a_time(entry):
        return _parsed_now(path, entry, mmap, unlabelled)


@contextmanager
def _one_at_a_time(entry: Path) -> Iterator[None]:
    """Let only one process at a time parse a set into a shared cache, if files can be locked."""
    locks = cache_folder() / "locks"
    with ExitStack() as stack:
        with suppress(OSError):
            locks.mkdir(parents=True, exist_ok=True)
            lock(stack.enter_context(open_lock(locks / entry.name)), wait=True)
        yield


def _parsed_now(path: Path, entry: Path, mmap: bool, unlabelled: bool) -> tuple[GraphSet, str | None]:
    with suppress(UserError):  # another process may have parsed it in the meantime
        return _of_cache(entry, mmap)
    small = read_tu(path, unlabelled=unlabelled) if text_size(path) < LARGE else None
    try:
        _keep(path, small, entry, unlabelled)
        if small is None or mmap:
            return _of_cache(entry, mmap)
    except UserError:
        with suppress(UserError):  # another process may have just written it
            return _of_cache(entry, mmap)
        if small is None:
            raise
    return small, None


def _keep(path: Path, small: GraphSet | None, entry: Path, unlabelled: bool = False) -> None:
    """Write a set into the cache, part by part if it is not in memory.

    An entry that another process has written in the meantime is not replaced: on a network file system, a process that
    has it open could lose it.
    """
    if os.path.lexists(entry) and not is_saved(entry):  # a damaged entry, which `replacing` would not overwrite
        _remove(entry)
    with replacing(entry, path.stem, partial(_is_whole, entry)) as fresh, GraphSetWriter(fresh) as writer:
        for part in tu_parts(path, Work(fresh.parent), unlabelled) if small is None else (small,):
            writer.append(part)


def _is_whole(entry: Path) -> bool:
    try:
        _of_cache(entry, mmap=True)
    except UserError:
        return False
    return True


def _remove(entry: Path) -> None:
    """Remove whatever has the path of an entry, without following a link."""
    try:
        entry.unlink() if entry.is_symlink() or not entry.is_dir() else shutil.rmtree(entry)
    except OSError as error:
        raise UserError(f"cannot replace {entry}: {error.strerror or error}") from None


def _of_cache(entry: Path, mmap: bool) -> tuple[GraphSet, str]:
    """Load an entry and its digest. Entries without a digest, which old versions wrote, are not read."""
    try:
        digest = content_digest(entry)
        if digest is None:
            raise UserError(f"{entry} has no digest")
        return GraphSet.load(entry, mmap=mmap or is_large(entry), checked=True), digest
    except OSError as error:
        raise UserError(f"cannot read {entry}: {error.strerror or error}") from None


def _fingerprint(path: Path) -> str:
    """A hash of an archive's content, or of a folder's path and its files' names, sizes and times.

    The SHA-256 of a downloaded archive is compared with the one that was recorded at the download.
    """
    digest = hashlib.sha256(f"reader {READER}".encode())
    try:
        if path.is_dir():
            digest.update(os.fsencode(path.resolve()))
            for file in sorted(path.iterdir()):
                status = file.stat()
                times = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
                digest.update(os.fsencode(file.name) + f" {times}\n".encode())
        else:
            found = sha256_of_file(path)
            check_note(path, found)
            digest.update(found.encode())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    return digest.hexdigest()[:24]
