"""What `fit --auto` tries: a baseline without graphs, classical methods, and networks, the simplest first.

Networks for values of molecules have no dropout, unlike recipe `strong`, which was found on classes: on two validation
folds of FreeSolv, ESOL and Lipophilicity, without the test molecules of split 0 of our benchmarks, RMSE is 6, 3 and 3 %
lower (none, conv=gine, rdkit_descriptors; 100, 40 and 12 epochs).
"""

import importlib.util
import math
from dataclasses import dataclass

from cgipool.data.graphs import GraphSet
from cgipool.pool import METHODS
from cgipool.pool.method import Method
from cgipool.training.presets import resolve_recipe
from cgipool.training.recipe import Recipe

BASELINE = "majority"
"""A constant prediction, which ignores the graphs: class shares, means or rates of the training graphs."""

CLASSICAL = ("wl", "wl-oa")
ON_MOLECULES = ("rdkit-svm", "rdkit-et")
"""A support vector machine and trees, both on descriptors of molecules."""

SLOWEST = "ecfp-count-rf"
"""A forest on fingerprints, which takes longer than all other classical methods, so it comes last, if at all."""

DESCRIBING, DESCRIBING_SHARE = 0.006, 0.25
"""Seconds to compute RDKit's descriptors of a molecule, and the share of the budget for those of all molecules."""

FEWEST_STEPS, MOST_EPOCHS = 3000, 500
"""Minimum number of steps and maximum number of epochs. Recipe `strong` was chosen on sets of some thousand graphs; on
small sets its epochs have too few steps."""

FIT_SHARE = 0.1
"""The share of the budget for one fit of a method whose time grows with the square of the graphs."""


@dataclass(frozen=True)
class Candidate:
    """A method with its settings."""

    name: str
    """Its name in tables and folders."""
    method: str
    recipe: Recipe

    @property
    def is_network(self) -> bool:
        """Whether it is trained in epochs."""
        return METHODS[self.method].learns

    @property
    def is_baseline(self) -> bool:
        """Whether it is a constant prediction, which ignores the graphs."""
        return METHODS[self.method].architecture == "constant"


def candidates_for(graphs: GraphSet, budget: float = math.inf) -> list[Candidate]:
    """The candidates for a data set, without those that cannot be tried within `budget` seconds."""
    strong = resolve_recipe("strong", {})(graphs.family, graphs.has_own_attributes, graphs.directed)
    steps = max(1, round(0.7 * graphs.n_graphs / strong.batch_size))
    strong = strong.but(epochs=min(MOST_EPOCHS, max(strong.epochs, math.ceil(FEWEST_STEPS / steps))))
    molecules = are_molecules(graphs)
    described = molecules and DESCRIBING * graphs.n_graphs <= DESCRIBING_SHARE * budget
    classical: list[str] = [] if graphs.directed else [*CLASSICAL]  # they need undirected edges
    classical += ON_MOLECULES if described else ()
    classical = [name for name in classical if _fits(METHODS[name], graphs, budget)]
    if molecules and graphs.task == "regression":
        strong = strong.but(dropout=0.0)
    first, *networks = _on_molecules(strong, described) if molecules else _on_graphs(graphs, strong)
    found = [Candidate(name, name, strong) for name in (BASELINE, *classical)]
    # The first network comes early, so that slow classical methods do not leave networks without a look.
    found = [*found[:2], first, *found[2:], *networks]
    return [*found, Candidate(SLOWEST, SLOWEST, strong)] if described else found


def _fits(method: Method, graphs: GraphSet, budget: float) -> bool:
    """Whether a classical method is fast enough on a data set of this size."""
    seconds = method.pair_seconds * graphs.n_graphs**2 * max(1, len(graphs.target_names))
    return graphs.n_graphs <= (method.most_graphs or math.inf) and seconds <= FIT_SHARE * budget


def _on_graphs(graphs: GraphSet, strong: Recipe) -> list[Candidate]:
    """Networks for any graphs."""
    found = [Candidate(name, name, strong) for name in ("none", "cgi")]
    deep = strong.but(wl=2)
    found += [Candidate(f"{name}, wl=2", name, deep) for name in ("none", "cgi")]
    if has_edge_features(graphs):
        found += [Candidate(f"{name}, conv=gine", name, strong.but(conv="gine")) for name in ("none", "cgi")]
    found += [Candidate("vip", "vip", strong), Candidate("none, readout=sum", "none", strong.but(readout="sum"))]
    found.append(Candidate("none, width=64", "none", strong.but(width=64)))
    return found


def _on_molecules(strong: Recipe, described: bool) -> list[Candidate]:
    """Networks for molecules: they read bonds and, where that is not too slow, descriptors."""
    bonds = strong.but(conv="gine")
    found = [Candidate("none, conv=gine", "none", bonds)]
    rest, more = bonds, ", conv=gine"
    if described:
        rest, more = bonds.but(rdkit_descriptors=True), ", conv=gine, rdkit_descriptors"
        found.append(Candidate(f"none{more}", "none", rest))
    found += [Candidate(f"{name}{more}", name, rest) for name in ("cgi", "vip")]
    found.append(Candidate(f"none{more}, readout=sum", "none", rest.but(readout="sum")))
    found.append(Candidate("none", "none", strong))
    return found


def has_edge_features(graphs: GraphSet) -> bool:
    """Whether a convolution such as gine has something to read."""
    return graphs.edge_category is not None or graphs.edge_attributes is not None


def are_molecules(graphs: GraphSet) -> bool:
    """Whether methods that compute fingerprints and descriptors can be tried."""
    return graphs.featurizer is not None and importlib.util.find_spec("rdkit") is not None
