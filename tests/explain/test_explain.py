"""What a model keeps: against scores ranked by hand, NetworkX's subgraphs, RDKit, and one graph at a time."""

import csv
import io
import math
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgb

from cgipool import GraphSet, load_dataset
from cgipool.cli import main
from cgipool.cli.explain import levels_table
from cgipool.errors import UserError
from cgipool.explain import (
    Explanation,
    cut,
    draw,
    explain_at,
    explain_graph,
    faithfulness,
    page,
    trace,
    write_scores,
)
from cgipool.explain import scores as scores_module
from cgipool.explain.picture import COLOURS, Scale, layout, pooling_figure, rough_layout, steps, steps_from
from cgipool.explain.scores import scale_of
from cgipool.explain.trace import edges_left, random_nodes
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit
from cgipool.inference.predict_input import graph_chunks
from cgipool.pool import TopKPool

pytestmark = pytest.mark.usefixtures("one_thread")

SELECTING = {
    "cgi": ["y_r", "y_f", "y_d"],
    "cgi-rs": ["y_r", "y_f", "y_d"],
    "cgi-nomi": ["y_r", "y_f", "y_d"],
    "topk": ["s"],
    "sag": ["s"],
    "vip": ["t"],
    "asap": ["phi"],
    "random": ["u"],
}
SMILES = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "O=C(O)c1cc[nH]c1",
    "C[N+](C)(C)CC([O-])=O",
    "[Na+].[Cl-]",
    "C#N",
    "[CH3]",
    "c1ccc2[nH]ccc2c1",
    "FC(F)(F)S(=O)(=O)O",
]
DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXT = (DOCS / "howto" / "explain.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
EXAMPLE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]


@cache
def graphs() -> GraphSet:
    """Of all columns; attributes that differ at every node, so that no scores are equal."""
    plain = load_dataset("motifs").subset(range(40))
    draws = np.random.default_rng(0)
    weight = (np.minimum(plain.edge_source, plain.edge_source + plain.edge_disp) % 5).astype(np.float32)
    return replace(
        plain,
        attributes=draws.standard_normal((plain.n_nodes, 4)).astype(np.float32),
        category=draws.integers(0, 3, (plain.n_nodes, 1)).astype(np.int32),
        category_names=(("a", "b", "c"),),
        edge_weight=weight,
        edge_category=weight.astype(np.int32)[:, None],
        edge_category_names=(tuple("01234"),),
        edge_attributes=weight[:, None],
        checked=False,
    )


@cache
def fitted(method: str, **settings: object) -> FittedModel:
    return fit(graphs(), method=method, recipe="paper", width=8, epochs=2, attributes=True, **settings)


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    fit(load_dataset("motifs").subset(range(0, 1000, 4)), method="cgi", width=16, epochs=5).save(path)
    return path


@pytest.mark.parametrize("method", SELECTING)
def test_the_best_nodes_stay(method: str) -> None:
    found = trace(fitted(method), graphs())
    assert list(found.scores) == SELECTING[method]
    np.testing.assert_allclose(found.predictions, fitted(method).predict_proba(graphs()), atol=1e-12)
    given = np.ones(graphs().n_nodes, bool)
    for level in range(3):
        assert all(np.array_equal(np.isfinite(values[level]), given) for values in found.scores.values())
        for first, last in zip(graphs().node_ptr[:-1], graphs().node_ptr[1:], strict=True):
            there = [node for node in range(first, last) if given[node]]
            ranked = sorted(there, key=lambda node: -found.score[level, node])
            best = ranked[: int(np.ceil(0.8 * len(there) - 1e-9))]
            assert np.flatnonzero(found.alive[level, first:last]).tolist() == sorted(node - first for node in best)
        given = found.alive[level]
    gone = [1 + found.alive[:, node].tolist().index(False) for node in np.flatnonzero(~given)]
    assert found.dropped[~given].tolist() == gone
    assert not found.dropped[given].any()


@pytest.mark.parametrize("method", SELECTING)
def test_a_trace_does_not_depend_on_the_company(method: str) -> None:
    together = trace(fitted(method), graphs())
    for number in (0, 7, 39):
        alone = trace(fitted(method), graphs().subset([number]), first=number)
        nodes = slice(*graphs().node_ptr[number : number + 2])
        assert np.array_equal(alone.alive, together.alive[:, nodes])
        for name, values in alone.scores.items():
            np.testing.assert_allclose(values, together.scores[name][:, nodes], atol=1e-5)
        np.testing.assert_allclose(alone.predictions[0], together.predictions[number], atol=1e-5)


