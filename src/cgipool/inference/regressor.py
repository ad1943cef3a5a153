"""`GraphRegressor`: pooling networks as a scikit-learn regressor."""

from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from cgipool.inference.estimator import GraphClassifier
from cgipool.inference.estimator_base import GraphEstimator, check_targets, describe_settings, numbers_in, read_training


class GraphRegressor(RegressorMixin, GraphEstimator):
    """A regressor of whole graphs: one or several real-valued targets per graph.

    y is [G], or [G, T] with NaN where a value is missing. Targets are standardised with the training graphs' mean and
    standard deviation. Graphs have the same forms as for `GraphClassifier`.

    Parameters
    ----------
    **settings : Any
        All parameters of `GraphClassifier`.

    Attributes
    ----------
    model_ : FittedModel
        The trained networks.
    history_ : list of dict
        One dict for each epoch of each member, as in `GraphClassifier`.
    leaderboard_, estimate_ : list of dict, dict
        After method="auto", as in `GraphClassifier`.

    Examples
    --------
    >>> model = GraphRegressor(method="cgi", recipe="strong").fit(graphs, y)
    >>> model.predict(new_graphs)
    """

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on graphs and their targets. Without y, the targets of a GraphSet are used."""
        featurizer, graphs = read_training(X, self._before)
        if y is None:
            check_targets(X, graphs, ("regression",))
            self._one = graphs.targets is not None and graphs.targets.shape[1] == 1
        else:
            values = numbers_in(y, len(graphs))
            self._one = values.ndim == 1
            graphs = graphs.with_targets(values, None, "regression")
        self.model_ = self._train(graphs, sample_weight, featurizer=featurizer)
        self.history_ = self.model_.history
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """[G] or [G, T] the predicted targets, shaped like the y of `fit`.

        With `return_std`, also their standard deviation over an ensemble's members.
        """
        answers = self._predictions(X, return_std)
        values, deviation = (each[:, 0] if self._one else each for each in answers)
        return (values, deviation) if return_std else values

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", allow_code: bool = False) -> Self:
        """Load a regressor from a file that `save` or `cgipool fit` wrote. For `allow_code` see
        `GraphClassifier.load`."""
        made = cls._loaded(path, device, allow_code, ("regression",))
        made._one = len(made.model_.target_names) == 1
        return made


describe_settings(GraphRegressor, like=GraphClassifier)
