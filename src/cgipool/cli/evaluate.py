"""`cgipool evaluate`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgipool.cli.options import (
    ALLOW_CODE,
    AS_JSON,
    DEVICE,
    ID,
    MAX_ATOMS,
    MAX_SIZE,
    METRIC,
    MODEL,
    POSITIVE,
    parse_size,
)
from cgipool.errors import UserError, counted

if TYPE_CHECKING:
    from rich.table import Table

    from cgipool.inference.evaluation import ModelEvaluation


def evaluate(
    model: MODEL,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Labelled graphs: a name, a TU archive or folder, or a saved set; or molecules: a table of SMILES "
            "(CSV, TSV, .smi, Parquet) or an SDF.",
        ),
    ],
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Label column of a table. Can be repeated. Default: the columns that the model predicts; for classes, "
            "a column named label, class or y.",
        ),
    ] = None,
    metric: METRIC = None,
    positive: POSITIVE = None,
    as_json: AS_JSON = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write a page with a reliability diagram, or with predicted against measured values.",
        ),
    ] = None,
    smiles: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with the SMILES. Default: one named smiles or similar.")
    ] = None,
    id_: ID = None,
    device: DEVICE = "cpu",
    max_atoms: MAX_ATOMS = 3000,
    max_size: MAX_SIZE = None,
    allow_code: ALLOW_CODE = False,
) -> None:
    """Print every metric of a model on labelled graphs that it was not trained on.

    Graphs without a label and graphs that cannot be read are left out and counted.
    """
    from cgipool.cli.errors import output
    from cgipool.data.importers.lines import Asked
    from cgipool.files import writable, write_text_atomically
    from cgipool.inference.evaluation import evaluate_model
    from cgipool.inference.fitted import FittedModel
    from cgipool.task.metrics import check_metric

    if out is not None:
        if out.suffix.lower() != ".html":
            raise UserError(f"--out writes a page: its name must end in .html, not {out.name}")
        writable(out)
    fitted = FittedModel.load(model, device, allow_code)
    first = check_metric(fitted.task_name, metric)
    asked = Asked(smiles, id_, (), max_atoms, parse_size(max_size))
    found = evaluate_model(fitted, data, label or (), asked, positive)
    if out is not None:
        from cgipool.inference.evaluation_page import evaluation_page

        page = evaluation_page(found, first)
        write_text_atomically(out, lambda stream: stream.write(page))
    if as_json:
        typer.echo(json.dumps(found.to_json(), allow_nan=False))
    else:
        output().print(*evaluation_tables(found, first), sep="\n")
        if out is not None:
            typer.echo(f"\npage: {out}")


def evaluation_tables(found: "ModelEvaluation", first: str) -> list["Table | str"]:
    """All metrics, and for several target columns those of each column."""
    from cgipool.cli.tables import plain_table
    from cgipool.task.metrics import KNOWN, ordered, titles_of, written

    heading = f"{found.data}: {counted(len(found.ids), 'graph')}"
    heading += f"; {found.unlabelled:,} without a label left out" if found.unlabelled else ""
    heading += f"; {found.unread:,} without a prediction left out" if found.unread else ""
    titles, names = titles_of(found.task.name), ordered(found.task.name, first)
    table = plain_table("metric", "value")
    for name in names:
        table.add_row(titles[name].format(found.positive), written(name, found.values.get(name)))
    shown: list[Table | str] = [heading, "", table]
    each = found.by_column
    if len(each) > 1 and found.classes is None:
        columns = plain_table("column", *(KNOWN[name].title + (", %" if KNOWN[name].percent else "") for name in names))
        for column, values in each.items():
            columns.add_row(column, *(written(name, values[name]) for name in names))
        shown += ["", columns]
    return shown
