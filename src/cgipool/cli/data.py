"""`cgipool data list | info | fetch`."""

import json
from typing import Annotated

import typer

from cgipool.errors import unknown

app = typer.Typer(help="List, describe and download data sets.", add_completion=False)


@app.callback(invoke_without_command=True)
def _start(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_() -> None:
    """List the data sets known by name, and which of them are at hand."""
    from cgipool.cli.tables import catalogue_table, output
    from cgipool.data import CATALOGUE

    output().print(catalogue_table(CATALOGUE, {name: place_of(name) for name in CATALOGUE}))


@app.command()
def info(
    data: Annotated[str, typer.Argument(metavar="NAME|PATH", help="A name of `data list`, a TU archive or folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else, on stdout.")] = False,
) -> None:
    """Describe a data set: counts, classes, columns, what was dropped, duplicates."""
    from cgipool.cli.progress import downloading
    from cgipool.cli.tables import info_table, output
    from cgipool.data import describe, load_dataset

    with downloading() as progress:
        described = describe(load_dataset(data, progress=progress))
    if as_json:
        typer.echo(json.dumps(described, ensure_ascii=False))
    else:
        output().print(info_table(described))


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of `cgipool data list`.")],
) -> None:
    """Download data sets into the cache, anew if they are there."""
    from cgipool.cli.progress import downloading
    from cgipool.data import CATALOGUE
    from cgipool.data import fetch as download

    spelt = {name.lower(): name for name in CATALOGUE}
    for name in names:
        if name.lower() not in spelt:
            raise unknown("data set", name, CATALOGUE)
    for name in (spelt[name.lower()] for name in names):
        if name == "motifs":
            typer.echo("motifs is built in: nothing to download")
            continue
        with downloading(name) as progress:
            path = download(name, progress)
        typer.echo(f"{name}: {path}")


def place_of(name: str) -> str:
    """Where a data set of the catalogue is on this machine, in a word; empty if it must be downloaded."""
    from cgipool.data.sources import data_folder, find

    if name == "motifs":
        return "built in"
    path = find(name)
    if path is None:
        return ""
    return "CGIPOOL_DATA" if path.parent == data_folder() else "cache"
