"""`cgipool report`."""

import gc
from pathlib import Path
from typing import Annotated

import typer

from cgipool.cli.errors import say
from cgipool.cli.options import MARGIN, METRIC, POSITIVE
from cgipool.errors import are, counted


def report(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder with the results of studies.")],
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("runs/report"),
    study: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Report only this study. Can be repeated. Default: all, in order of start."),
    ] = None,
    positive: POSITIVE = None,
    metric: METRIC = None,
    margin: MARGIN = None,
) -> None:
    """Write a report on the studies of a store: tables (Markdown, LaTeX, CSV), figures (SVG) and a page, index.html.

    The store is not changed. Missing, failed and damaged cells are listed; the others are reported.
    """
    from cgipool.report import write_report
    from cgipool.report.tables import counts

    usual = gc.get_threshold()
    gc.set_threshold(200_000, *usual[1:])  # a report makes millions of small objects; rarer collections save a tenth
    try:
        written = write_report(store, out, study or [], positive, metric, margin)
    finally:
        gc.set_threshold(*usual)
    for path in written.files:
        say(path)
    for problem in written.problems:
        say(f"problem: {problem}")
    for view in written.views:
        say(f"{view.study.name}: {counts(view)}")
    say(f"{written.present} of {counted(written.wanted, 'cell')} {are(written.present)} done")
