"""A pooling method as the command line, the trainer and the studies know it."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from cgipool.errors import unknown

FORMS = ("paper", "released")

NETWORK = (
    "form", "conv", "norm", "gate", "levels", "readout", "jumping", "ratio", "mi", "alpha", "alpha_proteins",
    "own_loss",
)  # fmt: skip
"""Settings of a recipe that only the shared network and its pools read."""

TRAINING = (
    "width", "dropout", "dropout_epochs", "lr", "schedule", "warmup", "weight_decay", "clip", "average", "batch_size",
    "shuffle", "epochs", "patience", "label_smoothing",
)  # fmt: skip
"""Settings that only a model with weights to learn reads."""


@dataclass(frozen=True)
class Method:
    """How to build a method's modules, and what to say of it.

    A builder is called with those of these arguments that it names: dim (the width d), ratio, site (the number of the
    level, from 0), levels (how many there are), sizes (`Sizes` of the training graphs) and mi (the bound on the mutual
    information).
    """

    title: str
    """The name in the paper's tables."""
    about: str
    """One line on what it does."""
    paper: str
    """Where it was published."""
    build: Callable[..., nn.Module] | None
    """build(…) → a module (x, level) → Pooled, one per level. None: the method is no network of ours at all."""
    released: Callable[..., nn.Module] | None = None
    """The form of the authors' released code, where it differs from the paper and we have both."""
    read: Callable[..., nn.Module] | None = None
    """read(…) → a module that takes the features and levels of all levels to [B, width], and has this `width`. None:
    the backbone's readout."""
    own_loss: float | Callable[[int], float] | None = None
    """The weight of the method's own loss, or what gives it for an epoch; None: the recipe's α."""
    kind: str = "method"
    """"method", "ablation" or "control"."""
    fast: bool = True
    """Whether it keeps shapes static, so that `vmap` and captured steps can take it."""
    selects: bool = False
    """Whether each pool keeps ⌈ratio · n⌉ nodes of a graph, so that the sizes of all levels are known beforehand."""
    ignores: tuple[str, ...] = ()
    """Settings of a recipe that it does not read, beside those that `reads` can tell from the rest."""

    def reads(self, setting: str) -> bool:
        """Whether a setting of a recipe can change what the method gives."""
        if setting in self.ignores:
            return False
        builders = [build for build in (self.build, self.released, self.read) if build is not None]
        named = {name for build in builders for name in inspect.signature(build).parameters}
        told = {
            "form": self.released is not None,
            "ratio": "ratio" in named,
            "mi": "mi" in named,
            "alpha": self.own_loss is None and "mi" in named,
            "own_loss": self.own_loss is not None and self.own_loss != 0.0,
            "readout": self.read is None,
            "jumping": self.read is None or "jumping" in inspect.signature(self.read).parameters,
        }
        return told.get("alpha" if setting == "alpha_proteins" else setting, True)

    def pool(self, form: str, **offered: Any) -> nn.Module:
        """One pool in the given form; a method without a released form has the paper's."""
        if form not in FORMS:
            raise unknown("form", form, FORMS)
        build = self.released if form == "released" and self.released else self.build
        assert build is not None, f"{self.title} has no pool"
        return build(**named_by(build, offered))

    def readout(self, **offered: Any) -> nn.Module | None:
        """The method's own readout, if it has one."""
        return self.read(**named_by(self.read, offered)) if self.read else None

    def weight(self, alpha: float, epoch: int, scale: float = 1.0) -> float:
        """The weight of the method's own loss in an epoch, counted from 1: α, or that of its authors times a scale."""
        if self.own_loss is None:
            return alpha
        return scale * (self.own_loss(epoch) if callable(self.own_loss) else self.own_loss)


def named_by(build: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Those of the arguments offered that a builder names in its signature."""
    known = inspect.signature(build).parameters
    return {name: value for name, value in offered.items() if name in known}
