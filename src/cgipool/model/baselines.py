"""Controls outside the network, and the one place where a method's name becomes a model.

Shapes: C positions, B graphs, d width.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.data.batch import Batch
from cgipool.model.layers import InputLinear, InputSize
from cgipool.model.network import Head, Model, Network, Output


class StructureFree(Model):
    """head(relu(Σ_nodes x W + b)): the sum of the input features and a perceptron, 2d wide, then the shared head."""

    def __init__(self, inputs: InputSize, classes: int, *, width: int = 128, dropout: float = 0.5) -> None:
        super().__init__(dropout)
        self.linear = InputLinear(inputs, 2 * width)
        self.linear.reset(1.0 / max(inputs.width, 1) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(2 * width))
        self.head = Head(2 * width, width, classes)

    def forward(self, batch: Batch) -> Output:
        """Edges are not looked at."""
        total = ops.sums(self.linear(batch), batch.alive.unsqueeze(1), batch.graph, batch.slot_ptr).squeeze(1)
        hidden = F.relu(total + self.bias)
        logits = self.head(hidden, batch.key, self.dropout)
        return Output(logits, logits.new_zeros(()), {}, hidden)


class Majority(Model):
    """The shares of the classes among the training graphs, for every graph."""

    log_shares: Tensor

    def __init__(self, shares: Sequence[float]) -> None:
        super().__init__()
        tiny = torch.finfo(torch.float32).tiny  # a class that training never shows
        self.register_buffer("log_shares", torch.tensor(shares, dtype=torch.float32).clamp(min=tiny).log())

    def forward(self, batch: Batch) -> Output:
        """Graphs are not looked at."""
        logits = self.log_shares.expand(len(batch.y), -1)
        return Output(logits, logits.new_zeros(()), {}, logits)


def build_model(method: str, inputs: InputSize, shares: Sequence[float], **settings: Any) -> Model:
    """The model of a method: `shares` are those of the classes among the training graphs, `settings` what `Network`
    takes."""
    if method == "majority":
        return Majority(shares)
    if method == "structure-free":
        return StructureFree(inputs, len(shares), width=settings["width"], dropout=settings["dropout"])
    return Network(inputs, len(shares), method=method, **settings)
