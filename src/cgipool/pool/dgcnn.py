"""DGCNN: "An End-to-End Deep Learning Architecture for Graph Classification" (Zhang, Cui, Neumann, Chen; AAAI 2018).

    rows         Z = [X_1 ‖ … ‖ X_L ‖ c], the outputs of all convolutions and the key c = tanh(GCN(X_L)), one channel
    sorting      the rows by descending c, cut off or padded with zeros to k rows
    reading      Conv1d over each row (16 channels), ReLU, max over pairs of rows, Conv1d over 5 (32 channels), ReLU,
                 linear, ReLU

Shapes: C positions, B graphs, d features, L levels, k rows.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgipool import ops
from cgipool.model.layers import GCN
from cgipool.model.level import Level
from cgipool.model.readout import Levels
from cgipool.pool.base import Sizes, sizes_for

LEAST, WINDOW = 10, 5
"""k is at least 10, as in the authors' code, so the second convolution has at least one window."""


class DGCNN(nn.Module):
    """Sorts the nodes of a network without pooling and reads them as a sequence, [B, 2d].

    k is the smallest size that 60 % of the training graphs do not exceed, as in the authors' code (which uses 90 % on
    IMDB-BINARY, IMDB-MULTI and COLLAB). Their code has D̃⁻¹(A + I) and a tanh in every convolution; here the
    convolutions are the backbone's GCN and ReLU. A ReLU channel would have ties at 0, so the key has its own
    convolution with a tanh. The convolutions over rows are written as matrix products. The last linear layer has 2d
    outputs, the input of the shared head.
    """

    def __init__(self, dim: int, levels: int = 3, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.width = 2 * dim
        self.rows = max(LEAST, sizes_for("dgcnn", sizes).percentile60)
        self.key = GCN(dim, 1)
        self.first = nn.Linear(levels * dim + 1, 16)
        self.second = nn.Linear(WINDOW * 16, 32)
        self.last = nn.Linear((self.rows // 2 - WINDOW + 1) * 32, self.width)

    def forward(self, levels: Levels) -> Tensor:
        """[B, 2d]."""
        x, level = levels[-1]
        key = torch.tanh(self.key(x, level))
        z = torch.cat([*(x for x, _ in levels), key], 1)
        row = F.relu(self.first(self._sorted(z, key.squeeze(1), level)))
        pair = row[:, : self.rows // 2 * 2].unflatten(1, (-1, 2)).amax(2)
        window = pair.unfold(1, WINDOW, 1).flatten(2)  # [B, k/2 − 4, 16 · 5], as Conv1d reads it: channel by channel
        return F.relu(self.last(F.relu(self.second(window)).mT.flatten(1)))

    def _sorted(self, z: Tensor, key: Tensor, level: Level) -> Tensor:
        """[B, k, F] the rows of each graph by descending key, padded with zeros."""
        if len(z) == 0:
            return z.new_zeros(len(level.sizes), self.rows, z.shape[1])
        order, place = level.order(key)
        rank = torch.arange(self.rows, device=z.device)
        at = (level.slot_ptr[:-1].unsqueeze(1) + rank).clamp(max=len(order) - 1)
        index = torch.where(rank < level.sizes.unsqueeze(1), order[at], -1)
        rank_of = place - level.slot_ptr[level.graph]
        back = torch.where((rank_of < self.rows) & (level.alive > 0), level.graph * self.rows + rank_of, -1)
        return ops.pick(z, index.flatten(), back).unflatten(0, index.shape)

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"rows={self.rows}"
