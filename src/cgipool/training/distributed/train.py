"""One model trained by several processes, on one machine or many, as `torchrun` starts them.

Every step is the plain trainer's: the same batch of graphs in the same order, of which each process takes a part of
about equally many nodes and reads nothing else. Losses, draws and diagnostics of the parts add up to those of the whole
batch (see shares.py), so the training is that of one process but for rounding. The first process alone keeps the run's
folder; the others have a temporary one.
"""

import contextlib
import copy
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, check_graphs, check_splits
from cgipool.errors import UserError
from cgipool.files import write_json
from cgipool.model.norm import BatchNorm
from cgipool.pool.own import is_own
from cgipool.training.distributed.process_group import Lives, Ranks
from cgipool.training.distributed.shares import Part, Shares, check_alone, part_of
from cgipool.training.evaluate import NODES_PER_BATCH, Evaluation, combined, pieces
from cgipool.training.folder import CHECKPOINT, METRICS
from cgipool.training.initial import fit_encoder
from cgipool.training.job import EVALUATION, STEP, Job, Progress, ProgressCallback
from cgipool.training.loop import Training, train_split
from cgipool.training.metrics import classes_of
from cgipool.training.recipe import Recipe, recipe_named
from cgipool.training.result import Result, read_row
from cgipool.training.run import identity_of, matrix_precision, prepare, run_folder, split_folder, waiting

SHUTDOWN_SECONDS = 30
"""How long torchrun waits for a process that it told to stop, unless TORCH_ELASTIC_SHUTDOWN_TIMEOUT says otherwise."""

LOOK_STEPS = 16
"""How many steps lie between two looks at whether a process was told to stop: all must look together."""


