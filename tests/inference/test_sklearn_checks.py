"""scikit-learn's own checks of estimators.

The checks fit tables of numbers. An adapter turns each row into a graph of one node with the row as its attributes, and
`UserError` into the `ValueError` that the checks expect.
"""

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from cgipool import GraphClassifier, GraphRegressor, GraphSet
from cgipool.errors import UserError

pytestmark = pytest.mark.usefixtures("one_thread")

ESTIMATORS = {"GraphClassifier": GraphClassifier, "GraphRegressor": GraphRegressor}

SPARSE, FEATURES = "needs a sparse matrix", "graphs have no fixed number of features: `n_features_in_` is not set"
SKIPPED = {
    "check_array_api_input": "needs a table of another array library",
    "check_complex_data": "needs a table of complex numbers",
    "check_estimator_sparse_array": SPARSE,
    "check_estimator_sparse_matrix": SPARSE,
    "check_estimator_sparse_tag": SPARSE,
    "check_estimators_empty_data_messages": "expects an error for a table without columns; graphs without node "
    "attributes are valid",
    "check_fit2d_1sample": "expects other words in the error; `GraphRegressor` needs at least 10 graphs",
    "check_fit2d_predict1d": "needs a single row of a table in place of a list",
    "check_n_features_in": FEATURES,
    "check_n_features_in_after_fitting": FEATURES,
    "check_requires_y_none": "`y` may be left out: a `GraphSet` can bring its own targets",
    "check_sample_weight_equivalence_on_dense_data": "a graph given twice changes the batches, so it is not the same "
    "as a weight of 2",
    "check_supervised_y_2d": "expects a warning for a `y` of one column; it is accepted without one",
}
"""The checks that the estimators do not pass, with the reason. docs/howto/classifier.md has the same table."""

ONE_ESTIMATOR = {"check_fit2d_1sample": "GraphRegressor"}
"""Skipped checks that concern one estimator; the other passes them."""


def rows_as_graphs(x: Any) -> GraphSet:
    """One graph of one node for each row of a table."""
    if isinstance(x, GraphSet):
        return x
    table = np.asarray(x, dtype=np.float32)
    unlabelled = np.full(len(table), -1)
    return GraphSet.from_edges("rows", [1] * len(table), [], [], unlabelled, class_names=(), attributes=table)


def of_tables(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of an estimator that takes a table in place of graphs."""

    @functools.wraps(method)
    def adapted(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, rows_as_graphs(X), *args, **options)
        except NotFittedError:
            raise
        except UserError as error:
            raise ValueError(str(error)) from None

    return adapted


def adapter_of(estimator: type) -> type:
    """The estimator as one of tables. It trains too shortly to predict well."""
    names = [name for name in ("fit", "predict", "predict_proba", "score", "transform") if hasattr(estimator, name)]
    adapter = type(
        f"{estimator.__name__}OfTables", (estimator,), {name: of_tables(getattr(estimator, name)) for name in names}
    )

    def tags(self: Any) -> Any:
        found = estimator.__sklearn_tags__(self)
        found.input_tags.two_d_array = True
        (found.classifier_tags or found.regressor_tags).poor_score = True
        return found

    adapter.__sklearn_tags__ = tags
    return adapter


GraphClassifierOfTables, GraphRegressorOfTables = map(adapter_of, ESTIMATORS.values())  # pickle finds them by name
ADAPTERS = {"GraphClassifier": GraphClassifierOfTables, "GraphRegressor": GraphRegressorOfTables}

SMALL = {"method": "none", "recipe": "paper", "width": 4, "epochs": 2, "levels": 1}


def checks() -> Iterator[Any]:
    """Every check that scikit-learn has for each estimator; those in SKIPPED are expected to fail."""
    for name, adapter in ADAPTERS.items():
        adapted = adapter(**SMALL, attributes=True)
        made = estimator_checks.estimator_checks_generator(adapted, legacy=True, mark=None)
        for number, (_, check) in enumerate(made):
            what = check.func.__name__
            reason = SKIPPED.get(what) if ONE_ESTIMATOR.get(what, name) == name else None
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            yield pytest.param(adapted, check, marks=marks, id=f"{name}-{number}-{what}")


CHECKS = list(checks())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_scikit_learn_check(estimator: Any, check: Callable[..., None]) -> None:
    """Also fails if a skipped check passes, or if a new version of scikit-learn has a check that fails."""
    check(clone(estimator))


def test_skipped_checks_exist_and_are_documented() -> None:
    assert SKIPPED.keys() <= {parameters.values[1].func.__name__ for parameters in CHECKS}
    page = Path(__file__).resolve().parents[2] / "docs" / "howto" / "classifier.md"
    assert dict(re.findall(r"^\| `(check_\w+)` \| (.+) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)) == SKIPPED


GRAPHS = [nx.cycle_graph(n) for n in range(4, 16)] + [nx.star_graph(n) for n in range(4, 16)]
TARGETS = {
    "GraphClassifier": np.arange(24) // 12,
    "GraphRegressor": np.array([g.number_of_nodes() for g in GRAPHS]) / 7,
}


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
