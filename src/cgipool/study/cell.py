"""A cell: one method on one data set with one set of settings, over all its splits."""

import shlex
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cgipool.study import fingerprints
from cgipool.study.own_source import source_of
from cgipool.study.records import key_of, place_in_words
from cgipool.training.recipe import Recipe


@dataclass(frozen=True)
class Protocol:
    """How often and how a data set is divided."""

    splits: int = 20
    """How many random splits. Paper: 20."""
    first: int = 0
    """The number of the first of them."""
    seed: int = 0
    """Of splits, weights and all draws."""
    split_kind: str = "random"
    """"random", "stratified", "distinct" or, for molecules, "scaffold". Paper: random."""
    ensemble: int = 1
    """Members of an ensemble in each split, whose probabilities are averaged."""


@dataclass(frozen=True)
class Cell:
    """All that determines a result, and where it stands in its study."""

    method: str
    dataset: str
    """A name of the catalogue, or what a set of the user's own is called."""
    recipe: Recipe
    protocol: Protocol
    at: dict[str, Any] = field(default_factory=dict)
    """Its value on each axis of the study."""
    published: tuple[float, float | None] | None = None
    """The paper's mean and its ±, in percent."""
    path: Path | None = None
    """Where a data set of the user's own lies."""
    content: str | None = None
    """The hash of such a data set: its name alone says little."""
    unread: tuple[str, ...] = ()
    """Axes whose setting the method does not read. Along them all cells are one result, so they share their recipe."""

    @cached_property
    def config(self) -> dict[str, Any]:
        """Plain values: what the key is a hash of. Neither device nor versions belong to it: the same settings give
        the same result up to rounding wherever they are run."""
        own = {} if self.content is None else {"content": self.content}
        source = source_of(self.method)
        own |= {} if source is None else {"source": source}
        protocol = {name: getattr(self.protocol, name) for name in Protocol.__dataclass_fields__}
        recipe = self.recipe.keyed() | {"alpha": self.recipe.alpha_on(self.dataset)}
        del recipe["alpha_proteins"]
        return {"method": self.method, "dataset": self.dataset, "recipe": recipe} | protocol | own

    @cached_property
    def key(self) -> str:
        """Its name in a store."""
        return key_of(self.config)

    @property
    def name(self) -> str:
        """Its place in words."""
        return place_in_words(self.at)

    def command(self, device: str) -> str:
        """The command that trains just this; the control by fingerprints is trained by comparisons alone."""
        protocol = self.protocol
        how, option = ("compare", "--methods") if self.method == fingerprints.NAME else ("train", "--method")
        words = ["cgipool", how, str(self.path or self.dataset), option, self.method]
        usual = Protocol(splits=1)
        words += ["--recipe", self.recipe.name, "--splits", str(protocol.splits), "--seed", str(protocol.seed)]
        for option in ("first", "split_kind", "ensemble"):
            if getattr(protocol, option) != getattr(usual, option):
                words += [f"--{option.replace('_', '-')}", str(getattr(protocol, option))]
        for setting, value in self.recipe.settings().items():
            words += ["--set", f"{setting}={plain(value)}"]
        return shlex.join([*words, "--device", device.split(":")[0]])


def plain(value: Any) -> str:
    """A setting's value as `--set` takes it."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
