"""Beyond one machine: what import, training and prediction cost per graph, and a simulation up to 10⁹ graphs.

    python benchmarks/scaling.py measure FILE.json [--graphs 50000 500000 5000000]
    python benchmarks/scaling.py simulate FILE.json [--core-hour 0.05] [--memory 64] [--bandwidth 1.25e9]

`measure` makes sets of random graphs (30 nodes on average, as the molecule sets have), imports each from TU text,
trains one epoch and predicts all, in processes of one thread, and trains one set by one and by two processes of
torchrun. Costs are seconds of the processor, as others may use the machine. `simulate` fits a start and a cost per
graph to the smallest and the largest set, says how far the sets between are off, and goes on from there: time, money,
disk and memory of up to 10⁹ graphs, and steps of many processes, drawn at random, with an all-reduce over a network.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cgipool.training.distributed.shares import owners

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "data"))
from large_sets import write_large_tu

BATCH, NODES = 1024, 30
"""Graphs of a step, and nodes of a graph on average."""

TINY = ["--method", "topk", "--set", "width=8", "--set", f"batch_size={BATCH}"]
"""A model so small that reading the graphs counts."""

RUN = """
import json, resource, sys, threading, time
import pyarrow.csv, cgipool.cli.tables, cgipool.data.importers, cgipool.inference.fitted, cgipool.training.run
from cgipool.cli import main
most = 0
def watch():
    global most
    while True:
        with open("/proc/self/status") as status:
            most = max(most, *(int(line.split()[1]) for line in status if line.startswith("RssAnon")))
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
began = time.process_time()
assert main(sys.argv[1:]) == 0
print(json.dumps({"seconds": time.process_time() - began, "bytes": 1024 * most}), file=sys.stderr)
"""
"""Runs a command and tells the processor's seconds without the start of Python, and the most memory of its own."""

STAGES = ("import", "train", "predict")


