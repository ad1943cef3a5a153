"""Options and arguments that several commands share, each worded once; the settings of a recipe as options."""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any

import typer

from cgipool.errors import UNITS, UserError, excerpt
from cgipool.training.recipe import Recipe
from cgipool.training.settings import setting_of, types_of

DATA = Annotated[
    str,
    typer.Argument(
        metavar="NAME|PATH",
        help="A name from `cgipool data list`, a saved set, a TU archive or folder, a table of SMILES, an SDF file, or "
        "a folder of edge lists.",
    ),
]
MODEL = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file written by `cgipool fit`.")]
ALLOW_CODE = Annotated[
    bool,
    typer.Option(
        "--allow-code", help="Import the pooling class that the model file names. This runs the code of its module."
    ),
]
METHOD = Annotated[
    str,
    typer.Option(metavar="NAME|MODULE:CLASS", help="Pooling method (see `cgipool methods`), or a class of your own."),
]
RECIPE = Annotated[
    str, typer.Option(help="Preset for all settings: paper, released or strong. Defaults shown are the paper's.")
]
CHANGES = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="The same as the option of that name, such as epochs=100 for --epochs 100. Can be repeated.",
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
SPLIT_PANEL = "Splits"
SPLIT_KINDS = (
    "random, stratified (by label), distinct (duplicates stay together), scaffold or cluster (for molecules: those of "
    "one scaffold, or similar ones, stay together), time (trains on the earliest; needs --time)"
)
TIME = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of imported data with numbers or dates, for --split-kind time.",
        rich_help_panel=SPLIT_PANEL,
    ),
]
SAMPLE_WEIGHT = Annotated[
    str | None,
    typer.Option(
        "--sample-weight", metavar="COLUMN", help="Column of imported data with the weight of each graph in the loss."
    ),
]
METRIC = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Metric to compare by and to show first, such as roc_auc or mae. Default: the task's own."
    ),
]
MARGIN = Annotated[
    float | None,
    typer.Option(
        metavar="M",
        help="Also test whether each method is equivalent to the baseline within ± M, in the unit of the metric "
        "(percentage points for shares). Default: the margin of the study file, if it has one.",
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
    """Return --max-size in bytes: a number, alone or with kB, MB, GB or TB."""
    if text is None:
        return None
    units = {unit.upper(): size for unit, size in UNITS.items()} | {"": 1, "B": 1}
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMGT]?B)?", text.strip().upper())
    size = 0 if match is None else int(float(match[1]) * units[match[2] or ""])
    if size < 1:
        raise UserError(f"--max-size {excerpt(text)!r} is not a size such as 50GB")
    return size


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for every setting of a recipe. The command gets those that are given as `settings`, by name."""
    own = inspect.signature(command)
    options = [_option(field) for field in fields(Recipe) if field.name != "name"]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {option.name: given.pop(option.name) for option in options}
        if values["ratio"] is not None:
            values["ratio"] = parse_ratio(values["ratio"])
        command(**given, settings={name: value for name, value in values.items() if value is not None})

    kept = [parameter for parameter in own.parameters.values() if parameter.name != "settings"]
    place = 1 + [parameter.name for parameter in kept].index("changes")  # --help lists settings after --set
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*kept[:place], *options, *kept[place:])
    ]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _option(field: Field[Any]) -> inspect.Parameter:
    """The option of a setting. None means that it is not given, so the recipe decides."""
    declared, types = setting_of(field), [kind for kind in types_of(Recipe, field.name) if kind is not NoneType]
    kind = str if len(types) > 1 else types[0]  # `ratio` is a share or a count: parse_ratio
    default = field.default
    if default in (None, "") or isinstance(default, bool):
        default = {None: "none", "": "none", True: "yes", False: "no"}[default]
    about = typer.Option(
        help=f"{declared.help} Default: {default}.", metavar=declared.metavar, rich_help_panel=declared.panel
    )
    annotation = Annotated[kind | None, about]  # type: ignore[valid-type]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def parse_ratio(text: str) -> float | int:
    """Read a ratio: a whole number is a number of nodes, one with a point or an exponent a share. The recipe checks
    it."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise UserError(f"--ratio must be a share in (0, 1], such as 0.8, or a number of nodes, not {text!r}") from None


LONG = 60.0
"""Estimated seconds from which --jobs is suggested."""


def suggest_jobs(trainings: int, seconds: float, device: str, jobs: int) -> None:
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
