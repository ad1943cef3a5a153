"""MkDocs hook: replaces the marker `<!-- commands -->` with the help of the command line."""

import typer
from typer.cli import get_docs_for_click

from cgipool.cli import app

MARKER = "<!-- commands -->"


def commands() -> str:
    """Return every command with its arguments and options, in Markdown."""
    program = typer.main.get_command(app)
    text = get_docs_for_click(obj=program, ctx=typer.Context(program, info_name="cgipool"), name="cgipool")
    _, _, body = text.partition("\n## ")  # the page has its own heading and introduction
    lines = f"## {body}".replace("```console\n$ ", "```text\n").splitlines()
    return "\n".join(line for line in lines if not line.startswith("* `--help`") and line != "**Usage**:")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by MkDocs for every page."""
    return markdown.replace(MARKER, commands()) if MARKER in markdown else markdown
