"""scikit-learn's own checks of estimators, as far as inputs that are graphs allow."""

import inspect
import re

import networkx as nx
import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from cgipool import GraphClassifier, GraphRegressor

pytestmark = pytest.mark.usefixtures("one_thread")

ESTIMATORS = {"GraphClassifier": GraphClassifier, "GraphRegressor": GraphRegressor}

APPLICABLE = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
)
"""Checks that need no data."""

WITH_TABLES = "fits a table of numbers or a sparse matrix, where a graph estimator reads graphs"
"""Why all other checks are skipped; `test_the_same_with_graphs` asks the same of graphs where that has a meaning."""


def checks_of(estimator: BaseEstimator, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The checks that scikit-learn has for an estimator of tables of this kind, and their source, by name."""
    tags = estimator.__sklearn_tags__()
    tags.input_tags.two_d_array = True
    monkeypatch.setattr(type(estimator), "__sklearn_tags__", lambda self: tags)
    every = estimator_checks.estimator_checks_generator(estimator, legacy=True, mark=None)
    return {check.func.__name__: inspect.getsource(check.func) for _, check in every}


@pytest.mark.parametrize("name", list(ESTIMATORS))
@pytest.mark.parametrize("check", APPLICABLE)
def test_checks_without_data(name: str, check: str) -> None:
    getattr(estimator_checks, check)(name, ESTIMATORS[name]())


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_every_other_check_fits_a_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a check which scikit-learn adds is run here, unless it needs a table."""
    checks = checks_of(ESTIMATORS[name](), monkeypatch)
    assert set(APPLICABLE) <= set(checks)
    skipped = {
        check: WITH_TABLES
        for check, source in checks.items()
        if re.search("X|array|sample_weight|matrix|label", source)
    }
    assert set(checks) - set(APPLICABLE) <= set(skipped), "neither run nor skipped for a reason"
    assert len(skipped) > 30


GRAPHS = [nx.cycle_graph(n) for n in range(4, 16)] + [nx.star_graph(n) for n in range(4, 16)]
TARGETS = {
    "GraphClassifier": np.arange(24) // 12,
    "GraphRegressor": np.array([g.number_of_nodes() for g in GRAPHS]) / 7,
}
SMALL = {"method": "none", "recipe": "paper", "width": 4, "epochs": 2, "levels": 1}


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_the_same_with_graphs(name: str) -> None:
    """What the checks on tables ask, asked with graphs."""
    model, y = ESTIMATORS[name](**SMALL), TARGETS[name]
    with pytest.raises(NotFittedError):
        model.predict(GRAPHS)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    before = model.get_params()
    assert model.fit(GRAPHS, y) is model  # check_estimators_fit_returns_self
    check_is_fitted(model)
    assert model.get_params() == before  # check_dict_unchanged, check_dont_overwrite_attributes
    attributes = {key for key in vars(model) if key not in before}
    assert all(key.startswith("_") or key.endswith("_") for key in attributes), attributes
    first = model.predict(GRAPHS)
    assert first.shape == y.shape
    np.testing.assert_array_equal(clone(model).fit(GRAPHS, y).predict(GRAPHS), first)  # check_fit_idempotent
    np.testing.assert_array_equal(model.fit(GRAPHS, y).predict(GRAPHS), first)
    np.testing.assert_array_equal(
        model.fit(GRAPHS, list(y)).predict(GRAPHS), first
    )  # check_classifier_data_not_an_array
    column = clone(model).fit(GRAPHS, y[:, None]).predict(GRAPHS)  # check_supervised_y_2d
    np.testing.assert_allclose(np.ravel(column), np.ravel(first))
    one_by_one = np.concatenate([np.atleast_1d(model.predict([graph])) for graph in GRAPHS])
    if name == "GraphRegressor":  # check_methods_subset_invariance
        np.testing.assert_allclose(one_by_one, first, rtol=1e-4)
    else:
        assert set(first) <= set(model.classes_)
        assert model.predict_proba(GRAPHS).shape == (24, 2)
        np.testing.assert_allclose(model.predict_proba(GRAPHS).sum(1), 1.0)
