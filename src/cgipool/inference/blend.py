"""A weighted mean of several fitted models, perhaps of different methods; `fit --auto` makes one.

It is saved in one file, with the tensors of part p under part-p/… and a list of descriptions in the header.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.errors import UserError, excerpt
from cgipool.inference.fitted import FORMAT, KIND, FittedModel
from cgipool.pool import method_named
from cgipool.training.checkpoint import digest_of, save_tensors

MOST = 1000
"""Maximum number of parts in a file."""


@dataclass(frozen=True, repr=False)
class Blend(FittedModel):
    """A weighted mean of fitted models. Its encoder and the fields that all parts share are those of the first part."""

    parts: tuple[FittedModel, ...] = ()
    counts: tuple[int, ...] = ()
    """The weight of each part."""

    @classmethod
    def of(cls, parts: list[FittedModel], counts: list[int], about: dict[str, Any]) -> "Blend":
        """A blend of models of the same task."""
        first = parts[0]
        shared = {f.name: getattr(first, f.name) for f in fields(FittedModel)}
        members = [member for part, count in zip(parts, counts, strict=True) for member in part.members * count]
        own: dict[str, Any] = {"members": members, "about": about, "history": []}
        return cls(**shared | own, parts=tuple(parts), counts=tuple(counts))

    @property
    def title(self) -> str:
        """The model in words."""
        named = self.about.get("blend") or dict.fromkeys((method_named(part.method).title for part in self.parts), 1)
        return f"blend of {len(self.parts)} models: " + " + ".join(named)

    def __repr__(self) -> str:
        """One line, without the weights."""
        methods = ", ".join(dict.fromkeys(part.method for part in self.parts))
        return f"Blend({methods}; parts={len(self.parts)}, device={self.device!r})"

    @property
    def descriptor_columns(self) -> Names:
        """The descriptor columns of all parts."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.descriptor_columns))

    def on(self, device: str) -> "Blend":
        """The same blend, which predicts on a device."""
        return Blend.of([part.on(device) for part in self.parts], list(self.counts), self.about)

    def member_predictions(self, graphs: GraphSet) -> NDArray[np.float64]:
        """[M, G, O] the predictions of each member; those of a part are repeated by its weight."""
        answers = [part.member_predictions(graphs) for part in self.parts]
        return np.concatenate([each for part, n in zip(answers, self.counts, strict=True) for each in [part] * n])

    @property
    def networks(self) -> Any:
        """Raise UserError: a blend has no embeddings or explanations."""
        raise UserError("this model is a blend of several methods: it has neither embeddings nor explanations")

    def save(self, path: str | Path) -> None:
        """Write the blend to one file."""
        tensors: dict[str, Tensor] = {}
        described = []
        for number, part in enumerate(self.parts):
            held, plain = part.plain()
            tensors |= {f"part-{number:03d}/{name}": value for name, value in held.items()}
            described.append(plain)
        plain = {"format": FORMAT, "parts": described, "counts": self.counts, "about": self.about}
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        save_tensors(Path(path), tensors, {"kind": KIND, "model": text, "checksum": digest_of(tensors, text)})

    @classmethod
    def read(
        cls, plain: dict[str, Any], tensors: dict[str, Tensor], device: str, allow_code: bool, path: str | Path
    ) -> "Blend":
        """Build a blend from the description and tensors of a file. Raise ValueError if they do not match."""
        described, counts, about = plain["parts"], plain["counts"], plain["about"]
        if not isinstance(described, list) or not 1 <= len(described) <= MOST or not isinstance(about, dict):
            raise ValueError("its list of parts is not valid")
        if not isinstance(counts, list) or len(counts) != len(described) or not all(_is_count(n) for n in counts):
            raise ValueError("there is not one count for each part")
        by_part: list[dict[str, Tensor]] = [{} for _ in described]
        for name, value in tensors.items():
            place, _, rest = name.removeprefix("part-").partition("/")
            if not place.isdecimal() or int(place) >= len(described):
                raise ValueError(f"its tensor {excerpt(name)!r} belongs to no part")
            by_part[int(place)][rest] = value
        parts = [
            FittedModel.described(one, held, device, allow_code, path)
            for one, held in zip(described, by_part, strict=True)
        ]
        first = parts[0]
        for part in parts:
            if (part.task_name, part.class_names, part.target_names) != (
                first.task_name, first.class_names, first.target_names,
            ):  # fmt: skip
                raise ValueError("its parts have different classes or targets")
        return cls.of(parts, counts, about)


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST
