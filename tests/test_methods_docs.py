"""The table of docs/reference/methods.md: the parameters it names are those that the modules have."""

import re
from pathlib import Path

import pytest

from cgipool.layers import InputSize
from cgipool.network import Network
from cgipool.pool import METHODS, Sizes

DOCS = Path(__file__).resolve().parents[1] / "docs" / "reference" / "methods.md"
ROW = re.compile(r"^\| `([\w-]+)`(, released form)? \| ([\d,]+) \|", re.MULTILINE)
NCI1 = Sizes(29.8654501216545, 30)

ROWS = {(name, bool(released)): int(count.replace(",", "")) for name, released, count in ROW.findall(DOCS.read_text())}


def test_every_pool_has_a_row() -> None:
    assert {name for name, _ in ROWS} == {name for name, method in METHODS.items() if method.build}


@pytest.mark.parametrize(("name", "released"), ROWS)
def test_parameters(name: str, released: bool) -> None:
    form = "released" if released else "paper"
    network = Network(InputSize(38), 2, method=name, form=form, sizes=NCI1)
    own = sum(p.numel() for part in (network.pools, network.readout) for p in part.parameters())
    assert own == ROWS[name, released]
    if not released:
        assert sum(p.numel() for p in network.parameters()) - own == 79_298
