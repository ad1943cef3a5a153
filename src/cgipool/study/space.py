"""The space of a search: the choices that each setting has. Trials are drawn from it, and taken apart again.

A trial is told by what it changes in the base recipe; the base changes nothing.
"""

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Any

from cgipool.errors import UserError, unknown
from cgipool.training.recipe import SETTINGS, Recipe, value_of
from cgipool.words import counted

BASE, WINNER = "base", "winner"

ATTEMPTS = 1000
"""Draws for each trial that is wanted, before the space counts as too small for so many."""


@dataclass(frozen=True)
class Trial:
    """Settings to be judged."""

    name: str
    """"base", a number in the order of drawing, or how it was made of the winner."""
    changes: dict[str, Any] = field(default_factory=dict)
    """What differs from the base, by setting."""


@dataclass(frozen=True)
class Space:
    """A base recipe and choices for some of its settings, the base's own among them."""

    base: Recipe
    choices: dict[str, list[Any]]

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return math.prod(map(len, self.choices.values()))

    def recipe(self, trial: Trial) -> Recipe:
        """The base with a trial's changes, and with nothing else of the space changed: α would take `alpha_proteins`
        along where that has choices of its own."""
        kept = {name: getattr(self.base, name) for name in self.choices if name not in trial.changes}
        return replace(self.base.but(**trial.changes), **kept)

    def drawn(self, count: int, seed: int) -> list[Trial]:
        """The base and different others, `count` in all, each choice as likely as the next.

        A choice is a hash of (seed, draw, setting): the same everywhere, and the same when the space gets one setting
        more. Combinations that no recipe can have are left out.
        """
        if count > self.size:
            there = counted(self.size, "combination")
            raise UserError(f"[space] has {there}, fewer than the {count} of the first rung")
        trials = [Trial(BASE)]
        seen = {repr({})}
        for draw in range(ATTEMPTS * count):
            if len(trials) == count:
                return trials
            picked = {name: values[_hash(seed, draw, name) % len(values)] for name, values in self.choices.items()}
            trial = Trial(str(len(trials)), self._changes(picked))
            if repr(trial.changes) not in seen and self._can_be(trial):
                trials.append(trial)
            seen.add(repr(trial.changes))
        raise UserError(f"a recipe can have fewer than {count} combinations of [space]")

    def apart(self, winner: Trial) -> list[Trial]:
        """What tells the share of each of the winner's choices: base, winner, the winner without each choice, and the
        base with each choice alone; those alike once."""
        changes = winner.changes
        trials = [Trial(BASE), Trial(WINNER, changes)]
        for name in changes:
            trials.append(Trial(f"without {name}", {n: value for n, value in changes.items() if n != name}))
        for name, value in changes.items():
            trials.append(Trial(f"only {name}", {name: value}))
        first = {repr(trial.changes): trial for trial in reversed(trials)}
        return [trial for trial in trials if first[repr(trial.changes)] is trial and self._can_be(trial)]

    def _changes(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if repr(value) != repr(getattr(self.base, name))}

    def _can_be(self, trial: Trial) -> bool:
        try:
            self.recipe(trial)
        except UserError:
            return False
        return True


def space_of(base: Recipe, given: dict[str, Any]) -> Space:
    """The space that [space] of a file describes."""
    if not given:
        raise UserError("[space] has no settings to choose from")
    return Space(base, {name: _choices(base, name, values) for name, values in given.items()})


def _choices(base: Recipe, name: str, values: Any) -> list[Any]:
    if name not in SETTINGS:
        raise unknown("setting in [space]", name, SETTINGS)
    if not isinstance(values, list) or len(values) < 2:
        raise UserError(f"{name} of [space] must be a list of two choices or more")
    # A recipe makes one value of 1 and 1.0 where they are one setting.
    choices = [getattr(base.but(**{name: value_of(name, value)}), name) for value in values]
    words = [repr(value) for value in choices]
    if len(set(words)) < len(words):
        raise UserError(f"{name} of [space] names a choice twice")
    if repr(getattr(base, name)) not in words:
        raise UserError(f"{name} of [space] lacks the base's value, {getattr(base, name)!r}")
    return choices


def _hash(*words: object) -> int:
    return int.from_bytes(hashlib.sha256(" ".join(map(str, words)).encode()).digest()[:8], "big")
