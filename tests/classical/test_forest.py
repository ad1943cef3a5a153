"""Forests on molecules: our arrays give scikit-learn's predictions, for every task, and survive files and damage."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

pytest.importorskip("rdkit", reason="needs the extra chem")

from cgipool.classical import MODELS, Examples
from cgipool.classical.forest import Forest
from cgipool.data import GraphSet, motifs
from cgipool.data.descriptors import ecfp_bits, ecfp_counts, rdkit_descriptors
from cgipool.data.molecules import MoleculeFeaturizer
from cgipool.errors import UserError
from cgipool.inference.estimator import GraphClassifier
from cgipool.inference.fitted import FittedModel
from cgipool.inference.regressor import GraphRegressor
from cgipool.task.registry import task_of

SMILES = [f"{'C' * n}{tail}" for n in range(1, 13) for tail in ("O", "Cl", "N", "C(=O)O", "c1ccccc1", "[N+](C)(C)C")]
PLAIN = MoleculeFeaturizer().graphs(SMILES)
COUNT = len(SMILES)
TRAIN, VAL = np.arange(0, COUNT, 2), np.arange(1, COUNT, 2)
KIND = np.arange(COUNT) % 6
SIZE = PLAIN.sizes.astype(float)


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgipool.classical.forest.TREES", 12)


def examples(graphs: GraphSet, **more) -> Examples:
    return Examples(graphs, TRAIN, VAL, task_of(graphs), seed=5, **more)


@pytest.mark.oracle("ecfp-rf", "ecfp-count-rf", "rdkit-rf", "rdkit-et")
@pytest.mark.parametrize(
    ("name", "features", "kind"),
    [
        ("ecfp-rf", ecfp_bits, RandomForestClassifier),
        ("ecfp-count-rf", ecfp_counts, RandomForestClassifier),
        ("rdkit-rf", rdkit_descriptors, RandomForestClassifier),
        ("rdkit-et", rdkit_descriptors, ExtraTreesClassifier),
    ],
)
def test_classes_are_scikit_learns(name: str, features, kind: type) -> None:
    graphs = PLAIN.relabelled(KIND // 2, ("alcohol", "amine", "other"))
    fitted = MODELS[name].fit(examples(graphs, class_weight="balanced"))
    MODELS[name].check_arrays(fitted.arrays, task_of(graphs))
    x = features(graphs)
    forest = kind(12, random_state=5, class_weight="balanced").fit(x[TRAIN], graphs.y[TRAIN])
    found = MODELS[name].predict(fitted.arrays, graphs, task_of(graphs))
    assert np.allclose(found, forest.predict_proba(x), atol=1e-6)
    assert np.allclose(MODELS[name].predict(fitted.arrays, graphs[[3, 9]], task_of(graphs)), found[[3, 9]])


def test_values_with_gaps_are_scikit_learns() -> None:
    targets = np.stack([SIZE, np.where(KIND == 2, np.nan, 10 * SIZE), np.full(COUNT, np.nan)], axis=1)
    targets[1::2, 2] = 4.0  # known for no training graph
    graphs = PLAIN.with_targets(targets, task="regression")
    weight = np.linspace(0.5, 1.5, COUNT).astype(np.float32)
    model, task = MODELS["ecfp-count-rf"], task_of(graphs)
    found = model.predict(model.fit(examples(graphs, sample_weight=weight)).arrays, graphs, task)
    x = ecfp_counts(graphs)
    for column in (0, 1):
        known = TRAIN[~np.isnan(targets[TRAIN, column])]
        forest = RandomForestRegressor(12, random_state=5, max_features=1 / 3)
        forest.fit(x[known], targets[known, column], weight[known])
        assert np.allclose(found[:, column], forest.predict(x), rtol=1e-6)
    assert np.isfinite(found).all()


def test_labels_with_gaps_are_scikit_learns() -> None:
    targets = np.stack([KIND == 1, KIND > 2, np.zeros(COUNT)], axis=1).astype(float)
    targets[::3, 1] = np.nan
    graphs = PLAIN.with_targets(targets, task="multilabel")
    model, task = MODELS["rdkit-rf"], task_of(graphs)
    found = model.predict(model.fit(examples(graphs)).arrays, graphs, task)
    known = TRAIN[~np.isnan(targets[TRAIN, 1])]
    x = rdkit_descriptors(graphs)
    forest = RandomForestClassifier(12, random_state=5).fit(x[known], targets[known, 1])
    assert np.allclose(found[:, 1], forest.predict_proba(x)[:, 1], atol=1e-6)
    assert np.all(found[:, 2] == 0.0)


def test_estimators_read_smiles_and_files(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = GraphRegressor(method="ecfp-count-rf").fit(SMILES, SIZE)
    model.save(path)
    assert np.allclose(GraphRegressor.load(path).predict(SMILES[::-1]), model.predict(SMILES)[::-1])
    assert np.corrcoef(model.predict(SMILES), SIZE)[0, 1] > 0.9
    classifier = GraphClassifier(method="rdkit-rf").fit(SMILES, KIND > 2)
    assert classifier.score(SMILES, KIND > 2) > 0.9


def test_other_graphs_are_an_error() -> None:
    with pytest.raises(UserError, match="rdkit-rf needs molecules, and motifs is not a set of molecules"):
        GraphClassifier(method="rdkit-rf").fit(motifs(20))


def test_damaged_trees_are_an_error(tmp_path: Path) -> None:
    graphs = PLAIN.relabelled(KIND // 2, ("alcohol", "amine", "other"))
    forest, task = MODELS["ecfp-rf"], task_of(graphs)
    assert isinstance(forest, Forest)
    arrays = forest.fit(examples(graphs)).arrays
    for name, change in (
        ("left", lambda a: np.zeros_like(a)),  # a loop
        ("right", lambda a: a + len(a)),
        ("column", lambda a: a + 5000),
        ("root", lambda a: a + 10**6),
        ("target", lambda a: a + 1),
        ("value", lambda a: a[:, :1]),
        ("value", lambda a: a * np.nan),
        ("threshold", lambda a: a[:-1]),
    ):
        with pytest.raises(ValueError, match=r"trees|leaves|tree"):
            forest.check_arrays(arrays | {name: change(arrays[name])}, task)
    model = GraphClassifier(method="ecfp-rf").fit(graphs).model_
    model.members[0]["left"] *= 0
    model.save(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="invalid child"):
        FittedModel.load(tmp_path / "model.safetensors")
