"""The ids and names that a data set carries: of its graphs, its nodes and its columns."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from cgipool.data.graphs import GraphSet
from cgipool.data.importers import imported, smiles
from cgipool.errors import UserError, excerpt
from cgipool.predict import is_table


def graph_ids(path: Path, graphs: GraphSet | None = None) -> Iterator[str]:
    """The ids of the graphs of a set at a path, or of the rows of a table, in order; nothing if the source has none."""
    from cgipool.data.importers.table import Table

    own = getattr(graphs, "graph_ids", None)
    if own is not None:
        yield from own
        return
    saved = not is_table(path)
    file = path / imported.IDS if saved else path
    if not file.is_file():
        return
    table = Table(file)
    columns = {_letters(name): column for column, name in reversed(list(enumerate(table.columns)))}
    column = next((columns[name] for name in (("id",) if saved else smiles.IDS) if name in columns), None)
    if column is not None:
        for (values,) in table.as_written(column) if saved else table.batches(column):
            yield from values.to_pylist()


def _letters(name: str) -> str:
    """The letters and digits of a column's name."""
    return "".join(filter(str.isalnum, name.lower()))


def id_at(path: Path, number: int, graphs: GraphSet | None = None) -> str:
    """The id of the graph at a position; empty if it has none."""
    return next(islice(graph_ids(path, graphs), number, None), "")


def find_graph(path: Path, which: str, graphs: GraphSet | None = None) -> int:
    """The position of the graph with this id or, if there is none, the position that the text says."""
    found = [number for number, name in enumerate(graph_ids(path, graphs)) if name == which]
    if len(found) > 1:
        raise UserError(
            f"several graphs of {path} have the id {excerpt(which)!r}, among them {found[0]} and {found[1]}"
        )
    if found:
        return found[0]
    if not (which.isascii() and which.isdigit() and len(which) <= 18):
        raise UserError(f"no graph of {path} has the id {excerpt(which)!r}, and it is not a position counted from 0")
    return int(which)


def node_names(graphs: GraphSet) -> Sequence[str]:
    """[N] the names of the nodes of all graphs; empty if they have none."""
    names = getattr(graphs, "node_names", None)
    return () if names is None else list(names)


def column_names(graphs: GraphSet, featurizer: dict[str, Any] | None) -> Sequence[str]:
    """The names of the node label columns; empty if they have none."""
    if featurizer is not None:
        return [str(column["name"]) for column in featurizer["atoms"]]
    return getattr(graphs, "column_names", {}).get("category", ())