@pytest.mark.parametrize("method", [method for method in SELECTING if method not in ("random", "cgi-rs")])
def test_a_trace_follows_the_nodes(method: str) -> None:
    draws, n = np.random.default_rng(1), 60
    source, target = draws.integers(0, n, (2, 2 * n))
    attributes = draws.standard_normal((n, 4)).astype(np.float32)
    category = draws.integers(0, 3, (n, 1)).astype(np.int32)

    def numbered(order: np.ndarray) -> GraphSet:
        """The graph with its node order[i] as node i."""
        number, names = np.argsort(order), graphs().category_names
        columns = {"attributes": attributes[order], "category": category[order], "category_names": names}
        return GraphSet.from_edges("one", [n], number[source], number[target], [0], **columns)

    order = draws.permutation(n)
    before, after = (trace(fitted(method), numbered(numbers)) for numbers in (np.arange(n), order))
    clear = 0
    for level, alive in enumerate(before.alive):
        np.testing.assert_allclose(after.score[level], before.score[level, order], atol=1e-5)
        gap = before.score[level, alive].min() - np.nanmax(before.score[level, ~alive])
        if gap < 1e-5 * np.nanmax(np.abs(before.score[level])):
            break  # the last that is kept has an equal: their numbers decide
        assert np.array_equal(after.alive[level], alive[order])
        clear += 1
    assert clear >= 2


@pytest.mark.parametrize("method", ["none", "set2set", "dgcnn", "diffpool", "mincut", "majority", "structure-free"])
def test_methods_that_select_nothing_say_so(method: str) -> None:
    with pytest.raises(UserError, match=f"{method} selects no nodes"):
        trace(fitted(method), graphs())


def test_a_layer_of_pyg_is_traced_without_scores() -> None:
    model = fitted("torch_geometric.nn:SAGPooling")
    one = explain_graph(model, graphs(), 2)
    assert one.trace.scores == {}
    assert one.nodes_left == trace(fitted("cgi"), graphs().subset([2])).alive.sum(1).tolist()
    ElementTree.fromstring(draw(one, "svg"))
    assert "Level 3: " in page([one])
    assert "SAGPooling reports no scores" in page([one])
    out = io.StringIO()
    write_scores(out, model, graphs())
    assert out.getvalue().startswith("graph,node,dropped,reason\n0,0,")


def test_members_of_an_ensemble() -> None:
    both = fitted("topk", ensemble=2)
    first, second = (trace(both, graphs(), member).predictions for member in (0, 1))
    assert not np.allclose(first, second)
    np.testing.assert_allclose((first + second) / 2, both.predict_proba(graphs()), atol=1e-12)
    assert explain_graph(both, graphs(), 0, member=1).method == "TopKPool, member 1 of 2"
    with pytest.raises(UserError, match="no member 2; the model has 2"):
        trace(both, graphs(), 2)


def test_cutting_is_networkx_subgraph() -> None:
    keep = np.random.default_rng(2).random(graphs().n_nodes) < 0.6
    keep[slice(*graphs().node_ptr[3:5])] = False  # a graph of which nothing is left
    small = cut(graphs(), keep)
    replace(small, checked=False)  # the checks of a set pass
    left = edges_left(graphs(), np.stack([keep, ~keep]))
    for number, whole in enumerate(graphs().to_networkx()):
        start, end = graphs().node_ptr[number : number + 2]
        nodes = np.flatnonzero(keep[start:end]).tolist()
        induced = whole.subgraph(nodes)
        assert left[0, number] == induced.number_of_edges()
        assert left[1, number] == whole.subgraph(set(whole) - set(nodes)).number_of_edges()
        ours = small.subset([number])
        assert ours.n_nodes == len(nodes)
        got = {
            (nodes[a], nodes[a + d]): e for e, (a, d) in enumerate(zip(ours.edge_source, ours.edge_disp, strict=True))
        }
        assert {frozenset(pair) for pair in got} == {frozenset(pair) for pair in induced.edges}
        for (source, target), edge in got.items():
            first = graphs().edge_ptr[start + source]
            row = slice(first, graphs().edge_ptr[start + source + 1])
            place = first + np.flatnonzero(graphs().edge_disp[row] == target - source)[0]
            assert ours.edge_weight[edge] == graphs().edge_weight[place]
            assert ours.edge_category[edge, 0] == graphs().edge_category[place, 0]
            assert ours.edge_attributes[edge, 0] == graphs().edge_attributes[place, 0]
    assert np.array_equal(small.attributes, graphs().attributes[keep])
    assert np.array_equal(small.category, graphs().category[keep])
    assert np.array_equal(small.node_truth, graphs().node_truth[keep])


