"""Studies on Ray: a cluster of two nodes on this machine, one of which is lost; what comes out is a local run's."""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgipool import load_dataset
from cgipool.cli import main
from cgipool.data.graphs import GraphSet
from cgipool.data.importers.lines import Asked
from cgipool.errors import UserError
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict import WrittenRows, written
from cgipool.inference.predict_input import chunks_of
from cgipool.inference.ray import PredictOptions, in_order
from cgipool.study.cell import Cell
from cgipool.study.plan import read_study, study_of
from cgipool.study.ray import cluster as ray_cluster
from cgipool.study.ray import runner as on_ray
from cgipool.study.ray.cluster import able, address_of, connected, needs_of
from cgipool.study.ray.runner import RayRunner
from cgipool.study.records import read_book
from cgipool.study.run import Runner, Stop, Watcher
from cgipool.study.store import Store, now
from cgipool.training.job import Progress

EIGHT = Path(__file__).with_name("eight.toml")
LONG = {"width": 8, "epochs": 100_000, "patience": 100_000}
BREAKS = """
from pathlib import Path
from cgipool.pool.topk import TopKPool
class Breaks(TopKPool):
    def forward(self, x, level):
        if Path(__file__).with_name("broken").exists():
            raise RuntimeError("it broke" + chr(10) + "in two lines")
        return super().forward(x, level)
class FullDisk(TopKPool):
    def forward(self, x, level):
        import ray
        troubled = Path(__file__).with_name("troubled").read_text()
        if troubled in ("all", ray.get_runtime_context().get_node_id()):
            raise OSError(28, "No space left on device")
        return super().forward(x, level)
"""

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # Ray leaves the objects of its subprocesses, and their pipes, to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed|subprocess .* is still running:ResourceWarning"),
]


@pytest.fixture(scope="module")
def own_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that modules are imported from, here and by processes that are started later."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "breaks_on_ray.py").write_text(BREAKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield folder


@pytest.fixture(scope="module")
def workers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where workers of the cluster have their temporary folders, and Ray its note of which cluster is up."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "ray").mkdir()
    return folder


