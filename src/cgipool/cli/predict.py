"""`cgipool predict`."""

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from cgipool.cli.options import ALLOW_CODE, DEVICE, ID, MAX_ATOMS, MAX_SIZE, MODEL, parse_size
from cgipool.errors import UserError, counted

if TYPE_CHECKING:
    from cgipool.data.importers.lines import Asked
    from cgipool.inference.predict import WrittenRows

TELL = 0.5
"""Seconds between two updates of the rate."""

OVER = "\r\x1b[K"
"""Moves to the start of a terminal's line and clears it."""


def predict(
    model: MODEL,
    data: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A name, a TU archive or folder, or a saved set; or molecules: a table of SMILES (CSV, TSV, .smi, "
            "Parquet), an SDF, or - for standard input.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File for the rows. Default: stdout.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines instead of CSV.")] = False,
    smiles: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with the SMILES. Default: one named smiles or similar.")
    ] = None,
    id_: ID = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Copy this column of INPUT to the output; all: every column. Can be repeated."
        ),
    ] = None,
    spread: Annotated[
        bool, typer.Option("--spread", help="Add the standard deviation over the members of an ensemble.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first graph that cannot be read.")] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N|rank",
            help="Predict only part I of N. rank: the part of this torchrun or srun process, in a file of its own such "
            "as rows-1-of-4.csv.",
        ),
    ] = None,
    device: DEVICE = "cpu",
    on: Annotated[
        str | None,
        typer.Option(
            metavar="RAY",
            help="Predict on Ray, as in `study run`: ray, ray:auto, ray:HOST:PORT or ray://HOST:PORT. Every node must "
            "be able to read INPUT at the same path.",
        ),
    ] = None,
    max_atoms: MAX_ATOMS = 3000,
    max_size: MAX_SIZE = None,
    allow_code: ALLOW_CODE = False,
) -> None:
    """Predict every graph: its class and a probability for each class, or its target values.

    The graphs do not need classes: a TU set may lack its graph labels, and `data import --unlabelled` saves a set
    without classes. Graphs without an id are identified by their position, counted from 0.

    A graph that cannot be read gets a row with the reason instead of probabilities. So does a graph whose output is not
    finite; the exit code is then 1.

    Memory use does not grow with the number of graphs. With --shard, only the first part of a CSV has a header.

    FILE is written when all rows are ready: if the command fails, an existing FILE is unchanged. On stdout, rows appear
    as they are computed, so check the exit code before you use them.
    """
    from cgipool.data.importers.lines import STDIN, Asked, from_stdin

    if data == STDIN and (shard is not None or on is not None):
        raise UserError("standard input cannot be used with --shard or --on")
    asked = Asked(smiles, id_, tuple(keep or ()), max_atoms, parse_size(max_size))
    with from_stdin(data, asked) as path:
        _predict(model, path, asked, out, as_json, strict, shard, device, on, allow_code, spread)


def _predict(
    model: Path,
    data: str,
    asked: "Asked",
    out: Path | None,
    as_json: bool,
    strict: bool,
    shard: str | None,
    device: str,
    on: str | None,
    allow_code: bool,
    spread: bool,
) -> None:
    from cgipool.data.importers.lines import kept_columns, unnamed
    from cgipool.files import writable, write_text_atomically
    from cgipool.inference.fitted import FittedModel
    from cgipool.inference.predict import Writer, shard_of, written
    from cgipool.inference.predict_input import chunks_of, count_of

    number, shards = _share(shard)
    if out is not None:
        writable(out)
    fitted = FittedModel.load(model, "cpu" if on is not None else device, allow_code)
    if spread and len(fitted.members) == 1:
        raise UserError(f"--spread needs an ensemble, and {model} is a single model; train one with fit --ensemble 5")
    asked = asked._replace(keep=kept_columns(data, asked.keep))
    if note := unnamed(data, asked):
        typer.echo(note, err=True)
    start, stop = (0, None) if shards == 1 else shard_of(count_of(data, asked), number, shards)
    if on is None:
        parts = written(fitted, chunks_of(data, fitted, asked, start, stop), as_json, strict, asked.keep, spread)
    else:
        from cgipool.inference.ray import PredictOptions, predict_on_ray

        place = str(Path(data).resolve()) if Path(data).exists() else data
        options = PredictOptions(place, asked, device, as_json, strict, allow_code, spread)
        parts = predict_on_ray(on, model, options, start, stop)
    if shard == "rank" and out is not None:
        out = out.with_name(f"{out.stem}-{number}-of-{shards}{out.suffix}")
    began = time.monotonic()
    first = list(itertools.islice(parts, 1))  # raises errors of Ray before anything is written
    failed = 0

    def write(stream: TextIO) -> None:
        nonlocal failed
        names, task = fitted.task.columns, fitted.task_name
        Writer(stream, names, as_json, headed=number == 1, keep=asked.keep, task=task, spread=spread)
        failed = _write(itertools.chain(first, parts), stream, began)

    if out is None:
        write(sys.stdout)
    else:
        write_text_atomically(out, write)
    if failed:
        raise typer.Exit(1)


def _share(shard: str | None) -> tuple[int, int]:
    """The number of the part, counted from 1, and the number of parts."""
    from cgipool.study.share import parse_shard, shard_of_rank

    if shard is None:
        return 1, 1
    return shard_of_rank() if shard == "rank" else parse_shard(shard)


def _write(parts: "Iterator[WrittenRows]", stream: TextIO, began: float) -> int:
    """Write rows as they come and report the rate; return the number of outputs that were not finite."""
    last, count, bad, nodes, unseen, empty, failed = 0.0, 0, 0, 0, 0, 0, 0
    for part in parts:
        stream.write(part.text)
        count, bad = count + part.graphs, bad + part.bad
        nodes, unseen, empty = nodes + part.nodes, unseen + part.unseen, empty + part.empty
        failed += part.not_finite
        now = time.monotonic()
        if sys.stderr.isatty() and now - last >= TELL:
            last = now
            rate = f"{count / (now - began):,.0f} a second"
            print(f"{OVER}{counted(count, 'graph')}, {rate}", end="", file=sys.stderr)
    seconds = max(time.monotonic() - began, 1e-9)
    line = f"{counted(count, 'graph')}, {count / seconds:,.0f} a second" + (
        f"; {bad:,} could not be read" if bad else ""
    )
    if failed:
        line += f"; for {failed:,} the model's output is not finite"
    if empty:
        line += f"; {empty:,} without nodes, whose predictions mean nothing"
    if unseen:
        line += f"; {100 * unseen / nodes:.2g} % of the nodes have a label or degree that the model was not trained on"
    print(f"{OVER}{line}" if sys.stderr.isatty() else line, file=sys.stderr)
    return failed
