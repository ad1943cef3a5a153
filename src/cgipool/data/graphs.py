"""GraphSet: a whole data set of graphs as a few flat arrays.

Shapes: G graphs, N nodes and E stored edges of the whole set (an undirected edge is stored twice), K node label
columns, D float columns; Ke and De the same for edges. Only NumPy is needed to hold, check, cut, save and load a set.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cgipool.data import build, check, further, join, store
from cgipool.data.catalogue import CATALOGUE, family_of
from cgipool.data.names import Names, Texts

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False, repr=False)
class GraphSet:
    """Graphs laid end to end, every edge in both directions.

    Graph g owns the nodes from `node_ptr[g]` up to `node_ptr[g + 1]`, node p the edges from `edge_ptr[p]` up to
    `edge_ptr[p + 1]`. Edge e of node p leads to node `p + edge_disp[e]`; a displacement stays true wherever the graph
    is moved. Rows are sorted, without repeats and self-loops. The arrays are checked when the set is built; a broken
    rule is a `UserError` that names it.
    """

    name: str
    """What the set is called in tables and messages."""
    node_ptr: NDArray[np.int64]
    """[G + 1] first node of each graph."""
    edge_ptr: NDArray[np.int64]
    """[N + 1] first edge of each node."""
    edge_disp: NDArray[np.int32]
    """[E] target node minus source node."""
    y: NDArray[np.int64]
    """[G] class of each graph, an index into `class_names`; −1 for all graphs of a set without known classes."""
    class_names: Names
    """The classes as the source names them; none where the classes are not known."""
    category: NDArray[np.int32] | None = None
    """[N, K] node labels; column j indexes `category_names[j]`."""
    category_names: tuple[Names, ...] = ()
    """Per node label column, its values as the source names them."""
    attributes: NDArray[np.float32] | None = None
    """[N, D] float columns of the nodes."""
    edge_weight: NDArray[np.float32] | None = None
    """[E] one weight per stored edge."""
    edge_category: NDArray[np.int32] | None = None
    """[E, Ke] edge labels; column j indexes `edge_category_names[j]`."""
    edge_category_names: tuple[Names, ...] = ()
    """Per edge label column, its values as the source names them."""
    edge_attributes: NDArray[np.float32] | None = None
    """[E, De] float columns of the edges."""
    node_truth: NDArray[np.bool_] | None = None
    """[N] which nodes decide the class, where that is known (generated sets)."""
    graph_ids: Texts | None = None
    """[G] what the source calls the graphs, empty where it gives one no id. Any sequence of texts may be given."""
    node_names: Texts | None = None
    """[N] what the source calls the nodes. Any sequence of texts may be given."""
    column_names: dict[str, Names] = field(default_factory=dict)
    """What the source calls the columns of category, attributes, edge_category, edge_attributes, targets and table."""
    featurizer: dict[str, Any] | None = None
    """How raw inputs (SMILES) became these graphs, as `MoleculeFeaturizer.to_json` gives it; None for other sets."""
    task: str = "classification"
    """What is predicted for a graph: "classification" (its class `y`), "regression" or "multilabel" (its `targets`)."""
    targets: NDArray[np.float64] | None = None
    """[G, T] target columns of regression or multi-label tasks; NaN where a value is missing."""
    table: Texts | None = None
    """[G · K] the fields of K further columns of the source, graph by graph. `column` gives one of them."""
    directed: bool = False
    """Whether edges have a direction. Every edge is stored both ways all the same; the weight of a way that does not
    exist is 0."""
    dropped: dict[str, int] = field(default_factory=dict)
    """How this differs from its source, by name: "self-loops", "repeated edges", "one-way edges completed"."""
    checked: InitVar[bool] = False
    """True skips the checks: for arrays that passed them before."""

    def __post_init__(self, checked: bool) -> None:
        for name in check.TEXTS:
            if (texts := getattr(self, name)) is not None:
                object.__setattr__(self, name, Texts.of(texts))
        if not checked:
            check.check(self)

    def __repr__(self) -> str:
        return f"GraphSet({self.name!r}, graphs={self.n_graphs}, nodes={self.n_nodes}, edges={self.n_edges // 2})"

    def __len__(self) -> int:
        return self.n_graphs

    def __getitem__(self, which: int | slice | NDArray[Any] | Sequence[int]) -> "GraphSet":
        """A set of one graph by its number, or of several by numbers or a mask, as scikit-learn's splitters ask."""
        if isinstance(which, int | np.integer):
            if not -self.n_graphs <= which < self.n_graphs:
                raise IndexError(f"{self.name} has {self.n_graphs} graphs")
            return self.subset([int(which) % self.n_graphs])
        return self.subset(np.arange(self.n_graphs)[list(which) if isinstance(which, tuple) else which])

    @property
    def n_graphs(self) -> int:
        """G."""
        return len(self.y)

    @property
    def n_nodes(self) -> int:
        """N, the nodes of all graphs."""
        return len(self.edge_ptr) - 1

    @property
    def n_edges(self) -> int:
        """E, the stored entries: twice the undirected edges."""
        return len(self.edge_disp)

    @property
    def n_classes(self) -> int:
        """The number of classes that have a name, whether or not a graph is in each."""
        return len(self.class_names)

    @property
    def is_labelled(self) -> bool:
        """Whether the classes are known. Graphs without can be predicted and explained, not learned from."""
        return self.n_classes > 0 or self.targets is not None

    @property
    def family(self) -> str:
        """What kind of graphs these are taken for: molecules, social, or what the catalogue says of their name."""
        return family_of(self.name, labelled=self.category is not None)

    @property
    def has_own_attributes(self) -> bool:
        """Whether nodes have attributes that the paper's protocol says nothing of: in sets outside the catalogue."""
        return self.attributes is not None and self.name not in CATALOGUE

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """[G] nodes of each graph."""
        return np.diff(self.node_ptr)

    @cached_property
    def degree(self) -> NDArray[np.int64]:
        """[N] neighbours of each node."""
        return np.diff(self.edge_ptr)

    @property
    def node_graph(self) -> NDArray[np.int64]:
        """[N] the graph that each node is in."""
        return np.repeat(np.arange(self.n_graphs), self.sizes)

    @property
    def edge_source(self) -> NDArray[np.int64]:
        """[E] the node that each edge leaves."""
        return np.repeat(np.arange(self.n_nodes), self.degree)

    @classmethod
    def from_edges(
        cls,
        name: str,
        sizes: ArrayLike,
        source: ArrayLike,
        target: ArrayLike,
        y: ArrayLike,
        *,
        class_names: Names | None = None,
        edge_weight: NDArray[Any] | None = None,
        edge_category: NDArray[Any] | None = None,
        edge_attributes: NDArray[Any] | None = None,
        directed: bool = False,
        **node_columns: Any,
    ) -> "GraphSet":
        """A set from edge lists in any order, with self-loops, repeats and one-way edges.

        `sizes` [G] are the nodes of each graph; `source` and `target` number the nodes of the whole set from 0. Loops
        and repeats (the first stays) are taken out, a missing reverse is added with its edge's columns, and `dropped`
        counts all three. With `directed`, such a reverse has weight 0. Any other field of a GraphSet may be given by
        name.
        """
        labels = build.whole("y", y)
        node_ptr = build.pointer(build.whole("sizes", sizes))
        ends = np.asarray(source), np.asarray(target)
        if directed and edge_weight is None:
            edge_weight = np.ones(len(ends[0]), np.float32)
        columns = (edge_weight, edge_category, edge_attributes)
        edges = build.coalesce(int(node_ptr[-1]), *ends, *columns, directed=directed)
        weight, category, attributes = edges.columns
        if directed and weight is not None and edges.added is not None:
            weight = np.where(edges.added, np.float32(0.0), weight)
        if class_names is None:
            class_names = tuple(map(str, range(int(labels.max(initial=-1)) + 1)))
        return cls(
            name,
            node_ptr,
            edges.ptr,
            edges.disp,
            labels,
            class_names,
            edge_weight=weight,
            edge_category=category,
            edge_attributes=attributes,
            dropped=edges.dropped,
            directed=directed,
            **node_columns,
        )

    def subset(self, ids: Iterable[int] | NDArray[Any]) -> "GraphSet":
        """The graphs `ids`, in that order, with the names of all classes and categories kept."""
        chosen = check.graph_ids(self, ids)
        # Only what is asked for is touched: the arrays may lie on disk, and be far larger than memory.
        sizes = np.asarray(self.node_ptr[chosen + 1] - self.node_ptr[chosen])
        nodes = build.ranges(self.node_ptr[chosen], sizes)
        degree = np.asarray(self.edge_ptr[nodes + 1] - self.edge_ptr[nodes])
        edges = build.ranges(self.edge_ptr[nodes], degree)

        def cut(values: NDArray[Any] | None, where: NDArray[np.int64]) -> NDArray[Any] | None:
            return None if values is None else values[where]

        return GraphSet(
            self.name,
            build.pointer(sizes),
            build.pointer(degree),
            self.edge_disp[edges],
            self.y[chosen],
            self.class_names,
            category=cut(self.category, nodes),
            category_names=self.category_names,
            attributes=cut(self.attributes, nodes),
            edge_weight=cut(self.edge_weight, edges),
            edge_category=cut(self.edge_category, edges),
            edge_category_names=self.edge_category_names,
            edge_attributes=cut(self.edge_attributes, edges),
            node_truth=cut(self.node_truth, nodes),
            graph_ids=None if self.graph_ids is None else self.graph_ids.take(chosen),
            node_names=None if self.node_names is None else self.node_names.take(nodes),
            column_names=self.column_names,
            featurizer=self.featurizer,
            task=self.task,
            directed=self.directed,
            targets=cut(self.targets, chosen),
            table=None if self.table is None else further.rows_of(self.table, len(further.names_of(self)), chosen),
            checked=True,
        )

    def stretches(self, size: int) -> Iterator[tuple[int, int]]:
        """First graph and the one after the last of consecutive stretches, each of about `size` nodes and edges."""
        load = self.node_ptr[1:] + self.edge_ptr[self.node_ptr[1:]]
        cuts = np.searchsorted(load, np.arange(size, load[-1] if len(load) else 0, size))
        yield from pairwise(np.unique(np.concatenate([[0], cuts, [self.n_graphs]])).tolist())

    @property
    def is_mapped(self) -> bool:
        """Whether the arrays lie on disk and may be larger than memory."""
        return isinstance(self.edge_ptr, np.memmap)

    @classmethod
    def join(cls, sets: Sequence["GraphSet"], name: str | None = None) -> "GraphSet":
        """The graphs of several sets, one set after another; they must have the same columns and names."""
        return join.join(sets, name)

    def relabelled(self, y: ArrayLike, class_names: Names) -> "GraphSet":
        """The same graphs with other classes, y [G] of codes into the names."""
        labels = build.whole("y", y)
        named = {what: names for what, names in self.column_names.items() if what != "targets"}
        plain: dict[str, Any] = {"task": "classification", "targets": None, "column_names": named}
        return replace(self, y=labels, class_names=class_names, **plain, checked=False)

    def with_targets(self, targets: ArrayLike, names: Names | None = None, task: str | None = None) -> "GraphSet":
        """The same graphs with target columns [G] or [G, T] instead of classes; NaN means a missing value.

        Without `task`, columns that hold only 0 and 1 are a multi-label task if there are several, and regression
        otherwise.
        """
        values = np.asarray(targets, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if task is None:
            binary = values.shape[1] > 1 and np.isin(values[~np.isnan(values)], (0.0, 1.0)).all()
            task = "multilabel" if binary else "regression"
        named = {what: known for what, known in self.column_names.items() if what != "targets"}
        named |= {} if names is None else {"targets": tuple(names)}
        unknown = np.full(self.n_graphs, -1, np.int64)
        changes: dict[str, Any] = {
            "task": task,
            "targets": values,
            "column_names": named,
            "y": unknown,
            "class_names": (),
        }
        return replace(self, **changes, checked=False)

    @property
    def target_names(self) -> Names:
        """The names of the target columns; "target 0", "target 1", … where the source gives none."""
        count = 0 if self.targets is None else self.targets.shape[1]
        return self.column_names.get("targets") or tuple(f"target {column}" for column in range(count))

    def column(self, name: str) -> list[str]:
        """[G] the fields of a further column of the source; empty where the source has none."""
        return further.column(self, name)

    def save(self, folder: str | Path) -> None:
        """Write the set as a folder of .npy files and `graphset.json`; the folder appears whole or not at all."""
        store.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, mmap: bool = False, checked: bool | None = None) -> "GraphSet":
        """Read a saved set; with `mmap` the arrays stay on disk and only what is touched is read.

        Checking reads everything, so it is left out for memory-mapped arrays unless `checked=False` asks for it.
        """
        return cls(**store.load(Path(folder), mmap), checked=mmap if checked is None else checked)

    @classmethod
    def from_pyg(cls, graphs: Sequence["Data"], name: str, **names: Any) -> "GraphSet":
        """A set from PyG `Data` objects; see `cgipool.data.convert_pyg` for the keys."""
        from cgipool.data import convert_pyg

        return convert_pyg.from_pyg(graphs, name, **names)

    def to_pyg(self) -> list["Data"]:
        """The graphs as PyG `Data` objects; `from_pyg` takes them back without loss.

        `x` holds the one-hot labels and the attributes of the nodes as floats; of nodes with neither, the one-hot
        degree, with a column for every degree up to the largest of this set.
        """
        from cgipool.data import convert_pyg

        return convert_pyg.to_pyg(self)

    @classmethod
    def from_networkx(cls, graphs: Sequence["networkx.Graph"], name: str, **names: Any) -> "GraphSet":
        """A set from networkx graphs; see `cgipool.data.convert_networkx` for the keys."""
        from cgipool.data import convert_networkx

        return convert_networkx.from_networkx(graphs, name, **names)

    def to_networkx(self) -> list["networkx.Graph"]:
        """The graphs as networkx graphs; `from_networkx` takes them back without loss."""
        from cgipool.data import convert_networkx

        return convert_networkx.to_networkx(self)
