"""`fit --auto`: what it tries, that no model is scored on graphs it was trained on, and that it can be interrupted."""

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from cgipool import GraphClassifier, load_dataset
from cgipool.auto import curve as curving
from cgipool.auto import fit as fitting
from cgipool.auto import search as searching
from cgipool.auto.alarm import OutOfTime, alarm
from cgipool.auto.blend import chosen
from cgipool.auto.candidates import BASELINE, Candidate, candidates_for
from cgipool.auto.fit import fit_auto, seconds_of
from cgipool.auto.folds import FOLDS, folds_of
from cgipool.auto.page import auto_page
from cgipool.auto.rare import has_rare_classes, rare_candidates, with_rare_candidates
from cgipool.auto.search import AutoSearch
from cgipool.cli import main
from cgipool.cli.describe import _thresholds
from cgipool.data import GraphSet
from cgipool.errors import UserError
from cgipool.inference.fitted import FittedModel
from cgipool.pool import METHODS
from cgipool.task.metrics import classes_of
from cgipool.task.registry import task_of
from cgipool.training.folder import alone_in
from cgipool.training.recipe import Recipe

SMALL = Recipe(width=8, epochs=6, batch_size=32, lr=0.01)


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return load_dataset("motifs").subset(np.arange(0, 1000, 12))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curving, "CURVE", ())
    monkeypatch.setattr(fitting, "DRAWS", 20)


def few(*names: str) -> list[Candidate]:
    return [Candidate(name, name, SMALL) for name in names]


def test_candidates_start_with_the_simplest(graphs: GraphSet) -> None:
    found = candidates_for(graphs)
    assert [each.name for each in found[:4]] == [BASELINE, "wl", "none", "wl-oa"]
    assert not any(each.recipe.conv == "gine" for each in found)  # motifs has no edge features
    assert len({each.name for each in found}) == len(found)


def test_molecules_have_their_own_candidates_as_far_as_the_budget_allows() -> None:
    pytest.importorskip("rdkit", reason="needs the extra chem")
    from cgipool.data.molecules import MoleculeFeaturizer

    molecules = MoleculeFeaturizer().graphs(["CCO", "c1ccccc1"] * 50)
    names = [each.name for each in candidates_for(molecules)]
    assert {"rdkit-et", "rdkit-svm", "none, conv=gine, rdkit_descriptors"} <= set(names)
    assert len(set(names)) == len(names)
    assert names[:3] == [BASELINE, "wl", "none, conv=gine"]
    values = candidates_for(molecules.with_targets(np.arange(100.0), None, "regression"))
    assert {each.recipe.dropout for each in values} == {0.0}
    assert 0.0 not in {each.recipe.dropout for each in candidates_for(molecules)}
    hasty = candidates_for(molecules, budget=1.0)  # 100 molecules take longer than a quarter of a second
    assert not any("rdkit" in each.name or each.recipe.rdkit_descriptors for each in hasty)
    assert any(each.recipe.conv == "gine" for each in hasty)


def test_methods_too_slow_for_a_large_set_are_no_candidates(graphs: GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "wl-oa", replace(METHODS["wl-oa"], most_graphs=graphs.n_graphs - 1))
    slow = replace(METHODS["wl"], pair_seconds=1.0)
    assert [each.name for each in candidates_for(graphs)[:2]] == [BASELINE, "wl"]
    monkeypatch.setitem(METHODS, "wl", slow)
    assert "wl" in [each.name for each in candidates_for(graphs)], "without a budget nothing is too slow"
    assert "wl" not in [each.name for each in candidates_for(graphs, budget=60.0)]


def test_candidates_for_directed_graphs_read_directions() -> None:
    arcs = GraphSet.from_edges(
        "arcs", [2] * 20, 2 * np.arange(20), 2 * np.arange(20) + 1, np.arange(20) % 2, directed=True
    )
    found = candidates_for(arcs)
    assert not {"wl", "wl-oa"} & {each.method for each in found}
    assert all(each.recipe.directed for each in found)


