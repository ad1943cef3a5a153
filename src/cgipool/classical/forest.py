"""Random forests on columns of numbers, kept as flat arrays of nodes.

Breiman: Random Forests. Machine Learning 2001. Geurts, Ernst, Wehenkel: Extremely Randomized Trees. Machine Learning
2006. Shapes: G graphs, n graphs, D columns, M nodes of all trees, T trees.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

from cgipool.classical.base import Arrays, Doubles, Examples, Fitted, Ints
from cgipool.data.descriptors import Features, check_molecules
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.task.base import Task

TREES = 500

LEAF = -1
"""The column of a leaf, which tests none."""

ARRAYS = ("root", "target", "column", "threshold", "left", "right", "value", "width")


class Forest:
    """A forest of `TREES` trees with scikit-learn's settings; the validation graphs are not used.

    Each target column has its own forest, fitted on the graphs whose value is known.
    """

    def __init__(self, title: str, features: Features, extra: bool = False) -> None:
        """`extra`: thresholds are drawn at random, and each tree sees all training graphs."""
        self.title, self.features = title, features
        self.kinds = (
            (ExtraTreesClassifier, ExtraTreesRegressor) if extra else (RandomForestClassifier, RandomForestRegressor)
        )

    def prepare(self, graphs: GraphSet) -> None:
        """Compute the features."""
        check_molecules(graphs, self.title)
        self.features(graphs)

    def fit(self, examples: Examples) -> Fitted:
        """Fit on the training graphs."""
        check_molecules(examples.graphs, self.title)
        x, task = self.features(examples.graphs), examples.task
        targets = task.targets(examples.graphs, examples.train)
        weight = examples.weights(examples.train)
        columns = targets[:, None] if task.name == "classification" else targets
        trees: list[dict[str, Any]] = []
        for place, column in enumerate(columns.T):
            known = np.flatnonzero(~np.isnan(column.astype(np.float64)))
            ids, of_known = examples.train[known], None if weight is None else weight[known]
            trees += [tree | {"target": place} for tree in self._grown(examples, x[ids], column[known], of_known)]
        return Fitted(_flat(trees, x.shape[1]), {"trees": float(len(trees))})

    def predict(self, arrays: Arrays, graphs: GraphSet, task: Task) -> Doubles:
        """[G, O] the mean over the trees of each target: class probabilities, label probabilities or values."""
        check_molecules(graphs, self.title)
        x = self.features(graphs)
        if x.shape[1] != int(arrays["width"]):
            counts = f"{x.shape[1]} descriptors, and the model was trained with {int(arrays['width'])}"
            raise UserError(f"this version of RDKit has {counts}")
        leaves = arrays["value"].shape[1]
        total = np.zeros((graphs.n_graphs, task.outputs // leaves, leaves))
        for root, target in zip(arrays["root"].tolist(), arrays["target"].tolist(), strict=True):
            total[:, target] += arrays["value"][_leaf(arrays, x, root)]
        count = np.bincount(arrays["target"], minlength=total.shape[1])
        return (total / np.maximum(count, 1)[:, None]).reshape(graphs.n_graphs, task.outputs)

    def _grown(
        self, examples: Examples, x: NDArray[np.float32], y: NDArray[Any], weight: Doubles | None
    ) -> list[dict[str, Any]]:
        """The trees of one target, each with its nodes' column, threshold, left, right and value."""
        task, settings = examples.task, {"n_estimators": TREES, "random_state": examples.seed}
        if len(y) == 0:
            return [_single(np.array([examples.task.baseline(examples.graphs, examples.train)[0]]))]
        if task.name == "regression":
            # Breiman's choice for regression; scikit-learn's, all columns at each node, takes three times as long.
            grown: Any = self.kinds[1](max_features=1 / 3, **settings).fit(x, y, weight)
            return [_nodes(each.tree_, each.tree_.value[:, 0, :]) for each in grown.estimators_]
        grown = self.kinds[0](class_weight=examples.class_weight, **settings).fit(x, y, weight)
        if task.name == "multilabel":
            place = np.flatnonzero(grown.classes_ == 1.0)
            trees = [each.tree_ for each in grown.estimators_]
            return [_nodes(tree, _shares(tree)[:, place].sum(1, keepdims=True)) for tree in trees]
        found = []
        for each in grown.estimators_:
            shares = np.zeros((each.tree_.node_count, task.outputs))
            shares[:, grown.classes_] = _shares(each.tree_)
            found.append(_nodes(each.tree_, shares))
        return found

    def check_arrays(self, arrays: Arrays, task: Task) -> None:
        """Raise ValueError unless the arrays are those of trees for this task."""
        if set(arrays) != set(ARRAYS):
            raise ValueError(f"it should have the arrays {', '.join(ARRAYS)}")
        nodes, trees = len(arrays["column"]), len(arrays["root"])
        leaves = task.outputs if task.name == "classification" else 1
        shapes = dict.fromkeys(("threshold", "left", "right"), (nodes,)) | {"target": (trees,), "width": ()}
        if any(arrays[name].shape != shape for name, shape in shapes.items()):
            raise ValueError("the arrays of its trees differ in length")
        if arrays["value"].shape != (nodes, leaves) or not np.isfinite(arrays["value"]).all():
            raise ValueError("the values of its leaves do not match its targets")
        whole = ("root", "target", "column", "left", "right", "width")
        if any(arrays[name].dtype.kind != "i" for name in whole) or trees == 0:
            raise ValueError("its trees have indices that are not whole numbers")
        own, column = np.arange(nodes), arrays["column"]
        inner = column != LEAF
        for side in ("left", "right"):  # children come after their parent, so there is no cycle
            if (arrays[side][inner] <= own[inner]).any() or (arrays[side][inner] >= nodes).any():
                raise ValueError("a node of its trees has an invalid child")
        if (column < LEAF).any() or (column >= int(arrays["width"])).any() or not _within(arrays["root"], nodes):
            raise ValueError("a node of its trees is out of range")
        if not _within(arrays["target"], task.outputs // leaves):
            raise ValueError("a tree belongs to an unknown target")


def _within(values: NDArray[Any], end: int) -> bool:
    return bool((values >= 0).all() and (values < end).all())


def _shares(tree: Any) -> Doubles:
    """[nodes, classes] the share of each class."""
    value = tree.value[:, 0, :]
    return value / value.sum(1, keepdims=True)


def _nodes(tree: Any, value: Doubles) -> dict[str, Any]:
    leaf = tree.children_left < 0
    plain = {"left": tree.children_left, "right": tree.children_right, "threshold": tree.threshold}
    return plain | {"column": np.where(leaf, LEAF, tree.feature), "value": value}


def _single(value: Doubles) -> dict[str, Any]:
    """A tree with a single leaf."""
    none = np.array([LEAF])
    return {"left": none, "right": none, "threshold": np.zeros(1), "column": none, "value": value[None]}


def _flat(trees: list[dict[str, Any]], width: int) -> dict[str, NDArray[Any]]:
    """The nodes of all trees, one tree after another."""
    sizes = np.array([len(tree["column"]) for tree in trees])
    root = np.cumsum(sizes) - sizes
    shift = np.repeat(root, sizes)

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([tree[name] for tree in trees])

    inner = joined("column") != LEAF
    return {
        "root": root.astype(np.int32),
        "target": np.array([tree["target"] for tree in trees], np.int32),
        "column": joined("column").astype(np.int32),
        "threshold": joined("threshold").astype(np.float64),
        "left": np.where(inner, joined("left") + shift, LEAF).astype(np.int32),
        "right": np.where(inner, joined("right") + shift, LEAF).astype(np.int32),
        "value": joined("value").astype(np.float32),
        "width": np.array(width),
    }


def _leaf(arrays: Arrays, x: NDArray[np.float32], root: int) -> Ints:
    """[G] the leaf of one tree that each row of x ends in."""
    at = np.full(len(x), root)
    walking = np.arange(len(x))
    while len(walking):
        walking = walking[arrays["column"][at[walking]] != LEAF]
        node = at[walking]
        goes_left = x[walking, arrays["column"][node]] <= arrays["threshold"][node]
        at[walking] = np.where(goes_left, arrays["left"][node], arrays["right"][node])
    return at
