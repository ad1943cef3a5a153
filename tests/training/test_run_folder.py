"""The run folder: what it holds, that a run can be repeated, cut off and resumed, and what is refused."""

import dataclasses
import errno
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
from sklearn.utils.class_weight import compute_class_weight

from cgipool.data import GraphSet, Split, motifs
from cgipool.errors import UserError
from cgipool.files import write_json
from cgipool.task import metrics
from cgipool.task.classification import class_weights
from cgipool.training import checkpoint, presets, recipe, run
from cgipool.training import loop as split
from cgipool.training.job import Diverged, Progress
from cgipool.training.result import read_row
from cgipool.training.settings import setting_of

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = {"width": 16, "batch_size": 16, "epochs": 4}
SPLIT_FILES = ["encoder.json", "metrics.jsonl", "probabilities.npy", "result.json", "weights.safetensors"]


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return motifs(80)


def rows_of(folder: Path, index: int = 0) -> list[dict[str, Any]]:
    """The epochs of a split, without what the clock says."""
    rows = split.Log(run.split_folder(folder, index) / "metrics.jsonl").rows()
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def content(folder: Path, index: int = 0) -> tuple[Any, ...]:
    """All that a split's folder holds, without what the clock says."""
    where = run.split_folder(folder, index)
    result = read_row(where)
    timeless = {name: value for name, value in result.items() if "seconds" not in name}
    tensors, header = checkpoint.load_tensors(where / "weights.safetensors")
    weights = {name: value.numpy().tobytes() for name, value in tensors.items()}
    return rows_of(folder, index), timeless, weights, header, (where / "probabilities.npy").read_bytes()


def test_the_folder_holds_all_of_a_run(graphs: GraphSet, tmp_path: Path) -> None:
    result = run.train(graphs, splits=2, out=tmp_path / "run", **TINY)
    names = sorted(str(p.relative_to(tmp_path / "run")) for p in (tmp_path / "run").rglob("*") if p.is_file())
    inside = [f"split-{i:03d}/{name}" for i in range(2) for name in SPLIT_FILES]
    assert names == ["result.json", "run.json", *inside, "splits.json"]
    kept = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (kept["dataset"], kept["method"], kept["seed"], kept["splits"]) == ("motifs", "cgi", 0, [0, 1])
    assert kept["recipe"] == presets.PAPER.but(**TINY).to_json()
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result.to_json()
    p = np.load(tmp_path / "run" / "split-000" / "probabilities.npy")
    assert p.shape == (8, 4)
    np.testing.assert_allclose(p.sum(1), 1.0)
    test = json.loads((tmp_path / "run" / "splits.json").read_text())["splits"][0]["test"]
    assert np.mean(p.argmax(1) == graphs.y[test]) == result.test_accuracy[0]
    row = rows_of(tmp_path / "run")[-1]
    assert row["epoch"] == 4
    assert [len(row[name]) for name in ("mi", "discriminator_accuracy", "overlap")] == [3, 3, 3]


def test_a_loss_that_rounds_to_zero_has_no_sign() -> None:
    assert Progress(0, 30, -1e-9, -1e-9, 30, "loss", done=True).score == "loss 0.0000"


def test_arguments_of_a_wrong_kind(graphs: GraphSet) -> None:
    with pytest.raises(UserError, match=r"a GraphSet, a name or a path, not list; convert it with GraphSet\.from_pyg"):
        run.train(graphs.to_networkx()[:3])  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"a whole number or a list of Split, not \[0, 3\]"):
        run.train(graphs, splits=[0, 3], epochs=1)  # type: ignore[list-item]
    with pytest.raises(UserError, match=r"unknown metric 'f1'.* known: accuracy, balanced_accuracy"):
        run.train(graphs, method="majority").summary("f1")


def test_same_seed_same_bits(graphs: GraphSet, tmp_path: Path) -> None:
    for name in "ab":
        run.train(graphs, out=tmp_path / name, **TINY)
    run.train(graphs, out=tmp_path / "other", seed=1, **TINY)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert content(tmp_path / "a") != content(tmp_path / "other")


def test_a_split_alone_is_the_split_among_others(graphs: GraphSet, tmp_path: Path) -> None:
    settings = TINY | {"epochs": 2}
    run.train(graphs, splits=2, out=tmp_path / "both", **settings)
    run.train(graphs, splits=1, first=1, out=tmp_path / "alone", **settings)
    assert rows_of(tmp_path / "both", 1) == rows_of(tmp_path / "alone", 1)
    assert rows_of(tmp_path / "both", 0) != rows_of(tmp_path / "alone", 1)


