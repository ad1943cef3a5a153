"""`cgipool fit`."""

from pathlib import Path
from typing import Annotated

import typer

from cgipool.cli.advice import tell_of_jobs
from cgipool.cli.options import CHANGES, DATA, DEVICE, RECIPE
from cgipool.cli.train_splits import tell_of_unused
from cgipool.words import counted


def fit(
    data: DATA,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The model's file.")] = Path("model.safetensors"),
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="The pooling method; `cgipool methods` lists them. Or a class of your own.",
        ),
    ] = "cgi",
    recipe: RECIPE = "paper",
    ensemble: Annotated[int, typer.Option(min=1, help="Members whose probabilities are averaged.")] = 1,
    validation: Annotated[
        float, typer.Option(help="Share of the graphs held back, which early stopping watches.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and all draws.")] = 0,
    changes: CHANGES = None,
    device: DEVICE = "cpu",
    jobs: Annotated[int, typer.Option(min=1, help="On a CPU, members trained at a time.")] = 1,
) -> None:
    """Train one model for use on new graphs, and write it to one file that `cgipool predict` reads.

    All graphs train but the validation share. What to expect of it, `cgipool train` measures on splits.
    """
    from cgipool.cli.errors import Interrupted
    from cgipool.cli.progress import downloading, reporting
    from cgipool.data import load_dataset
    from cgipool.data.importers import featurizer_of
    from cgipool.files import writable
    from cgipool.fitted import fit as fit_model
    from cgipool.study.estimate import on_a_cpu
    from cgipool.training.recipe import parse_settings, recipe_named

    settings = parse_settings(changes or [])
    recipe_named(recipe).but(**settings)  # what is wrong with them is told before the data is read
    writable(out)
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    chosen = recipe_named(recipe, graphs.family).but(**settings)
    tell_of_unused(graphs, chosen)
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
                featurizer=featurizer_of(data),
                tell=tell,
            )
    except KeyboardInterrupt:
        raise Interrupted("stopped; nothing is kept") from None
    model.save(out)
    about = model.about
    learnt, seen = counted(about["graphs"]["train"], "graph"), counted(about["graphs"]["val"], "validation graph")
    what = method if ensemble == 1 else f"an ensemble of {ensemble} {method}"
    typer.echo(
        f"{out}: {what} on {learnt} of {graphs.name}, {len(model.class_names)} classes; "
        f"accuracy {100 * about['validation']['accuracy']:.1f} % on {seen}, which early stopping has seen"
    )
