"""Training with each of the backbone's choices: all splits at once is each alone, and running values are part of what
is saved, resumed, restored and used."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trees import SMALL, alone, quiet, result_of, same, tasks_of, trees, weights_of

from cgipool.data import GraphSet
from cgipool.data.batch import Batcher
from cgipool.data.features import Encoder
from cgipool.errors import UserError
from cgipool.inference.estimator import GraphClassifier
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit
from cgipool.pool import Sizes
from cgipool.task.classification import classification_loss
from cgipool.training import loop as split
from cgipool.training import run
from cgipool.training.checkpoint import digest_of, load_tensors, save_tensors
from cgipool.training.evaluate import chunks, evaluate
from cgipool.training.initial import model_of
from cgipool.training.job import EVALUATION
from cgipool.training.presets import ADDED, PAPER
from cgipool.training.stacked import host as together
from cgipool.training.stacked.group import Group
from cgipool.training.stacked.host import train_together
from small import TASK, group_of

STRONG = {"conv": "gcn-root", "norm": "batch", "gate": "unit", "jumping": "concat"}
CHOICES = [{"conv": "gcn-root"}, {"norm": "batch"}, {"norm": "layer"}, {"gate": "unit"}, {"jumping": "concat"}, STRONG]


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return trees()


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(choice.values()))
@pytest.mark.parametrize("method", ["cgi", "topk", "asap", "diffpool", "dgcnn"])
def test_together_is_alone(graphs: GraphSet, tmp_path: Path, method: str, choice: dict[str, str]) -> None:
    recipe = PAPER.but(**SMALL, **choice)
    one, other = (tasks_of(graphs, method, recipe, tmp_path / way) for way in ("alone", "together"))
    alone(one, graphs)
    train_together(other, graphs, quiet)
    for a, b in zip(one, other, strict=True):
        same(a, b)


@pytest.mark.parametrize("way", [alone, train_together])
def test_a_killed_run_goes_on(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Any) -> None:
    recipe = PAPER.but(**SMALL, **STRONG).but(epochs=5)
    whole, cut = (tasks_of(graphs, "topk", recipe, tmp_path / name, 1) for name in ("whole", "cut"))
    way(whole, graphs, quiet)
    for module in (split, together):
        monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(together, "LOOK_SECONDS", 0.0)

    def dies(progress: Any) -> None:
        if progress.epoch == 4:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        way(cut, graphs, dies)
    saved, _ = load_tensors(cut[0].folder / "checkpoint.safetensors")
    for name in ("running_mean", "running_var"):
        assert not torch.equal(saved[f"now/norms.0.{name}"], torch.zeros(8) + (name == "running_var"))
        assert f"best/norms.2.{name}" in saved
    way(cut, graphs, quiet)
    same(whole[0], cut[0], 0.0)


@pytest.mark.parametrize("way", [alone, train_together])
def test_best_weights_bring_their_running_values(graphs: GraphSet, tmp_path: Path, way: Any) -> None:
    recipe = PAPER.but(**SMALL, **STRONG).but(epochs=12, patience=4, lr=0.05)
    tasks = tasks_of(graphs, "sag", recipe, tmp_path)
    way(tasks, graphs, quiet)
    assert any(result_of(task)["best_epoch"] < result_of(task)["epochs"] for task in tasks)
    for task in tasks:
        encoder = Encoder.from_json(json.loads((task.folder / "encoder.json").read_text()))
        model = model_of(task.method, recipe, encoder, TASK, [1 / 3] * 3, Sizes.of(graphs.sizes[task.split.train]))
        model.load_state_dict(weights_of(task))
        batches = chunks(Batcher(graphs, encoder.encode(graphs)), task.split.val, task.key(EVALUATION))
        y = torch.from_numpy(graphs.y[task.split.val])
        loss = classification_loss(evaluate(model, batches).logits, y, torch.ones(len(y)))
        assert float(loss) == pytest.approx(result_of(task)["val_loss"], rel=1e-4)


def test_splits_that_stop_make_room(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = PAPER.but(**SMALL).but(norm="batch", epochs=30, patience=2, lr=0.02)
    one, other = (tasks_of(graphs, "none", recipe, tmp_path / way, 4) for way in ("alone", "together"))
    alone(one, graphs)
    kept: list[int] = []
    keep = Group.keep
    monkeypatch.setattr(Group, "keep", lambda group, splits: (kept.append(len(splits)), keep(group, splits))[1])
    train_together(other, graphs, quiet)
    assert kept, "a group of which a third has stopped shrinks"
    for a, b in zip(one, other, strict=True):
        same(a, b, 2e-2)


def test_restoring_puts_running_values_back(graphs: GraphSet, tmp_path: Path) -> None:
    group = group_of(tasks_of(graphs, "topk", PAPER.but(**SMALL, norm="batch"), tmp_path), graphs)
    before = {name: value.clone() for name, value in group.stack.state.items()}
    group.capture()
    group.programs["begin"]()
    group.stack.base.train()
    group._step()
    moved = {name for name, value in group.stack.state.items() if not torch.equal(value, before[name])}
    assert {f"norms.{site}.running_{part}" for site in range(3) for part in ("mean", "var")} <= moved
    group.stack.restore(before, group.stack.moments, {})
    for name, value in group.stack.state.items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("ensemble", [1, 2])
def test_a_fitted_model_round_trip(graphs: GraphSet, tmp_path: Path, ensemble: int) -> None:
    settings = SMALL | STRONG
    model = fit(graphs, method="cgi", recipe="paper", ensemble=ensemble, **settings)
    model.save(tmp_path / "model.safetensors")
    other = FittedModel.load(tmp_path / "model.safetensors")
    assert other.recipe == PAPER.but(**settings)
    np.testing.assert_array_equal(other.predict_proba(graphs), model.predict_proba(graphs))
    assert other.embed(graphs).shape == (graphs.n_graphs, ensemble * 3 * 2 * 8)
    assert not torch.equal(other.members[0]["norms.0.running_mean"], torch.zeros(8))
    again = GraphClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(graphs), model.predict_proba(graphs))


def test_a_model_from_before_these_settings(graphs: GraphSet, tmp_path: Path) -> None:
    model = fit(graphs, method="topk", **SMALL)
    model.save(tmp_path / "now.safetensors")
    tensors, header = load_tensors(tmp_path / "now.safetensors")
    plain = json.loads(header["model"])
    for name in ADDED:
        del plain["recipe"][name]
    text = json.dumps(plain)
    old = {"kind": header["kind"], "model": text, "checksum": digest_of(tensors, text)}
    save_tensors(tmp_path / "then.safetensors", tensors, old)
    then = FittedModel.load(tmp_path / "then.safetensors")
    assert then.recipe == model.recipe
    np.testing.assert_array_equal(then.predict_proba(graphs), model.predict_proba(graphs))


def test_a_run_from_before_these_settings_goes_on(graphs: GraphSet, tmp_path: Path) -> None:
    first = run.train(graphs, splits=2, out=tmp_path, **SMALL)
    known = json.loads((tmp_path / "run.json").read_text())
    for name in ADDED:
        del known["recipe"][name]
    (tmp_path / "run.json").write_text(json.dumps(known))
    (tmp_path / "split-001" / "result.json").unlink()
    with pytest.raises(UserError, match=r"different norm \(none then, batch now\); cannot resume it"):
        run.train(graphs, splits=2, out=tmp_path, resume=True, norm="batch", **SMALL)
    again = run.train(graphs, splits=2, out=tmp_path, resume=True, **SMALL)
    assert again.test_accuracy == first.test_accuracy
