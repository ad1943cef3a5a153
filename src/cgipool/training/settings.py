"""How a setting of a recipe is declared, checked and parsed. No torch and no NumPy, so that `--help` is fast."""

import functools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

from cgipool.errors import UserError, excerpt, unknown

MODEL, OPTIMISER, INPUT = "Model", "Optimisation", "Input features"
"""The panels of `--help` that settings are listed in."""


@dataclass(frozen=True)
class Setting:
    """The properties of a recipe field other than its name, type and default."""

    help: str
    """One line for `--help`, scikit-learn's parameter list and the reference page."""
    source: str = ""
    """Where the default comes from."""
    panel: str = MODEL
    """The panel of `--help`."""
    choices: tuple[str, ...] = ()
    """The allowed names, if the setting is one of a few."""
    noun: str = ""
    """What error messages call the setting; its name by default."""
    least: float | None = None
    """The smallest allowed value."""
    share: bool = False
    """Whether the value must be in [0, 1)."""
    metavar: str | None = None
    """How `--help` shows the value."""

    def check(self, name: str, value: Any) -> None:
        """Raise UserError if a value of the right type is not allowed."""
        if value is None:
            return
        if self.choices and value not in self.choices:
            raise unknown(self.noun or name, value, self.choices)
        if self.least is not None and not (math.isfinite(value) and value >= self.least):
            raise UserError(f"{name} must be at least {self.least:g}, not {value}")
        if self.share and not 0.0 <= value < 1.0:
            raise UserError(f"{name} must be in [0, 1), not {value}")


def setting(default: Any, help: str, source: str = "", panel: str = MODEL, **rest: Any) -> Any:
    """Declare a field of a recipe: its default, a line of help, and what values are allowed."""
    return field(default=default, metadata={"setting": Setting(help, source, panel, **rest)})


def setting_of(declared: Field[Any]) -> Setting:
    """Return what `setting` declared for a field."""
    return declared.metadata["setting"]


@functools.cache
def types_of(owner: type, name: str) -> tuple[type, ...]:
    """Return the types that a field of a recipe may have."""
    hint = get_type_hints(owner)[name]
    return get_args(hint) or (hint,)


def plain_value(owner: type, name: str, value: Any) -> Any:
    """Return the value as a built-in type, converted from NumPy if needed. A whole number is accepted for a float.

    Raise UserError if the value does not have one of the field's types.
    """
    types = types_of(owner, name)
    value = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
    if type(value) is int and int not in types and float in types:
        value = float(value)
    if type(value) not in types:
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", NoneType: "none"}
        raise UserError(f"{name} must be {' or '.join(words[kind] for kind in types)}, not {excerpt(repr(value))}")
    return value


def check_settings(owner: Any) -> None:
    """Convert the fields of a frozen dataclass with `plain_value`. Raise UserError if a setting is not allowed."""
    for declared in fields(owner):
        name = declared.name
        value = plain_value(type(owner), name, getattr(owner, name))
        object.__setattr__(owner, name, value)
        if declared.metadata:
            setting_of(declared).check(name, value)


WHOLE = re.compile("[+-]?[0-9]{1,18}")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|nan)")
"""The numbers that `--set` accepts. 0x10 is text."""


def parse_value(text: str) -> Any:
    """Parse a value of `--set`: true, false, a decimal number, or text, which may be in double quotes."""
    if text in ("true", "false"):
        return text == "true"
    if WHOLE.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        return float(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def merged(*groups: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return all settings by name. Raise UserError if one is given twice."""
    result: dict[str, Any] = {}
    for group in groups:
        for name, value in group.items() if isinstance(group, Mapping) else group:
            if name in result:
                raise UserError(f"{name} is given twice")
            result[name] = value
    return result
