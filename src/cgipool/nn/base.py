"""The result of a layer. Shapes: N nodes, E' remaining edges, F features, K kept nodes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from cgipool.errors import UserError, counted
from cgipool.model.level import check_ratio
from cgipool.nn.edges import KeptLevel, PyGEdges, PyGLevel, numbering
from cgipool.pool import Pooled


class PyGOutput(NamedTuple):
    """The results of PyG's layers, in PyG's order."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    perm: Tensor
    score: Tensor


class More:
    """The further attributes of an output."""

    def __init__(self, aux_loss: Any, scores: Any, metrics: Any) -> None:
        self.aux_loss, self.scores, self.metrics = aux_loss, scores, metrics


class PoolingOutput(tuple[Any, ...]):
    """A coarsened graph. It unpacks like PyG's six results and has three further attributes.

    Torch may rebuild it from its six parts, for example for a backward hook. While the first output exists, the rebuilt
    one is recognised by the memory address of `perm` and gets the same attributes. (It is not a NamedTuple, because
    torch would not see the loss of a NamedTuple.)
    """

    _more: More | None

    def __new__(cls, *six: Any) -> "PoolingOutput":
        """From six parts, or from one iterable with them, like a tuple."""
        parts = PyGOutput(*(six if len(six) != 1 else six[0]))
        output = super().__new__(cls, parts)
        output._more = _known.get(_address(parts.perm))
        return output

    @property
    def x(self) -> Tensor:
        """[K, F] gated features of the kept nodes."""
        return self[0]

    @property
    def edge_index(self) -> Tensor:
        """[2, E'] the edges between kept nodes, renumbered."""
        return self[1]

    @property
    def edge_attr(self) -> Tensor | None:
        """[E', …] attributes of these edges."""
        return self[2]

    @property
    def batch(self) -> Tensor:
        """[K] the graph of each kept node."""
        return self[3]

    @property
    def perm(self) -> Tensor:
        """[K] the original number of each kept node: graph by graph, by descending score within each graph."""
        return self[4]

    @property
    def score(self) -> Tensor:
        """[K] the factor by which the features of each kept node were multiplied."""
        return self[5]

    @property
    def aux_loss(self) -> Tensor:
        """The method's own loss, a scalar; 0 for a method without one."""
        return self._known_more().aux_loss

    @property
    def scores(self) -> Mapping[str, Tensor]:
        """[N] the scores of all nodes, by their names in the method's paper."""
        return self._known_more().scores

    @property
    def metrics(self) -> Mapping[str, Tensor]:
        """Diagnostics of the training, scalars by name. Filled in evaluation mode only."""
        return self._known_more().metrics

    def _known_more(self) -> More:
        if self._more is None:
            raise AttributeError("this output was rebuilt from copies of its six parts, without its loss and scores")
        return self._more

    def __repr__(self) -> str:
        parts = {**PyGOutput(*self)._asdict(), **(vars(self._more) if self._more else {})}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in parts.items())})"

    def _replace(self, **parts: Any) -> "PoolingOutput":
        """Return a copy with other parts."""
        return _with_more(PyGOutput(*self)._replace(**parts), self._more)


_known: "WeakValueDictionary[int | None, More]" = WeakValueDictionary()
"""The attributes of existing outputs, by the address of perm."""


def output_of(
    six: PyGOutput, aux_loss: Tensor, scores: Mapping[str, Tensor], metrics: Mapping[str, Tensor]
) -> PoolingOutput:
    """The result of a layer."""
    more = More(aux_loss, scores, metrics)
    if (address := _address(six.perm)) is not None:
        _known[address] = more
    return _with_more(six, more)


def _address(perm: Any) -> int | None:
    """Return the memory address of perm; None if it is empty or unknown."""
    try:
        return perm.data_ptr() or None
    except (AttributeError, RuntimeError):  # inside transformations of torch.func
        return None


def _with_more(six: Iterable[Any], more: More | None) -> PoolingOutput:
    output = PoolingOutput(*six)
    output._more = more
    return output


def _flatten(output: PoolingOutput) -> tuple[list[Any], bool]:
    more = output._more
    return [*output, *([] if more is None else [more.aux_loss, more.scores, more.metrics])], more is not None


def _unflatten(leaves: Iterable[Any], whole: Any) -> PoolingOutput:
    parts = list(leaves)
    return _with_more(parts[:6], More(*parts[6:]) if whole else None)


_pytree.register_pytree_node(PoolingOutput, _flatten, _unflatten, serialized_type_name="cgipool.nn.PoolingOutput")


