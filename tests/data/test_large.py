"""Five million graphs, 150 million nodes: import, training and prediction in 2 GB, at the pace of fewer graphs."""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from large_sets import write_large_tu

from cgipool.data import GraphSet

pytestmark = pytest.mark.long

COUNTS = (50_000, 500_000, 5_000_000)
DISK = 22 * 2**30
"""Bytes that the sets take as text, as arrays and while they are imported, with some to spare."""

MOST = 2 * 2**20
"""KiB of its own that a process may take."""

SLOWEST = 1 / 0.8
"""Seconds of a further graph from the second count to the third, in those from the first to the second: a difference
of two runs is without what a command takes to start, which would flatter the large set."""

MEASURE = """
import json, sys, threading, time
import pyarrow.csv, cgipool.cli.tables, cgipool.data.importers, cgipool.inference.fitted
from cgipool.cli import main

most = 0
def watch():
    global most
    while True:
        with open("/proc/self/status") as status:
            most = max(most, *(int(line.split()[1]) for line in status if line.startswith("RssAnon")))
        time.sleep(0.05)

threading.Thread(target=watch, daemon=True).start()
wall, own = time.perf_counter(), time.process_time()
assert main(sys.argv[1:]) == 0
told = {"peak": most, "wall": time.perf_counter() - wall, "own": time.process_time() - own}
print(json.dumps(told), file=sys.stderr)
"""
"""Runs a command and tells its memory (pages of mapped files are not its own) and its time, by the clock and its own.

The paces are compared in its own time, since others may use the machine."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that is emptied afterwards: pytest would keep it."""
    if shutil.disk_usage(tmp_path).free < DISK:
        pytest.skip(f"needs {DISK >> 30} GiB of disk in {tmp_path}")
    yield tmp_path
    shutil.rmtree(tmp_path)


def measure(*words: object) -> dict[str, float]:
    command = [sys.executable, "-c", MEASURE, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


@pytest.mark.usefixtures("one_thread")
def test_five_million_graphs(place: Path) -> None:
    seconds: dict[str, list[float]] = {"import": [], "train": [], "predict": []}
    tiny = ("--method", "topk", "--set", "width=8", "--set", "epochs=1", "--set", "batch_size=1024")
    model = place / "model.safetensors"
    for count in COUNTS:
        text, folder = write_large_tu(place / f"text{count}", count), place / f"set{count}"
        rows = place / f"{count}.csv"
        found = {"import": measure("data", "import", text, "--out", folder)}
        shutil.rmtree(text)
        found["train"] = measure("train", folder, *tiny)
        if not model.exists():
            measure("fit", folder, "--out", model, *tiny)
        found["predict"] = measure("predict", model, folder, "--out", rows)
        for what, told in found.items():
            print(f"{count:,} graphs, {what}: {told['peak'] / 2**20:.2f} GB of its own, {told['wall']:.0f} s")
            assert told["peak"] < MOST, what
            seconds[what].append(told["own"])
        assert GraphSet.load(folder, mmap=True).n_graphs == count
        with rows.open() as file:
            ids = (row["id"] for row in csv.DictReader(file))
            assert all(name == str(number) for name, number in zip(ids, range(1, count + 1), strict=True))
    for what, taken in seconds.items():
        few, many = np.diff(taken) / np.diff(COUNTS)
        print(f"{what}: a further graph takes {1e6 * few:.1f} and {1e6 * many:.1f} µs")
        assert many < SLOWEST * few, what
