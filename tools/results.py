"""`make report`: regenerates every table and figure of README and docs that comes from results/.

    python tools/results.py            write them
    python tools/results.py --check    only list those that differ; exit code 1 if any does

In a Markdown file, a table is between `<!-- results: WHAT [NAME] -->` and `<!-- end of results -->`. WHAT is a key of
`results_tables.TABLES` or `paired_tables.PAIRED_TABLES` for studies, or of `search_tables.SEARCH_TABLES` for a search.
Figures are `docs/images/results/STUDY-FIGURE.svg`, the same as in the report.
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from cgipool.files import read_json, write_atomically
from cgipool.report.figures import figures_of
from cgipool.report.view import DONE, View, view_of
from cgipool.study.nested import with_choices
from cgipool.study.records import read_book
from paired_tables import PAIRED_TABLES
from results_tables import TABLES
from search_tables import SEARCH_TABLES, Search

REPOSITORY = Path(__file__).resolve().parents[1]
STORES = tuple(folder for folder in sorted((REPOSITORY / "results").iterdir()) if folder.is_dir())
PAGES = (
    "README.md",
    "results/README.md",
    *(page.relative_to(REPOSITORY).as_posix() for page in sorted((REPOSITORY / "docs").rglob("*.md"))),
)
FIGURES = ("table1-ranks", "figure3-curves", "table1-splits", "strong-ranks", "strong-forest", "generated-curves")
PLACE = re.compile(
    r"(<!-- results: (?P<what>[\w-]+)(?: (?P<name>[\w-]+))? -->\n).*?(<!-- end of results -->)", re.DOTALL
)


@dataclass(frozen=True)
class Results:
    """The studies and searches of the stores, by name."""

    studies: dict[str, View]
    searches: dict[str, Search]


def read(*stores: Path) -> Results:
    """Read the studies and searches of some stores; their names must be unique."""
    results = Results({}, {})
    for store in stores:
        if (store / "cells").is_dir():
            book = with_choices(read_book(store))
            if book.problems:
                sys.exit("\n".join(book.problems))
            results.studies.update((study.name, view_of(study, book)) for study in book.studies)
        results.searches.update((path.stem, read_json(path)) for path in sorted((store / "searches").glob("*.json")))
    return results


def filled(text: str, results: Results) -> str:
    """Return a page with its tables regenerated."""

    def table(match: re.Match[str]) -> str:
        what, name = match["what"], match["name"]
        if what in SEARCH_TABLES:
            made = SEARCH_TABLES[what](results.searches[name])
        else:
            made = (TABLES | PAIRED_TABLES)[what](results.studies, *([results.studies[name]] if name else []))
        return f"{match[1]}\n{made}\n\n{match[4]}"

    return PLACE.sub(table, text)


def wanted(results: Results, repository: Path = REPOSITORY) -> dict[str, str]:
    """Return the expected text of every page, and of every figure of a complete study, by path in the repository."""
    pages = {name: filled((repository / name).read_text(encoding="utf-8"), results) for name in PAGES}
    for figure in FIGURES:
        study, _, kind = figure.partition("-")
        view = results.studies.get(study)
        if view is not None and view.count(DONE) == len(view.entries):
            pages[f"docs/images/results/{figure}.svg"] = figures_of(view)[kind]
    return pages


def differing(files: dict[str, str], repository: Path = REPOSITORY) -> list[str]:
    """Return the names of the files whose content differs."""

    def present(name: str) -> str | None:
        path = repository / name
        return path.read_text(encoding="utf-8") if path.exists() else None

    return [name for name, text in files.items() if present(name) != text]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if anything differs")
    check = parser.parse_args().check
    files = wanted(read(*STORES))
    changed = differing(files)
    for name in changed:
        print(f"{'differs' if check else 'written'}: {name}")
        if not check:
            path, text = REPOSITORY / name, files[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8"))
    if not changed:
        print("everything is up to date with results/")
    elif check:
        sys.exit("run `make report`")


if __name__ == "__main__":
    main()
