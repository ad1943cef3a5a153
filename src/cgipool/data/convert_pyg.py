"""Convert PyG `Data` objects to a GraphSet and back.

`to_pyg` writes the keys `category` and `edge_category` (codes, whole numbers), `attributes` and `edge_attr` (floats),
`edge_weight`, `node_truth`, `num_nodes`, and `y` (a class code, or targets of shape [1, T] in single precision). It
also writes `x`, the input of a PyG model: the one-hot codes of each label column, then the attributes. Without labels
and attributes, `x` is the one-hot degree, and the key `degree` is written too.

`from_pyg` reads the same keys. In data from elsewhere, `x` and `edge_attr` are read by type: whole numbers are labels,
floats are attributes. An `x` that only repeats the other keys is ignored. `Data` cannot store names: `class_names`,
`category_names` and `edge_category_names` give them; without, the values are the names. `y` is a class if it is one
number of an integer type; for floats the values decide. `task` overrides this. With `class_names=()`, `y` is not read.
Other keys are ignored with a warning.
"""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.join import Coded, GraphParts
from cgipool.data.names import Names, encode_columns
from cgipool.data.targets import AUTO, in_graphs, labelled
from cgipool.errors import UnusedDataWarning, UserError, excerpt, warn_user

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from cgipool.data.graphs import GraphSet


def from_pyg(
    graphs: Sequence["Data"],
    name: str,
    *,
    class_names: Names | None = None,
    category_names: tuple[Names, ...] | None = None,
    edge_category_names: tuple[Names, ...] | None = None,
    task: str = AUTO,
    directed: bool = False,
) -> "GraphSet":
    """Build a set from these graphs. If names are given, labels are indices into them. `directed` keeps the direction
    of edges."""
    if hasattr(graphs, "edge_index"):
        raise UserError("from_pyg takes a list of Data: [data] for a single graph, batch.to_data_list() for a Batch")
    arrays = [_arrays(i, data) for i, data in enumerate(graphs)]
    if all(map(_x_repeats, arrays)):
        for columns in arrays:
            columns.pop("x", None)
    pairs = zip(graphs, arrays, strict=True)
    parts = GraphParts([_read(i, data, columns) for i, (data, columns) in enumerate(pairs)])
    _warn_of_unread(graphs)
    category = _codes(parts.of_nodes("category", np.int64), category_names)
    edge_category = _codes(parts.of_edges("edge_category", np.int64), edge_category_names)
    made = parts.graphset(name, np.full(len(graphs), -1), (), category, edge_category, directed)
    return made if class_names == () else labelled(made, y_rows(graphs), class_names, task)


def y_rows(graphs: Sequence["Data"]) -> list[NDArray[Any]]:
    """The labels of each graph [T]: y must be one number, or a row [1, T]."""
    if missing := [i for i, data in enumerate(graphs) if data.get("y") is None]:
        raise UserError(f"y is missing {in_graphs(missing)}")
    values = [_tensor(data["y"]) for data in graphs]
    if bad := [i for i, row in enumerate(values) if row.dtype.kind not in "biuf" or row.ndim > 2 or _rows(row) != 1]:
        first = values[bad[0]]
        found = (
            excerpt(str(graphs[bad[0]]["y"]), 60) if first.dtype.kind not in "biuf" else f"shape {list(first.shape)}"
        )
        raise UserError(f"y must be one number, or targets of shape [1, T]; it is not {in_graphs(bad)}: {found}")
    return [row.reshape(-1) for row in values]


def _rows(values: NDArray[Any]) -> int:
    """The length of an array; one number counts as a row."""
    return len(values) if values.ndim else 1


def to_pyg(graphs: "GraphSet") -> list["Data"]:
    """One `Data` per graph, with codes for labels and an `x` of floats."""
    import torch
    from torch_geometric.data import Data

    source = graphs.edge_source
    ends = torch.from_numpy(np.stack([source, source + graphs.edge_disp]))

    def tensors(**columns: NDArray[Any] | None) -> dict[str, torch.Tensor]:
        return {key: torch.from_numpy(np.array(values)) for key, values in columns.items() if values is not None}

    category, attributes = _int64(graphs.category), graphs.attributes
    degree = graphs.degree.astype(np.int64) if category is None and attributes is None else None
    nodes = tensors(category=category, attributes=attributes, degree=degree, node_truth=graphs.node_truth)
    edges = tensors(
        edge_category=_int64(graphs.edge_category),
        edge_weight=graphs.edge_weight,
        edge_attr=graphs.edge_attributes,
    )
    labels = [] if category is None else list(zip(nodes["category"].T, map(len, graphs.category_names), strict=True))
    if degree is not None:
        labels = [(nodes["degree"], int(degree.max(initial=0)) + 1)]
    labels_of = graphs.y if graphs.targets is None else graphs.targets.astype(np.float32)
    y = torch.from_numpy(np.array(labels_of)) if graphs.is_labelled else None
    made = []
    for i in range(graphs.n_graphs):
        at = slice(*map(int, graphs.node_ptr[i : i + 2]))
        span: Any = slice(int(graphs.edge_ptr[at.start]), int(graphs.edge_ptr[at.stop]))
        if graphs.directed:
            span = torch.arange(span.start, span.stop)[edges["edge_weight"][span] != 0]
        columns = {key: values[at] for key, values in nodes.items()}
        hot = [torch.nn.functional.one_hot(codes[at], width).float() for codes, width in labels]
        columns["x"] = torch.cat(hot if attributes is None else [*hot, columns["attributes"].float()], 1)
        columns |= {key: values[span] for key, values in edges.items()}
        edge_index = ends[:, span] - at.start
        if y is not None:
            columns["y"] = y[i : i + 1]
        made.append(Data(edge_index=edge_index, num_nodes=at.stop - at.start, **columns))
    return made