def test_random_nodes_are_drawn_evenly() -> None:
    three = GraphSet.from_edges("three", [4, 0, 3], [0], [1], [0, 0, 0])
    generator = np.random.default_rng(0)
    drawn = np.stack([random_nodes(three, np.array([2, 0, 1]), generator) for _ in range(3000)])
    assert (drawn[:, :4].sum(1) == 2).all()
    assert (drawn[:, 4:].sum(1) == 1).all()
    np.testing.assert_allclose(drawn.mean(0), [0.5] * 4 + [1 / 3] * 3, atol=0.05)


def test_faithfulness_graph_by_graph() -> None:
    model = fitted("cgi")
    found = faithfulness(model, graphs())
    alive = trace(model, graphs()).alive
    motif, chance, whole, only, without = [], [], [], [], []
    for number, graph in enumerate(graphs().to_networkx()):
        nodes = range(*graphs().node_ptr[number : number + 2])
        decide = {node for node in nodes if graphs().node_truth[node]}
        motif.append([sum(alive[level, node] for node in decide) / len(decide) for level in range(3)])
        chance.append([alive[level, nodes].mean() for level in range(3)])
        kept = {node - nodes[0] for node in nodes if alive[-1, node]}
        for right, part in ((whole, set(graph)), (only, kept), (without, set(graph) - kept)):
            right.append(model.predict_proba(_subgraph(number, part)).argmax() == graphs().y[number])
    np.testing.assert_allclose(found.motif, np.mean(motif, 0))
    np.testing.assert_allclose(found.chance, np.mean(chance, 0))
    assert found.left == pytest.approx(found.chance[-1])
    assert found.scores["the graphs as they are"] == np.mean(whole)
    assert found.scores["only the kept nodes"] == np.mean(only)
    assert found.scores["without the kept nodes"] == np.mean(without)


def _subgraph(number: int, nodes: set[int]) -> GraphSet:
    """One graph of the set, cut by NetworkX."""
    import networkx

    whole = graphs().subset([number]).to_networkx()[0]
    part = networkx.convert_node_labels_to_integers(networkx.Graph(whole.subgraph(nodes)), ordering="sorted")
    names = {"class_names": graphs().class_names, "category_names": graphs().category_names}
    return GraphSet.from_networkx([part], "part", **names, edge_category_names=graphs().edge_category_names)


def test_faithfulness_where_all_is_kept() -> None:
    found = faithfulness(fitted("topk", ratio=1.0), graphs())
    assert found.left == 1.0
    assert found.motif == found.chance == [1.0] * 3
    assert found.scores["only the kept nodes"] == found.scores["the graphs as they are"]
    assert found.scores["only as many random nodes"] == found.scores["the graphs as they are"]
    assert found.scores["without the kept nodes"] in np.bincount(graphs().y) / 40, "nothing left: one class for all"


def test_faithfulness_of_classes_by_name() -> None:
    names, model = graphs().class_names, fitted("cgi")
    turned = graphs().relabelled(len(names) - 1 - graphs().y, names[::-1])
    assert faithfulness(model, turned) == faithfulness(model, graphs())
    assert faithfulness(model, graphs(), seed=1).chance == faithfulness(model, graphs()).chance
    strange = replace(graphs(), class_names=tuple("wxyz"), node_truth=None)
    found = faithfulness(model, strange)
    assert found.scores is None
    assert found.motif is found.chance is None


def test_no_class_is_made_up_for_graphs_without() -> None:
    model, without = fitted("cgi"), graphs().relabelled(np.full(40, -1), ())
    assert faithfulness(model, without) == replace(faithfulness(model, graphs()), scores=None)
    found = explain_graph(model, without, 3)
    assert (found.true_class, found.predictions) == (None, explain_graph(model, graphs(), 3).predictions)
    assert "true class" not in found.verdict


def test_scores_of_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    out, model = io.StringIO(), fitted("cgi")
    assert write_scores(out, model, graphs()) == (40, 0)
    table = list(csv.DictReader(io.StringIO(out.getvalue())))
    found = trace(model, graphs())
    assert [int(row["graph"]) for row in table] == graphs().node_graph.tolist()
    assert [int(row["node"]) for row in table] == [i for size in graphs().sizes for i in range(size)]
    assert [int(row["dropped"] or 0) for row in table] == found.dropped.tolist()
    for level in range(3):
        for name, values in found.scores.items():
            got = [float(row[f"{name}_{level + 1}"] or "nan") for row in table]
            np.testing.assert_allclose(got, values[level], rtol=1e-5)
    seen = []
    monkeypatch.setattr(scores_module, "graph_chunks", partial(graph_chunks, size=7))
    monkeypatch.setattr(scores_module, "trace", lambda model, part: seen.append(part.n_graphs) or trace(model, part))
    again = io.StringIO()
    write_scores(again, model, graphs())
    assert seen == [7, 7, 7, 7, 7, 5], "a few graphs are held at a time"
    for one, other in zip(table, csv.DictReader(io.StringIO(again.getvalue())), strict=True):
        assert (one["node"], one["dropped"]) == (other["node"], other["dropped"])


