"""Settings of the optimisation: each is what its definition says, and all splits at once is each alone."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from trees import SMALL, alone, quiet, result_of, same, tasks_of, trees, weights_of

from cgipool.data import GraphSet
from cgipool.errors import UserError
from cgipool.model.network import Output
from cgipool.training import loop as split
from cgipool.training import optimiser as average
from cgipool.training.checkpoint import State, copy_of, load_tensors
from cgipool.training.loop import Training
from cgipool.training.objective import own_weight
from cgipool.training.presets import PAPER
from cgipool.training.stacked import host as together
from cgipool.training.stacked.group import Group
from cgipool.training.stacked.host import train_together
from small import group_of, objective, random_case

CHOICES: list[dict[str, Any]] = [
    {"label_smoothing": 0.2, "class_weight": "balanced"},
    {"schedule": "cosine"},
    {"warmup": 3},
    {"clip": 0.1},
    {"average": 0.8},
    {"average": 0.8, "norm": "batch"},
]
ALL: dict[str, Any] = {name: value for choice in CHOICES for name, value in choice.items()}


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return trees()


@pytest.fixture(autouse=True)
def soon_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings are short here."""
    monkeypatch.setattr(average, "SETTLED", 2)


def named(choice: dict[str, Any]) -> str:
    return "-".join(choice)


@pytest.mark.parametrize("choice", [*CHOICES, ALL], ids=named)
@pytest.mark.parametrize("method", ["cgi", "topk"])
def test_together_is_alone(graphs: GraphSet, tmp_path: Path, method: str, choice: dict[str, Any]) -> None:
    recipe = PAPER.but(**SMALL, **choice)
    one, other = (tasks_of(graphs, method, recipe, tmp_path / way) for way in ("alone", "together"))
    alone(one, graphs)
    train_together(other, graphs, quiet)
    for a, b in zip(one, other, strict=True):
        same(a, b)
        assert result_of(a)["val_loss"] == pytest.approx(result_of(b)["val_loss"], rel=1e-3)


@pytest.mark.parametrize("weight", [[1.0, 1.0, 1.0], [0.5, 2.0, 0.7], [1.5, 1.5, 0.0]])
def test_smoothed_labels_are_torchs(weight: list[float]) -> None:
    case = random_case(0)
    batch = case.batch()
    logits = torch.randn(len(batch.y), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    class_weight = torch.tensor(weight, dtype=torch.float64)

    def both(logits: Tensor) -> tuple[Tensor, Tensor]:
        output = Output(logits, torch.tensor(0.0), {}, logits)
        ours = objective(output, batch, class_weight, 0.0, smoothing=0.3)
        return ours, F.cross_entropy(logits, batch.y, class_weight, label_smoothing=0.3)

    ours, theirs = both(logits.requires_grad_())
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    (one,), (other,) = torch.autograd.grad(ours, logits), torch.autograd.grad(theirs, logits)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_validation_knows_the_labels_as_they_are(graphs: GraphSet, tmp_path: Path) -> None:
    recipe = PAPER.but(**SMALL, label_smoothing=0.4)
    (task,) = tasks_of(graphs, "topk", recipe, tmp_path, 1)
    training = Training(task, graphs)
    scores, answer = training.validate()
    assert scores["val_loss"] == pytest.approx(F.cross_entropy(answer.logits, training.val.y).item())


def test_the_scale_of_own_losses() -> None:
    half = PAPER.but(own_loss=0.5)
    for name, weight in {"diffpool": 0.5, "mincut": 0.5, "vip": 0.9995, "cgi": 0.001, "cgi-nomi": 0.0}.items():
        assert own_weight(half, name, "NCI1", epoch=1) == weight, name


@pytest.mark.parametrize("scale", [0.0, 0.25])
def test_scaled_losses_in_both_trainers(graphs: GraphSet, tmp_path: Path, scale: float) -> None:
    recipe = PAPER.but(**SMALL, own_loss=scale)
    one, other = (tasks_of(graphs, "diffpool", recipe, tmp_path / way) for way in ("alone", "together"))
    alone(one, graphs)
    train_together(other, graphs, quiet)
    for a, b in zip(one, other, strict=True):
        same(a, b)


def test_rates_by_hand() -> None:
    assert [PAPER.rate_at(epoch) for epoch in (1, 7, 1000)] == [0.001] * 3
    cosine = PAPER.but(schedule="cosine", epochs=4, lr=2.0)
    half = math.sqrt(0.5)
    assert [cosine.rate_at(epoch) for epoch in range(1, 5)] == pytest.approx([2.0, 1.0 + half, 1.0, 1.0 - half])
    rising = PAPER.but(warmup=3, lr=8.0)
    assert [rising.rate_at(epoch) for epoch in range(1, 7)] == [2.0, 4.0, 6.0, 8.0, 8.0, 8.0]
    both = cosine.but(warmup=1)
    assert [both.rate_at(epoch) for epoch in (1, 2)] == pytest.approx([1.0, 1.0 + half])


def test_cosine_rates_are_torchs() -> None:
    recipe = PAPER.but(schedule="cosine", epochs=30)
    adam = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=recipe.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, recipe.epochs)
    for epoch in range(1, 31):
        assert recipe.rate_at(epoch) == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        adam.step()
        schedule.step()


