"""The processes of a run started with `torchrun`: how they connect, and how they exchange data."""

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from cgipool.data.fetch import Progress as Download
from cgipool.data.graphs import GraphSet
from cgipool.data.sources import load_dataset
from cgipool.data.splits import Split
from cgipool.errors import UserError, counted

LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that torchrun sets for each process."""

BEGUN, REFUSED = "cgipool/begun", "cgipool/refused"
"""Keys in torchrun's store: the run's folder is ready; an error was reported that a restart would repeat."""

ANSWER = timedelta(seconds=30)
"""Timeout for torchrun's store."""

PATIENCE = timedelta(hours=2)
"""How long processes wait for each other: the first reads the whole data set before the others start."""


def launched() -> bool:
    """Whether torchrun or a similar launcher started this process."""
    return all(name in os.environ for name in LAUNCHED)


def is_first() -> bool:
    """Whether this is the process that writes files and prints."""
    return int(os.environ.get("RANK", "0")) == 0


class Abandoned(UserError):
    """Another process of the run has ended."""


class Lives:
    """What restarted processes know about the processes before them, from the store that torchrun keeps.

    Some rendezvous backends (etcd) keep no store; with these only the number of restarts is known.
    """

    def __init__(self) -> None:
        kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
        self._store = next(iter(dist.rendezvous("env://", timeout=ANSWER)))[0] if kept else None
        self._restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0

    @property
    def begun(self) -> bool:
        """Whether earlier processes prepared the run's folder, so that it holds this run."""
        return self._restarted if self._store is None else self._store.check([BEGUN])

    def note_begun(self) -> None:
        """Record that the run's folder is ready."""
        self._note(BEGUN)

    @property
    def refused(self) -> bool:
        """Whether an error was reported that this restart would repeat."""
        try:
            return self._store is not None and self._store.check([REFUSED])
        except dist.DistError:  # torchrun itself has ended
            return False

    def note_refused(self) -> None:
        """Record that a UserError is about to be reported."""
        with contextlib.suppress(dist.DistError):
            self._note(REFUSED)

    def _note(self, key: str) -> None:
        if self._store is not None:
            self._store.set(key, "")


class Ranks:
    """The processes of a run, as seen by one of them. Messages between them go through the CPU."""

    def __init__(self, device: str) -> None:
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.first = self.rank == 0
        local = int(os.environ["LOCAL_RANK"])
        self.first_here = local == 0
        """Whether this is the first process on its machine."""
        self.device = f"{device}:{local}" if device == "cuda" else device

    def total(self, values: Tensor) -> Tensor:
        """Return the sum over all processes, on the CPU."""
        whole = values.detach().cpu().clone()
        dist.all_reduce(whole)
        return whole

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over all processes on the same device, with the gradient of the losses of all processes."""
        return _Sum.apply(values)

    def any(self, here: bool) -> bool:
        """Whether the condition holds on any process."""
        return bool(self.total(torch.tensor(float(here))) > 0)

    def bytes_of_first(self, content: bytes) -> bytes:
        """Return the bytes that the first process passes; the others' are ignored."""
        length = torch.tensor(len(content))
        dist.broadcast(length, 0)
        if not int(length):
            return b""
        held = torch.frombuffer(bytearray(content if self.first else int(length)), dtype=torch.uint8)
        dist.broadcast(held, 0)
        return held.numpy().tobytes()

    def of_first(self, work: Callable[[], Any]) -> Any:
        """Call `work` on the first process only and return its result, in plain values, on all."""
        content = json.dumps(work(), allow_nan=False).encode() if self.first else b""
        return json.loads(self.bytes_of_first(content))

    def open(self, data: str | Path, progress: Download | None = None) -> GraphSet:
        """Load a data set, mapped from disk if possible. It is downloaded or parsed at most once on each machine."""
        mine = load_dataset(data, mmap=True, progress=progress) if self.first_here else None
        self.any(False)  # the others wait
        return load_dataset(data, mmap=True) if mine is None else mine

    def splits_of_first(self, work: Callable[[], Sequence[Split]]) -> list[Split]:
        """Call `work` on the first process only and return its splits on all."""
        drawn = work() if self.first else []
        heads = self.of_first(lambda: [[s.index, len(s.train), len(s.val), len(s.test)] for s in drawn])
        splits = []
        for number, (index, *lengths) in enumerate(heads):
            sides = [drawn[number].train, drawn[number].val, drawn[number].test] if self.first else [np.zeros(0)]
            ids = np.frombuffer(self.bytes_of_first(np.concatenate(sides).tobytes()), np.int64).copy()
            splits.append(Split(index, *np.split(ids, np.cumsum(lengths)[:2])))
        return splits

    def hand_out(self, folder: Path, *names: str) -> None:
        """Copy files from the first process's folder, if they exist, to the folders of the others."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            path = folder / name
            exists = self.of_first(path.exists)
            content = self.bytes_of_first(path.read_bytes() if self.first and exists else b"")
            if exists and not self.first:
                path.write_bytes(content)


class _Sum(torch.autograd.Function):
    """The sum over all processes. Each process's values affect the losses of all, so gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        whole = values.clone()
        dist.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        whole = gradient.clone()
        dist.all_reduce(whole)
        return whole


@contextlib.contextmanager
def process_group(device: str) -> Iterator[Ranks]:
    """Connect the processes that torchrun started; with CUDA each uses its own GPU."""
    if device not in ("cpu", "cuda"):
        raise UserError(f"--distributed needs --device cpu, or cuda with one GPU for each process, not {device!r}")
    if device == "cuda":
        local, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= gpus:
            raise UserError(f"this machine has {counted(gpus, 'GPU')}, none for process {local}; start fewer processes")
        torch.cuda.set_device(local)
    store, rank, count = next(iter(dist.rendezvous("env://", timeout=PATIENCE)))
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=_fresh(store, rank, count), rank=rank, world_size=count, timeout=PATIENCE)
    try:
        yield Ranks(device)
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or any(sign in str(error) for sign in ("gloo", "NCCL")):
            raise Abandoned("another process of the run has ended, and this one cannot continue without it") from error
        raise
    finally:
        # To release the last tensors, gloo's threads need the interpreter lock. Destroying the group waits for these
        # threads while holding the lock, so give them time first.
        time.sleep(0.1)
        dist.destroy_process_group()


def _fresh(store: dist.Store, rank: int, count: int) -> dist.Store:
    """Return a part of the store that only these processes use.

    Torchrun keeps the store when it restarts processes, so they could connect to earlier ones, and it does not number
    the restarts equally on all machines. So each process draws a random name, and the first process answers every
    caller until all have received their answer.
    """
    mine = uuid.uuid4().hex
    if rank > 0:
        store.set(f"calls/{rank}", mine)
        first = store.get(f"answers/{mine}").decode()
        store.set(f"heard/{first}/{rank}", "")
        return dist.PrefixStore(first, store)
    silent, deadline = set(range(1, count)), time.monotonic() + PATIENCE.total_seconds()
    while silent:
        for other in silent:
            if store.check([f"calls/{other}"]):
                store.set(f"answers/{store.get(f'calls/{other}').decode()}", mine)
        silent = {other for other in silent if not store.check([f"heard/{mine}/{other}"])}
        if time.monotonic() > deadline:
            raise UserError(f"{len(silent)} of {count} processes did not start")
        time.sleep(0.02)
    return dist.PrefixStore(mine, store)
