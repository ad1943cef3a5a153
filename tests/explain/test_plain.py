"""Drawings of graphs without an explanation."""

import re
from xml.etree import ElementTree

import networkx as nx
import pytest

from cgipool import GraphSet
from cgipool.explain.plain import MOST_NODES, drawing


def of(graph: nx.Graph) -> GraphSet:
    return GraphSet.from_networkx([graph], "one", class_names=())


@pytest.mark.parametrize(
    "graph", [nx.cycle_graph(7), nx.empty_graph(1), nx.path_graph(200), nx.empty_graph(3)], ids=str
)
def test_every_node_and_edge_is_drawn_inside(graph: nx.Graph) -> None:
    picture = ElementTree.fromstring(drawing(of(graph), 300, 210))
    circles = picture.findall(".//circle")
    assert len(circles) == graph.number_of_nodes()
    assert all(0 <= float(c.get("cx", "")) <= 300 and 0 <= float(c.get("cy", "")) <= 210 for c in circles)
    path = picture.find(".//path")
    assert path is not None
    assert path.get("d", "").count("M") == graph.number_of_edges()


def test_a_large_graph_is_not_drawn() -> None:
    assert drawing(of(nx.path_graph(MOST_NODES + 1))) == ""


def test_a_molecule_has_the_colours_of_the_page() -> None:
    pytest.importorskip("rdkit")
    from cgipool.data.molecules import MoleculeFeaturizer

    picture = drawing(MoleculeFeaturizer().graphs(["CCO"]))
    ElementTree.fromstring(picture)
    assert "currentColor" in picture
    assert "var(--down)" in picture  # the oxygen
    assert not re.search("#000000|<rect", picture)
