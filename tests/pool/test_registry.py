"""No method without its paper, its section in the documentation and an independent program that it is held to."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

from cgipool.pool import METHODS
from cgipool.pool.method import Part
from cgipool.pool.own import OFFERED

TESTS = Path(__file__).resolve().parents[1]
SECTIONS = TESTS.parent / "docs" / "reference" / "methods.md"

NAMES = {
    "set2set",
    "dgcnn",
    "diffpool",
    "topk",
    "sag",
    "asap",
    "vip",
    "mincut",
    "cgi",
    "cgi-rs",
    "cgi-nomi",
    "none",
    "random",
    "oracle",
    "majority",
    "structure-free",
    "wl",
    "wl-oa",
    "ecfp-rf",
    "ecfp-count-rf",
    "rdkit-rf",
    "rdkit-et",
    "rdkit-svm",
}


def is_oracle(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.oracle"


@cache
def methods_with_an_oracle() -> dict[str, list[str]]:
    """By method, the tests that bear @pytest.mark.oracle("method")."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for decorator in filter(is_oracle, node.decorator_list):
                    for argument in decorator.args:
                        found.setdefault(ast.literal_eval(argument), []).append(f"{path.name}::{node.name}")
    return found


def test_names() -> None:
    assert METHODS.keys() == NAMES


def test_titles_are_told_apart() -> None:
    assert len({method.title for method in METHODS.values()}) == len(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_does(name: str) -> None:
    assert METHODS[name].title
    assert METHODS[name].about
    assert "\n" not in METHODS[name].about


@pytest.mark.parametrize("name", METHODS)
def test_every_method_names_its_paper(name: str) -> None:
    paper = METHODS[name].paper
    assert paper, f"{name} has no citation"
    assert name in ("majority", "oracle") or re.search(r"\b(19|20)\d\d\b", paper), (
        f"{name}: the citation has no year: {paper}"
    )


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_section(name: str) -> None:
    assert SECTIONS.is_file(), "docs/reference/methods.md is missing"
    headings = [line.strip() for line in SECTIONS.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
    title = METHODS[name].title
    assert headings.count(f"## {title}") == 1, f"docs/reference/methods.md needs one section '## {title}' for {name}"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_oracle(name: str) -> None:
    assert methods_with_an_oracle().get(name), f'no test bears @pytest.mark.oracle("{name}")'


def test_oracles_are_of_methods_there_are() -> None:
    assert methods_with_an_oracle().keys() <= METHODS.keys()


OFFERED_TO_OURS = {*OFFERED, "negative", "encoding", "outputs", "jumping"}


@pytest.mark.parametrize("name", METHODS)
def test_parts_ask_for_what_their_classes_take(name: str) -> None:
    method = METHODS[name]
    for part in (method.build, method.released, method.read):
        if part is not None:
            assert isinstance(part, Part)
            takes = inspect.signature(part.target).parameters
            assert set(part.arguments) == takes.keys() & OFFERED_TO_OURS, part.place
            assert part.fixed.keys() <= takes.keys(), part.place
