"""Read a PyG data set from a file that `torch.save` wrote; only tensors and plain containers are read, never objects.

The file must be a list of dicts with the keys of a `Data` object, or what `InMemoryDataset` writes: one dict of the
columns of all graphs and a dict of slices. A list of `Data` objects would need unpickling and is refused.
"""

import pickle
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cgipool.data.check import TASKS
from cgipool.data.convert_pyg import y_rows
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import Imported, ImportOptions
from cgipool.data.importers.labels import WITHOUT, numbered, read_labels, rows_of_numbers, target_names
from cgipool.data.importers.text import FREE, MAX_SIZE, RATIO
from cgipool.data.spill import Work
from cgipool.data.targets import AUTO, labelled
from cgipool.errors import UserError, excerpt, in_bytes
from cgipool.files import parsing

CONVERT = 'from cgipool import GraphSet; GraphSet.from_pyg(list_of_data, name=...).save("DIR")'


def read_pyg(path: Path, name: str, options: ImportOptions, work: Work) -> Iterator[Imported]:
    """The set of a saved file, in one piece."""
    from torch_geometric.data import Data

    try:
        with parsing(path):
            held = list(_dicts(_load(path, options.max_size)))
            _check_expansion(held, path.stat().st_size, options.max_size)
        if not options.unlabelled and all(graph.get("y") is None for graph in held):
            raise UserError(f"its graphs have no y; {WITHOUT}")
        with parsing(path):
            data = [Data.from_dict(graph) for graph in held]
            graphs, rows = (
                GraphSet.from_pyg(data, name, class_names=(), directed=options.directed),
                [] if options.unlabelled else y_rows(data),
            )
        if options.unlabelled:
            yield Imported(graphs, {"row": range(1, graphs.n_graphs + 1)})
            return
        if options.label is None and options.threshold is None and options.task in (AUTO, TASKS[0]) and _is_class(rows):
            graphs = labelled(graphs, rows, None, options.task)
            yield Imported(graphs, {"row": range(1, graphs.n_graphs + 1)})
            return
        names = target_names(len(rows[0]))
        if any(len(row) != len(names) for row in rows):
            raise UserError("y has not the same number of values in all graphs")
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    labels = read_labels(path, names, rows_of_numbers(names, rows), options, names)
    yield numbered(graphs, labels, rows, 1)


def _is_class(rows: Sequence[NDArray[Any]]) -> bool:
    return all(len(row) == 1 and row.dtype.kind in "biu" for row in rows)


def _check_expansion(graphs: list[dict[str, Any]], size: int, max_size: int | None) -> None:
    """An error if the graphs need far more memory than their file: any number of nodes is a few bytes, and a tensor may
    repeat one number without end."""
    limit = max(FREE, RATIO * size) if max_size is None else max_size
    for held in graphs:
        for key, value in held.items():
            if hasattr(value, "untyped_storage"):
                if getattr(value, "is_sparse", False) or getattr(value, "is_sparse_csr", False):
                    raise UserError(
                        f"{excerpt(str(key))} is a sparse tensor, which is not read; save it as a dense one"
                    )
                if value.numel() * value.element_size() > value.untyped_storage().nbytes():
                    raise UserError(f"{excerpt(key)} is larger than what the file holds of it")
            elif key == "num_nodes" and isinstance(value, int):
                limit -= 8 * value
        if limit < 0:
            raise UserError("its graphs have more nodes than its size allows, which is refused; --max-size allows more")


def _check_archive(path: Path, max_size: int | None) -> None:
    """An error if the file is a zip archive that expands beyond the limits."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        claimed = sum(member.file_size for member in archive.infolist())
    limit = min(MAX_SIZE, max(FREE, RATIO * path.stat().st_size)) if max_size is None else max_size
    if claimed > limit:
        raise UserError(f"it expands to more than {in_bytes(limit)}, which is refused; --max-size allows more")


def _load(path: Path, max_size: int | None) -> Any:
    """What the file holds. PyG, imported before this, has torch let its class names (not objects) through."""
    import torch

    try:
        _check_archive(path, max_size)
        with warnings.catch_warnings(action="ignore"):  # torch warns of pickles that others wrote, then refuses them
            return torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror or error}") from None
    except pickle.UnpicklingError:
        raise UserError(
            f"it holds pickled objects, which are not read; if you trust it, convert it: {CONVERT}"
        ) from None
    except Exception:  # what torch.load raises on foreign bytes depends on the bytes
        raise UserError("not a file that torch.save wrote, or only part of one") from None


def _dicts(held: Any) -> Iterator[dict[str, Any]]:
    """One dict of columns per graph."""
    if isinstance(held, tuple) and len(held) >= 2 and all(isinstance(part, dict) for part in held[:2]):
        yield from _cut(held[0], held[1])
    elif isinstance(held, list | tuple) and held and all(_is_graph(part) for part in held):
        yield from held
    else:
        raise UserError(f"neither a list of dicts nor columns with slices; convert it: {CONVERT}")


def _is_graph(held: Any) -> bool:
    return isinstance(held, dict) and all(isinstance(key, str) for key in held)


def _cut(columns: dict[str, Any], slices: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The graphs of columns laid end to end: `edge_index` along its second dimension, all else along the first."""
    sizes = columns.get("_num_nodes")  # where PyG keeps the numbers of nodes that follow from no column
    try:
        spans = {key: list(pairwise(map(int, bounds))) for key, bounds in slices.items()}
        for g in range(max(map(len, spans.values()), default=0)):
            held = {key: _piece(key, columns[key], *span[g]) for key, span in spans.items()}
            yield held if sizes is None else held | {"num_nodes": sizes[g]}
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError):
        raise UserError("its slices do not fit its columns") from None


def _piece(key: str, column: Any, start: int, stop: int) -> Any:
    if isinstance(column, list):
        return column[start]
    return column.narrow(1 if key == "edge_index" else 0, start, stop - start)