class Stop:
    """Whether this process was told to stop, by Ctrl-C or SIGTERM, and for how long it may still go on.

    A training ends its epoch, so that nothing is lost, unless that takes longer than torchrun waits.
    """

    def __init__(self) -> None:
        self.asked = math.inf
        """When, by the monotonic clock."""
        self.grace = 2 / 3 * float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SHUTDOWN_SECONDS))

    def note(self, number: int, frame: Any) -> None:
        """What a signal calls; torchrun may pass on several."""
        self.asked = min(self.asked, time.monotonic())

    @property
    def due(self) -> bool:
        """Whether the epoch cannot be waited for."""
        return time.monotonic() - self.asked > self.grace

    @contextlib.contextmanager
    def by_signals(self) -> Iterator[None]:
        """Inside, signals are noted; where another process ended at once on its own, so does this."""
        before = {number: signal.signal(number, self.note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        except RuntimeError as error:
            if self.asked < math.inf:
                raise KeyboardInterrupt from error
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class DistributedTraining(Training):
    """The training of one split by all processes."""

    def __init__(self, task: Job, graphs: GraphSet, ranks: Ranks, stop: Stop) -> None:
        self.ranks, self.stop, self.steps = ranks, stop, 0
        super().__init__(task, graphs)
        self.shares = self._divided(ranks.rank, ranks.count)
        self.parallel = None if self.state.optimizer is None else self._parallel()

    def _encoder(self, graphs: GraphSet) -> Encoder:
        """Fitted by the first process, as all training graphs are read for it."""
        return Encoder.from_json(self.ranks.of_first(lambda: fit_encoder(self.task, graphs).to_json()))

    def _divided(self, process: int, processes: int) -> Shares:
        graphs = self.batcher.graphs
        return Shares(graphs, self.class_weight, self.recipe, self.task.method, process, processes)

    def _parallel(self) -> DistributedDataParallel:
        """The network with its loss, so that the gradients of all processes are averaged.

        Tried on the smallest and the largest graph first: a class of the user's own must give two processes what it
        gives one, and it must be known whether there are weights that no gradient reaches, as those of a loss that is
        left out because its weight is 0. That is tried in this process alone, without batch norm's statistics, in
        which all have to take part.
        """
        part = Part(self.state.network, self.class_weight, self.recipe.label_smoothing, self.ranks.sum)
        trial = copy.deepcopy(part).train()  # running statistics would remember it
        for norm in (module for module in trial.modules() if isinstance(module, BatchNorm)):
            norm.eval()
        ids = self.task.split.train[np.argsort(self.batcher.graphs.sizes[self.task.split.train])[[0, -1]]]

        def loss(process: int, processes: int, own_weight: float) -> Tensor:
            share = self._divided(process, processes).of(ids)
            return trial(self.batcher.batch(share.ids, self.task.key(STEP)), share, own_weight)

        if is_own(self.task.method):
            self._check_sum(loss(0, 1, 1.0), loss(0, 2, 1.0) + loss(1, 2, 1.0))
        least = min(map(self.own_weight, range(1, self.recipe.epochs + 1)))
        reached = torch.autograd.grad(loss(0, 1, least), list(trial.parameters()), allow_unused=True)
        return DistributedDataParallel(part, find_unused_parameters=any(gradient is None for gradient in reached))

    def _check_sum(self, whole: Tensor, parts: Tensor) -> None:
        if not torch.isclose(whole, parts, rtol=1e-3, atol=1e-5):
            raise UserError(
                f"{self.task.method} cannot train --distributed: its losses are not means over graphs, or its output "
                "for a graph depends on the other graphs of the batch"
            )

    def step(self, ids: np.ndarray, key: int, own_weight: float) -> Tensor:
        """The gradients of the loss of one batch, on every process; what this process's part adds to the loss."""
        assert self.parallel is not None, "nothing to learn"
        self.steps += 1
        if self.steps % LOOK_STEPS == 0 and self.ranks.any(self.stop.due):
            raise KeyboardInterrupt
        share = self.shares.of(ids)
        loss = self.parallel(self.batcher.batch(share.ids, key), share, own_weight)
        self.state.network.zero_grad(set_to_none=True)
        (loss * self.ranks.count).backward()  # the mean of the processes' gradients is taken
        return loss.detach()

    def whole_losses(self, losses: Tensor) -> Tensor:
        """[steps] the losses of whole batches."""
        return self.ranks.total(losses)

    def ask_validation(self) -> Evaluation:
        """What the network says of the validation graphs."""
        return self._ask(self.task.split.val)

    def ask_test(self) -> Evaluation:
        """What the network says of the test graphs."""
        return self._ask(self.task.split.test)

    @torch.no_grad()
    def _ask(self, ids: np.ndarray) -> Evaluation:
        """Each process asks about its part of the plain trainer's batches; all get the whole answer."""
        network, graphs = self.state.eval_state.eval(), self.batcher.graphs
        logits = torch.zeros(len(ids), graphs.n_classes)
        outputs, weight = [], []
        for piece in pieces(graphs.sizes[ids], NODES_PER_BATCH):
            share = self.shares.of(ids[piece])
            with part_of(network, share):
                output = network(self.batcher.batch(share.ids, self.task.key(EVALUATION)))
            if not share.idle:
                logits[piece.start + torch.from_numpy(share.place)] = output.logits.cpu()
            outputs.append(output._replace(embedding=output.logits))  # of all graphs they would be many
            weight.append(share.graphs)
        part = combined(outputs, weight)
        whole = self.ranks.total(logits).to(self.task.device)
        own_loss = self.ranks.total(torch.tensor(part.own_loss, dtype=torch.float64)).item()
        metrics = {
            name: self.ranks.total(torch.tensor(levels, dtype=torch.float64)).tolist()
            for name, levels in part.metrics.items()
        }
        return Evaluation(whole, own_loss, metrics)

    def validate(self) -> tuple[float, float, Evaluation]:
        """As the first process finds it: where training stops, all must stop."""
        loss, accuracy, answer = super().validate()
        found = np.frombuffer(self.ranks.bytes_of_first(np.array([loss, accuracy]).tobytes()))
        return float(found[0]), float(found[1]), answer

    def save(self) -> None:
        """Write a checkpoint, on the first process."""
        if self.ranks.first:
            super().save()


def train_distributed(
    graphs: GraphSet,
    ranks: Ranks,
    *,
    splits: Sequence[Split],
    method: str = "cgi",
    recipe: str | Recipe = "paper",
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    tf32: bool = True,
    tell: ProgressCallback = lambda progress: None,
) -> Result | None:
    """Train a method on splits of a data set, one after another, each by all processes.

    The result, for the first process, and None for the others. The first alone writes the folder `out` and tells
    `tell`. Processes that torchrun has started anew go on with the run in `out` that those before them began.
    """
    chosen = recipe_named(recipe, graphs.family)
    check_graphs(graphs)
    check_splits(splits, graphs.n_graphs)
    check_alone(graphs.sizes, chosen, method)
    with run_folder(out if ranks.first else None) as folder:
        if ranks.first:
            identity = identity_of(graphs, method, chosen, seed, splits, ranks.device, tf32)
            lives = Lives()
            prepare(folder, identity, splits, resume or lives.begun, overwrite and not lives.begun)
            lives.note_begun()
        tasks = [Job(method, chosen, split, seed, ranks.device, split_folder(folder, split.index)) for split in splits]
        began = time.perf_counter()
        left = ranks.of_first(lambda: [task.split.index for task in waiting(tasks, tell)])
        stop = Stop()

        def told(progress: Progress) -> None:
            if ranks.first:
                tell(progress)
            if ranks.any(stop.asked < math.inf):
                raise KeyboardInterrupt

        with matrix_precision(tf32), stop.by_signals():
            for task in (task for task in tasks if task.split.index in left):
                ranks.hand_out(task.folder, CHECKPOINT, METRICS)
                train_split(task, graphs, told, partial(DistributedTraining, ranks=ranks, stop=stop))
        if not ranks.first:
            return None
        rows = [read_row(task.folder) for task in tasks]
        seconds = time.perf_counter() - began
        result = Result(
            graphs.name, method, chosen.name, chosen.changes(), seed, seconds, rows, classes=classes_of(graphs)
        )
        write_json(folder / "result.json", result.to_json())
        return result
