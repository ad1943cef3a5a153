"""Read a PyG data set from a file written by `torch.save`. Only tensors and plain containers are read, never objects.

The file must contain a list of dicts with the keys of a `Data` object, or what `InMemoryDataset` writes: a dict of the
columns of all graphs and a dict of slices. A list of `Data` objects is refused, because reading it needs unpickling.
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
            dicts = list(_dicts(_load(path, options.max_size)))
            _check_expansion(dicts, path.stat().st_size, options.max_size)
        if not options.unlabelled and all(graph.get("y") is None for graph in dicts):
            raise UserError(f"its graphs have no y; {WITHOUT}")
        with parsing(path):
            data = [Data.from_dict(graph) for graph in dicts]
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
            raise UserError("y does not have the same number of values in all graphs")
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    labels = read_labels(path, names, rows_of_numbers(names, rows), options, names)
    yield numbered(graphs, labels, rows, 1)


def _is_class(rows: Sequence[NDArray[Any]]) -> bool:
    return all(len(row) == 1 and row.dtype.kind in "biu" for row in rows)


def _check_expansion(graphs: list[dict[str, Any]], size: int, max_size: int | None) -> None:
    """Raise UserError if the graphs need far more memory than their file: a large number of nodes is stored in a few
    bytes, and a tensor may repeat one number any number of times."""
    limit = max(FREE, RATIO * size) if max_size is None else max_size
    for graph in graphs:
        for key, value in graph.items():
            if hasattr(value, "untyped_storage"):
                if getattr(value, "is_sparse", False) or getattr(value, "is_sparse_csr", False):
                    raise UserError(
                        f"{excerpt(str(key))} is a sparse tensor, which cannot be read; save it as a dense tensor"
                    )
                if value.numel() * value.element_size() > value.untyped_storage().nbytes():
                    raise UserError(f"{excerpt(key)} is larger than its data in the file")
            elif key == "num_nodes" and isinstance(value, int):
                limit -= 8 * value
        if limit < 0:
            raise UserError("its graphs have more nodes than its size allows, which is refused; --max-size allows more")


def _check_archive(path: Path, max_size: int | None) -> None:
    """Raise UserError if the file is a zip archive that expands beyond the limits."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        claimed = sum(member.file_size for member in archive.infolist())
    limit = min(MAX_SIZE, max(FREE, RATIO * path.stat().st_size)) if max_size is None else max_size
    if claimed > limit:
        raise UserError(f"it expands to more than {in_bytes(limit)}, which is refused; --max-size allows more")


def _load(path: Path, max_size: int | None) -> Any:
    """The content of the file. Importing PyG before this allows torch to read PyG's class names, but no objects."""
    import torch

    try:
        _check_archive(path, max_size)
        with warnings.catch_warnings(action="ignore"):  # torch warns of foreign pickles before it refuses them
            return torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror or error}") from None
    except pickle.UnpicklingError:
        raise UserError(
            f"it contains pickled objects, which are not read; if you trust it, convert it: {CONVERT}"
        ) from None
    except Exception:  # what torch.load raises on foreign bytes depends on the bytes
        raise UserError("not a file written by torch.save, or only part of one") from None


def _dicts(content: Any) -> Iterator[dict[str, Any]]:
    """Yield one dict of columns per graph."""
    if isinstance(content, tuple) and len(content) >= 2 and all(isinstance(part, dict) for part in content[:2]):
        yield from _cut(content[0], content[1])
    elif isinstance(content, list | tuple) and content and all(_is_graph(part) for part in content):
        yield from content
    else:
        raise UserError(f"neither a list of dicts nor columns with slices; convert it: {CONVERT}")


def _is_graph(part: Any) -> bool:
    return isinstance(part, dict) and all(isinstance(key, str) for key in part)


def _cut(columns: dict[str, Any], slices: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the graphs of concatenated columns: `edge_index` along its second dimension, others along the first."""
    sizes = columns.get("_num_nodes")  # PyG's place for numbers of nodes that follow from no column
    try:
        spans = {key: list(pairwise(map(int, bounds))) for key, bounds in slices.items()}
        for g in range(max(map(len, spans.values()), default=0)):
            graph = {key: _piece(key, columns[key], *span[g]) for key, span in spans.items()}
            yield graph if sizes is None else graph | {"num_nodes": sizes[g]}
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError):
        raise UserError("its slices do not fit its columns") from None


def _piece(key: str, column: Any, start: int, stop: int) -> Any:
    if isinstance(column, list):
        return column[start]
    return column.narrow(1 if key == "edge_index" else 0, start, stop - start)
