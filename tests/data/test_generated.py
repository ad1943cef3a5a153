"""Generated sets with a known truth: what decides the class is where it should be, and nothing else tells it."""

from collections.abc import Callable
from functools import partial

import networkx as nx
import numpy as np
import pytest
from random_sets import assert_equal

from cgipool.cli import main
from cgipool.data import CATALOGUE, GraphSet, load_dataset, wl_classes
from cgipool.data.generated import GENERATED, by_counting, circulant, needle
from cgipool.errors import UserError


def test_the_keys_and_nothing_else_decide() -> None:
    graphs = needle(40, 60, seed=3)
    assert np.bincount(graphs.y).tolist() == [30, 30]
    for graph in graphs.to_networkx():
        assert graph.number_of_nodes() == 40
        assert nx.is_connected(graph)
        label = {node: values["category"][0] for node, values in graph.nodes(data=True)}
        tags = {node for node in graph if label[node] == "tag"}
        marked = {node for node in graph if label[node].startswith("mark")}
        assert (len(tags), len(marked)) == (10, 10)
        assert {graph.degree(tag) for tag in tags} == {1}
        keys = {node for node in marked if tags & set(graph[node])}
        assert keys == {node for node, values in graph.nodes(data=True) if values["truth"]}
        assert len(keys) == 5
        assert sum(label[node].endswith(graph.graph["y"]) for node in keys) == 4


def test_counting_tells_what_selection_is_worth() -> None:
    """Keys vote 3; decoys add five coins and n nodes n − 20 more: Φ-like shares, by binomials."""
    generator = np.random.default_rng(0)
    coins = 2 * generator.binomial(5, 0.5, 200_000) - 5 + 3
    marked = (coins > 0).mean() + (coins == 0).mean() / 2
    for nodes in (30, 300):
        found = by_counting(needle(nodes, 4000))
        assert found["keys"] == 1.0
        assert found["marked nodes"] == pytest.approx(marked, abs=0.02)
        assert found["all nodes"] < found["marked nodes"] - 0.05
    assert found["all nodes"] < 0.6


def test_circulants_look_the_same_to_message_passing() -> None:
    graphs = circulant(80, seed=1)
    assert set(graphs.degree) == {4}
    sizes = dict(zip(graphs.sizes.tolist(), wl_classes(graphs).tolist(), strict=True))
    assert len(set(sizes.values())) == len(sizes) == len(set(wl_classes(graphs).tolist()))
    for size in sizes:
        one, other = np.bincount(graphs.y[graphs.sizes == size], minlength=2)
        assert one == other
    for graph in graphs.subset(range(6)).to_networkx():
        skip = int(graph.graph["y"].removeprefix("skip "))
        assert nx.is_isomorphic(graph, nx.circulant_graph(graph.number_of_nodes(), [1, skip]))


@pytest.mark.parametrize("name", [name for name in GENERATED if name not in ("motifs", "needle-1000")])
def test_known_by_name(name: str) -> None:
    graphs, entry = load_dataset(name.upper()), CATALOGUE[name]
    assert_equal(graphs, GENERATED[name]())
    assert graphs.name == name
    assert (graphs.n_graphs, graphs.n_classes, graphs.family) == (entry.graphs, entry.classes, "synthetic")
    assert graphs.n_nodes / graphs.n_graphs == pytest.approx(entry.nodes, abs=0.5)


def test_seeds_differ() -> None:
    assert needle(30, 20, seed=0).y.tolist() != needle(30, 20, seed=1).y.tolist()
    assert circulant(20, seed=0).sizes.tolist() != circulant(20, seed=1).sizes.tolist()


@pytest.mark.parametrize(
    "make", [partial(needle, 29), partial(needle, 60, 0), partial(circulant, 0), partial(circulant, 5, -1)]
)
def test_wrong_numbers(make: Callable[[], GraphSet]) -> None:
    with pytest.raises(UserError, match="needs at least"):
        make()


def test_commands_know_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "needle-60", "circulant"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "needle-60 is built in: nothing to download",
        "circulant is built in: nothing to download",
    ]
    assert main(["data", "info", "needle-30"]) == 0
    assert "needle-30" in capsys.readouterr().out
