"""Recipes: every setting of a training that is not the data, the method or the seed, each with its source.

"Paper" is section 4.1 of Pang et al., SIGIR 2021; "released" is the authors' public code, where it departs from it.
"""

import functools
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np

from cgipool.data.features import SOURCES, VOCABULARIES
from cgipool.errors import UserError, excerpt, unknown
from cgipool.model.layers import CONVOLUTIONS
from cgipool.model.level import GATES, check_ratio
from cgipool.model.norm import NORMS
from cgipool.model.readout import JUMPINGS, READOUTS
from cgipool.pool import FORMS
from cgipool.pool.cgi import bound_named
from cgipool.pool.method import Method

SCHEDULES = ("constant", "cosine")
"""How the learning rate goes on over the epochs."""


@dataclass(frozen=True, repr=False)
class Recipe:
    """The settings of the paper, as defaults."""

    name: str = "paper"
    """What this set of settings is called."""
    form: str = "paper"
    """Which form of a pooling method to use where there are two: "paper" or "released"."""
    conv: str = "gcn"
    """The backbone's convolution: "gcn", "gcn-root" (and the node itself through a weight of its own), "sage" or "gin".
    Paper: GCN. Released: GraphSAGE with the mean."""
    norm: str = "none"
    """Normalisation between a convolution and its ReLU: "none", "batch" or "layer". Paper: none."""
    gate: str = "plain"
    """How a pool's gate acts: "plain", or "unit": divided by its mean size over the kept nodes of a graph, so that
    features keep their size from level to level. Paper: the former."""
    width: int = 128
    """Dimension of node embeddings. Paper: 128."""
    levels: int = 3
    """How often convolve → pool → read out is repeated. Paper: 3."""
    readout: str = "max-mean"
    """How a level is read: "max-mean", "mean", "max" or "sum" over its nodes. Paper: the first."""
    jumping: str = "sum"
    """How the levels' readouts are joined: "sum" or "concat", side by side. Paper: the former."""
    ratio: float | int = 0.8
    """Share of nodes kept by a pool (a whole number: how many). Paper: 0.8."""
    mi: str = "gan"
    """Bound on the mutual information: "gan" (Eq. 2 and 3) or "kl" (Eq. 1). Paper: the former."""
    alpha: float = 0.001
    """Weight α of the mutual-information loss. Paper: 0.001, except `alpha_proteins`."""
    alpha_proteins: float = 1.0
    """α on the data set PROTEINS. Paper: 1. Released: 0.001, as everywhere."""
    own_loss: float = 1.0
    """What the losses of DiffPool, MinCutPool and VIPool are multiplied by, beside their own weights. The paper names
    nothing; 1 leaves those weights."""
    dropout: float = 0.5
    """After the head's first layer. The paper names none; 0.5 is the released code's."""
    dropout_epochs: int | None = None
    """Dropout acts in so many first epochs only; None: always. Released: 1, as its training flag is never set again."""
    lr: float = 0.001
    """Adam's learning rate. Paper: 0.001."""
    schedule: str = "constant"
    """How the rate goes on: "constant", or "cosine": down to nearly 0 in the last of `epochs`. Paper: the former."""
    warmup: int = 0
    """In so many first epochs the rate rises, by equal steps. Paper: none."""
    weight_decay: float = 0.0001
    """Adam's L2 penalty. Paper: 0.0001. Released: 0.001."""
    clip: float = 0.0
    """Where the norm of all gradients of a step is larger, they are scaled down to it; 0: never. Paper: never."""
    average: float = 0.0
    """Decay per step of an exponential moving average of the weights, which is validated, kept and tested in place of
    the weights themselves, with an average of batch norm's running values; 0: none. Paper: none."""
    batch_size: int = 128
    """Graphs per step. The paper names none; 128 is the released code's."""
    shuffle: bool = True
    """A new order each epoch. The paper does not say. Released: one random order, kept."""
    epochs: int = 1000
    """At most this many epochs. The paper names none; 1000 is the released code's."""
    patience: int = 100
    """Stop when the validation loss has not decreased for this many epochs. Paper: 100."""
    features: str = "auto"
    """Input categories: "label", "degree", or "auto": labels where there are any. Paper: so."""
    vocabulary: str = "train"
    """Categories known from the training graphs, the rest is "other"; "all": from all graphs, as the released code."""
    attributes: bool = False
    """Whether node attributes are used beside the categories. Paper: no (PROTEINS has them)."""
    class_weight: str | None = None
    """"balanced" weighs each class by the inverse of its frequency in training. Paper: none."""
    label_smoothing: float = 0.0
    """So large a share of each training label is spread evenly over all classes; validation knows the labels as they
    are. Paper: none."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            object.__setattr__(self, name, _plain(name, getattr(self, name)))
        check_ratio(self.ratio)
        bound_named(self.mi)
        _one_of("form", self.form, FORMS)
        _one_of("convolution", self.conv, CONVOLUTIONS)
        _one_of("normalisation", self.norm, NORMS)
        _one_of("gate", self.gate, GATES)
        _one_of("readout", self.readout, READOUTS)
        _one_of("jumping", self.jumping, JUMPINGS)
        _one_of("schedule", self.schedule, SCHEDULES)
        _one_of("feature source", self.features, SOURCES)
        _one_of("vocabulary", self.vocabulary, VOCABULARIES)
        _one_of("class weight", self.class_weight or "balanced", ("balanced",))
        _at_least("width", self.width, 2)  # the head's second layer is half as wide
        for field in ("levels", "batch_size", "epochs", "patience"):
            _at_least(field, getattr(self, field), 1)
        if self.dropout_epochs is not None:
            _at_least("dropout_epochs", self.dropout_epochs, 0)
        for field in ("alpha", "alpha_proteins", "own_loss", "lr", "weight_decay", "warmup", "clip"):
            _at_least(field, getattr(self, field), 0)
        for field in ("dropout", "average", "label_smoothing"):
            if not 0.0 <= getattr(self, field) < 1.0:
                raise UserError(f"{field} must be in [0, 1), not {getattr(self, field)}")

    def __repr__(self) -> str:
        """Its name, and the settings that differ from those of the recipe of that name."""
        return f"Recipe({', '.join([repr(self.name), *(f'{n}={v!r}' for n, v in self.settings().items())])})"

    def alpha_on(self, dataset: str) -> float:
        """α for a data set."""
        return self.alpha_proteins if dataset == "PROTEINS" else self.alpha

    def own_weight(self, method: Method, dataset: str, epoch: int) -> float:
        """The weight of a method's own loss on a data set in an epoch."""
        return method.weight(self.alpha_on(dataset), epoch, self.own_loss)

    @property
    def steady(self) -> bool:
        """Whether the learning rate is the same in all epochs."""
        return self.schedule == "constant" and self.warmup == 0

    def rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, which are numbered from 1: that of the schedule, of which the i-th of w epochs
        of warm-up has a share i / (w + 1)."""
        share = 1.0 if self.schedule == "constant" else 0.5 * (1.0 + math.cos(math.pi * (epoch - 1) / self.epochs))
        return self.lr * share * min(1.0, epoch / (self.warmup + 1))

    def dropout_at(self, epoch: int) -> float:
        """The dropout of an epoch."""
        return self.dropout if self.dropout_epochs is None or epoch <= self.dropout_epochs else 0.0

    def but(self, **changes: Any) -> "Recipe":
        """This recipe with some settings changed."""
        known = {field.name for field in fields(self)}
        for name in changes:
            if name not in known:
                raise unknown("setting", name, known)
        if "alpha" in changes:  # a user's α holds on every data set
            changes.setdefault("alpha_proteins", changes["alpha"])
        return replace(self, **changes)

    def changes(self) -> dict[str, Any]:
        """The settings that differ from those of the recipe that bears this name."""
        usual = RECIPES.get(self.name, PAPER).to_json()
        return {name: value for name, value in self.to_json().items() if value != usual[name]}

    def settings(self) -> dict[str, Any]:
        """What `but` has to change in the recipe that bears this name to make this one of it."""
        changes = self.changes()
        if "alpha" in changes:  # which `alpha_proteins` follows
            changes.pop("alpha_proteins", None)
            changes |= {} if self.alpha_proteins == self.alpha else {"alpha_proteins": self.alpha_proteins}
        return changes

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)

    def keyed(self) -> dict[str, Any]:
        """As `to_json`, less the `ADDED` settings that change nothing: what a cell's key is a hash of."""
        return {name: value for name, value in self.to_json().items() if name not in ADDED or value != ADDED[name]}


