"""Convert the inputs of the estimators (a GraphSet, PyG data, NetworkX graphs, SMILES) to a GraphSet."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.errors import UserError, counted, excerpt

KINDS = "a GraphSet, or a list of PyG data, NetworkX graphs or SMILES"


def to_graphset(x: Any, featurize: Callable[[Sequence[str]], GraphSet] | None = None) -> GraphSet:
    """The graphs of x, which is one of `KINDS`. Classes of PyG data and NetworkX graphs are ignored.

    `featurize` converts SMILES to graphs.
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
    """Whether x is a list of strings."""
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
    """Labels [G] as an array. Raise UserError unless there is one per graph; a single column [G, 1] is accepted."""
    if isinstance(y, list | tuple) and any(map(_is_missing, y)):
        raise _missing(y)
    if isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1:
        raise UserError("y mixes strings with other types of labels")
    if isinstance(y, list | tuple) and any(isinstance(label, list | tuple) and _has_text(label) for label in y):
        raise UserError(f"y must hold one label for each graph, not lists of labels such as {excerpt(repr(y[0]), 60)}")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (count,):
        raise UserError(f"y must hold {counted(count, 'label')}, one for each graph; its shape is {labels.shape}")
    return labels


def _has_text(labels: Sequence[Any]) -> bool:
    return any(isinstance(label, str) for label in labels)


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas' NA."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # comparing pandas' NA gives neither true nor false
        return True


def _missing(labels: Sequence[Any]) -> UserError:
    where = [i for i, label in enumerate(labels) if _is_missing(label)]
    which = f"graph {where[0]}" if len(where) == 1 else f"{len(where)} graphs, the first is graph {where[0]}"
    return UserError(f"y has missing labels: None or NaN for {which}; leave these graphs out")


def encode_labels(y: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels [G] as codes, and the sorted labels."""
    labels = labels_of(y, count)
    if labels.dtype.kind in "fOmM" and any(map(_is_missing, labels)):
        raise _missing(list(labels))
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all() or (labels != labels.round()).any():
            raise UserError("y must hold class labels; for continuous targets use GraphRegressor")
        labels = labels.astype(np.int64)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise UserError("y mixes types of labels that cannot be sorted") from None
    if len(classes) < 2:
        raise UserError("y has only one class; at least two are needed")
    return codes, classes


def names_of(classes: np.ndarray) -> Names:
    """The class names of a GraphSet for these labels."""
    return tuple(str(label) for label in classes.tolist())


def weights_by_class(class_weight: Mapping[Any, float], y: NDArray[Any], sample_weight: ArrayLike | None) -> ArrayLike:
    """[G] the weight of each graph: that of its class times its sample weight."""
    from sklearn.utils.class_weight import compute_sample_weight

    try:
        weight = compute_sample_weight(dict(class_weight), y)
        bad = not np.isfinite(weight).all() or (weight < 0).any()
    except (TypeError, ValueError) as error:
        raise UserError(f"class_weight does not match the labels: {' '.join(str(error).split())}") from None
    if bad:
        raise UserError("class_weight must map labels to finite, non-negative numbers")
    return weight if sample_weight is None else weight * np.asarray(sample_weight)


def seed_of(state: Any) -> int:
    """The seed from a `random_state`, as in scikit-learn: None is NumPy's global generator."""
    if isinstance(state, Integral):
        return int(state)
    generator = np.random.mtrand._rand if state is None else state
    if not isinstance(generator, np.random.RandomState):
        raise UserError(f"random_state must be a whole number, None or a RandomState, not {state!r}")
    return int(generator.randint(2**31 - 1))
