"""The space of a search: the choices for each setting, and the trials drawn from them.

A trial is described by its changes to the base recipe; the base itself changes nothing.
"""

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Any

from cgipool.errors import UserError, counted, unknown
from cgipool.training.presets import value_of
from cgipool.training.recipe import SETTINGS, Recipe

BASE, WINNER = "base", "winner"

ATTEMPTS = 1000
"""Draws for each requested trial, before the space counts as too small."""


@dataclass(frozen=True)
class Trial:
    """A combination of settings to evaluate."""

    name: str
    """"base", a number in the order of drawing, or how it was derived from the winner."""
    changes: dict[str, Any] = field(default_factory=dict)
    """The differences from the base, by setting."""


@dataclass(frozen=True)
class Space:
    """A base recipe and choices for some of its settings, including the base's own."""

    base: Recipe
    choices: dict[str, list[Any]]

    @property
    def size(self) -> int:
        """The number of combinations."""
        return math.prod(map(len, self.choices.values()))

    def recipe(self, trial: Trial) -> Recipe:
        """The base with a trial's changes and no others: α would also change `alpha_proteins`, unless the space has
        choices for that as well."""
        kept = {name: getattr(self.base, name) for name in self.choices if name not in trial.changes}
        return replace(self.base.but(**trial.changes), **kept)

    def drawn(self, count: int, seed: int) -> list[Trial]:
        """The base and different other trials, `count` in total; each choice is equally likely.

        A choice is a hash of (seed, draw, setting): it is the same on every machine, and does not change when the space
        gets another setting. Combinations that are not a valid recipe are left out.
        """
        if count > self.size:
            there = counted(self.size, "combination")
            raise UserError(f"[space] has {there}, but the first rung needs {count}")
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
        raise UserError(f"fewer than {count} combinations of [space] are valid recipes")

    def apart(self, winner: Trial) -> list[Trial]:
        """The trials of an ablation of the winner: base, winner, the winner without each of its choices, and the base
        with each choice alone; equal ones once."""
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
    """The space described by [space] of a file."""
    if not given:
        raise UserError("[space] has no settings to choose from")
    return Space(base, {name: _choices(base, name, values) for name, values in given.items()})


def _choices(base: Recipe, name: str, values: Any) -> list[Any]:
    if name not in SETTINGS:
        raise unknown("setting in [space]", name, SETTINGS)
    if not isinstance(values, list) or len(values) < 2:
        raise UserError(f"{name} of [space] must be a list of at least two values")
    # A recipe makes one value of 1 and 1.0 where they are one setting.
    choices = [getattr(base.but(**{name: value_of(name, value)}), name) for value in values]
    words = [repr(value) for value in choices]
    if len(set(words)) < len(words):
        raise UserError(f"{name} of [space] lists a value twice")
    if repr(getattr(base, name)) not in words:
        raise UserError(f"{name} of [space] must include the base's value, {getattr(base, name)!r}")
    return choices


def _hash(*words: object) -> int:
    return int.from_bytes(hashlib.sha256(" ".join(map(str, words)).encode()).digest()[:8], "big")
