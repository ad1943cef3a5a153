"""docs/howto/own-data.md: its tables are those of its commands, and commands and examples run as they stand."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("datamol")

from cgipool.cli import main
from cgipool.data import load_dataset, read_splits
from cgipool.data.importers import FORMATS, read_ids
from cgipool.data.molecules import ATOM
from cgipool.data.targets import TOO_MANY

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "howto" / "own-data.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
DRUGS, *NETWORKS = re.findall(r"```csv\n(.*?)```", TEXT, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.usefixtures("one_thread")
def test_commands_and_example(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (tmp_path / "drugs.csv").write_text(DRUGS)
    (tmp_path / "networks").mkdir()
    for name, text in zip(("graphs", "edges", "nodes"), NETWORKS, strict=True):
        (tmp_path / "networks" / f"{name}.csv").write_text(text)
    (function,) = (block for block in PYTHON if "def charges" in block)
    (tmp_path / "features.py").write_text(function)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert len(COMMANDS) == 23
    for command in COMMANDS:
        program, *arguments = shlex.split(command)
        assert program == "cgipool"
        assert main(arguments) == 0, f"{command}: {capsys.readouterr().err}"
    said = capsys.readouterr().out
    assert said.count("left out: row 12, 'CC(C)(C)(C)C': Explicit valence for atom # 1 C, 5") == 7
    drugs = load_dataset("sets/drugs")
    assert (drugs.n_graphs, drugs.class_names) == (12, ("no", "yes"))
    assert read_ids("sets/drugs")["id"][-1] == "m13"
    assert drugs.dropped == {"rows that are not molecules": 1, "molecules cut to the largest fragment": 1}
    assert len(read_splits("sets/drugs/scaffold-splits.json", 12)) == 5
    assert load_dataset("sets/soluble").class_names == ("below -1", "-1 and above")
    networks = load_dataset("sets/networks")
    assert (networks.sizes.tolist(), networks.class_names) == ([3, 3], ("line", "loop"))
    new = load_dataset("sets/new")
    assert (new.is_labelled, new.n_graphs, Path("rows.csv").read_text().count("\n")) == (False, 12, 13)
    assert len(read_splits("sets/solubility/own-splits.json", 1282)) == 10
    done = subprocess.run([sys.executable, "-c", "".join(PYTHON)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "True" in done.stdout.splitlines()
    ring, labels = load_dataset("sets/mine"), load_dataset("DIR")
    assert (ring.class_names, ring.category_names, labels.category_names) == (
        ("ring",),
        (("blue", "red"),),
        (("0", "1"),),
    )


def test_what_is_said_of_columns_and_formats_is_so() -> None:
    rows = re.findall(
        r"^\| (\w+) \| .* \|$", TEXT.partition("| column | values |")[2].partition("\n\n")[0], re.MULTILINE
    )
    assert rows == list(ATOM)
    assert set(re.findall(r"\| `(\w+)` \|$", TEXT, re.MULTILINE)) == set(FORMATS)
    assert f"more than {TOO_MANY}" in TEXT
    graphs = load_dataset("solubility")
    low, medium, high = ((graphs.y == c).sum() for c in range(3))
    assert f"{len(graphs):,} molecules in three classes ({low} of low, {medium} of medium, {high} of high" in TEXT
