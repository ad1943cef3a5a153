"""What a method does not read of a data set is said, in words that fit the method; what it cannot read is refused."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool import GraphSet, train
from cgipool.data.catalogue import CATALOGUE
from cgipool.data.further import TableBuilder
from cgipool.errors import UnusedDataWarning, UserError
from cgipool.pool import METHODS
from cgipool.study.compare import comparison
from cgipool.study.plan import study_of
from cgipool.training.presets import PAPER
from cgipool.training.reading import unread_by
from small import random_graphs

SMALL: dict[str, Any] = {"width": 8, "batch_size": 16, "epochs": 1, "attributes": False}

MAKE_EDGES = ("asap", "diffpool", "mincut")


def bonds(features: bool = True) -> GraphSet:
    """Graphs with edge labels or without, and with a table."""
    table = TableBuilder(("num",))
    for number in range(30):
        table.add([str(number)])
    graphs = random_graphs(3, [6] * 30, classes=2)
    graphs = table.of(replace(graphs, name="bonds", attributes=None, dropped={}))
    if not features:
        return graphs
    labels = (np.minimum(graphs.edge_source, graphs.edge_source + graphs.edge_disp) % 2).astype(np.int32)
    return replace(graphs, edge_category=labels[:, None], edge_category_names=(("single", "double"),))


def said(graphs: GraphSet, method: str, **settings: Any) -> list[str]:
    with pytest.warns(UnusedDataWarning) as caught:
        train(graphs, method=method, **SMALL | settings)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("method", "settings", "hint"),
    [
        ("cgi", {}, "; conv=gine reads them"),
        ("asap", {}, "; no convolution can read them with method asap"),
        ("asap", {"levels": 1}, "; conv=gine reads them"),
        ("structure-free", {}, ""),
        ("wl", {"kernel_edges": False}, "; kernel_edges=true reads them"),
    ],
)
def test_the_hint_fits_the_method(method: str, settings: dict[str, Any], hint: str) -> None:
    assert said(bonds(), method, **settings) == [f"bonds: edge labels (1 column) are not used{hint}"]


@pytest.mark.parametrize(("method", "conv"), [("none", "gine"), ("wl", "gcn"), ("majority", "gcn")])
def test_nothing_is_said_of_edges_that_are_read_or_that_nobody_expects_to_be(method: str, conv: str) -> None:
    train(bonds(), method=method, **SMALL, conv=conv)


def test_what_a_classical_method_reads() -> None:
    assert unread_by(["wl"], PAPER.but(attributes=True)) == {"node attributes": "", "edge attributes": ""}
    assert unread_by(["rdkit-svm"], PAPER) == {"node attributes": "", "edge attributes": ""}
    both = PAPER.but(attributes=True, conv="gine")
    assert unread_by(["cgi", "wl"], both) == unread_by(["cgi"], both) == {}, "the networks of a comparison decide"


@pytest.mark.parametrize(
    "settings",
    [{"rwse": 4}, {"wl": 2}, {"lappe": 2}, {"conv": "gine"}, {"fingerprints": 64}, {"rdkit_descriptors": True},
     {"descriptors": "num"}, {"vocabulary": "all"}, {"conv": "gin", "descriptors": "num", "impute": "mean"}],
)  # fmt: skip
def test_inputs_that_a_classical_method_does_not_read(settings: dict[str, Any]) -> None:
    assert said(bonds(), "wl", **settings) == [f"method wl does not read: {', '.join(settings)}"]


def test_inputs_that_are_read_are_not_listed() -> None:
    train(bonds(), method="wl", features="degree", **SMALL)
    assert said(bonds(False), "structure-free", conv="gin", wl=1) == ["method structure-free does not read: conv"]


def test_imputation_of_nothing() -> None:
    assert said(bonds(False), "none", impute="mean") == ["impute=mean changes nothing, as no descriptors are named"]
    train(bonds(False), method="none", impute="mean", descriptors="num", **SMALL)
    assert said(bonds(False), "wl", impute="mean") == ["method wl does not read: impute"]


@pytest.mark.parametrize("conv", ["gine", "transformer"])
@pytest.mark.parametrize("method", MAKE_EDGES)
def test_new_edges_have_no_features_to_read(method: str, conv: str, tmp_path: Path) -> None:
    line = f"method {method} makes new edges, which have no features for conv={conv} to read"
    with pytest.raises(UserError, match=line):
        train(bonds(), method=method, **SMALL, conv=conv, out=tmp_path / "run")
    assert not list((tmp_path / "run").glob("split-*"))
    several = f"methods {method}, asap make new edges" if method != "asap" else line
    names = dict.fromkeys(["cgi", method, "asap"])
    with pytest.raises(UserError, match=several):
        comparison(bonds(), "bonds", list(names), PAPER.but(conv=conv), 2, "random", 0)
    bonds().save(tmp_path / "bonds")
    axes = {"method": ["cgi", method], "dataset": ["bonds"], "conv": ["gin", conv]}
    with pytest.raises(UserError, match=line):
        study_of({"axes": axes, "data": {"bonds": "bonds"}}, folder=tmp_path)
    with pytest.raises(UserError, match=line):
        study_of({"axes": axes | {"dataset": ["Mutagenicity"]}})


@pytest.mark.parametrize("method", MAKE_EDGES)
def test_what_can_be_read_is_not_refused(method: str, tmp_path: Path) -> None:
    train(bonds(features=False), method=method, **SMALL, conv="gine")
    train(bonds(), method=method, **SMALL, conv="gine", levels=1)
    bonds(features=False).save(tmp_path / "plain")
    axes = {"method": [method], "dataset": ["plain", "NCI1"], "conv": ["gine"]}
    assert len(study_of({"axes": axes, "data": {"plain": "plain"}}, folder=tmp_path).cells) == 2


def test_a_method_says_whether_its_pools_make_edges() -> None:
    for name, method in METHODS.items():
        assert method.new_edges == (name in MAKE_EDGES), name
        if method.new_edges:
            assert not method.selects


@pytest.mark.parametrize("name", ["NCI1", "Mutagenicity", "PROTEINS", "DD", "IMDB-BINARY"])
def test_the_catalogue_knows_which_sets_have_edge_labels(name: str, tu_archive: Callable[[str], Path]) -> None:
    with zipfile.ZipFile(tu_archive(name)) as archive:
        has = any(each.endswith("_edge_labels.txt") for each in archive.namelist())
    assert CATALOGUE[name].edges == has
