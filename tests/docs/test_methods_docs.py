"""Tables of docs/reference: parameters are those that the modules have, settings are those of the recipes."""

import re
from pathlib import Path

import pytest

from cgipool.model.build import build_network
from cgipool.model.layers import InputSize
from cgipool.pool import METHODS, Sizes
from cgipool.training.presets import PAPER, RELEASED
from cgipool.training.recipe import SETTINGS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "methods.md"
ROW = re.compile(r"^\| `([\w-]+)`(, released form)? \| ([\d,]+) \|", re.MULTILINE)
NCI1 = Sizes(29.8654501216545, 30)

ROWS = {(name, bool(released)): int(count.replace(",", "")) for name, released, count in ROW.findall(DOCS.read_text())}


def test_every_pool_has_a_row() -> None:
    assert {name for name, _ in ROWS} == {name for name, method in METHODS.items() if method.build}


@pytest.mark.parametrize(("name", "released"), ROWS)
def test_parameters(name: str, released: bool) -> None:
    form = "released" if released else "paper"
    network = build_network(InputSize(38), 2, method=name, form=form, sizes=NCI1)
    own = sum(p.numel() for part in (network.pools, network.readout) for p in part.parameters())
    assert own == ROWS[name, released]
    if not released:
        assert sum(p.numel() for p in network.parameters()) - own == 79_298


def test_the_settings_are_those_of_the_recipes() -> None:
    def written(value: object) -> str:
        return "–" if value == "" else f"`{value}`" if isinstance(value, str) else str(value).lower()

    text = (DOCS.parent / "recipes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S* ?)\| ", text.partition("## All settings")[2], re.MULTILINE)
    assert [name for name, _, _ in rows] == list(SETTINGS)
    assert f"<summary>{len(SETTINGS)} settings with" in text
    for name, paper, released in rows:
        assert paper == written(getattr(PAPER, name)), name
        assert (released.strip() or paper) == written(getattr(RELEASED, name)), name
