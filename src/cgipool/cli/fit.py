"""`cgipool fit`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from cgipool.cli.errors import Interrupted, exclude, say
from cgipool.cli.launched import tell_of_jobs
from cgipool.cli.options import CHANGES, DATA, DEVICE, RECIPE
from cgipool.errors import counted


def fit(
    data: DATA,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the model.")] = Path("model.safetensors"),
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="Pooling method (see `cgipool methods`), or a class of your own.",
        ),
    ] = "cgi",
    recipe: RECIPE = "paper",
    ensemble: Annotated[int, typer.Option(min=1, help="Number of models whose probabilities are averaged.")] = 1,
    validation: Annotated[float, typer.Option(help="Share of the graphs held out for early stopping.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights and all random draws.")] = 0,
    changes: CHANGES = None,
    device: DEVICE = "cpu",
    jobs: Annotated[int, typer.Option(min=1, help="Models trained in parallel on a CPU.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit of the same --out.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an interrupted fit of the same --out.")
    ] = False,
) -> None:
    """Train a model for new graphs, and write it to a file that `cgipool predict` reads.

    It trains on all graphs except the validation share; use `cgipool train` to measure accuracy on test splits.
    Checkpoints are kept in FILE.run: after an interruption, the same command with --resume continues.
    """
    from cgipool.cli.progress import downloading, reporting
    from cgipool.data import load_dataset
    from cgipool.files import writable
    from cgipool.inference.fitted import fit as fit_model
    from cgipool.study.estimate import on_a_cpu
    from cgipool.training.folder import make_folder
    from cgipool.training.recipe import parse_settings, recipe_named

    settings = parse_settings(changes or [])
    recipe_named(recipe).but(**settings)  # report wrong settings before reading the data
    exclude("--resume", resume, "--overwrite", overwrite)
    make_folder(out.parent)
    writable(out)
    folder = _run_folder(out)
    if resume and (folder is None or not folder.exists()):
        typer.echo(f"there is no interrupted fit of {out}: starting a new one", err=True)
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    chosen = recipe_named(recipe, graphs.family).but(**settings)
    tell_of_jobs(ensemble, on_a_cpu(method, chosen, ensemble, graphs.n_nodes), device, jobs)
    try:
        with reporting(None, chosen.epochs, chosen.patience, ensemble) as tell:
            model = fit_model(
                graphs,
                method=method,
                recipe=chosen,
                ensemble=ensemble,
                validation=validation,
                seed=seed,
                device=device,
                jobs=jobs,
                folder=folder,
                resume=resume,
                overwrite=overwrite,
                tell=tell,
            )
    except KeyboardInterrupt:
        how = "nothing was saved" if folder is None else "run the same command with --resume to continue"
        raise Interrupted(f"stopped; {how}") from None
    model.save(out)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    about = model.about
    learnt, seen = counted(about["graphs"]["train"], "graph"), counted(about["graphs"]["val"], "validation graph")
    what = method if ensemble == 1 else f"an ensemble of {ensemble} {method}"
    say(
        f"{out}: {what} on {learnt} of {graphs.name}, {len(model.class_names)} classes; "
        f"accuracy {100 * about['validation']['accuracy']:.1f} % on {seen} (used for early stopping)"
    )


def _run_folder(out: Path) -> Path | None:
    """Where an interrupted fit is kept; None for a pipe or a device, which has no place beside it."""
    return None if out.exists() and not out.is_file() else out.with_name(f"{out.name}.run")
