"""The files of examples/cluster: they run as written, with stand-ins for SLURM's commands, and Ray accepts its own."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cgipool import load_dataset
from cgipool.cli import main
from cgipool.study.records import read_book

REPOSITORY = Path(__file__).resolve().parents[1]
CLUSTER = REPOSITORY / "examples" / "cluster"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """The environment of a job on this machine; `scontrol requeue` leaves a note."""
    commands = {
        "srun": 'exec "$@"',
        "scontrol": f'[ "$1" = requeue ] && echo "$2" > {tmp_path}/requeued || echo 127.0.0.1',
        "cgipool": f'exec {sys.executable} -W ignore -m cgipool "$@"',
        "torchrun": f'exec {sys.executable} -W ignore -m torch.distributed.run "$@"',
    }
    for name, line in commands.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    job = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "here", "CGIPOOL_PORT": port}
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "CGIPOOL_DEVICE": "cpu"}
    return dict(os.environ) | job | path


def run(script: str, environment: dict[str, str], *words: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", str(CLUSTER / script), *map(str, words)], env=environment, capture_output=True, text=True, check=False
    )


def test_an_array_makes_a_whole_study(slurm: dict[str, str], tmp_path: Path) -> None:
    study = tmp_path / "small.toml"
    study.write_text(
        'title = "small"\n[protocol]\nsplits = 1\n[settings]\nwidth = 4\nepochs = 2\n'
        '[axes]\nmethod = ["topk", "none"]\ndataset = ["motifs"]\n'
    )
    for task in ("1", "2"):
        array = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
        done = run("study.slurm", slurm | array, study, tmp_path / "store")
        assert done.returncode == 0, done.stderr
        assert "1 of 1 cell is" in done.stdout
    assert len(read_book(tmp_path / "store").records) == 2
    assert not (tmp_path / "requeued").exists()


def test_a_job_with_work_left_is_queued_again(slurm: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "cgipool").write_text("#!/bin/sh\nexit 75\n")
    assert run("study.slurm", slurm, "any.toml", tmp_path / "store").returncode == 75
    assert (tmp_path / "requeued").read_text() == "7\n"


def test_torchrun_trains_and_a_requeued_job_resumes(slurm: dict[str, str], tmp_path: Path) -> None:
    load_dataset("motifs").subset(range(60)).save(tmp_path / "set")
    words = (tmp_path / "set", tmp_path / "run", "--set", "width=4", "--set", "epochs=2")
    done = run("train.slurm", slurm, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "result.json").read_text())["splits"] == 1
    again = run("train.slurm", slurm, *words)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize(("left", "requeued"), [(200, True), (3600, False)])
def test_a_training_that_the_time_limit_ended_is_queued_again(
    slurm: dict[str, str], tmp_path: Path, left: int, requeued: bool
) -> None:
    (tmp_path / "bin" / "torchrun").write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\nexit 1\n")
    end = {"SLURM_JOB_END_TIME": str(int(time.time()) + left)}
    assert run("train.slurm", slurm | end, tmp_path / "set", tmp_path / "run").returncode == 1
    assert (tmp_path / "requeued").exists() == requeued
    (seconds,) = re.findall(r"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=(\d+)", (tmp_path / "seen").read_text())
    (before,) = re.findall(r"--signal=TERM@(\d+)", (CLUSTER / "train.slurm").read_text())
    assert int(seconds) < int(before)


def test_commands_of_the_page_are_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = (REPOSITORY / "docs" / "howto" / "scaling.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    assert len(lines) >= 8
    for line in lines:
        launcher, _, words = line.partition("cgipool ")
        assert launcher in ("", *(f"torchrun --nproc-per-node 4 {more}-m " for more in ("", "--max-restarts 3 ")))
        command = words.split()
        path = command[:2] if command[0] in ("study", "data") else command[:1]
        assert main([*path, "--help"]) == 0, capsys.readouterr().err
        said = capsys.readouterr().out
        for option in (word for word in command if word.startswith("--")):
            assert option in said, line


def test_ray_accepts_the_cluster_file() -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install 'cgipool[ray]'")
    yaml = pytest.importorskip("yaml")
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(yaml.safe_load((CLUSTER / "ray.yaml").read_text())))
