"""The authors' trained weights in our network.

Their file names its parameters conv1.lin_l.weight, pool1.pp_conv.lin_r.weight and so on; lin_l acts on the neighbours'
aggregate, lin_r on the node itself. Inputs are one-hot labels, or degrees where a set has no labels, with a column for
every value of the whole data set.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from cgipool.data.batch import Batcher
from cgipool.data.features import Encoder
from cgipool.data.graphs import GraphSet
from cgipool.errors import UserError
from cgipool.model.build import build_network
from cgipool.model.layers import InputSize
from cgipool.model.network import Network
from cgipool.training.evaluate import chunks


class ReleasedModel:
    """A network of the released form with the authors' weights."""

    def __init__(self, network: Network, columns: int) -> None:
        self.network = network.eval()
        self.columns = columns

    def __call__(self, graphs: GraphSet, kept: Sequence[np.ndarray] | None = None) -> Tensor:
        """[G, classes] log-probabilities of all graphs of the set, in its order.

        The set must be the whole data set that the weights were trained on, as its values name the input columns. A
        given `kept` imposes the kept nodes: for each level a boolean array over the nodes of the set.
        """
        encoder = Encoder.fit(graphs, vocabulary="all")
        if encoder.columns != self.columns:
            raise UserError(
                f"the weights have {self.columns} input columns, but {graphs.name} has {encoder.columns} different "
                f"{encoder.source}s; give the whole data set that the weights were trained on"
            )
        batcher = Batcher(graphs, encoder.encode(graphs))
        answers, first = [], 0
        with torch.no_grad():
            for batch in chunks(batcher, np.arange(graphs.n_graphs)):
                last = first + len(batch.graph)
                keep = [torch.from_numpy(k[first:last].astype(np.float32)) for k in kept] if kept is not None else None
                answers.append(torch.log_softmax(self.network(batch, keep).logits, 1))
                first = last
        return torch.cat(answers)

    log_probabilities = __call__


def load_released(path: str | Path, ratio: float | int = 0.8) -> ReleasedModel:
    """The model of a weights file with the authors' parameter names (.safetensors, or a state_dict saved by torch)."""
    theirs = _read(Path(path))
    try:
        ours = _renamed(theirs)
        columns, width = ours["convs.0.root.weight"].shape
        classes = len(ours["head.2.bias"])
        network = build_network(InputSize(columns), classes, form="released", conv="sage", width=width, ratio=ratio)
        network.load_state_dict(ours)
    except KeyError as error:
        raise UserError(f"{path} is not a file of released CGIPool weights: no parameter {error}") from None
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} does not match the released CGIPool: {reason}") from None
    return ReleasedModel(network, columns)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        safe = path.suffix == ".safetensors"
        weights = load_file(path) if safe else torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # what torch.load raises on foreign bytes depends on the bytes
        raise UserError(f"{path} is not a weights file: {' '.join(str(error).split())}") from None
    if not (isinstance(weights, dict) and all(isinstance(value, Tensor) for value in weights.values())):
        raise UserError(f"{path} is not a weights file: it does not hold named parameters")
    return weights


def _renamed(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their parameters under our names."""
    ours: dict[str, Tensor] = {}

    def convolution(name: str, *sources: str, transposed: bool = False) -> None:
        parts = {"neighbors.weight": "lin_l.weight", "bias": "lin_l.bias", "root.weight": "lin_r.weight"}
        for mine, their in parts.items():
            joined = torch.cat([theirs[f"{source}.{their}"] for source in sources])
            ours[f"{name}.{mine}"] = joined.T.contiguous() if transposed and joined.dim() == 2 else joined

    def linear(name: str, source: str) -> None:
        for part in ("weight", "bias"):
            ours[f"{name}.{part}"] = theirs[f"{source}.{part}"]

    for i in range(3):
        pool = f"pool{i + 1}"
        convolution(f"convs.{i}", f"conv{i + 1}", transposed=i == 0)
        convolution(f"pools.{i}.hidden", f"{pool}.transform", f"{pool}.pp_conv", f"{pool}.np_conv")
        convolution(f"pools.{i}.score_r", f"{pool}.positive_pooling")
        convolution(f"pools.{i}.score_f", f"{pool}.negative_pooling")
        linear(f"pools.{i}.discriminator.0", f"{pool}.discriminator.fc1")
        linear(f"pools.{i}.discriminator.2", f"{pool}.discriminator.fc2")
        linear(f"head.{i}", f"linear{i + 1}")
    return ours
