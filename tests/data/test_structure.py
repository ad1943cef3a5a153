"""Weisfeiler–Lehman colours and random-walk encodings against plain programs, and as inputs of an encoder."""

from collections import Counter
from dataclasses import replace

import networkx
import numpy as np
import pytest

from cgipool.data import Encoder, GraphSet, motifs
from cgipool.data.columns import degree_codes, label_codes
from cgipool.data.structure import COMMON, laplacian_encodings, return_probabilities, wl_colours
from cgipool.errors import UserError


def labelled(count: int = 40, seed: int = 0) -> GraphSet:
    """Random graphs of several densities, with a label column of three letters; a few nodes are isolated."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, count)
    source, target, first = [], [], 0
    for g, size in enumerate(sizes.tolist()):
        graph = networkx.gnp_random_graph(size, 0.3, seed=g)
        source += [first + p for p, _ in graph.edges]
        target += [first + q for _, q in graph.edges]
        first += size
    category = rng.integers(0, 3, (first, 1)).astype(np.int32)
    y = np.arange(count) % 2
    return GraphSet.from_edges(
        "random", sizes, source, target, y, category=category, category_names=(("C", "N", "O"),)
    )  # fmt: skip


def by_dictionaries(graphs: GraphSet, start: list[str], rounds: int) -> list[list[object]]:
    """The colours of each round as nested tuples: a node's own, and the sorted ones of its neighbours."""
    colour: list[object] = list(start)
    found = []
    for _ in range(rounds):
        around: list[list[object]] = [[] for _ in colour]
        for p, step in zip(graphs.edge_source.tolist(), graphs.edge_disp.tolist(), strict=True):
            around[p].append(colour[p + step])
        colour = [(own, tuple(sorted(near, key=repr))) for own, near in zip(colour, around, strict=True)]
        found.append(colour)
    return found


def same_partition(codes: list[int], other: list[object]) -> bool:
    return len(set(codes)) == len(set(other)) == len(set(zip(codes, other, strict=True)))


@pytest.mark.parametrize("source", ["label", "degree"])
def test_colours_are_those_of_a_plain_program(source: str) -> None:
    graphs = labelled()
    start = label_codes(graphs.category, graphs.category_names) if source == "label" else degree_codes(graphs)
    nodes = np.arange(graphs.n_nodes)
    names = [start.names[0][c] for c in start.of(nodes)[:, 0].tolist()]
    expected = by_dictionaries(graphs, names, 3)
    colours = wl_colours(graphs, start, source, 3)
    for got, wanted in zip(colours, expected, strict=True):
        codes = got.column.of(nodes)[:, 0].tolist()
        assert same_partition(codes, wanted)
        of_graph = Counter(c for c, _ in {*zip(codes, graphs.node_graph.tolist(), strict=True)})
        assert got.graphs.tolist() == [of_graph[c] for c in range(len(got.names))]


def test_colours_are_those_of_networkx() -> None:
    graphs = labelled()
    hashes: list[list[str]] = []
    for graph in graphs.to_networkx():
        for node in graph:
            graph.nodes[node]["label"] = str(graph.nodes[node]["category"])
        found = networkx.weisfeiler_lehman_subgraph_hashes(graph, node_attr="label", iterations=2)
        hashes += [found[node] for node in range(graph.number_of_nodes())]
    start = label_codes(graphs.category, graphs.category_names)
    for round_, colours in enumerate(wl_colours(graphs, start, "label", 2)):
        codes = colours.column.of(np.arange(graphs.n_nodes))[:, 0].tolist()
        assert same_partition(codes, [each[round_] for each in hashes])


def test_a_colour_does_not_depend_on_the_set() -> None:
    graphs = labelled()
    assert graphs.category is not None
    order = np.array([2, 0, 1], np.int32)  # other codes for the same names, and other graphs beside them
    moved = replace(graphs, category=order[graphs.category], category_names=(("N", "O", "C"),)).subset([7, 3, 11])
    whole = wl_colours(graphs, label_codes(graphs.category, graphs.category_names), "label", 2)
    some = wl_colours(moved, label_codes(moved.category, moved.category_names), "label", 2)
    nodes = np.concatenate([np.arange(*graphs.node_ptr[g : g + 2]) for g in (7, 3, 11)])
    for one, other in zip(whole, some, strict=True):
        expected = [one.names[c] for c in one.column.of(nodes)[:, 0]]
        assert [other.names[c] for c in other.column.of(np.arange(len(nodes)))[:, 0]] == expected


