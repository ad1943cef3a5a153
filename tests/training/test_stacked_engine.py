"""The engine that trains all splits at once, here on a CPU: what it gives is what each split gives alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cgipool.cli import main
from cgipool.data import GraphSet, random_splits
from cgipool.data.batch import Batcher
from cgipool.errors import UserError
from cgipool.ops.draws import extended, key_of, shuffled
from cgipool.pool import METHODS, NETWORKS
from cgipool.training import run as training_run
from cgipool.training.initial import fit_encoder
from cgipool.training.job import Diverged, Job, epoch_ids
from cgipool.training.loop import train_split
from cgipool.training.presets import PAPER, RELEASED
from cgipool.training.recipe import Recipe
from cgipool.training.stacked import group as engine
from cgipool.training.stacked import host as together
from cgipool.training.stacked.batches import Resident, near_dense
from cgipool.training.stacked.group import Group
from cgipool.training.stacked.host import Run, alike, train_together
from small import group_of, random_graphs

SMALL = {"width": 8, "batch_size": 16, "attributes": True, "epochs": 3, "lr": 0.005}
FAST = [name for name in NETWORKS if name not in ("majority", "oracle")]  # the oracle needs sets with truth


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    sizes = np.random.default_rng(1).integers(1, 14, 60)
    return random_graphs(1, sizes.tolist(), density=0.3)


def quiet(progress: Any) -> None:
    pass


def tasks_of(graphs: GraphSet, method: str, recipe: Recipe, folder: Path, splits: int = 3) -> list[Job]:
    drawn = random_splits(graphs, seed=4, indices=range(splits))
    return [Job(method, recipe, split, 4, "cpu", folder / str(split.index)) for split in drawn]


def alone(graphs: GraphSet, tasks: list[Job]) -> None:
    for task in tasks:
        train_split(task, graphs, quiet)


def rows(task: Job) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (task.folder / "metrics.jsonl").read_text().splitlines()]


def same(one: Job, other: Job) -> None:
    """Two trainings of a split: equal up to rounding, which grows over the epochs."""
    first, second = rows(one), rows(other)
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() - {"seconds", "sha256", "overlap", "discriminator_accuracy", "told_apart"}:
            np.testing.assert_allclose(a[name], b[name], rtol=2e-3, atol=2e-4, err_msg=f"{name}, epoch {a['epoch']}")
    one_result, other_result = (json.loads((t.folder / "result.json").read_text()) for t in (one, other))
    for name in ("split", "epochs", "best_epoch", "parameters"):
        assert one_result[name] == other_result[name], name
    before, after = (load_file(t.folder / "weights.safetensors") for t in (one, other))
    assert before.keys() == after.keys()
    for name, value in before.items():
        if one.method == "asap" and name.endswith("gnn.bias"):
            continue  # a softmax cancels it, so its gradient is rounding, which Adam blows up to full steps
        torch.testing.assert_close(after[name], value, rtol=2e-3, atol=2e-3, msg=name)
    p, q = (np.load(t.folder / "probabilities.npy") for t in (one, other))
    np.testing.assert_allclose(p, q, rtol=5e-3, atol=5e-3)
    assert not (other.folder / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("method", FAST)
def test_together_is_alone(graphs: GraphSet, tmp_path: Path, method: str) -> None:
    recipe = PAPER.but(**SMALL).but(epochs=2)
    one, other = (tasks_of(graphs, method, recipe, tmp_path / way) for way in ("alone", "together"))
    alone(graphs, one)
    train_together(other, graphs, quiet)
    for a, b in zip(one, other, strict=True):
        same(a, b)


def test_dropout_that_ends_and_an_order_that_stays(graphs: GraphSet, tmp_path: Path) -> None:
    recipe = RELEASED.but(**SMALL)
    assert recipe.dropout_epochs == 1
    assert not recipe.shuffle
    one, other = (tasks_of(graphs, "cgi", recipe, tmp_path / way) for way in ("alone", "together"))
    alone(graphs, one)
    train_together(other, graphs, quiet)
    for a, b in zip(one, other, strict=True):
        same(a, b)


def test_splits_that_stop_make_room(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = PAPER.but(**SMALL).but(epochs=40, patience=2, lr=0.02)
    one, other = (tasks_of(graphs, "topk", recipe, tmp_path / way, 5) for way in ("alone", "together"))
    alone(graphs, one)
    kept: list[int] = []
    keep = Group.keep
    monkeypatch.setattr(Group, "keep", lambda group, splits: (kept.append(len(splits)), keep(group, splits))[1])
    train_together(other, graphs, quiet)
    stopped = {json.loads((task.folder / "result.json").read_text())["epochs"] for task in one}
    assert len(stopped) > 1, "the splits should stop at different epochs"
    assert kept, "and a group of which a third has stopped should shrink"
    assert all(count <= 3 for count in kept)
    for a, b in zip(one, other, strict=True):
        same(a, b)


class Killed(Exception):
    pass


def test_a_killed_run_goes_on(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = PAPER.but(**SMALL).but(epochs=6)
    whole, cut = (tasks_of(graphs, "vip", recipe, tmp_path / way) for way in ("whole", "cut"))
    train_together(whole, graphs, quiet)
    monkeypatch.setattr(together, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(together, "LOOK_SECONDS", 0.0)

    def dies(progress: Any) -> None:
        if progress.epoch == 4:
            raise Killed

    with pytest.raises(Killed):
        train_together(cut, graphs, dies)
    assert all((task.folder / "checkpoint.safetensors").exists() for task in cut)
    train_together(cut, graphs, quiet)
    for a, b in zip(whole, cut, strict=True):
        same(a, b)
        assert [row["epoch"] for row in rows(b)] == list(range(1, 7))


def test_ctrl_c_leaves_a_checkpoint(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "LOOK_SECONDS", 0.0)
    recipe = PAPER.but(**SMALL).but(epochs=6)
    tasks = tasks_of(graphs, "cgi", recipe, tmp_path)

    def interrupt(progress: Any) -> None:
        if progress.epoch == 2 and progress.split == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_together(tasks, graphs, interrupt)
    assert all(together._saved_epoch(task) == 2 for task in tasks)


def test_too_little_memory_means_fewer_splits(
    graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = (tasks_of(graphs, "sag", PAPER.but(**SMALL), tmp_path / way) for way in ("alone", "together"))
    alone(graphs, one)
    run = Run.to_the_end

    def small_device(self: Run) -> None:
        if len(self.group.trainings) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        run(self)

    monkeypatch.setattr(Run, "to_the_end", small_device)
    train_together(other, graphs, quiet)
    assert "not enough memory for 3 splits at once; continuing with 2" in caplog.text
    for a, b in zip(one, other, strict=True):
        same(a, b)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_a_set_that_does_not_fit_into_a_device(
    error: Exception,
    graphs: GraphSet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tried with fewer splits, and told with what can read it."""

    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(engine, "Resident", full)
    monkeypatch.setattr(training_run, "_together", lambda task: True)
    graphs.save(tmp_path / "mine")
    assert main(["train", str(tmp_path / "mine"), "--splits", "2", "--out", str(tmp_path / "run")]) == 2
    assert "not enough memory for 2 splits at once; continuing with 1" in caplog.text
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == (
        f"cgipool: {graphs.name} does not fit into the memory of cpu, which must hold the whole data set; to read it "
        "batch by batch: torchrun --nproc-per-node 1 -m cgipool train … --distributed"
    )


