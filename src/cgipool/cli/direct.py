"""Commands that take a table, an SDF file or a folder of edge lists directly: it is imported into the cache first."""

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

from cgipool.cli.data import import_, importing
from cgipool.cli.errors import say
from cgipool.errors import UserError, counted, excerpt

PANEL = "Reading a table"
OPTIONS = ("label", "task", "smiles", "id_", "threshold", "skip_unlabelled", "largest_fragment")
"""The options of `data import` that the commands share."""


def with_import(command: Callable[..., None]) -> Callable[..., None]:
    """Let the argument `data` be a file that `data import` reads, and add the options that say how to read it."""
    own = inspect.signature(command)
    declared = inspect.signature(import_).parameters
    options = [_option(declared[name]) for name in OPTIONS]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        chosen = {option.name.rstrip("_"): given.pop(option.name) for option in options}
        directed = bool(given.get("directed"))  # also a setting of the model
        command(**given | {"data": imported(given["data"], chosen, directed, given["jobs"])})

    parameters = [*own.parameters.values(), *options]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def imported(data: str, chosen: dict[str, Any], directed: bool = False, jobs: int = 1) -> str:
    """The data set to load: `data` itself, or the folder in the cache that it was imported into, `directed` or not, by
    `jobs` processes."""
    from cgipool.data.importers import ImportOptions
    from cgipool.data.importers.read import import_cached, needs_import

    options = ImportOptions(**chosen | {"label": tuple(chosen["label"]) if chosen["label"] else None})
    if not needs_import(Path(data)):
        if (Path(data).suffix or Path(data).name != data) and not Path(data).exists():
            return data  # `load_dataset` says that it is not there
        if options != ImportOptions():
            changed = [name for name, value in chosen.items() if value != getattr(ImportOptions(), name)]
            if changed == ["task"]:
                _check_task(data, chosen["task"])
                return data
            raise UserError(
                f"--{changed[0].replace('_', '-')} says how to read a table, an SDF file or a folder of edge lists; "
                f"{data} is a data set already"
            )
        return data
    with importing() as tell:
        folder, saved = import_cached(Path(data), replace(options, directed=directed), tell, jobs)
    if saved is None:
        say(f"{data}: read from the cache ({folder})", err=True)
        return str(folder)
    skipped = f", {counted(saved.skipped, 'row')} left out" if saved.skipped else ""
    say(f"{data}: imported {counted(saved.graphs.n_graphs, 'graph')}{skipped} ({folder})", err=True)
    for note in saved.notes:
        say(note, err=True)
    return str(folder)


def _check_task(data: str, task: str) -> None:
    """Raise UserError unless a data set that is read as it is has this task."""
    from cgipool.data import load_dataset

    if (has := load_dataset(data, mmap=True).task) != task:
        raise UserError(
            f"the task of {data} is {has}, not {excerpt(task)}: leave out --task, or import its source again with it"
        )


def _option(parameter: inspect.Parameter) -> inspect.Parameter:
    """An option of `data import` for another command, in its own panel."""
    kind, about = get_args(parameter.annotation)[:2]
    about = copy.copy(about)
    about.rich_help_panel = PANEL
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, about])