def test_folds_cover_the_graphs_once_and_never_train_on_themselves(graphs: GraphSet) -> None:
    dev = np.arange(5, 80)
    folds = folds_of(graphs, dev, seed=0)
    assert len(folds) == FOLDS
    np.testing.assert_array_equal(np.sort(np.concatenate([fold.test for fold in folds])), dev)
    for fold in folds:
        parts = [fold.train, fold.val, fold.test]
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), dev)


def test_a_blend_is_never_worse_than_its_best_part() -> None:
    generator = np.random.default_rng(0)
    truth = generator.normal(size=200)
    answers = [truth[:, None] + generator.normal(size=(200, 1)) * scale for scale in (1.0, 1.1, 3.0)]

    def value(given: np.ndarray) -> float:
        return -float(np.sqrt(np.mean((given[:, 0] - truth) ** 2)))

    counts = chosen(answers, value)
    mixed = sum(answers[place] * n for place, n in counts.items()) / sum(counts.values())
    assert value(mixed) > max(map(value, answers))  # independent errors average out
    assert counts[0] >= counts.get(2, 0)
    assert chosen([answers[0], answers[0] + 100.0], value) == {0: 1}


def test_the_model_of_a_search(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curving, "CURVE", (0.5,))
    lines: list[str] = []
    found = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few(BASELINE, "wl", "none"), say=lines.append)
    assert any(line.startswith("wl: accuracy") and "5 of 5 folds" in line for line in lines)
    names = [row["name"] for row in found.table]
    assert set(names) == {BASELINE, "wl", "none"}
    assert all(row["scored on"] == "5 of 5 folds" for row in found.table)
    assert found.crossed.metrics["accuracy"] >= found.table[0]["score"]
    assert found.table[0]["score"] > next(row["score"] for row in found.table if row["name"] == BASELINE)
    assert found.estimate["graphs"] == 8
    assert found.estimate["low"] <= found.estimate["accuracy"] <= found.estimate["high"]
    assert [count for count, _ in found.curve] == sorted(count for count, _ in found.curve)
    assert len(found.curve) == 2

    file = tmp_path / "model.safetensors"
    found.model.save(file)
    loaded = FittedModel.load(file)
    np.testing.assert_array_equal(loaded.predictions(graphs), found.model.predictions(graphs))
    assert loaded.about["estimate"] == found.estimate
    assert GraphClassifier.load(file).predict(graphs.subset(range(3))).shape == (3,)
    page = auto_page(found)
    assert "What was tried" in page
    assert "Would more labels help?" in page
    assert "A constant prediction, which ignores the graphs, has" in page
    assert page.count("<figure") == min(6, int((found.crossed.predictions.argmax(1) != found.crossed.targets).sum()))
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_predictions_for_the_ranking_are_by_models_that_did_not_see_the_graph(graphs: GraphSet, tmp_path: Path) -> None:
    found = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few(BASELINE, "wl"))
    search = AutoSearch(graphs, few(BASELINE, "wl"), tmp_path / "other", 1e4)
    parts = [part for part in found.model.parts if part.method == "wl"]
    for fold, part in zip(search.folds, parts, strict=True):
        expected = part.predictions(graphs.subset(fold.test)).argmax(1)
        at = [found.crossed.ids.index(str(place)) for place in fold.test]
        np.testing.assert_array_equal(found.crossed.predictions[at].argmax(1), expected)


def test_a_search_goes_on_where_it_stopped(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[str] = []
    real = searching.train

    def counting(*args: object, **given: object) -> object:
        trained.append(str(given["out"]))
        if len(trained) == 4:
            raise KeyboardInterrupt
        return real(*args, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(searching, "train", counting)
    with pytest.raises(KeyboardInterrupt):
        fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few(BASELINE, "none"))
    one = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few(BASELINE, "none"))
    monkeypatch.setattr(searching, "train", real)
    whole = fit_auto(graphs, tmp_path / "t", budget=1e4, candidates=few(BASELINE, "none"))
    assert [row["score"] for row in one.table] == [row["score"] for row in whole.table]
    with pytest.raises(UserError, match="holds a search with other data or settings"):
        fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few(BASELINE, "topk"))


