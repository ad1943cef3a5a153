"""`cgipool fit`."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgipool.cli.direct import with_import
from cgipool.cli.errors import Interrupted, exclude, say
from cgipool.cli.options import (
    ALLOW_CODE,
    CHANGES,
    DATA,
    DEVICE,
    METHOD,
    RECIPE,
    SAMPLE_WEIGHT,
    suggest_jobs,
    with_settings,
)
from cgipool.errors import UserError, counted

AUTO = "Automatic choice"

if TYPE_CHECKING:
    from cgipool.inference.fitted import FittedModel
    from cgipool.training.presets import Choose


@with_import
@with_settings
def fit(
    data: DATA,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the model.")] = Path("model.safetensors"),
    method: METHOD = "cgi",
    recipe: RECIPE = "strong",
    changes: CHANGES = None,
    ensemble: Annotated[int, typer.Option(min=1, help="Number of models whose probabilities are averaged.")] = 1,
    validation: Annotated[float, typer.Option(help="Share of the graphs held out for early stopping.")] = 0.1,
    sample_weight: SAMPLE_WEIGHT = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Continue the training of this model on the graphs, with its method and settings; those of the "
            "optimisation, such as --lr and --epochs, can be changed.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights and all random draws.")] = 0,
    device: DEVICE = "cpu",
    jobs: Annotated[int, typer.Option(min=1, help="Models trained in parallel on a CPU.")] = 1,
    extra_graphs: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="Graphs without labels, which count in the method's own loss only (for cgi, the mutual information).",
        ),
    ] = None,
    allow_code: ALLOW_CODE = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit of the same --out.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an interrupted fit of the same --out.")
    ] = False,
    auto: Annotated[
        bool,
        typer.Option(
            "--auto",
            help="Try baselines, classical methods and networks, and write the best, or a blend of the best, as one "
            "model, with a page about it.",
            rich_help_panel=AUTO,
        ),
    ] = False,
    budget: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="With --auto: the time to spend, such as 90s, 5m or 2h.", rich_help_panel=AUTO
        ),
    ] = "5m",
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With --auto: the metric to optimise. Default: that of the task.", rich_help_panel=AUTO
        ),
    ] = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a model for new graphs, and write it to a file that `cgipool predict` reads.

    It trains on all graphs except the validation share; use `cgipool train` to measure accuracy on test splits.
    `cgipool describe FILE` shows what a model was trained on and its expected performance.
    Checkpoints are kept in FILE.run: after an interruption, the same command with --resume continues. With --auto no
    method needs to be chosen: the search is kept in FILE.auto, and the same command continues it.
    """
    from cgipool.training.presets import parse_settings, resolve_recipe
    from cgipool.training.settings import merged

    exclude("--resume", resume, "--overwrite", overwrite)
    fixed: dict[str, Any] = {
        "--method": method != "cgi",
        "--recipe": recipe != "strong",
        "--ensemble": ensemble != 1,
    }
    if auto:
        from cgipool.cli.auto import fit_by_search

        chosen = fixed | {"--from": from_}
        chosen |= {"--set": bool(changes), "--sample-weight": sample_weight, "--extra-graphs": extra_graphs}
        chosen |= {"--jobs": jobs != 1, "--validation": validation != 0.1}
        chosen |= {f"--{name.replace('_', '-')}": True for name in settings}
        for option, given in chosen.items():
            exclude("--auto", True, option, given)
        fit_by_search(data, out, budget, metric, seed, device, overwrite)
        return
    if metric is not None:
        raise UserError("--metric needs --auto; --stop-by chooses what early stopping watches")
    changed = merged(settings, parse_settings(changes or []))
    run: dict[str, Any] = {"validation": validation, "seed": seed, "device": device, "jobs": jobs}
    run |= {"resume": resume, "overwrite": overwrite, "sample_weight": sample_weight}
    if from_ is not None:
        from cgipool.inference.fitted import FittedModel

        for option, given in fixed.items():
            exclude("--from", True, option, given)
        run["start"] = start = FittedModel.load(from_, allow_code=allow_code)
        method, ensemble, choose = start.method, len(start.members), resolve_recipe(start.recipe, changed)
    else:
        choose = resolve_recipe(recipe, changed)
    run |= {"method": method, "ensemble": ensemble}
    _fit_one(data, out, choose, extra_graphs, run)


def _fit_one(data: str, out: Path, choose: "Choose", extra_graphs: str | None, run: dict[str, Any]) -> None:
    """Train the model that the options describe; `run` are the arguments of `cgipool.inference.fitting.fit`."""
    from cgipool.cli.progress import downloading, reporting
    from cgipool.data import load_dataset
    from cgipool.files import writable
    from cgipool.inference.fitting import fit as fit_model
    from cgipool.training.duration import cpu_seconds
    from cgipool.training.folder import make_folder

    make_folder(out.parent)
    writable(out)
    folder = _run_folder(out)
    if run["resume"] and (folder is None or not folder.exists()):
        typer.echo(f"there is no interrupted fit of {out}: starting a new one", err=True)
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
        extra = None if extra_graphs is None else load_dataset(extra_graphs, unlabelled=True, progress=progress)
    recipe = choose(graphs.family, graphs.has_own_attributes, graphs.directed)
    nodes = graphs.n_nodes + (0 if extra is None else extra.n_nodes)
    suggest_jobs(
        run["ensemble"], cpu_seconds(run["method"], recipe, run["ensemble"], nodes), run["device"], run["jobs"]
    )
    try:
        with reporting(None, recipe.epochs, recipe.patience, run["ensemble"]) as tell:
            model = fit_model(graphs, recipe=recipe, extra=extra, folder=folder, tell=tell, **run)
    except KeyboardInterrupt:
        how = "nothing was saved" if folder is None else "run the same command with --resume to continue"
        raise Interrupted(f"stopped; {how}") from None
    model.save(out)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"{out}: {_summary(model, graphs.name)}")


def _summary(model: "FittedModel", dataset: str) -> str:
    """The method, its training data and the validation score, in a sentence."""
    from cgipool.task.metrics import described

    about, members = model.about, len(model.members)
    train, val = counted(about["graphs"]["train"], "graph"), counted(about["graphs"]["val"], "validation graph")
    task = model.task
    count = len(task.columns)
    predicted = f"{count} classes" if task.name == "classification" else counted(count, "target")
    score = described(task.primary, about["validation"][task.primary])
    what = model.method if members == 1 else f"an ensemble of {members} {model.method}"
    what += f", recipe {model.recipe.name},"
    return f"{what} on {train} of {dataset}, {predicted}; {score} on {val} (used for early stopping)"


def _run_folder(out: Path) -> Path | None:
    """The folder of an interrupted fit, next to `out`; None if `out` is a pipe or a device."""
    return None if out.exists() and not out.is_file() else out.with_name(f"{out.name}.run")
