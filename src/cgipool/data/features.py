"""The input features of a model: category columns of one joint one-hot input, and standardised float columns.

The one-hot matrix is never built (COLLAB's would need 0.7 GB): a model looks up one row of weights per column number.
For a memory-mapped set, no array over all nodes is kept in memory. Shapes: N nodes, E stored edges, K category columns
(1 for degrees), D float columns.
"""

from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cgipool.data.check import column_name, graph_ids
from cgipool.data.columns import (
    Codes,
    Columns,
    Rows,
    check_source_names,
    columns_read,
    edge_stretches,
    known,
    moments,
    node_codes,
    node_stretches,
    other_width,
    side_by_side,
    source_names,
)
from cgipool.data.descriptors import Descriptors
from cgipool.data.encoded import EdgeEncoder, Inputs, fitted_in, inputs_of
from cgipool.data.graphs import GraphSet
from cgipool.data.names import Names
from cgipool.data.structure import COMMON, float_columns, wl_colours
from cgipool.errors import UserError, counted, unknown

SOURCES = ("auto", "label", "degree", "label+degree")
VOCABULARIES = ("train", "all")


@dataclass(frozen=True)
class Encoder(Columns):
    """A fixed map from nodes (and edges) to inputs, fitted on the training graphs of one split.

    The columns are the values of the whole data set in sorted order, so all splits have the same number of columns.
    With vocabulary "train", each label column has an additional column "other" for values that do not occur in the
    training graphs, in test graphs and in new data. With "all", as in the authors' released code, every value of the
    set has its own column, trained or not, and there is no "other".
    """

    source: str
    """"label", "degree" or "label+degree"."""
    vocabulary: str
    """"train" or "all"."""
    values: tuple[Names, ...]
    """For each category column, the values that have a column."""
    seen: tuple[tuple[bool, ...], ...]
    """For each value of each category column, whether it uses its own column; otherwise it uses "other"."""
    mean: tuple[float, ...] | None = None
    """Mean of each float column (attributes, return probabilities, Laplacian encodings) over the training nodes."""
    scale: tuple[float, ...] | None = None
    """Standard deviation of each float column over the training nodes; 1 where it is 0."""
    edges: EdgeEncoder | None = None
    """The encoder of the edges; None where edges are not read or have neither labels nor attributes."""
    wl: int = 0
    """Rounds of Weisfeiler–Lehman refinement, whose colours are the last category columns. A colour that occurs in
    fewer than `COMMON` graphs of the set is merged into "other", which these columns have with both vocabularies."""
    merged: tuple[bool, ...] = ()
    """For each round, whether any training node is in "other"."""
    rwse: int = 0
    """Steps of the random walk (RWSE). The return probabilities are float columns after the attributes."""
    reads: Names = ()
    """Names of the node label columns to read; empty if all are read by position."""
    lappe: int = 0
    """Number of Laplacian eigenvectors, the last float columns."""
    called: tuple[Names, Names] = ((), ())
    """The source's names of the node label columns and attribute columns."""
    descriptors: Descriptors | None = None
    """The encoder of graph-level descriptors."""

    @classmethod
    def fit(
        cls,
        graphs: GraphSet,
        train_ids: NDArray[Any] | None = None,
        *,
        source: str = "auto",
        vocabulary: str = "train",
        attributes: bool = False,
        edges: bool = False,
        wl: int = 0,
        rwse: int = 0,
        lappe: int = 0,
        featurizer: str = "auto",
        descriptors: Names = (),
        impute: str = "none",
        rdkit_descriptors: bool = False,
        fingerprints: int = 0,
    ) -> "Encoder":
        """Fit an encoder: the columns come from all of `graphs`, vocabulary and statistics from `train_ids` (default:
        all graphs). With `edges`, edge labels and attributes are encoded too. `Recipe` describes the other options."""
        if source not in SOURCES:
            raise unknown("feature source", source, SOURCES)
        if vocabulary not in VOCABULARIES:
            raise unknown("vocabulary", vocabulary, VOCABULARIES)
        if source == "auto":
            source = "degree" if graphs.category is None else "label"
        ids = graph_ids(graphs, train_ids)
        reads, edge_reads = columns_read(graphs, featurizer)
        reads = () if source == "degree" else reads
        fitted: dict[str, Any] = _fit_categories(graphs, ids, source, vocabulary, reads, wl)
        values = float_columns(graphs, attributes, rwse, lappe)
        if values is not None:
            nothing = f"{graphs.name}: no training nodes to standardise the attributes by"
            fitted["mean"], fitted["scale"] = moments(values, lambda: node_stretches(graphs, ids), nothing)
        if edges and (graphs.edge_category is not None or graphs.edge_attributes is not None):
            fitted["edges"] = EdgeEncoder.fit(graphs, ids, vocabulary=vocabulary, reads=edge_reads)
        if descriptors or rdkit_descriptors or fingerprints:
            fitted["descriptors"] = Descriptors.fit(
                graphs, ids, descriptors, impute == "mean", rdkit_descriptors, fingerprints
            )
        return cls(
            source, vocabulary, **fitted, wl=wl, rwse=rwse, reads=reads, lappe=lappe, called=source_names(graphs)
        )

    def _has_other(self, j: int) -> bool:
        return super()._has_other(j) or j >= len(self.values) - self.wl

    @property
    def others(self) -> tuple[int, ...]:
        """The "other" columns that no training node uses."""
        trained = [not merged for merged in self.merged]
        others = super().others
        return (*others[: len(others) - self.wl], *compress(others[len(others) - self.wl :], trained))

    def encode(self, graphs: GraphSet) -> Inputs:
        """The inputs of these graphs, which may come from another set than the fitted one."""
        if reasons := self.unencodable(graphs):
            raise UserError(f"{graphs.name}: {reasons[min(reasons)]}")
        category = self.categories(self._codes(graphs), graphs.n_nodes)
        edges = None if self.edges is None else self.edges.encode(graphs)
        made = inputs_of(graphs, category, self.columns, self._floats(graphs), edges)
        return made if self.descriptors is None else replace(made, descriptors=self.descriptors.encode(graphs))

    def unencodable(self, graphs: GraphSet) -> dict[int, str]:
        """For each graph that cannot be encoded, its number and the reason: a label or degree without a column, where
        there is no "other", or a descriptor that is missing or not a number."""
        reasons = {} if self.descriptors is None else self.descriptors.problems(graphs)
        return reasons if self.vocabulary == "train" else self._without_column(graphs) | reasons

    def _without_column(self, graphs: GraphSet) -> dict[int, str]:
        what = "degree" if self.source == "degree" else "node label"
        called = () if self.source == "degree" else self.reads or graphs.column_names.get("category", ())
        if self.source == "label+degree":
            called = (*(called or map(str, range(len(graphs.category_names)))), "degree")
        reasons = self._missing(graphs, self, self._codes(graphs), what, called)
        if self.edges is not None:
            called = self.edges.reads or graphs.column_names.get("edge_category", ())
            reasons = self._missing(graphs, self.edges, self.edges.codes(graphs), "edge label", called) | reasons
        return reasons

    @staticmethod
    def _missing(graphs: GraphSet, fitted: Columns, codes: Codes, what: str, called: Names) -> dict[int, str]:
        """For each graph with a value that has no column, its number and a message about the first such value."""
        lacking = fitted.unknown(codes)[: len(codes.names) - (fitted.wl if isinstance(fitted, Encoder) else 0)]
        if not any(column.any() for column in lacking):
            return {}
        edges = isinstance(fitted, EdgeEncoder)
        ptr = np.asarray(graphs.edge_ptr[graphs.node_ptr] if edges else graphs.node_ptr)
        reasons: dict[int, str] = {}
        for rows in (edge_stretches if edges else node_stretches)(graphs, np.arange(graphs.n_graphs)):
            for j, column in enumerate(codes.of(rows).T[: len(lacking)]):
                thing = what if what == "degree" else f"{what} ({column_name(called, j)})"
                found = np.flatnonzero(lacking[j][column])
                number = np.searchsorted(ptr, rows[found], side="right") - 1
                for graph, place in zip(*np.unique(number, return_index=True), strict=True):
                    story = f"{thing} {codes.names[j][column[found[place]]]} is not in the vocabulary"
                    reasons.setdefault(int(graph), f"{story}, which has no 'other' column")
        return reasons

    def unseen(self, graphs: GraphSet) -> int:
        """The number of nodes with a label or degree that does not occur in the training graphs."""
        return int(self.unseen_by_graph(graphs).sum())

    def unseen_by_graph(self, graphs: GraphSet) -> NDArray[np.int64]:
        """[G] the number of nodes of each graph with a label or degree that does not occur in the training graphs."""
        codes = self._codes(graphs)
        lacking = self.unknown(codes)[: len(codes.names) - self.wl]
        total = np.zeros(graphs.n_nodes + 1, np.int64)
        if any(column.any() for column in lacking):
            for rows in node_stretches(graphs, np.arange(graphs.n_graphs)):
                of = codes.of(rows)
                total[1:][rows] = np.any([new[c] for new, c in zip(lacking, of.T, strict=False)], axis=0)
        return np.diff(total.cumsum()[graphs.node_ptr])

    def _codes(self, graphs: GraphSet) -> Codes:
        fitted = len(self.values) - self.wl - (self.source == "label+degree")
        if self.source != "degree" and graphs.category is None:
            if graphs.n_nodes == 0:
                raise UserError(f"{graphs.name}: the graphs have no nodes, so there is nothing to encode")
            raise UserError(
                f"{graphs.name} has no node labels; the encoder was fitted on {counted(fitted, 'node label column')}"
            )
        codes = node_codes(graphs, self.source, self.reads)
        if (found := len(codes.names) - (self.source == "label+degree")) != fitted:
            raise other_width(graphs, found, "node label column", fitted)
        if self.source != "degree" and not self.reads:
            check_source_names(graphs, "node label", source_names(graphs)[0], self.called[0])
        return side_by_side(codes, *(c.column for c in wl_colours(graphs, codes, (self.source, self.reads), self.wl)))

    def _floats(self, graphs: GraphSet) -> Rows | None:
        if self.mean is None:
            return None
        fitted = len(self.mean) - self.rwse - self.lappe
        width = 0 if graphs.attributes is None else graphs.attributes.shape[1]
        if fitted and width != fitted:
            raise other_width(graphs, width, "attribute column", fitted)
        if fitted:
            check_source_names(graphs, "node attribute", source_names(graphs)[1], self.called[1])
        values = float_columns(graphs, fitted > 0, self.rwse, self.lappe)
        return None if values is None else self.standardised(values)

    def to_json(self) -> dict[str, Any]:
        """The encoder as plain values. Unused parts are left out, because earlier versions do not know them."""
        return {name: value for name, value in asdict(self).items() if name not in LATER or value != LATER[name]}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> "Encoder":
        """The encoder that `to_json` wrote."""
        try:
            shared, edges = fitted_in(plain), plain.get("edges")
            if edges is not None:
                edges = EdgeEncoder(edges["vocabulary"], **fitted_in(edges))
            later = {name: plain.get(name, absent) for name, absent in LATER.items() if name not in shared}
            if (saved := later["descriptors"]) is not None:
                numbers = {what: tuple(saved.get(what, ())) for what in ("names", "mean", "scale", "rdkit")}
                later["descriptors"] = Descriptors(**numbers, impute=bool(saved["impute"]), bits=saved.get("bits", 0))
            later |= {"edges": edges, "merged": tuple(later["merged"])}
            return cls(plain["source"], plain["vocabulary"], **shared, **later)
        except (KeyError, TypeError) as error:
            raise UserError(f"not a saved encoder: {error!r}") from None


def _fit_categories(
    graphs: GraphSet, ids: NDArray[np.int64], source: str, vocabulary: str, reads: Names, wl: int
) -> dict[str, Any]:
    """The fields `values`, `seen` and `merged` of an encoder that is fitted on the graphs `ids`."""
    codes = node_codes(graphs, source, reads)
    seen = known(codes, node_stretches(graphs, ids), vocabulary)
    names, merged = list(codes.names), []
    for colours in wl_colours(graphs, codes, (source, reads), wl):
        (here,) = known(colours.column, node_stretches(graphs, ids), "train")
        common = colours.graphs >= COMMON
        names.append(tuple(compress(colours.names, common)))
        seen += (tuple(compress(here, common)),)
        merged.append(any(compress(here, ~common)))
    return {"values": tuple(names), "seen": seen, "merged": tuple(merged)}


LATER: dict[str, Any] = {
    "descriptors": None,
    "edges": None,
    "wl": 0,
    "merged": (),
    "rwse": 0,
    "lappe": 0,
    "reads": (),
    "called": ((), ()),
}
"""Fields that files of earlier versions lack, with the values that they then have."""