def test_jobs(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that lies on disk is mapped by all, not copied; structure is computed alike in every process."""
    told: list[Progress] = []
    graphs.save(tmp_path / "set")
    monkeypatch.delattr(GraphSet, "save")
    settings = TINY | {"wl": 1, "rwse": 3}
    result = run.train(
        GraphSet.load(tmp_path / "set", mmap=True), splits=3, jobs=2, out=tmp_path / "run", tell=told.append, **settings
    )
    assert [row["split"] for row in result.rows] == [0, 1, 2]
    assert [sorted(p.name for p in run.split_folder(tmp_path / "run", i).iterdir()) for i in range(3)] == [
        SPLIT_FILES
    ] * 3
    assert sorted(t.split for t in told if t.done) == [0, 1, 2]
    assert sorted(t.epoch for t in told if t.split == 1 and not t.done) == [1, 2, 3, 4]
    run.train(graphs, splits=3, out=tmp_path / "loop", **settings)
    assert [content(tmp_path / "run", i) for i in range(3)] == [content(tmp_path / "loop", i) for i in range(3)]


def test_a_failing_job_ends_the_others(graphs: GraphSet, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Diverged, match="NaN or infinite in epoch 1"):
        run.train(
            graphs, splits=2, jobs=2, out=tmp_path / "run", lr=1e30, **TINY | {"epochs": 100_000, "patience": 100_000}
        )
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("jobs", [1, 2])
def test_who_is_told_can_end_the_run(jobs: int, graphs: GraphSet, tmp_path: Path) -> None:
    """With several jobs too, and an error is theirs who made it: it is not lost in the thread that listens."""

    def tell(progress: Progress) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        run.train(
            graphs, splits=2, jobs=jobs, out=tmp_path, tell=tell, **TINY | {"epochs": 100_000, "patience": 100_000}
        )
    assert not (tmp_path / "result.json").exists()


SCRIPT = """
import json, sys
import cgipool.training.loop as split
from cgipool.data import motifs
from cgipool.training.run import train

split.SAVE_SECONDS = 0.0
train(motifs(60), out=sys.argv[1], **json.loads(sys.argv[2]))
"""
LONGER = {"width": 16, "batch_size": 16, "epochs": 24, "patience": 24}


def test_killed_and_resumed_is_uninterrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = run.split_folder(tmp_path / "cut", 0) / "metrics.jsonl"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "cut"), json.dumps(LONGER)])
    while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= 12):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (log.parent / "result.json").exists()
    state = checkpoint.load_tensors(log.parent / "checkpoint.safetensors")[1]
    assert int(state["epoch"]) >= 11

    with log.open("a") as file:  # as if killed while it wrote
        file.write('{"epoch": 23, "train_loss": 0.0}\n{"epoch": 24, "tr')
    monkeypatch.setattr(split, "SAVE_SECONDS", 0.0)
    for out in ("cut", "whole"):
        run.train(motifs(60), out=tmp_path / out, resume=out == "cut", **LONGER)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")
    assert not (log.parent / "checkpoint.safetensors").exists()


@pytest.mark.parametrize("told", [True, False])
def test_a_split_takes_as_long_as_all_its_legs(graphs: GraphSet, tmp_path: Path, told: bool) -> None:
    """A checkpoint knows the seconds until it was written; one of an earlier version does not."""

    def interrupt(progress: Progress) -> None:
        if progress.epoch == 2:
            raise KeyboardInterrupt

    def timed(**more: Any) -> float:
        began = time.perf_counter()
        run.train(graphs, out=tmp_path / "run", **TINY, **more)
        return time.perf_counter() - began

    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        timed(tell=interrupt)
    path = run.split_folder(tmp_path / "run", 0) / "checkpoint.safetensors"
    tensors, header = checkpoint.load_tensors(path)
    assert 0.0 < float(header.pop("seconds")) < time.perf_counter() - began
    checkpoint.save_tensors(path, tensors, header | ({"seconds": "1000.0"} if told else {}))
    second = timed(resume=True)
    before = 1000.0 if told else 0.0
    row = json.loads((path.parent / "result.json").read_text())
    assert before < row["seconds"] < before + second


@pytest.mark.parametrize("jobs", [1, 2])
def test_weights_that_go_with_a_passing_folder_are_not_told(graphs: GraphSet, jobs: int) -> None:
    with pytest.raises(Diverged) as caught:
        run.train(graphs, splits=2, jobs=jobs, lr=1e30, **TINY)
    assert re.fullmatch(r"split [01]: the loss became NaN or infinite in epoch \d", str(caught.value))


def test_the_log_is_cut_back(tmp_path: Path) -> None:
    log = split.Log(tmp_path / "metrics.jsonl")
    for epoch in (1, 2, 3):
        log.append({"epoch": epoch})
    with log.path.open("a") as file:
        file.write('{"epoch": 4')
    log.cut_back_to(2)
    assert len(log.path.read_text().splitlines()) == 2
    assert log.column("epoch") == [1, 2]


def test_a_finished_run_is_not_trained_again(graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run.train(graphs, splits=2, out=tmp_path / "run", **TINY)
    monkeypatch.setattr(split.Training, "train_epoch", lambda self: pytest.fail("trained again"))
    told: list[Progress] = []
    again = run.train(graphs, splits=2, out=tmp_path / "run", resume=True, tell=told.append, **TINY)
    assert again.rows == first.rows
    assert [(t.split, t.done) for t in told] == [(0, True), (1, True)]


def test_resume_trains_what_is_missing(graphs: GraphSet, tmp_path: Path) -> None:
    run.train(graphs, splits=2, out=tmp_path / "run", **TINY)
    before = content(tmp_path / "run", 1)
    for name in SPLIT_FILES:
        (run.split_folder(tmp_path / "run", 1) / name).unlink()
    told: list[Progress] = []
    run.train(graphs, splits=2, out=tmp_path / "run", resume=True, tell=told.append, **TINY)
    assert {t.split for t in told if not t.done} == {1}
    assert content(tmp_path / "run", 1) == before


def test_what_is_refused(graphs: GraphSet, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run.train(graphs, out=out, **TINY)
    before = content(out)
    for settings, message in (
        ({}, "already holds a run; resume it (--resume) or replace it (--overwrite)"),
        ({"resume": True, "ratio": 0.5}, "holds a run with a different ratio (0.8 then, 0.5 now); cannot resume it"),
        ({"resume": True, "seed": 3}, "holds a run with a different seed (0 then, 3 now); cannot resume it"),
        (
            {"resume": True, "method": "cgi-rs"},
            "holds a run with a different method (cgi then, cgi-rs now); cannot resume it",
        ),
        (
            {"resume": True, "split_kind": "stratified"},
            "holds a run with a different division into splits; cannot resume it",
        ),
    ):
        with pytest.raises(UserError) as caught:
            run.train(graphs, out=out, **TINY | settings)
        assert str(caught.value) == f"{out} {message}"
    with pytest.raises(UserError, match="holds a run with a different data set content"):
        run.train(motifs(80, seed=1), out=out, resume=True, **TINY)
    assert content(out) == before
    run.train(graphs, out=out, overwrite=True, **TINY | {"epochs": 2})
    assert len(rows_of(out)) == 2


def test_one_run_at_a_time_in_a_folder(graphs: GraphSet, tmp_path: Path) -> None:
    """Also of one process: the lock is that of the open file. What is there is not touched."""
    out, held = tmp_path / "run", []

    def second(progress: Any) -> None:
        before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
        for flag in ("resume", "overwrite"):
            with pytest.raises(UserError, match=r"another process is training in .*run; wait until it ends"):
                run.train(graphs, out=out, **{flag: True}, **TINY)
        held.append({path: path.stat().st_mtime_ns for path in out.rglob("*")} == before)

    run.train(graphs, out=out, tell=second, **TINY)
    assert len(held) == 5
    assert all(held)
    assert not (out / ".lock").exists()
    run.train(graphs, out=out, resume=True, **TINY)


def test_a_lock_is_neither_followed_nor_truncated(graphs: GraphSet, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("all my work")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(UserError, match=r"cannot write .*\.lock"):
        run.train(graphs, out=tmp_path / "run", **TINY)
    assert (tmp_path / "mine.txt").read_text() == "all my work"
    (tmp_path / "run" / ".lock").unlink()
    os.link(tmp_path / "mine.txt", tmp_path / "run" / ".lock")
    run.train(graphs, out=tmp_path / "run", **TINY)
    assert (tmp_path / "mine.txt").read_text() == "all my work"


def test_the_lock_of_a_killed_run_is_free(graphs: GraphSet, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").write_text("")  # what a kill leaves
    run.train(graphs, out=tmp_path / "run", **TINY)


def test_a_folder_of_other_things_is_left_alone(graphs: GraphSet, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all my work")
    for flag in ("resume", "overwrite"):
        with pytest.raises(UserError, match="is not empty and is not a run; choose another folder"):
            run.train(graphs, out=tmp_path, **{flag: True}, **TINY)
    with pytest.raises(UserError, match=r"cannot create .*thesis\.tex/run: Not a directory"):
        run.train(graphs, out=tmp_path / "thesis.tex" / "run", **TINY)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("splits", "said"),
    [
        ([Split(3, [0, 1], [2], [3]), Split(3, [0, 2], [1], [3])], "two splits have the same number"),
        ([], "there are no splits"),
        ([Split(3, [0, 1], [], [3])], "split 3: val is empty"),
        ([Split(3, [0, 1], [2], [80])], "split 3: test names graph 80 of 80"),
        ([Split(3, [0, 1], [2], [-1])], "split 3: test names graph -1 of 80"),
        (0, "splits must be at least 1, not 0"),
        (1.5, "splits must be a whole number, not 1.5"),
    ],
)
def test_splits_that_are_refused(graphs: GraphSet, splits: Any, said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        run.train(graphs, splits=splits, **TINY)


def test_numbers_of_numpy_are_those_of_python(graphs: GraphSet) -> None:
    """As a loop over `np.arange` gives them."""
    numbers = {"splits": 1, "first": 2, "seed": 3, "ensemble": 2}
    plain = run.train(graphs, **numbers, **TINY)
    result = run.train(graphs, **{name: np.int64(number) for name, number in numbers.items()}, **TINY)
    assert result.test_accuracy == plain.test_accuracy
    assert json.loads(json.dumps(result.to_json()))["seed"] == 3
    with pytest.raises(UserError, match=r"seed must be a whole number, not 0\.5"):
        run.train(graphs, seed=0.5, **TINY)


@pytest.mark.parametrize("setting", [{"epochs": 0}, {"ratio": float("nan")}, {"width": 1}, {"lr": -1.0}, {"eqochs": 1}])
def test_settings_out_of_range(graphs: GraphSet, setting: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(setting))} must be|did you mean 'epochs'"):
        run.train(graphs, **setting)


def test_a_loss_that_is_no_number_stops_the_run(
    graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_epoch, good = split.Training.train_epoch, {}

    def break_down(self: split.Training) -> float:
        loss = train_epoch(self)
        if self.state.epoch < 3:
            return loss
        good.update({name: value.clone() for name, value in self.state.best.items()}, epoch=self.state.best_epoch)
        with torch.no_grad():
            self.state.network.head[0].weight.fill_(float("nan"))
        return float("nan")

    monkeypatch.setattr(split.Training, "train_epoch", break_down)
    with pytest.raises(Diverged) as caught:
        run.train(graphs, out=tmp_path / "run", **TINY)
    path = tmp_path / "run" / "split-000" / "weights.safetensors"
    epoch = good.pop("epoch")
    message = f"split 0: the loss became NaN or infinite in epoch 3; the weights of epoch {epoch} are kept in {path}"
    assert str(caught.value) == message
    weights, header = checkpoint.load_tensors(path)
    assert header["epoch"] == str(epoch)
    assert all(torch.equal(weights[name], good[name]) for name in good)
    assert not (path.parent / "result.json").exists()


def test_a_full_disk_leaves_the_previous_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"a": 1})

    def full(self: Path, *_: object, **__: object) -> int:
        self.write_bytes(b'{"a": ')
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UserError, match=r"cannot write .*result\.json: No space left on device; .* unchanged"):
        write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


FULL = """
import resource, sys, torch
from pathlib import Path
from cgipool.errors import UserError
from cgipool.training.checkpoint import save_tensors

path = Path(sys.argv[1])
save_tensors(path, {"w": torch.ones(10)}, {})
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    save_tensors(path, {"w": torch.zeros(100_000)}, {})
except UserError as error:
    print(error)
"""


def test_tensors_that_do_not_fit_leave_the_previous_ones(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True)
    assert f"cannot write {path}" in done.stdout
    assert "an existing file is unchanged" in done.stdout
    assert torch.equal(checkpoint.load_tensors(path)[0]["w"], torch.ones(10))
    assert [p.name for p in tmp_path.iterdir()] == ["weights.safetensors"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot write .*gone/a\.json: No such file or directory"):
        write_json(tmp_path / "gone" / "a.json", 1)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b.replace(b"now/", b"nov/")])
def test_a_damaged_checkpoint_is_named(
    graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any
) -> None:
    monkeypatch.setattr(split, "SAVE_SECONDS", 0.0)

    def stop(told: Progress) -> None:
        if told.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(graphs, out=tmp_path / "run", tell=stop, **TINY)
    path = tmp_path / "run" / "split-000" / "checkpoint.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=r"checkpoint\.safetensors") as caught:
        run.train(graphs, out=tmp_path / "run", resume=True, **TINY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_metrics_against_sklearn(classes: int, ties: bool) -> None:
    rng = np.random.default_rng(classes)
    y = rng.permutation(np.arange(60) % classes)
    p = rng.dirichlet(np.ones(classes), 60) + 0.3 * np.eye(classes)[y]
    p = np.round(p, 1) if ties else p
    p /= p.sum(1, keepdims=True)
    guess = p.argmax(1)
    score, truth = (p[:, 1], y) if classes == 2 else (p, np.eye(classes)[y])
    expected = {
        "accuracy": sklearn.metrics.accuracy_score(y, guess),
        "balanced_accuracy": sklearn.metrics.balanced_accuracy_score(y, guess),
        "mcc": sklearn.metrics.matthews_corrcoef(y, guess),
        "roc_auc": sklearn.metrics.roc_auc_score(truth, score, average="macro"),
        "pr_auc": sklearn.metrics.average_precision_score(truth, score, average="macro"),
        "log_loss": sklearn.metrics.log_loss(y, p),
    }
    found = metrics.report(y, p)
    del found["brier"], found["ece"]  # see tests/task
    per_class = found.pop("per_class")
    assert found == pytest.approx(expected, abs=1e-12)
    for c in range(classes):
        assert per_class["roc_auc"][c] == pytest.approx(sklearn.metrics.roc_auc_score(y == c, p[:, c]), abs=1e-12)
        assert per_class["pr_auc"][c] == pytest.approx(
            sklearn.metrics.average_precision_score(y == c, p[:, c]), abs=1e-12
        )


def test_metrics_of_one_class() -> None:
    found = metrics.report(np.zeros(5, np.int64), np.tile([0.9, 0.1], (5, 1)))
    assert found.pop("per_class") == {"roc_auc": [None, None], "pr_auc": [None, None]}
    assert found == {"accuracy": 1.0, "balanced_accuracy": 1.0, "mcc": 0.0, "roc_auc": None, "pr_auc": None} | {
        "log_loss": pytest.approx(-np.log(0.9)),
        "brier": pytest.approx(0.01),
        "ece": pytest.approx(0.1),
    }


def test_class_weights() -> None:
    y = np.array([0] * 12 + [1] * 3 + [2] * 5)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=y)
    np.testing.assert_allclose(class_weights(y, 3, "balanced").numpy(), expected, rtol=1e-6)
    assert class_weights(y, 3, None).tolist() == [1.0, 1.0, 1.0]
    assert class_weights(y, 4, "balanced")[3] == 0.0


def test_class_weights_change_the_training(graphs: GraphSet, tmp_path: Path) -> None:
    uneven = graphs.subset(np.flatnonzero((graphs.y > 0) | (np.arange(80) % 3 == 0)))
    losses = []
    for name, weight in (("plain", None), ("balanced", "balanced")):
        run.train(uneven, out=tmp_path / name, class_weight=weight, **TINY | {"epochs": 1})
        losses.append(rows_of(tmp_path / name)[0]["train_loss"])
    assert losses[0] != losses[1]


def test_recipes_are_documented_and_frozen() -> None:
    for field in dataclasses.fields(recipe.Recipe):
        if field.name != "name":
            assert setting_of(field).help.endswith("."), f"{field.name} has no help"
    for made in presets.RECIPES.values():
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.ratio = 0.5  # type: ignore[misc]
    assert presets.recipe_named("released").name == "released"


def test_a_result_is_readable(graphs: GraphSet) -> None:
    result = run.train(graphs, method="majority", splits=2, width=16)
    lines = repr(result).splitlines()
    assert lines[:2] == ["Result of majority on motifs: 2 splits", "  recipe paper, width=16, seed 0"]
    mean, deviation, _ = result.summary("accuracy")
    assert f"  test accuracy          {mean:.4f} ± {deviation:.4f} (SD)" in lines
    assert max(map(len, lines)) < 80


def test_result_statistics(graphs: GraphSet) -> None:
    result = run.train(graphs, splits=3, **TINY)
    plain = result.to_json()
    values = plain["test_accuracy"]
    assert plain["test_accuracy_mean"] == pytest.approx(np.mean(values))
    assert plain["test_accuracy_sd"] == pytest.approx(np.std(values, ddof=1))
    assert plain["test_accuracy_se"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    one = run.train(graphs, **TINY).to_json()
    assert one["test_accuracy_sd"] is None


def test_one_class_is_refused_with_given_splits_as_well(graphs: GraphSet) -> None:
    house = graphs.subset(np.flatnonzero(graphs.y == 0))
    given = Split(0, np.arange(10), np.arange(10, 15), np.arange(15, 20))
    with pytest.raises(UserError, match="one class only"):
        run.train(house, splits=[given], **TINY)


def test_a_start_that_was_cut_short_can_be_repeated(graphs: GraphSet, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "splits.json").write_text("{}")  # killed before run.json was there
    run.train(graphs, out=folder, **TINY)
    assert (folder / "result.json").exists()


def test_files_are_as_readable_as_the_user_wants(graphs: GraphSet, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run.train(graphs, out=tmp_path / "run", **TINY)
    finally:
        os.umask(before)
    modes = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "run").rglob("*") if p.is_file()}
    assert set(modes.values()) == {0o640}, modes


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("run.json", "[]", "run.json is damaged: it has no recipe"),
        ("run.json", "{}", "run.json is damaged: it has no recipe"),
        ("run.json", '{"recipe": 3}', "run.json is damaged: its recipe is not a table"),
        ("split-000/result.json", "[]", "result.json is damaged: it has no epochs"),
        ("split-000/result.json", '{"epochs": 1}', "result.json is damaged: it has no val_loss"),
    ],
)
def test_a_damaged_note_is_named(graphs: GraphSet, tmp_path: Path, file: str, content: str, said: str) -> None:
    run.train(graphs, out=tmp_path, **TINY)
    (tmp_path / file).write_text(content)
    with pytest.raises(UserError, match=said):
        run.train(graphs, out=tmp_path, resume=True, **TINY)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"warp": 9}, r"different warp \(9 then, None now\)"), ({"dropout_epochs": ...}, "different recipe; cannot")],
)
def test_a_run_of_a_version_with_other_settings(
    graphs: GraphSet, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    run.train(graphs, out=tmp_path, **TINY)
    made = json.loads((tmp_path / "run.json").read_text())
    made["recipe"] = {name: value for name, value in (made["recipe"] | change).items() if value is not ...}
    write_json(tmp_path / "run.json", made)
    with pytest.raises(UserError, match=said):
        run.train(graphs, out=tmp_path, resume=True, **TINY)


def test_a_checkpoint_that_lacks_a_part_is_named(graphs: GraphSet, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.train(graphs, out=tmp_path, tell=stop, **TINY)
    path = tmp_path / "split-000" / "checkpoint.safetensors"
    tensors, header = checkpoint.load_tensors(path)
    del tensors["adam/exp_avg/head.0.weight"]
    checkpoint.save_tensors(path, tensors, header)
    with pytest.raises(UserError, match=r"checkpoint\.safetensors does not match this training: 'head\.0\.weight'"):
        run.train(graphs, out=tmp_path, resume=True, **TINY)


def test_a_damaged_log_is_named(graphs: GraphSet, tmp_path: Path) -> None:
    log = split.Log(tmp_path / "metrics.jsonl")
    log.append({"epoch": 1, "mi": [math.inf, 0.5], "seconds": math.nan})
    assert log.rows() == [{"epoch": 1, "mi": [None, 0.5], "seconds": None}]
    with log.path.open("a") as file:
        file.write("}{\n")
    with pytest.raises(UserError, match="line 2 is damaged"):
        log.column("epoch")


def test_a_setting_can_be_none_and_is_told_when_changed(graphs: GraphSet) -> None:
    assert presets.RELEASED.but(dropout_epochs=None).dropout_epochs is None
    result = run.train(graphs, recipe="released", dropout_epochs=None, **TINY)
    assert result.to_json()["settings"] == TINY | {"dropout_epochs": None}


def test_a_run_does_not_go_on_elsewhere(graphs: GraphSet, tmp_path: Path) -> None:
    run.train(graphs, out=tmp_path / "run", **TINY)
    known = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(known | {"device": "cuda"}))
    with pytest.raises(UserError, match=r"different device \(cuda then, cpu now\)"):
        run.train(graphs, out=tmp_path / "run", resume=True, **TINY)
