"""`cgipool study search`: what is drawn, who goes on, that only validation counts, and that a killed search goes on."""

import itertools
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from cgipool import load_dataset
from cgipool.cli import main
from cgipool.errors import UserError
from cgipool.files import unsealed
from cgipool.study.cell import Cell, Protocol
from cgipool.study.claims import Claims
from cgipool.study.gather import split_rows
from cgipool.study.plan import study_of
from cgipool.study.records import read_book, validation_score
from cgipool.study.search import (
    Mean,
    Results,
    Round,
    Score,
    kept,
    mean_over,
    options_of,
    ranked,
    rounds,
    score,
    summary,
    winner_of,
)
from cgipool.study.search_file import Search, read_search, search_of
from cgipool.study.space import Space, Trial, space_of
from cgipool.study.store import Store, now
from cgipool.training.presets import PAPER, parse_setting, recipe_named
from cgipool.training.run import train

EXAMPLE = Path(__file__).resolve().parents[2] / "studies" / "search.toml"

pytestmark = pytest.mark.usefixtures("one_thread")


def scored(difference: float) -> Score:
    return Score(Mean(0.5 + difference, None), Mean(difference, None), {}, {})


def test_the_mean_weighs_data_sets_alike() -> None:
    assert mean_over(np.array([[1.0, 3.0], [2.0, 2.0]])) == Mean(2.0, 0.5)  # variances of the means: 1 and 0
    assert mean_over(np.array([[1.0], [4.0]])) == Mean(2.5, None)
    values = np.random.default_rng(0).normal(size=(3, 7))
    one = mean_over(values[:1])
    assert one.se == pytest.approx(scipy.stats.sem(values[0]))
    errors = scipy.stats.sem(values, axis=1)
    assert mean_over(values).se == pytest.approx(np.linalg.norm(errors) / 3)


def test_a_score_is_paired_with_the_base() -> None:
    # Two methods, two data sets of very different level, two splits.
    base = np.array([[[0.90, 0.80], [0.30, 0.50]], [[0.90, 0.70], [0.30, 0.50]]])
    gain = np.array([[[0.02, 0.02], [0.00, 0.04]], [[0.04, 0.04], [-0.02, 0.02]]])
    found = score(base + gain, base, ["a", "b"], ["easy", "hard"])
    assert found.difference.value == pytest.approx(0.02)
    assert found.accuracy.value == pytest.approx(base.mean() + 0.02)
    assert found.datasets["easy"].value == pytest.approx(0.03)
    assert found.datasets["easy"].se == pytest.approx(0.0, abs=1e-12), "the level of a split is not its error"
    assert found.datasets["hard"].value == pytest.approx(0.01)
    assert found.datasets["hard"].se == pytest.approx(scipy.stats.sem([-0.01, 0.03]))
    assert found.difference.se == pytest.approx(scipy.stats.sem([-0.01, 0.03]) / 2)
    assert {name: round(mean.value, 9) for name, mean in found.methods.items()} == {"a": 0.02, "b": 0.02}


def test_who_goes_on() -> None:
    values = {"base": 0.0, "1": -0.1, "2": None, "3": 0.3, "4": 0.1 + 0.2, "5": -0.2}
    scores = {name: None if value is None else scored(value) for name, value in values.items()}
    assert ranked(scores) == ["3", "4", "base", "1", "5"], "of equals the first, what failed is out"
    assert kept(scores, 2, "base") == ["base", "3"]
    assert kept(scores, 4, "base") == ["base", "1", "3", "4"]
    assert kept(scores, 6, "base") == ["base", "1", "3", "4", "5"], "fewer than wanted, as one failed"
    only = {"base": scored(0.0), "1": scored(-0.3), "2": scored(-0.1)}
    assert kept(only, 2, "base") == ["base", "2"], "the base goes on beside the best of the others"
    assert ranked({"base": scored(0.0), "1": scored(0.0)})[0] == "base", "a tie does not unseat the base"


def test_drawing() -> None:
    choices = {"lr": [0.001, 0.01], "width": [8, 128, 64], "readout": ["max-mean", "sum"]}
    space = space_of(PAPER, choices)
    assert space.size == 12
    trials = space.drawn(12, seed=3)
    assert trials[0] == Trial("base", {})
    recipes = [space.recipe(trial) for trial in trials]
    found = {(r.lr, r.width, r.readout) for r in recipes}
    assert found == set(itertools.product(*choices.values())), "all, once each"
    assert space.drawn(5, seed=3) == trials[:5]
    assert space.drawn(12, seed=4) != trials
    with pytest.raises(UserError, match="has 12 combinations, but the first rung needs 13"):
        space.drawn(13, seed=3)


