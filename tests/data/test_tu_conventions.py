"""Every spelling of numbers and tables that the TU reader accepts, held to PyG's reader.

Each convention rewrites the plain files of one set. If PyG reads the result, it must read what we read; if it does not,
ours must equal what both read from the plain files.
"""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from random_sets import assert_equal, write_tu
from torch_geometric.io import read_tu_data

from cgipool.data import GraphSet, read_tu
from cgipool.data import tu_table as table

PLAIN = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n3, 3\n4, 5\n5, 4\n5, 6\n6, 5\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n",
    "graph_labels": "1\n-1\n",
    "node_labels": "7, 0\n10, 1\n9, 0\n7, 1\n8, 1\n7, 0\n",
    "node_attributes": "0.5, 1\n1000.0, -2\n-0.25, 3\n0, 0\n1e-3, 5\n2.5, 6\n",
    "edge_labels": "3\n3\n1\n1\n9\n0\n0\n2\n2\n",
}

INTEGERS = ("A", "graph_indicator", "graph_labels", "node_labels", "edge_labels")


def each_number(change: Callable[[str], str], parts: tuple[str, ...] = tuple(PLAIN)) -> dict[str, str]:
    """The plain files with every number of some of them changed."""
    return {part: re.sub(r"[-.\de]+", lambda m: change(m[0]), text) for part, text in PLAIN.items() if part in parts}


def each_file(change: Callable[[str], str]) -> dict[str, str]:
    return {part: change(text) for part, text in PLAIN.items()}


def signed(number: str) -> str:
    return number if number.startswith("-") else f"+{number}"


CONVENTIONS: dict[str, tuple[dict[str, str], bool]] = {
    "commas and blanks": (PLAIN, True),
    "commas alone": (each_file(lambda text: text.replace(", ", ",")), True),
    "blanks before commas": (each_file(lambda text: text.replace(", ", " ,")), True),
    "commas and tabs": (each_file(lambda text: text.replace(", ", ",\t")), True),
    "blanks": (each_file(lambda text: text.replace(", ", " ")), False),
    "several blanks": (each_file(lambda text: text.replace(", ", "   ")), False),
    "tabs": (each_file(lambda text: text.replace(", ", "\t")), False),
    "lines end in CRLF": (each_file(lambda text: text.replace("\n", "\r\n")), True),
    "lines end in CR": (each_file(lambda text: text.replace("\n", "\r")), True),
    "blank lines": (each_file(lambda text: text.replace("\n", "\n\n")), False),
    "lines of blanks": (each_file(lambda text: text.replace("\n", "\n \t \n")), False),
    "blank lines first": (each_file(lambda text: "\n\n" + text), False),
    "blank lines in the end": (each_file(lambda text: text + "\n\n"), False),
    "no end of the last line": (each_file(lambda text: text.removesuffix("\n")), False),
    "indented": (each_file(lambda text: re.sub("(?m)^(?=.)", "  ", text)), True),
    "blanks at line ends": (each_file(lambda text: text.replace("\n", "  \n")), True),
    "tabs at line ends": (each_file(lambda text: text.replace("\n", "\t\n")), True),
    "comma at line ends": (each_file(lambda text: text.replace("\n", ",\n")), False),
    "comma and blank at line ends": (each_file(lambda text: text.replace("\n", ", \n")), False),
    "byte order mark": (each_file(lambda text: "\ufeff" + text), False),
    "byte order mark and blank line": (each_file(lambda text: "\ufeff\n" + text), False),
    "plus signs": (each_number(signed), True),
    "plus signs of classes": ({"graph_labels": "+1\n-1\n"}, True),
    "leading zeros": (each_number(lambda number: re.sub(r"\d", r"0\g<0>", number, count=1)), True),
    "point": (each_number(lambda number: f"{number}.", INTEGERS), False),
    "point and zeros": (each_number(lambda number: f"{number}.000000", INTEGERS), False),
    "exponent": (each_number(lambda number: f"{number}e0", INTEGERS), False),
    "Matlab's numbers": (each_number(lambda number: f"{float(number):.7e}"), False),
    "capital exponent": (each_number(lambda number: f"{float(number):.7E}", INTEGERS), False),
    "plus, point, tabs, CRLF": (
        {
            part: text.replace(", ", "\t").replace("\n", "\r\n")
            for part, text in each_number(lambda number: f"{signed(number)}.0", INTEGERS).items()
        },
        False,
    ),
    "attributes without a leading zero": ({"node_attributes": re.sub(r"\b0\.", ".", PLAIN["node_attributes"])}, True),
    "one file is odd": ({"node_labels": PLAIN["node_labels"].replace(", ", " ")}, False),
    "one line is odd": ({"node_labels": PLAIN["node_labels"].replace("9, 0", "+9 0.0")}, False),
}
"""By name: the files that differ, and whether PyG reads them."""