@pytest.mark.parametrize("vocabulary", ["train", "all"])
def test_rare_and_unseen_colours_are_other(vocabulary: str) -> None:
    graphs = labelled(200)
    train = np.arange(120)
    encoder = Encoder.fit(graphs, train, vocabulary=vocabulary, wl=2)
    inputs = encoder.encode(graphs)
    nodes = np.arange(graphs.n_nodes)
    in_train = nodes < graphs.node_ptr[120]
    offset = 3 + (vocabulary == "train")
    for round_, colours in enumerate(wl_colours(graphs, encoder_start(graphs), "label", 2), start=1):
        names = encoder.values[round_]
        codes = colours.column.of(nodes)[:, 0]
        seen = set(codes[in_train].tolist())
        expected = [
            offset + (names.index(colours.names[c]) if colours.graphs[c] >= COMMON and c in seen else len(names))
            for c in codes.tolist()
        ]
        assert inputs.category[:, round_].tolist() == expected
        assert encoder.merged[round_ - 1] == (
            offset + len(names) in {e for e, t in zip(expected, in_train, strict=True) if t}
        )
        offset += len(names) + 1
    assert inputs.columns == encoder.columns == offset
    # "other" of the colours was trained, so it is not one of the columns that stay silent
    assert encoder.others == ((3,) if vocabulary == "train" else ())
    assert Encoder.fit(graphs, train, vocabulary=vocabulary).values == encoder.values[:1]


def encoder_start(graphs: GraphSet):  # type: ignore[no-untyped-def]
    return label_codes(graphs.category, graphs.category_names)


def test_colours_of_new_graphs() -> None:
    """A set with other graphs, other codes and more labels: what training knew keeps its column."""
    graphs = labelled(200)
    encoder = Encoder.from_json(Encoder.fit(graphs, wl=2).to_json())
    order = np.array([1, 2, 0], np.int32)
    assert graphs.category is not None
    new = replace(graphs, category=order[graphs.category], category_names=(("O", "C", "N", "S"),)).subset([5, 9])
    np.testing.assert_array_equal(encoder.encode(new).category, encoder.encode(graphs.subset([5, 9])).category)
    strange = replace(new, category_names=(("S", "C", "N", "O"),))
    assert strange.category is not None
    assert encoder.unseen(strange) == int((strange.category == 0).sum())


def test_labels_and_degrees() -> None:
    graphs = labelled(60)
    both = Encoder.fit(graphs, source="label+degree", wl=1)
    one, other = (Encoder.fit(graphs, source=source) for source in ("label", "degree"))
    assert both.values[:2] == one.values + other.values
    category = both.encode(graphs).category
    np.testing.assert_array_equal(category[:, :1], one.encode(graphs).category)
    np.testing.assert_array_equal(category[:, 1:2], np.asarray(other.encode(graphs).category) + one.columns)
    assert graphs.category is not None
    start = [f"{graphs.category_names[0][c]}{d}" for (c,), d in zip(graphs.category, graphs.degree, strict=True)]
    (expected,) = by_dictionaries(graphs, start, 1)
    merged = category[:, 2] == both.columns - 1
    codes = [int(c) for c, rare in zip(category[:, 2], merged, strict=True) if not rare]
    assert same_partition(codes, [e for e, rare in zip(expected, merged, strict=True) if not rare])
    bare = motifs(20)
    with pytest.raises(UserError, match="has no node labels; use 'degree'"):
        Encoder.fit(bare, source="label+degree")
    with pytest.raises(UserError, match="motifs has no node labels; the encoder was fitted on 1 node label column"):
        both.encode(bare)


