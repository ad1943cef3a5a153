"""One model trained by several processes: it is the plain training, whoever does which part of it.

Started by torchrun, this file is what the processes of some tests run.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cgipool.cli import main
from cgipool.data import GraphSet, columns, motifs, random_splits
from cgipool.data.batch import PartialBatch
from cgipool.errors import UserError
from cgipool.model.level import Level
from cgipool.ops.draws import key_of
from cgipool.pool import NETWORKS, Pooled
from cgipool.task.classification import Classification, class_weights
from cgipool.task.metrics import METRICS
from cgipool.training import loop as split
from cgipool.training.checkpoint import copy_of, load_tensors
from cgipool.training.distributed.process_group import Ranks, process_group
from cgipool.training.distributed.shares import PartialLoss, Shares, check_alone, owners
from cgipool.training.distributed.train import DistributedTraining, StopSignal
from cgipool.training.loop import Job, Training
from cgipool.training.objective import objective
from cgipool.training.presets import PAPER
from cgipool.training.recipe import Recipe
from cgipool.training.result import Log, read_row

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 14
GRAPHS, TRAIN = 122, 97
"""The last batch of 16 has one graph: one of two processes gets none."""

OPTIMISATION = {"schedule": "cosine", "warmup": 2, "epochs": 9, "clip": 0.1, "average": 0.9, "label_smoothing": 0.1}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cgi": ("cgi", {}),
    "no dropout, balanced": ("cgi", {"dropout": 0.0, "class_weight": "balanced", "alpha": 1.0}),
    "random negatives": ("cgi-rs", {"form": "released", "conv": "sage"}),
    "complement": ("cgi", {"negative": "complement", "encoding": "unit", "critic_weight_decay": 0.0, "alpha": 1.0}),
    "sufficient": ("cgi", {"negative": "sufficient", "alpha": 1.0}),
    "no own loss": ("cgi-nomi", {}),
    "mean over nodes": ("vip", {"ratio": 0.9}),
    "optimisation": ("cgi", OPTIMISATION),
    "strong": ("cgi", {"conv": "gin", "norm": "batch", "jumping": "concat", **OPTIMISATION}),
    "weighted": ("cgi", {"class_weight": "balanced", "alpha": 1.0}),
    "weighted, sufficient": ("cgi", {"negative": "sufficient", "alpha": 1.0}),
    "few labels": ("cgi", {"labelled": 0.2, "alpha": 1.0}),
    "regression": ("topk", {"stop_by": "mae", "dropout": 0.0}),
    "multilabel": ("topk", {"dropout": 0.0}),
}
"""By name, a method and what differs from the paper's recipe. The graphs of those called weighted have weights; two are
named after a task other than classification."""

SMALL = ["--set", "width=16", "--batch-size", "16", "--epochs", "15", "--patience", "15"]


def recipe_of(**changes: Any) -> Recipe:
    return PAPER.but(width=16, batch_size=16, **changes)


def task_of(
    graphs: GraphSet, method: str, recipe: Recipe, folder: Path = Path(), weight: np.ndarray | None = None
) -> Job:
    (one,) = random_splits(graphs, seed=0, indices=[0])
    return Job(method, recipe, one, 0, "cpu", folder, sample_weight=weight)


def case(name: str, graphs: GraphSet) -> tuple[Job, GraphSet]:
    method, changes = CASES[name]
    graphs = with_targets(graphs, name) if name in ("regression", "multilabel") else graphs
    weight = weights(graphs.n_graphs) if name.startswith("weighted") else None
    return task_of(graphs, method, recipe_of(**changes), weight=weight), graphs


def with_targets(graphs: GraphSet, task: str) -> GraphSet:
    """The same graphs with two target columns, one of which has gaps."""
    values = [graphs.sizes / 10.0, -graphs.sizes] if task == "regression" else [graphs.y > 1, graphs.y % 2]
    targets = np.stack(values, 1).astype(float)
    targets[::7, 1] = np.nan
    return graphs.with_targets(targets, ("first", "second"), task)


def weights(count: int) -> np.ndarray:
    """Between 0 and 3, and 0 for every third graph."""
    drawn = np.random.default_rng(0).uniform(0.0, 3.0, count)
    return np.where(np.arange(count) % 3 == 0, 0.0, drawn).astype(np.float32)


def first_losses(training: Training) -> list[float]:
    losses: list[float] = []
    while len(losses) < STEPS:
        training.train_epoch()
        losses += training.step_losses
    return losses[:STEPS]


def asked(training: Training) -> tuple[Any, ...]:
    """The losses of the first steps, the scores of the validation graphs, and diagnostics and metrics of the test
    graphs."""
    losses, scores, diagnostics = first_losses(training), training.validate()[0], training.ask_test().metrics
    training.state.best = copy_of(training.state.eval_state)
    return losses, scores, diagnostics, training.test()[0]


def write_first_losses(path: Path, data: Path) -> None:
    """What every process does in the test of the first steps."""
    graphs = GraphSet.load(data)
    with process_group("cpu") as ranks:
        found = {}
        for name in CASES:
            found[name] = asked(DistributedTraining(*case(name, graphs), ranks, StopSignal()))
        if ranks.first:
            path.write_text(json.dumps(found))


def die_once(path: Path, arguments: list[str]) -> int:
    """The command line; at its first start one of the processes is killed in the middle of epoch 9."""
    split.SAVE_SECONDS = 0.0
    first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    step, begun = DistributedTraining.step, []

    def dying(self: DistributedTraining, *given: Any) -> Tensor:
        if first_life and self.ranks.rank == 1 and self.state.epoch == 8:
            os.kill(os.getpid(), signal.SIGKILL)
        if not begun:
            begun.append(self.state.epoch)
            if self.ranks.first and not first_life:
                path.write_text(str(self.state.epoch))
        return step(self, *given)

    DistributedTraining.step = dying  # type: ignore[method-assign]
    return main(arguments)


def take_time(arguments: list[str]) -> int:
    """The command line, with epochs of at least 0.2 seconds."""
    train_epoch = DistributedTraining.train_epoch

    def slow(self: DistributedTraining) -> float:
        time.sleep(0.2)
        return train_epoch(self)

    DistributedTraining.train_epoch = slow  # type: ignore[method-assign]
    return main(arguments)


@contextmanager
def torchrun(*options: str, then: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """Started, and ended at the latest when it is left; torchrun ends its processes."""
    command = [sys.executable, "-m", "torch.distributed.run", *options, *then]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()


def finished(process: "subprocess.Popen[str]") -> str:
    """What a run that must not fail wrote to stderr."""
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "Warning" not in errors
    return errors


def run(*options: str, then: list[str]) -> None:
    with torchrun(*options, then=then) as process:
        finished(process)


def here(processes: int, *options: str) -> list[str]:
    return ["--standalone", "--nproc-per-node", str(processes), *options]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def outcome(out: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a run found, without how long it took; and the weights."""
    row = read_row(out / "split-000")
    plain = {name: value for name, value in row.items() if "seconds" not in name}
    return plain, load_tensors(out / "split-000" / "weights.safetensors")[0]


