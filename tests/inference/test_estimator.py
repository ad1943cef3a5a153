"""`GraphClassifier` and its file: scikit-learn's tools, all kinds of graphs, models that survive a new process."""

import ast
import inspect
import json
import math
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from cgipool import GraphClassifier, GraphSet, load_dataset
from cgipool.data.splits import holdout
from cgipool.errors import UnusedDataWarning, UserError
from cgipool.inference.fitted import FittedModel
from cgipool.training.checkpoint import digest_of, load_tensors, save_tensors
from cgipool.training.recipe import SETTINGS, Recipe

SMALL = {"width": 8, "epochs": 3, "batch_size": 32}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return load_dataset("motifs").subset(range(0, 1000, 8))


@pytest.fixture(scope="module")
def y(graphs: GraphSet) -> np.ndarray:
    return np.array([f"class {c}" for c in graphs.y])


def classifier(**settings: object) -> GraphClassifier:
    return GraphClassifier(**{"method": "topk", "recipe": "paper", **SMALL, **settings})


def test_every_setting_of_a_recipe_is_a_parameter(graphs: GraphSet, y: np.ndarray) -> None:
    assert set(SETTINGS) <= set(GraphClassifier().get_params())
    model = GraphClassifier("none", recipe="strong-molecules", norm="layer", average=0.0, **SMALL).fit(graphs, y)
    assert model.model_.recipe.changes() == {"norm": "layer", "average": 0.0, **SMALL}
    search = GridSearchCV(classifier(epochs=1), {"norm": ["none", "batch"], "label_smoothing": [0.1]}, cv=2)
    assert search.fit(graphs, y).best_params_["label_smoothing"] == 0.1


def test_attributes_that_are_not_used_are_told(graphs: GraphSet, y: np.ndarray) -> None:
    floats = replace(graphs, attributes=np.ones((graphs.n_nodes, 3), np.float32))
    with pytest.warns(UserWarning, match=r"attributes \(3 columns\) are not used.*attributes=true"):
        classifier(epochs=1).fit(floats, y)
    classifier(epochs=1, attributes=True).fit(floats, y)
    classifier(epochs=1, recipe=Recipe(attributes=True)).fit(floats, y)


def test_a_class_in_float_x_is_not_lost_in_silence(graphs: GraphSet, y: np.ndarray) -> None:
    """The form that PyG's TUDataset gives: x of floats, edge_attr of floats."""
    listed = graphs.to_pyg()
    for data in listed:
        data.x = torch.full((data.num_nodes, 2), float(data.y))
        data.edge_attr = torch.ones(data.edge_index.shape[1], 4)
    with pytest.warns(UnusedDataWarning) as told:
        assert classifier(epochs=1).fit(listed, y).model_.encoder.n_floats == 2  # used by default
    assert [str(each.message) for each in told] == [
        "graphs: edge attributes (4 columns) are not used; conv=gine reads them",
    ]
    with pytest.warns(UnusedDataWarning) as told:
        classifier(epochs=1, attributes=False).fit(listed, y)
    assert [str(each.message) for each in told] == [
        "graphs: node attributes (2 columns) are not used and nodes have no labels, so only their degrees are seen; "
        "set attributes=true to use them",
        "graphs: edge attributes (4 columns) are not used; conv=gine reads them",
    ]
    assert {each.filename for each in told} == {__file__}


def test_discarded_directions_are_told(graphs: GraphSet, y: np.ndarray) -> None:
    directed = [nx.DiGraph(list(nx.Graph(graph).edges)) for graph in graphs.to_networkx()]
    with pytest.warns(UnusedDataWarning) as told:
        classifier(epochs=1).fit(directed, y)
    assert [str(each.message) for each in told] == [
        f"graphs: direction is discarded: {graphs.n_edges // 2:,} one-way edges count in both directions",
    ]


def test_it_learns() -> None:
    graphs = load_dataset("motifs").subset(range(0, 1000, 2))
    model = GraphClassifier(method="cgi", width=32, recipe="paper", epochs=25, lr=0.005).fit(graphs, graphs.y)
    rest = load_dataset("motifs").subset(range(1, 1000, 2))
    assert model.score(rest, rest.y) > 0.8
    assert model.model_.about["graphs"] == {"train": 450, "val": 50}


