"""The scripts in examples/ and the pages of docs/ run as they stand; the site builds without a dead link."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from cgipool.cli import app, main

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = (
    "index.md",
    "howto/classifier.md",
    "howto/gpu.md",
    "reference/api.md",
    "reference/methods.md",
    "reference/recipes.md",
    "reference/command-line.md",
)
"""Pages whose code and commands run here; others have tests of their own."""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(ROOT / "examples"), *sys.path])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_there_are_five() -> None:
    assert len(EXAMPLES) == 5
    assert all(len(path.read_text().splitlines()) <= 60 for path in EXAMPLES), "they are short"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    if path.stem == "molecules":
        pytest.importorskip("rdkit", reason="needs the extra chem")
    done = run(tmp_path, str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


CODE = [pytest.param(code, id=f"{page}-{n}") for page in PAGES for n, code in enumerate(blocks(page, "python"))]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("code", CODE)
def test_python_of_a_page(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "page", "exec"), {})


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line.split("#")[0].strip() for block in blocks(page, "sh") for line in block.splitlines()]
    for line in lines:
        program, *words = shlex.split(line)
        if program == "make" or "cuda" in words:
            continue
        assert program == "cgipool"
        assert main(words) == 0, f"{line}: {capsys.readouterr().err}"


def options_by_command(command: TyperGroup, path: str) -> Iterator[tuple[str, list[str]]]:
    """The long options of every command under this one."""
    for name, each in command.commands.items():
        yield f"{path} {name}", [option for parameter in each.params for option in parameter.opts if option[:2] == "--"]
        if isinstance(each, TyperGroup):
            yield from options_by_command(each, f"{path} {name}")


def test_the_site_builds_without_a_dead_link(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs mkdocs")
    done = run(ROOT, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "reference" / "api" / "index.html").is_file()
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="https?://(?!squidfunk)[^"]*\.(?:js|css|woff2?)', text), "nothing is fetched"
    commands = (tmp_path / "reference" / "command-line" / "index.html").read_text(encoding="utf-8")
    for path, options in options_by_command(get_command(app), "cgipool"):
        _, _, section = commands.partition(f'id="{path.replace(" ", "-")}"')
        section, _, _ = section.partition("<h2" if path.count(" ") == 1 else "<h3")
        assert section, path
        assert all(option in section for option in options), path