def test_a_step_is_as_long_as_the_rate_says(graphs: GraphSet, tmp_path: Path) -> None:
    """Adam's first step moves every weight that has a gradient by the rate."""
    recipe = PAPER.but(**SMALL, schedule="cosine", warmup=1, weight_decay=0.0).but(batch_size=1000)
    (task,) = tasks_of(graphs, "none", recipe, tmp_path, 1)
    training, group = Training(task, graphs), group_of([task], graphs)
    last = {name: value.clone() for name, value in group.stack.state.items()}
    training.train_epoch()
    group.capture()
    group.run_epoch(1)
    now = dict(training.state.network.named_parameters())
    for after in (now["head.2.bias"], group.stack.state["head.2.bias"][0]):
        torch.testing.assert_close((after - last["head.2.bias"][0]).abs(), torch.full((3,), 0.0025), rtol=1e-3, atol=0)


@pytest.mark.parametrize("way", [alone, train_together])
def test_a_killed_run_goes_on(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Any) -> None:
    recipe = PAPER.but(**SMALL, **ALL).but(epochs=6)
    whole, cut = (tasks_of(graphs, "cgi", recipe, tmp_path / name, 2) for name in ("whole", "cut"))
    way(whole, graphs, quiet)
    for module in (split, together):
        monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(together, "LOOK_SECONDS", 0.0)

    def dies(progress: Any) -> None:
        if progress.epoch == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        way(cut, graphs, dies)
    assert int(load_tensors(cut[0].folder / "checkpoint.safetensors")[1]["epoch"]) >= 2
    way(cut, graphs, quiet)
    for a, b in zip(whole, cut, strict=True):
        same(a, b, 0.0)


def assert_averaged(found: dict[str, Tensor], history: list[dict[str, Tensor]]) -> None:
    """Moving averages over steps with decay 0.9, in float64: of weights from the first, of running values from where
    they have settled."""
    for name in ("head.0.weight", "norms.0.weight", "norms.1.running_mean", "norms.2.running_var"):
        first, *rest = (state[name].double().numpy() for state in history["running" in name :])
        for value in rest:
            first = 0.9 * first + 0.1 * value
        np.testing.assert_allclose(found[name], first, rtol=1e-5, atol=1e-7, err_msg=name)
        assert not torch.equal(found[name], history[-1][name]), name


