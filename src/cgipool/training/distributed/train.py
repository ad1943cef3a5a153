"""Training of one model by several processes, on one machine or many, started with `torchrun`.

Every step uses the same batch of graphs in the same order as the loop in one process. Each process reads only its part,
with about equally many nodes. Losses, draws and diagnostics of the parts add up to those of the whole batch (see
shares.py), so the training equals that of one process up to rounding. Only the first process keeps the run's folder;
the others use a temporary one.
"""

import contextlib
import copy
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from cgipool.data.computed import writing
from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.data.splits import Split, check_graphs, check_splits
from cgipool.errors import UserError
from cgipool.model.norm import BatchNorm
from cgipool.pool import is_own
from cgipool.training.distributed.process_group import Lives, Ranks
from cgipool.training.distributed.shares import PartialLoss, Shares, check_alone
from cgipool.training.evaluate import NODES_PER_BATCH, Evaluation, combined, pieces
from cgipool.training.folder import CHECKPOINT, METRICS, finish_run, identity_of, prepare, run_folder, split_folder
from cgipool.training.initial import fit_encoder
from cgipool.training.job import EVALUATION, STEP, Job, Progress, ProgressCallback
from cgipool.training.loop import Training, train_split
from cgipool.training.objective import check_task, weights_of
from cgipool.training.presets import resolve_recipe
from cgipool.training.reading import check_edges, has_edge_features
from cgipool.training.recipe import Recipe
from cgipool.training.result import Result
from cgipool.training.run import matrix_precision, waiting

SHUTDOWN_SECONDS = 30
"""How long torchrun waits for a process to stop, unless TORCH_ELASTIC_SHUTDOWN_TIMEOUT is set."""

LOOK_STEPS = 16
"""Steps between two checks for a stop request, which all processes must make together."""


