"""The explanation of one graph: which nodes a model keeps at each level, with their names, labels and colours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.graphs import GraphSet
from cgipool.data.importers.lines import given_ids, is_table
from cgipool.data.names import Names
from cgipool.errors import UserError, counted, excerpt
from cgipool.explain.fidelity import target_of
from cgipool.explain.picture import PLAIN, Scale
from cgipool.explain.scores import scale_of
from cgipool.explain.trace import Trace, edges_left, edges_of, member_of, node_names, trace
from cgipool.inference.fitted import FittedModel
from cgipool.inference.predict import NOT_FINITE
from cgipool.inference.predict_input import CHUNK, check_featurizer, chunks_of, count_of, open_graphs, position_of
from cgipool.model.network import Network
from cgipool.pool import method_named

if TYPE_CHECKING:
    from rdkit import Chem


def graph_ids(path: Path, graphs: GraphSet | None = None) -> Iterator[str]:
    """Yield the ids of the graphs of a data set, or of the molecules in a file; nothing if the source has no ids."""
    return given_ids(path) if graphs is None or graphs.graph_ids is None else iter(graphs.graph_ids)


def id_at(path: Path, number: int, graphs: GraphSet | None = None) -> str:
    """Return the id of the graph at a position; empty if it has none."""
    return next(islice(graph_ids(path, graphs), number, None), "")


def column_names(graphs: GraphSet, featurizer: dict[str, Any] | None) -> Sequence[str]:
    """Return the names of the node label columns; empty if they have none."""
    if featurizer is not None:
        return [str(column["name"]) for column in featurizer["atoms"]]
    return graphs.column_names.get("category", ())


@dataclass(frozen=True, eq=False)
class Explanation:
    """One graph and its trace."""

    number: int
    """The graph's position in its set, counted from 0."""
    graph: GraphSet
    """A set of this graph alone."""
    trace: Trace
    method: str
    """The title of the model's method."""
    outputs: Names
    """[O] the names of the classes or target columns of the model."""
    molecule: "Chem.Mol | None" = None
    """The graph as an RDKit molecule, if it is one and RDKit is installed."""
    id: str = ""
    """The graph's id in its source, if it has one."""
    scale: Scale | None = None
    """The colours of the score that nodes are ranked by; None for a method without scores."""
    node_names: Sequence[str] = ()
    """[n] the names of the nodes in their source; empty if they have none."""
    columns: Sequence[str] = ()
    """The names of the node label columns; empty if they have none."""
    task: str = "classification"
    target: int = 0
    """The target column that the verdict is about, for a model with target columns."""

    @property
    def name(self) -> str:
        """Data set, position and id of the graph."""
        return excerpt(f"graph {self.number} of {self.graph.name}" + (f" (id {self.id})" if self.id else ""))

    @property
    def predictions(self) -> dict[str, float]:
        """The probability of each class or label, or the value of each target, by name."""
        return dict(zip(self.outputs, self.trace.predictions[0].tolist(), strict=True))

    @property
    def true_class(self) -> str | None:
        """The true class of the graph, if the model knows it."""
        if self.task != "classification" or self.graph.targets is not None or not self.graph.is_labelled:
            return None
        own = self.graph.class_names[int(self.graph.y[0])]
        return own if own in self.outputs else None

    @property
    def measured(self) -> dict[str, float]:
        """The known target values of the graph by name of column."""
        if self.graph.targets is None:
            return {}
        values = zip(self.graph.target_names, self.graph.targets[0].tolist(), strict=True)
        return {name: value for name, value in values if value == value and name in self.outputs}

    @property
    def nodes_word(self) -> str:
        """The word for a node: "node" or "atom"."""
        return "node" if self.molecule is None else "atom"

    @property
    def edges_word(self) -> str:
        """The word for an edge: "edge" or "bond"."""
        return "edge" if self.molecule is None else "bond"

    @property
    def size(self) -> str:
        """The number of nodes and edges as text."""
        return f"{counted(self.graph.n_nodes, self.nodes_word)}, {counted(len(self.edges), self.edges_word)}"

    @property
    def prediction(self) -> tuple[str, float]:
        """The most probable class and its probability, or the name of the target column and its prediction."""
        if self.task != "classification":
            name = self.outputs[self.target]
            return name, self.predictions[name]
        return max(self.predictions.items(), key=lambda pair: pair[1])

    @property
    def verdict(self) -> str:
        """The prediction as a sentence."""
        guess, value = self.prediction
        if self.task == "classification":
            true = "" if self.true_class is None else f"; true class: {self.true_class}"
            return excerpt(f"{self.method} predicts {guess} (probability {value:.2f}){true}")
        known = f"; measured: {self.measured[guess]:.4g}" if guess in self.measured else ""
        found = f"{guess} = {value:.4g}" if self.task == "regression" else f"{guess} with probability {value:.2f}"
        return excerpt(f"{self.method} predicts {found}{known}")

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """[m, 2] the edges, each once."""
        return edges_of(self.graph)

    @property
    def nodes_left(self) -> list[int]:
        """[L] number of nodes left after each level."""
        return self.trace.alive.sum(1).tolist()

    @property
    def edges_left(self) -> list[int]:
        """[L] number of edges between the nodes left after each level."""
        return edges_left(self.graph, self.trace.alive)[:, 0].tolist()

    @cached_property
    def labels(self) -> list[str]:
        """[n] the elements of the atoms of a molecule, otherwise the node labels with their column names."""
        if self.molecule is not None:
            return [atom.GetSymbol() for atom in self.molecule.GetAtoms()]
        codes = self.graph.category
        if codes is None:
            return [""] * self.graph.n_nodes
        values = self.graph.category_names
        titles = [f"{column} " for column in self.columns] or [""] * len(values)
        rows = (", ".join(titles[j] + values[j][code] for j, code in enumerate(row)) for row in codes.tolist())
        return list(map(excerpt, rows))

    @cached_property
    def dropped(self) -> list[int]:
        """[n] the level that dropped each node, counted from 1; 0 for nodes kept to the end."""
        return self.trace.dropped.tolist()

    def node_name(self, node: int) -> str:
        """The position of a node and, if it has one, its name."""
        return f"{self.nodes_word} {node}" + (f" ({self.node_names[node]})" if self.node_names else "")

    def alive(self, level: int) -> NDArray[np.bool_]:
        """[n] whether each node is left after a level; level 0 is the input."""
        return self.trace.alive[level - 1] if level else np.ones(self.graph.n_nodes, bool)

    def colour(self, level: int, node: int) -> str:
        """The colour of a node that a level keeps."""
        return PLAIN if self.scale is None or not level else self.scale.colour(self.trace.score[level - 1, node])

    def caption(self, level: int) -> str:
        """A short description of what is left after a level; level 0 is the input."""
        if not level:
            return f"Input: {self.size}"
        return f"Level {level}: {self.nodes_left[level - 1]} of {counted(self.graph.n_nodes, self.nodes_word)} kept"

    def at_level(self, level: int) -> str:
        """A description of what a level keeps and drops; level 0 is the input."""
        if not level:
            return f"Input: {self.size}"
        dropped = self.graph.n_nodes - self.nodes_left[level - 1]
        edges = f"{self.edges_left[level - 1]} of {counted(len(self.edges), self.edges_word)} left"
        return f"{self.caption(level)}, {dropped} dropped; {edges}"

    @property
    def about_colours(self) -> str:
        """A note that explains the colours."""
        if self.scale is None:
            return f"Coloured: kept {self.nodes_word}s. {self.method} reports no scores."
        return f"Coloured: kept {self.nodes_word}s. {self.scale.meaning} {self.scale.span}"

    def best(self, level: int, count: int) -> list[int]:
        """At most `count` nodes that a level keeps, highest score first; in input order if there are no scores."""
        kept = np.flatnonzero(self.trace.alive[level])
        score = np.nan_to_num(self.trace.score[level, kept])
        return kept[np.argsort(-score, kind="stable")][:count].tolist()