def assert_equal(one: Path, other: Path) -> None:
    (row, weights), (other_row, other_weights) = outcome(one), outcome(other)
    assert row == other_row
    for name, value in weights.items():
        assert torch.equal(value, other_weights[name]), name


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("data") / "set"
    motifs(GRAPHS).save(folder)
    return str(folder)


@pytest.fixture(scope="module")
def plain(saved: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plain training."""
    out = tmp_path_factory.mktemp("plain") / "run"
    assert main(["train", saved, *SMALL, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def by_two(saved: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The training by two processes, each on a machine of its own as far as they know."""
    out, port = tmp_path_factory.mktemp("two") / "run", free_port()
    command = ["-m", "cgipool", "train", saved, *SMALL, "--distributed", "--out", str(out), "--resume"]
    where = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    with (
        torchrun(*where, "--node-rank", "0", then=command) as one,
        torchrun(*where, "--node-rank", "1", then=command) as other,
    ):
        told = finished(one), finished(other)
    for line in ("split 0: 15 epochs", f"there is no run in {out} yet"):
        assert told[0].count(line) == 1
        assert line not in told[1]  # which need not be empty: torchrun says where the other machine has left first
    return out


def test_first_steps_of_two_processes(saved: str, tmp_path: Path) -> None:
    run(*here(2), then=[__file__, "losses", str(tmp_path / "found.json"), saved])
    found = json.loads((tmp_path / "found.json").read_text())
    graphs = GraphSet.load(saved)
    for name in CASES:
        training = Training(*case(name, graphs))
        (losses, validation, diagnostics, test), wanted = found[name], asked(training)
        assert losses == pytest.approx(wanted[0], rel=1e-5, abs=1e-4), name
        assert validation == pytest.approx(wanted[1], rel=1e-5, abs=1e-4), name
        assert list(diagnostics) == list(wanted[2])
        for value, levels in wanted[2].items():
            assert diagnostics[value] == pytest.approx(levels, abs=1e-3), (name, value)
        for value in METRICS[training.task.name]:
            assert test[value] == pytest.approx(wanted[3][value], rel=1e-3, abs=1e-3), (name, value)


def test_two_machines(by_two: Path, plain: Path) -> None:
    files = sorted(path.relative_to(plain) for path in plain.rglob("*"))
    assert sorted(path.relative_to(by_two) for path in by_two.rglob("*")) == files
    row, weights = outcome(by_two)
    wanted, wanted_weights = outcome(plain)
    assert row["epochs"] == wanted["epochs"]
    assert row["val_loss"] == pytest.approx(wanted["val_loss"], abs=1e-2)
    assert weights.keys() == wanted_weights.keys()


def test_a_killed_process_costs_nothing(saved: str, plain: Path, by_two: Path, tmp_path: Path) -> None:
    """The run in the folder is replaced once, and not again when the processes restart."""
    out, note = tmp_path / "run", tmp_path / "note"
    shutil.copytree(plain, out)
    command = ["train", saved, *SMALL, "--distributed", "--overwrite", "--out", str(out)]
    with torchrun(*here(2, "--max-restarts", "1"), then=[__file__, "die", str(note), *command]) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert note.read_text() == "8"
    assert_equal(out, by_two)


@pytest.mark.usefixtures("only_process")
def test_one_process_is_the_plain_training(saved: str, plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["train", saved, *SMALL, "--distributed", "--out", str(out)]) == 0
    assert_equal(out, plain)
    for name in ("train_loss", "val_loss", "val_accuracy", "mi", "overlap"):
        found, wanted = (Log(run / "split-000" / "metrics.jsonl").column(name) for run in (out, plain))
        assert found == wanted, name


def test_sigterm_leaves_a_run_that_any_number_of_processes_can_end(saved: str, plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    log = out / "split-000" / "metrics.jsonl"
    command = ["train", saved, *SMALL, "--out", str(out)]
    with torchrun(*here(2), then=[__file__, "slowly", *command, "--distributed"]) as process:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.read_text().count("\n") > 2):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert errors.count(f"cgipool: stopped; run the same command with --resume to continue from {out}") == 1
    assert (out / "split-000" / "checkpoint.safetensors").exists()
    assert main([*command, "--resume"]) == 0
    row, wanted = outcome(out)[0], outcome(plain)[0]
    assert row["epochs"] == wanted["epochs"]
    assert row["val_loss"] == pytest.approx(wanted["val_loss"], abs=1e-2)


def test_an_error_is_told_once(saved: str) -> None:
    """Restarted processes do not report it again; torchrun restarts them after any error."""
    command = ["-m", "cgipool", "train", saved, "--distributed", "--method", "nothing"]
    with torchrun(*here(2, "--max-restarts", "1"), then=command) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert len(re.findall("^cgipool: .*nothing", errors, re.MULTILINE)) == 1
    assert re.search(r"exitcode *: 2 ", errors)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "torchrun --nproc-per-node 2 -m cgipool train … --distributed"),
        (["--jobs", "2"], "--distributed and --jobs cannot be used together"),
        (["--ensemble", "2"], "--distributed and --ensemble cannot be used together"),
    ],
)
def test_refused(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "motifs", "--distributed", *options]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1


