"""Ensembles: members that differ in their draws alone, the first of them the plain training, and their mean."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cgipool.cli import main
from cgipool.data import GraphSet, Split, motifs, random_splits
from cgipool.errors import UserError
from cgipool.ops.draws import key_of
from cgipool.study.gather import split_rows
from cgipool.task import metrics
from cgipool.training import checkpoint, run
from cgipool.training import loop as split
from cgipool.training.folder import member_folder
from cgipool.training.job import EVALUATION, INIT, ORDER, STEP, Diverged, Job, epoch_ids
from cgipool.training.job import Progress as Report
from cgipool.training.loop import train_split
from cgipool.training.presets import PAPER, STRONG
from cgipool.training.recipe import Recipe
from cgipool.training.run import combine, members_of
from cgipool.training.stacked import host as together
from cgipool.training.stacked.group import Group
from cgipool.training.stacked.host import train_together

pytestmark = pytest.mark.usefixtures("one_thread")

TINY = {"width": 16, "batch_size": 16, "epochs": 4}
SPLIT_FILES = ["encoder.json", "metrics.jsonl", "probabilities.npy", "result.json", "weights.safetensors"]


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return motifs(80)


@pytest.fixture(scope="module")
def trained(graphs: GraphSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two splits of three members."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("runs") / "ensemble"
    run.train(graphs, splits=2, ensemble=3, out=out, **TINY)
    torch.set_num_threads(threads)
    return out


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def timeless(value: Any) -> Any:
    """Without what the clock says, and the digest of it."""
    return {name: v for name, v in value.items() if "seconds" not in name and name != "sha256"}


def content(folder: Path) -> tuple[Any, ...]:
    """All that the folder of one training holds, without what the clock says."""
    rows = [timeless(json.loads(line)) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    tensors, header = checkpoint.load_tensors(folder / "weights.safetensors")
    weights = {name: value.numpy().tobytes() for name, value in tensors.items()}
    probabilities, encoder = ((folder / name).read_bytes() for name in ("probabilities.npy", "encoder.json"))
    return rows, timeless(read(folder / "result.json")), weights, header, probabilities, encoder


def whole(folder: Path, splits: int = 1, members: int = 2) -> list[Any]:
    """All that a run of ensembles holds, without what the clock says."""
    found: list[Any] = []
    for index in range(splits):
        where = run.split_folder(folder, index)
        found += [timeless(read(where / "result.json")), (where / "probabilities.npy").read_bytes()]
        found += [content(member_folder(where, member)) for member in range(members)]
    return found


def test_the_folder_of_an_ensemble(trained: Path) -> None:
    names = sorted(str(p.relative_to(trained)) for p in trained.rglob("*") if p.is_file())
    inside = [f"split-{i:03d}/member-{m:02d}/{name}" for i in range(2) for m in range(3) for name in SPLIT_FILES]
    inside += [f"split-{i:03d}/{name}" for i in range(2) for name in ("probabilities.npy", "result.json")]
    assert names == sorted(["result.json", "run.json", "splits.json", *inside])
    assert read(trained / "run.json")["ensemble"] == 3


def test_one_member_is_no_ensemble(graphs: GraphSet, tmp_path: Path) -> None:
    for name, more in (("plain", {}), ("one", {"ensemble": 1})):
        run.train(graphs, out=tmp_path / name, **TINY | {"epochs": 1}, **more)
    files = [
        sorted(str(p.relative_to(tmp_path / name)) for p in (tmp_path / name).rglob("*")) for name in ("plain", "one")
    ]
    assert files[0] == files[1]
    assert read(tmp_path / "plain" / "run.json") == read(tmp_path / "one" / "run.json")
    assert "ensemble" not in read(tmp_path / "one" / "run.json")
    result = read(tmp_path / "one" / "result.json")
    assert not {name for name in result if "ensemble" in name or "member" in name}
    assert "members" not in read(tmp_path / "one" / "split-000" / "result.json")


def test_member_0_is_the_plain_training(graphs: GraphSet, trained: Path, tmp_path: Path) -> None:
    run.train(graphs, splits=2, out=tmp_path / "plain", **TINY)
    for index in range(2):
        plain = run.split_folder(tmp_path / "plain", index)
        assert content(plain) == content(member_folder(run.split_folder(trained, index), 0))


def test_a_member_does_not_depend_on_how_many_there_are(graphs: GraphSet, trained: Path, tmp_path: Path) -> None:
    run.train(graphs, first=1, ensemble=2, out=tmp_path / "two", **TINY)
    for member in range(2):
        one, other = (member_folder(run.split_folder(f, 1), member) for f in (tmp_path / "two", trained))
        assert content(one) == content(other)


def test_members_differ_in_their_draws_alone(graphs: GraphSet, trained: Path) -> None:
    folders = [member_folder(run.split_folder(trained, 0), member) for member in range(3)]
    assert len({(folder / "encoder.json").read_bytes() for folder in folders}) == 1
    assert len({frozenset(content(folder)[2].items()) for folder in folders}) == 3
    assert len({(folder / "probabilities.npy").read_bytes() for folder in folders}) == 3
    (drawn,) = random_splits(graphs, seed=0, indices=[0])
    members = members_of(Job("cgi", PAPER.but(**TINY), drawn, 0, "cpu", Path()), 3)
    starts, orders = [], []
    for task in members:
        assert task.split is drawn
        training = split.Training(task, graphs)
        starts.append(training.state.network.head[0].weight.detach().numpy().tobytes())
        orders.append(np.concatenate(list(epoch_ids(task, 1))).tolist())
    assert len(set(starts)) == 3
    assert len(set(map(tuple, orders))) == 3
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(orders[2])


def test_keys() -> None:
    """Those of member 0 are what they always were; no two tasks or purposes share one."""
    three = [Split(index, *[np.arange(2)] * 3) for index in range(3)]
    keys = []
    for seed in (0, 1, 2**40):
        for drawn in three:
            for member in range(4):
                task = Job("cgi", PAPER, drawn, seed, "cpu", Path(), member)
                for purpose in (INIT, ORDER, STEP, EVALUATION):
                    keys += [task.key(purpose), *(task.key(purpose, a) for a in range(4))]
                    keys += [task.key(purpose, a, b) for a in range(4) for b in range(4)]
                    assert member or task.key(purpose, 3) == key_of(seed, drawn.index, purpose, 3)
    assert len(set(keys)) == len(keys)


def test_the_prediction_is_the_mean_of_the_members(graphs: GraphSet, trained: Path) -> None:
    result = read(trained / "result.json")
    for index, drawn in enumerate(read(trained / "splits.json")["splits"]):
        where = run.split_folder(trained, index)
        members = [member_folder(where, member) for member in range(3)]
        mean = np.load(where / "probabilities.npy")
        np.testing.assert_allclose(mean, sum(np.load(m / "probabilities.npy") for m in members) / 3, rtol=1e-12)
        np.testing.assert_allclose(mean.sum(1), 1.0)
        row, rows = read(where / "result.json"), [read(m / "result.json") for m in members]
        assert row["test"] == metrics.report(graphs.y[drawn["test"]], mean)
        assert result["test_accuracy"][index] == np.mean(mean.argmax(1) == graphs.y[drawn["test"]])
        assert row["split"] == index
        assert row["epochs"] == result["epochs"][index] == 4
        assert row["best_epoch"] == max(r["best_epoch"] for r in rows)
        assert row["val_loss"] == pytest.approx(np.mean([r["val_loss"] for r in rows]))
        assert row["parameters"] == result["parameters"] == 3 * rows[0]["parameters"]
        assert row["seconds"] == pytest.approx(sum(r["seconds"] for r in rows))
        for told, r in zip(row["members"], rows, strict=True):
            expected = {name: r[name] for name in ("epochs", "best_epoch", "val_loss")}
            assert told == expected | {"test_accuracy": r["test"]["accuracy"], "test": r["test"]}
        assert result["test_accuracy_members"][index] == [r["test"]["accuracy"] for r in rows]
    assert (result["ensemble"], result["splits"]) == (3, 2)


def test_metrics_are_of_the_mean_not_the_mean_of_metrics(graphs: GraphSet, tmp_path: Path) -> None:
    drawn = Split(0, np.arange(10), np.arange(10, 20), np.arange(20, 23))
    task = Job("cgi", PAPER, drawn, 0, "cpu", tmp_path)
    members, y = members_of(task, 3), graphs.y[20:23]
    row = {
        "epochs": 5,
        "best_epoch": 2,
        "val_loss": 1.0,
        "parameters": 7,
        "epoch_seconds": 1.0,
        "test": {"accuracy": 0},
    }
    for member in members:  # each is sure of two of the three graphs and a little wrong about the third
        member.folder.mkdir()
        p = np.full((3, 4), 0.02)
        p[range(3), y] = 0.94
        third = member.member
        p[third], p[third, y[third]], p[third, (y[third] + 1) % 4] = 0.0, 0.45, 0.55
        np.save(member.folder / "probabilities.npy", p)
        (member.folder / "result.json").write_text(json.dumps(row | {"seconds": 1.0 + member.member}))
        assert metrics.report(y, p)["accuracy"] == pytest.approx(2 / 3)
    combine(task, members, graphs, at_once=True)
    result = read(tmp_path / "result.json")
    assert result["test"]["accuracy"] == 1.0
    assert result["seconds"] == 3.0
    (members[1].folder / "probabilities.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"member-01/probabilities\.npy is damaged"):
        combine(task, members, graphs, at_once=True)


def test_members_stop_on_their_own(graphs: GraphSet, tmp_path: Path) -> None:
    settings = TINY | {"epochs": 40, "patience": 2, "lr": 0.02}
    result = run.train(graphs, ensemble=4, out=tmp_path / "run", **settings)
    (row,) = result.rows
    epochs = [member["epochs"] for member in row["members"]]
    assert len(set(epochs)) > 1
    assert row["epochs"] == max(epochs)
    first = row["members"][0]["best_epoch"]
    assert first < row["best_epoch"], "so that it matters whose best epoch is looked up"
    log = (member_folder(tmp_path / "run" / "split-000", 0) / "metrics.jsonl").read_text().splitlines()
    (kept,) = split_rows(tmp_path / "run")
    assert kept["diagnostics"]["overlap"] == pytest.approx(json.loads(log[first - 1])["overlap"], rel=1e-3)


def test_members_are_tasks_of_their_own_for_jobs(graphs: GraphSet, trained: Path, tmp_path: Path) -> None:
    told: list[Report] = []
    run.train(graphs, splits=2, ensemble=3, jobs=2, out=tmp_path / "jobs", tell=told.append, **TINY)
    assert whole(tmp_path / "jobs", 2, 3) == whole(trained, 2, 3)
    every = [(index, member) for index in range(2) for member in range(3)]
    assert sorted((t.split, t.member) for t in told if t.done) == every
    assert sorted((t.split, t.member) for t in told if t.epoch == 3 and not t.done) == every


def test_the_model_that_learns_nothing(graphs: GraphSet) -> None:
    plain, many = (run.train(graphs, method="majority", ensemble=count) for count in (1, 2))
    assert many.test_accuracy == plain.test_accuracy
    assert many.rows[0]["parameters"] == 0


SCRIPT = """
import sys
import cgipool.training.loop as split
from cgipool.data import motifs
from cgipool.training.run import train

