"""Training of one split by a classical method: features and a model of scikit-learn in place of a network.

The run's folder holds the same files as for a network. The log has one epoch, which is the fit, with the settings that
the validation graphs chose; the weights are the arrays of the fitted model.
"""

import time
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cgipool.classical import MODELS, Examples, Fitted
from cgipool.data.batch import target_columns
from cgipool.data.graphs import GraphSet
from cgipool.task.base import Task, Truth
from cgipool.task.registry import task_of
from cgipool.training.folder import METRICS, SplitOutcome, finish_split, tested
from cgipool.training.initial import fit_encoder, write_encoder
from cgipool.training.job import INIT, Job, ProgressCallback, finished
from cgipool.training.labels import labelled_graphs
from cgipool.training.result import Log

NOT_READ = {
    "attributes": False, "wl": 0, "rwse": 0, "lappe": 0, "descriptors": "", "rdkit_descriptors": False,
    "fingerprints": 0,
}  # fmt: skip
"""Inputs that only networks read."""


def train_classical(job: Job, graphs: GraphSet, tell: ProgressCallback) -> None:
    """Train one split and write its files."""
    began = time.perf_counter()
    job.folder.mkdir(parents=True, exist_ok=True)
    encoder = fit_encoder(replace(job, recipe=job.recipe.but(**NOT_READ)), graphs)
    write_encoder(job.folder, encoder)
    model, task, split = MODELS[job.method], task_of(graphs), job.split
    fitted = model.fit(examples_of(job, graphs, task, labels=encoder.source != "degree"))
    tensors = {name: torch.from_numpy(np.array(values)) for name, values in fitted.arrays.items()}
    answers = model.predict(fitted.arrays, graphs, task)
    train_loss, val_loss = (_loss(task, job, graphs, ids, answers) for ids in (labelled_graphs(job, graphs), split.val))
    val = task.evaluate(task.targets(graphs, split.val), answers[split.val])
    names = dict.fromkeys((task.primary, *(() if job.recipe.stop_by == "loss" else (job.recipe.stop_by,))))
    seconds = time.perf_counter() - began

    log = Log(job.folder / METRICS)
    log.cut_back_to(0)
    losses = {"train_loss": train_loss, "val_loss": val_loss, **{f"val_{name}": val[name] for name in names}}
    log.append({"epoch": 1} | losses | {"seconds": seconds} | {name: [value] for name, value in fitted.choice.items()})
    test = answers[split.test]
    metrics = tested(job, task, graphs, test)
    size = _size(fitted)
    finish_split(job, tensors, SplitOutcome(size, 1, 1, val_loss, metrics, test), log, time.perf_counter() - began)
    tell(finished(job, 1, val_loss, 1))


def examples_of(job: Job, graphs: GraphSet, task: Task, labels: bool) -> Examples:
    """The training data and settings for a job's method."""
    recipe, split = job.recipe, job.split
    return Examples(
        graphs,
        labelled_graphs(job, graphs),
        split.val,
        task,
        labels=labels,
        edge_labels=recipe.kernel_edges,
        class_weight=recipe.class_weight,
        sample_weight=job.sample_weight,
        seed=job.key(INIT) & 0x7FFFFFFF,
    )


def _size(fitted: Fitted) -> int:
    """The number of learned parameters."""
    return sum(
        values.size for name, values in fitted.arrays.items() if name in ("weight", "bias", "value", "threshold")
    )


def _loss(task: Task, job: Job, graphs: GraphSet, ids: np.ndarray, answers: np.ndarray) -> float:
    """The task's loss, which for a network is what early stopping watches; a probability of 0 counts as 1e-6."""
    constants = task.constants(graphs, labelled_graphs(job, graphs), job.recipe.class_weight)
    output = _output(task, torch.from_numpy(answers[ids]), constants)
    truth = Truth(torch.from_numpy(graphs.y[ids]), torch.from_numpy(target_columns(graphs)[ids]))
    weight = torch.ones(len(ids)) if job.sample_weight is None else torch.from_numpy(job.sample_weight[ids])
    return float(task.loss(output.float(), truth, constants, weight))


def _output(task: Task, answers: Tensor, constants: Tensor) -> Tensor:
    """[n, O] the outputs that a network would have for these predictions."""
    if task.name == "regression":
        return (answers - constants[0]) / constants[1]
    return answers.clamp(1e-6, 1.0 - 1e-6).logit() if task.name == "multilabel" else answers.clamp(min=1e-6).log()