def test_every_choice_is_as_likely() -> None:
    widths = list(range(2, 2002))
    space = space_of(PAPER, {"lr": [0.001, 0.01, 0.1], "width": widths})
    drawn = [space.recipe(trial) for trial in space.drawn(900, seed=0)]
    counts = [sum(recipe.lr == lr for recipe in drawn) for lr in (0.001, 0.01, 0.1)]
    assert scipy.stats.chisquare(counts).pvalue > 0.01
    together = np.zeros((3, 2))
    for recipe in drawn:
        together[(0.001, 0.01, 0.1).index(recipe.lr), int(recipe.width < 1002)] += 1
    assert scipy.stats.chi2_contingency(together).pvalue > 0.01, "settings are drawn independently"


def test_combinations_that_no_recipe_can_have_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Space.recipe

    def strict(self: Space, trial: Trial) -> Any:
        if {"lr", "width"} <= trial.changes.keys():
            raise UserError("not both")
        return usual(self, trial)

    monkeypatch.setattr(Space, "recipe", strict)
    space = space_of(PAPER, {"lr": [0.001, 0.01], "width": [64, 128]})
    assert sorted(str(trial.changes) for trial in space.drawn(3, 0)) == ["{'lr': 0.01}", "{'width': 64}", "{}"]
    with pytest.raises(UserError, match="fewer than 4"):
        space.drawn(4, 0)


def test_the_winner_taken_apart() -> None:
    space = space_of(PAPER, {"lr": [0.001, 0.01], "width": [64, 128], "levels": [2, 3]})
    changes = {"lr": 0.01, "width": 64, "levels": 2}
    assert [(trial.name, trial.changes) for trial in space.apart(Trial("7", changes))] == [
        ("base", {}),
        ("winner", changes),
        ("without lr", {"width": 64, "levels": 2}),
        ("without width", {"lr": 0.01, "levels": 2}),
        ("without levels", {"lr": 0.01, "width": 64}),
        ("only lr", {"lr": 0.01}),
        ("only width", {"width": 64}),
        ("only levels", {"levels": 2}),
    ]
    assert [trial.name for trial in space.apart(Trial("7", {"lr": 0.01}))] == ["base", "winner"]


def test_the_base_keeps_its_alpha() -> None:
    space = space_of(PAPER, {"alpha": [0.001, 0.01], "alpha_proteins": [1.0, 0.1]})
    assert space.recipe(Trial("base")) == PAPER
    apart = space.recipe(Trial("1", {"alpha": 0.01}))
    assert apart.alpha_proteins == 1.0, "it has choices of its own"
    assert PAPER.but(**apart.settings()) == apart
    assert "--set alpha=0.01 --set alpha_proteins=1.0" in Cell("cgi", "NCI1", apart, Protocol()).command("cpu")
    alone = space_of(PAPER, {"alpha": [0.001, 0.01]})
    assert alone.recipe(Trial("base")).alpha_proteins == 1.0
    recipe = alone.recipe(Trial("1", {"alpha": 0.01}))
    assert recipe.alpha_proteins == 0.01
    assert recipe.settings() == {"alpha": 0.01}


def test_any_setting_can_be_chosen_none_included() -> None:
    base = recipe_named("released")
    space = space_of(base, {"dropout_epochs": ["none", 1], "class_weight": ["none", "balanced"], "lr": [0.001, 1]})
    assert space.choices == {"dropout_epochs": [None, 1], "class_weight": [None, "balanced"], "lr": [0.001, 1.0]}
    recipe = space.recipe(Trial("1", {"dropout_epochs": None}))
    words = shlex.split(options_of(recipe))
    assert words == ["--recipe", "released", "--set", "dropout_epochs=none"]
    assert base.but(**dict([parse_setting(words[-1])])) == recipe
    axes = {"method": ["topk"], "dataset": ["motifs"]}
    settings = {"recipe": "released", "dropout_epochs": "none"}
    assert study_of({"axes": axes, "settings": settings}).cells[0].recipe == recipe


