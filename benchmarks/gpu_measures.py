"""What gpu.py measures, each in a process of its own, which tells it as lines of JSON.

python benchmarks/gpu_measures.py '["ceilings", {"device": "cuda"}]'
"""

import json
import math
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import peer
from cgipool.data import load_dataset, random_splits
from cgipool.training.job import Job
from cgipool.training.presets import PAPER
from cgipool.training.stacked.group import Group
from cgipool.training.stacked.host import alike
from cpu import DATA

WARM_UP, PART_EPOCHS, PEER_EPOCHS, PROFILED_STEPS, COSTLIEST = 2, 3, 5, 4, 20
FLOAT = 4
"""Bytes of a float32, and of a neighbour's number."""


def mark(device: str) -> Any:
    """A point in the device's work."""
    if device == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(start: Any, end: Any) -> float:
    """Seconds from one mark to another. Waits for the latter."""
    if isinstance(start, float):
        return end - start
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(run: Callable[[], Any], device: str, times: int = 20, warm_up: int = 5) -> float:
    """Median seconds of a call."""
    spans = []
    for _ in range(warm_up + times):
        start = mark(device)
        run()
        spans.append(between(start, mark(device)))
    return statistics.median(spans[warm_up:])


def measure_ceilings(device: str) -> Iterator[dict]:
    """The card's name, bytes a second (read and written) of a large copy, FLOPs a second of a large TF32 product."""
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    yield {"card": name, "torch": torch.__version__}
    numbers, side = (2**28, 8192) if device == "cuda" else (2**22, 256)
    source = torch.randn(numbers, device=device)
    target = torch.empty_like(source)
    copy = timed(lambda: target.copy_(source), device)
    a, b = torch.randn(2, side, side, device=device)
    out = torch.empty_like(a)
    product = timed(lambda: torch.mm(a, b, out=out), device)
    yield {"bytes": 2 * FLOAT * numbers / copy, "flops": 2 * side**3 / product}


def measure_ours(name: str, method: str, splits: int, epochs: int, device: str) -> Iterator[dict]:
    """One cell with the engine. Results are written at once, so that they are kept if something fails later."""
    graphs = load_dataset(DATA / f"{name}.zip")
    drawn = random_splits(graphs, seed=0, indices=range(splits))
    start = time.perf_counter()
    groups = alike([Job(method, PAPER, split, 0, device, Path("unused")) for split in drawn], graphs)
    group = Group(max(groups, key=len), graphs)
    wait(device)
    yield {"splits": len(group.trainings), "groups": len(groups), "build": time.perf_counter() - start}
    start = time.perf_counter()
    group.set_dropout(1)
    group.capture()
    wait(device)
    yield {"capture": time.perf_counter() - start}
    yield run_epochs(group, epochs, device)
    yield time_parts(group, device)
    yield mean_batch(group)
    if device == "cuda":
        yield launches(group)


def run_epochs(group: Group, epochs: int, device: str) -> dict:
    """Seconds of an epoch, the losses after the last, and the memory until then."""
    seconds = []
    for epoch in range(1, WARM_UP + epochs + 1):
        wait(device)
        start = time.perf_counter()
        group.run_epoch(epoch)
        wait(device)
        seconds.append(time.perf_counter() - start)
    last = [rows[0] for rows in group.read_history(range(WARM_UP + epochs, WARM_UP + epochs + 1))]
    train_loss, val_loss = (statistics.fmean(row[key] for row in last) for key in ("train_loss", "val_loss"))
    if not (math.isfinite(train_loss) and math.isfinite(val_loss)):
        raise ArithmeticError(f"the loss is not finite: training {train_loss}, validation {val_loss}")
    result = {"epoch": statistics.median(seconds[WARM_UP:]), "train_loss": train_loss, "val_loss": val_loss}
    return result | memory(device)


def memory(device: str) -> dict:
    """The most MiB that tensors took since the process began, and the most that was reserved for them."""
    if device == "cpu":
        return {}
    return {"memory": torch.cuda.max_memory_allocated() / 2**20, "reserved": torch.cuda.max_memory_reserved() / 2**20}


def time_parts(group: Group, device: str) -> dict:
    """Seconds of a step and of an epoch's end, and their shares of the epoch."""
    begins, steps, ends = [], [], []
    for _ in range(PART_EPOCHS):
        marks = [mark(device)]
        group.programs["begin"]()
        marks.append(mark(device))
        for _ in range(group.steps):
            group.programs["step"]()
        marks.append(mark(device))
        group.programs["end"]()
        marks.append(mark(device))
        for part, (start, end) in zip((begins, steps, ends), pairwise(marks), strict=True):
            part.append(between(start, end))
    begin, step, end = map(statistics.median, (begins, steps, ends))
    whole = begin + step + end
    return {
        "steps": group.steps,
        "begin": begin,
        "step": step / group.steps,
        "end": end,
        "step_share": step / whole,
        "end_share": end / whole,
    }


def mean_batch(group: Group) -> dict:
    """What a split's step has to work on, on average, and the positions that it has room for."""
    count = len(group.train) * group.steps
    nodes, entries = (float(table[group.train].sum()) / count for table in (group.data.size, group.data.edges))
    graphs = group.train.numel() / count
    return {"nodes": nodes, "entries": entries, "graphs": graphs, "positions": group.room.positions}


def launches(group: Group) -> dict:
    """Kernels of a step: how many, and the costliest with calls and microseconds."""
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities):  # the first use of the profiler sets it up
        group.programs["begin"]()
        torch.cuda.synchronize()
    steps = min(group.steps, PROFILED_STEPS)
    with profile(activities=activities) as recorded:
        for _ in range(steps):
            group.programs["step"]()
        torch.cuda.synchronize()
    calls: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for event in recorded.events():
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation:
            calls[event.name] += 1
            spent[event.name] += event.time_range.elapsed_us()
    copies = sum(count for name, count in calls.items() if name.startswith(("Memcpy", "Memset")))
    if not calls:
        raise RuntimeError("the profiler saw no kernels")
    return {
        "launches": (calls.total() - copies) / steps,
        "copies": copies / steps,
        "busy": spent.total() / steps / 1e6,
        "kernels": [[name, calls[name] / steps, us / steps] for name, us in spent.most_common(COSTLIEST)],
    }


def measure_peer(name: str, method: str, device: str, root: str) -> Iterator[dict]:
    """One split's training epoch with stock PyG. What TUDataset made is kept in the root for the next method."""
    torch.manual_seed(0)
    processed = Path(root, name, "processed").exists()
    dataset = peer.build(name, Path(root)) if processed else peer.load_peer(DATA / f"{name}.zip", Path(root))
    epoch = peer.make_epoch(dataset, method, device)
    seconds = []
    for _ in range(1 + PEER_EPOCHS):
        wait(device)
        start = time.perf_counter()
        loss = epoch()
        wait(device)
        seconds.append(time.perf_counter() - start)
    yield {"epoch": statistics.median(seconds[1:]), "train_loss": loss} | memory(device)


MEASURES = {"ceilings": measure_ceilings, "ours": measure_ours, "peer": measure_peer}


def serve(what: str, arguments: dict) -> None:
    """In a process of its own: after every part of a measurement, all that is known, as a line of JSON."""
    torch.backends.cuda.matmul.allow_tf32 = True
    answer: dict = {}
    try:
        for part in MEASURES[what](**arguments):
            answer |= part
            print(json.dumps(answer), flush=True)
    except Exception as error:
        first = (str(error).strip() or "no message").splitlines()[0]
        answer |= {"error": f"{type(error).__name__}: {first}", "traceback": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(*json.loads(sys.argv[1]))
