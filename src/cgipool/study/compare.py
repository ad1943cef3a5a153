"""A study of one data set, such as the user's own: several methods under one protocol."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cgipool.data.catalogue import CATALOGUE
from cgipool.data.descriptors import check_molecules
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import check_graphs, check_kind
from cgipool.errors import UserError, counted
from cgipool.files import read_json
from cgipool.pool import METHODS, method_named
from cgipool.study.analysis import Analysis
from cgipool.study.cell import Cell, Protocol, checked
from cgipool.study.plan import Study
from cgipool.study.sets import content_for
from cgipool.training.reading import check_edges, has_edge_features
from cgipool.training.recipe import Recipe


def comparison(
    graphs: GraphSet,
    given: str,
    methods: Sequence[str],
    recipe: Recipe,
    splits: int,
    split_kind: str,
    seed: int,
    ensemble: int = 1,
    seeds: int = 1,
    time: str = "",
    sample_weight: str = "",
) -> Study:
    """Build the study; `given` is the data set as the user named it. Cells identify a user's own set by its content."""
    protocol = Protocol(
        splits=splits,
        seed=seed,
        split_kind=split_kind,
        ensemble=ensemble,
        seeds=seeds,
        time=time,
        sample_weight=sample_weight,
    )
    _check(graphs, methods, recipe, protocol)
    known = graphs.name in CATALOGUE and given == graphs.name
    path, content = (None, None) if known else (Path(given), content_for(graphs, recipe, protocol.columns))
    cells = [
        Cell(
            method,
            graphs.name,
            recipe,
            protocol.of_method(method),
            {"method": method, "dataset": graphs.name},
            path=path,
            content=content,
            task=graphs.task,
        )
        for method in methods
    ]
    return Study(
        name="compare-" + "".join(c if c.isalnum() or c in "._-" else "-" for c in graphs.name),
        title=f"Pooling methods on {graphs.name}",
        about=_about(graphs, recipe, protocol),
        source="",
        baseline="cgi" if "cgi" in methods else methods[0],
        curves=None,
        axes={"method": list(methods), "dataset": [graphs.name]},
        cells=cells,
        analysis=Analysis(
            seeds=seeds,
            trivial=[name for name in methods if name in METHODS and METHODS[name].architecture in ("sum", "constant")],
            tasks={} if graphs.task == "classification" else {graphs.name: graphs.task},
        ),
    )


def _check(graphs: GraphSet, methods: Sequence[str], recipe: Recipe, protocol: Protocol) -> None:
    """Raise the errors of the data, the methods and the protocol here, rather than in every cell."""
    check_graphs(graphs)
    for method in methods:
        if method_named(method).of_molecules:
            check_molecules(graphs, method)
    check_edges(methods, recipe, has_edge_features(graphs))
    checked(protocol)
    check_kind(protocol.split_kind, protocol.time or None)
    if protocol.split_kind in ("scaffold", "cluster", "time"):
        replace(protocol, splits=1).draw(graphs)
    protocol.weights(graphs)


def _about(graphs: GraphSet, recipe: Recipe, protocol: Protocol) -> str:
    """Describe the data set and the protocol in a sentence."""
    how = f"{counted(protocol.splits, f'{protocol.split_kind} split')}, recipe {recipe.name}"
    how += f", ensembles of {protocol.ensemble}" if protocol.ensemble > 1 else ""
    how += f", {counted(protocol.seeds, 'training')} per split" if protocol.seeds > 1 else ""
    targets = f"{graphs.task}, {counted(len(graphs.target_names), 'target column')}"
    what = counted(graphs.n_classes, "class") if graphs.task == "classification" else targets
    return f"{graphs.n_graphs} graphs, {what}; {how}."


def replaced_by(study: Study, folder: Path) -> str | None:
    """Describe the comparison of this name in a store, if it has cells that this one lacks."""
    with suppress(UserError, AttributeError, KeyError, TypeError):  # there is none, or it is damaged
        before = read_json(folder / "studies" / f"{study.name}.json")
        if {cell["key"] for cell in before["cells"]} - {cell.key for cell in study.cells}:
            return str(before["about"]).removesuffix(".")
    return None