def _int64(codes: NDArray[Any] | None) -> NDArray[np.int64] | None:
    """Codes as int64, torch's type for indices."""
    return None if codes is None else codes.astype(np.int64)


def _codes(values: NDArray[Any] | None, names: tuple[Names, ...] | None) -> Coded:
    if values is None:
        return None, ()
    return encode_columns(values) if names is None else (values.astype(np.int32), names)


TYPED = {
    "category": ("category", "attributes"),
    "attributes": ("category", "attributes"),
    "x": ("category", "attributes"),
    "edge_category": ("edge_category", "edge_attributes"),
    "edge_attr": ("edge_category", "edge_attributes"),
}
"""Keys that are read by type → the field for whole numbers, and the field for floats."""

PLAIN = ("edge_index", "edge_weight", "node_truth")


IGNORED = ("y", "num_nodes", "batch", "ptr", "degree")
"""Keys that are not features, are read elsewhere, or follow from the edges."""


def _warn_of_unread(graphs: Sequence["Data"]) -> None:
    """Warn about keys that are not read."""
    unread = {str(key) for data in graphs for key in data.keys()} - {*TYPED, *PLAIN, *IGNORED}  # noqa: SIM118
    if unread:
        names = excerpt(", ".join(sorted(map(repr, unread))))
        warn_user(
            f"keys of Data that are not read: {names}; features are read from 'x' and 'edge_attr'", UnusedDataWarning
        )


def _arrays(i: int, data: "Data") -> dict[str, NDArray[Any]]:
    """The columns of one graph as arrays, by PyG's keys."""
    arrays = {key: _array(i, key, data[key]) for key in (*TYPED, *PLAIN) if data.get(key) is not None}
    if "x" in arrays and data.get("degree") is not None:
        arrays["degree"] = _array(i, "degree", data["degree"])
    return arrays


def _x_repeats(arrays: dict[str, NDArray[Any]]) -> bool:
    """Whether x is what `to_pyg` computes from the other columns."""
    x, codes, floats = (arrays.get(key) for key in ("x", "category", "attributes"))
    if codes is None and floats is None:
        codes = arrays.get("degree")
    if x is None or x.dtype.kind != "f" or (codes is None and floats is None):
        return False
    codes = np.empty((len(x), 0), np.int64) if codes is None else codes
    floats = np.empty((len(x), 0)) if floats is None else floats
    hot = x.shape[1] - floats.shape[1]
    row, column = np.nonzero(x[:, :hot])
    if len(row) != codes.size or not np.array_equal(row, np.repeat(np.arange(len(x)), codes.shape[1])):
        return False
    offset = column.reshape(codes.shape) - codes  # where the columns of each label begin
    ones = bool((x[row, column] == 1).all())
    return ones and bool((offset == offset[:1]).all()) and np.array_equal(x[:, hot:], floats)


def _read(i: int, data: "Data", arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The columns of one graph, by the field names of a GraphSet."""
    part: dict[str, Any] = dict.fromkeys(("category", "attributes", "edge_category", "edge_attributes"))
    part |= {"edge_weight": arrays.get("edge_weight"), "node_truth": arrays.get("node_truth")}
    for key, (whole, real) in TYPED.items():
        if key in arrays and arrays[key].shape[1]:
            place = real if arrays[key].dtype.kind == "f" else whole
            if part[place] is not None:
                raise UserError(f"graph {i}: {key!r} and another key both hold {place}")
            part[place] = arrays[key]
    part["size"] = _size(i, data, arrays)
    part["source"], part["target"] = _ends(i, arrays.get("edge_index"), part["size"])
    return part


def _ends(i: int, ends: NDArray[Any] | None, size: int) -> NDArray[Any]:
    if ends is None or ends.size == 0:
        return np.empty((2, 0), dtype=np.int64)
    if len(ends) != 2 or ends.dtype.kind not in "iu":
        raise UserError(f"graph {i}: edge_index must be whole numbers of shape [2, E]")
    if ends.min() < 0 or ends.max() >= size:
        raise UserError(f"graph {i}: edge_index goes from {ends.min()} to {ends.max()}; it has {size} nodes")
    return ends


def _tensor(value: Any) -> NDArray[Any]:
    """A tensor as an array; an array of objects if that is impossible."""
    try:
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):  # sparse tensors raise RuntimeError
        return np.empty(0, dtype=object)


def _array(i: int, key: str, value: Any) -> NDArray[Any]:
    """A tensor of numbers as an array of two dimensions."""
    values = _tensor(value)
    if values.dtype.kind not in "biuf" or values.ndim > 2:
        raise UserError(f"graph {i}: {key} is not an array of numbers with one or two dimensions")
    return values if values.ndim == 2 else values.reshape(-1, 1)


def _size(i: int, data: "Data", arrays: dict[str, NDArray[Any]]) -> int:
    """The number of nodes. It is not guessed from the edges, which would lose isolated last nodes."""
    if "num_nodes" in data:
        return _whole(i, data["num_nodes"])
    for key in ("x", "category", "attributes", "degree", "node_truth"):
        if key in arrays:
            return len(arrays[key])
    raise UserError(f"graph {i}: neither num_nodes nor a node column says how many nodes it has")


def _whole(i: int, nodes: Any) -> int:
    try:
        count = operator.index(nodes)
    except (TypeError, ValueError, RuntimeError):  # sparse tensors, or several numbers
        count = -1
    if not 0 <= count < 2**62:
        raise UserError(f"graph {i}: num_nodes must be a whole number from 0")
    return count
