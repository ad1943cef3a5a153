"""What pages take from a search: worked by hand from few numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import search_tables
from cgipool.data import CATALOGUE
from cgipool.files import read_json
from cgipool.training.presets import ADDED, PAPER, STRONG
from results import REPOSITORY
from test_results import rows

ACCURACIES = {
    "base": ({}, [[0.70, 0.72], [0.60, 0.60]]),
    "winner": ({"conv": "gin", "lr": 0.01}, [[0.80, 0.84], [0.66, 0.70]]),
    "without conv": ({"lr": 0.01}, [[0.71, 0.75], [0.62, 0.62]]),
    "without lr": ({"conv": "gin"}, [[0.78, 0.80], [0.64, 0.66]]),
}
"""Changes, and validation accuracies on two splits of two data sets, by trial."""


def trial(name: str) -> dict[str, Any]:
    changes, values = ACCURACIES[name]
    means = [sum(row) / 2 - sum(base) / 2 for row, base in zip(values, ACCURACIES["base"][1], strict=True)]
    told = {data: {"value": mean, "se": 0.01} for data, mean in zip(("NCI1", "PROTEINS"), means, strict=True)}
    accuracy = {"value": sum(map(sum, values)) / 4, "se": 0.01}
    score = {"accuracy": accuracy, "difference": {"value": sum(means) / 2, "se": 0.02}, "datasets": told, "methods": {}}
    return {"name": name, "changes": changes, "state": "judged", "val_accuracy": values, "score": score}


def rung(name: str, *trials: str) -> dict[str, Any]:
    protocol = {"first": 1000, "splits": 2}
    judges = {"methods": ["cgi"], "datasets": ["NCI1", "PROTEINS"], "protocol": protocol, "budget": {"epochs": 5}}
    return {"name": name, "trials": [trial(each) for each in trials]} | judges


@pytest.fixture
def search() -> dict[str, Any]:
    return {
        "base": {"conv": "gcn", "lr": 0.001},
        "space": {"conv": ["gcn", "gin"], "lr": [0.001, 0.01, 0.1]},
        "rungs": [rung("rung 1", *ACCURACIES), rung("rung 2", "base", "winner"), rung("one at a time", *ACCURACIES)],
        "winner": {"name": "winner", "changes": {"conv": "gin", "lr": 0.01}},
    }


def test_what_each_choice_gains_alone_and_together(search: dict[str, Any]) -> None:
    # conv alone: by split 8, 8 and 4, 6 points, so 8 ± 0 and 5 ± 1, on the whole 6.5 ± √(0² + 1²) / 2.
    # Together: 9, 9 and 4, 8. lr alone: 1, 3 and 2, 2; together: 2, 4 and 2, 4. Both: 10, 12 and 6, 10.
    table = search_tables.choices(search)
    assert "cgi on NCI1, PROTEINS, splits 1000 to 1001, 5 epochs" in table
    assert rows(table) == [
        ["conv", "gcn", "gin", "+6.50 ± 0.50", "+7.50 ± 1.00"],
        ["lr", "0.001", "0.01", "+2.00 ± 0.50", "+3.00 ± 0.71"],
        ["all of them", "", "", "+9.50 ± 1.12", ""],
    ]


def test_families_and_their_best(search: dict[str, Any]) -> None:
    # NCI1 is of molecules: 10 and 12 points, 11 ± 1. PROTEINS is a family by itself: 6 and 10.
    table = search_tables.families(search)
    assert rows(table) == [["winner", "**+11.00 ± 1.00**", "**+8.00 ± 2.00**"], ["base", "0", "0"]]
    assert "| setting | molecules | proteins |" in table


@pytest.mark.parametrize("family", STRONG)
def test_strong_is_the_best_of_each_familys_searches(family: str) -> None:
    """That of the settings first, then that of the losses' weight on its winner: recomputed from the kept validation
    accuracies, not read from the tables."""
    changes: dict[str, Any] = {}
    for name in (f"search-{family}", f"search-losses-{family}"):
        search = read_json(REPOSITORY / "results" / "strong" / "searches" / f"{name}.json")
        assert {CATALOGUE[dataset].family for dataset in search["datasets"]} == {family}
        assert ADDED | search["base"] == PAPER.but(epochs=120, **changes).to_json()
        last = [rung for rung in search["rungs"] if rung["name"].startswith("rung")][-1]
        best = max(last["trials"], key=lambda trial: np.array(trial["val_accuracy"]).mean())
        changes |= best["changes"]
    assert STRONG[family] == replace(PAPER.but(epochs=120, **changes), name=f"strong-{family}")


def test_a_choice_that_could_not_be_tried_is_a_dash(search: dict[str, Any]) -> None:
    search["rungs"][-1]["trials"][2]["state"] = "failed"
    assert rows(search_tables.choices(search))[:2] == [
        ["conv", "gcn", "gin", "+6.50 ± 0.50", "–"],
        ["lr", "0.001", "0.01", "–", "+3.00 ± 0.71"],
    ]


def test_finalists_best_first(search: dict[str, Any]) -> None:
    table = search_tables.finalists(search)
    assert rows(table) == [
        ["winner", "75.00", "+9.50 ± 2.00", "+11.00 ± 1.00", "+8.00 ± 1.00"],
        ["base", "65.50", "", "", ""],
    ]
    assert "winner: conv gin, lr 0.01." in table


def test_how_settings_with_a_value_did(search: dict[str, Any]) -> None:
    # Differences: winner 9.5, without conv 2.0, without lr 6.5; the base itself does not count.
    found = {(name, value): told for name, value, *told in rows(search_tables.values_tried(search))}
    assert found["conv", "gcn"][:2] == ["1", "+2.00 ± –"]
    assert found["conv", "gin"][:2] == ["2", "+8.00 ± 1.50"]
    assert found["conv", "gin"][2:] == ["+9.50 ± 1.50", "+6.50 ± 1.50"]
    assert found["lr", "0.01"][:2] == ["2", "+5.75 ± 3.75"]
    assert found["lr", "0.1"] == ["0", "–", "–", "–"]
