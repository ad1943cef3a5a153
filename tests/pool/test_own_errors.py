"""An exception in a user's own pool: the command shows the calls in the user's code and what was raised, no more."""

import sys
from pathlib import Path

import pytest

from cgipool import cli
from cgipool.pool.own import OwnCodeError, own_traceback
from cgipool.training import parallel as jobs

POOLS = """
from torch import nn


class Deep(nn.Module):
    def __init__(self, dim, ratio=0.8):
        super().__init__()
        self.score = nn.Linear(dim + 1, 1)

    def forward(self, x, level):
        return self.scored(x)

    def scored(self, x):
        return self.score(x)  # of another width


class Unready(nn.Module):
    def __init__(self, dim):
        super().__init__()
        raise KeyError("not ready")

    def forward(self, x, level):
        return x


class NoFile(nn.Module):
    def forward(self, x, level):
        return open("no such file")


class WrongCall(nn.Module):
    def forward(self, x, level):
        return level.coarsen(x)


class OldName(nn.Module):
    def forward(self, x, level):
        return level.size


class Pair(nn.Module):
    def forward(self, x, level):
        return x, level
"""


@pytest.fixture
def pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "failing_pools.py").write_text(POOLS, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "failing_pools", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def run(pool: str) -> int:
    return cli.main(["train", "motifs", "--method", f"failing_pools:{pool}", "--epochs", "1", "--width", "8"])


@pytest.mark.usefixtures("pools")
@pytest.mark.parametrize(
    ("pool", "places", "raised"),
    [
        ("Deep", ["line 11, in forward", "line 14, in scored"], "RuntimeError: mat1 and mat2 shapes cannot"),
        ("Unready", ["line 20, in __init__"], "KeyError: 'not ready'"),
        ("NoFile", ["line 28, in forward"], "FileNotFoundError: [Errno 2] No such file or directory: 'no such file'"),
        ("WrongCall", ["line 33, in forward"], "TypeError: SparseLevel.coarsen() missing 3 required"),
        ("OldName", ["line 38, in forward"], "AttributeError: a level has no 'size'; 'sizes' is the number of living"),
    ],
)
def test_their_traceback(pool: str, places: list[str], raised: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(pool) == 1
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "cgipool: exception in the code of the pooling class:"
    assert [line.strip() for line in lines if line.startswith("  File")] == [
        f'File "failing_pools.py", {place}' for place in places
    ]
    assert lines[-1].startswith(raised)
    assert len(lines) <= 3 * len(places) + 1


@pytest.mark.usefixtures("pools")
def test_what_is_no_exception_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("Pair") == 2
    assert capsys.readouterr().err == "cgipool: a pool must return Pooled(x, level), not a tuple\n"


def test_an_exception_of_ours_is_not_theirs() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    assert own_traceback(caught.value) is None


@pytest.mark.usefixtures("pools")
def test_from_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback of an exception stays in its process: its text travels."""
    from cgipool.model.build import build_network

    def train_split(*arguments: object) -> None:
        from cgipool.model.layers import InputSize

        build_network(InputSize(1, 0), 2, method="failing_pools:Unready")

    monkeypatch.setattr(jobs, "train_split", train_split)
    stop = type("Stop", (), {"is_set": lambda self: False})()
    monkeypatch.setattr(jobs, "_worker", {"stop": stop, "graphs": None, "tell": None})
    with pytest.raises(OwnCodeError) as caught:
        jobs._train_in_worker(None)  # type: ignore[arg-type]
    assert str(caught.value).splitlines()[0] == '  File "failing_pools.py", line 20, in __init__'
    assert str(caught.value).endswith("KeyError: 'not ready'")
    assert cli.errors.one_line(caught.value)[1] == 1
