"""docs/howto/studies.md: its commands run as they stand, its file is a study, its table is true."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from cgipool.cli import main
from cgipool.study.plan import read_study, study_of
from cgipool.study.search_file import search_of

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "howto" / "studies.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if "#SB" not in line
]


@pytest.mark.usefixtures("one_thread")
def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "studies").symlink_to(ROOT / "studies")
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        program, *words = shlex.split(command)
        if program == "srun":
            continue
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
    assert Path("runs/smoke-report/index.html").is_file()
    assert Path("runs/smoke-results.csv").is_file()


def test_the_files_are_a_study_and_a_search() -> None:
    study, search = (tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL))
    assert len(study_of(study).cells) == 4
    assert [rung.count for rung in search_of(search).rungs] == [12, 4]


def test_the_table_counts_right() -> None:
    rows = re.findall(r"\| `([\w-]+\.toml)` \| (\d+) \|", TEXT)
    names = {path.name for path in (ROOT / "studies").glob("*.toml")}
    assert {name for name, _ in rows} == {name for name in names if not name.startswith("search")}
    for name, cells in rows:
        if name != "featurizer.toml":  # its data sets are to be imported first
            assert len(read_study(ROOT / "studies" / name).only({})) == int(cells), name
