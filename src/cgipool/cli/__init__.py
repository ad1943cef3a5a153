"""The command line. A command parses, calls one function and prints; torch is imported inside it, not before."""

import inspect
import io
import os
import signal
import sys
from typing import Annotated

import typer

from cgipool.cli.compare import compare
from cgipool.cli.data import app as data
from cgipool.cli.demo import demo
from cgipool.cli.describe import describe
from cgipool.cli.errors import one_line, sigterm_as_ctrl_c, warnings_as_lines
from cgipool.cli.evaluate import evaluate
from cgipool.cli.explain import explain
from cgipool.cli.fit import fit
from cgipool.cli.methods import app as methods
from cgipool.cli.predict import predict
from cgipool.cli.report import report
from cgipool.cli.search import search
from cgipool.cli.study import app as study
from cgipool.cli.train import train
from cgipool.errors import printable
from cgipool.version import __version__

CLOSED = 128 + signal.SIGPIPE
"""The exit code if the reader of stdout has closed it: that of a program ended by the signal."""

TURNS = "1000"
"""Iterations that a waiting thread spins before it sleeps; libgomp's default is 300,000. `benchmarks/waiting.py`
measures what this gains on busy cores and costs on free ones."""

app = typer.Typer(
    name="cgipool",
    help="Graph neural networks with learned pooling (CGIPool and its peers) that predict classes, numbers or labels.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(train)
app.command()(fit)
app.command()(describe)
app.command()(predict)
app.command()(evaluate)
app.command()(explain)
app.command()(compare)
app.command()(report)
study.command()(search)
app.add_typer(study, name="study")
app.add_typer(data, name="data")
app.add_typer(methods, name="methods")
app.command()(demo)


def _reflow(apps: typer.Typer) -> None:
    """Let the terminal wrap the help; typer keeps the line breaks of a docstring's later paragraphs."""
    for command in apps.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for _each in (app, study, data, methods):
    _reflow(_each)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cgipool {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> int:
    """Run a command line, by default the process's own, and return the exit code. An error is one line on stderr."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a character that stdout cannot encode must not lose the result
        sys.stdout.reconfigure(errors="backslashreplace")
    sleep_soon()
    with sigterm_as_ctrl_c() as terminated, warnings_as_lines():
        line, code = _run(arguments)
    if _reader_is_gone():
        return CLOSED
    if line is not None:
        print(f"cgipool: {printable(line)}", file=sys.stderr)
    return 128 + signal.SIGTERM if code == 130 and terminated else code


def sleep_soon() -> None:
    """Let waiting threads sleep early, which frees their cores, unless the environment sets this."""
    if "torch" not in sys.modules and not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = TURNS


def _run(arguments: list[str] | None) -> tuple[str | None, int]:
    """Return the message for stderr, if any, and the exit code."""
    try:
        code = int(app(args=arguments, prog_name="cgipool", standalone_mode=False) or 0)
    except SystemExit:  # click exits when the reader of stdout has closed it, as `head` does
        return None, CLOSED
    except (Exception, KeyboardInterrupt) as error:
        return one_line(error)
    return "stopped" if code == 130 else None, code  # typer reports Ctrl-C in this way


def _open_closed_streams() -> None:
    """Discard output to a stream that was closed when the process started (`>&-`); Python then has None for it."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _reader_is_gone() -> bool:
    """Whether the reader of stdout has closed it, as `head` does; the rest of the output is then silently discarded."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at exit
        return True
    except (OSError, ValueError):  # a full disk was reported before; a closed stream needs no flush
        return False
    return False