def test_predictions(graphs: GraphSet, y: np.ndarray) -> None:
    model = classifier().fit(graphs, y)
    p = model.predict_proba(graphs)
    assert p.shape == (len(graphs), 4)
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert list(model.classes_) == ["class 0", "class 1", "class 2", "class 3"]
    assert (model.predict(graphs) == model.classes_[p.argmax(1)]).all()
    assert model.score(graphs, y) == pytest.approx((model.predict(graphs) == y).mean())
    with pytest.raises(UserError, match=r"y must hold 125 labels, one for each graph; its shape is \(5,\)"):
        model.score(graphs, y[:5])
    assert model.transform(graphs).shape == (len(graphs), 16)
    assert (pickle.loads(pickle.dumps(model)).predict_proba(graphs) == p).all()


def test_the_same_graphs_in_every_form(graphs: GraphSet) -> None:
    labels = graphs.y.tolist()
    whole = classifier().fit(graphs, labels).predict_proba(graphs)
    for same in (graphs.to_pyg(), graphs.to_networkx(), [graphs[i] for i in range(len(graphs))]):
        np.testing.assert_allclose(classifier().fit(same, labels).predict_proba(same), whole, atol=1e-6)


def test_graphs_to_predict_need_no_class(graphs: GraphSet) -> None:
    model = classifier().fit(graphs, graphs.y)
    data, drawn = graphs.to_pyg()[:5], graphs.to_networkx()[:5]
    for one in data:
        del one.y
    for one in drawn:
        del one.graph["y"]
    expected = model.predict_proba(graphs[:5])
    np.testing.assert_allclose(model.predict_proba(data), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(drawn), expected, atol=1e-6)
    assert "y" not in drawn[0].graph, "what the user holds is not changed"
    assert data[0].get("y") is None


def test_a_graphset_brings_its_classes(graphs: GraphSet) -> None:
    model = classifier().fit(graphs)
    assert list(model.classes_) == sorted(graphs.class_names)
    assert set(model.predict(graphs)) <= set(graphs.class_names)


def test_labels_of_another_kind_are_no_score_of_zero(graphs: GraphSet, tmp_path: Path) -> None:
    """A GraphSet names its classes by texts and holds codes: the one can never equal the other."""
    named = replace(graphs, class_names=("1", "2", "3", "4"))
    model = classifier().fit(named)
    share = model.score(named, model.classes_[named.y])
    assert model.score(named) == share
    with pytest.raises(UserError, match=r"the labels in y \(0, .*of another type than .* \('1', '2', '3', …"):
        model.score(named, np.sort(named.y))
    model.save(tmp_path / "model.safetensors")
    loaded = GraphClassifier.load(tmp_path / "model.safetensors")
    assert loaded.score(named) == share
    shown = "Recipe('paper', width=8, batch_size=32, epochs=3)"
    assert " ".join(repr(loaded).split()) == f"GraphClassifier(method='topk', recipe={shown})"
    for unknown in (named.to_networkx(), replace(named, class_names=(), y=np.full_like(named.y, -1))):
        with pytest.raises(UserError, match="score needs y"):
            model.score(unknown)
    with pytest.raises(UserError, match="y mixes "):
        classifier().fit(graphs, ["a", *graphs.y[1:]])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ensemble": 2.7}, "ensemble must be a whole number, not 2.7"),
        ({"ensemble": "a"}, "ensemble must be a whole number, not 'a'"),
        ({"validation": "x"}, "held back must be a number between 0 and 1, not 'x'"),
        ({"verbose": "x"}, "verbose must be a whole number, not 'x'"),
        ({"recipe": None}, "recipe must be a name or a Recipe, not None"),
        ({"method": None}, "method must be a name, not None"),
    ],
)
def test_parameters_of_a_wrong_kind(graphs: GraphSet, y: np.ndarray, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        GraphClassifier(**{"width": 8, "epochs": 1} | given).fit(graphs, y)


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_valid_tag_types,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_mixin_order,
    ],
)
def test_conventions_of_scikit_learn(check: Any) -> None:
    """Those that do not need a table of numbers."""
    check("GraphClassifier", GraphClassifier())