@pytest.fixture(scope="module")
def cluster(own_code: Path, workers_folder: Path) -> Iterator[Any]:
    """Two nodes that train one cell each, and this process connected to them."""
    pytest.importorskip("ray", reason="needs Ray: pip install 'cgipool[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("TMPDIR", str(workers_folder))
        from ray.cluster_utils import Cluster

        # Ray's other files stay where they would be: the path of a socket must be short.
        bare = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        head = bare | {"num_cpus": 1, "temp_dir": f"{tempfile.gettempdir()}/ray"}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            cluster.add_node(num_cpus=1, include_log_monitor=False)
            with connected(f"ray:{cluster.address}", "cpu", 1) as count:
                assert count == 2
                yield cluster
        finally:
            cluster.shutdown()
    del cluster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of eight.toml, run without Ray."""
    folder = tmp_path_factory.mktemp("whole")
    assert main(["study", "run", str(EIGHT), "--store", str(folder)]) == 0
    return folder


def kept(store: Path) -> dict[str, Any]:
    """What a store keeps of each cell, times aside."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: timeless(v) for name, v in value.items() if name not in ("started", "finished", "seconds")}
        return [timeless(v) for v in value] if isinstance(value, list) else value

    book = read_book(store)
    assert not book.problems
    return {key: timeless(vars(record)) for key, record in book.records.items()}


def children(*parents: int) -> list[int]:
    """The processes that these have started, and those that they have, and so on."""
    found, seen = list(parents), []
    while found:
        parent = found.pop()
        for path in Path("/proc").glob("[0-9]*/stat"):
            if parent_of(path) == parent:
                found.append(int(path.parent.name))
                seen.append(found[-1])
    return seen


def listened_on(pids: list[int]) -> Iterator[str]:
    """The addresses, in hexadecimal digits, that sockets of these processes accept connections at; 127.0.0.1 ends in
    0100007F."""
    links = [os.readlink(path) for pid in pids for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    sockets = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")}
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and rest[5] in sockets:
                yield local.partition(":")[0]


def parent_of(path: Path) -> int | None:
    """By its /proc/PID/stat; None of a process that has ended, though it may still be listed."""
    try:
        state, parent = path.read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


class Course(Watcher):
    """Remembers what is told, and whether cells were claimed while they were trained."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.begun: Counter[str] = Counter()
        self.ends: Counter[tuple[str, str]] = Counter()
        self.claimed: list[bool] = []

    def begins(self, cell: Cell) -> None:
        self.begun[cell.key] += 1

    def epoch(self, cell: Cell, progress: Progress) -> None:
        self.claimed.append(self.store.claims.holder(cell.key) is not None)

    def ended(self, cell: Cell, how: str) -> None:
        self.ends[cell.key, how] += 1


def trains(pid: int) -> bool:
    """Whether a process is a worker of Ray that has a cell in hand, as its title says."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::train_cell")
    except OSError:
        return False


@pytest.mark.long
def test_trouble_of_one_node_sends_a_cell_to_another(cluster: Any, own_code: Path, tmp_path: Path) -> None:
    """The disks of the nodes are full, or that of one; what does not write is trained all the same."""
    import ray

    axes = {"method": ["breaks_on_ray:FullDisk", "none"], "dataset": ["motifs"]}
    full, other = study_of({"axes": axes, "settings": {"width": 4, "epochs": 1}}).cells
    (own_code / "troubled").write_text("all")
    store = Store(tmp_path / "first")
    outcome = RayRunner(store, "cpu").run([full, other])
    assert (outcome.failed, outcome.done) == ([full.key], [other.key])
    assert (
        store.content(full.key)["reason"]
        == "tried 4 times without success; the last error: OSError: [Errno 28] No space left on device"
    )
    assert "breaks_on_ray.py" in store.content(full.key)["log"]
    for node in able(ray, {"CPU": 1}):
        (own_code / "troubled").write_text(node)
        assert RayRunner(Store(tmp_path / node), "cpu").run([full]).done == [full.key]


def test_a_node_is_lost_in_the_middle(cluster: Any, whole: Path, tmp_path: Path) -> None:
    store, cells = Store(tmp_path), read_study(EIGHT).cells
    store.remember(read_study(EIGHT).to_json())
    lost: list[str] = []

    class Counts(RayRunner):
        def _submit(self, hand: Any) -> None:
            tries[hand.cell.key] += 1
            super()._submit(hand)
            course.claimed.append(store.claims.holder(hand.cell.key) is not None)
            if len(self.running) == 2 and not lost:  # the two longest cells, one on each node
                lost.extend(tries)
                (node,) = cluster.worker_nodes
                while not any(map(trains, of_node := children(*(part.pid for _, part in node.live_processes())))):
                    time.sleep(0.01)
                for pid in of_node:
                    os.kill(pid, signal.SIGKILL)
                cluster.remove_node(node, allow_graceful=False)

    course, tries = Course(store), Counter[str]()
    outcome = Counts(store, "cpu", watcher=course).run(cells)
    assert lost, "otherwise this shows nothing"
    assert max(tries.values()) > 1, "the cell of the lost node was begun again"
    assert sorted(outcome.done) == sorted(cell.key for cell in cells)
    assert course.begun == Counter(cell.key for cell in cells)
    assert course.ends == Counter((cell.key, "done") for cell in cells), "every cell once"
    assert course.claimed
    assert all(course.claimed)
    assert not list(tmp_path.glob("claims/*"))
    assert kept(tmp_path) == kept(whole)


@pytest.mark.usefixtures("cluster")
def test_begun_here_continued_on_ray_and_back(whole: Path, tmp_path: Path) -> None:
    store, cells = Store(tmp_path), {cell.name: cell for cell in read_study(EIGHT).cells}
    first, second, third = (cells[f"method={name},dataset=motifs,ratio=0.5"] for name in ("random", "topk", "sag"))
    Runner(store, "cpu").run([first])

    class Asks(Watcher):
        def epoch(self, cell: Cell, progress: Progress) -> None:
            stop.asked = progress.epoch == 2

    stop = Stop()
    assert Runner(store, "cpu", stop=stop, watcher=Asks()).run([second]).stopped
    assert store.work(second.key).exists(), "it is in hand"
    outcome = RayRunner(store, "cpu").run([first, second])
    assert (outcome.there, outcome.done) == ([first.key], [second.key])
    assert not list(tmp_path.glob("work/*")), "what was in hand is not needed any more"
    outcome = Runner(store, "cpu").run([first, second, third])
    assert (outcome.there, outcome.done) == ([first.key, second.key], [third.key])
    expected = kept(whole)
    assert kept(tmp_path) == {cell.key: expected[cell.key] for cell in (first, second, third)}


@pytest.mark.usefixtures("cluster")
def test_a_cell_that_fails_leaves_its_reason_and_the_rest_goes_on(own_code: Path, tmp_path: Path) -> None:
    (own_code / "broken").touch()
    axes = {"method": ["breaks_on_ray:Breaks", "none"], "dataset": ["motifs"]}
    cells = study_of({"axes": axes, "settings": {"width": 8, "epochs": 2}, "protocol": {"splits": 2}}).cells
    store = Store(tmp_path)
    course = Course(store)
    outcome = RayRunner(store, "cpu", watcher=course).run(cells)
    assert (outcome.failed, outcome.done) == ([cells[0].key], [cells[1].key])
    assert course.ends[cells[0].key, "RuntimeError: it broke in two lines"] == 1
    assert "breaks_on_ray.py" in store.content(cells[0].key)["log"]
    assert RayRunner(store, "cpu").run(cells).failed == [cells[0].key], "it is not tried again by itself"
    (own_code / "broken").unlink()
    assert RayRunner(store, "cpu", retry_before=now()).run(cells).done == [cells[0].key]
    assert not read_book(tmp_path).failed


@pytest.mark.usefixtures("cluster")
def test_stopped_in_the_middle(workers_folder: Path, tmp_path: Path) -> None:
    store, stop, before = Store(tmp_path), Stop(), set(workers_folder.glob("cgipool-*"))
    in_hand: list[int] = []
    cells = study_of({"axes": {"method": ["topk"], "dataset": ["motifs"]}, "settings": LONG}).cells

    class Asks(Watcher):
        def epoch(self, cell: Cell, progress: Progress) -> None:
            stop.asked = True
            in_hand.append(len(set(workers_folder.glob("cgipool-*")) - before))

    outcome = RayRunner(store, "cpu", stop=stop, watcher=Asks()).run(cells)
    assert outcome.stopped
    assert not outcome.done
    assert not list(tmp_path.glob("claims/*"))
    assert in_hand[0] == 1
    assert set(workers_folder.glob("cgipool-*")) == before, "the worker has cleared up"


@pytest.mark.usefixtures("cluster")
def test_a_cell_in_the_hands_of_another_run_is_left_to_it(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), read_study(EIGHT).cells[0]
    claim = store.claims.take(cell.key)
    assert claim is not None
    with claim:
        assert RayRunner(store, "cpu").run([cell]).elsewhere == [cell.key]
    assert not store.content(cell.key)


@pytest.mark.usefixtures("cluster")
def test_without_its_data_set_a_cell_fails(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGIPOOL_MIRROR", "http://127.0.0.1:9/none")
    cells = study_of({"axes": {"method": ["topk"], "dataset": ["NCI1"]}}).cells
    store = Store(tmp_path / "store")
    assert RayRunner(store, "cpu").run(cells).failed == [cells[0].key]
    assert "127.0.0.1" in store.content(cells[0].key)["reason"]
    assert not list(tmp_path.glob("store/claims/*"))


@pytest.mark.long
def test_the_command_starts_ray_and_leaves_nothing_behind(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install 'cgipool[ray]'")
    file, store = tmp_path / "long.toml", tmp_path / "store"
    settings = ", ".join(f"{name} = {value}" for name, value in LONG.items())
    file.write_text(f'axes = {{method = ["majority", "none"], dataset = ["motifs"]}}\nsettings = {{{settings}}}\n')
    words = ["study", "run", str(file), "--store", str(store)]
    assert main([*words, "--only", "method=majority"]) == 0
    command = [sys.executable, "-m", "cgipool", *words, "--on", "ray:local"]
    # Without the workers' folder of the cluster: sockets of this Ray lie there too, and their paths must be short.
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        said = []
        while not said or (said[-1] and ": starting (" not in said[-1]):
            said.append(process.stderr.readline())
        assert said[-1].startswith("method=none,dataset=motifs: starting (1 of 2 cells done"), said
        assert len(list(store.glob("claims/*"))) == 1
        started = children(process.pid)
        assert len(started) > 3
        assert (places := list(listened_on([process.pid, *started])))
        assert all(place.endswith("0100007F") for place in places), places
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 75, err
    assert "1 left, stopped before the end; run the same command to continue" in out
    assert not list(store.glob("claims/*"))
    until = time.monotonic() + 10
    while left := [pid for pid in started if parent_of(Path(f"/proc/{pid}/stat")) is not None]:
        assert time.monotonic() < until, left
        time.sleep(0.1)


def hundred(task: str) -> GraphSet:
    """A hundred graphs with classes, with their sizes, or with two 0/1 columns; of the latter two, some are missing."""
    graphs = load_dataset("motifs").subset(range(0, 1000, 10))
    sizes = np.diff(graphs.node_ptr).astype(float)
    values = {"regression": sizes[:, None], "multilabel": np.stack([sizes > np.median(sizes), graphs.y == 0], 1) * 1.0}
    if task == "classification":
        return graphs
    values[task][::9, 0] = np.nan
    return graphs.with_targets(values[task], ["size", "first"][: values[task].shape[1]])


@pytest.mark.usefixtures("cluster")
def test_numbers_and_several_labels(tmp_path: Path) -> None:
    """Their cells are trained on Ray as here, with their own metrics."""
    data = {"sizes": "regression", "both": "multilabel"}
    for task in data.values():
        hundred(task).save(tmp_path / task)
    study: dict[str, Any] = {"axes": {"method": ["none", "majority"], "dataset": list(data)}, "data": data}
    cells = study_of(study | {"settings": {"width": 4, "epochs": 2}, "protocol": {"splits": 2}}, folder=tmp_path).cells
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    assert len(Runner(here, "cpu").run(cells).done) == len(cells)
    assert len(RayRunner(there, "cpu").run(cells).done) == len(cells)
    assert kept(there.folder) == kept(here.folder)
    found = {cell.dataset: there.content(cell.key)["splits"][0]["test"] for cell in cells}
    assert "rmse" in found["sizes"]
    assert "roc_auc" in found["both"]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("task", ["classification", "regression", "multilabel"])
def test_prediction_by_tasks_is_that_of_one_process(task: str, tmp_path: Path) -> None:
    hundred(task).save(tmp_path / "set")
    names = "".join(f'{g},{g + 1}," ""the"", \n{g}"\n' for g in range(100))
    (tmp_path / "set" / "ids.csv").write_text(f"graph,row,id\n{names}")
    model = tmp_path / "model.safetensors"
    words = ["--set", "width=4", "--set", "epochs=1"]
    assert main(["fit", str(tmp_path / "set"), "--out", str(model), *words]) == 0
    fitted = FittedModel.load(model)
    (alone,) = written(fitted, chunks_of(tmp_path / "set", fitted), as_json=True)
    options = PredictOptions(str(tmp_path / "set"), Asked(), "cpu", as_json=True, strict=False)
    parts = list(in_order(2, model, options, range(0, 100, 40), 100))
    assert [part.graphs for part in parts] == [40, 40, 20]
    assert json.loads(parts[2].text.splitlines()[0])["id"] == ' "the", \\n80', "control characters are escaped"
    told, expected = ([json.loads(line) for line in text.splitlines()] for text in (_joined(parts), alone.text))
    assert [row["id"] for row in told] == [row["id"] for row in expected]
    values = "values" if task == "regression" else "probabilities"
    for row, other in zip(told, expected, strict=True):
        assert row[values] == pytest.approx(other[values], rel=2e-6, abs=2e-6)
    with pytest.raises(UserError, match="nowhere"):
        list(in_order(1, model, options._replace(data=str(tmp_path / "nowhere")), range(0, 10, 10), 10))


def _joined(parts: list[WrittenRows]) -> str:
    return "".join(part.text for part in parts)


class StandIn:
    """As much of Ray as it takes to give a task away: nothing is ever done. Its head has no CPU for a cell, so that
    which only the head could take would wait for ever."""

    def __init__(self, *nodes: str) -> None:
        self.up, self.cancelled, self.selectors = set(nodes), list[Any](), list[Any]()
        self.head = {"NodeID": "head", "Alive": True, "Resources": {"memory": 1e9}}
        self.exceptions = type("errors", (), {"RayError": KeyError})
        self.answers: dict[Any, Any] = {}

    def nodes(self) -> list[dict[str, Any]]:
        return [self.head, *({"NodeID": node, "Alive": True, "Resources": {"CPU": 1}} for node in self.up)]

    def put(self, value: Any) -> Any:
        return value

    def remote(self, *given: Any, **options: Any) -> Any:
        if options:
            return lambda made: self
        self.selectors.append(None)
        return object()

    def options(self, label_selector: Any) -> "StandIn":
        self.selectors.append(label_selector)
        return self

    def get(self, ref: Any) -> Any:
        return self.answers[ref]

    def wait(self, refs: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return refs, []

    def cancel(self, ref: Any) -> None:
        self.cancelled.append(ref)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    ray = StandIn("a", "b")
    monkeypatch.setattr(on_ray, "ray_package", lambda: ray)
    monkeypatch.setattr(on_ray, "_mailbox", lambda ray: type("mailbox", (), {"take": ray}))
    return ray


def in_trouble(runner: RayRunner, ray: StandIn, node: str, useless: bool) -> None:
    """The cell in hand was given to a node that had trouble."""
    (ref,) = runner.running
    ray.answers[ref] = {"trouble": "No module named 'cgipool'", "node": node, "log": "", "useless": useless}
    runner._settle(ref)


def test_without_the_package_on_any_node_one_line_ends_the_run(stand_in: StandIn, tmp_path: Path) -> None:
    runner = RayRunner(Store(tmp_path), "cpu")
    runner.waiting.append(read_study(EIGHT).cells[0])
    runner._fill()
    in_trouble(runner, stand_in, "a", useless=True)
    assert stand_in.selectors[-2] == {"ray.io/node-id": "!in(a)"}
    with pytest.raises(UserError, match=r"no node of Ray can train \(is cgipool installed there\?\): No module"):
        in_trouble(runner, stand_in, "b", useless=True)
    runner._end()
    assert not list(tmp_path.glob("claims/*")), "the cell is free for another run"


def test_however_many_nodes_lack_the_package_a_cell_comes_to_one_that_has_it(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in.up = {f"bare{number}" for number in range(2 * on_ray.TRIES)} | {"able"}
    runner = RayRunner(Store(tmp_path), "cpu")
    runner.waiting.append(read_study(EIGHT).cells[0])
    runner._fill()
    for node in sorted(stand_in.up - {"able"}):
        in_trouble(runner, stand_in, node, useless=True)
    (hand,) = runner.running.values()
    assert hand.avoids == stand_in.up - {"able"}
    for _ in range(on_ray.TRIES):  # by a Ray that knows no labels
        in_trouble(runner, stand_in, "bare0", useless=True)
    assert not runner.running
    assert runner.outcome.failed == [hand.cell.key]


def test_a_cell_does_not_wait_for_a_node_that_is_gone(stand_in: StandIn, tmp_path: Path) -> None:
    runner = RayRunner(Store(tmp_path), "cpu")
    runner.waiting.append(read_study(EIGHT).cells[0])
    runner._fill()
    in_trouble(runner, stand_in, "a", useless=False)
    (ref,) = runner.running
    runner._free_stranded()
    assert list(runner.running) == [ref], "node b may take it"
    stand_in.up = {"a"}
    runner._free_stranded()
    assert stand_in.cancelled == [ref]
    (again,) = runner.running.values()
    assert not again.avoids
    again.claim.release()


def test_without_ray_one_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["study", "run", str(EIGHT), "--store", str(tmp_path), "--on", "ray"]) == 2
    assert capsys.readouterr().err == "cgipool: --on ray needs Ray: pip install 'cgipool[ray]'\n"


def test_addresses() -> None:
    assert address_of("ray") is None
    assert address_of("ray:auto") == "auto"
    assert address_of("ray:10.0.0.1:6379") == "10.0.0.1:6379"
    assert address_of("ray://head:10001") == "ray://head:10001"
    for wrong in ("", "ray:", "dask", "rays"):
        with pytest.raises(UserError, match="not of the form ray"):
            address_of(wrong)


def test_what_a_cell_needs() -> None:
    assert needs_of("cpu", 3) == {"CPU": 3}
    assert needs_of("cuda", 1) == {"CPU": 1, "GPU": 1}
    with pytest.raises(UserError, match="Ray chooses which GPU"):
        needs_of("cuda:1", 1)


@pytest.mark.parametrize("address", ["ray:127.0.0.1:9", "ray://127.0.0.1:9"])
def test_an_address_where_nothing_answers_is_one_line(address: str) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install 'cgipool[ray]'")
    with pytest.raises(UserError, match=r"^no Ray answers at .*127.0.0.1:9: .*refused"), connected(address, "cpu", 1):
        pass


@pytest.mark.parametrize("asked", [None, "1"])
def test_a_runtime_of_ones_own_is_for_this_machine_and_user(
    asked: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is asked for, it listens on localhost; and nobody else may read its token."""
    pytest.importorskip("ray", reason="needs Ray: pip install 'cgipool[ray]'")
    from ray._private import ray_constants

    before, seen = ray_constants.ENABLE_RAY_CLUSTER, []

    class Ray:
        def init(self, address: str, **_: object) -> None:
            seen.append((address, os.environ.get(ray_cluster.CLUSTERS), ray_constants.ENABLE_RAY_CLUSTER))

    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    if asked is None:
        monkeypatch.delenv(ray_cluster.CLUSTERS, raising=False)
    else:
        monkeypatch.setenv(ray_cluster.CLUSTERS, asked)
    token = tmp_path / ".ray" / "auth_token"
    ray_cluster._join(Ray(), "local")
    assert seen == [("local", "0", False)] if asked is None else seen == [("local", asked, before)]
    assert (os.environ.get(ray_cluster.CLUSTERS), ray_constants.ENABLE_RAY_CLUSTER) == (asked, before)
    assert (token.stat().st_mode & 0o777, len(token.read_text())) == (0o600, 64)
    text = token.read_text()
    token.chmod(0o644)
    ray_cluster._join(Ray(), "local")
    assert (token.stat().st_mode & 0o777, token.read_text()) == (0o600, text)


@pytest.mark.parametrize(("mode", "hint"), [("", True), ("token", False)])
def test_a_cluster_that_turns_us_away(mode: str, hint: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ray does where a token is missing: with a time-out that does not say so."""

    class Ray:
        def init(self, *_: object, **__: object) -> None:
            raise ConnectionError("ray client connection timeout")

    monkeypatch.setattr(ray_cluster, "ray_package", Ray)
    monkeypatch.setattr(ray_cluster, "_check_answers", lambda address: None)
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with pytest.raises(UserError, match="ray client connection timeout") as told, connected("ray://a:1", "cpu", 1):
        pass
    assert ("RAY_AUTH_TOKEN" in str(told.value)) == hint
