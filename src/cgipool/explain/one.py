"""What a model does to one graph, as it is told in a table, a picture and a page.

Shapes: n nodes, m edges, L levels, C classes.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.imported import IDS
from cgipool.data.names import Names
from cgipool.errors import UserError
from cgipool.explain.subgraphs import edges_left, edges_of
from cgipool.explain.trace import Trace, trace
from cgipool.fitted import FittedModel
from cgipool.pool import method_named
from cgipool.predict import CHUNK, chunks_of, count_of, ids_of, is_table, open_graphs
from cgipool.words import counted

if TYPE_CHECKING:
    from rdkit import Chem


@dataclass(frozen=True, eq=False)
class Explained:
    """One graph and its trace."""

    number: int
    """Of the graph in its set."""
    graph: GraphSet
    """A set of this graph alone."""
    trace: Trace
    method: str
    """What the model's method is called."""
    class_names: Names
    """[C] of the model."""
    molecule: "Chem.Mol | None" = None
    """The graph as RDKit's molecule, if it is one and RDKit is there."""
    id: str = ""
    """What predictions call the graph, if its source has names."""

    @property
    def name(self) -> str:
        """What the graph is called."""
        return f"graph {self.number} of {self.graph.name}" + (f" (id {self.id})" if self.id else "")

    @property
    def probabilities(self) -> dict[str, float]:
        """Of the classes by name."""
        return dict(zip(self.class_names, self.trace.probabilities[0].tolist(), strict=True))

    @property
    def true_class(self) -> str | None:
        """The graph's own class, if it is one that the model knows."""
        own = self.graph.class_names[int(self.graph.y[0])] if self.graph.is_labelled else None
        return own if own in self.class_names else None

    @property
    def size(self) -> str:
        """How large the graph is, in words."""
        return f"{counted(self.graph.n_nodes, 'node')}, {counted(len(self.edges), 'edge')}"

    @property
    def verdict(self) -> str:
        """What the model says of it, in words."""
        guess, probability = max(self.probabilities.items(), key=lambda pair: pair[1])
        true = "" if self.true_class is None else f"; it is {self.true_class}"
        return f"{self.method} says {guess}, {probability:.2f}{true}"

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """[m, 2] each once."""
        return edges_of(self.graph)

    @property
    def nodes_left(self) -> list[int]:
        """[L]."""
        return self.trace.alive.sum(1).tolist()

    @property
    def edges_left(self) -> list[int]:
        """[L] edges of the graph between nodes that are left."""
        return edges_left(self.graph, self.trace.alive)[:, 0].tolist()

    @property
    def labels(self) -> list[str]:
        """[n] the elements of a molecule's atoms, else the node labels as the source names them; empty without any."""
        if self.molecule is not None:
            return [atom.GetSymbol() for atom in self.molecule.GetAtoms()]
        codes = self.graph.category
        if codes is None:
            return [""] * self.graph.n_nodes
        names = self.graph.category_names
        return [", ".join(names[j][code] for j, code in enumerate(row)) for row in codes.tolist()]

    def best(self, level: int, count: int) -> list[int]:
        """The nodes that a level keeps, best first, at most `count`; without a score, in their order."""
        there = np.flatnonzero(self.trace.alive[level])
        score = np.nan_to_num(self.trace.score[level, there])
        return there[np.argsort(-score, kind="stable")][:count].tolist()


def explain_graph(model: FittedModel, graphs: GraphSet, number: int, member: int = 0) -> Explained:
    """What a member of a model does to the graph of this number, counted from 0."""
    if not 0 <= number < graphs.n_graphs:
        raise UserError(f"there is no graph {number}; {graphs.name} has {graphs.n_graphs:,}, numbered from 0")
    graph = _checked(graphs, number)
    if not graph.n_nodes:
        raise UserError(f"graph {number} of {graphs.name} has no nodes")
    # Prediction numbers the graphs anew in every chunk, and what is explained is what it says.
    found = trace(model, graph, member, first=number % CHUNK)
    title = method_named(model.method).title
    if len(model.members) > 1:
        title += f", member {member} of {len(model.members)}"
    molecule = None if model.featurizer is None else _molecule(graph)
    return Explained(number, graph, found, title, model.class_names, molecule)


def explain_at(model: FittedModel, path: str | Path, number: int, member: int = 0) -> Explained:
    """What a member of a model does to the graph of this number, counted from 0, at a path or in a set of this name. Of
    a table of SMILES that is a row."""
    place = Path(path)
    if not is_table(place):
        found = explain_graph(model, open_graphs(path), number, member)
        return replace(found, id=next(ids_of(place, number), "")) if (place / IDS).is_file() else found
    first = max(number, 0) // CHUNK * CHUNK
    chunk = next(chunks_of(path, model, None, first, number + 1), None)
    at = number - first
    if chunk is None or not 0 <= at < len(chunk.ids):
        raise UserError(f"there is no graph {number}; {path} has {counted(count_of(path), 'row')}, numbered from 0")
    if chunk.graphs is None or at in chunk.reasons:
        raise UserError(f"graph {number} of {path} (id {chunk.ids[at]}): {chunk.reasons[at]}")
    before = sum(other < at for other in chunk.reasons)
    found = explain_graph(model, replace(chunk.graphs, name=place.stem), at - before, member)
    return replace(found, number=number, id=chunk.ids[at])


def _molecule(graph: GraphSet) -> "Chem.Mol | None":
    try:
        from cgipool.explain.molecule import molecule_of
    except (UserError, ImportError):  # without RDKit a molecule is a graph like others
        return None
    return molecule_of(graph)


def _checked(graphs: GraphSet, number: int) -> GraphSet:
    """One graph, or an error that says what is wrong with it: a set whose arrays lie on disk is not checked before."""
    try:
        return replace(graphs.subset([number]), checked=False)
    except (ValueError, IndexError, OverflowError) as error:
        raise UserError(f"graph {number} of {graphs.name}: the arrays do not fit together ({error})") from None