def test_a_picture_has_a_panel_for_each_level() -> None:
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    alive = np.array([[1, 1, 1, 0], [0, 1, 1, 0]], bool)
    score = np.array([[0.4, 0.5, 0.6, 0.1], [0.2, 0.7, 0.8, np.nan]])
    scale = Scale("s", 0.0, 1.0, "s means nothing.", "The scale is short.")
    figure = pooling_figure(edges=edges, ringed=None, alive=alive, score=score, title="$", scale=scale, names="abcd")
    *panels, bar = figure.axes
    titles = ["input: 4 nodes", "level 1: 3 of 4 nodes", "level 2: 2 of 4 nodes"]
    assert [panel.get_title() for panel in panels] == titles
    assert all([text.get_text() for text in panel.texts] == list("abcd") for panel in panels)
    kept = [panel.collections[-1] for panel in panels[1:]]
    assert all(isinstance(points, PathCollection) for points in kept)
    colours = [[to_hex(colour) for colour in points.get_facecolors()] for points in kept]
    assert colours == [[scale.colour(value) for value in level] for level in ([0.4, 0.5, 0.6], [0.7, 0.8])]
    assert bar.get_ylim() == (0.0, 1.0)
    assert [label.get_text() for label in bar.get_yticklabels()] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert "s means nothing. The scale is short." in [text.get_text() for text in figure.texts]
    for panel, strong in zip(panels, (3, 2, 1), strict=True):
        faint, dark = (lines for lines in panel.collections if isinstance(lines, LineCollection))
        assert (len(faint.get_segments()), len(dark.get_segments())) == (3 - strong, strong)
    assert bar.get_ylabel() == "score $s$ of kept nodes"


def test_large_graphs_are_laid_out_from_a_few_nodes() -> None:
    edges = np.array([[i, i + 1] for i in range(19)] + [[20, 21]])
    assert np.array_equal(steps_from(4, 22, edges), steps(22, edges)[4])
    place = rough_layout(20, edges[:-1])
    along = place[:, 0] * np.sign(place[-1, 0])
    assert (np.diff(along) > 0).all(), "a path is drawn in its order"
    exact = layout(steps(20, edges[:-1]))[:, 0]
    assert abs(np.corrcoef(along, exact)[0, 1]) > 0.999


@cache
def molecules() -> tuple[FittedModel, GraphSet]:
    pytest.importorskip("rdkit")
    from cgipool.data.molecules import MoleculeFeaturizer

    featurizer = MoleculeFeaturizer()
    made = featurizer.graphs(SMILES * 4)
    made = made.relabelled(np.arange(made.n_graphs) % 2, ("no", "yes"))
    return fit(made, width=8, epochs=1, featurizer=featurizer.to_json()), made


@pytest.mark.parametrize("number", range(len(SMILES)))
def test_molecules_are_made_again_from_their_labels(number: int) -> None:
    model, made = molecules()
    from rdkit import Chem

    one = explain_graph(model, made, number)
    again = Chem.Mol(one.molecule)
    Chem.SanitizeMol(again)
    assert Chem.MolToSmiles(again) == Chem.CanonSmiles(SMILES[number])
    assert one.labels == [atom.GetSymbol() for atom in Chem.MolFromSmiles(SMILES[number]).GetAtoms()]


STEREO = [
    "C[C@H](N)C(=O)O",
    "C[C@@H](N)C(=O)O",
    "C/C=C/C",
    "C/C=C\\C",
    "C/C=N\\O",
    "C[C@H]1CC[C@@H](C)CC1",
    "C[C@H]1CC[C@H](C)CC1",
    "C[C@@H](O)[C@H](O)[C@@H](C)O",
    "F/C=C/[C@H](/C=C\\F)O",
    "O=C1[C@@H]2C=C[C@H]1C2",
    "CC(C)CCC[C@@H](C)[C@H]1CC[C@@H]2[C@@]1(CC[C@H]3[C@H]2CC=C4[C@@]3(CC[C@@H](C4)O)C)C",
]


@pytest.mark.parametrize("smiles", STEREO)
def test_drawings_have_the_stereo_of_the_molecule(smiles: str) -> None:
    """Read back by RDKit from the places and wedges that are drawn."""
    pytest.importorskip("rdkit")
    from rdkit import Chem

    from cgipool.data.molecules import MoleculeFeaturizer
    from cgipool.explain.molecule import molecule_of

    drawn = molecule_of(MoleculeFeaturizer().graph(smiles))
    again = Chem.MolFromMolBlock(Chem.MolToMolBlock(drawn, kekulize=False))
    assert Chem.CanonSmiles(Chem.MolToSmiles(again)) == Chem.CanonSmiles(smiles)


