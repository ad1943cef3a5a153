"""Running studies: killed, stopped, shared, failing; what comes out is what an undisturbed run gives."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool import load_dataset
from cgipool.cli import main
from cgipool.report.view import view_of
from cgipool.study.claims import Claims
from cgipool.study.local import run_spread
from cgipool.study.plan import Study, read_study, study_of
from cgipool.study.records import Book, read_book
from cgipool.study.run import Runner, Stop, Watcher
from cgipool.study.store import Store, now
from cgipool.training import loop as plain_loop
from cgipool.training.job import Progress

EIGHT = Path(__file__).with_name("eight.toml")
TINY: dict[str, Any] = {
    "axes": {"method": ["topk", "none"], "dataset": ["motifs"]},
    "settings": {"width": 8, "epochs": 3, "patience": 3},
    "protocol": {"splits": 2},
}
TIMES = ("started", "finished", "seconds", "command", "legs", "sha256")

pytestmark = pytest.mark.usefixtures("one_thread")


def tiny(**changes: Any) -> Study:
    return study_of(TINY | changes, "tiny")


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(v) for name, v in value.items() if name not in TIMES}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def same(one: Book, other: Book) -> None:
    assert one.records.keys() == other.records.keys()
    for key, record in one.records.items():
        assert without_times(vars(record)) == without_times(vars(other.records[key]))
    assert one.studies == other.studies
    assert not one.problems + other.problems


def test_what_reads_edges_is_compared_with_what_does_not(tmp_path: Path) -> None:
    """They are trained on the same graphs, though not on all of their columns."""
    graphs = load_dataset("motifs").subset(range(0, 1000, 20))
    bonds = np.zeros((graphs.n_edges, 1), np.int32)
    replace(graphs, edge_category=bonds, edge_category_names=(("single", "double"),)).save(tmp_path / "bonds")
    axes = {"method": ["none", "wl", "majority"], "dataset": ["bonds"]}
    study = study_of(TINY | {"axes": axes, "baseline": "none", "data": {"bonds": "bonds"}}, "edges", tmp_path)
    store = Store(tmp_path / "store")
    store.remember(study.to_json())
    assert len(Runner(store, "cpu").run(study.cells).done) == 3
    book = read_book(store.folder)
    assert len({record.provenance["data"] for record in book.records.values()}) == 1
    view = view_of(book.studies[0], book)
    assert [entry.against is not None for entry in view.entries] == [False, True, True]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of eight.toml, run without disturbance."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    assert main(["study", "run", str(EIGHT), "--store", str(folder)]) == 0
    return folder


EAGER = "from cgipool.training import loop; loop.SAVE_SECONDS = 0; from cgipool.cli import main; import sys; "
"""A command line that writes a checkpoint after every epoch."""


def start(*words: str) -> subprocess.Popen:
    code = EAGER + f"sys.exit(main({list(words)!r}))"
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(condition: Any, process: subprocess.Popen, seconds: float = 90.0) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(FileNotFoundError):  # a cell's folder may be removed while it is listed
            if found := condition():
                return found
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    raise AssertionError("it did not happen in time")


class Epochs(Watcher):
    """Remembers the first epoch told of each cell, and how cells ended."""

    def __init__(self) -> None:
        self.first: dict[str, Progress] = {}
        self.ends: dict[str, str] = {}

    def epoch(self, cell: Any, progress: Progress) -> None:
        self.first.setdefault(cell.key, progress)

    def ended(self, cell: Any, how: str) -> None:
        self.ends[cell.key] = how


def test_killed_in_the_middle_and_resumed(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    process = start("study", "run", str(EIGHT), "--store", str(store))

    def under_way() -> list[Path]:
        done = list(store.glob("cells/*.json"))
        return done and list(store.glob("work/*/split-*/checkpoint.safetensors"))

    wait_for(under_way, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = {path: path.read_bytes() for path in store.glob("cells/*.json")}
    in_hand = [path for path in store.glob("work/*") if path.is_dir()]
    assert finished
    assert len(in_hand) == 1
    assert list(store.glob("claims/*.json")), "a killed run leaves its claim behind"
    assert len(finished) < 8

    watcher = Epochs()
    outcome = Runner(Store(store), "cpu", watcher=watcher).run(read_study(EIGHT).cells)
    assert len(outcome.there) == len(finished)
    assert len(outcome.done) == 8 - len(finished)
    first = watcher.first[in_hand[0].name]
    assert first.done or first.split > 0 or first.epoch > 1, "the cell in hand goes on where it was"
    for path, content in finished.items():
        assert path.read_bytes() == content, "what was finished is not touched"
    assert not list(store.glob("work/*"))
    assert not list(store.glob("claims/*.json"))
    same(read_book(whole), read_book(store))


def test_two_runs_share_a_store(whole: Path, tmp_path: Path) -> None:
    words = ("study", "run", str(EIGHT), "--store", str(tmp_path))
    both = [start(*words), start(*words)]
    said = [process.communicate(timeout=120) for process in both]
    assert {process.returncode for process in both} <= {0, 75}, said
    assert 0 in [process.returncode for process in both], "who finishes last finds all of them"
    new = [int(out.split(", ")[1].split()[0]) for out, _ in said]
    assert sum(new) == 8, "every cell once"
    same(read_book(whole), read_book(tmp_path))


def test_several_devices_share_the_cells(whole: Path, tmp_path: Path) -> None:
    watcher = Epochs()
    outcome = run_spread(read_study(EIGHT).cells, tmp_path, ["cpu", "cpu"], watcher=watcher)
    assert len(outcome.done) == 8
    assert set(watcher.ends.values()) == {"done"}
    Store(tmp_path).remember(read_study(EIGHT).to_json())
    same(read_book(whole), read_book(tmp_path))


def test_sigterm_saves_and_asks_to_be_requeued(tmp_path: Path) -> None:
    file = tmp_path / "long.toml"
    file.write_text('axes = {method = ["cgi"], dataset = ["motifs"]}\nsettings = {width = 8, epochs = 500}\n')
    store = tmp_path / "store"
    process = start("study", "run", str(file), "--store", str(store))
    wait_for(lambda: list(store.glob("work/*/split-000/checkpoint.safetensors")), process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert "run the same command to continue" in out
    assert not list(store.glob("claims/*.json"))
    log = next(store.glob("work/*/split-000/metrics.jsonl")).read_text().splitlines()
    again = Epochs()
    Runner(Store(store), "cpu", watcher=again, stop=Stop(minutes=0.02)).run(read_study(file).cells)
    assert next(iter(again.first.values())).epoch == len(log) + 1


def test_a_limit_stops_between_epochs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    study = tiny(settings=TINY["settings"] | {"epochs": 1000, "patience": 1000})
    outcome = Runner(store, "cpu", stop=Stop(minutes=0.02)).run(study.cells)
    assert outcome.stopped
    assert not outcome.done
    assert (store.work(study.cells[0].key) / "split-000" / "checkpoint.safetensors").exists()
    assert main(["study", "run", str(EIGHT), "--store", str(tmp_path), "--limit", "0"]) == 75


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_limit_with_jobs(tmp_path: Path, jobs: int) -> None:
    study = tiny(settings=TINY["settings"] | {"epochs": 100_000, "patience": 100_000})
    began = time.monotonic()
    outcome = Runner(Store(tmp_path), "cpu", jobs=jobs, stop=Stop(minutes=0.03 * jobs)).run(study.cells)
    assert outcome.stopped
    assert time.monotonic() - began < 300, "it would train for hours"


BROKEN = """
import os
from cgipool.pool.topk import TopKPool
class Breaks(TopKPool):
    def forward(self, x, level):
        if "BREAK" in os.environ:
            raise RuntimeError("it broke" + chr(10) + "in two lines")
        return super().forward(x, level)
