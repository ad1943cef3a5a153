"""Convert networkx graphs to a GraphSet and back.

Keys: `graph.graph["y"]` is the class (a whole number or a string), a number, or a list of numbers. Nodes may have
`category` (a name or a list), `attributes` (a float or a list) and `truth`; edges may have `weight`, `category` and
`attributes`. Names are whole numbers or strings; `to_networkx` returns strings. Nodes are numbered in the order of
`graph.nodes`; their names are kept unless they are 0, 1, 2, … In an undirected graph every edge is stored in both
directions. In a directed graph missing reverse edges are added and counted, in a multigraph repeated edges are removed
and counted. Other keys are ignored with a warning.

Whether numbers are classes or targets depends on their values; `task` overrides this. `label` names other keys than
`y`. With `class_names=()`, `y` is not read.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import TASKS
from cgipool.data.join import Coded, GraphParts
from cgipool.data.names import Names, Texts, encode, encode_columns, look_up, printable
from cgipool.data.targets import AUTO, in_graphs, labelled
from cgipool.errors import UnusedDataWarning, UserError, excerpt, warn_user

if TYPE_CHECKING:
    import networkx

    from cgipool.data.graphs import GraphSet


def from_networkx(
    graphs: Sequence["networkx.Graph"],
    name: str,
    *,
    class_names: Names | None = None,
    category_names: tuple[Names, ...] | None = None,
    edge_category_names: tuple[Names, ...] | None = None,
    label: str | Sequence[str] = "y",
    task: str = AUTO,
    directed: bool = False,
) -> "GraphSet":
    """Build a set from these graphs. If names are given, they fix the codes; otherwise the names are sorted. `directed`
    keeps the direction of edges."""
    parts = GraphParts([_read(i, graph) for i, graph in enumerate(graphs)])
    keys = (label,) if isinstance(label, str) else tuple(label)
    _warn_of_unread(graphs)
    category = _codes(parts.of_nodes("category"), category_names, "category")
    edge_category = _codes(parts.of_edges("edge_category"), edge_category_names, "edge category")
    made = parts.graphset(name, np.full(len(graphs), -1), (), category, edge_category, directed)
    made = replace(made, node_names=_node_names(graphs), checked=True)
    return made if class_names == () else _labelled(made, graphs, keys, class_names, task)


def to_networkx(graphs: "GraphSet") -> list["networkx.Graph"]:
    """One networkx graph per graph: undirected, or directed if an edge column differs between the two directions."""
    import networkx

    nodes = _records(
        category=_named(graphs.category, graphs.category_names), attributes=graphs.attributes, truth=graphs.node_truth
    )
    edges = _records(
        category=_named(graphs.edge_category, graphs.edge_category_names),
        attributes=graphs.edge_attributes,
        weight=graphs.edge_weight,
    )
    made = []
    for i in range(graphs.n_graphs):
        start, stop = map(int, graphs.node_ptr[i : i + 2])
        first, last = int(graphs.edge_ptr[start]), int(graphs.edge_ptr[stop])
        source = np.repeat(np.arange(stop - start), graphs.degree[start:stop])
        target = source + graphs.edge_disp[first:last]
        rows = [edges(e) for e in range(first, last)]
        reverse = np.lexsort((source, target))
        one_each = not graphs.directed and all(rows[e] == rows[r] for e, r in enumerate(reverse))
        graph = (networkx.Graph if one_each else networkx.DiGraph)()
        if graphs.is_labelled:
            targets = graphs.targets
            graph.graph["y"] = graphs.class_names[graphs.y[i]] if targets is None else targets[i].tolist()
        keys = _node_keys(graphs, start, stop)
        graph.add_nodes_from((keys[p], nodes(start + p)) for p in range(stop - start))
        ends = ([keys[p] for p in end.tolist()] for end in (source, target))
        found = zip(*ends, rows, strict=True)
        graph.add_edges_from(edge for edge in found if not graphs.directed or edge[2]["weight"] != 0)
        made.append(graph)
    return made


def _node_names(graphs: Sequence["networkx.Graph"]) -> Texts | None:
    """The names of all nodes; None if the nodes of every graph are 0, 1, 2, … in order."""
    if all(list(graph.nodes) == list(range(len(graph))) for graph in graphs):
        return None
    return Texts.of(printable(str(node)) for graph in graphs for node in graph.nodes)


def _node_keys(graphs: "GraphSet", start: int, stop: int) -> Sequence[int | str]:
    """The nodes of a graph: their names if these are distinct, else their numbers."""
    names = [] if graphs.node_names is None else graphs.node_names[start:stop]
    return names if len(set(names)) == stop - start else range(stop - start)


def _records(**columns: NDArray[Any] | None) -> Callable[[int], dict[str, Any]]:
    """A function from a row number to a dictionary of the columns that are not None, as plain values."""
    lists = {key: values.tolist() for key, values in columns.items() if values is not None}
    return lambda row: {key: values[row] for key, values in lists.items()}


def _named(codes: NDArray[np.int32] | None, names: tuple[Names, ...]) -> NDArray[Any] | None:
    if codes is None:
        return None
    return np.stack([np.array(names[j], dtype=object)[column] for j, column in enumerate(codes.T)], axis=1)


def _codes(values: NDArray[Any] | None, names: tuple[Names, ...] | None, what: str) -> Coded:
    if values is None:
        return None, ()
    if names is None:
        return encode_columns(values)
    return np.stack([look_up(column, names[j], what) for j, column in enumerate(values.T)], axis=1), names


def _labelled(
    made: "GraphSet", graphs: Sequence["networkx.Graph"], keys: tuple[str, ...], names: Names | None, task: str
) -> "GraphSet":
    """The set with the labels under these keys of the graphs."""
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise UserError(f"label names the key {twice[0]!r} {keys.count(twice[0])} times")
    values = [[graph.graph.get(key) for key in keys] for graph in graphs]
    if len(keys) == 1 and task in (AUTO, TASKS[0]) and all(_is_class(value) for (value,) in values):
        y = np.array([str(value) for (value,) in values], dtype=np.str_)
        codes, classes = encode(y) if names is None else (look_up(y, names, "class"), names)
        return made.relabelled(codes, classes)
    if len(keys) == 1 and task in (AUTO, TASKS[0]) and values and isinstance(values[0][0], str):
        bad = [i for i, (value,) in enumerate(values) if not _is_class(value)]
        value = values[bad[0]][0]
        found = "" if value is None else f": {excerpt(repr(value), 60)}"
        what = "is missing" if value is None else "is not a class"
        raise UserError(f"{made.name}: graph.graph[{keys[0]!r}] {what} {in_graphs(bad)}{found}")
    return labelled(made, _target_rows(keys, values), names, task, () if keys == ("y",) else keys)


def _is_class(value: Any) -> bool:
    return isinstance(value, int | str | np.integer) and not isinstance(value, bool)


def _target_rows(keys: tuple[str, ...], values: Sequence[Sequence[Any]]) -> list[NDArray[np.float64] | None]:
    """The targets of each graph; None for a graph without any."""
    for j, key in enumerate(keys):
        if bad := [i for i, row in enumerate(values) if _numbers(row[j], len(keys)) is None]:
            where = f"{in_graphs(bad)}: {excerpt(repr(values[bad[0]][j]), 60)}"
            if all(isinstance(row[j], str) for row in values):
                raise UserError(
                    f"graph.graph[{key!r}] is not a number {where}; for class names use task='classification'"
                )
            need = "a class (a whole number or a string), a number or a list of numbers"
            raise UserError(f"graph.graph[{key!r}] must be {need}; it is not {where}")
    rows: list[NDArray[np.float64] | None] = []
    for row in values:
        numbers = [part for value in row if (part := _numbers(value, len(keys))) is not None]
        rows.append(None if len(keys) == 1 and row[0] is None else np.concatenate(numbers))
    return rows


def _numbers(value: Any, keys: int) -> NDArray[np.float64] | None:
    """The numbers under one of `keys` keys, NaN for a missing value; None for anything that is not numbers."""
    if isinstance(value, bool | str):
        return None
    try:
        numbers = np.asarray(np.nan if value is None else value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return None if numbers.ndim > 1 or (numbers.ndim and keys > 1) else numbers.reshape(-1)


def _read(i: int, graph: "networkx.Graph") -> dict[str, Any]:
    """The columns of one graph as arrays, by the field names of a GraphSet."""
    number = {node: p for p, node in enumerate(graph.nodes)}
    edges = [(number[u], number[v], values) for u, v, values in graph.edges(data=True)]
    if not graph.is_directed():
        edges += [(v, u, values) for u, v, values in edges if u != v]
    nodes = [values for _, values in graph.nodes(data=True)]
    columns = [values for _, _, values in edges]
    return {
        "size": len(nodes),
        "source": np.array([u for u, _, _ in edges], dtype=np.int64),
        "target": np.array([v for _, v, _ in edges], dtype=np.int64),
        "category": _column(i, "category", nodes, np.str_),
        "attributes": _column(i, "attributes", nodes, np.float32),
        "node_truth": _column(i, "truth", nodes, np.bool_),
        "edge_weight": _column(i, "weight", columns, np.float32),
        "edge_category": _column(i, "category", columns, np.str_),
        "edge_attributes": _column(i, "attributes", columns, np.float32),
    }


READ = {"nodes": {"category", "attributes", "truth"}, "edges": {"category", "attributes", "weight"}}
"""Keys that are read."""


def _warn_of_unread(graphs: Sequence["networkx.Graph"]) -> None:
    """Warn about keys of nodes and keys of edges that are not read."""
    for part, read in READ.items():
        keys = {key for graph in graphs for *_, values in getattr(graph, part)(data=True) for key in values}
        if unread := keys - read:
            warn_user(
                f"keys of {part} that are not read: {excerpt(', '.join(sorted(map(repr, unread))))}; "
                "labels are read from 'category', numbers from 'attributes'",
                UnusedDataWarning,
            )


def _column(i: int, key: str, records: Sequence[dict[str, Any]], dtype: type) -> NDArray[Any] | None:
    """One key of all nodes or edges as [rows, width]; None if no node or edge has it."""
    values = [record[key] for record in records if key in record]
    if not values:
        return None
    if len(values) < len(records):
        raise UserError(
            f"graph {i}: {key!r} is on {len(values)} of {len(records)} nodes or edges; it must be on all or none"
        )
    try:
        return np.array(values, dtype=dtype).reshape(len(values), -1)
    except (TypeError, ValueError):
        kind = np.dtype(dtype).name
        raise UserError(f"graph {i}: {key!r} must be the same number of {kind} values everywhere") from None
