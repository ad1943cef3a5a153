"""`cgipool train`."""

import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cgipool.cli.errors import Interrupted
from cgipool.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgipool.data import GraphSet, Split
    from cgipool.training.result import Result

WAIT_SECONDS = 8.0
"""The first process meets an error that all meet at most by so much later than the others."""

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


def spoken_once(command: Callable[..., None]) -> Callable[..., None]:
    """Of a command that several processes run, an error is told by one: the others wait for torchrun to end them. Those
    that torchrun starts anew have nothing to add to it."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        if not given["distributed"]:
            command(**given)
            return
        from cgipool.training.ranks import Lives

        lives = Lives()
        if lives.refused:
            raise typer.Exit(2)
        try:
            command(**given)
        except UserError as error:
            _give_way(error)
            if lives.refused:
                raise typer.Exit(2) from None
            if not _may_pass(error):
                lives.note_refused()
            raise

    return run


@spoken_once
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
            help="random, stratified (by class), distinct (graphs alike stay on one side), or scaffold (of molecules). "
            "Default: random.",
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
    distributed: Annotated[
        bool,
        typer.Option("--distributed", help="One model by all processes that torchrun started.", rich_help_panel=OUTPUT),
    ] = False,
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
    if distributed:
        _check_launch(jobs, ensemble)
    share = None if ratio is None else parse_ratio(ratio)

    from cgipool.cli.tables import output, result_tables
    from cgipool.pool import method_named
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
    draw = functools.partial(
        _splits,
        seed=seed,
        count=splits or 1,
        first=first or 0,
        kind=split_kind or "random",
        file=splits_file,
        folds=folds,
    )
    run = {"method": method, "recipe": chosen, "seed": seed, "tf32": tf32}
    run |= {"out": out, "resume": resume, "overwrite": overwrite}
    if distributed:
        result = _train_by_all(data, draw, device, run)
    else:
        result = _train(data, draw, run | {"device": device, "jobs": jobs, "ensemble": ensemble})
    if result is None:
        return
    if as_json:
        typer.echo(json.dumps(result.to_json(), ensure_ascii=False, allow_nan=False))
    else:
        output().print(*result_tables(result, title, out), sep="\n")


def _exclude(one: str, first: object, other: str, second: object) -> None:
    if first not in (None, False) and second not in (None, False):
        raise UserError(f"{one} and {other} exclude each other")


def _train(data: str, draw: "Callable[[GraphSet], Sequence[Split]]", run: dict[str, Any]) -> "Result":
    """Train in this process and those of its own."""
    from cgipool.cli.progress import downloading, reporting
    from cgipool.data import load_dataset
    from cgipool.training.run import check_device, train

    check_device(run["device"])
    with downloading() as progress:
        graphs = load_dataset(data, progress=progress)
    splits, recipe = draw(graphs), run["recipe"]
    with _stopped(run["out"]), reporting(len(splits), recipe.epochs, recipe.patience, run["ensemble"]) as tell:
        return train(graphs, splits=splits, tell=tell, **run)


def _train_by_all(
    data: str, draw: "Callable[[GraphSet], Sequence[Split]]", device: str, run: dict[str, Any]
) -> "Result | None":
    """Train in all processes that torchrun started; the result, in the first of them."""
    from cgipool.cli.progress import downloading, reporting
    from cgipool.training.distributed import train_distributed
    from cgipool.training.ranks import process_group

    recipe = run["recipe"]
    with process_group(device) as ranks:
        with downloading() as progress:
            graphs = ranks.open(data, progress)
        splits = ranks.splits_of_first(lambda: draw(graphs))
        if not ranks.first:
            try:
                return train_distributed(graphs, ranks, splits=splits, **run)
            except KeyboardInterrupt:
                raise typer.Exit(130) from None
        with _stopped(run["out"]), reporting(len(splits), recipe.epochs, recipe.patience) as tell:
            return train_distributed(graphs, ranks, splits=splits, tell=tell, **run)


@contextmanager
def _stopped(out: Path | None) -> Iterator[None]:
    """Ctrl-C inside ends with a line that says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        how = f"the same command with --resume goes on from {out}" if out else "nothing is kept without --out DIR"
        raise Interrupted(f"stopped; {how}") from None


def _check_launch(jobs: int, ensemble: int) -> None:
    """An error unless torchrun started this process, for a training that can be divided."""
    _exclude("--distributed", True, "--jobs", jobs > 1)
    _exclude("--distributed", True, "--ensemble", ensemble > 1)

    from cgipool.training.ranks import launched

    if not launched():
        raise UserError(
            "--distributed is for processes of torchrun: torchrun --nproc-per-node 2 -m cgipool train … --distributed"
        )


def _give_way(error: UserError) -> None:
    """Wait for who has more to say of an error: the first process, or the one that left the others alone."""
    from cgipool.training.ranks import Abandoned, is_first

    if isinstance(error, Abandoned):
        time.sleep(2 * WAIT_SECONDS)
    elif not is_first():
        time.sleep(WAIT_SECONDS)


def _may_pass(error: UserError) -> bool:
    """Whether the same command may do better when it is started anew: without the process that is gone, or when the
    disk has room again."""
    from cgipool.training.ranks import Abandoned

    return isinstance(error, Abandoned) or isinstance(error.__context__, OSError)


def _splits(
    graphs: "GraphSet", seed: int, count: int, first: int, kind: str, file: Path | None, folds: int | None
) -> "Sequence[Split]":
    from cgipool.data import fold_splits, random_splits, read_splits

    if file is not None:
        return read_splits(file, graphs.n_graphs)
    if folds is not None:
        return fold_splits(graphs, folds, seed)
    return random_splits(graphs, seed=seed, indices=range(first, first + count), kind=kind)