def test_a_search_of_an_earlier_version_goes_on(
    graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had the average of the recipe, however few the steps, and did not note it."""
    tried = [*few(BASELINE), Candidate("none", "none", SMALL.but(average=0.99))]
    with monkeypatch.context() as then:
        then.setattr(searching, "AVERAGED", 0.0)
        one = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=tried)
    state = json.loads((tmp_path / "s" / "search.json").read_text())
    assert set(state.pop("averages").values()) == {0.99}
    (tmp_path / "s" / "search.json").write_text(json.dumps(state))
    again = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=tried)
    assert [row["note"] for row in again.table if row["name"] == "none"] == [""]
    assert [row["score"] for row in again.table] == [row["score"] for row in one.table]


def test_a_candidate_that_fails_does_not_end_the_search(graphs: GraphSet, tmp_path: Path) -> None:
    broken = Candidate("diverges", "none", SMALL.but(lr=1e30, epochs=20))
    found = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=[*few(BASELINE, "wl"), broken])
    row = next(row for row in found.table if row["name"] == "diverges")
    assert "NaN or infinite" in row["note"]
    assert found.table[0]["name"] == "wl"


def test_a_finished_search_is_read_though_its_budget_is_spent(graphs: GraphSet, tmp_path: Path) -> None:
    whole = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few(BASELINE, "wl", "none"))
    again = fit_auto(graphs, tmp_path / "s", budget=0.01, candidates=few(BASELINE, "wl", "none"))
    assert [row["score"] for row in again.table] == [row["score"] for row in whole.table]
    np.testing.assert_array_equal(again.crossed.predictions, whole.crossed.predictions)


def test_a_folder_of_another_process_is_an_error(graphs: GraphSet, tmp_path: Path) -> None:
    with alone_in(tmp_path / "s"), pytest.raises(UserError, match="another process is training in"):
        fit_auto(graphs, tmp_path / "s", candidates=few(BASELINE, "wl"))


def test_networks_that_are_too_slow(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        AutoSearch, "_epoch_seconds", lambda self, candidate: (1e3 if candidate.name == "sag" else 4.0, 0.0)
    )
    found = fit_auto(graphs, tmp_path / "s", budget=100.0, candidates=few("wl", "sag", "none", "topk", "cgi", "vip"))
    note = {row["name"]: row["note"] for row in found.table}
    assert note["sag"] == "too slow for the budget: an epoch takes 1e+03 s"
    assert note["topk"].startswith("too slow")  # three epochs do not fit into its share
    assert note["none"] == ""  # and neither do those of the first network, but it fits into the rest
    with pytest.raises(UserError, match="no candidate could be trained within 60 s; give a larger budget"):
        fit_auto(graphs, tmp_path / "t", budget=60.0, candidates=few(BASELINE, "sag"))


def test_a_classical_method_that_takes_too_long(
    graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*args: object, **given: object) -> None:
        if "wl-oa" in str(given["out"]):
            time.sleep(60.0)
        real(*args, **given)  # type: ignore[arg-type]

    real = searching.train
    monkeypatch.setattr(searching, "train", slow)
    monkeypatch.setattr(searching, "CLASSICAL_SHARE", 0.0)
    began = time.monotonic()
    found = fit_auto(graphs, tmp_path / "s", budget=2.0, candidates=few("wl", "wl-oa"))
    assert time.monotonic() - began < 40.0
    assert next(row["note"] for row in found.table if row["name"] == "wl-oa").startswith(("stopped: it took", "not"))
    with pytest.raises(OutOfTime, match="late"), alarm(0.05, OutOfTime("late")):
        time.sleep(10.0)
    with alarm(0.05, OutOfTime("late")):
        pass
    time.sleep(0.1)  # it is switched off at the end


def test_what_was_decided_survives_a_kill(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*args: object, **given: object) -> None:
        if "none-0-short" in str(given["out"]):
            raise KeyboardInterrupt
        real(*args, **given)  # type: ignore[arg-type]

    real = searching.train
    monkeypatch.setattr(searching, "train", kill)
    with pytest.raises(KeyboardInterrupt):
        fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few("none"))
    state = json.loads((tmp_path / "s" / "search.json").read_text())
    assert state["epochs"] == {"none, short": 6}


def test_a_spent_budget_still_gives_a_model(graphs: GraphSet, tmp_path: Path) -> None:
    found = fit_auto(graphs, tmp_path / "s", budget=0.01, candidates=few(BASELINE, "wl", "none", "cgi"))
    assert found.table[0]["name"] == "wl"
    assert [row["name"] for row in found.table if row["final"]] == ["wl"], "the baseline is not blended in"
    assert [row["note"] for row in found.table if row["name"] in ("none", "cgi")] == [
        "not tried: the budget was spent"
    ] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graphs: graphs.subset(range(29)), "has 29 graphs; --auto needs at least 30"),
        (lambda graphs: replace(graphs, y=np.zeros_like(graphs.y)), "has only one class"),
        (lambda graphs: graphs.with_targets(np.ones(len(graphs)), None, "regression"), "only one value"),
    ],
)
def test_data_that_cannot_be_searched(graphs: GraphSet, tmp_path: Path, change: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        fit_auto(change(graphs), tmp_path, candidates=few(BASELINE, "wl"))  # type: ignore[operator]


def test_budgets() -> None:
    assert [seconds_of(text) for text in ("90s", "5m", "1.5h")] == [90.0, 300.0, 5400.0]
    for text, message in (("5", "is not a time"), ("soon", "is not a time"), ("2s", "too small for one network")):
        with pytest.raises(UserError, match=message):
            seconds_of(text)


def rare_classes(rare: int) -> GraphSet:
    graphs = load_dataset("motifs")
    ids = np.concatenate([np.flatnonzero(graphs.y != 3)[: 150 - rare], np.flatnonzero(graphs.y == 3)[:rare]])
    return graphs.subset(ids).relabelled((graphs.y[ids] == 3).astype(int), ("other", "clique"))


def test_rare_classes_are_told_and_weighed(tmp_path: Path) -> None:
    graphs = rare_classes(12)
    assert has_rare_classes(graphs)
    assert not has_rare_classes(rare_classes(16))
    assert has_rare_classes(graphs.relabelled(1 - graphs.y, ("clique", "other")))  # by which class is rarer
    columns = np.stack([graphs.y, 1 - graphs.y, graphs.y], 1).astype(float)
    assert has_rare_classes(graphs.with_targets(columns, None, "multilabel"))
    assert not has_rare_classes(graphs.with_targets(columns[:, 1:], None, "multilabel"))
    assert not has_rare_classes(graphs.with_targets(columns, None, "regression"))
    assert not has_rare_classes(load_dataset("motifs"))

    tried = few(BASELINE, "wl", "none")
    added = rare_candidates(graphs, tried)
    assert [each.name for each in added] == ["none, class_weight=balanced", "none, focal=2", "none, balanced_batches"]
    assert all(each.recipe.stop_by == "pr_auc" for each in added)
    names = [each.name for each in with_rare_candidates(graphs, [*tried, *few("cgi")])]
    assert names == [BASELINE, "wl", "none", *(each.name for each in added), "cgi"]  # beside what they change
    assert rare_candidates(load_dataset("motifs"), tried) == []
    found = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=[*tried, added[2]])
    assert found.estimate["metric"] == "pr_auc"
    assert found.table[0]["score"] > 0.6  # of 8 % cliques
    y = graphs.y[[int(name) for name in found.crossed.ids]]
    expected = average_precision_score(y, found.crossed.predictions[:, 1])
    assert found.model.about["validation"]["pr_auc"] == pytest.approx(expected)
    assert expected >= found.table[0]["score"] - 1e-12


def test_a_model_is_never_worse_than_the_baseline(graphs: GraphSet, tmp_path: Path) -> None:
    noise = graphs.with_targets(np.random.default_rng(1).normal(size=len(graphs)), None, "regression")
    found = fit_auto(noise, tmp_path / "s", candidates=few(BASELINE, "wl-oa"))
    score = {row["name"]: row["score"] for row in found.table}
    assert score[BASELINE] < score["wl-oa"]
    assert found.table[0]["name"] == BASELINE
    assert found.crossed.metrics["rmse"] <= score[BASELINE]
    assert "A constant prediction" not in auto_page(found)


def test_a_metric_that_some_folds_lack_ends_in_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With three graphs of a class, some folds have none: the intervals and the curve are those of the others."""
    monkeypatch.setattr(curving, "CURVE", (0.5,))
    graphs = load_dataset("motifs").subset(range(60))
    graphs = graphs.relabelled((np.arange(60) % 20 == 0).astype(int), ("no", "yes"))
    found = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few("wl", "wl-oa"))
    assert found.estimate["metric"] == "pr_auc"
    assert len(found.table) == 2
    assert 0 < found.curve_folds < FOLDS
    assert all(np.isfinite(score) for _, score in found.curve)