PLAIN: dict[str, Any] = {
    "methods": ["topk", "none"],
    "datasets": ["motifs", "MUTAG"],
    "space": {"lr": [0.001, 0.01], "width": [64, 128], "levels": [2, 3]},
    "rung": [{"settings": 6, "splits": 2, "epochs": 5}, {"keep": 3, "splits": 3}],
    "one_at_a_time": {"splits": 2, "datasets": ["MUTAG"]},
}


def finish(store: Store, cell: Cell, accuracy: float, **more: Any) -> None:
    """A record as a training would leave it, with the same accuracy on every split."""
    splits = range(cell.protocol.first, cell.protocol.first + cell.protocol.splits)
    usual = {"val_accuracy": accuracy, "best_epoch": 1, "test": {"accuracy": 0.5}, "graphs": {"train": 8, "test": 1}}
    rows = [{"split": split} | usual | more for split in splits]
    store.finish(cell.key, cell.config, rows, {})


def filled(search: Search, folder: Path, worth: Callable[[Cell], float], **more: Any) -> list[Round]:
    """The rounds of a search whose cells are worth what a function says."""
    store = Store(folder)
    while True:
        found = rounds(search, Results(store, "accuracy"))
        if not found[-1].waiting:
            return found
        for cell in found[-1].waiting:
            finish(store, cell, worth(cell), **more)


def worth(cell: Cell) -> float:
    """A smaller width is good for one method more than it harms the other; a higher rate harms; two levels are good
    only over many epochs."""
    recipe = cell.recipe
    gain = 0.1 * (recipe.width == 64) * (1.0 if cell.method == "topk" else -0.5)
    gain += (0.01 if recipe.epochs > 5 else -0.01) * (recipe.levels == 2) - 0.03 * (recipe.lr == 0.01)
    return (0.9 if cell.dataset == "MUTAG" else 0.4) + gain


def test_halving_by_hand(tmp_path: Path) -> None:
    search = search_of(PLAIN)
    first, second, apart = filled(search, tmp_path, worth)
    hand = {}
    for name, trial in first.trials.items():
        changes = trial.changes
        hand[name] = 0.025 * ("width" in changes) - 0.01 * ("levels" in changes) - 0.03 * ("lr" in changes)
    assert {name: round(s.difference.value, 9) for name, s in first.scores.items() if s} == pytest.approx(hand)
    best = sorted((name for name in hand if name != "base"), key=lambda name: -hand[name])[:2]
    assert set(second.trials) == {"base", *best}
    assert first.rung.protocol.first == 1000
    assert second.rung.protocol.first == 1002, "every rung has splits of its own"
    assert apart.rung.protocol.first == 1005
    assert {cell.recipe.epochs for cell in first.cells["base"]} == {5}
    assert {cell.recipe.epochs for cell in second.cells["base"]} == {1000}
    assert len(first.cells["base"]) == 4
    assert {cell.dataset for group in apart.cells.values() for cell in group} == {"MUTAG"}

    winner = winner_of(search, [first, second, apart])
    assert winner is not None
    later = {
        name: 0.025 * ("width" in t.changes) + 0.01 * ("levels" in t.changes) - 0.03 * ("lr" in t.changes)
        for name, t in second.trials.items()
    }
    assert winner.name == max(later, key=later.__getitem__)
    told = json.loads(json.dumps(summary(search, [first, second, apart])))
    assert [len(rung["trials"]) for rung in told["rungs"]] == [6, 3, len(apart.trials)]
    assert told["winner"]["changes"] == winner.changes
    assert told["winner"]["recipe"]["epochs"] == 1000, "the winner is the setting, without a rung's budget"
    trials = {trial["name"]: trial for trial in told["rungs"][0]["trials"]}
    for name, trial in trials.items():  # the scores can be worked out from the summary alone
        gain = np.array(trial["val_accuracy"]) - np.array(trials["base"]["val_accuracy"])
        assert trial["score"]["difference"]["value"] == pytest.approx(gain.mean(), abs=1e-6), name


def test_the_base_may_win(tmp_path: Path) -> None:
    search = search_of(PLAIN)
    found = filled(search, tmp_path, lambda cell: 0.5 if cell.at["setting"] == "base" else 0.4)
    assert len(found) == 2, "nothing is to be taken apart"
    assert winner_of(search, found) == Trial("base")


