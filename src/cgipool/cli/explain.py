"""`cgipool explain`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cgipool.cli.errors import say
from cgipool.cli.options import ALLOW_CODE, DEVICE, MODEL
from cgipool.errors import UserError, counted, excerpt

if TYPE_CHECKING:
    from rich.table import Table

    from cgipool.data import GraphSet
    from cgipool.explain import Explanation, Faithfulness
    from cgipool.inference.fitted import FittedModel

FORMS = (".svg", ".png", ".html")
"""File formats of drawings."""

TOP = 5
"""Number of kept nodes shown for each level."""


def explain(
    model: MODEL,
    data: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A name, a TU archive or folder, or a saved set; with --graph also a CSV of SMILES."
        ),
    ],
    graph: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Explain one graph: its id, or its position counted from 0."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --graph: write a picture (.svg, .png) or a page (.html).")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="MODEL2", help="With --graph: compare with another model.")
    ] = None,
    scores: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the scores of all nodes of all graphs as CSV.")
    ] = None,
    faithful: Annotated[
        bool, typer.Option("--faithfulness", help="Measure on all graphs how well the kept nodes predict.")
    ] = False,
    member: Annotated[int, typer.Option(min=0, help="Member to explain if MODEL is an ensemble.")] = 0,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Target column to explain, for a model of several. Default: the first; for --faithfulness, the mean.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random nodes of --faithfulness.")] = 0,
    device: DEVICE = "cpu",
    allow_code: ALLOW_CODE = False,
) -> None:
    """Show the nodes that a model keeps at each level and their scores, and measure how faithful this is."""
    from cgipool.data.importers.lines import is_table
    from cgipool.files import writable
    from cgipool.inference.fitted import FittedModel
    from cgipool.inference.predict_input import open_graphs

    _check_drawing(graph, out, against)
    if graph is None and scores is None and not faithful:
        raise UserError("nothing to explain: use --graph ID, --scores FILE or --faithfulness")
    if (scores is not None or faithful) and is_table(Path(data)):
        option = "--faithfulness" if scores is None else "--scores"
        raise UserError(
            f"{data} is a table of SMILES: --graph ID explains single rows; for {option}, import it first: "
            f"cgipool data import {shlex.quote(data)} --out DIR"
        )
    for path in (out, scores):
        if path is not None:
            writable(path)
    fitted = FittedModel.load(model, device, allow_code)
    other = None if against is None else FittedModel.load(against, device, allow_code)
    if graph is not None:
        _explain_graph(fitted, other, data, graph, member, target, out)
    if scores is None and not faithful:
        return
    graphs = open_graphs(data)
    if scores is not None:
        _write_scores(fitted, graphs, member, scores, Path(data))
    if faithful:
        _measure(fitted, graphs, member, seed, target)


def _check_drawing(graph: str | None, out: Path | None, against: Path | None) -> None:
    """Check options that depend on each other, before anything is read."""
    if graph is None and (out is not None or against is not None):
        raise UserError(f"--{'against' if out is None else 'out'} needs --graph ID")
    if out is not None and out.suffix.lower() not in FORMS:
        raise UserError(f"cannot draw {out}: its name must end in {', '.join(FORMS)}")
    if out is not None and against is not None and out.suffix.lower() != ".html":
        raise UserError("two models can only be drawn on a page: use --out FILE.html")


def _explain_graph(
    model: "FittedModel",
    other: "FittedModel | None",
    data: str,
    which: str,
    member: int,
    target: str | None,
    out: Path | None,
) -> None:
    from cgipool.cli.errors import output
    from cgipool.explain import draw, explain_at, page
    from cgipool.files import write_atomically

    found = [explain_at(model, data, which, member, target)]
    if other is not None:
        found.append(explain_at(other, data, which, 0, target))
    say(f"{found[0].name}: {found[0].size}")
    for one in found:
        output().print("", one.verdict, _listed(one), "", levels_table(one), sep="\n")
    if out is None:
        return
    form = out.suffix.lower()
    content = page(found).encode() if form == ".html" else draw(found[0], form[1:])
    write_atomically(out, lambda temporary: temporary.write_bytes(content))
    if model.featurizer is not None and found[0].molecule is None:
        typer.echo("\natoms are drawn as plain nodes; to draw molecules, install RDKit: pip install 'cgipool[chem]'")
    typer.echo(f"\n{'page' if form == '.html' else 'picture'}: {out}")


def _listed(one: "Explanation") -> str:
    """All predictions on a line."""
    what, form = ("values", ".4g") if one.task == "regression" else ("probabilities", ".3f")
    return f"{what}: " + ", ".join(f"{excerpt(name)} {value:{form}}" for name, value in one.predictions.items())


def levels_table(one: "Explanation") -> "Table":
    """The numbers of kept nodes and edges at each level, and the best nodes with their scores (without scores, the
    first nodes)."""
    from cgipool.cli.tables import plain_table

    best = "first nodes" if one.trace.ranking is None else f"best by {one.trace.ranking}"
    table = plain_table("level", "nodes kept", "edges kept", best, *one.trace.scores, left=0)
    for level, (nodes, edges) in enumerate(zip(one.nodes_left, one.edges_left, strict=True)):
        counts = (str(level + 1), f"{nodes} of {one.graph.n_nodes}", f"{edges} of {len(one.edges)}")
        for place, node in enumerate(one.best(level, TOP)):
            label = one.labels[node] if one.molecule is not None else " ".join(one.node_names[node : node + 1])
            numbers = (f"{values[level, node]:.4f}" for values in one.trace.scores.values())
            table.add_row(*(counts if place == 0 else ("", "", "")), f"{label} {node}".strip(), *numbers)
    return table


def _write_scores(model: "FittedModel", graphs: "GraphSet", member: int, path: Path, source: Path) -> None:
    from cgipool.explain import write_scores
    from cgipool.explain.explanation import graph_ids
    from cgipool.files import write_atomically

    count = unread = 0

    def write(temporary: Path) -> None:
        nonlocal count, unread
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            count, unread = write_scores(stream, model, graphs, member, ids=graph_ids(source, graphs))

    write_atomically(path, write)
    typer.echo(f"{path}: {counted(count, 'graph')}" + (f"; {unread:,} could not be read" if unread else ""))


def _measure(model: "FittedModel", graphs: "GraphSet", member: int, seed: int, target: str | None) -> None:
    from cgipool.cli.errors import output
    from cgipool.explain import faithfulness

    found = faithfulness(model, graphs, member, seed, target)
    many = len(model.members)
    say(
        (f"member {member} of {many} on " if many > 1 else "") + f"{counted(found.graphs, 'graph')} of {graphs.name}; "
        f"the last level keeps {100 * found.left:.1f} % of a graph's nodes"
        + (f"; {counted(found.unread, 'graph')} could not be read" if found.unread else "")
    )
    output().print(*faithfulness_tables(found, graphs.name), sep="\n")


def faithfulness_tables(found: "Faithfulness", name: str) -> list["Table | str"]:
    """How well the kept nodes predict; a line of text replaces a table that cannot be computed."""
    from cgipool.cli.tables import plain_table
    from cgipool.task.metrics import KNOWN

    shown: list[Table | str] = [""]
    if found.motif is None or found.chance is None:
        shown.append(f"{name} does not say which nodes decide the class, so their share is not shown")
    else:
        shares = plain_table("share kept of the nodes that decide the class", "by the model, %", "at random, %")
        for level, (motif, chance) in enumerate(zip(found.motif, found.chance, strict=True), 1):
            shares.add_row(f"after level {level}", f"{100 * motif:.1f}", f"{100 * chance:.1f}")
        shown.append(shares)
    known = KNOWN[found.metric]
    if found.scores is None:
        what = "class that the model knows" if found.metric == "accuracy" else "target that the model predicts"
        return [*shown, "", f"no graph of {name} has a {what}, so {known.title} is not shown"]
    heading = known.title + (f" of {excerpt(found.target)}" if found.target else "") + (", %" if known.percent else "")
    scores = plain_table("the same model on", heading)
    for part, value in found.scores.items():
        scores.add_row(part, f"{100 * value:.1f}" if known.percent else f"{value:.3f}")
    return [*shown, "", scores]