def test_the_average_follows_the_weights(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And they are trained as without it."""
    recipe = PAPER.but(**SMALL, norm="batch")
    (task,) = tasks_of(graphs, "topk", recipe.but(average=0.9), tmp_path, 1)
    training, bare = Training(task, graphs), Training(replace(task, recipe=recipe), graphs)
    history: list[dict[str, Tensor]] = []
    follow = State.follow

    def noting(state: State, decay: float) -> None:
        history.append(copy_of(state.network))
        follow(state, decay)

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(State, "follow", noting)
            loss = training.train_epoch()
        assert loss == bare.train_epoch()
    assert training.state.average is not None
    assert len(history) == 6
    found = training.state.average.state_dict()
    assert_averaged(found, history)
    for name, value in bare.state.network.state_dict().items():
        assert torch.equal(training.state.network.state_dict()[name], value), name


def test_the_average_of_all_splits(graphs: GraphSet, tmp_path: Path) -> None:
    tasks = tasks_of(graphs, "topk", PAPER.but(**SMALL, average=0.9, norm="batch"), tmp_path)
    group = group_of(tasks, graphs)
    group.capture()
    group.programs["begin"]()
    history = []
    for _ in range(3):
        group.programs["step"]()
        history.append({name: value.clone() for name, value in group.stack.state.items()})
    assert_averaged(group.stack.eval_state, history)


@pytest.mark.parametrize("way", [alone, train_together])
def test_averaged_weights_are_kept(graphs: GraphSet, tmp_path: Path, way: Any) -> None:
    """The weights that a split leaves give its validation loss and its probabilities."""
    recipe = PAPER.but(**SMALL, average=0.9, norm="batch").but(epochs=3)
    (task,) = tasks_of(graphs, "topk", recipe, tmp_path, 1)
    way([task], graphs, quiet)
    training = Training(replace(task, recipe=recipe.but(average=0.0)), graphs)
    training.state.network.load_state_dict(weights_of(task))
    assert training.validate()[0]["val_loss"] == pytest.approx(result_of(task)["val_loss"], rel=1e-4)
    p = torch.softmax(training.ask_test().logits.double(), 1)
    np.testing.assert_allclose(p, np.load(task.folder / "probabilities.npy"), rtol=1e-4)


def test_splits_that_stop_make_room(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = PAPER.but(**SMALL).but(**ALL).but(epochs=30, patience=2, lr=0.02, warmup=0)
    one, other = (tasks_of(graphs, "none", recipe, tmp_path / way, 4) for way in ("alone", "together"))
    alone(one, graphs)
    kept: list[int] = []
    keep = Group.keep
    monkeypatch.setattr(Group, "keep", lambda group, splits: (kept.append(len(splits)), keep(group, splits))[1])
    train_together(other, graphs, quiet)
    assert kept, "a group of which a third has stopped shrinks"
    for a, b in zip(one, other, strict=True):
        same(a, b, 2e-2)


@pytest.mark.parametrize("way", [alone, train_together])
def test_a_checkpoint_without_the_average(graphs: GraphSet, tmp_path: Path, way: Any) -> None:
    recipe = PAPER.but(**SMALL)
    (task,) = tasks_of(graphs, "topk", recipe, tmp_path, 1)
    task.folder.mkdir()
    training = Training(task, graphs)
    training.train_epoch()
    training.save()
    with pytest.raises(UserError, match=r"checkpoint.safetensors does not match this training: .*average/"):
        way([replace(task, recipe=recipe.but(average=0.9))], graphs, quiet)


def test_clipping_is_torchs(graphs: GraphSet, tmp_path: Path) -> None:
    """Of two splits, one has gradients that are small enough."""
    stack = group_of(tasks_of(graphs, "cgi", PAPER.but(**SMALL, clip=2.0), tmp_path), graphs).stack
    generator = torch.Generator().manual_seed(0)
    size = torch.tensor([0.01, 1.0])
    untouched = next(iter(stack.params))
    for name, p in stack.params.items():
        if name != untouched:
            p.grad = torch.randn(p.shape, generator=generator) * size.view(-1, *[1] * (p.ndim - 1))
    alone = [[p[s].detach().clone().requires_grad_() for p in stack.params.values()] for s in range(2)]
    norms = []
    for s, weights in enumerate(alone):
        for weight, p in zip(weights, stack.params.values(), strict=True):
            weight.grad = None if p.grad is None else p.grad[s].clone()
        norms.append(torch.nn.utils.clip_grad_norm_(weights, 2.0).item())
    assert norms[0] < 2.0 < norms[1]
    stack._clip()
    for s, weights in enumerate(alone):
        for weight, p in zip(weights, stack.params.values(), strict=True):
            assert (p.grad is None) == (weight.grad is None)
            if p.grad is not None:
                torch.testing.assert_close(p.grad[s], weight.grad, rtol=1e-5, atol=0)


def test_adam_gets_clipped_gradients(graphs: GraphSet, tmp_path: Path) -> None:
    """Its first moments after one step are a tenth of them."""
    recipe = PAPER.but(**SMALL, clip=0.01, weight_decay=0.0).but(batch_size=1000)
    tasks = tasks_of(graphs, "cgi", recipe, tmp_path)
    group = group_of(tasks, graphs)
    group.capture()
    group.run_epoch(1)
    moments = [torch.stack([m["exp_avg"][s].norm() for m in group.stack.moments.values()]).norm() for s in range(2)]
    training = Training(tasks[0], graphs)
    training.train_epoch()
    assert training.state.optimizer is not None
    moments.append(torch.stack([state["exp_avg"].norm() for state in training.state.optimizer.state.values()]).norm())
    assert torch.stack(moments).tolist() == pytest.approx([0.001] * 3, rel=1e-3)