ABSURD = [{"test": {"accuracy": 1e9}}, {"test": {"accuracy": -7.0, "mcc": "x"}}, {"test": {"accuracy": 0}}, {}]


@pytest.mark.parametrize("more", ABSURD)
def test_what_the_test_graphs_say_is_not_looked_at(more: dict[str, Any], tmp_path: Path) -> None:
    search = search_of(PLAIN)
    usual = filled(search, tmp_path / "usual", worth, test={"accuracy": 0.5})
    store, found = Store(tmp_path / "absurd"), []
    while not found or found[-1].waiting:
        for cell in found[-1].waiting if found else []:
            # The best trial by validation has the worst test results, and the other way round.
            finish(store, cell, worth(cell), **(more or {"test": {"accuracy": 1.0 - worth(cell)}}))
        found = rounds(search, Results(store, "accuracy"))
    assert summary(search, found) == summary(search, usual)


def test_records_that_lack_the_accuracy_have_it_on_their_curve() -> None:
    curve = {"epoch": [1, 4, 8], "val_accuracy": [0.1, 0.4, 0.8]}
    assert validation_score({"val_accuracy": 0.7, "best_epoch": 4, "curve": curve}, "accuracy") == 0.7
    assert validation_score({"best_epoch": 4, "curve": curve}, "accuracy") == 0.4
    assert validation_score({"best_epoch": 7, "curve": curve}, "accuracy") == 0.8
    assert validation_score({"best_epoch": 6, "curve": curve}, "accuracy") == 0.4, "the earlier of two as near"
    assert (
        validation_score({"best_epoch": 1, "curve": {"epoch": [1, 2], "val_accuracy": [None, 0.2]}}, "accuracy") == 0.2
    )
    assert validation_score({"best_epoch": 0, "curve": {"epoch": [], "val_accuracy": []}}, "accuracy") is None


@pytest.mark.parametrize("ensemble", [1, 2])
def test_a_row_has_the_accuracy_of_the_best_epoch(ensemble: int, tmp_path: Path) -> None:
    graphs = load_dataset("motifs").subset(range(0, 1000, 10))
    recipe = PAPER.but(width=8, epochs=6, patience=3, lr=0.01)
    train(graphs, method="topk", recipe=recipe, splits=2, first=1000, ensemble=ensemble, out=tmp_path / "run")
    for row in split_rows(tmp_path / "run"):
        logs = sorted((tmp_path / "run" / f"split-{row['split']}").glob("**/metrics.jsonl"))
        assert len(logs) == ensemble
        lines = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]
        best = [min(epochs, key=lambda epoch: epoch["val_loss"])["val_accuracy"] for epochs in lines]
        assert row["val_accuracy"] == pytest.approx(np.mean(best))


def test_a_setting_that_fails_is_out_and_can_be_tried_again(tmp_path: Path) -> None:
    search, store = search_of(PLAIN), Store(tmp_path)
    (first,) = rounds(search, Results(store, "accuracy"))
    for cell in first.waiting:
        if cell.at["setting"] == "1":
            store.fail(cell.key, cell.config, "too large", "")
        else:
            finish(store, cell, 0.1 if cell.at["setting"] == "base" else 0.0)
    first, second = rounds(search, Results(store, "accuracy"))
    assert first.scores["1"] is None
    assert "1" not in second.trials
    (again,) = rounds(search, Results(store, "accuracy", retry_before=now()))
    assert {cell.at["setting"] for cell in again.waiting} == {"1"}

    for cell in first.cells["base"][:1]:
        (tmp_path / "cells" / f"{cell.key}.json").unlink()
        store.fail(cell.key, cell.config, "too large", "")
    with pytest.raises(UserError, match="the base itself could not be trained"):
        rounds(search, Results(store, "accuracy"))


