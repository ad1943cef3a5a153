"""docs/tutorials/own-pool.md: its pool is one, and its commands run as they stand."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from cgipool import ops
from cgipool.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "tutorials" / "own-pool.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


def test_the_pool_has_about_thirty_lines() -> None:
    assert len(EXAMPLE.splitlines()) <= 32


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (tmp_path / "mypools.py").write_text(EXAMPLE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mypools", raising=False)  # that of another test is another file
    program, *arguments = shlex.split(command)
    assert program == "cgipool"
    assert main(arguments) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    if "check" in arguments:
        assert "contract holds" in said
        assert ("fast engine: yes" in said) == ("mypools:DegreePool" in arguments)
    if "--out" in arguments:
        assert json.loads(Path("runs/degree/run.json").read_text())["method"] == "mypools:DegreePool"


def test_files_that_are_named_exist() -> None:
    named = re.findall(r"`(src/[^`]+\.py)`", TEXT)
    assert named
    for name in named:
        assert (DOCS.parent / name).is_file(), name


COARSE = (DOCS / "howto" / "coarse-levels.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("one_thread")
def test_pools_that_build_coarse_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", COARSE, re.DOTALL))
    (tmp_path / "coarse.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (commands,) = re.findall(r"```sh\n(.*?)```", COARSE, re.DOTALL)
    for command in [*commands.splitlines(), "cgipool methods check coarse:ClusterPool"]:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.count("fast engine: yes") == 2
    for name in re.findall(r"`(src/[^`]+\.py)`", COARSE):
        assert (DOCS.parent / name).is_file(), name
    operations = re.findall(r"`(block_\w+)`", COARSE)
    assert operations
    assert all(hasattr(ops, name) for name in operations)