def test_stereo_that_cannot_be_told_is_left_out() -> None:
    """The labels of the two centres of a graph are changed so that no molecule has them."""
    pytest.importorskip("rdkit")
    from rdkit import Chem

    from cgipool.data.molecules import ATOM, MoleculeFeaturizer
    from cgipool.explain.molecule import molecule_of

    graph = MoleculeFeaturizer().graph("C[C@H]1CC[C@H](C)CC1")
    names = list(graph.category_names)
    names[list(ATOM).index("chirality")] = tuple(
        {"r": "R"}.get(name, name) for name in names[list(ATOM).index("chirality")]
    )
    drawn = molecule_of(replace(graph, category_names=tuple(names)))
    assert Chem.MolToSmiles(drawn) == "CC1CCC(C)CC1"


def test_a_molecule_with_an_aromatic_bond_outside_rings_is_drawn() -> None:
    """RDKit reads it, and cannot say where its double bonds are."""
    from cgipool.data.molecules import MoleculeFeaturizer

    model, _ = molecules()
    one = explain_graph(model, MoleculeFeaturizer().graph("*:CC*"), 0)
    assert one.molecule is not None
    assert b"</svg>" in draw(one, "svg")


def test_molecules_are_drawn_by_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = molecules()
    one = explain_graph(model, made, 1)
    shapes = ElementTree.fromstring(draw(one, "svg")).iter("{http://www.w3.org/2000/svg}ellipse")
    colours = Counter(re.search("fill:(#[0-9A-F]{6})", shape.get("style"))[1].lower() for shape in shapes)
    kept = [one.colour(level + 1, atom) for level in range(3) for atom in one.best(level, 99)]
    assert_same_colours(colours, Counter(kept))  # a disc under every kept atom
    assert draw(one, "png").startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "cgipool.explain.molecule", None)
    plain = explain_graph(model, made, 1)
    assert plain.molecule is None
    assert plain.labels[0].startswith("element C, degree 1, ")
    assert b"level 1: " in pooling_svg(plain), "without RDKit it is a graph"


def test_a_row_of_a_table_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, made = molecules()
    model.save(tmp_path / "m.safetensors")
    table = tmp_path / "new.csv"
    table.write_text(f"id,smiles\na,{SMILES[1]}\nb,xyz\nc,{SMILES[0]}\n")
    words = ["explain", str(tmp_path / "m.safetensors"), str(table), "--graph"]
    assert main([*words, "2"]) == 0
    said = capsys.readouterr().out
    size = explain_graph(model, made, 0).size
    assert said.startswith(f"graph 2 of new (id c): {size}\n")
    assert "true class" not in said, "its class is not known"
    for number, reason in (
        ("1", "(id b): it is not valid SMILES"),
        ("3", "new.csv has 3 rows"),
        ("-1", "new.csv has the id '-1'"),
    ):
        assert main([*words, number]) == 2
        assert reason in capsys.readouterr().err


def test_graphs_of_an_import_have_their_ids(tmp_path: Path) -> None:
    model, _ = molecules()
    (tmp_path / "d.csv").write_text("name,smiles,label\nA B,xyz,0\nC D,CCO,1\nE F,CCN,0\n")
    assert main(["data", "import", str(tmp_path / "d.csv"), "--out", str(tmp_path / "D")]) == 0
    one = explain_at(model, tmp_path / "D", 1)
    assert one.name == "graph 1 of d (id E F)"
    assert "<title>Graph 1 of d (id E F)</title>" in page([one])


def test_names_under_a_molecule_may_have_any_letters() -> None:
    model, made = molecules()
    one = explain_graph(model, made.relabelled(made.y, ("löslich <& 水", "yes")), 0)
    one = replace(one, outputs=("löslich <& 水", "yes"))
    words = [text.text for text in ElementTree.fromstring(draw(one, "svg")).iter("{http://www.w3.org/2000/svg}text")]
    assert f"{one.name}: {one.verdict}" in words
    assert "; true class: löslich <& 水" in one.verdict
    assert draw(one, "png") != draw(replace(one, outputs=("loslich <& 水", "yes")), "png")


