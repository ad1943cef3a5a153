"""`cgipool data list | info | fetch | import`."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgipool.cli.options import AS_JSON, ID, MAX_ATOMS, MAX_SIZE, parse_size
from cgipool.errors import counted, unknown

if TYPE_CHECKING:
    from cgipool.data.importers import Saved
    from cgipool.data.spill import ImportProgress

app = typer.Typer(help="List, describe, download and import data sets.", add_completion=False)


LISTED = 20
"""Number of skipped rows that are listed one by one."""


@app.callback(invoke_without_command=True)
def _start(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_() -> None:
    """List the data sets known by name, and where each is on this machine."""
    from cgipool.cli.errors import output
    from cgipool.cli.tables import catalogue_table
    from cgipool.data import CATALOGUE

    output().print(catalogue_table(CATALOGUE, {name: place_of(name) for name in CATALOGUE}))


@app.command()
def info(
    data: Annotated[
        str,
        typer.Argument(metavar="NAME|PATH", help="A name from `data list`, a TU archive or folder, or a saved set."),
    ],
    as_json: AS_JSON = False,
) -> None:
    """Describe a data set: size, classes, columns, dropped parts and duplicates."""
    from cgipool.cli.errors import output
    from cgipool.cli.progress import downloading
    from cgipool.cli.tables import info_table
    from cgipool.data import describe, load_dataset

    with downloading() as progress:
        described = describe(load_dataset(data, unlabelled=True, progress=progress))
    if as_json:
        typer.echo(json.dumps(described, allow_nan=False))
    else:
        output().print(info_table(described))


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names from `cgipool data list`.")],
) -> None:
    """Download data sets into the cache, replacing existing copies."""
    from cgipool.cli.progress import downloading
    from cgipool.data import CATALOGUE
    from cgipool.data import fetch as download

    spelt = {name.lower(): name for name in CATALOGUE}
    for name in names:
        if name.lower() not in spelt:
            raise unknown("data set", name, CATALOGUE)
    others = elsewhere()
    for name in (spelt[name.lower()] for name in names):
        if name in others:
            typer.echo(f"{name} {others[name]}: nothing to download")
            continue
        with downloading(name) as progress:
            path = download(name, progress)
        typer.echo(f"{name}: {path}")


LABEL = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with the classes or numbers to predict. Can be repeated, and may be a pattern such as 'NR-*'.",
    ),
]
TASK = Annotated[
    str,
    typer.Option(
        help="classification, regression or multilabel. auto: several 0/1 columns are multilabel, other numbers "
        "with fractions or more than 20 different values regression, all else classification."
    ),
]
FORMAT = Annotated[
    str, typer.Option("--format", help="tu, smiles, sdf, graphml, edges or pyg; auto detects it from the path.")
]
THRESHOLD = Annotated[
    float | None, typer.Option(metavar="T", help="Make two classes of a numeric column: below T, and T or above.")
]
SKIP_UNLABELLED = Annotated[bool, typer.Option("--skip-unlabelled", help="Skip rows without a label.")]
UNLABELLED = Annotated[
    bool, typer.Option("--unlabelled", help="Import graphs without classes, for `predict` and `explain`.")
]
FRAGMENT = Annotated[
    bool, typer.Option("--largest-fragment", help="Keep only the largest fragment of each molecule (no salts).")
]
FEATURIZER = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="A function of yours with further features of molecules: takes an RDKit molecule, returns numbers "
        'for its "atoms" and "bonds".',
    ),
]
DIRECTED = Annotated[
    bool, typer.Option("--directed", help="Keep the direction of edges. Default: add the missing reverses.")
]
SCAFFOLD_SPLITS = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Write N scaffold splits to DIR/scaffold-splits.json.")
]


@app.command("import")
def import_(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file, a folder, or the name solubility.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the saved set; an existing one is replaced.")],
    label: LABEL = None,
    task: TASK = "auto",
    smiles: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with the SMILES.")] = None,
    id_: ID = None,
    name: Annotated[str | None, typer.Option(help="Name of the set. Default: from PATH.")] = None,
    form: FORMAT = "auto",
    threshold: THRESHOLD = None,
    skip_unlabelled: SKIP_UNLABELLED = False,
    unlabelled: UNLABELLED = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be read.")] = False,
    largest_fragment: FRAGMENT = False,
    featurizer: FEATURIZER = None,
    directed: DIRECTED = False,
    scaffold_splits: SCAFFOLD_SPLITS = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the scaffold splits.")] = 0,
    max_atoms: MAX_ATOMS = 3000,
    max_size: MAX_SIZE = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that read molecules.")] = 1,
    as_json: AS_JSON = False,
) -> None:
    """Import your own data (TU, SMILES, SDF, GraphML, edge lists, PyG) and save it for the other commands."""
    from cgipool.cli.errors import output
    from cgipool.cli.tables import info_table
    from cgipool.data import describe
    from cgipool.data.importers import ImportOptions, import_to, read_skipped

    options = ImportOptions(
        label=tuple(label) if label else None,
        task=task,
        smiles=smiles,
        threshold=threshold,
        skip_unlabelled=skip_unlabelled,
        strict=strict,
        largest_fragment=largest_fragment,
        featurizer=featurizer,
        unlabelled=unlabelled,
        directed=directed,
        id=id_,
        max_atoms=max_atoms,
        max_size=parse_size(max_size),
    )
    scaffolds = None if scaffold_splits is None else (scaffold_splits, seed)
    with importing() as tell:
        saved = import_to(path, out, form=form, name=name, options=options, scaffolds=scaffolds, tell=tell, jobs=jobs)
    described = describe(saved.graphs)
    if as_json:
        skipped = [row._asdict() for row in read_skipped(out)]
        more = {"skipped": skipped, "notes": saved.notes, "out": str(out)}
        typer.echo(json.dumps(described | more, allow_nan=False))
        return
    console = output()
    console.print(info_table(described))
    for line in _closing(saved, out):
        console.print(line, soft_wrap=True)


@contextmanager
def importing() -> Iterator["ImportProgress"]:
    """Yields a callback for the progress of an import: one changing line on a terminal, occasional lines elsewhere."""
    from cgipool.cli.progress import SECONDS, stderr

    console, alive = stderr()
    last = time.monotonic()

    def tell(what: str, count: int) -> None:
        nonlocal last
        if time.monotonic() - last >= (0.5 if alive else SECONDS):
            last = time.monotonic()
            status.update(f"reading: {count:,} {what}")
            if not alive:
                console.print(f"reading: {count:,} {what}")

    with console.status("reading") as status:
        yield tell


def _closing(saved: "Saved", out: Path) -> Iterator[str]:
    """Yield the notes, the skipped rows (only the first if there are many) and the output paths."""
    from cgipool.data.importers import read_skipped
    from cgipool.data.importers.imported import GIVEN

    yield from saved.notes
    for row, reason, text in islice(read_skipped(out), LISTED):
        yield f"left out: row {row}, {text!r}: {reason}"
    if saved.skipped > LISTED:
        yield f"left out: {counted(saved.skipped - LISTED, 'more row')}, all listed in {out / 'skipped.csv'}"
    for file, count in saved.splits.items():
        used = ", from the column 'split'; `train` uses it by default" if file == GIVEN else ""
        yield f"{counted(count, 'split')}: {out / file}{used}"
    yield f"saved in {out}"


def elsewhere() -> dict[str, str]:
    """Data sets of the catalogue that are not downloaded, and where they come from."""
    from cgipool.data.catalogue import CATALOGUE
    from cgipool.data.generated import GENERATED

    extras = {name: entry.extra for name, entry in CATALOGUE.items() if entry.extra}
    words = {name: f"comes with the {extra} extra (pip install 'cgipool[{extra}]')" for name, extra in extras.items()}
    return dict.fromkeys(GENERATED, "is built in") | words


def place_of(name: str) -> str:
    """Return where a catalogue data set is on this machine; empty if it must be downloaded."""
    from cgipool.data.catalogue import extra_of
    from cgipool.data.generated import GENERATED
    from cgipool.data.importers.read import solubility_is_installed
    from cgipool.data.sources import data_folder, find

    if name in GENERATED:
        return "built in"
    path = find(name)
    if path is None:
        return f"extra {extra_of(name)}" if extra_of(name) and solubility_is_installed() else ""
    return "CGIPOOL_DATA" if path.parent == data_folder() else "cache"