def test_a_curve_that_fails_leaves_the_model(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = searching.train

    def train(*given: object, out: Path, **more: object) -> object:
        if "share" in out.name:
            raise UserError("the training failed with fewer graphs")
        return real(*given, out=out, **more)

    monkeypatch.setattr(curving, "CURVE", (0.5,))
    monkeypatch.setattr(searching, "train", train)
    found = fit_auto(graphs, tmp_path / "s", budget=1e4, candidates=few(BASELINE, "wl"))
    assert found.table[0]["name"] == "wl"
    assert (found.curve, found.curve_folds) == ([], 0)


def test_areas_are_those_of_the_rare_class(tmp_path: Path) -> None:
    turned = rare_classes(12)
    turned = turned.relabelled(1 - turned.y, ("clique", "other"))
    found = fit_auto(turned, tmp_path / "s", candidates=few(BASELINE, "wl"))
    y = turned.y[[int(name) for name in found.crossed.ids]]
    expected = average_precision_score(y == 0, found.crossed.predictions[:, 0])
    assert found.table[0]["score"] == pytest.approx(expected)
    assert found.estimate["low"] <= found.estimate["pr_auc"] <= found.estimate["high"]


def test_the_command(
    graphs: GraphSet, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs.save(tmp_path / "set")
    monkeypatch.setattr(
        "cgipool.auto.fit.candidates_for", lambda graphs, budget: few(BASELINE, "structure-free", "none")
    )
    out = tmp_path / "model.safetensors"
    assert main(["fit", str(tmp_path / "set"), "--auto", "--budget", "1h", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "expected: accuracy" in shown
    assert "chosen: " in shown
    assert (tmp_path / "model.html").is_file()
    assert not (tmp_path / "model.safetensors.auto").exists()
    assert main(["predict", str(out), str(tmp_path / "set"), "--out", str(tmp_path / "p.csv")]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 85
    assert main(["fit", str(tmp_path / "set"), "--auto", "--method", "topk"]) == 2
    assert "--auto and --method cannot be used together" in capsys.readouterr().err
    for words, message in (
        (["--auto", "--jobs", "2"], "--auto and --jobs cannot be used together"),
        (["--metric", "mcc"], "--metric needs --auto"),
    ):
        assert main(["fit", str(tmp_path / "set"), *words]) == 2
        assert message in capsys.readouterr().err


def test_a_rare_class_is_predicted(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Where PR-AUC is optimised, thresholds are chosen on out-of-fold predictions, and predictions follow them."""
    rare = rare_classes(12)
    assert has_rare_classes(rare)
    found = fit_auto(rare, budget=60.0, candidates=few("majority", "wl"))
    low = found.model.about["thresholds"][1]
    assert 0.0 < low < 0.5
    assert set(found.crossed.guess.tolist()) == {0, 1}
    assert found.crossed.values["mcc"] > 0.2
    found.model.save(tmp_path / "model.safetensors")
    rare.save(tmp_path / "set")
    model = FittedModel.load(tmp_path / "model.safetensors")
    p = model.predict_proba(rare)[:, 1]
    assert main(["predict", str(tmp_path / "model.safetensors"), str(tmp_path / "set"), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["prediction"] == "clique" for row in rows] == (p > low).tolist()
    loaded = GraphClassifier.load(tmp_path / "model.safetensors")
    assert (loaded.predict(rare) == "clique").tolist() == (p > low).tolist()
    assert main(["evaluate", str(tmp_path / "model.safetensors"), str(tmp_path / "set"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == pytest.approx(np.mean((p > low) == rare.y))
    assert main(["describe", str(tmp_path / "model.safetensors")]) == 0
    assert f"clique above a probability of {100 * low:.1f} %" in capsys.readouterr().out


def test_thresholds_of_one_half_are_not_told() -> None:
    labels = SimpleNamespace(columns=("a", "b"))
    model = SimpleNamespace(thresholds=np.array([0.5, 0.2]), task=labels, task_name="multilabel")
    assert _thresholds(model) == "b above a probability of 20.0 %"
    model.thresholds = np.array([0.5, 0.5])
    assert _thresholds(model) == ""


def test_accuracy_needs_no_thresholds(graphs: GraphSet) -> None:
    assert "thresholds" not in fit_auto(graphs, budget=60.0, candidates=few("majority", "wl")).model.about


def answering(graphs: GraphSet, targets: np.ndarray, answers: np.ndarray, thresholds: object = None) -> object:
    """A stand-in for a model that gives these answers for graphs with these targets."""
    return SimpleNamespace(
        thresholds=thresholds,
        task=task_of(graphs),
        labels_of=lambda held: targets,
        predictions=lambda held: answers,
    )


def test_the_interval_of_a_perfect_estimate_has_a_width(graphs: GraphSet) -> None:
    perfect = answering(graphs, graphs.y, np.eye(graphs.n_classes)[graphs.y])
    found = fitting.estimated(perfect, graphs, "accuracy", classes_of(graphs))
    assert found["accuracy"] == 1.0
    assert 0.9 < found["low"] < 1.0 == found["high"]


@pytest.mark.parametrize("metric", ["mcc", "balanced_accuracy"])
def test_the_interval_of_an_estimate_follows_the_thresholds(metric: str) -> None:
    rare = rare_classes(12)
    p = 0.1 + 0.2 * (rare.y == 1)
    p[np.flatnonzero(rare.y == 1)[0]] = 0.1
    model = answering(rare, rare.y, np.stack([1.0 - p, p], 1), np.array([0.8, 0.2]))
    found = fitting.estimated(model, rare, metric)
    assert found["low"] < found[metric] <= found["high"]


def test_the_interval_of_an_accuracy_over_columns_knows_how_few_values_are_known(graphs: GraphSet) -> None:
    """The mean over columns is no share of the graphs, and a graph without known values adds nothing."""
    draw = np.random.default_rng(0)
    values = draw.integers(0, 2, (len(graphs), 2)).astype(float)
    values[8:] = np.nan
    columns = graphs.with_targets(values, None, "multilabel")
    model = answering(columns, values, draw.random(values.shape))
    found = fitting.estimated(model, columns, "accuracy")
    assert found["low"] < found["accuracy"] < found["high"]
    assert found["high"] - found["low"] > 0.3
    model.labels_of = lambda held: np.full_like(values, np.nan)
    assert fitting.estimated(model, columns, "accuracy")["low"] is None
