"""Builds a model from the name of a method and plain settings: the shared network, or a baseline without it.

Building draws initial weights, so the order of the parts affects them: convolutions, pools, readout, head.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.data.batch import Batch
from cgipool.errors import unknown
from cgipool.model.layers import CONVOLUTIONS, InputLinear, InputSize, Width, convolution
from cgipool.model.level import GATES
from cgipool.model.network import Head, Model, Network, Output, with_descriptors
from cgipool.model.norm import NORMS
from cgipool.model.readout import ReadoutsSideBySide, SumOfReadouts, jumping_named
from cgipool.pool import Sizes, is_own, method_named


class StructureFree(Model):
    """head(relu(Σ_nodes x W + b)): the summed input features, a layer of width 2d, then the shared head."""

    def __init__(self, inputs: InputSize, classes: int, *, width: int = 128, dropout: float = 0.5) -> None:
        super().__init__(dropout)
        self.linear = InputLinear(inputs, 2 * width)
        self.linear.reset(1.0 / max(inputs.width, 1) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(2 * width))
        self.head = Head(2 * width + inputs.descriptors, width, classes)

    def forward(self, batch: Batch) -> Output:
        """Return the output for a batch; edges are ignored."""
        total = ops.sums(self.linear(batch), batch.alive.unsqueeze(1), batch.graph, batch.slot_ptr).squeeze(1)
        hidden = with_descriptors(F.relu(total + self.bias), batch)
        logits = self.head(hidden, batch.key, self.dropout, batch.share)
        return Output(logits, logits.new_zeros(()), {}, hidden)


class Constant(Model):
    """The same outputs for every graph: for classification, the log-probabilities of the classes."""

    log_shares: Tensor
    """[O] the outputs. The name is that of earlier versions, so that their files can be read."""

    def __init__(self, outputs: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_shares", outputs)

    def forward(self, batch: Batch) -> Output:
        """Return the output for a batch; graphs are ignored."""
        logits = self.log_shares.expand(len(batch.y), -1)
        return Output(logits, logits.new_zeros(()), {}, logits)


def build_network(
    inputs: InputSize,
    outputs: int,
    *,
    method: str = "cgi",
    form: str = "paper",
    conv: str = "gcn",
    norm: str = "none",
    gate: str = "plain",
    width: int = 128,
    levels: int = 3,
    convs_per_level: int = 1,
    residual: bool = False,
    directed: bool = False,
    readout: str = "max-mean",
    jumping: str = "sum",
    ratio: float | int = 0.8,
    dropout: float = 0.5,
    mi: str = "gan",
    negative: str = "learned",
    encoding: str = "plain",
    sizes: Sizes | None = None,
) -> Network:
    """Build the shared network with a method's pools.

    A method that is a global readout (Set2Set, DGCNN) replaces the readout. Convolutions before batch norm have no
    bias, because batch norm has its own.
    """
    for noun, name, known in (
        ("convolution", conv, CONVOLUTIONS),
        ("normalisation", norm, NORMS),
        ("gate", gate, GATES),
    ):
        if name not in known:
            raise unknown(noun, name, known)
    chosen = method_named(method)
    offered = {"dim": width, "ratio": ratio, "levels": levels, "mi": mi, "sizes": sizes}
    if not is_own(method):  # an own pool may use these names for other arguments
        offered |= {"negative": negative, "encoding": encoding, "outputs": outputs}
    depth = levels * convs_per_level
    widths: list[Width] = [inputs] + [width] * (depth - 1)
    convs = [convolution(conv, w, width, norm != "batch", inputs.edges, directed) for w in widths]
    pools = [chosen.pool(form, site=site, **offered) for site in range(levels)]
    own: Any = chosen.readout(**offered, jumping=jumping_named(jumping))
    read = own or _readout(width, readout, jumping, levels)
    normalise = NORMS[norm]
    norms: list[nn.Module] = [] if normalise is None else [normalise(width) for _ in range(depth)]
    head = Head(read.width + inputs.descriptors, width, outputs)
    return Network(convs, pools, read, head, norms, residual=residual, directed=directed, gate=gate, dropout=dropout)


def _readout(width: int, kind: str, jumping: str, levels: int) -> SumOfReadouts:
    return ReadoutsSideBySide(width, kind, levels) if jumping == "concat" else SumOfReadouts(width, kind)


def build_model(method: str, inputs: InputSize, constant: Tensor, **settings: Any) -> Model:
    """Build the model of a method. `constant` is the output of the baseline that ignores graphs; its length is the
    number of outputs. `settings` are the arguments of `build_network`."""
    architecture = method_named(method).architecture
    if architecture == "constant":
        return Constant(constant)
    if architecture == "sum":
        return StructureFree(inputs, len(constant), width=settings["width"], dropout=settings["dropout"])
    return build_network(inputs, len(constant), method=method, **settings)
