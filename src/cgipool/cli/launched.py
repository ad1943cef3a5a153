"""Commands that torchrun starts in several processes: who may start them so, and who tells of an error."""

import functools
import time
from collections.abc import Callable
from typing import Any

import typer

from cgipool.cli.errors import exclude
from cgipool.errors import UserError

WAIT_SECONDS = 8.0
"""The first process meets an error that all meet at most by so much later than the others."""


def spoken_once(command: Callable[..., None]) -> Callable[..., None]:
    """Of a command that several processes run, an error is told by one: the others wait for torchrun to end them. Those
    that torchrun starts anew have nothing to add to it."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        if not given["distributed"]:
            command(**given)
            return
        from cgipool.training.ranks import Lives

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
    """Wait for who has more to say of an error: the first process, or the one that left the others alone."""
    from cgipool.training.ranks import Abandoned, is_first

    if isinstance(error, Abandoned):
        time.sleep(2 * WAIT_SECONDS)
    elif not is_first():
        time.sleep(WAIT_SECONDS)


def _may_pass(error: UserError) -> bool:
    """Whether the same command may do better when it is started anew: without the process that is gone, or when the
    disk has room again."""
    from cgipool.training.ranks import Abandoned

    return isinstance(error, Abandoned) or isinstance(error.__context__, OSError)


def check_launch(jobs: int, ensemble: int) -> None:
    """An error unless torchrun started this process, for a training that can be divided."""
    exclude("--distributed", True, "--jobs", jobs > 1)
    exclude("--distributed", True, "--ensemble", ensemble > 1)

    from cgipool.training.ranks import launched

    if not launched():
        raise UserError(
            "--distributed is for processes of torchrun: torchrun --nproc-per-node 2 -m cgipool train … --distributed"
        )
