"""Training that continues a fitted model on more graphs, and what a model file says of its training."""

import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from sklearn.metrics import log_loss

from cgipool import GraphClassifier, GraphRegressor, GraphSet, load_dataset
from cgipool.cli import main
from cgipool.data.splits import holdout
from cgipool.errors import UserError
from cgipool.inference.blend import Blend
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit

SMALL = {"recipe": "paper", "width": 8, "epochs": 4, "batch_size": 32, "lr": 0.01}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return load_dataset("motifs").subset(range(0, 1000, 8))


@pytest.fixture(scope="module")
def more() -> GraphSet:
    return load_dataset("motifs").subset(range(1, 1000, 8))


@pytest.fixture(scope="module")
def model(graphs: GraphSet) -> FittedModel:
    return fit(graphs, method="topk", ensemble=2, **SMALL)


def test_a_rate_of_zero_changes_nothing(model: FittedModel, more: GraphSet) -> None:
    found = fit(more, method="topk", recipe=model.recipe, ensemble=2, start=model, lr=0.0, epochs=2)
    np.testing.assert_array_equal(found.predictions(more), model.predictions(more))
    assert found.encoder == model.encoder


def test_a_continued_model_is_never_worse_on_its_validation_graphs(model: FittedModel, more: GraphSet) -> None:
    _, val = holdout(more, 0.1, 0)

    def losses(one: FittedModel) -> list[float]:
        return [log_loss(more.y[val], p[val], labels=range(4)) for p in one.member_predictions(more)]

    found = fit(more, method="topk", recipe=model.recipe, ensemble=2, start=model, epochs=10)
    assert all(now < before for now, before in zip(losses(found), losses(model), strict=True))
    spoilt = fit(more, method="topk", recipe=model.recipe, ensemble=2, start=model, lr=10.0, epochs=3)
    np.testing.assert_array_equal(spoilt.predictions(more), model.predictions(more))  # no epoch was better
    assert found.about["before"][0]["graphs"] == model.about["graphs"]
    again = fit(more, method="topk", recipe=model.recipe, ensemble=2, start=found, epochs=1)
    assert len(again.about["before"]) == 2


def test_classes_are_found_by_name_and_targets_keep_their_scale(graphs: GraphSet, model: FittedModel) -> None:
    turned = graphs.relabelled(3 - graphs.y, graphs.class_names[::-1])
    found = fit(turned, method="topk", recipe=model.recipe, ensemble=2, start=model, epochs=1)
    assert found.class_names == model.class_names
    assert found.evaluate(turned)["accuracy"] == found.evaluate(graphs)["accuracy"]
    numbers = GraphRegressor("topk", **SMALL).fit(graphs, graphs.sizes.astype(float))
    before = numbers.model_
    numbers.set_params(warm_start=True, epochs=1).fit(graphs, 100.0 + graphs.sizes)
    assert numbers.model_.constants == before.constants
    assert numbers.predict(graphs).mean() > before.predictions(graphs).mean()


def test_warm_start_of_an_estimator(graphs: GraphSet, more: GraphSet, tmp_path: Path) -> None:
    y = np.array(["abcd"[c] for c in graphs.y])
    GraphClassifier("topk", **SMALL).fit(graphs, y).save(tmp_path / "model.safetensors")
    model = GraphClassifier.load(tmp_path / "model.safetensors").set_params(warm_start=True, lr=0.0, epochs=1)
    before = model.predict_proba(graphs)
    part = np.flatnonzero(more.y != 2)
    model.fit(more.subset(part), np.array(["abcd"[c] for c in more.y[part]]))
    assert model.classes_.tolist() == list("abcd")
    np.testing.assert_array_equal(model.predict_proba(graphs), before)
    cold = GraphClassifier("topk", **SMALL).fit(graphs, y)
    first = cold.predict_proba(graphs)
    np.testing.assert_array_equal(cold.fit(graphs, y).predict_proba(graphs), first)  # no warm start by default


