"""The pooling methods, one file each, and the registry that names them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from cgipool.errors import unknown
from cgipool.pool.base import Pooled
from cgipool.pool.cgi import CGIPool, ReleasedCGIPool

__all__ = ["METHODS", "CGIPool", "Method", "Pooled", "ReleasedCGIPool", "method_named"]

FORMS = ("paper", "released")

CGI_PAPER = "Pang, Zhao, Li: Graph Pooling via Coarsened Graph Infomax. SIGIR 2021"


@dataclass(frozen=True)
class Method:
    """A pooling method as the command line and the studies know it."""

    title: str
    """The name in the paper's tables."""
    about: str
    """One line on what it does."""
    paper: str
    """Where it was published."""
    build: Callable[..., nn.Module]
    """build(dim, ratio, site, **options) → a module (x, level) → Pooled, one per level."""
    released: Callable[..., nn.Module] | None = None
    """The form of the authors' released code, where it differs from the paper and we have both."""
    own_loss: float | None = None
    """The weight of the method's own loss; None: the recipe's α."""
    options: tuple[str, ...] = ()
    """Names of the options that `build` takes beyond dim, ratio and site."""

    def pool(self, form: str, **arguments: Any) -> nn.Module:
        """One pool in the given form; a method without a released form has the paper's, and options that it does not
        have are left out."""
        if form not in FORMS:
            raise unknown("form", form, FORMS)
        build = self.released if form == "released" and self.released else self.build
        common = ("dim", "ratio", "site")
        return build(**{name: value for name, value in arguments.items() if name in common + self.options})


METHODS: dict[str, Method] = {
    "cgi": Method(
        title="CGIPool",
        about="top-k by the difference of a real and a fake score, trained by coarsened graph infomax",
        paper=CGI_PAPER,
        build=CGIPool,
        released=ReleasedCGIPool,
        options=("mi",),
    ),
    "cgi-rs": Method(
        title="CGIPool-RS",
        about="ablation: the fake coarsened graph is k random nodes",
        paper=CGI_PAPER,
        build=partial(CGIPool, negative="random"),
        released=partial(ReleasedCGIPool, negative="random"),
        options=("mi",),
    ),
    "cgi-nomi": Method(
        title="CGIPool w/o MI",
        about="ablation: both branches and the fusion, without the mutual-information loss",
        paper=CGI_PAPER,
        build=CGIPool,
        released=ReleasedCGIPool,
        own_loss=0.0,
        options=("mi",),
    ),
}


def method_named(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
