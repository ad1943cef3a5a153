"""Split i alone is split i among others: trained one by one, in turns, or stacked on an axis of `vmap`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from cgipool.data import GraphSet, random_splits
from cgipool.data.batch import Batch, Capacity, stack
from cgipool.model.network import Network, Output
from cgipool.training import loop as split_module
from cgipool.training.job import STEP, Job, epoch_ids
from cgipool.training.loop import Training
from cgipool.training.presets import PAPER, RELEASED
from cgipool.training.recipe import Recipe
from small import loss_of, objective, random_graphs

SPLITS, EPOCHS, SEED = range(3), 2, 5

SMALL = {"width": 16, "batch_size": 16, "attributes": True, "alpha": 0.1}
"""48 of 60 graphs train: three steps an epoch. The attributes are continuous, so that rounding decides no selection."""

RUNS = [("cgi", PAPER), ("cgi-rs", PAPER), ("cgi-nomi", PAPER), ("cgi", RELEASED)]
runs = pytest.mark.parametrize(("method", "recipe"), RUNS, ids=[f"{m}-{r.name}" for m, r in RUNS])


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    sizes = np.random.default_rng(0).integers(1, 16, 60)
    return random_graphs(0, sizes.tolist(), density=0.3)


def training(graphs: GraphSet, method: str, recipe: Recipe, index: int, folder: Path) -> Training:
    (split,) = random_splits(graphs, seed=SEED, indices=[index])
    return Training(Job(method, recipe, split, SEED, "cpu", folder), graphs)


def all_trainings(graphs: GraphSet, method: str, recipe: Recipe, folder: Path) -> list[Training]:
    return [training(graphs, method, recipe, index, folder) for index in SPLITS]


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loss of each step of `Training.train_epoch`, as they come."""
    seen: list[float] = []

    def noting(output: Output, batch: Batch, *rest: Any) -> Tensor:
        loss = loss_of(output, batch, *rest)
        seen.append(loss.item())
        return loss

    monkeypatch.setattr(split_module, "objective", noting)
    return seen


def weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def together(trainings: list[Training]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """All splits in one network call per step: the losses [S] of each step, and the weights [S, …] in the end."""
    tasks, recipe = [t.job for t in trainings], trainings[0].recipe
    networks = [t.state.network for t in trainings]
    for network in networks:
        network.compact = False  # shapes that depend on the selection cannot be stacked
        network.train()
    params, _ = stack_module_state(networks)
    optimizer = torch.optim.Adam(params.values(), lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True)
    class_weight = torch.stack([t.constants for t in trainings])
    base = networks[0]

    def loss(one: dict[str, Tensor], batch: Batch, weight: Tensor) -> Tensor:
        return objective(functional_call(base, one, (batch,)), batch, weight, trainings[0].own_weight(epoch))

    steps = []
    for epoch in range(1, EPOCHS + 1):
        quiet = recipe.dropout_epochs is not None and epoch > recipe.dropout_epochs
        base.dropout = 0.0 if quiet else recipe.dropout
        for step, ids in enumerate(zip(*(epoch_ids(task, epoch) for task in tasks), strict=True)):
            batches = padded_alike(trainings, ids, [task.key(STEP, epoch, step) for task in tasks])
            per_split = torch.vmap(loss)(params, batches, class_weight)
            optimizer.zero_grad()
            per_split.sum().backward()
            optimizer.step()
            steps.append(per_split.detach())
    return steps, {name: value.detach() for name, value in params.items()}


def padded_alike(trainings: list[Training], ids: tuple[np.ndarray, ...], keys: list[int]) -> Batch:
    """The splits' batches of one step, with room for the largest of them and for a full batch of graphs."""
    needed = np.array([t.batcher.capacity(i) for t, i in zip(trainings, ids, strict=True)]).max(0)
    room = Capacity(int(needed[0]) + 3, int(needed[1]) + 3, trainings[0].recipe.batch_size, int(needed[3]) + 5)
    return stack([t.batcher.batch(i, key, room) for t, i, key in zip(trainings, ids, keys, strict=True)])


@runs
@pytest.mark.parametrize("batch_size", [16, 20], ids=["even", "short last batch"])
def test_through_vmap(
    graphs: GraphSet, tmp_path: Path, losses: list[float], method: str, recipe: Recipe, batch_size: int
) -> None:
    recipe = recipe.but(**SMALL).but(batch_size=batch_size)
    steps, stacked = together(all_trainings(graphs, method, recipe, tmp_path))
    assert len(steps) == 3 * EPOCHS
    for index in SPLITS:
        alone = training(graphs, method, recipe, index, tmp_path)
        before = weights(alone.state.network)
        losses.clear()
        for _ in range(EPOCHS):
            alone.train_epoch()
        np.testing.assert_allclose([s[index].item() for s in steps], losses, rtol=1e-4, atol=1e-5)
        for name, value in weights(alone.state.network).items():
            torch.testing.assert_close(stacked[name][index], value, rtol=1e-4, atol=1e-5, msg=name)
            idle = method == "cgi-nomi" and ".discriminator." in name
            assert torch.equal(value, before[name]) == idle, name


@runs
def test_in_turns(graphs: GraphSet, tmp_path: Path, method: str, recipe: Recipe) -> None:
    recipe = recipe.but(**SMALL)
    among = all_trainings(graphs, method, recipe, tmp_path)
    torch.manual_seed(1)
    turns = [[t.train_epoch() for t in among] for _ in range(EPOCHS)]
    torch.manual_seed(2)  # whatever else was drawn in the process
    for index in SPLITS:
        alone = training(graphs, method, recipe, index, tmp_path)
        assert [alone.train_epoch() for _ in range(EPOCHS)] == [turn[index] for turn in turns]
        for name, value in weights(alone.state.network).items():
            assert torch.equal(value, weights(among[index].state.network)[name]), name


def test_splits_differ(graphs: GraphSet, tmp_path: Path) -> None:
    first, second, third = all_trainings(graphs, "cgi", PAPER.but(**SMALL), tmp_path)
    for one, other in ((first, second), (second, third)):
        assert not np.array_equal(one.job.split.train, other.job.split.train)
        assert not torch.equal(one.state.network.head[0].weight, other.state.network.head[0].weight)
        assert one.job.key(STEP, 1, 0) != other.job.key(STEP, 1, 0)


def test_a_split_does_not_depend_on_how_many_are_drawn(graphs: GraphSet) -> None:
    among = random_splits(graphs, seed=SEED, indices=SPLITS)
    for index in SPLITS:
        (alone,) = random_splits(graphs, seed=SEED, indices=[index])
        for side in ("train", "val", "test"):
            np.testing.assert_array_equal(getattr(alone, side), getattr(among[index], side))


@pytest.mark.parametrize("vary", ["dropout", "negatives"])
def test_draws_follow_the_key_under_vmap(graphs: GraphSet, tmp_path: Path, vary: str) -> None:
    """One network, one batch, two keys: each row of the stack has its own draws."""
    method = "cgi-rs" if vary == "negatives" else "cgi"
    recipe = PAPER.but(**SMALL, dropout=0.5 if vary == "dropout" else 0.0)
    one = training(graphs, method, recipe, 0, tmp_path)
    network: Network = one.state.network
    network.compact = False
    network.train()
    ids = next(epoch_ids(one.job, 1))
    batches = [one.batcher.batch(ids, key) for key in (11, 12, 11)]
    look: Callable[[Output], Tensor] = (lambda o: o.logits) if vary == "dropout" else (lambda o: o.own_loss)
    with torch.no_grad():
        stacked = torch.vmap(lambda batch: look(network(batch)))(stack(batches))
        alone = torch.stack([look(network(batch)) for batch in batches])
    torch.testing.assert_close(stacked, alone)
    torch.testing.assert_close(stacked[0], stacked[2])
    assert not torch.equal(stacked[0], stacked[1])
