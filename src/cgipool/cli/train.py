"""`cgipool train`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgipool.cli.errors import Interrupted
from cgipool.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgipool.data import GraphSet, Split

SPLITS, MODEL, INPUT, OUTPUT = "Splits", "Model and training", "Input features", "Where and how"


def parse_ratio(text: str) -> float | int:
    """A whole number is a count of nodes; with a point or an exponent it is a share. The recipe checks the range."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise UserError(
            f"--ratio {text!r} is neither a share in (0, 1] such as 0.8 nor a whole number of nodes from 1"
        ) from None


def train(
    data: Annotated[
        str, typer.Argument(metavar="NAME|PATH", help="A name of `cgipool data list`, a TU archive or folder.")
    ] = "motifs",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="The pooling method; `cgipool methods` lists them. Or a class of your own.",
            rich_help_panel=MODEL,
        ),
    ] = "cgi",
    recipe: Annotated[
        str, typer.Option(help="All settings at once: paper or released.", rich_help_panel=MODEL)
    ] = "paper",
    splits: Annotated[
        int | None, typer.Option(min=1, help="How many random splits. Default: 1.", rich_help_panel=SPLITS)
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=0, help="The number of the first split. Default: 0.", rich_help_panel=SPLITS)
    ] = None,
    split_kind: Annotated[
        str | None,
        typer.Option(
            help="random, stratified (by class) or distinct (graphs alike stay on one side). Default: random.",
            rich_help_panel=SPLITS,
        ),
    ] = None,
    splits_file: Annotated[
        Path | None,
        typer.Option(help="Given splits, as splits.json of a run holds them.", rich_help_panel=SPLITS),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=3, help="Cross-validation with this many folds.", rich_help_panel=SPLITS)
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of splits, weights and all draws.", rich_help_panel=SPLITS)] = 0,
    ensemble: Annotated[
        int,
        typer.Option(
            min=1,
            help="Members of an ensemble per split; their probabilities are averaged. Default: 1.",
            rich_help_panel=MODEL,
        ),
    ] = 1,
    ratio: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|COUNT",
            help="Nodes a pool keeps: a share, 0 < share <= 1.0, or a whole number from 1. Default: 0.8.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="At most this many. Default: 1000.", rich_help_panel=MODEL)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(min=1, help="Epochs without a lower validation loss. Default: 100.", rich_help_panel=MODEL),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Graphs per step. Default: 128.", rich_help_panel=MODEL)
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Weight of the mutual-information loss, from 0. Default: 0.001; paper, PROTEINS: 1.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    mi: Annotated[str | None, typer.Option(help="Its bound: gan or kl. Default: gan.", rich_help_panel=MODEL)] = None,
    conv: Annotated[
        str | None,
        typer.Option(
            help="The backbone's convolution: gcn, gcn-root, sage or gin. Default: gcn (released: sage).",
            rich_help_panel=MODEL,
        ),
    ] = None,
    levels: Annotated[
        int | None, typer.Option(min=1, help="How often convolve, pool, read out. Default: 3.", rich_help_panel=MODEL)
    ] = None,
    readout: Annotated[
        str | None,
        typer.Option(help="Of a level's nodes: max-mean, mean, max or sum. Default: max-mean.", rich_help_panel=MODEL),
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=2, help="Dimension of node embeddings. Default: 128.", rich_help_panel=MODEL)
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(help="balanced: each class by its inverse frequency. Default: none.", rich_help_panel=MODEL),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the recipe; may be repeated.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(help="label, degree, or auto: labels where there are any. Default: auto.", rich_help_panel=INPUT),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            help="Categories known from the train graphs or from all. Default: train (released: all).",
            rich_help_panel=INPUT,
        ),
    ] = None,
    attributes: Annotated[
        bool, typer.Option("--attributes", help="Use node attributes as well.", rich_help_panel=INPUT)
    ] = False,
    device: Annotated[
        str, typer.Option(help="cpu, or cuda: all splits at once on a GPU.", rich_help_panel=OUTPUT)
    ] = "cpu",
    jobs: Annotated[
        int,
        typer.Option(min=1, help="Splits trained at a time, one thread each if more than 1.", rich_help_panel=OUTPUT),
    ] = 1,
    tf32: Annotated[
        bool,
        typer.Option(
            "--tf32/--no-tf32", help="On a GPU, matrix products in TF32. Default: yes.", rich_help_panel=OUTPUT
        ),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(help="Keep the run in this folder. Default: not kept.", rich_help_panel=OUTPUT)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out.", rich_help_panel=OUTPUT)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in --out.", rich_help_panel=OUTPUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, nothing else, on stdout.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Train a pooling method on splits of a data set, and test each split once."""
    _exclude("--resume", resume, "--overwrite", overwrite)
    _exclude("--splits-file", splits_file, "--folds", folds)
    for given, value in (("--splits-file", splits_file), ("--folds", folds)):
        for name, other in (("--splits", splits), ("--first", first), ("--split-kind", split_kind)):
            _exclude(given, value, name, other)
    if (resume or overwrite) and out is None:
        raise UserError("--resume and --overwrite need --out DIR, the folder of the run")
    share = None if ratio is None else parse_ratio(ratio)

    from cgipool.cli.progress import downloading, reporting
    from cgipool.cli.tables import output, result_tables
    from cgipool.data import load_dataset
    from cgipool.pool import method_named
    from cgipool.training import run
    from cgipool.training.recipe import parse_setting, recipe_named

    title = method_named(method).title
    settings = {
        "ratio": share,
        "epochs": epochs,
        "patience": patience,
        "batch_size": batch_size,
        "alpha": alpha,
        "mi": mi,
        "conv": conv,
        "levels": levels,
        "readout": readout,
        "width": width,
        "class_weight": class_weight,
        "features": features,
        "vocabulary": vocabulary,
        "attributes": attributes or None,
    }
    asked: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    for name, setting in map(parse_setting, changes or []):
        if name in asked:
            raise UserError(f"{name} is given twice")
        asked[name] = setting
    chosen = recipe_named(recipe).but(**asked)
    run.check_device(device)
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    wanted = _splits(graphs, seed, splits or 1, first or 0, split_kind or "random", splits_file, folds)
    try:
        with reporting(len(wanted), chosen.epochs, chosen.patience, ensemble) as tell:
            result = run.train(
                graphs,
                method=method,
                recipe=chosen,
                splits=wanted,
                seed=seed,
                ensemble=ensemble,
                device=device,
                jobs=jobs,
                tf32=tf32,
                out=out,
                resume=resume,
                overwrite=overwrite,
                tell=tell,
            )
    except KeyboardInterrupt:
        how = f"the same command with --resume goes on from {out}" if out else "nothing is kept without --out DIR"
        raise Interrupted(f"stopped; {how}") from None
    if as_json:
        typer.echo(json.dumps(result.to_json(), ensure_ascii=False, allow_nan=False))
    else:
        output().print(*result_tables(result, title, out), sep="\n")


def _exclude(one: str, first: object, other: str, second: object) -> None:
    if first not in (None, False) and second not in (None, False):
        raise UserError(f"{one} and {other} exclude each other")


def _splits(
    graphs: "GraphSet", seed: int, count: int, first: int, kind: str, file: Path | None, folds: int | None
) -> "Sequence[Split]":
    from cgipool.data import fold_splits, random_splits, read_splits

    if file is not None:
        return read_splits(file, graphs.n_graphs)
    if folds is not None:
        return fold_splits(graphs, folds, seed)
    return random_splits(graphs, seed=seed, indices=range(first, first + count), kind=kind)
