"""`cgipool demo`."""

from pathlib import Path
from typing import Annotated

import typer

from cgipool.errors import counted


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("runs/demo"),
    epochs: Annotated[int | None, typer.Option(min=1, help="Number of training epochs. Default: 50.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, the weights and all random draws.")] = 0,
) -> None:
    """Train CGIPool on generated graphs with known motifs, and show how much of each motif the pooling keeps."""
    from cgipool.cli.errors import output
    from cgipool.cli.progress import reporting
    from cgipool.cli.tables import demo_tables
    from cgipool.explain.demo import EPOCHS, run_demo

    epochs = epochs or EPOCHS
    output().print(f"CGIPool, paper recipe, {counted(epochs, 'epoch')} on the built-in data set motifs")
    with reporting(None, epochs, patience=epochs) as tell:
        shown = run_demo(out, epochs=epochs, seed=seed, tell=tell)
    output().print(*demo_tables(shown), sep="\n")
