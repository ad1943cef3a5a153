"""How torch's threads wait for one another. No torch: its library reads this when it is loaded."""

import os
import sys

TURNS = "1000"
"""Of a loop, before a thread sleeps; libgomp's own choice is 300,000. `benchmarks/waiting.py` has what it gains beside
other work, and what it costs on free cores."""


def sleep_soon() -> None:
    """Let threads that wait sleep soon, so that those they wait for get the core, unless the environment says how."""
    if "torch" not in sys.modules and not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = TURNS
