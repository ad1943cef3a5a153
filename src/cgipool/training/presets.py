"""The named recipes, the parsing of settings, and the choice of a recipe."""

from collections.abc import Iterable
from types import NoneType
from typing import Any, Protocol

from cgipool.errors import UserError, excerpt, unknown
from cgipool.training.recipe import SETTINGS, Recipe
from cgipool.training.settings import merged, parse_value, types_of

PAPER = Recipe()

RELEASED = Recipe(
    name="released",
    form="released",
    conv="sage",
    alpha_proteins=0.001,
    dropout_epochs=1,
    weight_decay=0.001,
    shuffle=False,
    vocabulary="all",
)

STRONG = {
    "molecules": Recipe(
        name="strong-molecules",
        conv="gin",
        norm="batch",
        jumping="concat",
        own_loss=0.1,
        dropout=0.3,
        schedule="cosine",
        weight_decay=0.0,
        average=0.99,
        batch_size=64,
        epochs=120,
        label_smoothing=0.1,
    ),
    "proteins": Recipe(
        name="strong-proteins", conv="gin", norm="batch", own_loss=0.1, dropout=0.0, batch_size=64, epochs=120
    ),
    "social": Recipe(name="strong-social", epochs=120),
}
"""By family of data sets: the settings with the best validation accuracy (docs/explanation/recipes.md)."""

RECIPES = {recipe.name: recipe for recipe in (PAPER, RELEASED, *STRONG.values())}

ADDED: dict[str, Any] = {
    "own_loss": 1.0,
    "norm": "none",
    "gate": "plain",
    "jumping": "sum",
    "schedule": "constant",
    "warmup": 0,
    "clip": 0.0,
    "average": 0.0,
    "label_smoothing": 0.0,
    "convs_per_level": 1,
    "residual": False,
    "directed": False,
    "featurizer": "auto",
    "wl": 0,
    "rwse": 0,
    "lappe": 0,
    "descriptors": "",
    "impute": "none",
    "rdkit_descriptors": False,
    "fingerprints": 0,
    "kernel_edges": True,
    "stop_by": "loss",
    "negative": "learned",
    "encoding": "plain",
    "critic_weight_decay": None,
    "labelled": 1.0,
    "focal": 0.0,
    "balanced_batches": False,
}
"""Settings added after results had been stored, with the defaults that change nothing. A cell's key is a hash of its
settings; a setting with this value is left out, so stored results keep their keys. A file written before a setting
existed means this value."""


def keyed(recipe: Recipe) -> dict[str, Any]:
    """Return the settings of a recipe without `ADDED` ones at their defaults: its part of a cell's key."""
    return {name: value for name, value in recipe.to_json().items() if name not in ADDED or value != ADDED[name]}


def parse_setting(text: str) -> tuple[str, Any]:
    """ "lr=0.01" → name and value. "none" means None for a setting that may be None."""
    name, equals, value = map(str.strip, text.partition("="))
    if not equals:
        raise UserError(f"--set must have the form NAME=VALUE, not {excerpt(text)!r}")
    if name not in SETTINGS:
        raise unknown("setting", name, SETTINGS)
    return name, None if value_of(name, value) is None else parse_value(value)


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Return the values by name. Raise UserError if a setting is given twice."""
    return merged(map(parse_setting, texts))


def value_of(name: str, value: Any) -> Any:
    """Convert a setting as written in a file. TOML has no null, so "none" means None if the setting may be None."""
    return None if value == "none" and NoneType in types_of(Recipe, name) else value


def recipe_named(recipe: str | Recipe, family: str = "molecules") -> Recipe:
    """Return the recipe with this name; "strong" depends on the family of data sets. A Recipe is returned unchanged."""
    return resolve_recipe(recipe, {})(family)


class Choose(Protocol):
    """From a family of data sets to its recipe."""

    def __call__(self, family: str, own_attributes: bool = False, directed: bool = False) -> Recipe:
        """`own_attributes`: the set is not of the catalogue and its nodes have attributes. `directed`: its edges have a
        direction. Both are used by default."""


def resolve_recipe(recipe: str | Recipe, settings: dict[str, Any]) -> Choose:
    """Check a recipe's name and changed settings, and return a function from a family to its recipe.

    The family is known only after reading the data, which can take long; wrong settings are reported before that.
    """
    if isinstance(recipe, str) and recipe not in ("strong", *RECIPES):
        raise unknown("recipe", recipe, ("strong", *RECIPES))
    if not isinstance(recipe, str | Recipe):
        raise UserError(f"recipe must be a name or a Recipe, not {recipe!r}")
    if isinstance(recipe, Recipe):
        by_family = {"molecules": recipe.but(**settings)}
    elif recipe == "strong":
        by_family = {family: strong.but(**settings) for family, strong in STRONG.items()}
    else:
        by_family = {"molecules": RECIPES[recipe].but(**settings)}

    def choose(family: str, own_attributes: bool = False, directed: bool = False) -> Recipe:
        chosen = by_family.get(family, by_family["molecules"])
        found = {"attributes": own_attributes, "directed": directed}
        left_open = isinstance(recipe, str)
        return chosen.but(**{name: True for name, has in found.items() if has and left_open and name not in settings})

    return choose
