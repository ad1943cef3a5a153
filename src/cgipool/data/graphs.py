"""GraphSet: a whole data set of graphs as a few flat arrays.

Shapes: G graphs, N nodes and E stored edges of the whole set (an undirected edge is stored twice), K node label
columns, D float columns; Ke and De the same for edges. NumPy is all that is needed to hold, check, cut, save and load a
set.
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
from cgipool.data.targets import checked_targets, replaced_targets

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False, repr=False)
class GraphSet:
    """A set of graphs, concatenated; every edge is stored in both directions.

    The nodes of graph g are `node_ptr[g]` up to `node_ptr[g + 1]`, the edges of node p are `edge_ptr[p]` up to
    `edge_ptr[p + 1]`. Edge e of node p leads to node `p + edge_disp[e]`; displacements do not change when a graph is
    moved. Rows are sorted, without repeats and self-loops. The arrays are checked when the set is built; invalid arrays
    raise a `UserError` that names the broken rule.
    """

    name: str
    """The name of the set in tables and messages."""
    node_ptr: NDArray[np.int64]
    """[G + 1] first node of each graph."""
    edge_ptr: NDArray[np.int64]
    """[N + 1] first edge of each node."""
    edge_disp: NDArray[np.int32]
    """[E] target node minus source node."""
    y: NDArray[np.int64]
    """[G] class of each graph, an index into `class_names`; −1 for all graphs of a set without known classes."""
    class_names: Names
    """The names of the classes in the source; empty if the classes are unknown."""
    category: NDArray[np.int32] | None = None
    """[N, K] node labels; column j indexes `category_names[j]`."""
    category_names: tuple[Names, ...] = ()
    """For each node label column, the names of its values in the source."""
    attributes: NDArray[np.float32] | None = None
    """[N, D] float columns of the nodes."""
    edge_weight: NDArray[np.float32] | None = None
    """[E] one weight per stored edge."""
    edge_category: NDArray[np.int32] | None = None
    """[E, Ke] edge labels; column j indexes `edge_category_names[j]`."""
    edge_category_names: tuple[Names, ...] = ()
    """For each edge label column, the names of its values in the source."""
    edge_attributes: NDArray[np.float32] | None = None
    """[E, De] float columns of the edges."""
    node_truth: NDArray[np.bool_] | None = None
    """[N] which nodes decide the class, if that is known (generated sets)."""
    graph_ids: Texts | None = None
    """[G] the ids of the graphs in the source, empty for graphs without one. Accepts any sequence of strings."""
    node_names: Texts | None = None
    """[N] the names of the nodes in the source. Accepts any sequence of strings."""
    column_names: dict[str, Names] = field(default_factory=dict)
    """The column names in the source, of category, attributes, edge_category, edge_attributes, targets and table."""
    featurizer: dict[str, Any] | None = None
    """How SMILES were converted to these graphs, from `MoleculeFeaturizer.to_json`; None for other sets."""
    task: str = "classification"
    """What is predicted for a graph: "classification" (its class `y`), "regression" or "multilabel" (its `targets`)."""
    targets: NDArray[np.float64] | None = None
    """[G, T] target columns of regression or multi-label tasks; NaN where a value is missing."""
    table: Texts | None = None
    """[G · K] the fields of K further columns of the source, graph by graph. `column` returns one of them."""
    directed: bool = False
    """Whether edges have a direction. Every edge is stored in both directions even then; a direction that does not
    exist has weight 0."""
    dropped: dict[str, int] = field(default_factory=dict)
    """What was changed when the source was read, as counts: "self-loops" and "repeated edges" that were removed,
    "one-way edges completed"."""
    checked: InitVar[bool] = False
    """True skips the checks, for arrays that have passed them before."""

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
        """The graph with this number, or the graphs of a slice, a list of numbers or a mask, as a set."""
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
        """N, the number of nodes of all graphs."""
        return len(self.edge_ptr) - 1

    @property
    def n_edges(self) -> int:
        """E, the number of stored edges: twice the number of undirected edges."""
        return len(self.edge_disp)

    @property
    def n_classes(self) -> int:
        """The number of class names; a class may be empty."""
        return len(self.class_names)

    @property
    def is_labelled(self) -> bool:
        """Whether the classes or targets are known. Other graphs can be predicted and explained, not learned from."""
        return self.n_classes > 0 or self.targets is not None

    @property
    def family(self) -> str:
        """The kind of graphs: the catalogue's, by name; for other names "molecules" or "social"."""
        return family_of(self.name, labelled=self.category is not None)

    @property
    def has_own_attributes(self) -> bool:
        """Whether nodes have attributes and the set is not in the catalogue, so no protocol says to ignore them."""
        return self.attributes is not None and self.name not in CATALOGUE

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """[G] the number of nodes of each graph."""
        return np.diff(self.node_ptr)

    @cached_property
    def degree(self) -> NDArray[np.int64]:
        """[N] the number of neighbours of each node."""
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
        """Build a set from edge lists in any order, with self-loops, repeats and one-way edges.

        `sizes` [G] are the numbers of nodes of the graphs; `source` and `target` number the nodes of the whole set from
        0. Self-loops and repeats (after the first) are removed, and a missing reverse edge is added with the columns of
        its edge; `dropped` counts all three. With `directed`, an added reverse has weight 0. All other fields of a
        GraphSet are keyword arguments.
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
        """The graphs `ids`, in that order. The names of all classes and categories are kept."""
        chosen = check.graph_ids(self, ids)
        # Read only what is needed: the arrays may be memory-mapped and larger than memory.
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
        """Yield consecutive ranges of graphs (first, last + 1), each with about `size` nodes and edges."""
        load = self.node_ptr[1:] + self.edge_ptr[self.node_ptr[1:]]
        cuts = np.searchsorted(load, np.arange(size, load[-1] if len(load) else 0, size))
        yield from pairwise(np.unique(np.concatenate([[0], cuts, [self.n_graphs]])).tolist())

    @property
    def is_mapped(self) -> bool:
        """Whether the arrays are memory-mapped and may be larger than memory."""
        return isinstance(self.edge_ptr, np.memmap)

    @classmethod
    def join(cls, sets: Sequence["GraphSet"], name: str | None = None) -> "GraphSet":
        """Concatenate sets. They must have the same columns and names."""
        return join.join(sets, name)

    def relabelled(self, y: ArrayLike, class_names: Names) -> "GraphSet":
        """The same graphs with other classes: y [G] are indices into `class_names`."""
        labels = build.whole("y", y)
        named = {what: names for what, names in self.column_names.items() if what != "targets"}
        plain: dict[str, Any] = {"task": "classification", "targets": None, "column_names": named}
        return replace(self, y=labels, class_names=class_names, **plain, checked=False)

    def with_targets(
        self, targets: ArrayLike, names: Sequence[str] | None = None, task: str | None = None
    ) -> "GraphSet":
        """The same graphs with target columns [G] or [G, T] instead of classes; NaN means a missing value.

        Without `task`, two or more columns that contain only 0 and 1 are a multi-label task; all others are regression.
        """
        return replaced_targets(self, *checked_targets(self, targets, names), task)

    @property
    def target_names(self) -> Names:
        """The names of the target columns; "target 0", "target 1", … if the source has none."""
        count = 0 if self.targets is None else self.targets.shape[1]
        return self.column_names.get("targets") or tuple(f"target {column}" for column in range(count))

    def column(self, name: str) -> list[str]:
        """[G] the fields of a further column of the source; empty where a graph has none."""
        return further.column(self, name)

    def save(self, folder: str | Path) -> None:
        """Write the set to a folder of .npy files and `graphset.json`. If this fails, the folder is unchanged."""
        store.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, mmap: bool = False, checked: bool | None = None) -> "GraphSet":
        """Read a saved set. With `mmap`, the arrays are memory-mapped.

        The checks read all data, so they are skipped for memory-mapped arrays unless `checked` is False.
        """
        return cls(**store.load(Path(folder), mmap), checked=mmap if checked is None else checked)

    @classmethod
    def from_pyg(cls, graphs: Sequence["Data"], name: str, **names: Any) -> "GraphSet":
        """Convert PyG `Data` objects. `cgipool.data.convert_pyg` describes the keys."""
        from cgipool.data import convert_pyg

        return convert_pyg.from_pyg(graphs, name, **names)

    def to_pyg(self) -> list["Data"]:
        """Convert to PyG `Data` objects. `from_pyg` restores the same set.

        `x` contains the one-hot labels and the attributes of the nodes as floats. For nodes with neither it contains
        the one-hot degree, with a column for every degree up to the maximum of this set.
        """
        from cgipool.data import convert_pyg

        return convert_pyg.to_pyg(self)

    @classmethod
    def from_networkx(cls, graphs: Sequence["networkx.Graph"], name: str, **names: Any) -> "GraphSet":
        """Convert networkx graphs. `cgipool.data.convert_networkx` describes the keys."""
        from cgipool.data import convert_networkx

        return convert_networkx.from_networkx(graphs, name, **names)

    def to_networkx(self) -> list["networkx.Graph"]:
        """Convert to networkx graphs. `from_networkx` restores the same set."""
        from cgipool.data import convert_networkx

        return convert_networkx.to_networkx(self)
