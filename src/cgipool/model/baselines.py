"""Baselines that do not use the shared network.

Shapes: C positions, B graphs, d width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.data.batch import Batch
from cgipool.model.layers import InputLinear, InputSize
from cgipool.model.network import Head, Model, Output, with_descriptors


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
    """[O] the outputs; files of earlier versions have them under this name."""

    def __init__(self, outputs: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_shares", outputs)

    def forward(self, batch: Batch) -> Output:
        """Return the output for a batch; graphs are ignored."""
        logits = self.log_shares.expand(len(batch.y), -1)
        return Output(logits, logits.new_zeros(()), {}, logits)
