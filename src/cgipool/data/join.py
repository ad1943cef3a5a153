"""Several sets as one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.build import pointer
from cgipool.errors import UserError

if TYPE_CHECKING:
    from cgipool.data.graphs import GraphSet

NAMES = ("class_names", "category_names", "edge_category_names")
COLUMNS = ("category", "attributes", "edge_weight", "edge_category", "edge_attributes", "node_truth")


def join(sets: Sequence["GraphSet"], name: str | None = None) -> "GraphSet":
    """The graphs of all sets, in order; an error unless they have the same columns and names."""
    from cgipool.data.graphs import GraphSet

    if not sets:
        raise UserError("there are no graphs to join")
    first = sets[0]
    for other in sets[1:]:
        for what in NAMES:
            if getattr(other, what) != getattr(first, what):
                raise UserError(f"{first.name} and {other.name} have different {what.replace('_', ' ')}")
        for what in COLUMNS:
            if _width(getattr(other, what)) != _width(getattr(first, what)):
                raise UserError(f"{first.name} and {other.name} have different columns of {what.replace('_', ' ')}")

    def together(what: str) -> NDArray[Any] | None:
        return None if getattr(first, what) is None else np.concatenate([getattr(part, what) for part in sets])

    same: dict[str, Any] = {what: getattr(first, what) for what in NAMES} | {what: together(what) for what in COLUMNS}

    return GraphSet(
        name or first.name,
        pointer(np.concatenate([part.sizes for part in sets])),
        pointer(np.concatenate([part.degree for part in sets])),
        np.concatenate([part.edge_disp for part in sets]),
        np.concatenate([part.y for part in sets]),
        **same,
        checked=True,
    )


def _width(values: NDArray[Any] | None) -> tuple[int, ...] | None:
    return None if values is None else values.shape[1:]
