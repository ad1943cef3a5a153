"""`GraphClassifier`: pooling networks as a scikit-learn classifier."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.inference.estimator_base import (
    GraphEstimator,
    NotTrainedError,
    check_targets,
    describe_settings,
    numbers_in,
    read_training,
)
from cgipool.inference.inputs import encode_labels, labels_of, names_of, weights_by_class
from cgipool.task.decisions import class_of, ones_in

__all__ = ["GraphClassifier", "NotTrainedError"]


class GraphClassifier(ClassifierMixin, GraphEstimator):
    """A classifier of whole graphs.

    y holds one label per graph or, for multi-label classification, columns of 0 and 1 [G, T] with NaN where missing.
    Graphs are a `GraphSet`, or a list of PyG `Data`, NetworkX graphs or SMILES. A share of the training graphs is held
    back for validation; training stops early when the validation loss no longer decreases.

    From `form` on, the parameters are the settings of a `Recipe`. A setting that is None has the recipe's value; the
    defaults below are those of recipe "paper". `class_weight` may also be a dict that maps labels to weights.

    Parameters
    ----------
    method : str, default="cgi"
        The pooling method: a name of `cgipool methods`, or "MODULE:CLASS" for your own, which imports that module.
        "auto" searches for the best method and settings within `budget`, as `cgipool fit --auto` does.
    recipe : str or Recipe, default="strong"
        All settings at once: "paper", "released" or "strong".
    ensemble : int, default=1
        Number of models whose predictions are averaged.
    validation : float, default=0.1
        Share of the training graphs that is held back for early stopping.
    random_state : int, RandomState or None, default=0
        Seed of the weights, the validation graphs and all random draws. With None or a generator, every call of `fit`
        gives another model.
    device : str, default="cpu"
        "cpu", "cuda" or "cuda:N".
    verbose : bool or int, default=False
        Print a line after every `verbose` epochs; True prints after every epoch.
    warm_start : bool, default=False
        Continue the training of the last `fit`, or of a loaded model, on the graphs of the next one: its weights, input
        columns, classes and target scaling are kept.
    budget : str or float, default="5m"
        With method="auto": the time to spend, such as "90s", "5m" or "2h", or a number of seconds.
    metric : str, default=None
        With method="auto": the metric to optimise. None: the primary metric of the task.
    folder : str or Path, default=None
        With method="auto": a folder for the search, so that an interrupted fit can continue.
    **settings : Any
        Single settings of the recipe, by name (reference page Recipes).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or a list of such arrays
        The labels, sorted; for a multi-label y, [0, 1] for each column.
    model_ : FittedModel
        The trained networks.
    history_ : list of dict
        One dict for each epoch of each member: member, epoch, train_loss, val_loss, val_accuracy, seconds, and the
        diagnostics of the method. `pandas.DataFrame(model.history_)` makes a table of it. A loaded model has none.
    leaderboard_ : list of dict
        After method="auto": the candidates that were tried, best first.
    estimate_ : dict
        After method="auto": the metrics on graphs held out from every choice, and the interval ("low", "high") of the
        one that was optimised ("metric").

    Examples
    --------
    >>> model = GraphClassifier(method="cgi", epochs=100).fit(graphs, y)
    >>> model.predict(new_graphs)
    """

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on graphs and their labels. Without y, the labels of a GraphSet are used.

        `sample_weight` [G] is the weight of each graph in the loss. A warning lists parts of the graphs that
        training does not use (attributes, edge weights, directions, …).
        """
        featurizer, graphs = read_training(X, self._before)
        if y is None:
            check_targets(X, graphs, ("classification", "multilabel"))
            if graphs.task == "classification":
                y = [graphs.class_names[c] for c in graphs.y]
        if (columns := _label_columns(y, graphs)) is not None:
            return self._fit_columns(graphs.with_targets(*columns, "multilabel"), featurizer, sample_weight)
        codes, classes = encode_labels(y, len(graphs))
        more: dict[str, Any] = {"featurizer": featurizer}
        if isinstance(self.class_weight, Mapping):
            more["class_weight"] = None
            sample_weight = weights_by_class(self.class_weight, classes[codes], sample_weight)
        fitted = self._train(graphs.relabelled(codes, names_of(classes)), sample_weight, **more)
        if self._before is not None:  # y may lack some of the classes
            classes = self.classes_
        self.model_ = replace(fitted, about=fitted.about | {"labels": classes.tolist()})
        self.classes_: Any = classes
        self.history_ = fitted.history
        return self

    def _fit_columns(self, graphs: GraphSet, featurizer: Any, sample_weight: ArrayLike | None) -> Self:
        """Train on several 0/1 columns."""
        self.model_ = self._train(graphs, sample_weight, featurizer=featurizer)
        self.classes_ = [np.array([0, 1]) for _ in graphs.target_names]
        self.history_ = self.model_.history
        return self

    @property
    def _is_multilabel(self) -> bool:
        return self._fitted.task_name == "multilabel"

    def predict_proba(self, X: Any) -> Any:
        """[G, classes] probabilities, in the order of `classes_`; for a multi-label y, a list of such arrays, as
        scikit-learn's multi-output classifiers return them."""
        answers = self._fitted.predictions(self._read(X))
        if self._is_multilabel:
            return [np.stack([1.0 - column, column], axis=1) for column in answers.T]
        return answers

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """[G] the most probable label of each graph; for a multi-label y, [G, T] of 0 and 1. A model of method="auto"
        may have other thresholds for rare classes than one half.

        With `return_std`, also the standard deviation of the probabilities over the members of an ensemble.
        """
        answers, deviation = self._predictions(X, return_std)
        thresholds = self._fitted.thresholds
        if self._is_multilabel:
            found = ones_in(answers, thresholds).astype(int)
        else:
            found = self.classes_[class_of(answers, thresholds)]
        return (found, deviation) if return_std else found

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on graphs, weighted by `sample_weight`. Without y, the labels of a GraphSet are used.

        For a multi-label y, the mean ROC-AUC over the columns that have both values; NaN if no column has both.
        """
        if y is None and not (isinstance(X, GraphSet) and X.is_labelled):
            raise UserError("score needs y, one label for each graph")
        if self._is_multilabel:
            return self._score_columns(X, y, sample_weight)
        found = self.predict(X)
        y = labels_of([X.class_names[c] for c in X.y] if y is None else y, len(found))
        if _text(y) != _text(self.classes_):
            kinds = [", ".join(map(repr, some[:3].tolist())) for some in (y, self.classes_)]
            raise UserError(
                f"the labels in y ({kinds[0]}, …) are of another type than the training labels ({kinds[1]}, …)"
            )
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average(found == y, weights=weights))

    def _score_columns(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> float:
        """The mean ROC-AUC over columns."""
        if sample_weight is not None:
            raise UserError("the score of several 0/1 columns does not use sample_weight")
        graphs = self._read(X)
        if y is None:
            self._fitted.check_labels(graphs)
        targets = self._fitted.labels_of(graphs) if y is None else numbers_in(y, len(graphs))
        columns = len(self._fitted.target_names)
        if targets.ndim != 2 or targets.shape[1] != columns:
            raise UserError(f"y must have {columns} columns, as the model predicts; its shape is {targets.shape}")
        return self._fitted.task.value("roc_auc", targets, self._fitted.predictions(graphs))

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", allow_code: bool = False) -> Self:
        """Load a classifier from a file that `save` or `cgipool fit` wrote.

        A model with your own pool names its class, MODULE:CLASS. Importing it runs code, so it needs `allow_code`.
        """
        made = cls._loaded(path, device, allow_code, ("classification", "multilabel"))
        model = made.model_
        if model.task_name == "multilabel":
            made.classes_ = [np.array([0, 1]) for _ in model.target_names]
        else:
            made.classes_ = np.array(model.about.get("labels", model.class_names))
        return made


def _label_columns(y: Any, graphs: GraphSet) -> tuple[Any, Any] | None:
    """Several 0/1 columns and their names; None if y is one label per graph."""
    if y is None:
        return graphs.targets, graphs.target_names
    values = np.asarray(y) if not isinstance(y, list | tuple) else None
    if values is None and len(y) and isinstance(y[0], list | tuple | np.ndarray):
        values = np.asarray(y)
    if values is None or values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind not in "biuf":
        return None
    names = [str(name) for name in y.columns] if hasattr(y, "columns") else None
    return numbers_in(y, len(graphs)), names


def _text(labels: NDArray[Any]) -> bool:
    """Whether all labels are strings, which never equal numbers."""
    return all(isinstance(label, str) for label in labels.tolist())


describe_settings(GraphClassifier)