class PoolingLayer(nn.Module):
    """A pool as a layer with PyG's interface."""

    weighted = False
    """Whether edge_attr is used as the weights [E] of the edges; otherwise it is only passed on."""

    def __init__(self, in_channels: int, build: Callable[[], nn.Module], attends: bool = True) -> None:
        super().__init__()
        self.in_channels = in_channels
        self._build = build
        self._attends = attends
        self.pool = build()

    @property
    def ratio(self) -> float | int:
        """The share or number of nodes to keep."""
        return self.pool.ratio  # type: ignore[return-value]

    @ratio.setter
    def ratio(self, value: float | int) -> None:
        self.pool.ratio = check_ratio(value)  # type: ignore[assignment]

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        self.pool.load_state_dict(self._build().state_dict())

    # A compiled model calls the layer uncompiled: tracing would break at every shape that depends on the data.
    @torch.compiler.disable(reason="how many nodes and edges stay follows from the data")
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
    ) -> PoolingOutput:
        """Coarsen the graphs with features x [N, F] and edges edge_index [2, E]. Without batch [N], all nodes belong to
        one graph. If attn [N, in_channels] is given, the scores are computed from it instead of x."""
        if attn is not None and not self._attends:
            raise UserError(f"{self} does not support attn: its scores and its output features come from one layer")
        if edge_attr is not None and (edge_attr.ndim == 0 or len(edge_attr) != edge_index.shape[1]):
            rows = counted(edge_attr.shape[0] if edge_attr.ndim else 0, "row")
            edges = counted(edge_index.shape[1], "edge")
            raise UserError(f"{type(self).__name__}: the edge weights or features have {rows} for {edges}")
        batch = edge_index.new_zeros(len(x)) if batch is None else batch
        x, attn = _columns(x), attn if attn is None else _columns(attn)
        if bool((batch[1:] < batch[:-1]).any()):
            order = torch.argsort(batch, stable=True)
            place = numbering(order, len(order))
            attn = attn if attn is None else attn[order]
            six, pooled = self._run(x[order], PyGEdges(place[edge_index], edge_attr), batch[order], attn)
            return _output(six._replace(perm=order[six.perm]), pooled, {n: s[place] for n, s in pooled.scores.items()})
        six, pooled = self._run(x, PyGEdges(edge_index, edge_attr), batch, attn)
        return _output(six, pooled, pooled.scores)

    def _run(self, x: Tensor, edges: PyGEdges, batch: Tensor, attn: Tensor | None) -> tuple[PyGOutput, Pooled]:
        """Pool nodes that are sorted by graph. This computes in the precision of the weights, also under autocast,
        because scores must be distinguishable."""
        given, device = x.dtype, x.device.type
        if torch.is_autocast_enabled(device):
            full = next(self.parameters()).dtype
            x, attn = x.to(full), attn if attn is None else attn.to(full)
        with torch.autocast(device, enabled=False):
            level = PyGLevel.of(batch, edges, x.dtype, self.weighted, None if attn is None else x)
            pooled = self.pool(x if attn is None else attn, level)
            six = self._six(pooled, batch)
        return six._replace(x=six.x.to(given)), pooled

    def _six(self, pooled: Pooled, batch: Tensor) -> PyGOutput:
        """Convert our result into PyG's."""
        kept = pooled.level
        assert isinstance(kept, KeptLevel)
        return PyGOutput(pooled.x, *kept.edges, batch[kept.position], kept.position, kept.gate)


def _columns(x: Tensor) -> Tensor:
    """Return x as [N, F]; [N] becomes [N, 1]."""
    return x.unsqueeze(1) if x.ndim == 1 else x


def _output(six: PyGOutput, pooled: Pooled, scores: Mapping[str, Tensor]) -> PoolingOutput:
    x, aux_loss = six.x, sum(pooled.losses.values(), start=pooled.x.new_zeros(()))
    if aux_loss.requires_grad and torch.distributed.is_available() and torch.distributed.is_initialized():
        x, aux_loss = _Joined.apply(x, aux_loss)
    return output_of(six._replace(x=x), aux_loss, dict(scores), dict(pooled.metrics))


class _Joined(torch.autograd.Function):
    """Return the features and the loss unchanged, in one node of the autograd graph.

    DistributedDataParallel searches for unused weights from the six parts of an output; this way it also finds, from
    x, the weights that only the loss uses.
    """

    @staticmethod
    def forward(x: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
        return x.view_as(x), loss.view_as(loss)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, by_x: Tensor | None, by_loss: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        return by_x, by_loss
