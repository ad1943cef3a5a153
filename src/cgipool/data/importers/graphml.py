"""Read GraphML: one file of graphs, or a folder of files, with the classes in labels.csv or in the graphs themselves.

labels.csv has a column `graph` (the file's name, with or without .graphml) and a column of classes. Without it, each
graph has its class as a graph-level key. Keys of nodes and edges are read by their declared type: floats are
attributes, all others are labels; the edge key `weight` is the weight.
"""

import warnings
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import ParseError

import numpy as np
from numpy.typing import NDArray

from cgipool.data.further import TableBuilder, kept
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import Imported, ImportOptions
from cgipool.data.importers.labels import UNLABELLED, WITHOUT, LabelledRows, Labels, read_labels, side_column, side_of
from cgipool.data.importers.table import open_table
from cgipool.data.join import GraphSetBuilder, LabelColumns
from cgipool.data.names import Names, printable
from cgipool.data.spill import Work
from cgipool.errors import UserError, excerpt
from cgipool.files import check_regular, parsing

LABELS, SUFFIX, WEIGHT = "labels.csv", ".graphml", "weight"


def read_graphml(path: Path, name: str, options: ImportOptions, work: Work) -> Iterator[Imported]:
    """Read a file or a folder in one piece. The files are read twice: for the labels, then for the graphs."""
    about = _About((), {}) if options.unlabelled else _about(path, options)
    labels, labelled = about.labels, LabelledRows(about.labels)
    columns = TableBuilder(kept(about.columns, (*labels.columns, about.side)))
    building = _Building()
    ids: dict[str, list[Any]] = {"row": [], "id": []} | ({} if about.side is None else {"split": []})
    for row, (title, graph) in enumerate(_graphs(path), start=1):
        if about.fields and title not in about.fields:
            raise UserError(f"{path / LABELS} has one class per file, but a file has several graphs: {title}")
        fields = about.fields.get(title, {})
        if not labelled.add([fields.get(column, "") for column in labels.columns]):
            continue
        building.add(title, graph)
        columns.add(fields.get(column, "") for column in columns.names)
        ids["row"].append(row)
        ids["id"].append(printable(title))
        if about.side is not None:
            ids["split"].append(side_of(fields.get(about.side, "")))
    graphs = columns.of(labelled.of(building.graph_set(name, ids["id"], options.directed)))
    if graphs.n_graphs < len(about.fields):
        graphs.dropped["graphs without a label"] = len(about.fields) - graphs.n_graphs
    yield Imported(graphs, ids, notes=(*about.notes, *labels.notes))


class _About(NamedTuple):
    """What is known about the graphs before they are read."""

    columns: tuple[str, ...]
    """The columns of labels.csv, or the graph-level keys."""
    fields: dict[str, dict[str, str]]
    """The fields by graph and column; empty if no labels are read."""
    labels: Labels = UNLABELLED
    side: str | None = None
    """The column with the side of a split (train, val or test)."""
    notes: tuple[str, ...] = ()


def _about(path: Path, options: ImportOptions) -> _About:
    """Read labels.csv or, without it, the graph-level keys."""
    source = path / LABELS if (path / LABELS).exists() else path
    about = _of_graphs(path) if source == path else _of_table(path, options)
    if not about.columns and source == path:
        none = f"the graphs have no class, and there is no {LABELS} with columns graph and label"
        raise UserError(f"{path}: {none}; {WITHOUT}")

    def rows(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
        return (tuple(fields.get(name, "") for name in names) for fields in about.fields.values())

    others = [column for column in about.columns if column != about.side]
    return about._replace(labels=read_labels(source, others, rows, options))


def _of_table(path: Path, options: ImportOptions) -> _About:
    """Read labels.csv, which must name every file once."""
    table = open_table(path / LABELS, options.max_size)
    graph = table.column("graph")
    side, notes = side_column(table, (graph,), options.patterns)
    columns = kept(table.columns, ("graph",))
    found: dict[str, dict[str, str]] = {}
    files = {file.stem for file in _files(path)}
    for row, (title, *texts) in table.rows(graph, *map(table.column, columns)):
        key = title.removesuffix(SUFFIX)
        if key in found:
            raise UserError(f"{table.path}, row {row}: graph {excerpt(title)!r} appears twice")
        if key not in files:
            raise UserError(f"{table.path}, row {row}: there is no file {excerpt(key)}{SUFFIX}")
        found[key] = dict(zip(columns, texts, strict=True))
    for file in _files(path):
        if file.stem not in found:
            raise UserError(f"{table.path} has no row for {file.name}")
    return _About(columns, found, side=None if side is None else table.columns[side], notes=notes)


def _of_graphs(path: Path) -> _About:
    """Read the graph-level keys."""
    found = {title: {key: str(value).strip() for key, value in _own(graph).items()} for title, graph in _graphs(path)}
    return _About(tuple(dict.fromkeys(key for fields in found.values() for key in fields)), found)


def _own(graph: Any) -> dict[str, Any]:
    """The graph-level keys, without those that networkx adds."""
    return {key: value for key, value in graph.graph.items() if key not in ("node_default", "edge_default")}


def _files(path: Path) -> list[Path]:
    return sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]