SETTINGS = tuple(field.name for field in fields(Recipe) if field.name != "name")
"""All that can be set."""

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
}
"""Settings that came when results were already stored, each with its default, which changes nothing. A cell's key is a
hash of its settings: with this value a setting is left out of it, so that the results stored before keep their keys.
What was written before and lacks a setting means this value."""


@functools.cache
def _kinds(name: str) -> tuple[type, ...]:
    """The types that a setting may have."""
    hint = get_type_hints(Recipe)[name]
    return get_args(hint) or (hint,)


def _plain(name: str, value: Any) -> Any:
    """The value as Python's own, NumPy's numbers included; an error unless it is of the setting's type. A whole number
    will do for a float: 1 and 1.0 are one setting."""
    kinds = _kinds(name)
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is int and int not in kinds and float in kinds:
        value = float(value)
    if type(value) not in kinds:
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", NoneType: "none"}
        raise UserError(f"{name} must be {' or '.join(words[kind] for kind in kinds)}, not {excerpt(repr(value))}")
    return value


WHOLE = re.compile("[+-]?[0-9]{1,18}")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|nan)")
"""What `--set` takes for numbers. 0x10 is text."""


def parse_setting(text: str) -> tuple[str, Any]:
    """ "lr=0.01" → name and value: a decimal number, true or false, or a text, which may be in double quotes. "none" is
    no value where there may be none."""
    name, equals, value = map(str.strip, text.partition("="))
    if not equals:
        raise UserError(f"--set must have the form NAME=VALUE, not {excerpt(text)!r}")
    if name not in SETTINGS:
        raise unknown("setting", name, SETTINGS)
    if value_of(name, value) is None:
        return name, None
    if value in ("true", "false"):
        return name, value == "true"
    if WHOLE.fullmatch(value):
        return name, int(value)
    if NUMBER.fullmatch(value):
        return name, float(value)
    return name, value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """The values by name; a setting that is given twice is an error."""
    settings: dict[str, Any] = {}
    for name, value in map(parse_setting, texts):
        if name in settings:
            raise UserError(f"{name} is given twice")
        settings[name] = value
    return settings


def value_of(name: str, value: Any) -> Any:
    """A setting as a file has it: TOML cannot say none, so that "none" says it where a setting may have no value."""
    return None if value == "none" and NoneType in _kinds(name) else value


def _one_of(kind: str, value: str, known: Any) -> None:
    if value not in known:
        raise unknown(kind, value, known)


def _at_least(name: str, value: float, least: int) -> None:
    if not (math.isfinite(value) and value >= least):
        raise UserError(f"{name} must be at least {least}, not {value}")


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
"""By family of data sets, the settings that did best on validation graphs (docs/explanation/recipes.md)."""

RECIPES = {recipe.name: recipe for recipe in (PAPER, RELEASED, *STRONG.values())}


def recipe_named(recipe: str | Recipe, family: str = "molecules") -> Recipe:
    """The recipe of that name; a recipe is itself. "strong" is that of a family of data sets."""
    if isinstance(recipe, Recipe):
        return recipe
    if not isinstance(recipe, str):
        raise UserError(f"recipe must be a name or a Recipe, not {recipe!r}")
    if recipe == "strong":
        return STRONG.get(family, STRONG["molecules"])
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, ("strong", *RECIPES))
    return RECIPES[recipe]
