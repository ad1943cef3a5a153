"""What a training starts with: the encoder of the input features, and the model with its initial weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, excerpt
from cgipool.files import read_json, sealed, unsealed, write_json
from cgipool.model.build import build_model, build_network
from cgipool.model.layers import InputSize
from cgipool.model.network import Model
from cgipool.pool import Sizes, method_named
from cgipool.pool.method import accepted_by
from cgipool.task.base import Task
from cgipool.task.registry import task_of
from cgipool.training.job import INIT, Job
from cgipool.training.labels import labelled_graphs
from cgipool.training.recipe import Recipe

ENCODER = "encoder.json"
"""In a split's folder."""


def reads_edges(recipe: Recipe, method: str) -> bool:
    """Whether a method reads edge data: through its convolution, or in its kernel."""
    chosen = method_named(method)
    if chosen.classical:
        return recipe.kernel_edges and chosen.reads("kernel_edges")
    return recipe.reads_edges and chosen.reads("conv")


def fit_encoder(job: Job, graphs: GraphSet) -> Encoder:
    """Fit the encoder of the input features on the split's training graphs. A continued training keeps its own."""
    if job.start is not None:
        return job.start.encoder
    recipe = job.recipe
    return Encoder.fit(
        graphs,
        job.split.train,
        source=recipe.features,
        vocabulary=recipe.vocabulary,
        attributes=recipe.attributes,
        edges=recipe.reads_edges and method_named(job.method).reads("conv"),
        wl=recipe.wl,
        rwse=recipe.rwse,
        lappe=recipe.lappe,
        featurizer=recipe.featurizer,
        descriptors=recipe.descriptor_columns,
        impute=recipe.impute,
        rdkit_descriptors=recipe.rdkit_descriptors,
        fingerprints=recipe.fingerprints,
    )


def write_encoder(folder: Path, encoder: Encoder) -> None:
    """Write the encoder to the folder of a split, with its digest."""
    write_json(folder / ENCODER, sealed(encoder.to_json()))


def read_encoder(folder: Path) -> Encoder:
    """Read the encoder from the folder of a split. Raise UserError if the file is damaged."""
    path = folder / ENCODER
    held = read_json(path)
    try:
        plain = unsealed(held)
        if unexpected := sorted(plain.keys() - Encoder.__dataclass_fields__.keys()):
            raise ValueError(f"it has an unknown entry {excerpt(unexpected[0])!r}")
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged: {excerpt(str(error))}; remove {folder} to train again") from None
    return Encoder.from_json(plain)


class Prepared(NamedTuple):
    """A job with the encoder and the model that its training starts with."""

    job: Job
    encoder: Encoder
    model: Model


def prepared(job: Job, graphs: GraphSet, encoder: Encoder | None = None) -> Prepared:
    """Fit the encoder, unless given, and build the model. Initial weights depend only on (seed, split, member), or are
    those of the model that the job continues."""
    encoder = encoder or fit_encoder(job, graphs)
    train = job.split.train
    task, start = task_of(graphs), job.start
    baseline = start.baseline if start else task.baseline(graphs, labelled_graphs(job, graphs), job.sample_weight)
    sizes = start.sizes if start else Sizes.of(graphs.sizes[train])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.key(INIT))
        model = model_of(job.method, job.recipe, encoder, task, baseline, sizes)
    if start is not None:
        model.load_state_dict(start.weights[job.member])
    model.check(graphs)
    static = job.stacked and method_named(job.method).fast
    model.compact = torch.device(job.device).type == "cpu" or not static
    return Prepared(job, encoder, model.to(job.device))


def constants_of(job: Job, graphs: GraphSet) -> Tensor:
    """The task's constants of a split's training graphs. A continued training keeps the scaling of its targets."""
    if job.start is not None and job.start.scaling:
        return torch.tensor(job.start.scaling, dtype=torch.float32)
    return task_of(graphs).constants(graphs, labelled_graphs(job, graphs), job.recipe.class_weight)


def model_of(
    method: str, recipe: Recipe, encoder: Encoder, task: Task, baseline: Sequence[float], sizes: Sizes
) -> Model:
    """The model of a method with a recipe's settings. Baseline and sizes are those of the training graphs."""
    settings = accepted_by(build_network, recipe.to_json())
    constant = task.baseline_output(torch.tensor(baseline, dtype=torch.float32))
    return build_model(method, input_size(encoder), constant, sizes=sizes, **settings)


def input_size(encoder: Encoder) -> InputSize:
    """The size of an encoder's output, which is the model's input."""
    of_edges = encoder.edges
    edges = None if of_edges is None else InputSize(of_edges.columns, of_edges.n_floats, of_edges.others)
    descriptors = 0 if encoder.descriptors is None else encoder.descriptors.width
    return InputSize(encoder.columns, encoder.n_floats, encoder.others, edges, descriptors)