def test_every_parameter_is_documented() -> None:
    text = inspect.getdoc(GraphClassifier) or ""
    named = re.findall(r"(?m)^(\w+) : ", text.partition("Attributes\n---")[0])
    assert named == list(inspect.signature(GraphClassifier).parameters)
    for name, value in Recipe().to_json().items():
        if name in named:
            entry = re.search(rf"(?m)^{name} : .*default=(.*)$", text)
            assert entry, name
            assert ast.literal_eval(entry[1]) == value, name


def test_in_a_notebook(graphs: GraphSet, y: np.ndarray) -> None:
    model = classifier(ensemble=2).fit(graphs, y)
    assert "GraphClassifier" in model._repr_html_()
    shown = repr(model.model_)
    assert re.fullmatch(
        r"FittedModel\(method='topk', recipe='paper', classes=4, members=2, weights=[\d,]+, device='cpu'\)", shown
    )


def test_progress_and_history(graphs: GraphSet, y: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    model = classifier(ensemble=2).fit(graphs, y)
    assert capsys.readouterr() == ("", "")
    assert [(row["member"], row["epoch"]) for row in model.history_] == [(m, e) for m in (0, 1) for e in (1, 2, 3)]
    assert all(row["train_loss"] > 0 and 0 <= row["val_accuracy"] <= 1 for row in model.history_)
    assert min(row["val_loss"] for row in model.history_) > 0
    lines = {}
    for verbose in (True, 2):
        again = classifier(verbose=verbose).fit(graphs, y)
        lines[verbose] = capsys.readouterr().out.splitlines()
        assert np.array_equal(again.predict_proba(graphs), classifier().fit(graphs, y).predict_proba(graphs))
    first = model.history_[0]
    said = (
        f"epoch 1: validation loss {first['val_loss']:.4f}, accuracy {100 * first['val_accuracy']:.1f} %, best epoch 1"
    )
    assert lines[True][0] == said
    assert [line.partition(":")[0].partition(",")[0] for line in lines[True]] == [
        "epoch 1", "epoch 2", "epoch 3", "done after 3 epochs",
    ]  # fmt: skip
    assert len(lines[2]) == 2


def test_weights_of_classes_as_scikit_learn_takes_them(graphs: GraphSet, y: np.ndarray) -> None:
    given = {"class 0": 5.0, "class 2": 0.5}  # the others have 1
    by_class = classifier(class_weight=given).fit(graphs, y)
    weight = compute_sample_weight(given, y)
    by_graph = classifier().fit(graphs, y, sample_weight=weight)
    p = by_class.predict_proba(graphs)
    assert np.array_equal(p, by_graph.predict_proba(graphs))
    assert not np.array_equal(p, classifier().fit(graphs, y).predict_proba(graphs))
    both = classifier(class_weight=given).fit(graphs, y, sample_weight=1.0 / weight)
    np.testing.assert_allclose(both.predict_proba(graphs), classifier().fit(graphs, y).predict_proba(graphs), rtol=1e-5)
    assert clone(by_class).get_params()["class_weight"] == given
    wrong = {"class 0": 1.0, "klass": 2.0}
    for bad, said in (
        (wrong, "does not match the labels"),
        ({"class 0": -1.0}, "non-negative"),
        ("odd", "unknown class we"),
    ):
        with pytest.raises(UserError, match=said):
            classifier(class_weight=bad).fit(graphs, y)


def test_a_balanced_dict_is_balanced(graphs: GraphSet, y: np.ndarray) -> None:
    some = graphs.subset(np.concatenate([np.flatnonzero(graphs.y == 0), np.flatnonzero(graphs.y == 1)[:12]]))
    train, _ = holdout(some.relabelled(some.y, ("a", "b")), 0.1, 0)
    share = dict(enumerate(compute_class_weight("balanced", classes=np.array([0, 1]), y=some.y[train])))
    named, given = (classifier(class_weight=how).fit(some, some.y) for how in ("balanced", share))
    np.testing.assert_allclose(named.predict_proba(some), given.predict_proba(some), rtol=1e-4)


def test_score_by_weight(graphs: GraphSet, y: np.ndarray) -> None:
    model = classifier().fit(graphs, y)
    weight = np.random.default_rng(0).uniform(size=len(y))
    assert model.score(graphs, y, weight) == pytest.approx(
        accuracy_score(y, model.predict(graphs), sample_weight=weight)
    )


def test_labels_in_a_table(graphs: GraphSet, y: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    expected = classifier().fit(graphs, y).predict(graphs)
    for table in (pandas.DataFrame({"class": y}), pandas.Series(y), y[:, None], pandas.Series(y, dtype="category")):
        assert np.array_equal(classifier().fit(graphs, table).predict(graphs), expected)
    with pytest.raises(UserError, match=r"y must hold 125 labels, one for each graph; its shape is \(125, 2\)"):
        classifier().fit(graphs, pandas.DataFrame({"a": y, "b": y}))
    holed = pandas.Series(y, dtype="string")
    holed[[3, 5]] = pandas.NA
    with pytest.raises(UserError, match="missing labels: None or NaN for 2 graphs, the first is graph 3; leave these"):
        classifier().fit(graphs, holed)


def test_missing_labels(graphs: GraphSet) -> None:
    floats = graphs.y.astype(float)
    floats[7] = math.nan
    for missing in (floats, floats.tolist(), [None if c != c else c for c in floats], [*"ab" * 62, None]):
        with pytest.raises(UserError, match="y has missing labels: None or NaN for graph"):
            classifier().fit(graphs, missing)


def test_scikit_learn_takes_it(graphs: GraphSet, y: np.ndarray) -> None:
    model = classifier()
    assert is_classifier(model)
    assert clone(model).get_params() == model.get_params()
    scores = cross_val_score(model, graphs, y, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    pipeline = Pipeline([("graphs", classifier()), ("linear", LogisticRegression(max_iter=200))])
    assert pipeline.fit(graphs, y).predict(graphs).shape == y.shape
    assert Pipeline([("graphs", classifier())]).fit(graphs, y).score(graphs, y) >= 0


def test_grid_search_in_two_processes(graphs: GraphSet, y: np.ndarray) -> None:
    search = GridSearchCV(classifier(epochs=1), {"ratio": [0.5, 0.8]}, cv=2, n_jobs=2).fit(graphs, y)
    assert search.best_params_["ratio"] in (0.5, 0.8)
    assert search.predict(graphs).shape == y.shape


def test_parameters() -> None:
    model = GraphClassifier("sag", width=16)
    assert repr(model) == "GraphClassifier(method='sag', width=16)"
    assert model.set_params(ratio=0.5).get_params()["ratio"] == 0.5
    with pytest.raises(UserError, match="unknown parameter 'widht'; did you mean 'width'"):
        model.set_params(widht=3)


def test_numbers_of_numpy_and_states(graphs: GraphSet, tmp_path: Path) -> None:
    """What a grid over `np.arange` and a shared RandomState give."""
    plain = classifier(epochs=1, width=4, ensemble=2, random_state=3)
    other = classifier(epochs=np.int64(1), width=np.int64(4), ensemble=np.int64(2), random_state=np.int64(3))
    model, state = other.fit(graphs), np.random.RandomState(0)
    np.testing.assert_array_equal(model.predict_proba(graphs), plain.fit(graphs).predict_proba(graphs))
    model.save(tmp_path / "model.safetensors")
    seeds = [classifier(epochs=1, random_state=s).fit(graphs).model_.about["seed"] for s in (state, state, None)]
    assert len(set(seeds)) == 3


def test_an_ensemble_is_the_mean_of_its_members(graphs: GraphSet) -> None:
    model = classifier(ensemble=3).fit(graphs, graphs.y).model_
    alone = [FittedModel(**{**vars_of(model), "members": [weights]}).predict_proba(graphs) for weights in model.members]
    np.testing.assert_allclose(model.predict_proba(graphs), np.mean(alone, axis=0))
    assert model.embed(graphs).shape == (len(graphs), 48)


def vars_of(model: FittedModel) -> dict:
    return {name: getattr(model, name) for name in FittedModel.__dataclass_fields__}


SAVED = ("cgi", "diffpool", "dgcnn", "majority", "structure-free")
NEW_PROCESS = """
import sys, numpy as np
from cgipool import GraphClassifier, GraphSet
folder, *methods = sys.argv[1:]
g = GraphSet.load(folder + "/graphs")
for method in methods:
    m = GraphClassifier.load(f"{folder}/{method}.safetensors")
    np.save(f"{folder}/{method}.p.npy", m.predict_proba(g))
    np.save(f"{folder}/{method}.y.npy", m.predict(g))
"""


def test_models_saved_and_loaded_in_a_new_process(graphs: GraphSet, tmp_path: Path) -> None:
    models = {method: classifier(method=method, ensemble=2).fit(graphs, graphs.y * 10) for method in SAVED}
    for method, model in models.items():
        model.save(tmp_path / f"{method}.safetensors")
    graphs.save(tmp_path / "graphs")
    subprocess.run([sys.executable, "-c", NEW_PROCESS, str(tmp_path), *SAVED], check=True)
    for method, model in models.items():
        assert np.array_equal(np.load(tmp_path / f"{method}.p.npy"), model.predict_proba(graphs)), method
        loaded = np.load(tmp_path / f"{method}.y.npy")
        assert loaded.dtype.kind == "i", method
        assert np.array_equal(loaded, model.predict(graphs)), method


def test_labels_that_no_file_keeps(graphs: GraphSet, tmp_path: Path) -> None:
    """They can be predicted all the same."""
    days = np.array(["2021-06-16", "2021-06-17"], dtype="datetime64[D]")
    model = classifier(epochs=1).fit(graphs, days[graphs.y % 2])
    assert set(model.predict(graphs)) <= set(days)
    with pytest.raises(UserError, match=r"cannot write .*: labels must be numbers or strings \(.* date "):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_read(graphs: GraphSet, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    classifier().fit(graphs, graphs.y).save(path)
    content = path.read_bytes()

    def refused(said: str) -> None:
        with pytest.raises(UserError, match=said) as caught:
            GraphClassifier.load(path)
        assert "\n" not in str(caught.value)

    flipped = bytearray(content)
    flipped[-100] ^= 1
    path.write_bytes(flipped)
    refused("is damaged")
    place = content.index(b"class_names") + 20
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    refused("damaged|cannot read")
    path.write_bytes(content[: len(content) // 2])
    refused("cannot read")
    save_file({"weight": load_tensors_of(content, tmp_path)}, path)
    refused("has format None|is not a model")
    path.unlink()
    refused("cannot read")


def load_tensors_of(content: bytes, folder: Path):
    copy = folder / "copy.safetensors"
    copy.write_bytes(content)
    return next(iter(load_tensors(copy)[0].values()))


def test_models_of_other_versions(graphs: GraphSet, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    classifier().fit(graphs, graphs.y).save(path)
    tensors, header = load_tensors(path)
    plain = json.loads(header["model"])

    def rewritten(**changes: object) -> None:
        text = json.dumps(plain | changes)
        save_tensors(path, tensors, {"kind": header["kind"], "model": text, "checksum": digest_of(tensors, text)})

    earlier = {name: value for name, value in plain["recipe"].items() if name != "class_weight"}
    rewritten(recipe=earlier)
    assert GraphClassifier.load(path).predict(graphs).shape == (len(graphs),), (
        "a setting that came later has its default"
    )
    rewritten(recipe=plain["recipe"] | {"warp": 9})
    with pytest.raises(UserError, match="setting 'warp', which this version does not know"):
        GraphClassifier.load(path)
    rewritten(format=2)
    with pytest.raises(UserError, match="has format 2, but this version reads 1"):
        GraphClassifier.load(path)


def test_wrong_inputs(graphs: GraphSet) -> None:
    with pytest.raises(UserError, match="not trained yet") as raised:
        classifier().predict(graphs)
    assert isinstance(raised.value, NotFittedError)
    with pytest.raises(UserError, match="y must hold 125 labels, one for each graph"):
        classifier().fit(graphs, [0, 1])
    with pytest.raises(UserError, match="must hold class labels; for continuous targets use GraphRegressor"):
        classifier().fit(graphs, np.linspace(0, 1, len(graphs)))
    with pytest.raises(UserError, match=r"y must hold one label for each graph, not lists of labels such as \['a'\]"):
        classifier().fit(graphs, [["a"], ["b"], ["a"], ["b"], ["a"]] * 25)
    with pytest.raises(UserError, match=r"other than 0 and 1 \(2 in graph 0\); for numbers use .*GraphRegressor"):
        classifier().fit(graphs, np.tile([2.0, 0.0], (len(graphs), 1)))
    with pytest.raises(UserError, match="y has only one class"):
        classifier().fit(graphs, np.zeros(len(graphs), int))
    with pytest.raises(UserError, match="y mixes "):
        classifier().fit(graphs, np.array([1, *["a"] * 124], object))
    with pytest.raises(UserError, match="missing labels"):
        classifier().fit(graphs, np.array([math.nan, *["a"] * 124], object))
    with pytest.raises(UserError, match="random_state must be"):
        classifier(random_state="0").fit(graphs, graphs.y)
    with pytest.raises(UserError, match="needs y"):
        classifier().fit(graphs.to_pyg())
    with pytest.raises(UserError, match="needs y, one label for each graph: motifs has no known classes"):
        classifier().fit(graphs.relabelled(np.full(len(graphs), -1), ()))
    with pytest.raises(UserError, match="graphs must be"):
        classifier().fit(3, [0])
    for single in (graphs.to_pyg()[0], graphs.to_networkx()[0]):
        with pytest.raises(UserError, match="put a single graph into a list"):
            classifier().fit(single, [0])
    with pytest.raises(UserError, match="of one kind"):
        classifier().fit([graphs[0], 3], [0, 1])
    model = classifier(attributes=True, features="degree")
    with pytest.raises(UserError, match="no node attributes"):
        model.fit(graphs, graphs.y)
    with pytest.raises(UserError, match="between 0 and 1"):
        classifier(validation=1.5).fit(graphs, graphs.y)


def test_features_of_another_width(graphs: GraphSet) -> None:
    generator = np.random.default_rng(0)
    wide, narrow = (
        replace(graphs, attributes=generator.normal(size=(graphs.n_nodes, k)).astype(np.float32), checked=False)
        for k in (3, 2)
    )
    model = classifier(attributes=True).fit(wide, wide.y)
    with pytest.raises(UserError, match="has 2 attribute columns; the encoder was fitted on 3"):
        model.predict(narrow)


def test_indexing_and_joining(graphs: GraphSet) -> None:
    parts = [graphs[i] for i in range(len(graphs))]
    joined = GraphSet.join(parts)
    for name in ("node_ptr", "edge_ptr", "edge_disp", "y"):
        assert np.array_equal(getattr(joined, name), getattr(graphs, name))
    assert len(graphs[-1]) == 1
    assert graphs[-1].y[0] == graphs.y[-1]
    assert len(graphs[2:7]) == 5
    assert len(graphs[np.arange(len(graphs)) < 3]) == 3
    assert len(list(graphs)) == len(graphs)
    with pytest.raises(IndexError):
        graphs[len(graphs)]
    with pytest.raises(UserError, match="different class names"):
        GraphSet.join([graphs, graphs.relabelled(graphs.y, ("a", "b", "c", "d"))])


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("method", ["cgi", "dgcnn", "diffpool", "asap", "set2set"])
def test_a_graph_without_nodes_alone(method: str) -> None:
    graphs = load_dataset("motifs")[:40]
    model = GraphClassifier(method=method, width=8, epochs=1).fit(graphs, graphs.y)
    empty = GraphSet.from_edges("empty", [0], [], [], [0])
    assert model.predict_proba(empty).sum() == pytest.approx(1.0)
