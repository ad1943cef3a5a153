"""`GraphClassifier`: pooling networks behind scikit-learn's interface. scikit-learn itself is not needed."""

import inspect
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cgipool.data.features import unused_attributes
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, unknown
from cgipool.fitted import FittedModel, fit
from cgipool.inputs import encode_labels, is_smiles, labels_of, names_of, to_graphset
from cgipool.training.recipe import SETTINGS, Recipe, recipe_named


class GraphClassifier:
    """A classifier of whole graphs.

    >>> model = GraphClassifier(method="cgi", epochs=100).fit(graphs, y)
    >>> model.predict(new_graphs)

    Graphs are a GraphSet, or a list of PyG data, NetworkX graphs or SMILES. A share of the training graphs is held back
    for validation, which early stopping watches. From `form` on parameters are the settings of a `Recipe`; those left
    at None are those of the recipe. A `random_state` of None, or a generator, trains another model each time.
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        method: str = "cgi",
        *,
        recipe: str | Recipe = "paper",
        ensemble: int = 1,
        validation: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "cpu",
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
        class_weight: str | None = None,
        label_smoothing: float | None = None,
    ) -> None:
        self.method = method
        self.recipe = recipe
        self.ensemble = ensemble
        self.validation = validation
        self.random_state = random_state
        self.device = device
        self.form = form
        self.conv = conv
        self.norm = norm
        self.gate = gate
        self.width = width
        self.levels = levels
        self.readout = readout
        self.jumping = jumping
        self.ratio = ratio
        self.mi = mi
        self.alpha = alpha
        self.alpha_proteins = alpha_proteins
        self.own_loss = own_loss
        self.dropout = dropout
        self.dropout_epochs = dropout_epochs
        self.lr = lr
        self.schedule = schedule
        self.warmup = warmup
        self.weight_decay = weight_decay
        self.clip = clip
        self.average = average
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.epochs = epochs
        self.patience = patience
        self.features = features
        self.vocabulary = vocabulary
        self.attributes = attributes
        self.class_weight = class_weight
        self.label_smoothing = label_smoothing

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on graphs and their labels; a GraphSet may bring its own classes instead of y."""
        featurizer, graphs = _read_training(X)
        if y is None:
            if not isinstance(X, GraphSet):
                raise UserError("fit needs y, one label for each graph")
            if not graphs.is_labelled:
                raise UserError(f"fit needs y, one label for each graph: {graphs.name} has no known classes")
            codes, classes = encode_labels([graphs.class_names[c] for c in graphs.y], len(graphs))
        else:
            codes, classes = encode_labels(y, len(graphs))
        graphs = graphs.relabelled(codes, names_of(classes))
        if told := unused_attributes(graphs, self._uses_attributes):
            warnings.warn(told, stacklevel=2)
        settings = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        fitted = fit(
            graphs,
            method=self.method,
            recipe=self.recipe,
            ensemble=self.ensemble,
            validation=self.validation,
            seed=_seed(self.random_state),
            device=self.device,
            featurizer=featurizer,
            **settings,
        )
        self.model_ = replace(fitted, about=fitted.about | {"labels": classes.tolist()})
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """[G, classes] probabilities, in the order of `classes_`."""
        return self._fitted.predict_proba(self._read(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """[G] the most probable label of each graph."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def score(self, X: Any, y: Any = None) -> float:
        """The share of graphs whose label is predicted; without y the labels are the classes of a GraphSet."""
        if y is None and not (isinstance(X, GraphSet) and X.is_labelled):
            raise UserError("score needs y, one label for each graph")
        found = self.predict(X)
        y = labels_of([X.class_names[c] for c in X.y] if y is None else y, len(found))
        if _text(y) != _text(self.classes_):
            kinds = [", ".join(map(repr, some[:3].tolist())) for some in (y, self.classes_)]
            raise UserError(f"y has labels of another kind ({kinds[0]}, …) than those of training ({kinds[1]}, …)")
        return float(np.mean(found == y))

    def transform(self, X: Any) -> NDArray[np.float32]:
        """[G, …] the embedding of each graph: the vector that the network's head reads."""
        return self._fitted.embed(self._read(X))

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[np.float32]:
        """Train, then embed the same graphs."""
        return self.fit(X, y).transform(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All arguments of the constructor, by name."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor."""
        for name, value in params.items():
            if name not in PARAMETERS:
                raise unknown("parameter", name, PARAMETERS)
            setattr(self, name, value)
        return self

    def save(self, path: str | Path) -> None:
        """Write the trained model to one safetensors file; `cgipool predict` and `load` read it."""
        self._fitted.save(path)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Self:
        """The classifier of a file that `save` or `cgipool fit` wrote."""
        model = FittedModel.load(path, device)
        recipe, ensemble = model.recipe, len(model.members)
        made = cls(model.method, recipe=recipe, ensemble=ensemble, device=device)
        made.model_ = model
        made.classes_ = np.array(model.about.get("labels", model.class_names))
        return made

    def __repr__(self) -> str:
        usual = inspect.signature(type(self)).parameters
        changed = [f"{n}={_shown(v)}" for n, v in self.get_params().items() if v != usual[n].default]
        return f"GraphClassifier({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    @property
    def _uses_attributes(self) -> bool:
        return recipe_named(self.recipe).attributes if self.attributes is None else self.attributes

    @property
    def _fitted(self) -> FittedModel:
        if not hasattr(self, "model_"):
            raise _not_fitted("this GraphClassifier is not trained yet: call fit first")
        return self.model_

    def _read(self, X: Any) -> GraphSet:
        plain = self._fitted.featurizer
        return to_graphset(X, featurize=None if plain is None else lambda smiles: _featurized(smiles, plain))


PARAMETERS = tuple(inspect.signature(GraphClassifier).parameters)


def _not_fitted(message: str) -> UserError:
    """The error before `fit`; also scikit-learn's own where that is in use."""
    known = sys.modules.get("sklearn.exceptions")
    return UserError(message) if known is None else type("NotFitted", (UserError, known.NotFittedError), {})(message)


def _shown(value: Any) -> str:
    """A parameter as `repr` shows it; of a recipe its name and what differs from the one of that name."""
    if not isinstance(value, Recipe):
        return repr(value)
    return f"Recipe({', '.join([repr(value.name), *(f'{n}={v!r}' for n, v in value.settings().items())])})"


def _text(labels: NDArray[Any]) -> bool:
    """Whether labels are texts, which equal no number."""
    return all(isinstance(label, str) for label in labels.tolist())


def _seed(state: Any) -> int:
    """The seed that a `random_state` means, as scikit-learn reads it: None is NumPy's own generator."""
    if isinstance(state, Integral):
        return int(state)
    generator = np.random.mtrand._rand if state is None else state
    if not isinstance(generator, np.random.RandomState):
        raise UserError(f"random_state must be a whole number, None or a RandomState, not {state!r}")
    return int(generator.randint(2**31 - 1))


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
