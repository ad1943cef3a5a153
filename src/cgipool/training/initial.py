"""What a training begins with: the encoder of the input features, and the model with its initial weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError, excerpt
from cgipool.files import read_json, sealed, unsealed, write_json
from cgipool.model.baselines import build_model
from cgipool.model.layers import InputSize
from cgipool.model.network import Model
from cgipool.pool import Sizes, method_named
from cgipool.training.job import INIT, Job
from cgipool.training.recipe import Recipe

ENCODER = "encoder.json"
"""In a split's folder."""


def fit_encoder(task: Job, graphs: GraphSet) -> Encoder:
    """The encoder of the input features, fitted on the split's training graphs."""
    recipe = task.recipe
    return Encoder.fit(
        graphs,
        task.split.train,
        source=recipe.features,
        vocabulary=recipe.vocabulary,
        attributes=recipe.attributes,
    )


def write_encoder(folder: Path, encoder: Encoder) -> None:
    """Keep the encoder in the folder of a split, with its digest."""
    write_json(folder / ENCODER, sealed(encoder.to_json()))


def read_encoder(folder: Path) -> Encoder:
    """The encoder in the folder of a split; damage is an error that says what to do."""
    path = folder / ENCODER
    held = read_json(path)
    try:
        plain = unsealed(held)
        if strange := sorted(plain.keys() - Encoder.__dataclass_fields__.keys()):
            raise ValueError(f"it has an unknown entry {excerpt(strange[0])!r}")
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged: {excerpt(str(error))}; remove {folder} to train again") from None
    return Encoder.from_json(plain)


def initial_model(task: Job, graphs: GraphSet, encoder: Encoder) -> Model:
    """The model with its initial weights, which depend on (seed, split, member) alone."""
    train = task.split.train
    shares = class_shares(graphs, train, task.sample_weight)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.key(INIT))
        model = model_of(task.method, task.recipe, encoder, shares.tolist(), Sizes.of(graphs.sizes[train]))
    static = task.stacked and method_named(task.method).fast
    model.compact = torch.device(task.device).type == "cpu" or not static
    return model.to(task.device)


def class_shares(graphs: GraphSet, ids: np.ndarray, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """[classes] the share of each class among these graphs, by weight where they have weights [G]."""
    if sample_weight is None:
        return np.bincount(graphs.y[ids], minlength=graphs.n_classes) / len(ids)
    weight = sample_weight[ids].astype(np.float64)
    return np.bincount(graphs.y[ids], weight, minlength=graphs.n_classes) / weight.sum()


def model_of(method: str, recipe: Recipe, encoder: Encoder, shares: Sequence[float], sizes: Sizes) -> Model:
    """The model of a method with a recipe's settings; shares of classes and sizes are those of the training graphs."""
    return build_model(
        method,
        InputSize(encoder.columns, encoder.n_floats, encoder.others),
        shares,
        form=recipe.form,
        conv=recipe.conv,
        norm=recipe.norm,
        gate=recipe.gate,
        width=recipe.width,
        levels=recipe.levels,
        readout=recipe.readout,
        jumping=recipe.jumping,
        ratio=recipe.ratio,
        dropout=recipe.dropout,
        mi=recipe.mi,
        sizes=sizes,
    )