def test_owners_by_hand() -> None:
    """5 | 4, then 3 to the second (7), 3 to the first (8), 2 to the second (9); what has no nodes, to the first."""
    assert owners(np.array([3, 0, 5, 4, 3, 2]), 2).tolist() == [1, 0, 0, 1, 0, 1]


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_owners_have_about_equally_many_nodes(processes: int) -> None:
    sizes = np.random.default_rng(0).lognormal(3, 1, 128).astype(np.int64) + 1
    loads = np.bincount(owners(sizes, processes), sizes, minlength=processes)
    assert loads.sum() == sizes.sum()
    assert loads.max() <= max(sizes.max(), sizes.sum() / processes + np.sort(sizes)[-processes])


def test_a_mapped_set_stays_on_disk(alone: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of 12 MB in which every node has a label and two neighbours."""
    sizes, ring = np.full(1000, 500), np.arange(500_000)
    label = (ring % 3)[:, None].astype(np.int32)
    held = {"category": label, "category_names": (("a", "b", "c"),)}
    ends = ring, ring // 500 * 500 + (ring + 1) % 500
    GraphSet.from_edges("rings", sizes, *ends, np.arange(1000) % 2, **held).save(tmp_path / "set")
    monkeypatch.setattr(columns, "STRETCH", 10_000)
    graphs = GraphSet.load(tmp_path / "set", mmap=True)
    task = task_of(graphs, "cgi", recipe_of())
    DistributedTraining(task, graphs, alone, StopSignal()).step(np.arange(8), 0, 1.0)  # imports what torch imports late
    graphs = GraphSet.load(tmp_path / "set", mmap=True)
    tracemalloc.start()
    try:
        DistributedTraining(task, graphs, alone, StopSignal()).step(np.arange(8), 0, 1.0)
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("method", [name for name in NETWORKS if name != "majority"])
def test_parts_add_up(method: str) -> None:
    """Loss and gradients of a batch are the sums of those of its parts, with dropout, weights of classes and graphs,
    smoothed labels and own losses; one of the six processes has no graph."""
    graphs = motifs(40)
    recipe = recipe_of(class_weight="balanced", alpha=0.5)
    training = Training(task_of(graphs, method, recipe), graphs)
    network, weight = training.state.network.train().double(), torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64)
    network.compact = True
    ids = np.array([31, 4, 15, 9, 26])
    batch = as_double(training, ids)
    task = Classification(graphs.class_names)
    sample_weight = torch.from_numpy(weights(40)).double()
    whole = objective(network(batch), batch, task, weight, 0.7, smoothing=0.2, sample_weight=sample_weight)
    gradients = torch.autograd.grad(whole, list(network.parameters()), allow_unused=True)
    part = PartialLoss(network, task, weight, 0.2, sample_weight)
    total: Any = 0.0
    for process in range(6):
        share = Shares(graphs, weight, recipe, method, process, 6, sample_weight=sample_weight).of(ids)
        total = total + part(PartialBatch.of(as_double(training, share.ids), share), 0.7)
    assert total.item() == pytest.approx(whole.item(), rel=1e-9)
    for one, other in zip(torch.autograd.grad(total, list(network.parameters())), gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


def as_double(training: Training, ids: np.ndarray) -> Any:
    batch = training.batcher.batch(ids, key_of(3))
    return batch._replace(alive=batch.alive.double(), floats=batch.floats.double())


def test_what_looks_beyond_ones_own_graphs_is_refused() -> None:
    sizes = np.array([9, 2, 5])
    check_alone(sizes, PAPER, "vip")
    check_alone(np.array([1]), PAPER, "cgi")
    with pytest.raises(UserError, match="one node after 1 pool"):
        check_alone(sizes, PAPER.but(ratio=0.5), "vip")
    with pytest.raises(UserError, match=r"one node$"):
        check_alone(np.array([9, 1]), PAPER, "vip")


class Normed(nn.Module):
    """Normalises over the nodes of the batch."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, x: Tensor, level: Level) -> Pooled:
        return Pooled(self.norm(x), level)


class Penalised(nn.Module):
    """Has a loss of its own, by graphs or, as it should not be, by nodes."""

    by_nodes = False

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor, level: Level) -> Pooled:
        x = x * self.weight
        square = x.square().sum(1)
        loss = level.over_nodes(square) if self.by_nodes else level.over_graphs(level.means(square))
        return Pooled(x, level, {"square": loss})


