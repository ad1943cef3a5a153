"""Recipes by name, and the one that goes by the family of the data set."""

import json
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pytest

from cgipool import GraphClassifier, GraphSet, load_dataset, train
from cgipool.cli import main
from cgipool.data.catalogue import CATALOGUE, family_of
from cgipool.errors import UserError
from cgipool.files import read_json
from cgipool.study.plan import study_of
from cgipool.training.presets import STRONG, recipe_named
from cgipool.training.recipe import Recipe

NAMES = tuple(map(str, range(100)))
TINY = {"epochs": 1, "width": 8, "levels": 1}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return load_dataset("motifs").subset(range(0, 1000, 20))


def test_recipes_have_their_own_names() -> None:
    for family, recipe in STRONG.items():
        assert recipe.name == f"strong-{family}"
        assert recipe_named("strong", family) == recipe_named(recipe.name) == recipe
    assert recipe_named("strong", "vision") == recipe_named("strong") == STRONG["molecules"]
    assert recipe_named("paper", "social") == Recipe()
    with pytest.raises(UserError, match="did you mean 'strong'"):
        recipe_named("strng")


def test_settings_are_plain_values() -> None:
    """However a recipe is made: what it says is written as JSON, and a cell's key is a hash of that."""
    recipe = Recipe(epochs=np.int64(9), lr=1, dropout=np.float32(0.5), ratio=np.int64(3), shuffle=np.bool_(False))
    assert recipe == Recipe().but(epochs=9, lr=1.0, dropout=0.5, ratio=3, shuffle=False)
    assert json.dumps(recipe.to_json()) == json.dumps(json.loads(json.dumps(recipe.to_json())))
    assert {type(value) for value in recipe.to_json().values()} == {str, int, float, bool, NoneType}
    assert '"lr": 1.0' in json.dumps(recipe.to_json())


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"width": 8.0}, "width must be a whole number, not 8.0"),
        ({"levels": True}, "levels must be a whole number, not True"),
        ({"shuffle": 1}, "shuffle must be true or false, not 1"),
        ({"lr": "fast"}, "lr must be a number, not 'fast'"),
        ({"conv": None}, "conv must be a string, not None"),
        ({"descriptors": " , "}, "descriptors must be names of columns, separated by commas, not ' , '"),
        ({"descriptors": "a, b,a"}, "descriptors lists the column 'a' twice"),
    ],
)
def test_settings_of_another_type(setting: dict[str, Any], said: str) -> None:
    for make in (Recipe, Recipe().but):
        with pytest.raises(UserError) as caught:
            make(**setting)
        assert str(caught.value) == said


def test_families() -> None:
    assert {family_of(name) for name, entry in CATALOGUE.items() if entry.in_paper} == set(STRONG)
    assert family_of("IMDB-MULTI") == family_of("my friends", labelled=False) == "social"
    assert family_of("my compounds") == "molecules"


def test_strong_goes_by_the_data(graphs: GraphSet) -> None:
    """A set of another name, with labels and without; the user's settings hold in each."""
    labelled = replace(graphs, name="mine", category=graphs.degree[:, None].astype("int32"), category_names=(NAMES,))
    bare = replace(graphs, name="mine", category=None, category_names=())
    for data, family in ((labelled, "molecules"), (bare, "social")):
        result = train(data, method="none", recipe="strong", norm="layer", **TINY)
        assert result.recipe == f"strong-{family}"
        assert result.settings["norm"] == "layer"
        model = GraphClassifier("none", recipe="strong", epochs=1, width=8).fit(data, data.y).model_
        assert model.recipe.name == f"strong-{family}"


def test_strong_on_the_command_line(tmp_path: Path) -> None:
    words = [
        "train",
        "motifs",
        "--method",
        "none",
        "--recipe",
        "strong",
        "--out",
        str(tmp_path / "run"),
        "--width",
        "8",
    ]
    assert main([*words, "--epochs", "1", "--set", "conv=sage"]) == 0
    kept = read_json(tmp_path / "run" / "run.json")["recipe"]
    assert kept == recipe_named("strong-molecules").but(width=8, epochs=1, conv="sage").to_json()


def test_strong_in_a_study() -> None:
    axes = {"method": ["topk"], "dataset": ["NCI1", "PROTEINS", "COLLAB"], "recipe": ["paper", "strong"]}
    cells = study_of({"axes": axes, "settings": {"levels": 2}}).cells
    names = {(cell.dataset, cell.recipe.name) for cell in cells}
    strong = {("NCI1", "strong-molecules"), ("PROTEINS", "strong-proteins"), ("COLLAB", "strong-social")}
    assert names == strong | {(name, "paper") for name in axes["dataset"]}
    assert all(cell.recipe.levels == 2 for cell in cells)
    (proteins,) = [cell for cell in cells if cell.recipe.name == "strong-proteins"]
    assert "--recipe strong-proteins" in proteins.command("cpu")
