"""What a layer returns. Shapes: N nodes, E' edges that are left, F features, K kept nodes."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from torch import Tensor
from torch.utils import _pytree


class Six(NamedTuple):
    """What PyG's layers give, in its order."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    perm: Tensor
    score: Tensor


class More:
    """What an output has beside the six."""

    def __init__(self, aux_loss: Any, scores: Any, metrics: Any) -> None:
        self.aux_loss, self.scores, self.metrics = aux_loss, scores, metrics


class PoolingOutput(tuple[Any, ...]):
    """A coarsened graph: unpacks as PyG's six, and has three attributes more.

    Torch may put it together anew from its six parts, for a backward hook for example. As long as the first output is
    there, the second is known by the memory of `perm`, and gets its attributes. (It is not a NamedTuple because these
    cannot tell torch of more parts than they unpack to.)
    """

    _more: More | None

    def __new__(cls, *six: Any) -> "PoolingOutput":
        """Of six parts, or of one iterable with them, as tuples are made."""
        parts = Six(*(six if len(six) != 1 else six[0]))
        output = super().__new__(cls, parts)
        output._more = _known.get(_address(parts.perm))
        return output

    @property
    def x(self) -> Tensor:
        """[K, F] the features of the kept nodes, gated."""
        return self[0]

    @property
    def edge_index(self) -> Tensor:
        """[2, E'] the edges among them, renumbered."""
        return self[1]

    @property
    def edge_attr(self) -> Tensor | None:
        """[E', …] what is known of these edges."""
        return self[2]

    @property
    def batch(self) -> Tensor:
        """[K] the graph of each."""
        return self[3]

    @property
    def perm(self) -> Tensor:
        """[K] which node each one was: graph by graph, in each by descending score."""
        return self[4]

    @property
    def score(self) -> Tensor:
        """[K] what the features of each were multiplied by."""
        return self[5]

    @property
    def aux_loss(self) -> Tensor:
        """The method's own loss, a scalar; 0 for a method without one."""
        return self._known_more().aux_loss

    @property
    def scores(self) -> Mapping[str, Tensor]:
        """[N] the scores of all nodes by name, as the method's paper calls them."""
        return self._known_more().scores

    @property
    def metrics(self) -> Mapping[str, Tensor]:
        """Scalars that help to understand the training, by name. Filled in evaluation mode only."""
        return self._known_more().metrics

    def _known_more(self) -> More:
        if self._more is None:
            raise AttributeError("this output was made of copies of its six parts, without its loss and its scores")
        return self._more

    def __repr__(self) -> str:
        parts = {**Six(*self)._asdict(), **(vars(self._more) if self._more else {})}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in parts.items())})"

    def _replace(self, **parts: Any) -> "PoolingOutput":
        """The same with other parts."""
        return _with_more(Six(*self)._replace(**parts), self._more)


_known: "WeakValueDictionary[int | None, More]" = WeakValueDictionary()
"""The attributes of outputs that are still there, by the address of perm."""


def output_of(six: Six, aux_loss: Tensor, scores: Mapping[str, Tensor], metrics: Mapping[str, Tensor]) -> PoolingOutput:
    """What a layer returns."""
    more = More(aux_loss, scores, metrics)
    if (address := _address(six.perm)) is not None:
        _known[address] = more
    return _with_more(six, more)


def _address(perm: Any) -> int | None:
    """Where perm lies in memory; None where it is empty, or torch does not say."""
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