class StopSignal:
    """Records whether Ctrl-C or SIGTERM asked this process to stop, and how much longer it may run.

    Training finishes its epoch, so that no work is lost, unless that takes longer than torchrun waits.
    """

    def __init__(self) -> None:
        self.requested = math.inf
        """Time of the request on the monotonic clock."""
        self.grace = 2 / 3 * float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SHUTDOWN_SECONDS))

    def note(self, number: int, frame: Any) -> None:
        """Handle a signal; torchrun may pass on several."""
        self.requested = min(self.requested, time.monotonic())

    @property
    def due(self) -> bool:
        """Whether there is no time to finish the epoch."""
        return time.monotonic() - self.requested > self.grace

    @contextlib.contextmanager
    def by_signals(self) -> Iterator[None]:
        """Record signals in this context. If a stop was requested and another process has ended, end as well."""
        before = {number: signal.signal(number, self.note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        except RuntimeError as error:
            if self.requested < math.inf:
                raise KeyboardInterrupt from error
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class DistributedTraining(Training):
    """Training of one split by all processes."""

    def __init__(self, job: Job, graphs: GraphSet, ranks: Ranks, stop: StopSignal) -> None:
        self.ranks, self.stop, self.steps = ranks, stop, 0
        super().__init__(job, graphs)
        self.shares = self._divided(ranks.rank, ranks.count, ranks.sum)
        self.parallel = None if self.state.optimizer is None else self._parallel()

    def _encoder(self, graphs: GraphSet) -> Encoder:
        """Return the encoder fitted by the first process, because fitting reads all training graphs."""
        return Encoder.from_json(self.ranks.of_first(lambda: fit_encoder(self.job, graphs).to_json()))

    def _divided(self, process: int, processes: int, total: Callable[[Tensor], Tensor]) -> Shares:
        graphs = self.batcher.graphs
        weight = self.sample_weight
        return Shares(graphs, self.constants, self.recipe, self.job.method, process, processes, total, weight)

    def _parallel(self) -> DistributedDataParallel:
        """Return the network with its loss, wrapped so that the gradients of all processes are averaged.

        A trial on the smallest and the largest graph comes first. It checks that a custom pool gives two processes the
        same loss as one. It also finds weights without a gradient, for example those of a loss that is skipped because
        its weight is 0. The trial runs in this process alone, so batch norm, which needs all processes, uses its
        running statistics.
        """
        weight, recipe, train = self.sample_weight, self.recipe, self.job.split.train
        settings = recipe.label_smoothing, weight, recipe.focal
        part = PartialLoss(self.state.network, self.task, self.constants, *settings)
        trial = copy.deepcopy(part).train()  # running statistics would remember it
        for norm in (module for module in trial.modules() if isinstance(module, BatchNorm)):
            norm.eval()
        counting = train if weight is None else train[weight.cpu().numpy()[train] > 0]
        ids = counting[np.argsort(self.batcher.graphs.sizes[counting])[[0, -1]]]

        def loss(process: int, processes: int, own_weight: float) -> Tensor:
            shares = self._divided(process, processes, lambda sums: sums)
            return trial(shares.batch(self.batcher, ids, self.job.key(STEP)), own_weight)

        if is_own(self.job.method):
            self._check_sum(loss(0, 1, 1.0), loss(0, 2, 1.0) + loss(1, 2, 1.0))
        least = min(map(self.own_weight, range(1, self.recipe.epochs + 1)))
        reached = torch.autograd.grad(loss(0, 1, least), list(trial.parameters()), allow_unused=True)
        return DistributedDataParallel(part, find_unused_parameters=any(gradient is None for gradient in reached))

    def _check_sum(self, whole: Tensor, parts: Tensor) -> None:
        if not torch.isclose(whole, parts, rtol=1e-3, atol=1e-5):
            raise UserError(
                f"{self.job.method} cannot train --distributed: its losses are not means over graphs, or its output "
                "for a graph depends on the other graphs of the batch"
            )

    def step(self, ids: np.ndarray, key: int, own_weight: float) -> Tensor:
        """Compute the gradients of one batch's loss on every process and return this process's contribution to it."""
        assert self.parallel is not None, "no trainable weights"
        self.steps += 1
        if self.steps % LOOK_STEPS == 0 and self.ranks.any(self.stop.due):
            raise KeyboardInterrupt
        loss = self.parallel(self.shares.batch(self.batcher, ids, key), own_weight)
        self.state.network.zero_grad(set_to_none=True)
        (loss * self.ranks.count).backward()  # DistributedDataParallel takes the mean of the gradients
        return loss.detach()

    def whole_losses(self, losses: Tensor) -> Tensor:
        """[steps] the losses of whole batches."""
        return self.ranks.total(losses)

    def ask_validation(self) -> Evaluation:
        """Evaluate the network on the validation graphs."""
        return self._ask(self.job.split.val)

    def ask_test(self) -> Evaluation:
        """Evaluate the network on the test graphs."""
        return self._ask(self.job.split.test)

    @torch.no_grad()
    def _ask(self, ids: np.ndarray) -> Evaluation:
        """Evaluate this process's part of each batch and return the outputs of all processes."""
        network, graphs = self.state.eval_state.eval(), self.batcher.graphs
        logits = torch.zeros(len(ids), self.task.outputs)
        outputs, weight = [], []
        for piece in pieces(graphs.sizes[ids], NODES_PER_BATCH):
            batch = self.shares.batch(self.batcher, ids[piece], self.job.key(EVALUATION))
            output, share = network(batch), batch.share
            if not share.idle:
                logits[piece.start + torch.from_numpy(share.place)] = output.logits.cpu()
            outputs.append(output._replace(embedding=output.logits))  # embeddings of all graphs would take much memory
            weight.append(share.graphs)
        part = combined(outputs, weight)
        whole = self.ranks.total(logits).to(self.job.device)
        own_loss = self.ranks.total(torch.tensor(part.own_loss, dtype=torch.float64)).item()
        metrics = {
            name: self.ranks.total(torch.tensor(levels, dtype=torch.float64)).tolist()
            for name, levels in part.metrics.items()
        }
        return Evaluation(whole, own_loss, metrics)

    def validate(self) -> tuple[dict[str, float], Evaluation]:
        """Return the first process's values on all processes, so that all stop in the same epoch."""
        scores, answer = super().validate()
        found = np.frombuffer(self.ranks.bytes_of_first(np.array(list(scores.values())).tobytes()))
        return dict(zip(scores, found.tolist(), strict=True)), answer

    def save(self) -> None:
        """Write a checkpoint on the first process."""
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
    sample_weight: ArrayLike | str | None = None,
    tell: ProgressCallback = lambda progress: None,
) -> Result | None:
    """Train a method on splits of a data set, one after another, each split with all processes.

    Return the result on the first process and None on the others. Only the first process writes the folder `out` and
    calls `tell`. Processes restarted by torchrun resume the run in `out` that the earlier processes started.
    """
    chosen = resolve_recipe(recipe, {})(graphs.family, graphs.has_own_attributes, graphs.directed)
    check_graphs(graphs)
    check_splits(splits, graphs.n_graphs)
    check_alone(graphs.sizes, chosen, method)
    check_edges([method], chosen, has_edge_features(graphs))
    check_task(graphs, chosen, splits)
    weight = weights_of(graphs, sample_weight, splits)
    with run_folder(out if ranks.first else None) as folder:
        if ranks.first:
            identity = identity_of(graphs, method, chosen, seed, splits, ranks.device, tf32, weight)
            lives = Lives()
            prepare(folder, identity, splits, resume or lives.begun, overwrite and not lives.begun)
            lives.note_begun()
        trainings = [
            Job(method, chosen, split, seed, ranks.device, split_folder(folder, split.index), sample_weight=weight)
            for split in splits
        ]
        began = time.perf_counter()
        unfinished = ranks.of_first(lambda: [job.split.index for job in waiting(trainings, tell)])
        stop = StopSignal()

        def report_progress(progress: Progress) -> None:
            if ranks.first:
                tell(progress)
            if ranks.any(stop.requested < math.inf):
                raise KeyboardInterrupt

        with matrix_precision(tf32), writing(), stop.by_signals():
            for job in (job for job in trainings if job.split.index in unfinished):
                ranks.hand_out(job.folder, CHECKPOINT, METRICS)
                train_split(job, graphs, report_progress, partial(DistributedTraining, ranks=ranks, stop=stop))
        if not ranks.first:
            return None
        return finish_run(folder, graphs, trainings, time.perf_counter() - began)