def _graphs(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield each graph with its name: that of the file, with a number if the file has several graphs."""
    from networkx import NetworkXError
    from networkx.readwrite.graphml import GraphMLReader

    files = _files(path)
    if not files:
        raise UserError(f"{path} contains no {SUFFIX} file")
    for file in files:
        check_regular(file)
        with parsing(file):
            try:
                with warnings.catch_warnings(action="ignore"):  # networkx warns of keys without a type; they are text
                    found = list(GraphMLReader()(path=str(file)))
            except (ParseError, NetworkXError, LookupError, ValueError, TypeError, AttributeError) as error:
                raise UserError(f"{file} is not GraphML: {excerpt(str(error))}") from None
        if not found:
            raise UserError(f"{file} contains no graph")
        stem = file.name.removesuffix(SUFFIX)
        for number, graph in enumerate(found):
            yield (stem if len(found) == 1 else f"{stem}#{number}"), graph


class _Columns:
    """The keys of all nodes, or of all edges. All must have the same keys as the first."""

    def __init__(self, always_float: tuple[str, ...] = ()) -> None:
        self.coded = LabelColumns(0)
        self._always_float = always_float
        self._keys: set[str] | None = None
        self._float_keys: list[str] = []
        self._name_keys: list[str] = []
        self._floats = array("f")

    def add(self, title: str, records: Sequence[dict[str, Any]]) -> None:
        """Add the nodes or edges of a graph, each as a dictionary of values by key."""
        for record in records:
            if self._keys is None:
                self._settle(record)
            if record.keys() != self._keys:
                key = min(record.keys() ^ (self._keys or set()))
                where = f"graph {excerpt(title)!r}: key {excerpt(key)!r}"
                raise UserError(f"{where} is on some nodes or edges only; it must be on all or none")
        self.coded.extend(tuple(printable(str(record[key])) for key in self._name_keys) for record in records)
        self._floats.extend(_number(title, key, record[key]) for record in records for key in self._float_keys)

    def column_names(self, prefix: str) -> dict[str, Names]:
        """The names of the columns, for `GraphSet.column_names`."""
        floats = [key for key in self._float_keys if key not in self._always_float]
        found = {f"{prefix}category": self._name_keys, f"{prefix}attributes": floats}
        return {what: tuple(map(printable, keys)) for what, keys in found.items() if keys}

    def floats(self) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """The float columns without the weight, and the weight."""
        if not self._float_keys:
            return None, None
        values = np.array(self._floats, dtype=np.float32).reshape(-1, len(self._float_keys))
        is_weight = np.array([key in self._always_float for key in self._float_keys])
        others, weight = values[:, ~is_weight], values[:, is_weight]
        return (others if others.shape[1] else None), (weight[:, 0] if weight.shape[1] else None)

    def _settle(self, record: dict[str, Any]) -> None:
        self._keys = set(record)
        floats = {key for key, value in record.items() if isinstance(value, float) or key in self._always_float}
        self._float_keys = sorted(floats)
        self._name_keys = sorted(self._keys - floats)
        self.coded = LabelColumns(len(self._name_keys))


def _number(title: str, key: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        where = f"graph {excerpt(title)!r}: key {excerpt(key)!r}"
        raise UserError(f"{where} must hold numbers, not {excerpt(str(value))!r}") from None


class _Building:
    """Builds a set from networkx graphs."""

    def __init__(self) -> None:
        self._builder = GraphSetBuilder(0, 0)
        self._nodes, self._edges = _Columns(), _Columns(always_float=(WEIGHT,))
        self._names: list[str] = []

    def add(self, title: str, graph: Any) -> None:
        """Add a graph; undirected edges are added in both directions."""
        number = {node: p for p, node in enumerate(graph.nodes)}
        self._names.extend(printable(str(node)) for node in number)
        edges = [(number[u], number[v], values) for u, v, values in graph.edges(data=True)]
        for _, _, values in edges:
            values.pop("id", None)  # the name of an edge, which networkx adds to its values
        if not graph.is_directed():
            edges += [(v, u, values) for u, v, values in edges if u != v]
        self._builder.add(len(number), ((u, v) for u, v, _ in edges))
        self._nodes.add(title, [values for _, values in graph.nodes(data=True)])
        self._edges.add(title, [values for _, _, values in edges])

    def graph_set(self, name: str, graph_ids: Sequence[str], directed: bool) -> GraphSet:
        """Build the set of the graphs that were added, without labels."""
        self._builder.nodes, self._builder.edges = self._nodes.coded, self._edges.coded
        attributes, _ = self._nodes.floats()
        edge_attributes, weight = self._edges.floats()
        floats = {"attributes": attributes, "edge_attributes": edge_attributes, "edge_weight": weight}
        columns = self._nodes.column_names("") | self._edges.column_names("edge_")
        names = {"graph_ids": graph_ids, "node_names": self._names, "column_names": columns}
        return self._builder.graph_set(name, [-1] * len(graph_ids), (), directed=directed, **floats, **names)
