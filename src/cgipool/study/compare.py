"""A study of one data set, perhaps the user's own: all methods under one protocol."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cgipool.data.catalogue import CATALOGUE
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import KINDS, check_graphs, random_splits
from cgipool.errors import UserError, counted, unknown
from cgipool.files import read_json
from cgipool.pool import method_named
from cgipool.study import fingerprints
from cgipool.study.cell import Cell, Protocol
from cgipool.study.plan import Study
from cgipool.training.recipe import parse_settings, recipe_named
from cgipool.training.run import content_of


def comparison(
    graphs: GraphSet,
    given: str,
    methods: Sequence[str],
    recipe: str,
    splits: int,
    split_kind: str,
    seed: int,
    changes: Sequence[str] = (),
    ensemble: int = 1,
) -> Study:
    """The study; `given` is how the user named the data set. Its cells know a set of the user's own by its content. The
    control by fingerprints, a forest anyway, is no ensemble of several."""
    check_graphs(graphs)
    for method in methods:
        if method != fingerprints.NAME:
            method_named(method)
    if split_kind not in KINDS:
        raise unknown("kind of split", split_kind, KINDS)
    if split_kind == "scaffold":
        random_splits(graphs, seed=seed, indices=[0], kind=split_kind)  # told now, not by every cell: these have none
    chosen = recipe_named(recipe, graphs.family).but(**parse_settings(changes))
    protocol = Protocol(splits=splits, seed=seed, split_kind=split_kind, ensemble=ensemble)
    known = graphs.name in CATALOGUE and given == graphs.name
    path, content = (None, None) if known else (Path(given), content_of(graphs))
    cells = [
        Cell(
            method,
            graphs.name,
            chosen,
            replace(protocol, ensemble=1) if method == fingerprints.NAME else protocol,
            {"method": method, "dataset": graphs.name},
            path=path,
            content=content,
        )
        for method in methods
    ]
    how = f"{counted(splits, f'{split_kind} split')}, recipe {chosen.name}"
    how += f", ensembles of {ensemble}" if ensemble > 1 else ""
    return Study(
        name="compare-" + "".join(c if c.isalnum() or c in "._-" else "-" for c in graphs.name),
        title=f"Pooling methods on {graphs.name}",
        about=f"{graphs.n_graphs} graphs, {graphs.n_classes} classes; {how}.",
        source="",
        baseline="cgi" if "cgi" in methods else methods[0],
        curves=None,
        axes={"method": list(methods), "dataset": [graphs.name]},
        cells=cells,
    )


def replaced_by(study: Study, folder: Path) -> str | None:
    """What the comparison of this name in a store is about, if it has cells that this one has not."""
    with suppress(UserError, AttributeError, KeyError, TypeError):  # there is none, or it is damaged
        before = read_json(folder / "studies" / f"{study.name}.json")
        if {cell["key"] for cell in before["cells"]} - {cell.key for cell in study.cells}:
            return str(before["about"]).removesuffix(".")
    return None
