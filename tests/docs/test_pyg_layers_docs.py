"""docs/howto/pyg-layers.md: its code runs as it stands and learns, and its table and links are right."""

import inspect
import re
import textwrap
from pathlib import Path

import pytest
import torch

from cgipool import nn

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "pyg-layers.md"
TEXT = PAGE.read_text(encoding="utf-8")
CODE = [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)]
TABLE = re.findall(r"^\| `(\w+Pooling)(\(.*?\))` \|", TEXT, re.MULTILINE)


@pytest.mark.usefixtures("one_thread")
def test_code() -> None:
    names: dict = {"__name__": "docs"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for block in CODE:
            exec(compile(block, "docs/howto/pyg-layers.md", "exec"), names)
    assert names["loss"].item() < 0.9, "five epochs taught little: of four classes, guessing costs log 4"
    assert names["aux_loss"].requires_grad
    first, last = names["perm1"], names["perm2"]
    assert names["one_up"].any(1).nonzero().squeeze(1).tolist() == sorted(last.tolist())
    assert names["all_up"].any(1).nonzero().squeeze(1).tolist() == sorted(first[last].tolist())


def test_table_names_every_layer_with_its_arguments() -> None:
    layers = {name for name in nn.__all__ if name.endswith("Pooling")}
    assert {name for name, _ in TABLE} == layers
    for name, arguments in TABLE:
        parameters = inspect.signature(getattr(nn, name)).parameters.values()
        plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
        assert arguments == str(inspect.Signature(plain)).replace("'", '"'), name


def test_links() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", TEXT):
        assert (PAGE.parent / target).resolve().is_file(), target