class PenalisedByNodes(Penalised):
    by_nodes = True


@pytest.fixture
def only_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of the only process of a torchrun run."""
    place = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))


@pytest.fixture
def alone(only_process: None) -> Iterator[Ranks]:
    with process_group("cpu") as ranks:
        yield ranks


def test_own_classes_are_tried_first(alone: Ranks) -> None:
    graphs = motifs(40)
    for refused in (Normed, PenalisedByNodes):
        with pytest.raises(UserError, match="cannot train --distributed"):
            DistributedTraining(
                task_of(graphs, f"{__name__}:{refused.__name__}", recipe_of()), graphs, alone, StopSignal()
            )
    task = task_of(graphs, f"{__name__}:Penalised", recipe_of())
    ours, plain = DistributedTraining(task, graphs, alone, StopSignal()), Training(task, graphs)
    assert ours.train_epoch() == plain.train_epoch()


@pytest.mark.usefixtures("only_process", "own_cache")
def test_weights_by_a_column(tmp_path: Path) -> None:
    """The command line hands them on: one process of torchrun gives the bits of none, and resumes with these only."""
    pytest.importorskip("rdkit", reason="needs RDKit: pip install 'cgipool[chem]'")
    rows = [f"{'C' * (3 + n % 9)},{n % 3 / 2},{n % 4}" for n in range(60)]
    (tmp_path / "chains.csv").write_text("\n".join(["smiles,length,trust", *rows]))
    command = ["train", str(tmp_path / "chains.csv"), "--label", "length", "--task", "regression", *SMALL]
    weighted = [*command, "--sample-weight", "trust", "--epochs", "2"]
    assert main([*weighted, "--out", str(tmp_path / "plain")]) == 0
    assert main([*weighted, "--out", str(tmp_path / "one"), "--distributed"]) == 0
    assert_equal(tmp_path / "one", tmp_path / "plain")
    assert main([*command, "--epochs", "2", "--out", str(tmp_path / "one"), "--distributed", "--resume"]) == 2


def test_majority_has_nothing_to_train(alone: Ranks) -> None:
    graphs = motifs(40)
    task = task_of(graphs, "majority", recipe_of())
    assert DistributedTraining(task, graphs, alone, StopSignal()).test()[0] == Training(task, graphs).test()[0]


def test_class_weights_of_classes_that_training_lacks() -> None:
    """They are 0, also all of a batch's: shares are numbers all the same."""
    graphs = motifs(40)
    weight = class_weights(np.zeros(3, np.int64), graphs.n_classes, "balanced")
    others = np.flatnonzero(graphs.y != 0)[:4]
    assert Shares(graphs, weight, recipe_of(), "cgi", 0, 2).of(others).weight == 0.0


if __name__ == "__main__":
    if sys.argv[1] == "losses":
        write_first_losses(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1] == "die":
        sys.exit(die_once(Path(sys.argv[2]), sys.argv[3:]))
    else:
        sys.exit(take_time(sys.argv[2:]))