def test_a_loss_that_explodes_names_its_split(graphs: GraphSet, tmp_path: Path) -> None:
    tasks = tasks_of(graphs, "none", PAPER.but(**SMALL).but(lr=1e30), tmp_path)
    with pytest.raises(Diverged, match=r"split \d: the loss became NaN or infinite in epoch"):
        train_together(tasks, graphs, quiet)


def test_splits_of_other_shapes_train_apart(graphs: GraphSet, tmp_path: Path) -> None:
    ratio = 6.0 / float(graphs.sizes.mean())  # K is 6 or 7, as the mean of the training graphs has it
    tasks = tasks_of(graphs, "diffpool", PAPER.but(**SMALL).but(ratio=ratio), tmp_path, 8)
    groups = alike(tasks, graphs)
    clusters = {Group(group, graphs).stack.base.pools[0].clusters for group in groups}
    assert len(clusters) == len(groups) > 1
    assert sorted(ready.job.split.index for group in groups for ready in group) == list(range(8))


def test_a_resident_batch_is_the_batchers(graphs: GraphSet, tmp_path: Path) -> None:
    tasks = tasks_of(graphs, "cgi", PAPER.but(**SMALL), tmp_path)
    encoders = [fit_encoder(task, graphs) for task in tasks]
    resident = Resident(graphs, [e.encode(graphs) for e in encoders], torch.device("cpu"))
    ids = torch.tensor([[3, 1, 4, 1], [59, 2, 6, -1], [5, -1, -1, -1]])
    room = resident.capacity(ids)._replace(entries=400, cells=900)
    batch = resident.batch(ids, torch.tensor([7, 8, 9]), room)
    for s, (row, encoder) in enumerate(zip(ids, encoders, strict=True)):
        expected = Batcher(graphs, encoder.encode(graphs)).batch(row[row >= 0].numpy(), 7 + s, room)
        for name, value in expected._asdict().items():
            ours, there = getattr(batch, name)[s], int(expected.slot_ptr[-1])
            if name in ("category", "floats"):  # nobody reads what stands in the padding
                ours, value = ours[:there], value[:there]
            assert torch.equal(ours, value), name


