"""GraphML: one file of graphs, or a folder of files, with the classes in labels.csv or in the graphs themselves.

labels.csv has a column `graph` (the file's name, with or without .graphml) and one of classes. Without it each graph
carries its class as a graph-level key. Keys of nodes and edges are read by their declared type: floats are attributes,
all else is labels; the edge key `weight` is the weight.
"""

import warnings
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import ParseError

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.gather import Coded, Gather
from cgipool.data.importers.imported import Imported, side_column, side_of
from cgipool.data.importers.labels import NO_CLASSES, WITHOUT, Classes, choose_label, classes_of
from cgipool.data.importers.options import ImportOptions
from cgipool.data.importers.table import open_table
from cgipool.data.names import Names, printable
from cgipool.data.spill import Work
from cgipool.errors import UserError, excerpt
from cgipool.files import check_regular, parsing

LABELS, SUFFIX, WEIGHT = "labels.csv", ".graphml", "weight"


def read_graphml(path: Path, name: str, wishes: ImportOptions, work: Work) -> Iterator[Imported]:
    """The set of a file or of a folder in one piece; its files are read twice: for the classes, then for the graphs."""
    classes, label_of, sides, notes = _classes(path, wishes)
    building = _Building()
    kept: list[int] = []
    names: list[str] = []
    y: list[int] = []
    on_sides: list[str] = []
    for row, (title, graph) in enumerate(_graphs(path), start=1):
        if classes.names and title not in label_of:
            raise UserError(f"{path / LABELS} has one class for each file, but one holds several graphs, as {title}")
        if (number := classes.number(label_of.get(title, ""))) is None:
            continue
        building.add(title, graph)
        kept.append(row)
        names.append(printable(title))
        y.append(number)
        on_sides.append(sides.get(title, ""))
    graphs = building.graph_set(name, y, classes.names, names)
    if len(kept) < len(label_of):
        graphs.dropped["graphs without a label"] = len(label_of) - len(kept)
    ids: dict[str, list[Any]] = {"row": kept, "id": names}
    if sides:
        ids["split"] = on_sides
    yield Imported(graphs, ids, notes=notes)


class _Labels(NamedTuple):
    """What is known about the graphs before they are read."""

    classes: Classes
    of: dict[str, str]
    """Each graph's label; none where no classes are read."""
    sides: dict[str, str]
    """For training, validation or test, where a column says so."""
    notes: tuple[str, ...] = ()


def _classes(path: Path, wishes: ImportOptions) -> _Labels:
    if wishes.unlabelled:
        return _Labels(NO_CLASSES, {}, {})
    return (_from_table if (path / LABELS).exists() else _from_graphs)(path, wishes)


def _from_table(path: Path, wishes: ImportOptions) -> _Labels:
    """By labels.csv; it must name the files there are, each once."""
    table = open_table(path / LABELS, wishes.max_size)
    graph = table.column("graph")
    side, notes = side_column(table, (graph,), wishes.label)
    others = [name for j, name in enumerate(table.columns) if name != "graph" and j != side]
    label = table.column(choose_label(table.path, others, wishes.label))
    found: dict[str, str] = {}
    sides: dict[str, str] = {}
    files = {file.stem for file in _files(path)}
    for row, (title, text, *split) in table.rows(*((graph, label) if side is None else (graph, label, side))):
        key = title.removesuffix(SUFFIX)
        if key in found:
            raise UserError(f"{table.path}, row {row}: graph {excerpt(title)!r} stands there a second time")
        if key not in files:
            raise UserError(f"{table.path}, row {row}: there is no file {excerpt(key)}{SUFFIX}")
        found[key] = text
        if split:
            sides[key] = side_of(split[0])
    for file in _files(path):
        if file.stem not in found:
            raise UserError(f"{table.path} has no row for {file.name}")
    classes = classes_of(table.path, table.columns[label], found.values(), wishes)
    return _Labels(classes, found, sides, notes)


def _from_graphs(path: Path, wishes: ImportOptions) -> _Labels:
    """By a key of the graphs."""
    data = {title: {key: str(value).strip() for key, value in _own(graph).items()} for title, graph in _graphs(path)}
    keys = dict.fromkeys(key for held in data.values() for key in held)
    if not keys:
        none = f"the graphs carry no class, and there is no {LABELS} with columns graph and label"
        raise UserError(f"{path}: {none}; {WITHOUT}")
    label = choose_label(path, list(keys), wishes.label)
    found = {title: held.get(label, "") for title, held in data.items()}
    return _Labels(classes_of(path, label, found.values(), wishes), found, {})


