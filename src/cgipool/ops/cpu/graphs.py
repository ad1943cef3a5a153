"""Maximum, sum and softmax over each graph. Shapes: see `cgipool.ops.cpu`."""

import torch
from torch import Tensor

from cgipool.ops.cpu.bags import bags


def readout(x: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Maximum and sum over each graph's living nodes, [C, F] → twice [B, F]; 0 for a graph without any."""
    graphs = len(slot_ptr) - 1
    nowhere = torch.where(alive > 0, graph, graphs)  # the dead go to a row that is cut off
    top = x.new_full((graphs + 1, x.shape[1]), -torch.inf)
    top.scatter_reduce_(0, nowhere.unsqueeze(1).expand_as(x), x, "amax")
    top = top[:-1].masked_fill(top[:-1] == -torch.inf, 0.0)
    return top, bags(x, torch.arange(len(x), device=x.device), slot_ptr, alive)


def readout_grad(
    grad_top: Tensor, grad_sum: Tensor, x: Tensor, top: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor
) -> Tensor:
    """Gradient of `readout` by x. Nodes that attain the maximum share its gradient equally, so that it is permutation
    equivariant."""
    grad = top.index_select(0, graph)
    torch.eq(x, grad, out=grad)  # 1.0 where the maximum is attained; with floats out, the vectorised kernel
    count = bags(grad, torch.arange(len(x), device=x.device), slot_ptr, alive).clamp_(min=1.0)
    share = (grad_top / count).index_select(0, graph)  # reused below: fresh memory costs more than the arithmetic
    grad.mul_(share).add_(torch.index_select(grad_sum, 0, graph, out=share))
    return grad.mul_(alive.unsqueeze(1))


def softmax(score: Tensor, alive: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """The softmax of each column over the living nodes of each graph, 0 at the dead; [C, M] → [C, M]."""
    living = alive.unsqueeze(1) > 0
    top = score.new_full((len(slot_ptr) - 1, score.shape[1]), -torch.inf)
    top.scatter_reduce_(0, graph.unsqueeze(1).expand_as(score), score.masked_fill(~living, -torch.inf), "amax")
    power = (score - top.index_select(0, graph)).exp_().masked_fill_(~living, 0.0)
    return power / _totals(power, graph, slot_ptr).clamp_(min=torch.finfo(score.dtype).tiny)


def softmax_grad(grad: Tensor, soft: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Gradient of `softmax` by its score, from its result."""
    return soft * (grad - _totals(soft * grad, graph, slot_ptr))


def _totals(x: Tensor, graph: Tensor, slot_ptr: Tensor) -> Tensor:
    """Each position gets the sum over its graph."""
    return bags(x, torch.arange(len(x), device=x.device), slot_ptr).index_select(0, graph)
