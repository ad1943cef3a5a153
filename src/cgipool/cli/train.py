"""`cgipool train`."""

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgipool.cli.errors import exclude
from cgipool.cli.launched import check_launch, spoken_once
from cgipool.cli.options import DATA
from cgipool.cli.train_splits import GIVEN, draw_splits, train_alone, train_by_all
from cgipool.errors import UserError

if TYPE_CHECKING:
    from cgipool.training.recipe import Recipe

SPLITS, MODEL, INPUT, OUTPUT = "Splits", "Model and training", "Input features", "Execution and output"


def parse_ratio(text: str) -> float | int:
    """A whole number is a count of nodes; with a point or an exponent it is a share. The recipe checks the range."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise UserError(f"--ratio must be a share in (0, 1], such as 0.8, or a number of nodes, not {text!r}") from None


@spoken_once
def train(
    data: DATA = "motifs",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="Pooling method (see `cgipool methods`), or a class of your own.",
            rich_help_panel=MODEL,
        ),
    ] = "cgi",
    recipe: Annotated[
        str,
        typer.Option(
            help="Preset for all settings: paper, released or strong. The defaults below are the paper's.",
            rich_help_panel=MODEL,
        ),
    ] = "paper",
    splits: Annotated[
        int | None, typer.Option(min=1, help="Number of splits. Default: 1.", rich_help_panel=SPLITS)
    ] = None,
    first: Annotated[
        int | None, typer.Option(min=0, help="Number of the first split. Default: 0.", rich_help_panel=SPLITS)
    ] = None,
    split_kind: Annotated[
        str | None,
        typer.Option(
            help="random, stratified (by class), distinct (duplicates stay together), scaffold (for molecules), or "
            "given (by the column split of imported data). Default: given if there is one, else random; for --folds, "
            "stratified.",
            rich_help_panel=SPLITS,
        ),
    ] = None,
    splits_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the splits, such as splits.json of a run; graphs in no split are left out.",
            rich_help_panel=SPLITS,
        ),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=3, help="Number of folds for cross-validation.", rich_help_panel=SPLITS)
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the splits, the weights and all random draws.", rich_help_panel=SPLITS)
    ] = 0,
    ensemble: Annotated[
        int,
        typer.Option(
            min=1,
            help="Models per split whose probabilities are averaged.",
            rich_help_panel=MODEL,
        ),
    ] = 1,
    ratio: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE|COUNT",
            help="Nodes that a pooling layer keeps: a share up to 1.0, or a number of nodes. Default: 0.8.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of epochs. Default: 1000.", rich_help_panel=MODEL)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop after this many epochs without a lower validation loss. Default: 100.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Graphs per step. Default: 128.", rich_help_panel=MODEL)
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Weight of the mutual-information loss. Default: 0.001 (on PROTEINS: 1).",
            rich_help_panel=MODEL,
        ),
    ] = None,
    mi: Annotated[
        str | None,
        typer.Option(help="Bound on the mutual information: gan or kl. Default: gan.", rich_help_panel=MODEL),
    ] = None,
    conv: Annotated[
        str | None,
        typer.Option(
            help="Graph convolution: gcn, gcn-root, sage or gin. Default: gcn (released: sage).",
            rich_help_panel=MODEL,
        ),
    ] = None,
    levels: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of levels (convolution, pooling, readout). Default: 3.", rich_help_panel=MODEL
        ),
    ] = None,
    readout: Annotated[
        str | None,
        typer.Option(help="Readout of a level: max-mean, mean, max or sum. Default: max-mean.", rich_help_panel=MODEL),
    ] = None,
    width: Annotated[
        int | None, typer.Option(min=2, help="Dimension of node embeddings. Default: 128.", rich_help_panel=MODEL)
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(help="balanced: weight classes by inverse frequency. Default: none.", rich_help_panel=MODEL),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change any other setting of the recipe, such as lr=0.001. A wrong name lists all. Can be repeated.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Node features: label, degree, or auto (labels if there are any). Default: auto.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            help="Take node categories from the train graphs or from all. Default: train (released: all).",
            rich_help_panel=INPUT,
        ),
    ] = None,
    attributes: Annotated[
        bool, typer.Option("--attributes", help="Also use node attributes.", rich_help_panel=INPUT)
    ] = False,
    device: Annotated[
        str, typer.Option(help="cpu, or cuda: all splits at once on a GPU.", rich_help_panel=OUTPUT)
    ] = "cpu",
    jobs: Annotated[
        int,
        typer.Option(
            min=1, help="Splits trained in parallel on a CPU, one thread each if more than 1.", rich_help_panel=OUTPUT
        ),
    ] = 1,
    distributed: Annotated[
        bool,
        typer.Option("--distributed", help="Train each model with all processes of torchrun.", rich_help_panel=OUTPUT),
    ] = False,
    tf32: Annotated[
        bool,
        typer.Option("--tf32/--no-tf32", help="Use TF32 for matrix products on a GPU.", rich_help_panel=OUTPUT),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(help="Save the run in this folder. Default: not saved.", rich_help_panel=OUTPUT)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out.", rich_help_panel=OUTPUT)
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in --out.", rich_help_panel=OUTPUT)
    ] = False,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="Class whose ROC-AUC and PR-AUC are shown; all classes are stored. Default: class 1 of a data set "
            "known by name, the rarer class of your own data, or the mean over more than two classes.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print only a JSON object on stdout.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Train a pooling method on splits of a data set, and test each split once."""
    exclude("--resume", resume, "--overwrite", overwrite)
    exclude("--splits-file", splits_file, "--folds", folds)
    for given, value in (("--splits-file", splits_file), ("--folds", folds)):
        for name, other in (("--splits", splits), ("--first", first)):
            exclude(given, value, name, other)
    exclude("--splits-file", splits_file, "--split-kind", split_kind)
    if split_kind == GIVEN:
        exclude("--split-kind given", True, "--splits", splits)
        exclude("--split-kind given", True, "--first", first)
        exclude("--split-kind given", True, "--folds", folds)
    if (resume or overwrite) and out is None:
        raise UserError("--resume and --overwrite need --out DIR, the folder of the run")
    if distributed:
        check_launch(jobs, ensemble)
    share = None if ratio is None else parse_ratio(ratio)

    from cgipool.cli.tables import output, result_tables
    from cgipool.pool import method_named

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
    choose = functools.partial(_recipe, recipe, settings, changes or [])
    choose()  # report wrong settings before reading the data
    draw = functools.partial(
        draw_splits,
        data=data,
        seed=seed,
        count=splits,
        first=first,
        kind=split_kind,
        file=splits_file,
        folds=folds,
        positive=positive,
    )
    run = {"method": method, "seed": seed, "tf32": tf32}
    run |= {"out": out, "resume": resume, "overwrite": overwrite}
    if distributed:
        result = train_by_all(data, draw, choose, device, run)
    else:
        result = train_alone(data, draw, choose, run | {"device": device, "jobs": jobs, "ensemble": ensemble})
    if result is None:
        return
    if positive is not None:
        result = result.of_class(positive)
    if as_json:
        typer.echo(json.dumps(result.to_json(), allow_nan=False))
    else:
        output().print(*result_tables(result, title, out), sep="\n")


def _recipe(name: str, settings: dict[str, Any], changes: list[str], family: str = "molecules") -> "Recipe":
    """The recipe of this name for a family of data sets, with the settings that are not None and those of --set."""
    from cgipool.training.recipe import parse_settings, recipe_named

    asked = {setting: value for setting, value in settings.items() if value is not None}
    further = parse_settings(changes)
    if twice := sorted(asked.keys() & further.keys()):
        raise UserError(f"{twice[0]} is given twice")
    return recipe_named(name, family).but(**asked, **further)