def _own(graph: Any) -> dict[str, Any]:
    """The graph-level keys, less those that networkx adds."""
    return {key: value for key, value in graph.graph.items() if key not in ("node_default", "edge_default")}


def _files(path: Path) -> list[Path]:
    return sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]


def _graphs(path: Path) -> Iterator[tuple[str, Any]]:
    """Each graph with its name: the file's, and a number where a file holds several."""
    from networkx import NetworkXError
    from networkx.readwrite.graphml import GraphMLReader

    files = _files(path)
    if not files:
        raise UserError(f"{path} holds no {SUFFIX} file")
    for file in files:
        check_regular(file)
        with parsing(file):
            try:
                with warnings.catch_warnings(action="ignore"):  # of keys without a type, which are read as text
                    found = list(GraphMLReader()(path=str(file)))
            except (ParseError, NetworkXError, LookupError, ValueError, TypeError, AttributeError) as error:
                raise UserError(f"{file} is not GraphML: {excerpt(str(error))}") from None
        if not found:
            raise UserError(f"{file} holds no graph")
        stem = file.name.removesuffix(SUFFIX)
        for number, graph in enumerate(found):
            yield (stem if len(found) == 1 else f"{stem}#{number}"), graph


class _Held:
    """The keys of all nodes, or of all edges: fixed by the first that come, held to by the others."""

    def __init__(self, always_float: tuple[str, ...] = ()) -> None:
        self.coded = Coded(0)
        self._always_float = always_float
        self._keys: set[str] | None = None
        self._float_keys: list[str] = []
        self._name_keys: list[str] = []
        self._floats = array("f")

    def add(self, title: str, records: Sequence[dict[str, Any]]) -> None:
        """Add one graph's nodes or edges, each a record of values by key."""
        for record in records:
            if self._keys is None:
                self._settle(record)
            if record.keys() != self._keys:
                key = min(record.keys() ^ (self._keys or set()))
                raise UserError(
                    f"graph {excerpt(title)!r}: key {excerpt(key)!r} is on some nodes or edges only; all or none is due"
                )
        self.coded.extend([printable(str(record[key])) for key in self._name_keys] for record in records)
        self._floats.extend(_number(title, key, record[key]) for record in records for key in self._float_keys)

    def column_names(self, prefix: str) -> dict[str, Names]:
        """What the columns are called, as a GraphSet holds it."""
        floats = [key for key in self._float_keys if key not in self._always_float]
        found = {f"{prefix}category": self._name_keys, f"{prefix}attributes": floats}
        return {what: tuple(map(printable, keys)) for what, keys in found.items() if keys}

    def floats(self) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
        """The float columns, and apart from them the weight."""
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
        self.coded = Coded(len(self._name_keys))


def _number(title: str, key: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        where = f"graph {excerpt(title)!r}: key {excerpt(key)!r}"
        raise UserError(f"{where} must hold numbers, not {excerpt(str(value))!r}") from None


class _Building:
    """A set in the making, from networkx graphs."""

    def __init__(self) -> None:
        self._gather = Gather(0, 0)
        self._nodes, self._edges = _Held(), _Held(always_float=(WEIGHT,))
        self._names: list[str] = []

    def add(self, title: str, graph: Any) -> None:
        """Add a graph; of an undirected edge both directions."""
        number = {node: p for p, node in enumerate(graph.nodes)}
        self._names.extend(printable(str(node)) for node in number)
        edges = [(number[u], number[v], held) for u, v, held in graph.edges(data=True)]
        for _, _, held in edges:
            held.pop("id", None)  # the name of an edge, which networkx puts among its values
        if not graph.is_directed():
            edges += [(v, u, held) for u, v, held in edges if u != v]
        self._gather.add(len(number), ((u, v) for u, v, _ in edges))
        self._nodes.add(title, [held for _, held in graph.nodes(data=True)])
        self._edges.add(title, [held for _, _, held in edges])

    def graph_set(self, name: str, y: Sequence[int], class_names: Names, graph_ids: Sequence[str]) -> GraphSet:
        """The set of the graphs added."""
        self._gather.nodes, self._gather.edges = self._nodes.coded, self._edges.coded
        attributes, _ = self._nodes.floats()
        edge_attributes, weight = self._edges.floats()
        floats = {"attributes": attributes, "edge_attributes": edge_attributes, "edge_weight": weight}
        columns = self._nodes.column_names("") | self._edges.column_names("edge_")
        names = {"graph_ids": graph_ids, "node_names": self._names, "column_names": columns}
        return self._gather.graph_set(name, y, class_names, **floats, **names)
