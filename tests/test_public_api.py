"""The names that a user imports, each time in a new process, so that no earlier import can help or hinder."""

import subprocess
import sys

import pytest

CALLS = {
    "train": "from cgipool import train; assert callable(train), train",
    "train after its package": "import cgipool.training.split; from cgipool import train; assert callable(train)",
    "load_dataset": "from cgipool import load_dataset; assert load_dataset('motifs').n_classes == 4",
    "load_released": "from cgipool import load_released; assert callable(load_released)",
    "GraphSet": "from cgipool import GraphSet; assert isinstance(GraphSet, type)",
    "Recipe": "from cgipool import Recipe; assert Recipe().ratio == 0.8",
    "all": "import cgipool; assert all(hasattr(cgipool, name) for name in cgipool.__all__)",
    "unknown": "import cgipool; assert not hasattr(cgipool, 'nothing')",
}


@pytest.mark.parametrize("name", CALLS)
def test_public_name(name):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CALLS[name]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
