"""Options and arguments that several commands have in common, each worded once."""

import re
from pathlib import Path
from typing import Annotated

import typer

from cgipool.errors import UNITS, UserError, excerpt

DATA = Annotated[
    str,
    typer.Argument(metavar="NAME|PATH", help="A name of `cgipool data list`, a TU archive or folder, a saved set."),
]
MODEL = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `cgipool fit` wrote.")]
ALLOW_CODE = Annotated[
    bool,
    typer.Option(
        "--allow-code", help="Import the class MODULE:CLASS that a model file names; this runs the code of that module."
    ),
]
RECIPE = Annotated[str, typer.Option(help="All settings at once: paper, released or strong.")]
CHANGES = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the recipe, such as epochs=100; a wrong name lists them. May be repeated.",
    ),
]
DEVICE = Annotated[str, typer.Option(help="cpu or cuda.")]
POSITIVE = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS",
        help="The class that ROC-AUC and PR-AUC are shown of. All are stored. Default: class 1 of a data set known by "
        "name, the rarer class of your own, and the mean over more than two classes.",
    ),
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else, on stdout.")]

ID = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="The column with the ids. Default: one called id, name or the like."),
]
MAX_ATOMS = Annotated[
    int, typer.Option(min=1, metavar="N", help="Larger molecules are not read, nor those with more than N/10 rings.")
]
MAX_SIZE = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Read at most so much text, such as 50GB. Default: 16GB; of a compressed file, 100 times its size.",
    ),
]

STORE = Annotated[Path, typer.Option(metavar="DIR", help="The folder that keeps results.")]
DEVICES = Annotated[str, typer.Option(help="cpu, cuda, or several: cuda:0,cuda:1 spreads the cells over them.")]
AT_ONCE = Annotated[
    int, typer.Option(min=1, help="Cells in hand at a time on each device. On a GPU 4 or 5 pay, by NVIDIA's MPS.")
]
JOBS = Annotated[int, typer.Option(min=1, help="On a CPU, splits trained at a time, one thread each.")]
LIMIT = Annotated[
    float | None, typer.Option(min=0, metavar="MINUTES", help="Stop after so long; the same command goes on.")
]
RETRY_FAILED = Annotated[
    bool, typer.Option("--retry-failed", help="Try again what failed before; otherwise it is skipped.")
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