def test_an_interrupted_continuation_resumes_from_the_same_model_only(
    model: FittedModel, more: GraphSet, tmp_path: Path
) -> None:
    def run(start: FittedModel | None, folder: Path, **given: object) -> FittedModel:
        return fit(more, method="topk", recipe=model.recipe, ensemble=2, start=start, folder=folder, **given)

    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(model, tmp_path, tell=stop)
    other = fit(more, method="topk", ensemble=2, seed=1, **SMALL)
    for wrong in (other, None):
        with pytest.raises(UserError, match="different model to continue"):
            run(wrong, tmp_path, resume=True)
    found = run(model, tmp_path, resume=True)
    np.testing.assert_array_equal(found.predictions(more), run(model, tmp_path / "whole").predictions(more))


def test_models_and_data_that_do_not_fit(graphs: GraphSet, model: FittedModel) -> None:
    def refused(data: GraphSet, match: str, **given: object) -> None:
        with pytest.raises(UserError, match=match):
            fit(data, **{"method": "topk", "recipe": model.recipe, "ensemble": 2, "start": model} | given)

    refused(graphs, "the model has width 8, not 16; only settings of the optimisation", width=16)
    refused(graphs, "the model has 2 members, not 1", ensemble=1)
    refused(graphs, "the model's method is topk, not cgi", method="cgi")
    refused(graphs.relabelled(graphs.y, ("house", "cycle", "grid", "tree")), "does not know the class 'tree'")
    refused(graphs.with_targets(graphs.sizes), "has targets for regression, but the model is for classification")
    stars = GraphSet.from_networkx([nx.star_graph(60)] * 20, "stars", class_names=())
    stars = stars.relabelled(np.arange(20) % 4, graphs.class_names)
    every = fit(graphs, method="none", vocabulary="all", **SMALL)
    given = {"method": "none", "ensemble": 1, "start": every, "recipe": every.recipe}
    refused(stars, "the model cannot read graph 0 of stars.*degree", **given)
    wl = fit(graphs, method="wl")
    refused(graphs, "wl is not a network", method="wl", start=wl, recipe=wl.recipe, ensemble=1)
    refused(graphs, r"a blend of several models \(topk, wl\)", start=Blend.of([model, wl], [1, 1], {}))


def test_the_commands(
    graphs: GraphSet,
    more: GraphSet,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    graphs.save("first")
    more.save("second")
    small = ["--width", "8", "--epochs", "2"]
    assert main(["fit", "first", "--out", "a.safetensors", "--ensemble", "2", *small]) == 0
    assert main(["fit", "second", "--from", "a.safetensors", "--lr", "0.002", "--out", "b.safetensors"]) == 0
    capsys.readouterr()
    assert main(["describe", "b.safetensors"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("ensemble of 2", "lr=0.002", "trained before on", "113 graphs", "used for early stopping", "torch "):
        assert words in shown
    assert main(["describe", "b.safetensors", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["predicts"] == ["house", "cycle", "grid", "clique"]
    assert plain["training"]["before"][0]["graphs"] == {"train": 113, "val": 12}
    for option in (["--method", "topk"], ["--ensemble", "3"], ["--recipe", "paper"], ["--auto"]):
        assert main(["fit", "second", "--from", "a.safetensors", *option]) == 2
        assert "cannot be used together" in capsys.readouterr().err


def test_a_file_that_says_nonsense_of_its_training_is_described(
    model: FittedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {"dataset": 3, "graphs": "many", "validation": [], "estimate": {"metric": "none"}, "before": [1, {}]}
    replace(model, about=odd).save(tmp_path / "model.safetensors")
    assert main(["describe", str(tmp_path / "model.safetensors")]) == 0
    shown = capsys.readouterr().out
    assert "TopKPool" in shown
    assert "trained on" not in shown
