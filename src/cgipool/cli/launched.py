"""How commands are started: by torchrun in several processes, with threads that sleep, with advice on jobs."""

import functools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import typer

from cgipool.cli.errors import exclude
from cgipool.errors import UserError

WAIT_SECONDS = 8.0
"""Longest delay with which the first process meets an error that all processes meet."""


def spoken_once(command: Callable[..., None]) -> Callable[..., None]:
    """If several processes run a command, only one prints an error; the others wait until torchrun ends them.
    Processes that torchrun restarts print nothing more."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        if not given["distributed"]:
            command(**given)
            return
        from cgipool.training.distributed.process_group import Lives

        lives = Lives()
        if lives.refused:
            raise typer.Exit(2)
        try:
            command(**given)
        except UserError as error:
            _give_way(error)
            if lives.refused:
                raise typer.Exit(2) from None
            if not _may_pass(error):
                lives.note_refused()
            raise

    return run


def _give_way(error: UserError) -> None:
    """Let the process that knows most about an error print it: the first one, or the one that ended early."""
    from cgipool.training.distributed.process_group import Abandoned, is_first

    if isinstance(error, Abandoned):
        time.sleep(2 * WAIT_SECONDS)
    elif not is_first():
        time.sleep(WAIT_SECONDS)


def _may_pass(error: UserError) -> bool:
    """Whether a restart may succeed: without the process that has ended, or when the disk has space again."""
    from cgipool.training.distributed.process_group import Abandoned

    return isinstance(error, Abandoned) or isinstance(error.__context__, OSError)


def check_launch(jobs: int, ensemble: int) -> None:
    """An error unless torchrun started this process, for a training that can be divided."""
    exclude("--distributed", True, "--jobs", jobs > 1)
    exclude("--distributed", True, "--ensemble", ensemble > 1)

    from cgipool.training.distributed.process_group import launched

    if not launched():
        raise UserError("--distributed needs torchrun: torchrun --nproc-per-node 2 -m cgipool train … --distributed")


TURNS = "1000"
"""Of a loop, before a thread sleeps; libgomp's own choice is 300,000. `benchmarks/waiting.py` has what it gains beside
other work, and what it costs on free cores."""


def sleep_soon() -> None:
    """Let threads that wait sleep soon, so that those they wait for get the core, unless the environment says how."""
    if "torch" not in sys.modules and not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = TURNS


LONG = 60.0
"""Seconds from which on it is worth saying how they become fewer."""


def tell_of_jobs(trainings: int, seconds: float, device: str, jobs: int) -> None:
    """Say that --jobs takes less time, where several trainings follow one another and nobody asked for it. A step is
    too small to keep all cores busy."""
    import torch

    threads = torch.get_num_threads()
    at_a_time = min(threads, trainings)
    if device == "cpu" and jobs == 1 and at_a_time > 1 and seconds > LONG:
        typer.echo(
            f"the models train one after another, on {threads} cores each; --jobs {at_a_time} trains {at_a_time} in "
            "parallel, which is faster but needs more memory",
            err=True,
        )
