"""How far a reader has to walk: visits to modules of cgipool before the first training step, and in one step.

    python benchmarks/walk.py [--method cgi]

A visit is a call from one module of the package into another. A step ends where gradients are computed. Counts, not
times: the same program gives the same numbers on every machine.
"""

import argparse
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

STEPS = 3


class Walk:
    """Counts visits between two calls of autograd."""

    def __init__(self) -> None:
        self.visits = [0]
        self.modules: list[set[str]] = [set()]

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """One event of Python's profiler."""
        if event != "call" or frame.f_back is None:
            return
        callee, caller = (f.f_globals.get("__name__", "") for f in (frame, frame.f_back))
        if callee.split(".")[0] == "cgipool":
            self.modules[-1].add(callee)
            self.visits[-1] += callee != caller

    def stepping(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, each call of which ends a step."""

        def step(*args: Any, **options: Any) -> Any:
            self.visits.append(0)
            self.modules.append(set())
            return function(*args, **options)

        return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="cgi")
    method = parser.parse_args().method
    from cgipool import load_dataset, train

    graphs = load_dataset("motifs")
    walk = Walk()
    torch.autograd.backward = walk.stepping(torch.autograd.backward)
    torch.autograd.grad = walk.stepping(torch.autograd.grad)
    sys.setprofile(walk.see)
    train(graphs, method=method, epochs=1, width=16)
    sys.setprofile(None)
    print(f"{method}, one split of motifs: {len(walk.visits) - 1} steps")
    for name, place in (("before the first step", 0), ("in a step", STEPS)):
        print(f"{name}: {walk.visits[place]:,} visits to {len(walk.modules[place])} modules")


if __name__ == "__main__":
    main()