def test_a_batch_made_by_kernels(graphs: GraphSet, tmp_path: Path) -> None:
    batches = pytest.importorskip("cgipool.ops.gpu.batches", reason="needs Triton")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tasks = tasks_of(graphs, "cgi", PAPER.but(**SMALL), tmp_path)
    inputs = [fit_encoder(task, graphs).encode(graphs) for task in tasks]
    ids = torch.tensor([[3, 1, 4, 1, 30], [59, 2, 6, -1, -1], [5, -1, -1, -1, -1]])
    here, there = Resident(graphs, inputs, torch.device("cpu")), Resident(graphs, inputs, device)
    places = here.capacity(ids).positions + 3
    expected = here._positions(ids, places)
    tables = (there.size, there.edges, there.y, there.first, there.edge_ptr, there.category)
    made = batches.positions(ids.to(device), places, *tables)
    for name, ours, theirs in zip(expected._fields, made, expected, strict=True):
        assert torch.equal(ours.cpu(), theirs), name
    table = torch.randint(0, 2**31, (graphs.n_nodes, 3), dtype=torch.int32)
    assert torch.equal(batches.bits(made[-1], table.to(device)).cpu(), table[expected.node])


@pytest.mark.parametrize("method", [name for name in FAST if name != "structure-free"])
def test_near_dense_graphs_as_bits(method: str, tmp_path: Path) -> None:
    dense = random_graphs(2, [40, 3, 1, 33, 12, 7, 9, 20, 2, 5, 6, 4], density=0.6)
    tasks = tasks_of(dense, method, PAPER.but(**SMALL), tmp_path, 2)
    group = Group(alike(tasks, dense)[0], dense)
    inputs = [encoder.encode(dense) for encoder in group.encoders]
    ids = torch.tensor([[0, 3, 2, 1, -1], [5, 0, 4, 3, 7]])[: len(group.trainings)]
    lists, bits = (Resident(dense, inputs, torch.device("cpu"), tiled) for tiled in (False, True))
    room, key = lists.capacity(ids), torch.tensor([5, 6])[: len(ids)]
    weight = torch.ones(len(ids), dense.n_classes)
    for rows in ((), lists.rows(ids, 0.8, 3)):
        group.stack.base.rows = rows if METHODS[method].selects else ()
        one, other = (group.stack.losses(data.batch(ids, key, room), weight, 0.1)[0] for data in (lists, bits))
        torch.testing.assert_close(other, one)
        grads = [torch.autograd.grad(loss.sum(), group.stack.params["convs.0.bias"])[0] for loss in (one, other)]
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-6)


def test_bits_are_for_large_and_near_dense_graphs() -> None:
    assert near_dense(random_graphs(1, [80] * 10, density=0.5))
    assert not near_dense(random_graphs(1, [80] * 10, density=0.02))
    assert not near_dense(random_graphs(1, [20] * 10, density=0.5))


def test_orders_and_keys_on_the_device_are_those_of_the_plain_loop(graphs: GraphSet, tmp_path: Path) -> None:
    tasks = tasks_of(graphs, "cgi", PAPER.but(**SMALL), tmp_path)
    group = group_of(tasks, graphs)
    for epoch in (1, 2, 17):
        order = group._epoch_order(torch.tensor(epoch))
        for s, task in enumerate(tasks):
            for step, ids in enumerate(epoch_ids(task, epoch)):
                assert order[s, step, : len(ids)].tolist() == ids.tolist()
    key = torch.tensor([key_of(4, 0, 2), key_of(4, 1, 2)])
    assert extended(extended(key, torch.tensor(9)), torch.tensor(3)).tolist() == [
        key_of(4, split, 2, 9, 3) for split in (0, 1)
    ]
    assert shuffled(key, 50)[1].tolist() == shuffled(int(key[1]), 50).tolist()


def test_room_is_what_the_largest_step_needs(graphs: GraphSet, tmp_path: Path) -> None:
    tasks = tasks_of(graphs, "cgi", PAPER.but(**SMALL), tmp_path)
    group = group_of(tasks, graphs)
    nodes = [graphs.sizes[ids].sum() for task in tasks for epoch in (1, 2, 3) for ids in epoch_ids(task, epoch)]
    assert group.room.positions == max(nodes)


def test_a_checkpoint_of_another_training(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(together, "LOOK_SECONDS", 0.0)
    tasks = tasks_of(graphs, "topk", PAPER.but(**SMALL), tmp_path)

    def dies(progress: Any) -> None:
        if progress.epoch == 2:
            raise Killed

    with pytest.raises(Killed):
        train_together(tasks, graphs, dies)
    other = [Job("sag", t.recipe, t.split, t.seed, "cpu", t.folder) for t in tasks]
    with pytest.raises(UserError, match="does not match this training"):
        train_together(other, graphs, quiet)