split.SAVE_SECONDS = 0.0
more = dict(width=16, batch_size=16, epochs=30, patience=30)
train(motifs(80), ensemble=2, out=sys.argv[1], resume=len(sys.argv) > 2, **more)
"""


@pytest.mark.long
def test_killed_and_resumed_is_uninterrupted(tmp_path: Path) -> None:
    def start(out: str, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / out), *more])

    folders = [member_folder(run.split_folder(tmp_path / "cut", 0), member) for member in range(2)]
    log = folders[1] / "metrics.jsonl"
    process = start("cut")
    while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= 8):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert [(folder / "result.json").exists() for folder in folders] == [True, False]
    assert int(checkpoint.load_tensors(folders[1] / "checkpoint.safetensors")[1]["epoch"]) >= 7
    assert not (folders[0].parent / "result.json").exists()
    assert start("cut", "resume").wait() == 0
    assert start("whole").wait() == 0
    assert whole(tmp_path / "cut") == whole(tmp_path / "whole")
    assert not (folders[1] / "checkpoint.safetensors").exists()


def test_resume_trains_the_members_that_are_missing(graphs: GraphSet, tmp_path: Path) -> None:
    first = run.train(graphs, ensemble=2, out=tmp_path / "run", **TINY)
    before = whole(tmp_path / "run")
    missing = member_folder(run.split_folder(tmp_path / "run", 0), 1)
    for name in SPLIT_FILES:
        (missing / name).unlink()
    told: list[Report] = []
    run.train(graphs, ensemble=2, out=tmp_path / "run", resume=True, tell=told.append, **TINY)
    assert whole(tmp_path / "run") == before
    assert {(t.split, t.member) for t in told if not t.done} == {(0, 1)}
    assert [(t.split, t.member) for t in told if t.done] == [(0, 0), (0, 1)]
    told.clear()
    again = run.train(graphs, ensemble=2, out=tmp_path / "run", resume=True, tell=told.append, **TINY)
    assert again.test_accuracy == first.test_accuracy
    assert all(t.done for t in told)


def test_another_number_of_members_is_another_run(graphs: GraphSet, tmp_path: Path) -> None:
    settings = TINY | {"epochs": 1}
    for count in (1, 2):
        run.train(graphs, ensemble=count, out=tmp_path / str(count), **settings)
    run.train(graphs, ensemble=1, out=tmp_path / "1", resume=True, **settings)
    for then, now in ((1, 2), (2, 1), (2, 3)):
        with pytest.raises(UserError, match=rf"different ensemble \({then} then, {now} now\); cannot resume it"):
            run.train(graphs, ensemble=now, out=tmp_path / str(then), resume=True, **settings)
    run.train(graphs, out=tmp_path / "2", overwrite=True, **settings)
    assert not list((tmp_path / "2").rglob("member-*"))


@pytest.mark.parametrize("count", [0, -3])
def test_fewer_than_one_member(graphs: GraphSet, count: int) -> None:
    with pytest.raises(UserError, match=f"ensemble must be at least 1, not {count}"):
        run.train(graphs, ensemble=count, **TINY)


STOPPING = {"epochs": 12, "patience": 2, "lr": 0.02}
"""Members stop at different epochs."""


def tasks_in(graphs: GraphSet, folder: Path, base: Recipe = PAPER, **settings: Any) -> list[Job]:
    """Two members of two splits each."""
    recipe, drawn = base.but(**TINY | settings), random_splits(graphs, seed=4, indices=range(2))
    each = [Job("cgi", recipe, s, 4, "cpu", run.split_folder(folder, s.index)) for s in drawn]
    return [member for task in each for member in members_of(task, 2)]


def test_together_is_alone(graphs: GraphSet, tmp_path: Path) -> None:
    alone, beside = (tasks_in(graphs, tmp_path / way, **STOPPING) for way in ("alone", "together"))
    told: list[Report] = []
    for task in alone:
        train_split(task, graphs, lambda progress: None)
    train_together(beside, graphs, told.append)
    assert sorted((t.split, t.member) for t in told if t.done) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    stopped = set()
    for a, b in zip(alone, beside, strict=True):
        one, other = (read(task.folder / "result.json") for task in (a, b))
        assert [one[name] for name in ("split", "epochs", "best_epoch", "parameters")] == [
            other[name] for name in ("split", "epochs", "best_epoch", "parameters")
        ]
        stopped.add(one["epochs"])
        assert one["val_loss"] == pytest.approx(other["val_loss"], rel=2e-3)
        p, q = (np.load(task.folder / "probabilities.npy") for task in (a, b))
        np.testing.assert_allclose(p, q, rtol=5e-3, atol=5e-3)
        epochs = [t.epoch for t in told if (t.split, t.member) == b.number and not t.done]
        assert epochs == list(range(1, one["epochs"] + 1))
    assert len(stopped) > 1, "the members should stop at different epochs"


def test_together_is_alone_by_the_strong_recipe(graphs: GraphSet, tmp_path: Path) -> None:
    """Batch norm's running values, averaged weights and a schedule are each member's own."""
    alone, beside = (tasks_in(graphs, tmp_path / way, STRONG["molecules"], epochs=3) for way in ("alone", "together"))
    for task in alone:
        train_split(task, graphs, lambda progress: None)
    train_together(beside, graphs, lambda progress: None)
    found = [[np.load(task.folder / "probabilities.npy") for task in way] for way in (alone, beside)]
    for p, q in zip(*found, strict=True):
        np.testing.assert_allclose(p, q, rtol=2e-3, atol=2e-3)
    assert np.abs(found[0][0] - found[0][1]).max() > 0.01, "members differ"


@pytest.mark.parametrize("moment", ["told", "launched", "logged"])
def test_together_interrupted_and_resumed(
    graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Ctrl-C may come while an epoch is launched, or when only some of the members have logged it."""
    full, cut = (tasks_in(graphs, tmp_path / way) for way in ("full", "cut"))
    train_together(full, graphs, lambda progress: None)
    monkeypatch.setattr(together, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(together, "LOOK_SECONDS", 0.0)

    def told(progress: Report) -> None:
        if moment == "told" and (progress.epoch, progress.split, progress.member) == (3, 0, 1):
            raise KeyboardInterrupt

    run_epoch, append = Group.run_epoch, split.Log.append

    def launched(group: Group, epoch: int) -> None:
        run_epoch(group, epoch)
        if moment == "launched" and epoch == 3:
            raise KeyboardInterrupt

    def logged(log: split.Log, row: dict[str, Any]) -> None:
        append(log, row)
        if moment == "logged" and row["epoch"] == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Group, "run_epoch", launched)
        patch.setattr(split.Log, "append", logged)
        with pytest.raises(KeyboardInterrupt):
            train_together(cut, graphs, told)
    assert {together._saved_epoch(task) for task in cut} == {3 if moment == "told" else 2}
    train_together(cut, graphs, lambda progress: None)
    for a, b in zip(full, cut, strict=True):
        assert content(a.folder) == content(b.folder)


