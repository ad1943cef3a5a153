"""Weights of graphs: in the loss by its formula, in both trainers, and part of what a run is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cgipool.data import GraphSet, motifs, random_splits
from cgipool.data.batch import Batcher
from cgipool.errors import UserError
from cgipool.model.network import Output
from cgipool.training import checkpoint
from cgipool.training.folder import split_folder
from cgipool.training.initial import fit_encoder
from cgipool.training.job import Job
from cgipool.training.loop import Training, train_split
from cgipool.training.objective import checked_weights
from cgipool.training.recipe import Recipe
from cgipool.training.run import train
from cgipool.training.stacked.host import train_together
from small import objective

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = {"method": "topk", "width": 8, "batch_size": 16, "epochs": 2}


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return motifs(60)


@pytest.fixture(scope="module")
def weight(graphs: GraphSet) -> np.ndarray:
    weight = np.random.default_rng(0).uniform(0.0, 3.0, graphs.n_graphs)
    weight[::7] = 0.0
    return weight


def weights_in(folder: Path) -> dict[str, bytes]:
    tensors = checkpoint.load_tensors(split_folder(folder, 0) / "weights.safetensors")[0]
    return {name: value.numpy().tobytes() for name, value in tensors.items()}


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_weighted_mean(graphs: GraphSet, weight: np.ndarray, smoothing: float) -> None:
    """Against torch's cross-entropy of each graph, averaged in float64."""
    recipe = Recipe(width=8)
    task = Job("topk", recipe, random_splits(graphs, seed=0, indices=[0])[0], 0, "cpu", Path("."))
    encoder = fit_encoder(task, graphs)
    ids = np.array([3, 14, 15, 9, 26, 7, 7])
    batch = Batcher(graphs, encoder.encode(graphs)).batch(ids)
    logits = torch.randn(len(ids), graphs.n_classes, generator=torch.Generator().manual_seed(0))
    output = Output(logits, torch.tensor(5.0), {}, logits)
    each = torch.nn.functional.cross_entropy(logits.double(), batch.y, reduction="none", label_smoothing=smoothing)
    expected = float(np.average(each.numpy(), weights=weight[ids])) + 0.5 * 5.0
    given = torch.from_numpy(weight.astype(np.float32))
    loss = objective(output, batch, torch.ones(graphs.n_classes), 0.5, smoothing=smoothing, sample_weight=given)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_validation_is_weighted_as_well(graphs: GraphSet, weight: np.ndarray, tmp_path: Path) -> None:
    split = random_splits(graphs, seed=0, indices=[0])[0]
    task = Job("topk", Recipe(width=8), split, 0, "cpu", tmp_path, sample_weight=weight.astype(np.float32))
    scores, answer = Training(task, graphs).validate()
    y = torch.from_numpy(graphs.y[split.val])
    each = torch.nn.functional.cross_entropy(answer.logits.double(), y, reduction="none")
    assert scores["val_loss"] == pytest.approx(np.average(each.numpy(), weights=weight[split.val]), rel=1e-5)


def test_equal_weights_give_the_bits_of_none(graphs: GraphSet, tmp_path: Path) -> None:
    for name, given in (("none", None), ("equal", np.full(graphs.n_graphs, 0.3))):
        train(graphs, out=tmp_path / name, sample_weight=given, **TINY)
    assert weights_in(tmp_path / "none") == weights_in(tmp_path / "equal")


def test_weights_change_what_is_learned_and_their_scale_does_not(
    graphs: GraphSet, weight: np.ndarray, tmp_path: Path
) -> None:
    for name, given in (("plain", weight), ("scaled", 8.0 * weight), ("none", None)):
        train(graphs, out=tmp_path / name, sample_weight=given, **TINY)
    assert weights_in(tmp_path / "plain") == weights_in(tmp_path / "scaled") != weights_in(tmp_path / "none")


def rows(task: Job) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (task.folder / "metrics.jsonl").read_text().splitlines()]


def test_the_engine_gives_what_the_plain_loop_gives(graphs: GraphSet, weight: np.ndarray, tmp_path: Path) -> None:
    recipe = Recipe(width=8, batch_size=16, epochs=3, label_smoothing=0.1, class_weight="balanced")
    splits = random_splits(graphs, seed=1, indices=range(2))
    given = checked_weights(weight, graphs.n_graphs, splits)
    plain, stacked = (
        [Job("cgi", recipe, s, 1, "cpu", tmp_path / name / str(s.index), sample_weight=given) for s in splits]
        for name in ("plain", "stacked")
    )
    for task in plain:
        train_split(task, graphs, lambda progress: None)
    train_together(stacked, graphs, lambda progress: None)
    for one, other in zip(plain, stacked, strict=True):
        for name in ("train_loss", "val_loss"):
            first, second = ([row[name] for row in rows(task)] for task in (one, other))
            np.testing.assert_allclose(first, second, rtol=1e-4)
    unweighted = replace(plain[0], folder=tmp_path / "unweighted", sample_weight=None)
    train_split(unweighted, graphs, lambda progress: None)
    assert abs(rows(unweighted)[0]["val_loss"] - rows(plain[0])[0]["val_loss"]) > 1e-3, "the weights have an effect"


def test_the_majority_is_by_weight(graphs: GraphSet, tmp_path: Path) -> None:
    weight = np.where(graphs.y == 2, 10.0, 1.0)
    train(graphs, method="majority", sample_weight=weight, out=tmp_path / "run")
    assert (np.load(split_folder(tmp_path / "run", 0) / "probabilities.npy").argmax(1) == 2).all()


def test_a_run_is_not_resumed_with_other_weights(graphs: GraphSet, weight: np.ndarray, tmp_path: Path) -> None:
    train(graphs, out=tmp_path / "run", sample_weight=weight, **TINY)
    train(graphs, out=tmp_path / "run", sample_weight=weight, resume=True, **TINY)
    for other in (None, weight[::-1]):
        with pytest.raises(UserError, match="holds a run with a different sample_weight; cannot resume it"):
            train(graphs, out=tmp_path / "run", sample_weight=other, resume=True, **TINY)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w[:-1], "must have 60 numbers, one for each graph"),
        (lambda w: w - 1.0, "must be finite and non-negative"),
        (lambda w: w * np.nan, "must be finite and non-negative"),
        (lambda w: ["a"] * len(w), "must have one number for each graph"),
        (lambda w: w * 0.0, "is zero for all training graphs of split 0"),
    ],
)
def test_what_cannot_be_weights(graphs: GraphSet, weight: np.ndarray, change: Any, said: str) -> None:
    with pytest.raises(UserError, match=f"sample_weight {said}"):
        train(graphs, sample_weight=change(weight), **TINY)
