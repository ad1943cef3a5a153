"""How the processes of a distributed training use the state of earlier ones when torchrun restarts them.

The processes of several lives are this one, each time alone; what torchrun keeps between them is a store of this file.
"""

import itertools
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from cgipool.cli import main
from cgipool.data import motifs
from cgipool.files import read_json
from cgipool.training import loop as split
from cgipool.training.checkpoint import load_tensors
from cgipool.training.distributed import train as distributed
from cgipool.training.distributed.train import DistributedTraining
from cgipool.training.result import Log

SMALL = ["--set", "width=4", "--batch-size", "8", "--epochs", "4", "--patience", "4"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def torchrun(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Set the environment of a restarted process."""
    agents = dist.TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False)
    place = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": agents.port}
    for name, value in (place | {"TORCHELASTIC_USE_AGENT_STORE": True}).items():
        monkeypatch.setenv(name, str(value))
    yield lambda life: monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(life))
    del agents


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """One that trains into a folder."""
    motifs(40).save(tmp_path / "set")
    return ["train", str(tmp_path / "set"), *SMALL, "--out", str(tmp_path / "run")]


def other_run(command: list[str]) -> None:
    """Leave a finished run of other settings where the command wants its own."""
    assert main([*command, "--seed", "5"]) == 0


@pytest.fixture
def dies_in_epoch_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "SAVE_SECONDS", 0.0)
    train_epoch = DistributedTraining.train_epoch
    lives = iter([True])

    def dying(self: DistributedTraining) -> float:
        if self.state.epoch == 2 and next(lives, False):
            raise AssertionError("the process dies")
        return train_epoch(self)

    monkeypatch.setattr(DistributedTraining, "train_epoch", dying)


@pytest.mark.usefixtures("dies_in_epoch_three")
@pytest.mark.parametrize("kept", [True, False])
def test_a_restart_goes_on_with_its_own_run(
    torchrun: Any, command: list[str], tmp_path: Path, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lay there is replaced once. Where torchrun keeps no store, the number of starts must do."""
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", str(kept))
    if not kept:
        monkeypatch.setenv("MASTER_PORT", str(free_port()))
    other_run(command)
    torchrun(0)
    with pytest.raises(AssertionError, match="dies"):
        main([*command, "--distributed", "--overwrite"])
    torchrun(1)
    seen: list[int] = []
    train_epoch = DistributedTraining.train_epoch
    monkeypatch.setattr(
        DistributedTraining, "train_epoch", lambda self: (seen.append(self.state.epoch), train_epoch(self))[1]
    )
    assert main([*command, "--distributed", "--overwrite"]) == 0
    assert seen == [2, 3], "the first two epochs are those of the first life"
    assert Log(tmp_path / "run" / "split-000" / "metrics.jsonl").column("epoch") == [1, 2, 3, 4]
    assert read_json(tmp_path / "run" / "run.json")["seed"] == 0


def test_a_restart_refuses_what_the_first_start_refused(
    torchrun: Any, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder holds a run with the same settings. A restart must not resume it, and the error appears once."""
    torchrun(0)
    assert main(command) == 0
    before = (tmp_path / "run" / "result.json").read_bytes()
    said = []
    for life in range(3):
        torchrun(life)
        capsys.readouterr()
        assert main([*command, "--distributed"]) == 2
        said.append(capsys.readouterr().err)
    line = f"cgipool: {tmp_path / 'run'} already holds a run; resume it (--resume) or replace it (--overwrite)\n"
    assert said == [line, "", ""]
    assert (tmp_path / "run" / "result.json").read_bytes() == before


def test_what_may_pass_is_tried_again(
    torchrun: Any, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("cgipool.files.tempfile.mkstemp", full)
        torchrun(0)
        assert main([*command, "--distributed"]) == 2
    assert "No space left on device" in capsys.readouterr().err
    torchrun(1)
    assert main([*command, "--distributed"]) == 0


@pytest.mark.parametrize(("seconds", "kept"), [("0", 2), ("600", 3)])
def test_an_epoch_longer_than_torchrun_waits_is_given_up(
    torchrun: Any, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: str, kept: int
) -> None:
    """The signal comes in the middle of epoch 3. All before it is kept; of a shorter epoch, its end is waited for."""
    torchrun(0)
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", seconds)
    monkeypatch.setattr(distributed, "LOOK_STEPS", 2)
    monkeypatch.setattr(split, "SAVE_SECONDS", 0.0)
    step, steps = DistributedTraining.step, itertools.count(1)

    def signalled(self: DistributedTraining, *given: Any) -> Any:
        if next(steps) == 10:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(DistributedTraining, "step", signalled)
        assert main([*command, "--distributed"]) == 130
    state = tmp_path / "run" / "split-000" / "checkpoint.safetensors"
    assert load_tensors(state)[1]["epoch"] == str(kept)
    assert main([*command, "--distributed", "--resume"]) == 0
    assert Log(tmp_path / "run" / "split-000" / "metrics.jsonl").column("epoch") == [1, 2, 3, 4]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
