"""Recounts the numbers of README and docs from the cells in results/, without cgipool.

    python tools/recount.py    exit code 1 and a line for each number that is wrong

Two kinds of numbers are recounted: those of the tables that `make report` writes, and those of sentences that
recount.toml lists, each with the expressions that give its numbers. The last lines say how many there are, and how many
numbers of the prose nothing recounts: of benchmarks, of the paper, of settings.
"""

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recount_searches
import recount_tables
from recount_cells import Results, read
from recount_prose import vocabulary
from recount_tables import ranks_of

REPOSITORY = Path(__file__).resolve().parents[1]
CLAIMS = Path(__file__).with_suffix(".toml")
PAGES = ("README.md", "results/README.md", *(f"docs/{part}" for part in ("explanation", "howto", "reference")))
BLOCK = re.compile(r"<!-- results: ([\w-]+)(?: ([\w-]+))? -->\n(.*?)<!-- end of results -->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.^])[−+]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w^])")
"""A number of its own: not the digits of NCI109, ECFP4 or of a hash."""
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def pages(repository: Path = REPOSITORY) -> dict[str, str]:
    """The pages by name."""
    found = [repository / name for name in PAGES]
    files = [file for path in found for file in (sorted(path.glob("*.md")) if path.is_dir() else [path])]
    return {file.relative_to(repository).as_posix(): file.read_text(encoding="utf-8") for file in files}


def agrees(text: str, value: float, unit: float = 1.0) -> bool:
    """Whether a printed number is a value, rounded."""
    plain = text.replace("−", "-").replace(",", "")
    digits = len(plain.partition(".")[2])
    return abs(float(plain) - value / unit) <= 0.5 * 10.0**-digits * (1 + 1e-6)


def plain(cell: str) -> str:
    """A cell of a Markdown table without its markup."""
    return cell.strip().strip("*").replace("\\", "").replace("&lt;", "<").replace("&amp;", "&")


def cell_agrees(cell: str, expected: tuple[Any, ...] | None) -> bool:
    """Whether a cell of a table says what is expected of it."""
    if expected is None:
        return cell in ("–", "")
    text = [part for part in expected if isinstance(part, str)]
    numbers = [float(part) for part in expected if not isinstance(part, str)]
    if text == ["time"]:
        amount, unit = cell.split()
        return agrees(amount, numbers[0], UNITS[unit])
    if not numbers:
        return cell == text[0]
    if text and re.sub("[^▲▼]", "", cell) != text[0]:
        return False
    if cell == "<0.001":
        return numbers[0] < 0.001
    found = NUMBER.findall(cell)
    return len(found) == len(numbers) and all(map(agrees, found, numbers))


