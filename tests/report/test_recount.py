"""The recount of README and docs: all numbers agree, and any that is changed by hand is found."""

import re
from collections import Counter
from pathlib import Path

import pytest

import recount
from recount_cells import Results, read

TOOLS = Path(recount.__file__).parent


@pytest.fixture(scope="module")
def results() -> Results:
    return read(recount.REPOSITORY / "results")


def test_all_numbers_are_as_results_has_them(results: Results) -> None:
    count = Counter[str]()
    assert list(recount.problems(recount.pages(), results, count)) == []
    assert count["tables"] > 5000
    assert count["sentences"] > 200


def changed(number: str) -> str:
    """The number with another last digit."""
    return f"{number[:-1]}{(int(number[-1]) + 3) % 10}"


def test_every_cell_that_is_changed_is_found(results: Results) -> None:
    """In each generated table every number gets another last digit."""
    tables = {match[0]: match for text in recount.pages().values() for match in recount.BLOCK.finditer(text)}
    assert len(tables) > 50
    for match in tables.values():
        lines, cells = match[3].splitlines(), 0
        first = max((place for place, line in enumerate(lines) if line.startswith("| ---")), default=-1) + 1
        for place, line in enumerate(lines[first:], first):
            parts = line.split("|")
            for column, part in enumerate(parts[2:-1] or parts, 2 if len(parts) > 2 else 0):
                if (match[1] == "settings" and "alpha" in line) or (match[1] == "values-tried" and column == 2):
                    continue  # an older cell does not name it; it says which row this is
                if "&lt;" not in part and recount.NUMBER.search(part):
                    parts[column] = recount.NUMBER.sub(lambda found: changed(found[0]), part)
                    cells += 1
            lines[place] = "|".join(parts)
        found = list(recount.table_problems(match[1], match[2] or "", "\n".join(lines), results, Counter()))
        assert len(found) >= cells > 0, match[0][:80]


def test_a_sentence_that_is_changed_is_found(results: Results) -> None:
    texts = recount.pages()
    readme = texts["README.md"]
    assert readme.count("2.2 points") == 1
    (problem,) = recount.problems(texts | {"README.md": readme.replace("2.2 points", "2.3 points")}, results, Counter())
    assert "no pooling leads CGIPool by 2.2 points" in problem


def test_an_expression_must_give_the_number(results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = recount.CLAIMS.read_text(encoding="utf-8").replace("levels('NCI1').mean", "levels('NCI109').mean", 1)
    (tmp_path / "claims.toml").write_text(claims, encoding="utf-8")
    monkeypatch.setattr(recount, "CLAIMS", tmp_path / "claims.toml")
    (problem,) = recount.problems(recount.pages(), results, Counter())
    assert "the page has 2.2, the cells give 2.6" in problem


def test_it_is_independent_of_the_package() -> None:
    for path in TOOLS.glob("recount*.py"):
        assert not re.search(r"^\s*(import|from) cgipool", path.read_text(encoding="utf-8"), re.MULTILINE), path
