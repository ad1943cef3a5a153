"""`GraphClassifier`: pooling networks as a scikit-learn classifier."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, unknown, whole_number
from cgipool.inference.fitted import FittedModel, fit
from cgipool.inference.inputs import (
    encode_labels,
    is_smiles,
    labels_of,
    names_of,
    seed_of,
    to_graphset,
    weights_by_class,
)
from cgipool.inference.predict_input import check_featurizer
from cgipool.training.job import printing
from cgipool.training.recipe import SETTINGS, Recipe


class GraphClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of whole graphs.

    Graphs are a `GraphSet`, or a list of PyG `Data`, NetworkX graphs or SMILES. A share of the training graphs is held
    back for validation; training stops early when the validation loss no longer decreases.

    From `form` on, the parameters are the settings of a `Recipe`. One that is None has the value of the recipe; the
    defaults given below are those of recipe "paper".

    Parameters
    ----------
    method : str, default="cgi"
        The pooling method: a name of `cgipool methods`, or "MODULE:CLASS" for your own, which imports that module.
    recipe : str or Recipe, default="paper"
        All settings at once: "paper", "released" or "strong".
    ensemble : int, default=1
        Number of models whose probabilities are averaged.
    validation : float, default=0.1
        Share of the training graphs that is held back for early stopping.
    random_state : int, RandomState or None, default=0
        Seed of the weights, the validation graphs and all random draws. None, or a generator, gives another model
        with every call of `fit`.
    device : str, default="cpu"
        "cpu", "cuda" or "cuda:N".
    verbose : bool or int, default=False
        Print a line after every `verbose` epochs; True prints after every epoch.
    form : {"paper", "released"}, default="paper"
        Which form of a pooling method to use where there are two.
    conv : {"gcn", "gcn-root", "sage", "gin"}, default="gcn"
        The convolution.
    norm : {"none", "batch", "layer"}, default="none"
        Normalisation between a convolution and its ReLU.
    gate : {"plain", "unit"}, default="plain"
        How scores scale the kept nodes. "unit" divides by the mean score of a graph's kept nodes.
    width : int, default=128
        Dimension of node embeddings.
    levels : int, default=3
        Number of levels; each is a convolution, a pooling layer and a readout.
    readout : {"max-mean", "mean", "max", "sum"}, default="max-mean"
        How the nodes of a level become one vector.
    jumping : {"sum", "concat"}, default="sum"
        How the readouts of the levels are combined.
    ratio : float or int, default=0.8
        Share of nodes that a pooling layer keeps, in (0, 1]; an int is a number of nodes.
    mi : {"gan", "kl"}, default="gan"
        Bound on the mutual information in CGIPool's loss.
    alpha : float, default=0.001
        Weight of the mutual-information loss.
    alpha_proteins : float, default=1.0
        The same on the data set PROTEINS; equal to `alpha` if only that is given.
    own_loss : float, default=1.0
        Factor on the auxiliary losses of DiffPool, MinCutPool and VIPool.
    dropout : float, default=0.5
        Dropout after the first layer of the head.
    dropout_epochs : int, default=None
        Dropout is active in this many first epochs; None: in all of them.
    lr : float, default=0.001
        Learning rate of Adam.
    schedule : {"constant", "cosine"}, default="constant"
        Learning-rate schedule.
    warmup : int, default=0
        Epochs of linear warm-up of the learning rate.
    weight_decay : float, default=0.0001
        L2 penalty of Adam.
    clip : float, default=0.0
        Largest norm of the gradient of a step; 0: no clipping.
    average : float, default=0.0
        Decay of an exponential moving average of the weights, which is then used in place of them; 0: no averaging.
    batch_size : int, default=128
        Graphs per step.
    shuffle : bool, default=True
        Whether each epoch has a new order of the graphs.
    epochs : int, default=1000
        Largest number of epochs.
    patience : int, default=100
        Stop after this many epochs without a lower validation loss.
    features : {"auto", "label", "degree"}, default="auto"
        Node categories: labels, degrees, or labels where there are any.
    vocabulary : {"train", "all"}, default="train"
        Categories known from the training graphs, or from all graphs.
    attributes : bool, default=False
        Whether node attributes (floats) are used beside the categories.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn: a dict maps labels to weights, a label without one has weight 1.
    label_smoothing : float, default=0.0
        Label smoothing of the training loss.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    model_ : FittedModel
        The trained networks.
    history_ : list of dict
        One dict for each epoch of each member: member, epoch, train_loss, val_loss, val_accuracy, seconds, and the
        diagnostics of the method. `pandas.DataFrame(model.history_)` makes a table of it. A loaded model has none.

    Examples
    --------
    >>> model = GraphClassifier(method="cgi", epochs=100).fit(graphs, y)
    >>> model.predict(new_graphs)
    """

    def __init__(
        self,
        method: str = "cgi",
        *,
        recipe: str | Recipe = "paper",
        ensemble: int = 1,
        validation: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "cpu",
        verbose: bool | int = False,
        form: str | None = None,
        conv: str | None = None,
        norm: str | None = None,
        gate: str | None = None,
        width: int | None = None,
        levels: int | None = None,
        readout: str | None = None,
        jumping: str | None = None,
        ratio: float | int | None = None,
        mi: str | None = None,
        alpha: float | None = None,
        alpha_proteins: float | None = None,
        own_loss: float | None = None,
        dropout: float | None = None,
        dropout_epochs: int | None = None,
        lr: float | None = None,
        schedule: str | None = None,
        warmup: int | None = None,
        weight_decay: float | None = None,
        clip: float | None = None,
        average: float | None = None,
        batch_size: int | None = None,
        shuffle: bool | None = None,
        epochs: int | None = None,
        patience: int | None = None,
        features: str | None = None,
        vocabulary: str | None = None,
        attributes: bool | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        label_smoothing: float | None = None,
    ) -> None:
        self.method, self.recipe, self.ensemble = method, recipe, ensemble
        self.validation, self.random_state = validation, random_state
        self.device, self.verbose = device, verbose
        self.form, self.conv, self.norm, self.gate = form, conv, norm, gate
        self.width, self.levels, self.readout, self.jumping = width, levels, readout, jumping
        self.ratio, self.mi = ratio, mi
        self.alpha, self.alpha_proteins, self.own_loss = alpha, alpha_proteins, own_loss
        self.dropout, self.dropout_epochs = dropout, dropout_epochs
        self.lr, self.schedule, self.warmup = lr, schedule, warmup
        self.weight_decay, self.clip, self.average = weight_decay, clip, average
        self.batch_size, self.shuffle = batch_size, shuffle
        self.epochs, self.patience = epochs, patience
        self.features, self.vocabulary, self.attributes = features, vocabulary, attributes
        self.class_weight, self.label_smoothing = class_weight, label_smoothing

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on graphs and their labels; a GraphSet may bring its own classes instead of y.

        `sample_weight` [G] is how much each graph counts in the loss. A warning lists parts of the graphs that
        training does not use (attributes, edge weights, directions, …).
        """
        featurizer, graphs = _read_training(X)
        if y is None:
            if not isinstance(X, GraphSet):
                raise UserError("fit needs y, one label for each graph")
            if not graphs.is_labelled:
                raise UserError(f"fit needs y, one label for each graph: {graphs.name} has no known classes")
            codes, classes = encode_labels([graphs.class_names[c] for c in graphs.y], len(graphs))
        else:
            codes, classes = encode_labels(y, len(graphs))
        settings = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        if isinstance(self.class_weight, Mapping):
            settings["class_weight"] = None
            sample_weight = weights_by_class(self.class_weight, classes[codes], sample_weight)
        fitted = fit(
            graphs.relabelled(codes, names_of(classes)),
            method=self.method,
            recipe=self.recipe,
            ensemble=self.ensemble,
            validation=self.validation,
            seed=seed_of(self.random_state),
            device=self.device,
            featurizer=featurizer,
            sample_weight=sample_weight,
            tell=printing(whole_number("verbose", self.verbose, 0), self.ensemble != 1),
            **settings,
        )
        self.model_ = replace(fitted, about=fitted.about | {"labels": classes.tolist()})
        self.classes_ = classes
        self.history_ = fitted.history
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """[G, classes] probabilities, in the order of `classes_`."""
        return self._fitted.predict_proba(self._read(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """[G] the most probable label of each graph."""
        answers = self.predict_proba(X)
        if len(wrong := np.flatnonzero(~np.isfinite(answers).all(1))):
            raise UserError(
                f"the model's output for graph {wrong[0]} is not finite; there are {len(wrong)} such graphs"
            )
        return self.classes_[answers.argmax(1)]

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on graphs, weighted by `sample_weight`; without y the labels are the classes of a GraphSet."""
        if y is None and not (isinstance(X, GraphSet) and X.is_labelled):
            raise UserError("score needs y, one label for each graph")
        found = self.predict(X)
        y = labels_of([X.class_names[c] for c in X.y] if y is None else y, len(found))
        if _text(y) != _text(self.classes_):
            kinds = [", ".join(map(repr, some[:3].tolist())) for some in (y, self.classes_)]
            raise UserError(
                f"the labels in y ({kinds[0]}, …) are of another type than the training labels ({kinds[1]}, …)"
            )
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average(found == y, weights=weights))

    def transform(self, X: Any) -> NDArray[np.float32]:
        """[G, …] the embedding of each graph: the vector that the network's head reads."""
        return self._fitted.embed(self._read(X))

    def fit_transform(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[np.float32]:
        """Train, then embed the same graphs."""
        return self.fit(X, y, sample_weight).transform(X)

    def set_params(self, **params: Any) -> Self:
        """Change parameters."""
        known = self.get_params()
        for name in params:
            if name not in known:
                raise unknown("parameter", name, known)
        return super().set_params(**params)

    def save(self, path: str | Path) -> None:
        """Write the trained model to one safetensors file; `cgipool predict` and `load` read it."""
        self._fitted.save(path)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", allow_code: bool = False) -> Self:
        """The classifier of a file that `save` or `cgipool fit` wrote.

        A model with a pool of its own names a class, MODULE:CLASS: importing it runs code, and needs `allow_code`.
        """
        model = FittedModel.load(path, device, allow_code)
        recipe, ensemble = model.recipe, len(model.members)
        made = cls(model.method, recipe=recipe, ensemble=ensemble, device=device)
        made.model_ = model
        made.classes_ = np.array(model.about.get("labels", model.class_names))
        return made

    def __sklearn_tags__(self) -> Any:
        """Graphs are not rows of a table."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def _fitted(self) -> FittedModel:
        if not hasattr(self, "model_"):
            raise NotTrainedError("this GraphClassifier is not trained yet: call fit first")
        return self.model_

    def _read(self, X: Any) -> GraphSet:
        plain = self._fitted.featurizer
        graphs = to_graphset(X, featurize=None if plain is None else lambda smiles: _featurized(smiles, plain))
        check_featurizer(self._fitted, graphs, graphs.name)
        return graphs


class NotTrainedError(UserError, NotFittedError):
    """`fit` was not called yet."""


def _text(labels: NDArray[Any]) -> bool:
    """Whether labels are texts, which equal no number."""
    return all(isinstance(label, str) for label in labels.tolist())


def _read_training(X: Any) -> tuple[dict[str, Any] | None, GraphSet]:
    """How SMILES become graphs, if X is SMILES, and the graphs."""
    if not is_smiles(X):
        return None, to_graphset(X)
    from cgipool.data.molecules import MoleculeFeaturizer

    plain = MoleculeFeaturizer().to_json()
    return plain, _featurized(list(X), plain)


def _featurized(smiles: Sequence[str], plain: dict[str, Any]) -> GraphSet:
    from cgipool.data.molecules import MoleculeFeaturizer

    return MoleculeFeaturizer.from_json(plain).graphs(smiles)
