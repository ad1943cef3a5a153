"""The parts of a data set that a method uses: warnings about unused parts, and errors for unsupported ones."""

from collections.abc import Sequence
from dataclasses import fields

from cgipool.data.describe import warn_of_unused
from cgipool.data.descriptors import warn_of_gaps
from cgipool.data.graphs import GraphSet
from cgipool.errors import UnusedDataWarning, UserError, warn_user
from cgipool.pool import Method, method_named
from cgipool.training.recipe import Recipe
from cgipool.training.settings import INPUT, setting_of

INPUTS = ("conv", *(each.name for each in fields(Recipe) if each.metadata and setting_of(each).panel == INPUT))
"""Settings that determine which parts of a data set are used."""


def warn_of_unread(graphs: GraphSet, name: str, recipe: Recipe) -> None:
    """Warn about parts of the data set and changed input settings that the method does not use, and about missing
    descriptors that are filled in."""
    warn_of_unused(graphs, unread_by([name], recipe))
    changed = recipe.changes().keys() - {"attributes"}  # set by the data set, and covered by the warning above
    if unread := [each for each in INPUTS if each in changed and not method_named(name).reads(each)]:
        warn_user(f"method {name} does not read: {', '.join(unread)}", UnusedDataWarning)
    if recipe.impute != "none" and not recipe.descriptors and "impute" not in unread:
        warn_user(f"impute={recipe.impute} has no effect without descriptors", UnusedDataWarning)
    if recipe.impute == "mean" and method_named(name).reads("descriptors"):
        warn_of_gaps(graphs, recipe.descriptor_columns)


def unread_by(names: Sequence[str], recipe: Recipe) -> dict[str, str]:
    """The parts of a data set that these methods, or the networks among them, do not use, each with a hint."""
    methods = {name: method_named(name) for name in names}
    networks = {name: method for name, method in methods.items() if method.architecture == "network"}
    found: dict[str, str] = {}
    for name, method in (networks or methods).items():
        for thing, hint in _unread(name, method, recipe).items():
            found[thing] = found.get(thing) or hint
    return found


def _unread(name: str, method: Method, recipe: Recipe) -> dict[str, str]:
    if method.architecture == "constant":  # it ignores the graphs
        return {}
    found = {}
    if not (recipe.attributes and method.reads("attributes")):
        found["node attributes"] = "; set attributes=true to use them" if method.reads("attributes") else ""
    if method.of_molecules:  # it uses atoms and bonds through the molecule
        return found | {"edge attributes": ""}
    if method.classical:
        labels = {} if recipe.kernel_edges else {"edge labels": "; kernel_edges=true reads them"}
        return found | labels | {"edge attributes": ""}
    if recipe.reads_edges and method.reads("conv"):
        return found
    hint = "; conv=gine reads them" if method.reads("conv") else ""
    if refused([name], recipe.but(conv="gine")):
        hint = f"; no convolution can read them with method {name}"
    return found | dict.fromkeys(("edge labels", "edge attributes"), hint)


def check_edges(names: Sequence[str], recipe: Recipe, features: bool) -> None:
    """Raise UserError for methods whose pools make new edges where the convolution reads edges one by one. `features`
    says whether edges have features; without them, gine only needs sums over neighbours."""
    if bad := refused(names, recipe) if features or recipe.conv == "transformer" else []:
        what = f"method {bad[0]} makes" if len(bad) == 1 else f"methods {', '.join(bad)} make"
        raise UserError(
            f"{what} new edges, which have no features for conv={recipe.conv} to read; use another convolution, such "
            "as gin, or a method that selects nodes"
        )


def refused(names: Sequence[str], recipe: Recipe) -> list[str]:
    """The methods after whose pools the convolution has no edge features to read."""
    reads = recipe.reads_edges and recipe.levels > 1
    return [name for name in names if reads and method_named(name).new_edges]


def has_edge_features(graphs: GraphSet) -> bool:
    """Whether edges have labels or attributes."""
    return graphs.edge_category is not None or graphs.edge_attributes is not None
