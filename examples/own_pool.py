"""Your own pooling method, which adds the degree to a learned score: check it against the contract, then train it."""

import torch
from torch import nn

from cgipool import load_dataset, train
from cgipool.contract import check_method
from cgipool.model.level import Level
from cgipool.pool.base import Pooled


class HubPool(nn.Module):
    """Keeps nodes by score = w · x + a · degree, gated by its sigmoid."""

    def __init__(self, dim: int, ratio: float = 0.8) -> None:
        super().__init__()
        self.ratio = ratio
        self.linear = nn.Linear(dim + 1, 1)

    def forward(self, x: torch.Tensor, level: Level) -> Pooled:
        k = level.kept(self.ratio)
        score = self.linear(torch.cat([x, level.degree.unsqueeze(1)], 1))
        keep = level.select(score, k).squeeze(1)
        x, coarse = level.coarsen(x, torch.sigmoid(score).squeeze(1), keep, k)
        return Pooled(x, coarse, scores={"score": score.squeeze(1)})


if __name__ == "__main__":
    for finding in check_method("own_pool:HubPool"):
        print(f"{finding.rule:24} {finding.message}")
    result = train(load_dataset("motifs"), method="own_pool:HubPool", epochs=5, width=32)
    print("test accuracy", result.test_accuracy)
