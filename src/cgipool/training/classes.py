"""The classes of a data set, and which of them counts as positive in ROC-AUC and PR-AUC. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cgipool.data.catalogue import CATALOGUE
from cgipool.data.graphs import GraphSet
from cgipool.errors import excerpt, unknown
from cgipool.training.metrics import PER_CLASS

MEAN = "mean over classes"
"""What the two areas are of where no class is positive."""

CLASS_1 = "class 1"
"""What they are of in results that were stored without the areas of every class."""


@dataclass(frozen=True)
class Classes:
    """The names of the classes, and the positive one."""

    names: tuple[str, ...]
    positive: int | None
    """Its place among the names; None: the mean over all classes is shown."""

    @property
    def label(self) -> str:
        """What ROC-AUC and PR-AUC are of, in words."""
        return MEAN if self.positive is None else excerpt(self.names[self.positive], 60)

    def but(self, name: str) -> "Classes":
        """The same with another positive class."""
        if name not in self.names:
            raise unknown("class", name, self.names)
        return replace(self, positive=self.names.index(name))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"names": list(self.names), "positive": self.positive}

    @classmethod
    def from_json(cls, value: Any) -> "Classes | None":
        """What `to_json` gave; None for anything else."""
        names = value.get("names") if isinstance(value, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return None
        positive = value.get("positive")
        sound = positive is None or (type(positive) is int and 0 <= positive < len(names))
        return cls(tuple(names), positive) if sound else None


def classes_of(graphs: GraphSet) -> Classes:
    """The classes of a set. Of two, the positive one is class 1 in a data set of the catalogue; in the user's own it is
    the rarer of the whole set, and the last where both are equally frequent. Of more than two, none is."""
    if graphs.n_classes != 2:
        return Classes(tuple(graphs.class_names), None)
    entry = CATALOGUE.get(graphs.name)
    if entry is not None and entry.graphs == graphs.n_graphs:  # an own set may have the same name
        return Classes(tuple(graphs.class_names), 1)
    first, second = (int(np.count_nonzero(graphs.y == c)) for c in (0, 1))
    return Classes(tuple(graphs.class_names), 0 if first < second else 1)


def shown(test: Mapping[str, Any], classes: Classes | None) -> dict[str, Any]:
    """The metrics of a split by name, ROC-AUC and PR-AUC as those of the positive class; without classes as stored."""
    plain = {name: value for name, value in test.items() if name != PER_CLASS}
    if classes is None or classes.positive is None:
        return plain
    return plain | {name: values[classes.positive] for name, values in test[PER_CLASS].items()}
