"""Settings of a recipe are declared once: options, help, estimator parameters and the builder's arguments follow."""

import dataclasses
import inspect
import subprocess
import sys
from typing import Any

import pytest
import typer

from cgipool import GraphClassifier, GraphRegressor
from cgipool.cli import app, options
from cgipool.inference import estimator_base as estimator
from cgipool.model.build import build_network
from cgipool.model.layers import CONVOLUTIONS
from cgipool.model.norm import NORMS
from cgipool.model.readout import JUMPINGS, READOUTS
from cgipool.pool.cgi import BOUNDS
from cgipool.training import presets
from cgipool.training.presets import PAPER
from cgipool.training.recipe import SETTINGS, Recipe
from cgipool.training.settings import setting, setting_of

DECLARED = {field.name: field for field in dataclasses.fields(Recipe) if field.name != "name"}


def options_of(command: str) -> dict[str, Any]:
    return {parameter.name: parameter for parameter in typer.main.get_command(app).commands[command].params}


@pytest.mark.parametrize("command", ["train", "fit", "compare"])
def test_every_setting_is_an_option_with_its_help(command: str) -> None:
    found = options_of(command)
    for name, field in DECLARED.items():
        assert setting_of(field).help in found[name].help
        assert not found[name].help.endswith("Default: .")
        assert found[name].default is None, "the recipe decides"


@pytest.mark.parametrize("model", [GraphClassifier, GraphRegressor])
def test_every_parameter_is_documented(model: type) -> None:
    parameters, text = inspect.signature(model).parameters, inspect.getdoc(model)
    for name in parameters:
        assert f"\n{name} : " in text
    for name, field in DECLARED.items():
        assert parameters[name].default is None
        assert f"    {setting_of(field).help}\n" in text
    assert "settings : Any" not in text


def test_the_builder_has_the_recipe_s_defaults() -> None:
    for name, parameter in inspect.signature(build_network).parameters.items():
        if name in SETTINGS:
            assert parameter.default == getattr(PAPER, name), name


@pytest.mark.parametrize(
    ("name", "registry"),
    [("conv", CONVOLUTIONS), ("norm", NORMS), ("readout", READOUTS), ("jumping", JUMPINGS), ("mi", BOUNDS)],
)
def test_choices_are_those_of_the_model(name: str, registry: dict[str, Any]) -> None:
    assert set(setting_of(DECLARED[name]).choices) == set(registry)


def test_a_new_setting_is_one_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field added to the recipe is an option, a parameter, a documented setting and a checked value."""

    @dataclasses.dataclass(frozen=True, repr=False)
    class Longer(Recipe):
        temperature: float = setting(1.0, "Temperature of the softmax.", least=0)

    for module in (options, estimator, presets):
        monkeypatch.setattr(module, "Recipe", Longer)

    def command(changes: list[str] | None = None, *, settings: dict[str, Any]) -> None:
        assert settings == {"temperature": 2.0}

    with_options = options.with_settings(command)
    option = inspect.signature(with_options).parameters["temperature"].annotation.__metadata__[0]
    assert option.help == "Temperature of the softmax. Default: 1.0."
    given = dict.fromkeys(inspect.signature(with_options).parameters) | {"temperature": 2.0}
    with_options(**given)

    class Estimator:
        """Has parameters.

        **settings : Any
            Single settings.
        """

        def __init__(self, method: str = "cgi", **settings: Any) -> None:
            pass

    estimator.describe_settings(Estimator)
    assert "\ntemperature : float, default=1.0\n    Temperature of the softmax." in inspect.getdoc(Estimator)
    assert inspect.signature(Estimator).parameters["temperature"].default is None


def test_help_needs_no_torch() -> None:
    code = "import sys, cgipool.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
