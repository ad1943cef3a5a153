"""`python benchmarks/sizes.py`: time and memory of a training step against the size of graphs, for every method.

    python benchmarks/sizes.py [--methods METHOD …] [--nodes 30 100 …] [--total 30000] [--seconds 300] [--json FILE]
                               [--figure FILE] [--device cuda] | --draw JSON --figure FILE

A batch has the same number of nodes in all, be they a thousand graphs of 30 nodes or one of 30,000: rings with as many
random chords as nodes (4 edges at a node on average), one label, the paper's settings. A step is batch, forward,
backward and Adam of one split, captured; its time is the median of several. Memory is the most that tensors took during
a step, beside the data set. What does not fit into memory is left out, as is everything once --seconds are over; sizes
grow in the outer loop, so that what is measured is comparable. Peers whose matrices grow with the square of a graph's
nodes show it here.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from cgipool.data import GraphSet
from cgipool.data.splits import Split
from cgipool.pool import METHODS
from cgipool.training.job import Job
from cgipool.training.presets import PAPER
from cgipool.training.stacked.group import Group
from cgipool.training.stacked.stack import Program
from gpu_measures import timed, wait

SHOWN = ("cgi", "topk", "sag", "asap", "vip", "diffpool", "mincut", "set2set", "dgcnn", "none")
NODES = (30, 100, 300, 1000, 3000, 10_000, 30_000)
STEPS = 5
COLOURS = ("#d55e00", "#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#000000", "#999999", "#e69f00", "#8c6bb1", "#bdbdbd")
MARKS = "oss^vDDPX."


def rings(nodes: int, total: int) -> GraphSet:
    """Graphs of so many nodes each: rings with chords."""
    generator, graphs = np.random.default_rng(nodes), max(1, total // nodes)
    place = np.tile(np.arange(nodes), graphs)
    first = np.repeat(np.arange(graphs) * nodes, nodes)
    source = np.concatenate([first + place, first + place])
    target = np.concatenate([first + (place + 1) % nodes, first + generator.integers(0, nodes, graphs * nodes)])
    labels = generator.integers(0, 20, (graphs * nodes, 1)).astype(np.int32)
    return GraphSet.from_edges(
        f"rings-{nodes}",
        [nodes] * graphs,
        source,
        target,
        np.arange(graphs) % 2,
        class_names=("0", "1"),
        category=labels,
        category_names=(tuple(map(str, range(20))),),
    )


def measure(method: str, nodes: int, total: int, device: str) -> dict:
    """Seconds and MiB of a step."""
    graphs = rings(nodes, total)
    every = np.arange(graphs.n_graphs)
    recipe = PAPER.but(epochs=1, batch_size=graphs.n_graphs)
    group = Group([Job(method, recipe, Split(0, every, every[:1], every[:1]), 0, device, Path("unused"))], graphs)
    group._mode(group._begin)
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    group._mode(group._step)
    wait(device)
    used = torch.cuda.max_memory_allocated() - before if device == "cuda" else 0
    group.step_number.zero_()
    step = Program(partial(group._mode, group._step), torch.device(device))

    def again() -> None:
        group.step_number.zero_()
        step()

    seconds = timed(again, device, STEPS, 1)
    return {"method": method, "nodes": nodes, "graphs": graphs.n_graphs, "seconds": seconds, "MiB": used / 2**20}


def measure_all(options: argparse.Namespace) -> list[dict]:
    rows: list[dict] = []
    began = time.monotonic()
    for nodes in options.nodes:
        for method in options.methods:
            if time.monotonic() - began > options.seconds:
                print(f"no time left for {method} with {nodes} nodes", flush=True)
                continue
            try:
                rows.append(measure(method, nodes, options.total, options.device))
                print("{nodes:6} nodes  {method:10} {seconds:9.5f} s {MiB:9.1f} MiB".format(**rows[-1]), flush=True)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                print(f"{nodes:6} nodes  {method:10} {str(error).splitlines()[0][:90]}", flush=True)
            if options.device == "cuda":
                torch.cuda.empty_cache()
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def draw(rows: list[dict], path: Path) -> None:
    """Two panels, time and memory, both axes logarithmic."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, value, scale, label in zip(
        panels, ("seconds", "MiB"), (1e3, 1.0), ("milliseconds of a step", "MiB of a step"), strict=True
    ):
        for number, method in enumerate(SHOWN):
            points = [(row["nodes"], row[value] * scale) for row in rows if row["method"] == method]
            if points:
                panel.plot(
                    *zip(*points, strict=True),
                    marker=MARKS[number],
                    markersize=4,
                    color=COLOURS[number],
                    linewidth=2.2 if method == "cgi" else 1.2,
                    label=METHODS[method].title,
                )
        panel.set(xscale="log", yscale="log", xlabel="nodes of a graph (30,000 in all)", ylabel=label)
        panel.grid(alpha=0.25, linewidth=0.5)
        panel.spines[["top", "right"]].set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=SHOWN, metavar="METHOD")
    parser.add_argument("--nodes", nargs="+", type=int, default=NODES, metavar="N", help="nodes of a graph")
    parser.add_argument("--total", type=int, default=30_000, help="nodes of a batch (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=300, help="start nothing after so many (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured to this file")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw it into this file")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw what was measured before; measure nothing")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default: %(default)s")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    rows = json.loads(options.draw.read_text()) if options.draw else measure_all(options)
    if options.figure:
        draw(rows, options.figure)


if __name__ == "__main__":
    main()