def measure(path: Path, counts: list[int]) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    found: dict[str, Any] = {"sets": []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for count in counts:
            text, folder, model = (
                write_large_tu(place / f"t{count}", count),
                place / str(count),
                place / "m.safetensors",
            )
            row: dict[str, Any] = {"graphs": count, "import": run("data", "import", text, "--out", folder)}
            row["disk"] = sum(file.stat().st_size for file in folder.iterdir())
            row["train"] = run("train", folder, *TINY, "--set", "epochs=1")
            if not model.exists():
                run("fit", folder, "--out", model, *TINY, "--set", "epochs=1")
            row["predict"] = run("predict", model, folder, "--out", place / "rows.csv")
            found["sets"].append(row)
            print(json.dumps(row), flush=True)
        found["ranks"] = {str(ranks): epoch(ranks, place / str(counts[0]), place / f"r{ranks}") for ranks in (1, 2)}
    print(json.dumps(found["ranks"]))
    path.write_text(json.dumps(found, indent=1) + "\n")


def run(*words: object) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", RUN, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stderr.splitlines()[-1])


def epoch(ranks: int, data: Path, out: Path) -> float:
    """Seconds by the clock of an epoch of training by so many processes, the fastest of twelve."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    words = ["train", str(data), "--distributed", "--out", str(out), "--set", "epochs=12", *TINY]
    subprocess.run([*command, "-m", "cgipool", *words], check=True, capture_output=True)
    lines = (out / "split-000" / "metrics.jsonl").read_text().splitlines()
    return min(json.loads(line)["seconds"] for line in lines)


@dataclass(frozen=True)
class Line:
    """What grows with the number of graphs: a start, and so much for each."""

    start: float
    each: float

    @classmethod
    def through(cls, points: list[tuple[int, float]]) -> "Line":
        """Through the first and the last."""
        (a, low), (z, high) = points[0], points[-1]
        each = (high - low) / (z - a)
        return cls(low - each * a, each)

    def __call__(self, graphs: float) -> float:
        return self.start + self.each * graphs


def simulate(path: Path, options: argparse.Namespace) -> None:
    found = json.loads(path.read_text())
    sets = found["sets"]
    seconds = {s: Line.through([(r["graphs"], r[s]["seconds"]) for r in sets]) for s in STAGES}
    memory = {s: Line.through([(r["graphs"], r[s]["bytes"]) for r in sets]) for s in STAGES}
    disk = Line.through([(r["graphs"], r["disk"]) for r in sets])
    for row in sets[1:-1]:
        off = ", ".join(f"{s} {100 * (seconds[s](row['graphs']) / row[s]['seconds'] - 1):+.0f} %" for s in STAGES)
        print(f"{row['graphs']:,} graphs, model against measurement: {off}")
    print("\ngraphs         stage     core hours       USD   GB on disk   GB of memory, each process")
    for graphs in (10**6, 10**7, 10**8, 10**9):
        for stage in STAGES:
            hours = seconds[stage](graphs) / 3600
            held = memory[stage](graphs) / 1e9
            cost = hours * options.core_hour
            print(f"{graphs:<14,} {stage:8} {hours:11.3f} {cost:9.4f} {disk(graphs) / 1e9:12.1f} {held:10.1f}")
    for stage in STAGES:
        if memory[stage].each > 1.0:
            most = (options.memory * 1e9 - memory[stage].start) / memory[stage].each
            print(f"{stage}: a process of {options.memory:g} GB of memory holds the indices of {most:,.0f} graphs")
    steps(sets[0]["graphs"], found["ranks"], options)


def steps(graphs: int, ranks: dict[str, float], options: argparse.Namespace) -> None:
    """Speed of many processes over one, by drawn batches. What one and two processes took tells which part of a step
    is shared out and which is not (the launching of kernels, the optimizer, the dealing out itself)."""
    count_of_steps = math.ceil(0.8 * graphs / BATCH)
    shared = 2 * (ranks["1"] - ranks["2"]) / (0.8 * graphs * NODES)
    fixed = (2 * ranks["2"] - ranks["1"]) / count_of_steps
    print(f"\na step takes {1e3 * fixed:.1f} ms and {1e6 * NODES * shared:.1f} µs for each graph of the largest share")
    print("\nprocesses  batch   by nodes  by graphs   over a network   (speed over one process)")
    rng = np.random.default_rng(0)
    for batch in (128, 1024, 8192):
        for count in (2, 8, 32, 128):
            told = math.ceil(math.log2(count)) * options.latency + 2 * options.weights * 4 / options.bandwidth
            drawn = [rng.choice(options.sizes, batch) for _ in range(50)]
            alone = sum(sizes.sum() * shared + fixed for sizes in drawn)
            nodes = [max(np.bincount(owners(sizes, count), sizes, count)) * shared + fixed for sizes in drawn]
            blind = [max(part.sum() for part in np.array_split(sizes, count)) * shared + fixed for sizes in drawn]
            speeds = (alone / total for total in (sum(nodes), sum(blind), sum(nodes) + len(drawn) * told))
            print(f"{count:9}  {batch:5}  " + "  ".join(f"{speed:9.1f}" for speed in speeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "simulate"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--graphs", type=int, nargs="+", default=[50_000, 500_000, 5_000_000])
    parser.add_argument("--core-hour", type=float, default=0.05, help="price of a core for an hour, USD")
    parser.add_argument("--memory", type=float, default=64.0, help="GB of memory of a process")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="of the network, bytes a second")
    parser.add_argument("--latency", type=float, default=50e-6, help="of a message, seconds")
    parser.add_argument("--weights", type=int, default=175_000, help="of the model; CGIPool's paper form on NCI1")
    options = parser.parse_args()
    options.sizes = np.arange(5, 56)
    if options.what == "measure":
        measure(options.file, sorted(options.graphs))
    else:
        simulate(options.file, options)


if __name__ == "__main__":
    main()
