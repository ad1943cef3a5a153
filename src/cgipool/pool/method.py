"""Describes a pooling method: how to build it, and what the command line and studies say about it. No torch."""

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
"""Recipe settings that only the shared network and its pools read."""

TRAINING = (
    "width", "dropout", "dropout_epochs", "lr", "schedule", "warmup", "weight_decay", "clip", "average", "batch_size",
    "shuffle", "epochs", "patience", "stop_by", "label_smoothing", "focal", "balanced_batches",
)  # fmt: skip
"""Recipe settings that only models with trained weights read."""

CLASSICAL = (
    *TRAINING, "vocabulary", "attributes", "featurizer", "wl", "rwse", "lappe", "descriptors", "impute",
    "rdkit_descriptors", "fingerprints",
)  # fmt: skip
"""Recipe settings that methods without a network do not read, in addition to those of the network."""


class Part:
    """A class or function "file:Name" of this package, imported when it is first called.

    `arguments` are the names of its arguments that `Method` passes, and `fixed` the arguments with fixed values.
    """

    def __init__(self, place: str, *arguments: str, **fixed: Any) -> None:
        self.place, self.arguments, self.fixed = place, arguments, fixed

    @property
    def target(self) -> Any:
        """The class or function."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(f"cgipool.pool.{module}"), name)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Call the class or function with the given and the fixed arguments."""
        return self.target(*args, **given, **self.fixed)


@dataclass(frozen=True)
class Method:
    """How to build a method's modules, and what to say about it.

    A builder is called with those of these arguments that it names: dim (the width d), ratio, site (the number of the
    level, from 0), levels (their number), sizes (`Sizes` of the training graphs), mi (the bound on the mutual
    information), negative and encoding (see pool/cgi.py) and outputs (their number). Arguments that a part fixes are
    not overwritten.
    """

    title: str
    """The name in the paper's tables."""
    about: str
    """One line on what it does."""
    paper: str
    """Where it was published."""
    build: Callable[..., Any] | None
    """build(…) → a module (x, level) → Pooled, one per level. None if the model is not the shared network."""
    released: Callable[..., Any] | None = None
    """Builds the form of the authors' released code, for a method with both forms."""
    read: Callable[..., Any] | None = None
    """read(…) → a readout module with the attribute `width`: features and levels of all levels → [B, width]. None for
    the backbone's readout."""
    own_loss: float | Callable[[int], float] | None = None
    """The weight of the method's own loss, or a function from the epoch to the weight. None for the recipe's α."""
    own_loss_per_node: bool = False
    """Whether the method's own loss is a mean over nodes rather than graphs."""
    architecture: str = "network"
    """The model: "network" (the shared network), "sum" (ignores edges), "constant" (ignores graphs), or "classical"
    (not a network; see `cgipool.classical`)."""
    kind: str = "method"
    """"method", "ablation" or "control"."""
    fast: bool = True
    """Whether shapes are static, as `vmap` and captured steps need."""
    selects: bool = False
    """Whether each pool keeps ⌈ratio · n⌉ nodes of a graph, so the sizes of all levels are known in advance."""
    new_edges: bool = False
    """Whether its pools join the nodes they keep, or clusters, by new edges, which have no labels or attributes."""
    of_molecules: bool = False
    """Whether it needs molecules."""
    molecular_control: bool = False
    """Whether `compare` adds it for sets of molecules."""
    most_graphs: int | None = None
    """Largest data set on which `fit --auto` tries it, for a kernel matrix that grows with the square of the graphs."""
    pair_seconds: float = 0.0
    """Measured time of a fit for each target and pair of training graphs, for such a matrix. Used by `fit --auto`."""
    cost: float = 1.0
    """Measured time of a training epoch on a CPU, relative to CGIPool. Used by estimates."""
    gpu_cost: float = 1.0
    """The same on a GPU."""
    ignores: tuple[str, ...] = ()
    """Recipe settings that it does not read, in addition to those that `reads` derives from the other fields."""

    @property
    def learns(self) -> bool:
        """Whether the model has weights to train."""
        return self.architecture not in ("constant", "classical")

    @property
    def classical(self) -> bool:
        """Whether it is a method of `cgipool.classical`, which is fitted once, without epochs."""
        return self.architecture == "classical"

    def reads(self, setting: str) -> bool:
        """Whether a recipe setting can change the results of the method."""
        if setting in self.ignores:
            return False
        builders = [build for build in (self.build, self.released, self.read) if build is not None]
        arguments = {name for build in builders for name in arguments_of(build)}
        by_alpha = self.own_loss is None and "mi" in arguments
        known = {
            "form": self.released is not None,
            "ratio": "ratio" in arguments,
            "mi": "mi" in arguments,
            "alpha": by_alpha,
            "negative": "negative" in arguments,
            "encoding": by_alpha and "encoding" in arguments,
            "critic_weight_decay": by_alpha,
            "own_loss": self.own_loss is not None and self.own_loss != 0.0,
            "readout": self.read is None,
            "kernel_edges": self.classical,
            "jumping": self.read is None or "jumping" in arguments_of(self.read),
        }
        return known.get("alpha" if setting == "alpha_proteins" else setting, True)

    def pool(self, form: str, **offered: Any) -> "nn.Module":
        """Build one pool in the given form. A method without a released form has only the paper's form."""
        if form not in FORMS:
            raise unknown("form", form, FORMS)
        build = self.released if form == "released" and self.released else self.build
        assert build is not None, f"{self.title} has no pool"
        return build(**accepted_by(build, offered))

    def readout(self, **offered: Any) -> "nn.Module | None":
        """Build the method's own readout; None if it has none."""
        return self.read(**accepted_by(self.read, offered)) if self.read else None

    def weight(self, alpha: float, epoch: int, scale: float = 1.0) -> float:
        """The weight of the method's own loss in an epoch, counted from 1: α, or the authors' weight times `scale`."""
        if self.own_loss is None:
            return alpha
        return scale * (self.own_loss(epoch) if callable(self.own_loss) else self.own_loss)


def arguments_of(build: Callable[..., Any]) -> set[str]:
    """The names of a builder's arguments, without those that a part fixes."""
    if isinstance(build, Part):
        return set(build.arguments) - build.fixed.keys()
    return set(inspect.signature(build).parameters)


def accepted_by(build: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """The offered arguments that a builder has."""
    known = arguments_of(build)
    return {name: value for name, value in offered.items() if name in known}
