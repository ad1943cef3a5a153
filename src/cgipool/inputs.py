"""Graphs as people hold them (a GraphSet, PyG data, NetworkX graphs, SMILES) as one GraphSet."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.errors import UserError
from cgipool.words import counted

KINDS = "a GraphSet, or a list of PyG data, NetworkX graphs or SMILES"


def to_graphset(x: Any, featurize: Callable[[Sequence[str]], GraphSet] | None = None) -> GraphSet:
    """The graphs of x, which is one of `KINDS`; what class they have of themselves, if any, means nothing.

    `featurize` makes graphs of SMILES.
    """
    if isinstance(x, GraphSet):
        return x
    if isinstance(x, str) or not hasattr(x, "__len__"):
        raise UserError(f"graphs must be {KINDS}, not {type(x).__name__}")
    if type(x).__name__ == "Data" or _kind(x) == "NetworkX":
        raise UserError(f"graphs must be {KINDS}; put a single graph into a list")
    items = list(x)
    if not items:
        raise UserError("there are no graphs")
    kinds = {_kind(item) for item in items}
    if len(kinds) > 1:
        raise UserError(f"graphs must be of one kind, not {' and '.join(sorted(map(str, kinds)))}")
    kind = kinds.pop()
    if kind == "GraphSet":
        return GraphSet.join(items, "graphs")
    if kind == "PyG data":
        return GraphSet.from_pyg(items, "graphs", class_names=())
    if kind == "NetworkX":
        return GraphSet.from_networkx(items, "graphs", class_names=())
    if kind == "SMILES":
        if featurize is None:
            raise UserError("this model was not trained on SMILES, so it cannot read them")
        return featurize(items)
    raise UserError(f"graphs must be {KINDS}, not {kind}")


def is_smiles(x: Any) -> bool:
    """Whether x is a list of texts."""
    listed = not isinstance(x, GraphSet | str) and hasattr(x, "__len__") and len(x) > 0
    return listed and isinstance(next(iter(x)), str)


def _kind(item: Any) -> str:
    if isinstance(item, GraphSet):
        return "GraphSet"
    if isinstance(item, str):
        return "SMILES"
    module = type(item).__module__.split(".")[0]
    if module == "torch_geometric" or hasattr(item, "edge_index"):
        return "PyG data"
    if module == "networkx" or (hasattr(item, "nodes") and hasattr(item, "adj")):
        return "NetworkX"
    return type(item).__name__


def labels_of(y: Any, count: int) -> np.ndarray:
    """Labels [G] as an array; an error unless there are as many as graphs."""
    if isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1:
        raise UserError("y has labels of several kinds, texts and others")
    labels = np.asarray(y)
    if labels.shape != (count,):
        raise UserError(f"y must hold {counted(count, 'label')}, one for each graph; its shape is {labels.shape}")
    return labels


def encode_labels(y: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels [G] as codes and the sorted labels that occur."""
    labels = labels_of(y, count)
    if labels.dtype.kind == "f":
        whole = np.isfinite(labels).all() and (labels == labels.round()).all()
        if not whole:
            raise UserError("y holds numbers that are no classes; this classifies, it does not regress")
        labels = labels.astype(np.int64)
    if labels.dtype == object and any(label is None or label != label for label in labels):
        raise UserError("y has missing labels")
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise UserError("y has labels of several kinds, which have no order") from None
    if len(classes) < 2:
        raise UserError("y has one class only; there is nothing to classify")
    return codes, classes


def names_of(classes: np.ndarray) -> Names:
    """Labels as a GraphSet names its classes."""
    return tuple(str(label) for label in classes.tolist())
