"""Graphs without classes in every format: predicted as the same graphs with classes are, and never learned from."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from cgipool import GraphSet, load_dataset
from cgipool.cli import main
from cgipool.data import read_tu
from cgipool.data.importers import FORMATS, ImportOptions, import_data
from cgipool.errors import UserError
from cgipool.inference.fitted import FittedModel
from cgipool.study.sets import own_sets

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")

TINY = ("--set", "width=8", "--set", "epochs=1", "--method", "topk")
SMILES = [f"{'C' * (1 + i % 5)}{'NO'[i % 2]}" for i in range(12)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    assert main(["fit", "motifs", "--out", str(path), *TINY]) == 0
    return path


@pytest.fixture
def graphs() -> GraphSet:
    return load_dataset("motifs").subset(range(9))


def run(*words: object) -> int:
    return main([str(word) for word in words])


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert run(*words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def tu(graphs: GraphSet, folder: Path) -> Path:
    folder.mkdir()
    ends = zip(graphs.edge_source + 1, graphs.edge_source + graphs.edge_disp + 1, strict=True)
    (folder / "X_A.txt").write_text("".join(f"{u}, {v}\n" for u, v in ends))
    (folder / "X_graph_indicator.txt").write_text("".join(f"{g + 1}\n" for g in graphs.node_graph))
    return folder


def archive(graphs: GraphSet, path: Path) -> Path:
    return Path(shutil.make_archive(str(path), "zip", tu(graphs, path)))


def edge_lists(graphs: GraphSet, folder: Path) -> Path:
    folder.mkdir()
    ends = zip(graphs.edge_source, graphs.edge_source + graphs.edge_disp, strict=True)
    lines = [f"{graphs.node_graph[u]},{u},{v}\n" for u, v in ends]
    (folder / "edges.csv").write_text("graph,source,target\n" + "".join(lines))
    nodes = [f"{g},{node}\n" for node, g in enumerate(graphs.node_graph)]
    (folder / "nodes.csv").write_text("graph,node\n" + "".join(nodes))
    (folder / "graphs.csv").write_text("graph\n" + "".join(f"{g}\n" for g in range(graphs.n_graphs)))
    return folder


def graphml(graphs: GraphSet, folder: Path) -> Path:
    folder.mkdir()
    for number, graph in enumerate(graphs.to_networkx()):
        graph.graph.clear()
        nx.write_graphml(graph, folder / f"{number}.graphml")
    return folder


def pyg(graphs: GraphSet, path: Path) -> Path:
    held = [{"edge_index": data.edge_index, "num_nodes": data.num_nodes} for data in graphs.to_pyg()]
    torch.save(held, path.with_suffix(".pt"))
    return path.with_suffix(".pt")


MADE: dict[str, Callable[[GraphSet, Path], Path]] = {"tu": tu, "edges": edge_lists, "graphml": graphml, "pyg": pyg}


def predicted(capsys: pytest.CaptureFixture[str], model: object, path: object) -> list[list[str]]:
    capsys.readouterr()
    assert run("predict", model, path) == 0
    return list(csv.reader(capsys.readouterr().out.splitlines()))


def check_rows(rows: list[list[str]], model: Path, graphs: GraphSet) -> None:
    names = graphs.class_names
    assert rows[0] == ["id", "prediction", *(f"p({name})" for name in names), "unseen_nodes", "reason"]
    found = np.array([row[2:-2] for row in rows[1:]], float)
    np.testing.assert_allclose(found, FittedModel.load(model).predict_proba(graphs), atol=1e-5)


@pytest.mark.parametrize("make", [tu, archive])
def test_tu_sets_are_predicted_and_explained_as_they_are(
    model: Path, graphs: GraphSet, tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable
) -> None:
    path = make(graphs, tmp_path / "X")
    for _ in ("read", "from the cache"):
        check_rows(predicted(capsys, model, path), model, graphs)
        assert "X_graph_labels.txt is missing" in refused(capsys, "fit", path, "--out", tmp_path / "m", *TINY)
    assert run("explain", model, path, "--graph", 2, "--faithfulness") == 0
    said = capsys.readouterr().out
    assert "true class" not in said
    assert "so accuracy is not shown" in said
    assert run("data", "info", path) == 0
    assert "not known" in capsys.readouterr().out


@pytest.mark.parametrize("form", MADE)
def test_an_import_without_classes_is_for_predictions_alone(
    model: Path, graphs: GraphSet, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path, out = MADE[form](graphs, tmp_path / "new"), tmp_path / "set"
    without = refused(capsys, "data", "import", path, "--out", out)
    assert without.endswith("; to import graphs without classes for prediction, use --unlabelled\n")
    assert run("data", "import", path, "--unlabelled", "--out", out) == 0
    assert "not known" in capsys.readouterr().out
    check_rows(predicted(capsys, model, out), model, graphs)
    for command in (["train", out], ["fit", out, "--out", tmp_path / "m"], ["compare", out]):
        assert "new has no known classes: its graphs can be predicted, not learned from" in refused(capsys, *command)
    if form != "tu":
        assert "(with --unlabelled, if its graphs have no class)" in refused(capsys, "predict", model, path)


def test_molecules_in_tables_and_sdf(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    monkeypatch.chdir(tmp_path)
    Path("old.csv").write_text("smiles,class\n" + "".join(f"{text},{i % 2}\n" for i, text in enumerate(SMILES)))
    Path("new.csv").write_text("id,smiles\n" + "".join(f"m{i},{text}\n" for i, text in enumerate(SMILES)))
    with chem.SDWriter("new.sdf") as writer:
        for i, text in enumerate(SMILES):
            molecule = chem.MolFromSmiles(text)
            molecule.SetProp("_Name", f"m{i}")
            writer.write(molecule)
    assert run("data", "import", "old.csv", "--out", "old") == 0
    assert run("fit", "old", "--out", "m.safetensors", *TINY) == 0
    rows = predicted(capsys, "m.safetensors", "new.csv")
    for source in ("new.csv", "new.sdf"):
        assert "use --unlabelled" in refused(capsys, "data", "import", source, "--out", "set")
        assert run("data", "import", source, "--unlabelled", "--out", "set") == 0
        assert predicted(capsys, "m.safetensors", "set") == rows
    Path("none.sdf").write_text("")
    assert "none.sdf has no rows" in refused(capsys, "data", "import", "none.sdf", "--unlabelled", "--out", "set")


def test_classes_that_are_there_are_not_read(graphs: GraphSet, tmp_path: Path) -> None:
    path = edge_lists(graphs, tmp_path / "new")
    (path / "graphs.csv").write_text("graph,label\n" + "".join(f"{g},x{g}\n" for g in range(graphs.n_graphs)))
    found = import_data(path, options=ImportOptions(unlabelled=True)).graphs
    assert (found.is_labelled, found.n_graphs) == (False, 9)
    with pytest.raises(UserError, match="--label cannot be used with --unlabelled, which reads no classes"):
        import_data(path, options=ImportOptions(unlabelled=True, label="label"))
    (path / "graphs.csv").write_text("graph\n")
    with pytest.raises(UserError, match=r"graphs\.csv has no rows"):
        import_data(path, options=ImportOptions(unlabelled=True))


def test_faults_of_tu_sets_without_classes(graphs: GraphSet, tmp_path: Path) -> None:
    path = tu(graphs, tmp_path / "X")
    for content, message in (("", "the data set is empty"), ("1\n0\n", "line 2: graphs are numbered from 1")):
        (path / "X_graph_indicator.txt").write_text(content)
        with pytest.raises(UserError, match=message):
            read_tu(path, unlabelled=True)


def test_every_format_knows_of_it() -> None:
    assert all("unlabelled" in form.options for form in FORMATS.values())


def test_a_study_is_refused_before_it_runs(graphs: GraphSet, tmp_path: Path) -> None:
    graphs.relabelled([-1] * 9, ()).save(tmp_path / "mine")
    with pytest.raises(UserError, match="motifs has no known classes: its graphs can be predicted, not learned from"):
        own_sets({"mine": "mine"}, tmp_path, ["mine"])
