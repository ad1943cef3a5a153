"""A pooling method as the command line, the trainer and the studies know it. No torch."""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgipool.errors import unknown

if TYPE_CHECKING:
    from torch import nn

FORMS = ("paper", "released")

NETWORK = (
    "form", "conv", "norm", "gate", "levels", "convs_per_level", "residual", "directed", "readout", "jumping", "ratio",
    "mi", "alpha", "alpha_proteins", "own_loss", "negative", "encoding", "critic_weight_decay",
)  # fmt: skip
"""Settings of a recipe that only the shared network and its pools read."""

TRAINING = (
    "width", "dropout", "dropout_epochs", "lr", "schedule", "warmup", "weight_decay", "clip", "average", "batch_size",
    "shuffle", "epochs", "patience", "stop_by", "label_smoothing", "focal", "balanced_batches",
)  # fmt: skip
"""Settings that only a model with weights to learn reads."""


CLASSICAL = (
    *TRAINING, "vocabulary", "attributes", "wl", "rwse", "lappe", "descriptors", "impute", "rdkit_descriptors",
    "fingerprints",
)  # fmt: skip
"""Settings that the methods which are not networks do not read, beside those of the network."""


class Part:
    """A class or function of this package, "file:Name", which is imported when it is first called: what it asks for of
    what `Method` offers, and what is set by name whoever calls."""

    def __init__(self, place: str, *asked: str, **fixed: Any) -> None:
        self.place, self.asked, self.fixed = place, asked, fixed

    @property
    def named(self) -> Any:
        """What it stands for."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(f"cgipool.pool.{module}"), name)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Call it."""
        return self.named(*args, **given, **self.fixed)


@dataclass(frozen=True)
class Method:
    """How to build a method's modules, and what to say of it.

    A builder is called with those of these arguments that it names: dim (the width d), ratio, site (the number of the
    level, from 0), levels (how many there are), sizes (`Sizes` of the training graphs), mi (the bound on the mutual
    information), negative and encoding (see pool/cgi.py) and outputs (how many the network has). What a partial sets by
    name stays as it is.
    """

    title: str
    """The name in the paper's tables."""
    about: str
    """One line on what it does."""
    paper: str
    """Where it was published."""
    build: Callable[..., Any] | None
    """build(…) → a module (x, level) → Pooled, one per level. None: the model is not the shared network."""
    released: Callable[..., Any] | None = None
    """The form of the authors' released code, where it differs from the paper and we have both."""
    read: Callable[..., Any] | None = None
    """read(…) → a module that takes the features and levels of all levels to [B, width], and has this `width`. None:
    the backbone's readout."""
    own_loss: float | Callable[[int], float] | None = None
    """The weight of the method's own loss, or what gives it for an epoch; None: the recipe's α."""
    own_loss_per_node: bool = False
    """Whether the method's own loss is a mean over nodes rather than graphs."""
    architecture: str = "network"
    """Which model it is a method of: "network" (the shared one), "sum" (no structure), "constant" (no graph), or
    "classical" (not a network; see `cgipool.classical`)."""
    kind: str = "method"
    """"method", "ablation" or "control"."""
    fast: bool = True
    """Whether it keeps shapes static, so that `vmap` and captured steps can take it."""
    selects: bool = False
    """Whether each pool keeps ⌈ratio · n⌉ nodes of a graph, so that the sizes of all levels are known beforehand."""
    of_molecules: bool = False
    """Whether it reads molecules, and not any graph."""
    cost: float = 1.0
    """Measured time of a training epoch on a CPU, relative to CGIPool. Used by estimates."""
    gpu_cost: float = 1.0
    """The same on a GPU."""
    ignores: tuple[str, ...] = ()
    """Settings of a recipe that it does not read, beside those that `reads` can tell from the rest."""

    @property
    def learns(self) -> bool:
        """Whether the model is a network with weights to train."""
        return self.architecture not in ("constant", "classical")

    @property
    def classical(self) -> bool:
        """Whether it is a method of `cgipool.classical`, which is fitted once and has no epochs."""
        return self.architecture == "classical"

    def reads(self, setting: str) -> bool:
        """Whether a setting of a recipe can change what the method gives."""
        if setting in self.ignores:
            return False
        builders = [build for build in (self.build, self.released, self.read) if build is not None]
        named = {name for build in builders for name in asked_by(build)}
        by_alpha = self.own_loss is None and "mi" in named
        told = {
            "form": self.released is not None,
            "ratio": "ratio" in named,
            "mi": "mi" in named,
            "alpha": by_alpha,
            "negative": "negative" in named,
            "encoding": by_alpha and "encoding" in named,
            "critic_weight_decay": by_alpha,
            "own_loss": self.own_loss is not None and self.own_loss != 0.0,
            "readout": self.read is None,
            "kernel_edges": self.classical,
            "jumping": self.read is None or "jumping" in asked_by(self.read),
        }
        return told.get("alpha" if setting == "alpha_proteins" else setting, True)

    def pool(self, form: str, **offered: Any) -> "nn.Module":
        """One pool in the given form; a method without a released form has the paper's."""
        if form not in FORMS:
            raise unknown("form", form, FORMS)
        build = self.released if form == "released" and self.released else self.build
        assert build is not None, f"{self.title} has no pool"
        return build(**named_by(build, offered))

    def readout(self, **offered: Any) -> "nn.Module | None":
        """The method's own readout, if it has one."""
        return self.read(**named_by(self.read, offered)) if self.read else None

    def weight(self, alpha: float, epoch: int, scale: float = 1.0) -> float:
        """The weight of the method's own loss in an epoch, counted from 1: α, or that of its authors times a scale."""
        if self.own_loss is None:
            return alpha
        return scale * (self.own_loss(epoch) if callable(self.own_loss) else self.own_loss)


def asked_by(build: Callable[..., Any]) -> set[str]:
    """The arguments that a builder names in its signature, without those that a part sets by name."""
    if isinstance(build, Part):
        return set(build.asked) - build.fixed.keys()
    return set(inspect.signature(build).parameters)


def named_by(build: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Those of the arguments offered that a builder asks for."""
    known = asked_by(build)
    return {name: value for name, value in offered.items() if name in known}
