"""`cgipool report`."""

from pathlib import Path
from typing import Annotated

import typer

from cgipool.cli.errors import say
from cgipool.cli.options import POSITIVE
from cgipool.errors import are, counted


def report(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The folder that holds studies and their cells.")],
    out: Annotated[Path, typer.Option(help="The folder that the report goes to.")] = Path("runs/report"),
    study: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this study; may be repeated. Default: all, by when they were begun."),
    ] = None,
    positive: POSITIVE = None,
) -> None:
    """Report the studies of a store: tables (Markdown, LaTeX, CSV), figures (SVG), and a page, index.html.

    The store is only read. What is missing, failed or damaged in it is listed, and the rest is reported.
    """
    from cgipool.report import write_report
    from cgipool.report.tables import counts

    written = write_report(store, out, study or [], positive)
    for path in written.files:
        say(path)
    for problem in written.problems:
        say(f"problem: {problem}")
    for view in written.views:
        say(f"{view.study.name}: {counts(view)}")
    say(f"{written.present} of {counted(written.wanted, 'cell')} {are(written.present)} there")