"""


def test_a_cell_that_fails_leaves_its_reason_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "broken_pool.py").write_text(BROKEN)
    monkeypatch.setenv("BREAK", "1")
    monkeypatch.syspath_prepend(str(tmp_path))
    file, store = tmp_path / "own.toml", tmp_path / "store"
    file.write_text(
        'axes = {method = ["broken_pool:Breaks", "none"], dataset = ["motifs"]}\n'
        "settings = {width = 8, epochs = 2}\nprotocol = {splits = 1}\n"
    )
    words = ["study", "run", str(file), "--store", str(store)]
    assert main(words) == 1
    book = read_book(store)
    assert len(book.records) == 1
    assert list(book.failed.values()) == ["RuntimeError: it broke in two lines"]
    failure = json.loads(next((store / "failed").glob("*.json")).read_text())
    assert "broken_pool.py" in failure["log"]
    assert main(["study", "status", str(store)]) == 0
    assert "it broke in two lines" in capsys.readouterr().out

    assert main(words) == 1, "a failure is not tried again by itself"
    assert "starting" not in capsys.readouterr().err
    monkeypatch.delenv("BREAK")
    assert main([*words, "--retry-failed"]) == 0
    book = read_book(store)
    assert len(book.records) == 2
    assert not book.failed


def test_what_another_device_began_is_begun_anew(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), tiny().cells[0]
    Runner(store, "cpu", stop=Stop(minutes=0)).run([cell])
    folder = store.work(cell.key)
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"device": "cuda"}')
    assert Runner(store, "cpu").run([cell]).done == [cell.key]


def test_a_cell_taken_over_by_another_run_is_left_to_it(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), tiny().cells[0]

    class Thief(Watcher):
        taken: Any = None

        def epoch(self, cell: Any, progress: Progress) -> None:
            if self.taken is None:
                time.sleep(0.05)
                self.taken = Claims(tmp_path / "claims", expiry=0.0).take(cell.key)
                time.sleep(0.5)

    store.claims.beat = 0.1
    thief = Thief()
    outcome = Runner(store, "cpu", watcher=thief).run([cell])
    assert outcome.elsewhere == [cell.key]
    assert not store.has(cell.key)
    assert not thief.taken.lost
    assert store.claims.holder(cell.key) is not None, "the other's claim stays"
    thief.taken.release()


def test_who_sleeps_while_another_finishes_its_cell_tells_no_failure(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), tiny().cells[0]

    class Sleeper(Watcher):
        slept = False

        def epoch(self, cell: Any, progress: Progress) -> None:
            if not self.slept:
                self.slept = True
                os.utime(tmp_path / "claims" / f"{cell.key}.json", (0, 0))
                assert Runner(Store(tmp_path), "cpu").run([cell]).done == [cell.key]

    outcome = Runner(store, "cpu", watcher=Sleeper()).run([cell])
    assert (outcome.there, outcome.failed) == ([cell.key], [])
    assert store.has(cell.key)
    assert store.failure(cell.key) is None


def test_a_finished_cell_needs_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, study = Store(tmp_path), tiny()
    Runner(store, "cpu").run(study.cells)
    monkeypatch.setattr("cgipool.study.run.graphs_of", lambda cell: pytest.fail("it was loaded"))
    assert len(Runner(store, "cpu").run(study.cells).there) == 2


def test_what_is_kept_of_a_cell(whole: Path) -> None:
    record = next(r for r in read_book(whole).records.values() if r.cell["method"] == "cgi")
    assert [row["split"] for row in record.splits] == [0, 1]
    for row in record.splits:
        assert row["graphs"] == {"train": 800, "val": 100, "test": 100}
        assert row["curve"]["epoch"] == [1, 2, 3, 4]
        assert len(row["curve"]["val_loss"]) == 4
        assert len(row["diagnostics"]["overlap"]) == 3
        assert 0 <= row["test"]["accuracy"] <= 1
    told = record.provenance
    assert told["command"].startswith("cgipool train motifs --method cgi")
    assert set(told["versions"]) >= {"cgipool", "torch", "numpy", "python"}
    assert told["precision"] == "float32"
    assert len(told["data"]) == len(told["splits"]) == 64


def test_checkpoints_are_written_when_the_training_is_told_to_end(tmp_path: Path) -> None:
    assert plain_loop.SAVE_SECONDS > 1, "otherwise this shows nothing"
    study = tiny(settings=TINY["settings"] | {"epochs": 50, "patience": 50})
    stop = Stop()

    class Asks(Watcher):
        def epoch(self, cell: Any, progress: Progress) -> None:
            stop.asked = progress.epoch == 4

    store = Store(tmp_path)
    assert Runner(store, "cpu", stop=stop, watcher=Asks()).run(study.cells).stopped
    again = Epochs()
    Runner(store, "cpu", watcher=again, stop=Stop(minutes=0.02)).run(study.cells)
    assert next(iter(again.first.values())).epoch == 5


def test_a_damaged_cell_is_made_anew_and_kept(tmp_path: Path) -> None:
    store, cells = Store(tmp_path), tiny().cells
    Runner(store, "cpu").run(cells)
    path = tmp_path / "cells" / f"{cells[0].key}.json"
    whole = json.loads(path.read_text())
    path.write_text(path.read_text()[:100])
    assert not store.has(cells[0].key)
    outcome = Runner(store, "cpu").run(cells)
    assert (outcome.done, outcome.there) == ([cells[0].key], [cells[1].key])
    assert without_times(json.loads(path.read_text())) == without_times(whole)
    assert len(path.with_name(f"{cells[0].key}.damaged.json").read_text()) == 100


@pytest.mark.parametrize("content", ["", "[]", '{"reason": 3'])
def test_damaged_notes_do_not_stop_a_run(tmp_path: Path, content: str) -> None:
    store, study = Store(tmp_path), tiny()
    (tmp_path / "failed" / f"{study.cells[0].key}.json").write_text(content)
    (tmp_path / "studies" / "tiny.json").write_text(content)
    store.remember(study.to_json())
    assert Runner(store, "cpu").run(study.cells).failed == [study.cells[0].key]
    assert len(Runner(store, "cpu", retry_before=now()).run(study.cells).done) == 1


def test_two_devices_retry_a_failure_once(tmp_path: Path) -> None:
    study = study_of({"axes": {"method": ["topk", "none"], "dataset": ["NCI1"]}, "protocol": {"splits": 1}})
    os.environ["CGIPOOL_MIRROR"], before = "http://127.0.0.1:9/none", os.environ.get("CGIPOOL_MIRROR")
    os.environ["CGIPOOL_DATA"], data = str(tmp_path), os.environ.get("CGIPOOL_DATA")
    os.environ["CGIPOOL_CACHE"], cache = str(tmp_path / "cache"), os.environ.get("CGIPOOL_CACHE")
    try:
        store = Store(tmp_path / "store")
        assert len(Runner(store, "cpu").run(study.cells).failed) == 2
        begun: list[str] = []

        class Counts(Watcher):
            def begins(self, cell: Any) -> None:
                begun.append(cell.key)

        time.sleep(0.01)  # times of failures are kept to the millisecond
        run_spread(study.cells, tmp_path / "store", ["cpu", "cpu"], watcher=Counts(), retry_before=now())
        assert sorted(begun) == sorted(cell.key for cell in study.cells)
    finally:
        for name, value in (("CGIPOOL_MIRROR", before), ("CGIPOOL_DATA", data), ("CGIPOOL_CACHE", cache)):
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    file, store = tmp_path / "long.toml", tmp_path / "store"
    file.write_text('axes = {method = ["cgi", "topk"], dataset = ["motifs"]}\nsettings = {width = 8, epochs = 500}\n')
    process = start("study", "run", str(file), "--store", str(store), "--device", "cpu,cpu")
    wait_for(lambda: len(list(store.glob("work/*/split-000/checkpoint.safetensors"))) == 2, process)
    holders = [Claims(store / "claims").holder(cell.key) for cell in read_study(file).cells]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)  # ends when nobody holds its output any more
    assert all(holders)
    assert not any(runs(h.pid) for h in holders if h)


def runs(pid: int) -> bool:
    """Whether a process runs; one that has ended may still be listed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_times_of_all_legs_are_kept(tmp_path: Path) -> None:
    store, study = Store(tmp_path), tiny(settings=TINY["settings"] | {"epochs": 30, "patience": 30})
    stop = Stop()

    class Asks(Watcher):
        def epoch(self, cell: Any, progress: Progress) -> None:
            stop.asked = progress.epoch == 20

    Runner(store, "cpu", stop=stop, watcher=Asks()).run(study.cells[:1])
    Runner(store, "cpu").run(study.cells[:1])
    told = read_book(tmp_path).records[study.cells[0].key].provenance
    assert [leg["commit"] for leg in told["legs"]] == [told["commit"]] * 2
    assert told["seconds"] == pytest.approx(sum(leg["seconds"] for leg in told["legs"]), abs=0.01)
    assert told["started"] == told["legs"][0]["started"] < told["legs"][1]["started"]
    assert not list((tmp_path / "work").iterdir())
