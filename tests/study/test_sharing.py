"""Several cells on one GPU: the service is started for a run and ended with it. A script stands in for NVIDIA's."""

import os
from pathlib import Path

import pytest

from cgipool.study.local import CONTROL, PIPES, mps, shared


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in notes how it was called and with what folder."""
    noted, script = tmp_path / "calls", tmp_path / "bin" / CONTROL
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\n[ "$1" = -d ] && said=start || read said\n'
        f'echo "$said ${PIPES}" >> {noted}\nexit ${{MPS_FAILS:-0}}\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.delenv(PIPES, raising=False)
    return noted


def test_the_service_lives_as_long_as_the_run(calls: Path) -> None:
    with mps() as there:
        folder = os.environ[PIPES]
        assert there
        assert Path(folder).is_dir()
    assert calls.read_text().splitlines() == [f"start {folder}", f"quit {folder}"]
    assert PIPES not in os.environ
    assert not Path(folder).exists()


def test_it_ends_with_an_interrupted_run(calls: Path) -> None:
    with pytest.raises(KeyboardInterrupt), mps():
        raise KeyboardInterrupt
    assert calls.read_text().splitlines()[-1].startswith("quit")


def test_one_that_runs_already_is_left_alone(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PIPES, "/there")
    with mps() as there:
        assert there
    assert not calls.exists()
    assert os.environ[PIPES] == "/there"


def test_without_it_the_run_goes_on_and_says_so(
    calls: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MPS_FAILS", "1")
    with mps() as there:
        assert not there
        assert PIPES not in os.environ
    assert "take turns" in caplog.text
    assert calls.read_text().split()[0] == "start"


def test_only_a_gpu_that_several_use_needs_it(calls: Path) -> None:
    for alone in (["cuda:0", "cuda:1"], ["cpu", "cpu"], ["cuda"]):
        with shared(alone):
            assert not calls.exists()
    with shared(["cuda:0", "cuda:1", "cuda:0"]):
        assert calls.read_text().startswith("start")
