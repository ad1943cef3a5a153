"""`cgipool methods` and `cgipool methods check`, and training with a class of one's own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cgipool.cli import main
from cgipool.data import motifs
from cgipool.pool import METHODS

pytestmark = pytest.mark.usefixtures("one_thread")

POOLS = """
import torch
from torch import nn
from cgipool.pool import Pooled


class Gate(nn.Module):
    own_loss = 0.5

    def __init__(self, dim, ratio=0.8):
        super().__init__()
        self.ratio, self.score = ratio, nn.Linear(dim, 1)

    def forward(self, x, level):
        score, k = torch.sigmoid(self.score(x)).squeeze(1), level.kept(self.ratio)
        pooled, coarse = level.coarsen(x, score, level.select(score.unsqueeze(1), k).squeeze(1), k)
        return Pooled(pooled, coarse, {"open": level.over_nodes(score)})


class Reads(Gate):
    def forward(self, x, level):
        print(end="" if x.sum().item() else "")
        return super().forward(x, level)


class Raises(Gate):
    def forward(self, x, level):
        return {}["no such key"]


class Bare(Gate):
    def forward(self, x, level):
        return super().forward(x, level).x


class Refuses(Gate):
    def __init__(self, dim):
        raise ValueError(f"not with {dim}")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a package of pools and a small data set."""
    package = tmp_path / "mypkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "mod.py").write_text(POOLS)
    motifs(40).save(tmp_path / "small")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("mypkg", "mypkg.mod"):  # that of another test is another file
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def checked(capsys: pytest.CaptureFixture[str], name: str) -> tuple[int, dict[str, tuple[str, str]], list[str]]:
    """The exit code, the rows of the table by rule, and the closing lines."""
    code = main(["methods", "check", name])
    said = capsys.readouterr()
    assert said.err == ""
    table, _, closing = said.out.partition("\n\n")
    lines = re.sub(r" *\n {10,}", " ", table).splitlines()[1:]  # a long cell goes on below
    cells = [re.split(r"\s{2,}", line.rstrip(), maxsplit=2) for line in lines]
    return code, {rule: (ok, found) for rule, ok, found in cells}, closing.splitlines()


def test_the_list_tells_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(METHODS) <= set(lines)
    for name, method in METHODS.items():
        assert f" {method.kind} " in lines[name]


def test_a_method_that_holds(capsys: pytest.CaptureFixture[str]) -> None:
    code, rows, closing = checked(capsys, "topk")
    assert code == 0
    assert {ok for ok, _ in rows.values()} == {"yes"}
    assert {"aligned", "batch", "overfits", "static shapes"} <= set(rows)
    assert closing == ["topk: contract holds", "fast engine: yes"]


def test_a_layer_of_pyg(capsys: pytest.CaptureFixture[str]) -> None:
    name = "torch_geometric.nn:SAGPooling"
    code, rows, closing = checked(capsys, name)
    assert code == 1
    assert rows["gradients"] == ("no", "no gradient reaches pools.*.layer.select.weight")
    assert rows["padding"] == ("–", "a layer with PyG's interface: shapes depend on the data")
    reason = "a layer with PyG's interface: shapes depend on the data"
    assert closing == [f"{name}: contract broken: gradients", f"fast engine: no: {reason}"]


def test_a_class_in_the_working_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows, closing = checked(capsys, "mypkg.mod:Gate")
    assert (code, closing) == (0, ["mypkg.mod:Gate: contract holds", "fast engine: yes"])
    code, rows, closing = checked(capsys, "mypkg.mod:Reads")
    line = 1 + next(n for n, text in enumerate(POOLS.splitlines()) if ".item()" in text)
    assert code == 0
    assert rows["static shapes"][0] == "no"
    assert closing[0] == "mypkg.mod:Reads: contract holds"
    assert closing[1].startswith("fast engine: no: a value read back (.item()")
    assert closing[1].endswith(f" at {Path('mypkg', 'mod.py')}:{line}")


@pytest.mark.parametrize(("cls", "said"), [("Raises", "KeyError: 'no such key'"), ("Refuses", "ValueError: not with")])
def test_an_exception_in_the_class_is_one_line(folder: Path, capsys, cls: str, said: str) -> None:
    code, rows, closing = checked(capsys, f"mypkg.mod:{cls}")
    assert code == 1
    ok, found = rows["aligned"]
    assert ok == "no"
    assert found.startswith(said)
    assert "mod.py:" in found
    assert rows["batch"] == ("–", "not tried, because the network does not run")
    assert closing[0] == f"mypkg.mod:{cls}: contract broken: aligned"


def test_training_with_a_class_that_gives_no_level(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "small", "--method", "mypkg.mod:Bare", "--epochs", "1", "--width", "4"]) == 2
    assert capsys.readouterr().err == "cgipool: a pool must return Pooled(x, level), not a Tensor\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sagg", "unknown method 'sagg'; did you mean 'sag'? known: "),
        ("mypkg.mod:Nothing", "method 'mypkg.mod:Nothing': mypkg.mod has no Nothing"),
        ("mypkg.other:Gate", "method 'mypkg.other:Gate': cannot import mypkg.other: No module named 'mypkg.other'"),
    ],
)
def test_names_that_there_are_not(folder: Path, capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    assert main(["methods", "check", name]) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith(f"cgipool: {said}")
    assert answer.err.count("\n") == 1


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "check", "--help"]) == 0
    assert "fast engine" in " ".join(capsys.readouterr().out.replace("│", "").split())
    assert main(["methods", "--help"]) == 0
    assert "check" in capsys.readouterr().out
    assert main(["methods", "check"]) == 2
    assert capsys.readouterr().err == "cgipool: Missing argument 'NAME' (see cgipool methods check --help)\n"


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from cgipool.cli import main; main(['methods', 'check', '--help'])"
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_training_with_a_class_in_worker_processes(folder: Path) -> None:
    """-P: unlike `python -m`, an installed command does not find the working folder by itself."""
    command = ["train", "small", "--method", "mypkg.mod:Gate", "--epochs", "2", "--width", "16", "--splits", "2"]
    command = [sys.executable, "-P", "-m", "cgipool", *command, "--jobs", "2", "--out", "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "motifs · Gate · recipe paper" in done.stdout
    run, result = (json.loads(Path("run", name).read_text()) for name in ("run.json", "result.json"))
    assert run["method"] == result["method"] == "mypkg.mod:Gate"
    assert result["epochs"] == [2, 2]


@pytest.mark.filterwarnings("ignore:Sparse")  # torch on ASAPooling's matrices
@pytest.mark.parametrize("layer", ["TopKPooling", "SAGPooling", "ASAPooling", "EdgePooling"])
def test_training_with_layers_of_pyg(folder: Path, capsys: pytest.CaptureFixture[str], layer: str) -> None:
    command = ["train", "small", "--method", f"torch_geometric.nn:{layer}", "--epochs", "2", "--width", "16"]
    results = []
    for out in ("one", "other"):
        assert main([*command, "--json", "--out", out]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["method"] == f"torch_geometric.nn:{layer}"
    assert results[0]["test_accuracy"] == results[1]["test_accuracy"]
