"""The base class of `GraphClassifier` and `GraphRegressor`: parameters, reading graphs, training and files."""

import inspect
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import TransformerTags

from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, counted, unknown, whole_number
from cgipool.inference.blend import Blend
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit
from cgipool.inference.inputs import is_smiles, seed_of, to_graphset
from cgipool.inference.predict_input import check_featurizer
from cgipool.training.job import printing
from cgipool.training.recipe import SETTINGS, Recipe
from cgipool.training.settings import setting_of, types_of

AUTO = "auto"
"""The value of `method` that starts a search over all methods."""


class NotTrainedError(UserError, NotFittedError):
    """`fit` was not called yet."""


class GraphEstimator(BaseEstimator):
    """The common part of classifier and regressor: parameters, reading graphs, training, embedding and files."""

    def __init__(
        self,
        method: str = "cgi",
        *,
        recipe: str | Recipe = "strong",
        ensemble: int = 1,
        validation: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "cpu",
        verbose: bool | int = False,
        warm_start: bool = False,
        budget: str | float = "5m",
        metric: str | None = None,
        folder: str | Path | None = None,
        **settings: Any,
    ) -> None:
        self.method, self.recipe, self.ensemble = method, recipe, ensemble
        self.validation, self.random_state = validation, random_state
        self.device, self.verbose = device, verbose
        self.warm_start = warm_start
        self.budget, self.metric, self.folder = budget, metric, folder
        for name in settings:
            if name not in SETTINGS:
                raise TypeError(f"{type(self).__name__}() has no parameter {name!r}")
        for name in SETTINGS:
            setattr(self, name, settings.get(name))

    def _train(self, graphs: GraphSet, sample_weight: ArrayLike | None, **more: Any) -> FittedModel:
        """Train on labelled graphs; `more` changes single settings."""
        settings = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        if self.method == AUTO:
            return self._search(graphs, settings, sample_weight, more["featurizer"])
        return fit(
            graphs,
            method=self.method,
            recipe=self.recipe,
            ensemble=self.ensemble,
            validation=self.validation,
            seed=seed_of(self.random_state),
            device=self.device,
            sample_weight=sample_weight,
            start=self._before,
            tell=printing(whole_number("verbose", self.verbose, 0), self.ensemble != 1),
            **settings | more,
        )

    @property
    def _before(self) -> FittedModel | None:
        """The model whose training continues."""
        return getattr(self, "model_", None) if self.warm_start else None

    def _search(
        self,
        graphs: GraphSet,
        settings: dict[str, Any],
        sample_weight: ArrayLike | None,
        featurizer: dict[str, Any] | None,
    ) -> FittedModel:
        """Choose the method and its settings, as `cgipool fit --auto` does."""
        from cgipool.auto.fit import fit_auto, seconds_of

        given = {"recipe": self.recipe != "strong", "ensemble": self.ensemble != 1} | settings
        given |= {"validation": self.validation != 0.1, "sample_weight": sample_weight is not None}
        given |= {"warm_start": self._before is not None}
        for name, there in given.items():
            if there is not False:
                raise UserError(f"method='auto' chooses the settings itself, and cannot be used together with {name}")
        found = fit_auto(
            graphs if featurizer is None else replace(graphs, featurizer=featurizer),
            self.folder,
            budget=seconds_of(self.budget),
            metric=self.metric,
            seed=seed_of(self.random_state),
            device=self.device,
            say=print if self.verbose else lambda text: None,
        )
        self.leaderboard_, self.estimate_ = found.table, found.estimate
        return found.model

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
    def _loaded(cls, path: str | Path, device: str, allow_code: bool, tasks: tuple[str, ...]) -> Self:
        model = FittedModel.load(path, device, allow_code)
        if model.task_name not in tasks:
            other = "GraphRegressor" if model.task_name == "regression" else "GraphClassifier"
            raise UserError(f"{path} is a model for {model.task_name}; load it with {other}")
        if isinstance(model, Blend):
            made = cls(AUTO, device=device)
            made.estimate_ = model.about.get("estimate", {})
        else:
            made = cls(model.method, recipe=model.recipe, ensemble=len(model.members), device=device)
        made.model_ = model
        return made

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that graphs are not rows of a table."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    model_: FittedModel
    leaderboard_: list[dict[str, Any]]
    estimate_: dict[str, Any]

    @property
    def _fitted(self) -> FittedModel:
        if not hasattr(self, "model_"):
            raise NotTrainedError(f"this {type(self).__name__} is not trained yet: call fit first")
        return self.model_

    def _read(self, X: Any) -> GraphSet:
        plain = self._fitted.featurizer
        graphs = to_graphset(X, featurize=None if plain is None else lambda smiles: _featurized(smiles, plain))
        check_featurizer(self._fitted, graphs, graphs.name)
        return graphs

    def _predictions(self, X: Any, return_std: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[G, O] mean and standard deviation over members; raises UserError for outputs that are not finite."""
        if return_std and len(self._fitted.members) == 1:
            raise UserError("return_std needs an ensemble, such as ensemble=5")
        members = self._fitted.member_predictions(self._read(X))
        mean = members.mean(0)
        if len(wrong := np.flatnonzero(~np.isfinite(mean).all(1))):
            raise UserError(
                f"the model's output for graph {wrong[0]} is not finite; there are {len(wrong)} such graphs"
            )
        return mean, members.std(0)


def check_targets(X: Any, graphs: GraphSet, tasks: tuple[str, ...]) -> None:
    """Raise UserError unless X is a GraphSet with targets for one of these tasks."""
    if not isinstance(X, GraphSet):
        raise UserError("fit needs y, one label for each graph")
    if not graphs.is_labelled:
        raise UserError(f"fit needs y, one label for each graph: {graphs.name} has no known classes")
    if graphs.task not in tasks:
        raise UserError(f"{graphs.name} has targets for {graphs.task}; this estimator is for {' or '.join(tasks)}")


def numbers_in(y: Any, count: int) -> NDArray[np.float64]:
    """Targets [G] or [G, T] as floats."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError("y must hold numbers; for class labels use GraphClassifier") from None
    if values.ndim not in (1, 2) or len(values) != count:
        raise UserError(f"y must have one row for each of the {counted(count, 'graph')}; its shape is {values.shape}")
    if np.isinf(values).any():
        raise UserError("y has infinite values")
    return values


def describe_settings(estimator: type, like: type | None = None) -> None:
    """Make every setting of a recipe a parameter with the default None: the recipe decides.

    They are documented in place of `**settings`, or all parameters as those of the class `like`.
    """
    init, lines = estimator.__init__, []  # type: ignore[misc]
    declared = inspect.signature(init)
    settings = []
    for field in fields(Recipe):
        if field.name == "name":
            continue
        setting, types = setting_of(field), types_of(Recipe, field.name)
        kind = (
            "{" + ", ".join(f'"{choice}"' for choice in setting.choices) + "}"
            if setting.choices
            else " or ".join(each.__name__ for each in types if each is not NoneType)
        )
        lines += [f"{field.name} : {kind}, default={field.default!r}", f"    {setting.help}"]
        settings.append(inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None))
    own = [p for p in declared.parameters.values() if p.kind is not p.VAR_KEYWORD and p.name not in SETTINGS]
    init.__signature__ = declared.replace(parameters=[*own, *settings])
    if like is not None:
        lines = (inspect.getdoc(like) or "").partition("\n----------\n")[2].partition("\n\n")[0].split("\n")
    estimator.__doc__ = re.sub(
        r"^( *)\*\*settings : Any\n.*\n",
        lambda found: "".join(f"{found[1]}{line}\n" for line in lines),
        estimator.__doc__ or "",
        flags=re.M,
    )


def read_training(X: Any, before: FittedModel | None = None) -> tuple[dict[str, Any] | None, GraphSet]:
    """The featurizer, if X is SMILES, and the graphs. `before` is a model whose training continues."""
    if not is_smiles(X):
        return None, to_graphset(X)
    from cgipool.data.molecules import MoleculeFeaturizer

    plain = MoleculeFeaturizer().to_json() if before is None or before.featurizer is None else before.featurizer
    return plain, _featurized(list(X), plain)


def _featurized(smiles: Sequence[str], plain: dict[str, Any]) -> GraphSet:
    from cgipool.data.molecules import MoleculeFeaturizer

    return MoleculeFeaturizer.from_json(plain).graphs(smiles)
