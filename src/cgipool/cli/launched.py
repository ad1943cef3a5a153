"""The start of commands: several processes under torchrun, idle threads that sleep, advice on --jobs."""

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
"""Maximum delay with which the first process raises an error that all processes raise."""


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
    """Let the most informative process print an error: the first one, or the one that ended early."""
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
    """Raise an error unless torchrun started this process for a training that can be distributed."""
    exclude("--distributed", True, "--jobs", jobs > 1)
    exclude("--distributed", True, "--ensemble", ensemble > 1)

    from cgipool.training.distributed.process_group import launched

    if not launched():
        raise UserError("--distributed needs torchrun: torchrun --nproc-per-node 2 -m cgipool train … --distributed")


TURNS = "1000"
"""Iterations that a waiting thread spins before it sleeps; libgomp's default is 300,000. `benchmarks/waiting.py`
measures what this gains on busy cores and costs on free ones."""


def sleep_soon() -> None:
    """Let waiting threads sleep early, which frees their cores, unless the environment sets this."""
    if "torch" not in sys.modules and not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = TURNS


LONG = 60.0
"""Estimated seconds from which --jobs is suggested."""


def tell_of_jobs(trainings: int, seconds: float, device: str, jobs: int) -> None:
    """Suggest --jobs if several trainings follow one another without it. A step is too small to keep all cores busy."""
    import torch

    threads = torch.get_num_threads()
    at_a_time = min(threads, trainings)
    if device == "cpu" and jobs == 1 and at_a_time > 1 and seconds > LONG:
        typer.echo(
            f"the models train one after another, on {threads} cores each; --jobs {at_a_time} trains {at_a_time} in "
            "parallel, which is faster but needs more memory",
            err=True,
        )