def table_problems(what: str, name: str, text: str, results: Results, count: Counter[str]) -> Iterator[str]:
    """What is wrong with one generated table."""
    where = f"{what} {name}".strip()
    lines = [
        [plain(cell) for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    if what == "floor":
        yield from _differing(where, text, vocabulary(results)["floors"](), count)
        return
    if what == "settings":
        yield from _settings(lines, results, count)
        return
    head, rows = lines[0], lines[2:]
    if what in recount_searches.TABLES:
        expected = recount_searches.TABLES[what](results.searches[name], head, rows)
    else:
        study = results.studies[name] if name else None
        expected = recount_tables.TABLES[what](results, study, head, rows)
        wanted = len(study.against) if study and what in ("against", "equivalence", "power") else len(rows)
        if len(rows) != wanted:
            yield f"{where}: {len(rows)} rows, not {wanted}"
        if what == "ranks" and study:
            _, chi2, p, critical = ranks_of(study, rows)
            for pattern, value in ((r"χ² = ([\d.]+)", chi2), (r"p = ([\d.]+)", p), (r"difference ([\d.]+)", critical)):
                yield from _differing(f"{where}, {pattern}", re.findall(pattern, text)[0], [value], count)
        if said := re.findall(r"adjusted for the (\d+) comparison", text):
            yield from _differing(f"{where}, comparisons", said[0], [_comparisons(what, rows, text, study)], count)
    for row, line in zip(rows, expected, strict=True):
        for column, cell, value in zip(head[-len(line) :], row[-len(line) :], line, strict=True):
            if not cell_agrees(cell, value):
                yield f"{where}: {row[0]}, {column}: the page has {cell}, the cells give {value}"
        count["tables"] += sum(len(NUMBER.findall(cell)) for cell in row[-len(line) :])


def _comparisons(what: str, rows: list[list[str]], text: str, study: Any) -> int:
    """How many comparisons a table or its study has."""
    if what in ("against", "equivalence", "power"):
        return len(study.against)
    compared = rows if what in ("gained", "controls", "ensembles") else [r for r in rows if r[0].startswith("minus ")]
    return sum(cell != "–" for row in compared for cell in row[1:])


def _settings(lines: list[list[str]], results: Results, count: Counter[str]) -> Iterator[str]:
    """Recipes as the cells name them; settings that came later have the defaults of the search's base."""
    head, rows = lines[0], lines[2:]
    recipes = {
        place.cell.content["cell"]["recipe"]["name"]: place.cell.content["cell"]["recipe"]
        for name in ("table1", "strong")
        for place in results.studies[name].places
        if place.cell and "name" in place.cell.content["cell"]["recipe"]
    }
    base = results.searches["search"]["base"]
    for row in rows:
        for column, cell in zip(head[1:], row[1:], strict=True):
            value = recipes[column].get(row[0], base.get(row[0]))
            if value is not None and str(value) != cell and row[0] != "alpha_proteins":
                yield f"settings: {row[0]}, {column}: the page has {cell}, the cells {value}"
            count["tables"] += len(NUMBER.findall(cell))


def _differing(where: str, text: str, values: list[float | None], count: Counter[str]) -> Iterator[str]:
    """The numbers of a text that are not the values."""
    found = NUMBER.findall(text)
    count["sentences" if "…" in where else "tables"] += len(found)
    if len(found) != len(values):
        yield f"{where}: {len(found)} numbers for {len(values)} values"
        return
    for number, value in zip(found, values, strict=True):
        if value is not None and not agrees(number, value):
            yield f"{where}: the page has {number}, the cells give {value:.4f}"


def problems(texts: dict[str, str], results: Results, count: Counter[str]) -> Iterator[str]:
    """Everything that is wrong."""
    for page, text in texts.items():
        for match in BLOCK.finditer(text):
            for problem in table_problems(match[1], match[2] or "", match[3], results, count):
                yield f"{page}: {problem}"
    known = vocabulary(results)
    flat = {page: " ".join(text.split()) for page, text in texts.items()}
    for claim in tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claim"]:
        page, said = claim["page"], " ".join(claim["text"].split())
        if flat[page].count(said) != 1:
            yield f"{page}: “{said}” is there {flat[page].count(said)} times; recount.toml expects it once"
            continue
        # The expressions are ours: they stand in recount.toml, beside this file.
        values = eval(f"[{', '.join(claim['values'])}]", {"__builtins__": {}} | known)
        count[page] += sum(value is not None for value in values)
        yield from _differing(f"{page}: “{said[:60]}…”", said, values, count)


def prose(text: str) -> list[str]:
    """The numbers of a page outside of generated tables, code, links and lists of sources."""
    for pattern in (BLOCK, re.compile(r"```.*?```", re.DOTALL), re.compile(r"`[^`]*`|\]\([^)]*\)")):
        text = pattern.sub(" ", text)
    return NUMBER.findall(text)


def main() -> None:
    """Run the command."""
    texts, count = pages(), Counter[str]()
    found = list(problems(texts, read(REPOSITORY / "results"), count))
    print(*found, sep="\n", end="\n" if found else "")
    for page in texts:
        if count[page]:
            print(f"{page}: {count[page]} of {len(prose(texts[page]))} numbers in sentences are recounted")
    print(f"{count['tables']} numbers in generated tables and {count['sentences']} in sentences were recounted")
    if found:
        sys.exit(f"{len(found)} are wrong")
    print("all are as results/ has them")


if __name__ == "__main__":
    main()