def test_control_characters_in_names_do_no_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = molecules()
    evil = "\x1b[31m\x07red"
    replace(model, class_names=(evil, "yes")).save(tmp_path / "m.safetensors")
    (tmp_path / "d.csv").write_text(f"id,smiles\n{evil},CCO\n")
    words = ["explain", str(tmp_path / "m.safetensors"), str(tmp_path / "d.csv"), "--graph", "0"]
    assert main([*words, "--out", str(tmp_path / "a.svg")]) == 0
    said = capsys.readouterr().out
    assert re.match(r"graph 0 of d \(id .*red\): 3 atoms", said)
    assert not {"\x1b", "\x07"} & set(said)
    ElementTree.parse(tmp_path / "a.svg")


def pooling_svg(one: Explanation) -> bytes:
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        return draw(one, "svg")


def test_a_table_for_a_graph(model_file: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["explain", str(model_file), "motifs", "--graph", "7"]) == 0
    said = capsys.readouterr().out
    model, graph = FittedModel.load(model_file), load_dataset("motifs").subset([7])
    for name, p in zip(model.class_names, model.predict_proba(graph)[0], strict=True):
        assert f"{name} {p:.3f}" in said
    found = trace(model, graph)
    best = int(found.scores["y_d"][0].argmax())
    line = next(line for line in said.splitlines() if line.split()[:1] == ["1"])
    scores = [f"{found.scores[name][0, best]:.4f}" for name in ("y_r", "y_f", "y_d")]
    edges = edges_left(graph, found.alive)[0, 0]
    counts = f"1 {found.alive[0].sum()} of {graph.n_nodes} {edges} of {graph.n_edges // 2}"
    assert line.split() == [*counts.split(), str(best), *scores]
    assert "nodes kept  edges kept  best by y_d " in said


