"""Set2Set: "Order Matters: Sequence to Sequence for Sets" (Vinyals, Bengio, Kudlur; ICLR 2016), as a readout of graphs.

For each graph, from q*_0 = 0, T times:

    q_t   = LSTM(q*_{t−1})
    a     = softmax over the nodes i of x_i · q_t
    r_t   = Σ_i a_i x_i
    q*_t  = [q_t ‖ r_t]

Shapes: C positions, B graphs, d features, L levels.
"""

import math

import torch
from torch import Tensor, nn

from cgipool.model.level import Level
from cgipool.model.readout import JUMPINGS, Levels, jumping_named


class Attention(nn.Module):
    """q*_T of one level, [B, 2d]. The LSTM is written out because `nn.LSTM` has no rule for `vmap`. Its weights have
    the layout and initialisation of `nn.LSTM`: input, forget, cell and output gate."""

    def __init__(self, dim: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        bound = 1.0 / math.sqrt(dim)
        self.weight_ih = nn.Parameter(torch.empty(4 * dim, 2 * dim).uniform_(-bound, bound))
        self.weight_hh = nn.Parameter(torch.empty(4 * dim, dim).uniform_(-bound, bound))
        self.bias_ih = nn.Parameter(torch.empty(4 * dim).uniform_(-bound, bound))
        self.bias_hh = nn.Parameter(torch.empty(4 * dim).uniform_(-bound, bound))

    def forward(self, x: Tensor, level: Level) -> Tensor:
        """Read out a level; x is [C, d], the result [B, 2d]."""
        graphs, dim = len(level.sizes), x.shape[1]
        q, cell, read = (x.new_zeros(graphs, dim) for _ in range(3))
        for _ in range(self.steps):
            gates = torch.cat([q, read], 1) @ self.weight_ih.T + self.bias_ih + q @ self.weight_hh.T + self.bias_hh
            enter, forget, new, out = gates.split(dim, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
            q = torch.sigmoid(out) * torch.tanh(cell)
            a = level.softmax(level.dots(x, q).unsqueeze(1))
            read = level.sums(x, a).squeeze(1)
        return torch.cat([q, read], 1)


class Set2Set(nn.Module):
    """One Set2Set for each level of a network without pooling, combined like the backbone's readouts.

    T = 3 steps, as in PyG's examples; the CGIPool paper does not state it.
    """

    def __init__(self, dim: int, levels: int = 3, steps: int = 3, jumping: str = "sum") -> None:
        super().__init__()
        self.jumping = jumping_named(jumping)
        self.width = 2 * dim * (levels if jumping == "concat" else 1)
        self.steps = steps
        self.attention = nn.ModuleList(Attention(dim, steps) for _ in range(levels))

    def forward(self, levels: Levels) -> Tensor:
        """[B, width]."""
        each = [attend(x, level) for attend, (x, level) in zip(self.attention, levels, strict=True)]
        return JUMPINGS[self.jumping](each)

    def extra_repr(self) -> str:
        """Shown in the module's repr."""
        return f"steps={self.steps}"
