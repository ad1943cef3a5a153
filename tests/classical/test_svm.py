"""The machine on molecules: a kernel written out in full gives scikit-learn's decisions, for every task."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC, SVR

pytest.importorskip("rdkit", reason="needs the extra chem")

from cgipool.classical import MODELS, Examples
from cgipool.data import GraphSet, motifs
from cgipool.data.descriptors import ecfp_counts, rdkit_descriptors
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
KIND = np.arange(COUNT) // 2 % 3
SIZE = PLAIN.sizes.astype(float) ** 1.5
MODEL = MODELS["rdkit-svm"]


def examples(graphs: GraphSet, **more) -> Examples:
    return Examples(graphs, TRAIN, VAL, task_of(graphs), seed=5, **more)


def kernel(share: float) -> np.ndarray:
    """[COUNT, COUNT] by the definition."""
    x = rdkit_descriptors(PLAIN).astype(np.float64)
    x = np.sign(x) * np.log1p(np.abs(x))
    x = x[:, x[TRAIN].std(0) > 0]
    x = ((x - x[TRAIN].mean(0)) / x[TRAIN].std(0)).clip(-5.0, 5.0)
    gaussian = np.exp(-((x[:, None] - x[None]) ** 2).sum(2) / x.shape[1])
    counts = ecfp_counts(PLAIN).astype(np.float64)
    least, most = (f(counts[:, None], counts[None]).sum(2) for f in (np.minimum, np.maximum))
    return (1 - share) * gaussian + share * least / most


@pytest.mark.oracle("rdkit-svm")
def test_values_with_gaps_are_scikit_learns() -> None:
    targets = np.stack([SIZE, np.where(KIND == 2, np.nan, SIZE - 10 * KIND)], axis=1)
    graphs = PLAIN.with_targets(targets, task="regression")
    weight = np.linspace(0.5, 1.5, COUNT).astype(np.float32)
    fitted = MODEL.fit(examples(graphs, sample_weight=weight))
    MODEL.check_arrays(fitted.arrays, task_of(graphs))
    found = MODEL.predict(fitted.arrays, graphs, task_of(graphs))
    whole = kernel(fitted.choice["share"])
    for column, y in enumerate(targets.T):
        known = TRAIN[~np.isnan(y[TRAIN])]
        machine = SVR(C=fitted.choice["C"], kernel="precomputed", epsilon=0.05)
        machine.fit(whole[np.ix_(known, known)], (y[known] - y[known].mean()) / y[known].std(), weight[known])
        wanted = machine.predict(whole[:, known]) * y[known].std() + y[known].mean()
        assert np.allclose(found[:, column], wanted, rtol=1e-3, atol=1e-2)
    assert np.allclose(MODEL.predict(fitted.arrays, graphs[[3, 9]], task_of(graphs)), found[[3, 9]])


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_ordered_as_scikit_learns_decisions(classes: int) -> None:
    graphs = PLAIN.relabelled(np.minimum(KIND, classes - 1), tuple(f"kind {c}" for c in range(classes)))
    fitted = MODEL.fit(examples(graphs, class_weight="balanced"))
    found = MODEL.predict(fitted.arrays, graphs, task_of(graphs))
    assert np.allclose(found.sum(1), 1.0)
    whole, cost = kernel(fitted.choice["share"]), fitted.choice["C"]
    decision = [
        SVC(C=cost, kernel="precomputed", class_weight="balanced")
        .fit(whole[np.ix_(TRAIN, TRAIN)], graphs.y[TRAIN] == c)
        .decision_function(whole[:, TRAIN])
        for c in range(classes)
    ]
    best, ours = np.sort(decision, axis=0), np.log(found)
    clear = best[-1] - best[-2] > 1e-3
    assert (np.argmax(decision, axis=0) == found.argmax(1))[clear].all()
    ratio = (ours[:, 1] - ours[:, 0]) / (decision[1] - decision[0])  # one temperature for all
    assert np.allclose(ratio[np.abs(decision[1] - decision[0]) > 0.1], np.median(ratio), rtol=2e-2)


def test_labels_with_gaps_and_of_one_value(tmp_path: Path) -> None:
    targets = np.stack([KIND == 1, np.median(SIZE) < SIZE, np.zeros(COUNT), np.full(COUNT, np.nan)], 1).astype(float)
    targets[::5, 1] = np.nan
    targets[VAL[0], 3] = 1.0
    graphs = PLAIN.with_targets(targets, task="multilabel")
    fitted = MODEL.fit(examples(graphs))
    found = MODEL.predict(fitted.arrays, graphs, task_of(graphs))
    assert np.all(found[:, 2] < 1e-6)
    assert np.isfinite(found).all()
    assert np.corrcoef(found[:, 1], np.median(SIZE) < SIZE)[0, 1] > 0.8


def test_estimators_read_smiles_and_files(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = GraphRegressor(method="rdkit-svm").fit(SMILES, SIZE)
    model.save(path)
    assert np.allclose(GraphRegressor.load(path).predict(SMILES[::-1]), model.predict(SMILES)[::-1])
    assert np.corrcoef(model.predict(SMILES), SIZE)[0, 1] > 0.95


def test_other_graphs_and_too_many_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="rdkit-svm needs molecules, and motifs is not a set of molecules"):
        GraphClassifier(method="rdkit-svm").fit(motifs(20))
    monkeypatch.setattr("cgipool.classical.svm.MOST", 10)
    with pytest.raises(UserError, match="at most 10 training molecules"):
        GraphRegressor(method="rdkit-svm").fit(SMILES, SIZE)


def test_damaged_arrays_are_an_error(tmp_path: Path) -> None:
    graphs = PLAIN.relabelled(KIND, ("a", "b", "c"))
    task, arrays = task_of(graphs), MODEL.fit(examples(graphs)).arrays
    for name, change in (
        ("descriptors", lambda a: a[:, 1:]),
        ("descriptors", lambda a: a * np.nan),
        ("scale", lambda a: a * 0.0),
        ("column", lambda a: a + 5000),
        ("bit", lambda a: a - 5000),
        ("start", lambda a: a[::-1].copy()),
        ("weight", lambda a: a[:, :2]),
        ("bias", lambda a: a[:1]),
    ):
        with pytest.raises(ValueError, match=r"support|finite|range"):
            MODEL.check_arrays(arrays | {name: change(arrays[name])}, task)
    model = GraphClassifier(method="rdkit-svm").fit(graphs).model_
    model.members[0]["scale"] *= 0
    model.save(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="not finite"):
        FittedModel.load(tmp_path / "model.safetensors")
