"""Options and arguments that several commands have in common, each worded once."""

import re
from pathlib import Path
from typing import Annotated

import typer

from cgipool.errors import UNITS, UserError, excerpt

DATA = Annotated[
    str,
    typer.Argument(
        metavar="NAME|PATH", help="A name from `cgipool data list`, a TU archive or folder, or a saved set."
    ),
]
MODEL = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by `cgipool fit`.")]
ALLOW_CODE = Annotated[
    bool,
    typer.Option(
        "--allow-code", help="Import the pooling class that the model file names. This runs the code of its module."
    ),
]
RECIPE = Annotated[str, typer.Option(help="Preset for all settings: paper, released or strong.")]
CHANGES = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of the recipe, such as epochs=100. An unknown name lists all settings. Can be repeated.",
    ),
]
DEVICE = Annotated[str, typer.Option(help="cpu or cuda.")]
POSITIVE = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS",
        help="Class whose ROC-AUC and PR-AUC are shown; all classes are stored. Default: class 1 of a data set known "
        "by name, the rarer class of your own data, or the mean over more than two classes.",
    ),
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print only a JSON object on stdout.")]

ID = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Column with the ids. Default: a column named id, name or similar."),
]
MAX_ATOMS = Annotated[
    int, typer.Option(min=1, metavar="N", help="Reject molecules with more than N atoms or N/10 rings.")
]
MAX_SIZE = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Read at most this much text, such as 50GB. Default: 16GB; for a compressed file, 100 times its size.",
    ),
]

STORE = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")]
DEVICES = Annotated[str, typer.Option(help="cpu, cuda, or a list such as cuda:0,cuda:1, which share the cells.")]
AT_ONCE = Annotated[
    int,
    typer.Option(
        min=1, help="Cells trained in parallel on each device. On a GPU, 4 or 5 are faster than 1 (by NVIDIA MPS)."
    ),
]
JOBS = Annotated[int, typer.Option(min=1, help="Splits trained in parallel on a CPU, one thread each.")]
LIMIT = Annotated[
    float | None,
    typer.Option(min=0, metavar="MINUTES", help="Stop after this many minutes. The same command continues the work."),
]
RETRY_FAILED = Annotated[
    bool, typer.Option("--retry-failed", help="Retry cells that failed before. By default they are skipped.")
]


def parse_size(text: str | None) -> int | None:
    """The bytes that --max-size means: a number, alone or with kB, MB, GB or TB."""
    if text is None:
        return None
    units = {unit.upper(): size for unit, size in UNITS.items()} | {"": 1, "B": 1}
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMGT]?B)?", text.strip().upper())
    size = 0 if match is None else int(float(match[1]) * units[match[2] or ""])
    if size < 1:
        raise UserError(f"--max-size {excerpt(text)!r} is not a size such as 50GB")
    return size
