"""A GraphSet on disk: one .npy file per array and the index `graphset.json`. No pickle."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import DTYPES, REQUIRED, SAVED, TEXTS, outline
from cgipool.data.digests import Check, content, of_files
from cgipool.data.names import Texts
from cgipool.data.writer import FEATURES, FORMAT, INDEX, GraphSetWriter
from cgipool.errors import UserError, excerpt
from cgipool.files import (
    DIGEST,
    PREVIOUS,
    check_regular,
    parsing,
    private_folder,
    read_array,
    read_json,
    sync_folder,
    unsealed,
)

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

UNDIGESTED = 1
"""The format of sets that were saved before digests existed."""

KEYS = {"format", "name", "class_names", "category_names", "edge_category_names", "dropped", "arrays"}
"""The entries of an index in format 1."""

LARGE = 1 << 28
"""Saved sets of this many bytes or more are memory-mapped."""


def is_saved(folder: Path) -> bool:
    """Whether the folder looks like a saved GraphSet."""
    return (folder / INDEX).is_file()


def is_large(folder: Path) -> bool:
    """Whether a saved set is memory-mapped by default."""
    return sum(file.stat().st_size for file in folder.glob("*.npy")) >= LARGE


def save(graphs: "GraphSet", folder: Path) -> None:
    """Write a set to a folder. If this fails, the folder is unchanged."""
    with replacing(folder, graphs.name) as fresh, GraphSetWriter(fresh) as writer:
        writer.append(graphs)


@contextmanager
def replacing(folder: Path, name: str, spare: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """Yield an empty folder to write a set to, which is renamed to `folder` at the end.

    If anything fails, an existing folder is unchanged. If `spare()` is true at the end, the existing folder is kept and
    the new one is dropped. Temporary files may be written next to the empty folder.
    """
    check_target(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with private_folder(folder) as aside:
            fresh = aside / "fresh"
            fresh.mkdir()
            yield fresh
            sync_folder(fresh)
            _swap(fresh, folder, aside / PREVIOUS, spare)
            sync_folder(folder.parent)
    except OSError as error:
        raise UserError(f"cannot save {name} to {folder}: {error.strerror or error}") from error


def check_target(folder: Path) -> None:
    """Raise UserError if the folder exists and is not a saved set."""
    if folder.exists() and not is_saved(folder):
        raise UserError(f"{folder} exists and is not a saved GraphSet; it is not overwritten")


def load(folder: Path, mmap: bool) -> dict[str, Any]:
    """Read the fields of a saved set.

    Types and shapes are compared with `graphset.json`. Digests and pointers are checked unless the files are unchanged
    since an earlier check (see `digests`). Sets in format 1 have no digests.
    """
    index = _read_index(folder)
    try:
        json.dumps(index, ensure_ascii=False).encode()  # a lone surrogate could not be written again
        listed = {str(name): (str(a["dtype"]), tuple(a["shape"])) for name, a in index["arrays"].items()}
        fields: dict[str, Any] = {
            "name": str(index["name"]),
            "class_names": _names(index["class_names"]),
            "category_names": tuple(map(_names, index["category_names"])),
            "edge_category_names": tuple(map(_names, index["edge_category_names"])),
            "column_names": {str(what): _names(names) for what, names in index.get("column_names", {}).items()},
            "dropped": {str(what): int(count) for what, count in index["dropped"].items()},
            "task": str(index.get("task", "classification")),
            "directed": bool(index.get("directed", False)),
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UserError(f"{folder / INDEX} is damaged: {excerpt(repr(error))}") from None
    if missing := [name for name in REQUIRED if name not in listed]:
        raise UserError(f"{folder / INDEX} does not list {missing[0]}")
    if others := [name for name in listed if name not in SAVED]:
        raise UserError(f"{folder / INDEX} lists {excerpt(others[0])!r}, which is not part of a GraphSet")
    check = Check(folder, listed, index.get(DIGEST), mmap)
    arrays = {name: _read_array(folder / f"{name}.npy", *form, mmap) for name, form in listed.items()}
    if not check.is_known:
        _verify(folder, index, arrays)
        check.remember()
    fields |= arrays
    for name in TEXTS:
        data, ptr = fields.pop(name, None), fields.pop(f"{name}_ptr", None)
        if (data is None) != (ptr is None):
            raise UserError(f"{folder / INDEX} lists only one of {name} and {name}_ptr")
        if data is not None:
            fields[name] = Texts(ptr, data)
    fields["featurizer"] = featurizer_in(folder) if index["format"] == UNDIGESTED else index.get("featurizer")
    if "column_names" not in index and fields["featurizer"] is not None:  # a set of molecules of an earlier version
        fields["column_names"] = _molecule_columns(fields["featurizer"], folder)
    return fields


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise TypeError(f"names must be a list of texts, not {excerpt(repr(values), 60)}")
    return tuple(values)


def content_digest(folder: Path) -> str | None:
    """The digest of a saved set's content (`digests.content`) from its index; None for a set in format 1."""
    index = _read_index(folder)
    if index["format"] == UNDIGESTED:
        return None
    return content({name: about[DIGEST] for name, about in index["arrays"].items()})


