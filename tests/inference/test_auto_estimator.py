"""The estimators with method="auto": the search of `fit --auto`, as scikit-learn's estimators are used."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from cgipool import GraphClassifier, GraphRegressor, GraphSet, load_dataset
from cgipool.auto import curve as curving
from cgipool.auto import fit as fitting
from cgipool.auto.candidates import BASELINE, Candidate
from cgipool.errors import UserError
from cgipool.training.recipe import Recipe

SMALL = Recipe(width=8, epochs=3, batch_size=32, lr=0.01)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return load_dataset("motifs").subset(range(0, 1000, 12))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curving, "CURVE", ())
    monkeypatch.setattr(fitting, "DRAWS", 20)
    few = [Candidate(name, name, SMALL) for name in (BASELINE, "wl", "none")]
    monkeypatch.setattr(fitting, "candidates_for", lambda graphs, budget: few)


def test_a_classifier_searches_and_predicts(
    graphs: GraphSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    y = np.array([f"kind {c}" for c in graphs.y])
    model = clone(GraphClassifier("auto", budget="1h", folder=tmp_path / "search", verbose=True))
    assert model.get_params()["budget"] == "1h"
    model.fit(graphs.to_networkx(), y)
    assert "wl: accuracy" in capsys.readouterr().out
    assert {row["name"] for row in model.leaderboard_} == {BASELINE, "wl", "none"}
    estimate = model.estimate_
    assert estimate["low"] <= estimate[estimate["metric"]] <= estimate["high"]
    assert (tmp_path / "search").is_dir()
    probabilities = model.predict_proba(graphs)
    np.testing.assert_array_equal(model.predict(graphs), model.classes_[probabilities.argmax(1)])
    assert model.score(graphs, y) > 0.4
    assert model.predict(graphs, return_std=True)[1].shape == probabilities.shape

    model.save(tmp_path / "model.safetensors")
    loaded = GraphClassifier.load(tmp_path / "model.safetensors")
    assert loaded.method == "auto"
    assert loaded.estimate_ == estimate
    np.testing.assert_array_equal(loaded.predict_proba(graphs), probabilities)
    assert loaded.classes_.tolist() == model.classes_.tolist()


def test_several_labels_with_gaps(graphs: GraphSet, tmp_path: Path) -> None:
    columns = np.stack([graphs.y == 0, graphs.y > 1], 1).astype(float)
    columns[::7, 1] = np.nan
    model = GraphClassifier("auto", budget=3600, metric="pr_auc").fit(graphs, columns)
    assert model.estimate_["metric"] == "pr_auc"
    assert [p.shape for p in model.predict_proba(graphs)] == [(len(graphs), 2)] * 2
    assert model.predict(graphs).shape == columns.shape
    model.save(tmp_path / "model.safetensors")
    loaded = GraphClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict(graphs), model.predict(graphs))


def test_a_regressor_searches(graphs: GraphSet) -> None:
    model = GraphRegressor("auto", budget="1h").fit(graphs, graphs.sizes.astype(float))
    assert model.predict(graphs).shape == (len(graphs),)
    assert model.estimate_["metric"] == "rmse"
    assert model.history_ == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 8}, "together with width"),
        ({"ensemble": 3}, "together with ensemble"),
        ({"recipe": "paper"}, "together with recipe"),
        ({"budget": "soon"}, "budget 'soon' is not a time"),
        ({"budget": 3}, "give at least 10s"),
        ({"metric": "rmse"}, "rmse"),
    ],
)
def test_settings_that_a_search_does_not_take(graphs: GraphSet, given: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        GraphClassifier("auto", **given).fit(graphs, graphs.y)


def test_a_folder_of_something_else_is_not_touched(graphs: GraphSet, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty and is not a search"):
        GraphClassifier("auto", folder=tmp_path).fit(graphs, graphs.y)
