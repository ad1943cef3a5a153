"""Runs a page of the documentation from top to bottom and compares its output with what the page shows."""

import re
import shlex
from pathlib import Path

import pytest

from cgipool.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILE = re.compile(r"as `([\w./-]+)`[^`\n]*:$")
"""The sentence before a block that is a file: "Save this as `new.csv`:"."""


def blocks(page: str) -> list[tuple[str, str, str]]:
    """The code blocks of a page: the line before, the language, the text."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"([^\n]*)\n*^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run_page(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """Saves the page's files, runs its commands and its Python in one namespace, in order.

    A `text` block is the output of the block before, perhaps without some lines. Numbers may differ.
    """
    monkeypatch.chdir(folder)
    names: dict = {"__name__": "docs"}
    said = ""
    for before, language, text in blocks(page):
        if file := FILE.search(before):
            path = Path(file[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif language == "sh":
            for program, *words in (shlex.split(line, comments=True) for line in text.splitlines()):
                if program == "cgipool":
                    assert main(words) == 0, f"{page}: cgipool {shlex.join(words)}: {capsys.readouterr().err}"
            said = "".join(capsys.readouterr())
        elif language == "python":
            exec(compile(text, page, "exec"), names)
            said = "".join(capsys.readouterr())
        elif language == "text":
            missing = [line for line in text.splitlines() if without_numbers(line) not in without_numbers(said)]
            assert not missing, f"{page} shows {missing}, the program printed:\n{said}"


def without_numbers(text: str) -> str:
    """The text with # for each number and one space for runs of spaces."""
    return re.sub(r"[ \t]+", " ", re.sub(r"[\d,.]*\d", "#", text)).strip()