def explain_graph(
    model: FittedModel, graphs: GraphSet, number: int, member: int = 0, target: str | None = None
) -> Explanation:
    """Explain what a member of a model does to the graph at this position, counted from 0. `target` names the target
    column of the verdict, by default the first."""
    column = target_of(model, target)
    if not 0 <= number < graphs.n_graphs:
        raise UserError(f"there is no graph {number}; {graphs.name} has {graphs.n_graphs:,}, numbered from 0")
    graph = _checked(graphs, number)
    if not graph.n_nodes:
        raise UserError(f"graph {number} of {graphs.name} has no nodes")
    # `predict` numbers the graphs of each chunk from 0; the explanation must match its prediction.
    found = trace(model, graph, member, first=number % CHUNK)
    if found.unsure.any():
        raise UserError(f"graph {number} of {graphs.name}: {NOT_FINITE}")
    title = method_named(model.method).title
    if len(model.members) > 1:
        title += f", member {member} of {len(model.members)}"
    (network,) = member_of(model, member).networks
    assert isinstance(network, Network)  # others cannot be traced
    return Explanation(
        number,
        graph,
        found,
        title,
        model.task.columns,
        None if model.featurizer is None else _molecule(graph),
        scale=scale_of(network.pools[0], found),
        node_names=list(map(excerpt, node_names(graph))),
        columns=column_names(graph, model.featurizer),
        task=model.task_name,
        target=column,
    )


def explain_at(
    model: FittedModel, path: str | Path, which: str | int, member: int = 0, target: str | None = None
) -> Explanation:
    """Explain what a member of a model does to one graph of a data set, or to one row of a table of SMILES.

    A string is the graph's id or, if no graph has that id, its position counted from 0; a number is its position.
    """
    place = Path(path)
    graphs = None if is_table(place) else open_graphs(path)
    number = position_of(path, which) if isinstance(which, str) else which
    if graphs is not None:
        check_featurizer(model, graphs, path)
        return replace(explain_graph(model, graphs, number, member, target), id=id_at(place, number, graphs))
    first = max(number, 0) // CHUNK * CHUNK
    chunk = next(chunks_of(path, model, None, first, number + 1), None)
    at = number - first
    if chunk is None or not 0 <= at < len(chunk.ids):
        raise UserError(f"there is no graph {number}; {path} has {counted(count_of(path), 'row')}, numbered from 0")
    if chunk.graphs is None or at in chunk.reasons:
        raise UserError(f"graph {number} of {path} (id {chunk.ids[at]}): {chunk.reasons[at]}")
    before = sum(other < at for other in chunk.reasons)
    found = explain_graph(model, replace(chunk.graphs, name=place.stem), at - before, member, target)
    return replace(found, number=number, id=id_at(place, number))


def _molecule(graph: GraphSet) -> "Chem.Mol | None":
    try:
        from cgipool.explain.molecule import molecule_of
    except (UserError, ImportError):  # without RDKit, a molecule is drawn as a plain graph
        return None
    return molecule_of(graph)


def _checked(graphs: GraphSet, number: int) -> GraphSet:
    """Return one graph, or raise UserError if its arrays are inconsistent. Sets on disk are not checked when opened."""
    try:
        return replace(graphs.subset([number]), checked=False)
    except (ValueError, IndexError, OverflowError) as error:
        raise UserError(f"graph {number} of {graphs.name}: the arrays do not fit together ({error})") from None