@pytest.mark.parametrize("stretch", [1, 60, 1 << 22])
def test_return_probabilities_are_those_of_dense_matrices(stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgipool.data.structure.STRETCH", stretch)
    graphs = labelled(30, seed=1)
    expected = []
    for graph in graphs.to_networkx():
        adjacency = networkx.to_numpy_array(graph, nodelist=range(graph.number_of_nodes()))
        degree = adjacency.sum(1, keepdims=True)
        walk = np.divide(adjacency, degree, out=np.zeros_like(adjacency), where=degree > 0)
        powers = [np.linalg.matrix_power(walk, t).diagonal() for t in range(1, 8)]
        expected.append(np.stack(powers, axis=1))
    np.testing.assert_allclose(return_probabilities(graphs, 7), np.concatenate(expected), atol=1e-7)


def test_walks_beside_attributes() -> None:
    graphs = labelled()
    floats = np.random.default_rng(0).normal(size=(graphs.n_nodes, 2)).astype(np.float32)
    graphs = replace(graphs, attributes=floats)
    encoder = Encoder.fit(graphs, np.arange(30), attributes=True, rwse=4)
    assert encoder.n_floats == 6
    values = np.concatenate([floats, return_probabilities(graphs, 4)], axis=1).astype(np.float64)
    train = values[: graphs.node_ptr[30]]
    scale = np.where(train.std(0) > 0, train.std(0), 1.0)
    np.testing.assert_allclose(encoder.encode(graphs).floats, (values - train.mean(0)) / scale, rtol=1e-5, atol=1e-6)
    alone = Encoder.fit(graphs, rwse=4)
    assert alone.n_floats == 4
    assert alone.encode(replace(graphs, attributes=None)).floats is not None
    with pytest.raises(UserError, match="random has 0 attribute columns; the encoder was fitted on 2"):
        encoder.encode(replace(graphs, attributes=None))


def by_numpy(graphs: GraphSet, count: int) -> np.ndarray:
    """The same by projections on the eigenspaces, graph by graph."""
    made = []
    for graph in graphs.to_networkx():
        n = graph.number_of_nodes()
        adjacency = networkx.to_numpy_array(graph, nodelist=range(n), weight=None)
        root = np.sqrt(adjacency.sum(1))
        scale = np.outer(root, root)
        laplacian = np.diag((root > 0) * 1.0) - np.divide(adjacency, scale, out=np.zeros((n, n)), where=scale > 0)
        values, vectors = np.linalg.eigh(laplacian)
        columns = np.zeros((n, count))
        for j, value in enumerate(values[values > 1e-6][:count]):
            basis = vectors[:, np.abs(values - value) < 1e-6]
            columns[:, j] = np.sqrt((basis @ basis.T).diagonal() / basis.shape[1])
        made.append(columns)
    return np.concatenate(made)


@pytest.mark.parametrize("dense", [1, 400])
@pytest.mark.parametrize("stretch", [60, 1 << 22])
def test_laplacian_encodings_are_those_of_numpy(dense: int, stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgipool.data.structure.DENSE", dense)
    monkeypatch.setattr("cgipool.data.structure.SPARE", 2)
    monkeypatch.setattr("cgipool.data.structure.STRETCH", stretch)
    graphs = labelled(30, seed=1)
    np.testing.assert_allclose(laplacian_encodings(graphs, 5), by_numpy(graphs, 5), atol=1e-6)
    rings = GraphSet.from_networkx(
        [networkx.cycle_graph(6), networkx.star_graph(7), networkx.empty_graph(3), networkx.complete_graph(9)], "rings",
        class_names=(),
    )  # fmt: skip
    found = laplacian_encodings(rings, 4)
    np.testing.assert_allclose(found, by_numpy(rings, 4), atol=1e-6)
    np.testing.assert_allclose(found[:6], np.sqrt(1 / 6), atol=1e-6)


def test_laplacian_encodings_go_with_the_nodes() -> None:
    """Another order of the nodes gives the same rows in that order; where an eigenvalue is simple, they are |v|."""
    graph = networkx.path_graph(7)
    graph.add_edge(0, 2)
    order = np.random.default_rng(0).permutation(7)
    moved = networkx.relabel_nodes(graph, dict(enumerate(order.tolist())))
    other = networkx.Graph()
    other.add_nodes_from(range(7))
    other.add_edges_from(moved.edges)
    one, two = (laplacian_encodings(GraphSet.from_networkx([g], "g", class_names=()), 3) for g in (graph, other))
    np.testing.assert_allclose(two[order], one, atol=1e-6)
    values, vectors = np.linalg.eigh(networkx.normalized_laplacian_matrix(graph, nodelist=range(7)).toarray())
    assert np.diff(values).min() > 1e-3
    np.testing.assert_allclose(one, np.abs(vectors[:, 1:4]), atol=1e-6)


def test_all_structure_in_one_encoder() -> None:
    graphs = labelled()
    encoder = Encoder.fit(graphs, np.arange(30), rwse=2, lappe=3)
    assert encoder.n_floats == 5
    values = np.concatenate([return_probabilities(graphs, 2), laplacian_encodings(graphs, 3)], 1).astype(np.float64)
    train = values[: graphs.node_ptr[30]]
    scale = np.where(train.std(0) > 0, train.std(0), 1.0)
    np.testing.assert_allclose(encoder.encode(graphs).floats, (values - train.mean(0)) / scale, rtol=1e-5, atol=1e-6)
    again = Encoder.from_json(encoder.to_json())
    assert again == encoder
    np.testing.assert_allclose(
        again.encode(graphs.subset([4])).floats,
        encoder.encode(graphs).floats[graphs.node_ptr[4] : graphs.node_ptr[5]],
        atol=1e-5,
    )
