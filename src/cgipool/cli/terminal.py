"""Printing to a terminal. Names and texts from data, models and stores must not control it."""

from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console
from rich.segment import Segment

from cgipool.words import printable


class PlainConsole(Console):
    """A console that prints control characters of the given text as replacement characters. Its own escape sequences,
    for colours and progress bars, stay."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """The parts of what is printed, their text made harmless."""
        for part in super().render(renderable, options):
            yield part if part.is_control else part._replace(text=printable(part.text))


def say(text: object, *, err: bool = False) -> None:
    """Print a line that may quote text from outside."""
    typer.echo(printable(str(text)), err=err)
