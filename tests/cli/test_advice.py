"""Before a long work on a CPU it is said how it takes less time."""

from pathlib import Path

import pytest
import torch

from cgipool.cli import main, options
from cgipool.cli.options import suggest_jobs

SHORT = ["--set", "width=8", "--set", "epochs=1"]


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)


def test_as_many_jobs_as_trainings_or_cores(capsys: pytest.CaptureFixture[str]) -> None:
    suggest_jobs(20, 100.0, "cpu", 1)
    assert "on 4 cores each; --jobs 4 trains 4 in parallel" in capsys.readouterr().err
    suggest_jobs(3, 100.0, "cpu", 1)
    assert "--jobs 3 trains 3 in parallel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("trainings", "seconds", "device", "jobs"),
    [(1, 100.0, "cpu", 1), (20, 10.0, "cpu", 1), (20, 100.0, "cuda", 1), (20, 100.0, "cpu", 2), (0, 0.0, "cpu", 1)],
)
def test_nothing_is_said_where_it_would_not_help(
    trainings: int, seconds: float, device: str, jobs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    suggest_jobs(trainings, seconds, device, jobs)
    assert capsys.readouterr().err == ""


def test_the_commands_say_it_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for long, said in ((60.0, 0), (0.0, 1)):
        monkeypatch.setattr(options, "LONG", long)
        for command in (
            ["train", "motifs", "--splits", "2"],
            ["fit", "motifs", "--ensemble", "2"],
            ["compare", "motifs", "--methods", "none", "--splits", "2", "--store", f"store-{said}"],
        ):
            assert main([*command, *SHORT]) == 0
            assert capsys.readouterr().err.count("--jobs 2 trains 2 in parallel") == said
