"""Check the arrays of a GraphSet. Each rule raises a one-line UserError that names the problem."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import is_symmetric
from cgipool.errors import UserError, are, counted, excerpt, unknown

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

DTYPES: dict[str, tuple[type, int]] = {
    "node_ptr": (np.int64, 1),
    "edge_ptr": (np.int64, 1),
    "edge_disp": (np.int32, 1),
    "y": (np.int64, 1),
    "category": (np.int32, 2),
    "attributes": (np.float32, 2),
    "edge_weight": (np.float32, 1),
    "edge_category": (np.int32, 2),
    "edge_attributes": (np.float32, 2),
    "node_truth": (np.bool_, 1),
    "targets": (np.float64, 2),
}
"""Every array of a GraphSet: its type and its number of dimensions."""

STRETCH = 1 << 20
"""Entries of a pointer to compare at a time."""

TEXTS = ("graph_ids", "node_names", "table")
"""The texts of a GraphSet. Each is saved as two arrays: NAME, its bytes, and NAME_ptr, the start of each text."""

SAVED = DTYPES | {
    name: form for what in TEXTS for name, form in ((what, (np.uint8, 1)), (f"{what}_ptr", (np.int64, 1)))
}
"""Every array of a saved GraphSet."""

NAMED = ("category", "attributes", "edge_category", "edge_attributes", "targets", "table")
"""The arrays whose columns may have names."""

TASKS = ("classification", "regression", "multilabel")
"""The kinds of prediction."""

REQUIRED = ("node_ptr", "edge_ptr", "edge_disp", "y")


def check(graphs: "GraphSet") -> None:
    """Raise UserError for the first rule that is broken."""
    try:
        outline({name: getattr(graphs, name) for name in DTYPES})
        _classes(graphs.y, graphs.class_names)
        _categories("category", graphs.category, graphs.category_names, graphs.column_names.get("category", ()))
        called = graphs.column_names.get("edge_category", ())
        _categories("edge_category", graphs.edge_category, graphs.edge_category_names, called)
        for column in ("attributes", "edge_weight", "edge_attributes"):
            finite(
                column, getattr(graphs, column), graphs.column_names.get(column, ()), partial(place_of, graphs, column)
            )
        fields = graphs.n_graphs * len(graphs.column_names.get("table", ()))
        counts = ((graphs.n_graphs, "graph"), (graphs.n_nodes, "node"), (fields, "field"))
        for name, (count, thing) in zip(TEXTS, counts, strict=True):
            if (texts := getattr(graphs, name)) is not None:
                texts.check(name, count, thing)
        _column_names(graphs)
        _targets(graphs)
        if graphs.directed and graphs.edge_weight is None:
            raise UserError("a directed set needs edge weights, with 0 for a direction without an edge")
        _edges(graphs)
    except UserError as error:
        raise UserError(f"{excerpt(graphs.name)}: {error}") from None


def outline(arrays: Mapping[str, NDArray[Any] | None]) -> None:
    """Raise UserError unless types, lengths and pointers fit together, so no pointer leads out of its array."""
    _types(arrays)
    node_ptr, edge_ptr, edge_disp, y = (np.asanyarray(arrays[name]) for name in REQUIRED)
    if len(node_ptr) != len(y) + 1:
        raise UserError(f"node_ptr has {len(node_ptr)} entries; {len(y)} graphs (y) need one more")
    if len(edge_ptr) < 1:
        raise UserError("edge_ptr is empty; it must have one entry more than there are nodes")
    for names, count, thing in (
        (("category", "attributes", "node_truth"), len(edge_ptr) - 1, "node"),
        (("edge_weight", "edge_category", "edge_attributes"), len(edge_disp), "edge"),
        (("targets",), len(y), "graph"),
    ):
        for name in names:
            values = arrays.get(name)
            if values is not None and len(values) != count:
                raise UserError(f"{name} has {counted(len(values), 'row')} for {counted(count, thing)}")
    _pointer("node_ptr", node_ptr, len(edge_ptr) - 1)
    _pointer("edge_ptr", edge_ptr, len(edge_disp))


def graph_ids(graphs: "GraphSet", ids: Iterable[int] | NDArray[Any] | None) -> NDArray[np.int64]:
    """Graph ids as an array; None means all graphs. A mask raises UserError, as it would be read as ids 0 and 1."""
    if ids is None:
        return np.arange(graphs.n_graphs)
    chosen = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    if chosen.size and chosen.dtype.kind not in "iu":
        found = f"not {chosen.dtype}; convert a mask with np.flatnonzero"
        raise UserError(f"{graphs.name}: graph ids must be whole numbers, {found}")
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < graphs.n_graphs):
        raise UserError(f"{graphs.name}: graph ids go from 0 to {graphs.n_graphs - 1}")
    return chosen.astype(np.int64)


def column_name(names: Sequence[str], column: int) -> str:
    """A column for messages: its name in the source if it has one, else its number from 0."""
    return f"column {excerpt(names[column])!r}" if column < len(names) else f"column {column}"


def finite(
    name: str, values: NDArray[Any] | None, columns: Sequence[str] = (), place: Callable[[int], str] = str
) -> None:
    """Raise UserError for NaN or infinity in a float column: how many, in which column, and the first row, described by
    `place`."""
    if values is None or (good := np.isfinite(values)).all():
        return
    if values.ndim == 1:
        bad, what = ~good, name
    else:
        column = int(np.flatnonzero(~good.all(axis=0))[0])
        bad, what = ~good[:, column], f"{column_name(columns, column)} of {name}"
    raise UserError(f"{what} holds {not_finite(int(bad.sum()))}, the first at {place(int(np.argmax(bad)))}")


def graph_called(graphs: "GraphSet", number: int) -> str:
    """How messages call a graph: by its number, and by the id that the source gives it."""
    ids = graphs.graph_ids
    known = ids[number] if ids is not None and len(ids) == graphs.n_graphs else ""
    return f"graph {number}" + (f" (id {excerpt(known, 60)!r})" if known else "")


def place_of(graphs: "GraphSet", column: str, row: int) -> str:
    """A row of a column of nodes or edges, by its place in its graph."""
    if column == "attributes":
        graph = int(np.searchsorted(graphs.node_ptr, row, side="right")) - 1
        return f"node {row - graphs.node_ptr[graph]} of {graph_called(graphs, graph)}"
    source = int(np.searchsorted(graphs.edge_ptr, row, side="right")) - 1
    graph = int(np.searchsorted(graphs.node_ptr, source, side="right")) - 1
    first = source - graphs.node_ptr[graph]
    return f"the edge from node {first} to node {first + graphs.edge_disp[row]} of {graph_called(graphs, graph)}"


def not_finite(count: int) -> str:
    """ "3 values that are NaN or infinite", for messages."""
    return f"{counted(count, 'value')} that {are(count)} NaN or infinite"


def _types(arrays: Mapping[str, NDArray[Any] | None]) -> None:
    for name, (dtype, dimensions) in DTYPES.items():
        values = arrays.get(name)
        if values is None and name not in REQUIRED:
            continue
        if not isinstance(values, np.ndarray) or values.dtype != dtype or values.ndim != dimensions:
            found = f"{values.dtype}, {values.ndim}-d" if isinstance(values, np.ndarray) else type(values).__name__
            raise UserError(f"{name} must be a {dimensions}-d array of {np.dtype(dtype).name}, not {found}")


def _pointer(name: str, ptr: NDArray[np.int64], end: int) -> None:
    if ptr[0] != 0 or ptr[-1] != end:
        raise UserError(f"{name} must start at 0 and end at {end}, not {ptr[0]} and {ptr[-1]}")
    for start in range(0, len(ptr), STRETCH):  # the array may be mapped, and larger than memory
        falls = np.diff(ptr[start : start + STRETCH + 1]) < 0
        if falls.any():
            raise UserError(f"{name} decreases at entry {start + int(np.argmax(falls)) + 1}")


def _classes(y: NDArray[np.int64], names: tuple[str, ...]) -> None:
    """Every class has a name, or there are no names and every graph has the class −1."""
    if names or (y != -1).any():
        _labels("y", y, names)


def _labels(name: str, codes: NDArray[Any], names: tuple[str, ...]) -> None:
    if codes.size and (codes.min() < 0 or codes.max() >= len(names)):
        given = f"{counted(len(names), 'name')} {are(len(names))} given"
        raise UserError(f"{name} goes from {codes.min()} to {codes.max()} but {given}")


def _categories(
    name: str, codes: NDArray[np.int32] | None, names: tuple[tuple[str, ...], ...], called: Sequence[str]
) -> None:
    columns = 0 if codes is None else codes.shape[1]
    if columns != len(names):
        raise UserError(f"{name} has {counted(columns, 'column')} but {name}_names has {len(names)}")
    if codes is not None:
        for j, column in enumerate(codes.T):
            _labels(f"{column_name(called, j)} of {name}", column, names[j])


def _column_names(graphs: "GraphSet") -> None:
    for name, columns in graphs.column_names.items():
        if name not in NAMED:
            raise UserError(f"column_names has {excerpt(name)!r}; it may have {', '.join(NAMED)}")
        values = getattr(graphs, name)
        if name == "table" and (values is None or len(set(columns)) < len(columns)):
            raise UserError("column_names has names for table, which must differ and need a table")
        if name != "table" and (count := 0 if values is None else values.shape[1]) != len(columns):
            raise UserError(f"{name} has {counted(count, 'column')} but column_names has {len(columns)}")


def _targets(graphs: "GraphSet") -> None:
    """Targets fit the task: none is infinite, and multi-label values are 0 or 1."""
    if graphs.task not in TASKS:
        raise unknown("task", graphs.task, TASKS)
    if (graphs.targets is None) != (graphs.task == "classification"):
        raise UserError(f"task {graphs.task!r} needs {'classes, not' if graphs.task == TASKS[0] else ''} targets")
    if graphs.targets is None:
        return
    if graphs.targets.shape[1] == 0:
        raise UserError("targets has no columns")
    for column, name in zip(graphs.targets.T, graphs.target_names, strict=True):
        where = f"target column {excerpt(name)!r}"
        if (infinite := np.flatnonzero(np.isinf(column))).size:
            first = graph_called(graphs, int(infinite[0]))
            raise UserError(f"{where} has {counted(len(infinite), 'infinite value')}, first in {first}")
        other = np.flatnonzero(~np.isnan(column) & ~np.isin(column, (0.0, 1.0)))
        if graphs.task == "multilabel" and other.size:
            found = f"{column[other[0]]:g} in {graph_called(graphs, int(other[0]))}"
            found = f"{counted(len(other), 'value')} other than 0 and 1 ({found})"
            raise UserError(f"{where} has {found}; for numbers use regression (GraphRegressor)")


def _edges(graphs: "GraphSet") -> None:
    """Rows are sorted, without self-loops and repeats; edges stay in their graph and are symmetric."""
    ptr, disp = graphs.edge_ptr, graphs.edge_disp
    if not disp.all():
        raise UserError(f"edge {int(np.argmin(disp != 0))} is a self-loop")
    descent = disp[1:] <= disp[:-1]
    starts = ptr[1:-1]
    descent[starts[(starts > 0) & (starts < len(disp))] - 1] = False
    if descent.any():
        raise UserError(f"edge {int(np.argmax(descent)) + 1} is a repeated or unsorted neighbour")
    rows = np.flatnonzero(graphs.degree)
    low, high = rows + disp[ptr[rows]], rows + disp[ptr[rows + 1] - 1]
    graph = graphs.node_graph[rows]
    astray = (low < graphs.node_ptr[graph]) | (high >= graphs.node_ptr[graph + 1])
    if astray.any():
        raise UserError(f"an edge of node {rows[np.argmax(astray)]} leaves its graph {graph[np.argmax(astray)]}")
    if not is_symmetric(ptr, disp):
        raise UserError("the edges are not symmetric: some edge has no reverse")