def test_broken_graphs_of_older_sets_are_told(
    model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture, as_format_1: Callable[[Path], None]
) -> None:
    some = load_dataset("motifs").subset(range(20))
    some.save(tmp_path / "graphs")
    as_format_1(tmp_path / "graphs")
    edges = np.load(tmp_path / "graphs" / "edge_disp.npy")
    edges[some.edge_ptr[some.node_ptr[7]]] = 10_000
    np.save(tmp_path / "graphs" / "edge_disp.npy", edges)
    words = ["explain", str(model_file), str(tmp_path / "graphs")]
    assert main([*words, "--scores", str(tmp_path / "scores.csv"), "--faithfulness"]) == 0
    said = capsys.readouterr().out
    assert "20 graphs; 1 could not be read" in said
    assert "19 graphs of motifs" in said
    with (tmp_path / "scores.csv").open() as stream:
        table = list(csv.DictReader(stream))
    (told,) = [row for row in table if row["reason"]]
    assert (told["graph"], told["node"]) == ("7", "")
    assert [row["graph"] for row in table if row["node"] == "0"] == [str(i) for i in range(20) if i != 7]
    assert main([*words, "--graph", "7"]) == 2
    assert "repeated or unsorted neighbour" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("motifs",), "nothing to explain: use"),
        (("motifs", "--graph", "1000"), "there is no graph 1000; motifs has 1,000, numbered from 0"),
        (("motifs", "--graph", "-1"), "no graph of motifs has the id '-1', and it is not a position"),
        (("motifs", "--graph", "1", "--member", "3"), "there is no member 3"),
        (("motifs", "--graph", "1", "--out", "a.pdf"), "must end in .svg, .png, .html"),
        (("motifs", "--graph", "1", "--out", "no/where/a.svg"), "there is no folder no/where"),
        (("motifs", "--graph", "1", "--out", "a.png", "--against", "MODEL"), "can only be drawn on a page"),
        (("motifs", "--out", "a.png"), "--out needs --graph"),
        (("motifs", "--scores", "no/where/a.csv"), "there is no folder no/where"),
        (("nowhere.zip", "--graph", "1"), "there is no data set at nowhere.zip"),
    ],
)
def test_errors_are_one_line(
    words: tuple[str, ...],
    said: str,
    model_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["explain", str(model_file), *(str(model_file) if word == "MODEL" else word for word in words)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--faithfulness", "--scores=scores.csv"])
def test_all_rows_of_a_table_are_not_explained(
    option: str, model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "new.csv").write_text("smiles\nCCO\n")
    assert main(["explain", str(model_file), str(tmp_path / "new.csv"), option]) == 2
    error = capsys.readouterr().err
    assert "--graph ID explains single rows" in error
    assert f"for {option.split('=')[0]}, import it first: cgipool data import" in error


def test_a_model_that_does_not_fit() -> None:
    with pytest.raises(UserError, match="the model does not fit these graphs: motifs has no node labels"):
        trace(fitted("cgi"), load_dataset("motifs"))
    with pytest.raises(UserError, match="there are no graphs"):
        trace(fitted("cgi"), graphs().subset([]))


@pytest.mark.parametrize("method", SELECTING)
def test_one_scale_for_all_levels_and_graphs(method: str) -> None:
    explained = [explain_graph(fitted(method), graphs(), number) for number in (0, 7)]
    for one in explained:
        known = one.trace.score[np.isfinite(one.trace.score)]
        assert one.scale.score == SELECTING[method][-1]
        assert one.scale.low <= known.min()
        assert known.max() <= one.scale.high
        assert "has no class direction" in one.scale.meaning
        assert len({f"{tick:g}" for tick in one.scale.ticks}) == len(one.scale.ticks) >= 3
    if method in ("topk", "sag"):
        assert all(one.scale.low == -one.scale.high for one in explained)
        assert all(one.scale.high < 5 * np.nanmax(np.abs(one.trace.score)) for one in explained)
    else:
        ends = (1 / (1 + math.e), math.e / (1 + math.e)) if method in ("cgi", "cgi-nomi") else (0.0, 1.0)
        assert all((one.scale.low, one.scale.high) == pytest.approx(ends) for one in explained)


def test_raw_scores_of_the_released_form_have_a_symmetric_scale() -> None:
    one = explain_graph(fitted("cgi", form="released"), graphs(), 0)
    assert one.scale.low == -one.scale.high
    assert np.nanmax(np.abs(one.trace.score)) <= one.scale.high


def test_near_equal_scores_look_equal() -> None:
    one = explain_graph(fitted("topk"), graphs(), 0)
    near = np.where(np.isfinite(one.trace.score), 0.498 + 1e-5 * np.arange(one.graph.n_nodes), np.nan)
    found = replace(one.trace, scores={"s": near.astype(np.float32)})
    scale = scale_of(TopKPool(4), found)
    colours = np.array([to_rgb(scale.colour(value)) for value in near[0]])
    assert np.ptp(colours, 0).max() < 0.02
    assert [f"{tick:g}" for tick in scale.ticks] == ["-0.5", "-0.25", "0", "0.25", "0.5"]
    nothing = replace(found, scores={"s": np.full_like(near, np.nan, np.float32)})
    assert (scale_of(TopKPool(4), nothing).low, scale_of(TopKPool(4), nothing).high) == (-1.0, 1.0)


def test_colours_darken_evenly() -> None:
    rgb = COLOURS(np.linspace(0, 1, 11))[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    steps = -np.diff(116 * np.cbrt(linear) - 16)  # of CIE lightness
    assert steps.min() > 2.5
    assert steps.max() < 1.6 * steps.min()
    assert ((linear + 0.05) / 0.05).min() > 4.5, "black letters can be read on all of them"


def assert_same_colours(found: Counter[str], wanted: Counter[str]) -> None:
    """RDKit cuts colours off where matplotlib rounds them."""

    def channels(colours: Counter[str]) -> np.ndarray:
        return np.array([[round(255 * part) for part in to_rgb(colour)] for colour in sorted(colours.elements())])

    assert found.total() == wanted.total()
    assert np.abs(channels(found) - channels(wanted)).max() <= 1


def test_graphs_are_found_by_id_then_by_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = molecules()
    model.save(tmp_path / "m.safetensors")
    rows = [("2", "CCO"), ("b", "CCN"), ("c d", "CCCO"), ("twice", "CCF"), ("twice", "CCS")]
    (tmp_path / "d.csv").write_text(
        "name,smiles,label\n" + "".join(f"{n},{s},{i % 2}\n" for i, (n, s) in enumerate(rows))
    )
    assert main(["data", "import", str(tmp_path / "d.csv"), "--out", str(tmp_path / "D")]) == 0
    capsys.readouterr()
    for data in ("D", "d.csv"):
        words = ["explain", str(tmp_path / "m.safetensors"), str(tmp_path / data), "--graph"]
        for which, number in (("2", 0), ("b", 1), ("c d", 2), ("1", 1), ("4", 4)):
            assert main([*words, which]) == 0
            assert capsys.readouterr().out.startswith(f"graph {number} of d (id {rows[number][0]}): ")
        for which, reason in (
            ("twice", "have the id 'twice', among them 3 and 4"),
            ("x", "has the id 'x', and it is not a position"),
        ):
            assert main([*words, which]) == 2
            assert reason in capsys.readouterr().err
    scores = tmp_path / "scores.csv"
    assert main(["explain", str(tmp_path / "m.safetensors"), str(tmp_path / "D"), "--scores", str(scores)]) == 0
    with scores.open() as stream:
        table = list(csv.DictReader(stream))
    assert list(table[0])[:4] == ["graph", "id", "node", "dropped"]
    sizes = [3, 3, 4, 3, 3]
    assert [(row["graph"], row["id"], row["node"]) for row in table] == [
        (str(number), rows[number][0], str(node)) for number in range(5) for node in range(sizes[number])
    ]


def test_rows_without_ids_are_found_by_position(tmp_path: Path) -> None:
    model, made = molecules()
    (tmp_path / "new.csv").write_text(f"smiles\n{SMILES[1]}\n{SMILES[0]}\n")
    one = explain_at(model, tmp_path / "new.csv", "1")
    assert one.size == explain_graph(model, made, 0).size
    assert one.name == "graph 1 of new", "a row number is not an id"


def test_names_of_nodes_and_columns_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    size = int(graphs().sizes[0])
    names = [f"roi<{i}>" for i in range(graphs().n_nodes)]
    one = replace(explain_graph(fitted("cgi"), graphs(), 0), node_names=names[:size], columns=("kind",))
    assert {label.split()[0] for label in one.labels} == {"kind"}
    made = page([one])
    assert 'data-tip="node 3 (roi&lt;3&gt;): kind ' in made
    assert made.count(">roi&lt;3&gt;</text>") == 4, "in the input and at three levels"
    assert '<td class="number">roi&lt;3&gt;</td>' in made
    assert b">roi&lt;3&gt;</text>" in pooling_svg(one)
    cells = [cell for column in levels_table(one).columns for cell in column.cells]
    assert f"roi<{one.best(0, 1)[0]}> {one.best(0, 1)[0]}" in cells
    monkeypatch.setattr(scores_module, "node_names", lambda part: names[: part.n_nodes])
    out = io.StringIO()
    write_scores(out, fitted("cgi"), graphs())
    assert [row["name"] for row in csv.DictReader(io.StringIO(out.getvalue()))] == names


def test_the_commands_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 7
    for command in COMMANDS:
        program, *words = shlex.split(command)
        assert program == "cgipool"
        short = ["epochs=2" if word.startswith("epochs=") else word for word in words]
        assert main(short) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    for line in re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)[-1].splitlines():
        words = re.sub(r"[\d.,]+", "", line).split()
        assert words in [re.sub(r"[\d.,]+", "", other).split() for other in said.splitlines()], line
    assert {path.name for path in tmp_path.iterdir()} >= {"graph3.svg", "graph3.html", "scores.csv"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", EXAMPLE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(3, ")


@cache
def with_targets(task: str) -> tuple[GraphSet, FittedModel]:
    size = graphs().sizes / 10.0
    columns = [size, -size] if task == "regression" else [graphs().y > 1, graphs().y % 2]
    some = graphs().with_targets(np.stack(columns, 1).astype(float), ("first", "<second>"), task)
    return some, fit(some, method="cgi", recipe="paper", width=8, epochs=2, ensemble=2)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
def test_target_columns_are_explained(task: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    some, model = with_targets(task)
    one = explain_graph(model, some, 3, member=1, target="<second>")
    expected = model.member_predictions(some)[1, 3]
    np.testing.assert_allclose(list(one.predictions.values()), expected, rtol=1e-4)
    assert one.prediction == ("<second>", pytest.approx(expected[1], rel=1e-4))
    assert one.measured["<second>"] == some.targets[3, 1]
    assert f"measured: {some.targets[3, 1]:.4g}" in one.verdict
    assert "<second>" not in page([one])
    ElementTree.fromstring(draw(one, "svg"))
    found = faithfulness(model, some, member=1, target="<second>")
    alone = model.task.evaluate(some.targets[:, [1]], model.member_predictions(some)[1][:, [1]])
    assert found.scores["the graphs as they are"] == pytest.approx(alone[model.task.primary], rel=1e-5)
    both = faithfulness(model, some).scores["the graphs as they are"]
    assert both == pytest.approx(
        model.task.evaluate(some.targets, model.member_predictions(some)[0])[model.task.primary], rel=1e-5
    )
    some.save(tmp_path / "set")
    model.save(tmp_path / "model.safetensors")
    command = ["explain", str(tmp_path / "model.safetensors"), str(tmp_path / "set")]
    assert main([*command, "--graph", "3", "--target", "<second>", "--out", str(tmp_path / "page.html")]) == 0
    assert "predicts <second>" in capsys.readouterr().out
    assert main([*command, "--faithfulness", "--scores", str(tmp_path / "scores.csv")]) == 0
    assert ("RMSE" if task == "regression" else "ROC-AUC, %") in capsys.readouterr().out
    assert main([*command, "--graph", "3", "--target", "third"]) == 2
    assert "unknown target 'third'" in capsys.readouterr().err


def test_a_classifier_has_no_target() -> None:
    with pytest.raises(UserError, match="--target needs a model for regression or several labels"):
        explain_graph(fitted("cgi"), graphs(), 0, target="first")
