"""The names that a user imports, each time in a process that has nothing of the package, so that no earlier import can
help or hinder. They are forks of one process, which has waited for torch once."""

import json
import os
import subprocess
import sys

import pytest

CALLS = {
    "train": "from cgipool import train; assert callable(train), train",
    "train after its package": "import cgipool.training.loop; from cgipool import train; assert callable(train)",
    "load_dataset": "from cgipool import load_dataset; assert load_dataset('motifs').n_classes == 4",
    "load_released": "from cgipool import load_released; assert callable(load_released)",
    "GraphSet": "from cgipool import GraphSet; assert isinstance(GraphSet, type)",
    "Recipe": "from cgipool import Recipe; assert Recipe().ratio == 0.8",
    "all": "import cgipool; assert all(hasattr(cgipool, name) for name in cgipool.__all__)",
    "dir": "import cgipool; assert set(cgipool.__all__) <= set(dir(cgipool)) and 'torch' not in dir(cgipool)",
    "unknown": "import cgipool; assert not hasattr(cgipool, 'nothing')",
}

FORKS = """
import json, os, sys, traceback
import torch

assert "cgipool" not in sys.modules
for name, code in json.loads(sys.argv[1]).items():
    if (fork := os.fork()) == 0:
        try:
            exec(code, {})
        except BaseException:
            print(f"{name}: {traceback.format_exc()}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    print(json.dumps([name, os.waitpid(fork, 0)[1]]))
"""


@pytest.fixture(scope="module")
def called() -> tuple[dict[str, int], str]:
    """How each call ended, and what was said of those that failed."""
    command = [sys.executable, "-W", "ignore", "-c", FORKS, json.dumps(CALLS)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # a fork has no threads but the one that made it
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines())), done.stderr


@pytest.mark.parametrize("name", CALLS)
def test_public_name(name: str, called: tuple[dict[str, int], str]) -> None:
    ended, said = called
    assert ended[name] == 0, said