def as_pyg_reads(folder: Path) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Of each graph its class code, edges, and one-hot labels and attributes of nodes and edges, by PyG."""
    data, slices, _ = read_tu_data(str(folder), "TOY")
    graphs = []
    for g in range(len(slices["x"]) - 1):
        nodes, edges = (slice(int(slices[key][g]), int(slices[key][g + 1])) for key in ("x", "edge_index"))
        found = (data.edge_index[:, edges], data.x[nodes], data.edge_attr[edges])
        graphs.append((int(data.y[g]), *(values.numpy() for values in found)))
    return graphs


def one_hot(codes: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """A label column as PyG has it: one input per number from the least to the greatest in the file."""
    values = np.array([int(name) for name in names])
    return np.eye(values.max() - values.min() + 1)[values[codes] - values.min()]


def as_we_read(graphs: GraphSet) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """The same, of a GraphSet."""
    assert graphs.category is not None
    assert graphs.attributes is not None
    assert graphs.edge_category is not None
    labels = [one_hot(codes, names) for codes, names in zip(graphs.category.T, graphs.category_names, strict=True)]
    x = np.concatenate([graphs.attributes, *labels], axis=1)
    edge_attr = one_hot(graphs.edge_category[:, 0], graphs.edge_category_names[0])
    found = []
    for g in range(graphs.n_graphs):
        first, last = graphs.node_ptr[g], graphs.node_ptr[g + 1]
        edges = slice(graphs.edge_ptr[first], graphs.edge_ptr[last])
        source = graphs.edge_source[edges]
        ends = np.stack([source, source + graphs.edge_disp[edges]]) - first
        found.append((int(graphs.y[g]), ends, x[first:last], edge_attr[edges]))
    return found


def assert_same_graphs(ours: GraphSet, folder: Path) -> None:
    for one, other in zip(as_we_read(ours), as_pyg_reads(folder), strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> GraphSet:
    """The set in the plain spelling, which PyG reads alike."""
    folder = write_tu(tmp_path_factory.mktemp("plain"), **PLAIN)
    assert_same_graphs(read_tu(folder), folder)
    return read_tu(folder)


@pytest.mark.parametrize("block", [1 << 20, 8], ids=["one block", "many blocks"])
@pytest.mark.parametrize("name", CONVENTIONS)
def test_spelling(tmp_path: Path, plain: GraphSet, monkeypatch: pytest.MonkeyPatch, name: str, block: int) -> None:
    changed, pyg_reads_it = CONVENTIONS[name]
    folder = write_tu(tmp_path / "toy", **PLAIN | changed)
    monkeypatch.setattr(table, "BLOCK", block)
    assert_equal(read_tu(folder), plain)
    if pyg_reads_it:
        assert_same_graphs(plain, folder)


def test_odd_spelling_in_a_late_block(tmp_path: Path) -> None:
    """Blocks before it are read in the plain way, and those after it as well as they can be."""
    rows = ["1, 2\n"] * 300_000
    odd = [*rows[:290_000], "+1\t2.0\r\n", *rows[:10_000]]
    assert_equal(
        read_tu(write_tu(tmp_path / "odd", A="".join(odd))),
        read_tu(write_tu(tmp_path / "toy", A="".join([*rows, "1, 2\n"]))),
    )


def test_long_runs_of_blanks_take_no_longer(tmp_path: Path) -> None:
    """A pattern that tries every end of a run would take hours here."""
    folder = write_tu(tmp_path / "toy", A=f"1{' ' * 2_000_000}2\n2{' ' * 500_000},{' ' * 500_000}1{' ' * 500_000}\n")
    assert read_tu(folder).n_edges == 2
