"""A GraphSet on disk: one .npy per array and `graphset.json`, which says what there is. No pickle."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import DTYPES, REQUIRED
from cgipool.errors import UserError

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

FORMAT = 1
INDEX = "graphset.json"


def is_saved(folder: Path) -> bool:
    """Whether the folder looks like a saved GraphSet."""
    return (folder / INDEX).is_file()


def save(graphs: "GraphSet", folder: Path) -> None:
    """Write to a sibling folder, then rename it into place; whatever fails, an earlier save stays as it was."""
    if folder.exists() and not is_saved(folder):
        raise UserError(f"{folder} exists and is not a saved GraphSet; it is not overwritten")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as aside:
            fresh = Path(aside, "fresh")
            fresh.mkdir()
            _write(graphs, fresh)
            _swap(fresh, folder, Path(aside, "previous"))
    except OSError as error:
        raise UserError(f"cannot save {graphs.name} to {folder}: {error.strerror or error}") from error


def load(folder: Path, mmap: bool) -> dict[str, Any]:
    """The fields of a saved set; the files are checked against `graphset.json` by type and shape."""
    index = _read_index(folder)
    try:
        listed = {str(name): (str(a["dtype"]), tuple(a["shape"])) for name, a in index["arrays"].items()}
        fields: dict[str, Any] = {
            "name": str(index["name"]),
            "class_names": tuple(index["class_names"]),
            "category_names": tuple(map(tuple, index["category_names"])),
            "edge_category_names": tuple(map(tuple, index["edge_category_names"])),
            "dropped": dict(index["dropped"]),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / INDEX} is damaged: {error!r}") from None
    if missing := [name for name in REQUIRED if name not in listed]:
        raise UserError(f"{folder / INDEX} does not list {missing[0]}")
    if strange := [name for name in listed if name not in DTYPES]:
        raise UserError(f"{folder / INDEX} lists {strange[0]!r}, which is no part of a GraphSet")
    for name, (dtype, shape) in listed.items():
        fields[name] = _read_array(folder / f"{name}.npy", dtype, shape, mmap)
    return fields


def _write(graphs: "GraphSet", folder: Path) -> None:
    arrays = {name: getattr(graphs, name) for name in DTYPES if getattr(graphs, name) is not None}
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values, allow_pickle=False)
    index = {
        "format": FORMAT,
        "name": graphs.name,
        "class_names": graphs.class_names,
        "category_names": graphs.category_names,
        "edge_category_names": graphs.edge_category_names,
        "dropped": graphs.dropped,
        "arrays": {name: {"dtype": str(a.dtype), "shape": a.shape} for name, a in arrays.items()},
    }
    (folder / INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")


def _swap(fresh: Path, folder: Path, previous: Path) -> None:
    """Put `fresh` in the place of `folder`; if that fails, put the earlier one back."""
    if not folder.exists():
        os.replace(fresh, folder)
        return
    os.replace(folder, previous)
    try:
        os.replace(fresh, folder)
    except OSError:
        shutil.move(previous, folder)
        raise


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{folder} is not a saved GraphSet: {INDEX}: {error.strerror or error}") from None
    except ValueError:
        raise UserError(f"{path} is damaged: it is not JSON") from None
    found = index.get("format") if isinstance(index, dict) else None
    if found != FORMAT:
        raise UserError(f"{path} has format {found!r}; this version of cgipool reads format {FORMAT}")
    return index


def _read_array(path: Path, dtype: str, shape: tuple[int, ...], mmap: bool) -> NDArray[Any]:
    try:
        values: NDArray[Any] = np.load(path, mmap_mode="r" if mmap and 0 not in shape else None, allow_pickle=False)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, EOFError) as error:
        raise UserError(f"{path} is damaged: {str(error).splitlines()[0]}") from None
    if str(values.dtype) != dtype or values.shape != shape:
        raise UserError(f"{path} holds {values.dtype}{list(values.shape)}, {INDEX} says {dtype}{list(shape)}")
    return values