def but(path: str, value: Any) -> dict[str, Any]:
    """PLAIN with one value changed, or taken out by ...."""
    changed: Any = json.loads(json.dumps(PLAIN))
    *way, last = path.split(".")
    place = changed
    for word in way:
        place = place[int(word)] if isinstance(place, list) else place.setdefault(word, {})
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("protocol.first", 19, "splits from 19 of seed 0 overlap with those of reported results (0 to 19)"),
        ("protocol.splits", 3, "splits belong in the rungs"),
        ("protocol.firts", 3, "unknown key of [protocol] 'firts'"),
        ("protocol.overlap", 1, "overlap of [protocol] must be true or false"),
        ("space", ..., "a search needs [space]"),
        ("space", {}, "[space] has no settings"),
        ("space.lrr", [1, 2], "unknown setting in [space] 'lrr'; did you mean 'lr'"),
        ("space.lr", [0.01, 0.1], "lr of [space] must include the base's value, 0.001"),
        ("space.lr", [0.001], "lr of [space] must be a list of at least two values"),
        ("space.lr", [0.001, 1, 1.0], "lr of [space] lists a value twice"),
        ("space.width", [128, "wide"], "width must be a whole number, not 'wide'"),
        ("space.conv", ["gcn", "gnc"], "unknown convolution 'gnc'"),
        ("base.lrr", 1, "unknown key of [base] 'lrr'"),
        ("base.recipe", "papr", "unknown recipe 'papr'"),
        ("methods", ["topk", "tpok"], "unknown method 'tpok'"),
        ("methods", [], "methods of the file must be a list of names"),
        ("datasets", ["motifs", "motifs"], "datasets of the file lists a name twice"),
        ("datasets", ..., "a search needs datasets"),
        ("datasets", ["motif"], "unknown data set 'motif'"),
        ("seed", -1, "the file needs seed, an integer of at least 0"),
        ("rungs", 1, "unknown key 'rungs'"),
        ("rung", [], "rungs must be tables"),
        ("rung.0.settings", 9, "[space] has 8 combinations, but the first rung needs 9"),
        ("rung.0.settings", 1, "rung 1 needs settings, an integer of at least 2"),
        ("rung.0.keep", 3, "unknown key of rung 1 'keep'"),
        ("rung.1.keep", 6, "rung 2 must keep fewer than the 6 settings before it"),
        ("rung.1.splits", ..., "rung 2 needs splits"),
        ("rung.1.datasets", ["NCI1"], "unknown name in datasets of rung 2 'NCI1'"),
        ("rung.1.epochs", 0, "epochs must be at least 1"),
        ("one_at_a_time.keep", 2, "unknown key of one at a time 'keep'"),
        ("one_at_a_time", 3, "one_at_a_time must be a table"),
        ("name", "a/b", "the name 'a/b' may have only letters"),
    ],
)
def test_refusals(path: str, value: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        search_of(but(path, value))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_reported_splits_can_be_asked_for() -> None:
    given = PLAIN | {"protocol": {"first": 0, "overlap": True}}
    assert search_of(given).rungs[0].protocol.first == 0
    assert search_of(PLAIN | {"protocol": {"first": 0, "seed": 1}}).rungs[1].protocol.first == 2, "another seed's"
    assert search_of(PLAIN).rungs[0].protocol.first == 1000, "where the file does not say"


def test_a_family_alone_shares_its_cells() -> None:
    whole = search_of(PLAIN)
    alone = search_of(PLAIN, family="molecules")
    assert (alone.name, alone.datasets) == ("search-molecules", ["MUTAG"])
    (first, *_), (expected, *_) = (rounds(search, Results(None, "accuracy")) for search in (alone, whole))
    molecules = [cell.key for cell in expected.waiting if cell.dataset == "MUTAG"]
    assert [cell.key for cell in first.waiting] == molecules
    assert len(molecules) == len(expected.waiting) / 2
    with pytest.raises(UserError, match="unknown family of these data sets 'social'"):
        search_of(PLAIN, family="social")
    with pytest.raises(UserError, match="one at a time has no data set of the family synthetic"):
        search_of(PLAIN, family="synthetic")


def test_a_recipe_by_family_is_no_base_for_several() -> None:
    with pytest.raises(UserError, match="strong is a different recipe on each of molecules, synthetic: use --family"):
        search_of(PLAIN | {"base": {"recipe": "strong"}})
    base, space = {"recipe": "strong"}, {"lr": [0.001, 0.01]}
    given = {"methods": ["topk"], "base": base, "space": space, "rung": [{"settings": 2, "splits": 2}]}
    assert search_of(given | {"datasets": ["PROTEINS"]}).space.base == recipe_named("strong-proteins")
    several = given | {"datasets": ["PROTEINS", "COLLAB"]}
    assert search_of(several, family="social").space.base == recipe_named("strong-social")


def test_a_budget_that_is_also_searched_for() -> None:
    given = but("space.epochs", [10, 1000])
    with pytest.raises(UserError, match=r"epochs appears in both \[space\] and rung 1"):
        search_of(given)


TINY = """
title = "Tiny"
methods = ["topk", "none"]
datasets = ["motifs"]
[base]
width = 8
epochs = 5
lr = 1e-9
[space]
lr = [1e-9, 0.02, 0.03]
readout = ["max-mean", "sum"]
class_weight = ["none", "balanced"]
[[rung]]
settings = 4
splits = 1
epochs = 3
[[rung]]
keep = 2
splits = 2
[one_at_a_time]
methods = ["none"]
splits = 1
"""
CELLS = (8, 4)
"""Of the two rungs."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("search") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def whole(file: Path) -> Path:
    """The store of the tiny search, run without disturbance."""
    store = file.parent / "whole"
    assert main(["study", "search", str(file), "--store", str(store)]) == 0
    return store


def told(store: Path) -> dict[str, Any]:
    return unsealed(json.loads((store / "searches" / "tiny.json").read_text()))


def test_from_a_file_to_a_recipe(whole: Path, file: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["study", "search", str(file), "--store", str(whole)]) == 0
    out, err = capsys.readouterr()
    assert "starting" not in err, "nothing is trained twice"
    search, found = read_search(file), told(whole)
    first, second, apart = found["rungs"]
    assert [len(rung["trials"]) for rung in (first, second)] == [4, 2]
    assert second["trials"][0]["name"] == "base"
    judged = {t["name"]: t["score"]["difference"]["value"] for t in first["trials"]}
    assert second["trials"][1]["name"] == max(set(judged) - {"base"}, key=judged.__getitem__)
    book = read_book(whole)
    assert not book.studies, "a report would show test results of trials"
    keys = {key for rung in found["rungs"] for trial in rung["trials"] for key in trial["cells"]}
    assert keys == book.records.keys()
    assert {row["split"] for record in book.records.values() for row in record.splits} == {1000, 1001, 1002, 1003}

    winner = found["winner"]
    assert f"the winner is setting {winner['name']}" in out
    assert apart["trials"][1]["changes"] == winner["changes"]
    words = shlex.split(next(line for line in out.splitlines() if line.startswith("--recipe")))
    recipe = recipe_named(words[1]).but(**dict(map(parse_setting, words[3::2])))
    assert recipe == search.space.recipe(Trial("", winner["changes"]))
    snippet = out[out.index("[settings]") : out.index("--recipe")]
    axes = {"method": ["topk"], "dataset": ["motifs"]}
    assert study_of(tomllib.loads(snippet) | {"axes": axes}).cells[0].recipe == recipe


def test_scores_are_the_means_of_the_records(whole: Path) -> None:
    records, rung = read_book(whole).records, told(whole)["rungs"][1]
    base, other = rung["trials"]
    values = {
        trial["name"]: np.array([[row["val_accuracy"] for row in records[key].splits] for key in trial["cells"]])
        for trial in (base, other)
    }
    assert other["score"]["accuracy"]["value"] == pytest.approx(values[other["name"]].mean())
    difference = (values[other["name"]] - values["base"]).mean(0)
    assert other["score"]["difference"]["value"] == pytest.approx(difference.mean())
    assert other["score"]["difference"]["se"] == pytest.approx(scipy.stats.sem(difference))


def test_a_plan_trains_and_makes_nothing(
    whole: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = ["study", "search", str(file), "--dry-run", "--store"]
    assert main([*words, str(tmp_path / "none")]) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert ["rung", "1", "4", "2", "1", "1000", "3", "8", "8"] in [row[:9] for row in rows]
    assert ["rung", "2", "2", "2", "1", "1001–1002", "5", "4", "4"] in [row[:9] for row in rows]
    assert "left: about" in out
    assert not (tmp_path / "none").exists()
    assert main([*words, str(whole)]) == 0
    out = capsys.readouterr().out
    assert "left: about 0 s" in out
    assert "the winner is" in out
    assert main(["study", "search", str(EXAMPLE), "--dry-run", "--device", "cuda,cuda", "--store", str(tmp_path)]) == 0
    assert "fewer" not in capsys.readouterr().err


def without_times(store: Path) -> dict[str, Any]:
    return {
        key: [{name: value for name, value in row.items() if name != "seconds"} for row in record.splits]
        for key, record in read_book(store).records.items()
    }


def test_killed_in_the_second_rung_and_resumed(whole: Path, file: Path, tmp_path: Path) -> None:
    words = ["study", "search", str(file), "--store", str(tmp_path)]
    code = f"import sys; from cgipool.cli import main; sys.exit(main({words!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while len(list(tmp_path.glob("cells/*.json"))) <= CELLS[0]:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = {path: path.read_bytes() for path in tmp_path.glob("cells/*.json")}
    assert len(finished) < sum(CELLS)
    assert told(tmp_path)["winner"] is None
    assert main(words) == 0
    assert all(path.read_bytes() == content for path, content in finished.items())
    assert told(tmp_path) == told(whole)
    assert without_times(tmp_path) == without_times(whole)


def test_the_status_of_a_store_tells_of_its_searches(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["study", "status", str(whole)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["search", "rung", "settings"], "there is no study to show"
    assert lines[1].split() == ["tiny", "rung", "1", "4", "8", "8", "0", "0", "0"]
    assert f"the best setting is {told(whole)['winner']['name']} " in " ".join(lines[4:])

    half = tmp_path / "half"
    shutil.copytree(whole, half)
    changed = told(half) | {"winner": None}
    changed["rungs"][2]["trials"] = []
    (half / "searches" / "tiny.json").write_text(json.dumps(changed))
    (half / "searches" / "odd.json").write_text("{}")
    (half / "cells" / f"{changed['rungs'][1]['trials'][1]['cells'][0]}.json").unlink()
    with Claims(half / "claims").take(changed["rungs"][1]["trials"][1]["cells"][0]):
        assert main(["study", "status", str(half)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2:] for line in lines[2:4]] == [["2", "4", "3", "0", "1", "0"], ["a", "time", *"––––––"]]
    out = " ".join(" ".join(lines[4:]).split())
    assert f"search tiny: to continue, run `cgipool study search FILE --store {half}` with the same options" in out
    assert f"running: setting={changed['rungs'][1]['trials'][1]['name']},method=topk,dataset=motifs" in out
    assert "odd.json is not a valid search record" in out


def test_stopped_by_the_clock(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["study", "search", str(file), "--store", str(tmp_path), "--limit", "0"]) == 75
    assert "rung 1: 8 cells left, stopped before the end; run the same command to continue" in capsys.readouterr().out
    assert [trial["state"] for trial in told(tmp_path)["rungs"][0]["trials"]] == ["waiting"] * 4


@pytest.mark.long
def test_several_devices_share_a_rung(whole: Path, file: Path, tmp_path: Path) -> None:
    shutil.copytree(whole / "cells", tmp_path / "cells")
    for trial in told(whole)["rungs"][-1]["trials"]:
        (tmp_path / "cells" / f"{trial['cells'][0]}.json").unlink()
    assert main(["study", "search", str(file), "--store", str(tmp_path), "--device", "cpu,cpu"]) == 0
    assert told(tmp_path) == told(whole)
    assert without_times(tmp_path) == without_times(whole)


def test_failures_are_told(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    store, search = Store(tmp_path), read_search(file)
    (first,) = rounds(search, Results(store, "accuracy"))
    for cell in first.waiting:
        if cell.at["setting"] in ("1", "2", "3"):
            store.fail(cell.key, cell.config, "too large", "")
        else:
            finish(store, cell, 0.5, test={"accuracy": 0.5})
    words = ["study", "search", str(file), "--store", str(tmp_path)]
    assert main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out.count("failed") == 3
    assert main([*words, "--retry-failed", "--limit", "0"]) == 75
    assert "rung 1: 6 cells left" in capsys.readouterr().out


def test_errors_are_one_line(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    study, store = tmp_path / "study.toml", tmp_path / "store"
    study.write_text('[axes]\nmethod = ["cgi"]\ndataset = ["motifs"]\n')
    Store(store)
    (store / "searches").mkdir()
    for words, said in (
        (["study", "search", str(tmp_path / "none.toml")], "none.toml: No such file"),
        (["study", "search", str(file), "--device", "gpu", "--dry-run"], "must be cpu, cuda or cuda:N, not 'gpu'"),
        (["study", "run", str(file)], "this is a search file: run it with `cgipool study search`"),
        (["study", "search", str(study)], "this is a study file: run it with `cgipool study run`"),
        (["report", str(store), "--out", str(tmp_path / "R")], "`cgipool study search FILE --dry-run`"),
    ):
        assert main(words) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
