"""`cgipool predict`."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

import typer

TELL = 0.5
"""Seconds between two looks at the rate."""


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `cgipool fit` wrote.")],
    data: Annotated[
        str, typer.Argument(metavar="INPUT", help="A TU archive or folder, a saved set, a name, or a CSV of SMILES.")
    ],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the rows go. Default: stdout.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Lines of JSON instead of CSV.")] = False,
    smiles: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of SMILES. Default: the one called so.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first graph that cannot be read.")] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="The I-th of N consecutive shares alone; put end to end, they are the whole."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Predict the class of every graph: id, prediction, a probability for each class.

    A graph that cannot be read has a row without probabilities and with the reason. Memory does not grow with the
    number of graphs; a saved set stays on disk. Of the shares of a CSV the first alone has the header.
    """
    from cgipool.fitted import FittedModel
    from cgipool.predict import Writer, chunks_of, count_of, predictions, shard_of
    from cgipool.study.share import parse_shard

    number, shards = (1, 1) if shard is None else parse_shard(shard)
    fitted = FittedModel.load(model, device)
    start, stop = (0, None) if shards == 1 else shard_of(count_of(data), number, shards)
    rows = predictions(fitted, chunks_of(data, fitted, smiles, start, stop), strict)
    began, last, count, bad = time.monotonic(), 0.0, 0, 0
    with _output(out) as stream:
        writer = Writer(stream, fitted.class_names, as_json, headed=number == 1)
        for row in rows:
            writer.write(row)
            count, bad = count + 1, bad + (row.probabilities is None)
            now = time.monotonic()
            if sys.stderr.isatty() and now - last >= TELL:
                last = now
                print(f"\r{count:,} graphs, {count / (now - began):,.0f} a second", end="", file=sys.stderr)
    rate = count / max(time.monotonic() - began, 1e-9)
    told = f"{count:,} graphs, {rate:,.0f} a second" + (f"; {bad:,} could not be read" if bad else "")
    print(f"\r{told}" if sys.stderr.isatty() else told, file=sys.stderr)


@contextlib.contextmanager
def _output(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    with out.open("w", encoding="utf-8", newline="") as stream:
        yield stream