def _verify(folder: Path, index: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise UserError unless every array has its digest and no pointer leads out of its array."""
    if index["format"] != UNDIGESTED:
        for name, digest in of_files(folder, arrays).items():
            if digest != index["arrays"][name].get(DIGEST):
                raise UserError(f"{folder / name}.npy is damaged: its content does not match its SHA-256 in {INDEX}")
    try:
        outline(arrays)
    except UserError as error:
        raise UserError(f"{folder} is damaged: {error}") from None


def _molecule_columns(featurizer: dict[str, Any], folder: Path) -> dict[str, tuple[str, ...]]:
    try:
        named = {"category": featurizer["atoms"], "edge_category": featurizer["bonds"]}
        return {what: tuple(str(column["name"]) for column in columns) for what, columns in named.items()}
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / FEATURES} is damaged: {error!r}") from None


def featurizer_in(folder: Path) -> dict[str, Any] | None:
    """The featurizer of a saved set of molecules; None for other sets."""
    path = folder / FEATURES
    if not path.is_file():
        return None
    plain = read_json(path)
    if not isinstance(plain, dict):
        raise UserError(f"{path} is damaged: it is not a JSON object")
    return plain


def folder_of(graphs: "GraphSet") -> Path | None:
    """The folder that a set was memory-mapped from, if the set is unchanged; None otherwise."""
    if not isinstance(graphs.edge_ptr, np.memmap) or graphs.edge_ptr.filename is None:
        return None
    folder = Path(graphs.edge_ptr.filename).parent
    try:
        saved = load(folder, mmap=True)
    except UserError:
        return None
    arrays = {name: saved.pop(name, None) for name in DTYPES}
    same = all(_is_mapped_from(getattr(graphs, name), value) for name, value in arrays.items())
    for name in TEXTS:
        one, other = getattr(graphs, name), saved.pop(name, None)
        both = one is not None and other is not None
        same = same and (_is_mapped_from(one.data, other.data) if both else one is other)
    return folder if same and all(getattr(graphs, name) == value for name, value in saved.items()) else None


def _is_mapped_from(values: NDArray[Any] | None, saved: NDArray[Any] | None) -> bool:
    """Whether an array is mapped from the file of a saved array. Empty arrays are not mapped; their shapes count."""
    if values is None or saved is None:
        return values is saved
    if values.shape != saved.shape or not isinstance(saved, np.memmap):
        return values.shape == saved.shape
    return isinstance(values, np.memmap) and (values.filename, values.strides) == (saved.filename, saved.strides)


def _swap(fresh: Path, folder: Path, previous: Path, spare: Callable[[], bool]) -> None:
    """Replace `folder` by `fresh`, unless `spare()` is true. If this fails, restore the previous folder."""
    try:
        os.replace(fresh, folder)  # fails if `folder` exists and contains files, even if it was just created
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # ENOTDIR: a link to a folder
            raise
    else:
        return
    if spare():
        return
    os.replace(folder, previous)
    try:
        os.replace(fresh, folder)
    except BaseException:  # Ctrl-C included
        if not folder.exists():
            shutil.move(previous, folder)
        raise


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{folder} is not a saved GraphSet: {INDEX}: {error.strerror or error}") from None
    except ValueError:
        raise UserError(f"{path} is damaged: it is not UTF-8") from None
    with parsing(path):
        index = json.loads(text)
    found = index.get("format") if isinstance(index, dict) else None
    if found not in (UNDIGESTED, FORMAT) or isinstance(found, bool):
        known = f"this version of cgipool reads formats {UNDIGESTED} and {FORMAT}"
        raise UserError(f"{path} has format {excerpt(repr(found))}; {known}")
    if found == UNDIGESTED:
        _is_undigested(path, index)
    elif DIGEST not in index:
        raise UserError(f"{path} is damaged: it has no SHA-256")
    else:
        with parsing(path):
            unsealed(index)
    return index


def _is_undigested(path: Path, index: dict[str, Any]) -> None:
    """Raise UserError unless an index of format 1 has only the keys of that format.

    This detects damage that turns the number of a later format into 1, because the digests are still there.
    """
    arrays = index.get("arrays")
    parts = [set(about) for about in arrays.values() if isinstance(about, dict)] if isinstance(arrays, dict) else []
    if not set(index) <= KEYS or any(keys - {"dtype", "shape"} for keys in parts):
        raise UserError(f"{path} is damaged: it says format {UNDIGESTED} but has entries of a later format")


def _read_array(path: Path, dtype: str, shape: tuple[int, ...], mmap: bool) -> NDArray[Any]:
    values = read_array(path, mmap=mmap and 0 not in shape)
    if str(values.dtype) != dtype or values.shape != shape or not values.flags.c_contiguous:
        order = "" if values.flags.c_contiguous else " in Fortran order"
        said = excerpt(f"{dtype}{list(shape)}")
        raise UserError(f"{path} contains {values.dtype}{list(values.shape)}{order}, but {INDEX} says {said}")
    return values