def test_together_takes_as_long_as_all_its_legs(graphs: GraphSet, tmp_path: Path) -> None:
    tasks = tasks_in(graphs, tmp_path)[:2]

    def interrupt(progress: Report) -> None:
        raise KeyboardInterrupt

    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        train_together(tasks, graphs, interrupt)
    first = time.perf_counter() - began
    for task, before in zip(tasks, ({"seconds": "1000.0"}, {}), strict=True):
        tensors, header = checkpoint.load_tensors(task.folder / "checkpoint.safetensors")
        assert 0.0 < float(header.pop("seconds")) < first
        checkpoint.save_tensors(task.folder / "checkpoint.safetensors", tensors, header | before)
    began = time.perf_counter()
    train_together(tasks, graphs, lambda progress: None)
    second = time.perf_counter() - began
    for task, before in zip(tasks, (1000.0, 0.0), strict=True):
        assert before < read(task.folder / "result.json")["seconds"] < before + second


def test_together_resumed_after_one_has_stopped(
    graphs: GraphSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that has stopped stays in the group until enough have; its log ends before the checkpoint."""
    monkeypatch.setattr(together, "THIN", 0.5)
    full, cut = (tasks_in(graphs, tmp_path / way, **STOPPING)[1:] for way in ("full", "cut"))
    train_together(full, graphs, lambda progress: None)
    monkeypatch.setattr(together, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(together, "LOOK_SECONDS", 0.0)
    stopped = sorted(read(task.folder / "result.json")["epochs"] for task in full)
    assert stopped[0] < stopped[1], "one should stop before the others"

    def interrupt(progress: Report) -> None:
        if progress.epoch == stopped[0] + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_together(cut, graphs, interrupt)
    assert not any((task.folder / "result.json").exists() for task in cut)
    train_together(cut, graphs, lambda progress: None)
    for a, b in zip(full, cut, strict=True):
        assert content(a.folder) == content(b.folder)


def test_together_a_loss_that_explodes_names_its_member(graphs: GraphSet, tmp_path: Path) -> None:
    tasks = [task for task in tasks_in(graphs, tmp_path, lr=1e30) if task.member == 1]
    with pytest.raises(Diverged, match=r"split \d, member 1: the loss became NaN or infinite .*member-01/weights"):
        train_together(tasks, graphs, lambda progress: None)


COMMAND = ["--width", "16", "--epochs", "2", "--batch-size", "32", "--ensemble", "3"]


@pytest.fixture
def small(tmp_path: Path) -> str:
    motifs(40).save(tmp_path / "small")
    return str(tmp_path / "small")


def test_the_command(small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert main(["train", small, "--splits", "2", *COMMAND, "--out", str(out)]) == 0
    said = capsys.readouterr()
    result = read(out / "result.json")
    assert "recipe paper · seed 0 · 2 splits · ensemble of 3" in said.out
    alone = 100 * np.mean(result["test_accuracy_members"])
    assert f"a single member: accuracy {alone:.2f} % on average" in said.out
    names = [f"split {index}, member {member}" for index in range(2) for member in range(3)]
    assert [line.split(":")[0] for line in said.err.splitlines()] == names
    assert main(["train", small, "--splits", "2", *COMMAND, "--out", str(out), "--resume", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["ensemble"] == 3
    assert plain["test_accuracy"] == result["test_accuracy"]


def test_the_command_refuses_fewer_than_one(capsys: pytest.CaptureFixture[str]) -> None:
    for count in ("0", "-1"):
        assert main(["train", "--ensemble", count]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert re.fullmatch(r"cgipool: Invalid value for '--ensemble': .*\b1\b.*\n", said.err)


def test_bars_count_members() -> None:
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from cgipool.cli.progress import Bars

    console = Console(record=True, width=80)
    with Progress(TextColumn("{task.description}"), console=console, disable=True) as progress:
        bars = Bars(progress, splits=2, epochs=9, patience=9, ensemble=2)
        for member in range(2):
            bars(Report(0, 1, 0.5, 0.5, 1, "accuracy", member=member))
        assert [task.description for task in progress.tasks] == ["members", "split 0.0", "split 0.1"]
        bars(Report(0, 1, 0.5, 0.5, 1, "accuracy", done=True, member=1))
        assert [task.description for task in progress.tasks] == ["members", "split 0.0"]
        assert (progress.tasks[0].total, progress.tasks[0].completed) == (4, 1)
        assert progress.tasks[0].fields["state"] == "1/4"
    assert "split 0, member 1: 1 epoch, best 1" in console.export_text()


@pytest.mark.parametrize(("ensemble", "state"), [(1, "epoch 3, 1/2 splits done"), (3, "epoch 3, 2/6 members done")])
def test_bars_of_a_study_count_members(ensemble: int, state: str, tmp_path: Path) -> None:
    from rich.progress import Progress

    from cgipool.cli.study_progress import StudyBars
    from cgipool.study.cell import Cell, Protocol
    from cgipool.study.estimate import Estimate
    from cgipool.study.store import Store

    cell = Cell("cgi", "motifs", PAPER, Protocol(splits=2, ensemble=ensemble))
    with Progress(disable=True) as progress:
        bars = StudyBars(progress, [cell], Store(tmp_path), Estimate(None, [cell], "cpu"), 1)
        bars.begins(cell)
        for member in range(min(ensemble, 2)):
            bars.epoch(cell, Report(0, 3, 0.5, 0.5, 1, "accuracy", done=True, member=member))
        assert progress.tasks[-1].fields["state"] == state


def test_bars_without_splits() -> None:
    from rich.progress import Progress

    from cgipool.cli.progress import Bars

    for ensemble, names in ((1, ["splits", "model"]), (2, ["members", "member 0"])):
        with Progress(disable=True) as progress:
            Bars(progress, None, epochs=9, patience=9, ensemble=ensemble)(Report(0, 1, 0.5, 0.5, 1, "accuracy"))
            assert [task.description for task in progress.tasks] == names
            assert progress.tasks[0].visible == (ensemble > 1)
