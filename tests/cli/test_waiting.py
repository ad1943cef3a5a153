"""The command line sets how torch's threads wait, in time for their library, and only where nobody else did."""

import os
import subprocess
import sys

import pytest

from cgipool.cli import TURNS, sleep_soon

SHOWN = "from cgipool.cli import sleep_soon; sleep_soon(); import torch"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch has another library for its threads")
@pytest.mark.parametrize(("given", "turns"), [({}, TURNS), ({"GOMP_SPINCOUNT": "77"}, "77")])
def test_the_library_of_threads_takes_it(given: dict[str, str], turns: str) -> None:
    unset = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment = unset | {"OMP_DISPLAY_ENV": "verbose"} | given
    run = subprocess.run([sys.executable, "-c", SHOWN], env=environment, capture_output=True, text=True, check=True)
    assert f"GOMP_SPINCOUNT = '{turns}'" in run.stderr


def test_it_is_left_alone_where_it_is_too_late_or_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setitem(sys.modules, "torch", sys)
    sleep_soon()
    assert "GOMP_SPINCOUNT" not in os.environ
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    sleep_soon()
    assert "GOMP_SPINCOUNT" not in os.environ
