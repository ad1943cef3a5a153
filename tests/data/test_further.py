"""Further columns of a source: kept as text, saved, cut and joined with the set."""

from pathlib import Path

import numpy as np
import pytest

from cgipool.data import GraphSet, motifs
from cgipool.data.further import TableBuilder, names_of, numbers, times
from cgipool.data.importers import import_to
from cgipool.data.importers.lines import Asked, Line, kept_columns, lines_of
from cgipool.data.writer import GraphSetWriter
from cgipool.errors import UserError

NAMES = ("weight", "when", "note")
ROWS = [(str(i / 2), f"20{10 + i:02}-05-17", "" if i % 2 else f"é {i}") for i in range(8)]


def with_table(graphs: GraphSet, names: tuple[str, ...] = NAMES, rows: list[tuple[str, ...]] = ROWS) -> GraphSet:
    table = TableBuilder(names)
    for row in rows:
        table.add(row)
    changes = {"table": table.texts, "column_names": graphs.column_names | {"table": names}}
    return GraphSet(
        **{name: getattr(graphs, name) for name in GraphSet.__dataclass_fields__ if name != "checked"} | changes
    )


def test_columns_are_read_cut_joined_and_saved(tmp_path: Path) -> None:
    graphs = with_table(motifs(8))
    assert graphs.column("note") == [row[2] for row in ROWS]
    assert graphs[[5, 2]].column("weight") == ["2.5", "1.0"]
    graphs.save(tmp_path / "set")
    for mmap in (False, True):
        loaded = GraphSet.load(tmp_path / "set", mmap=mmap, checked=False)
        assert loaded.table == graphs.table
        assert loaded.subset([7]).column("when") == ["2017-05-17"]
    other = with_table(motifs(8), ("note", "weight"), [(row[2], row[0]) for row in ROWS])
    joined = GraphSet.join([graphs, other])
    assert names_of(joined) == ("weight", "note"), "columns that both have"
    assert joined.column("note") == [row[2] for row in ROWS] * 2
    assert GraphSet.join([graphs, motifs(8)]).table is None
    assert graphs.with_targets(np.arange(8.0)).column("note") == graphs.column("note")


def test_parts_are_written_one_after_another(tmp_path: Path) -> None:
    graphs = with_table(motifs(8))
    (tmp_path / "set").mkdir()
    with GraphSetWriter(tmp_path / "set") as writer:
        for part in (graphs[[0, 1, 2]], graphs[[]], graphs[3:]):
            writer.append(part)
    assert GraphSet.load(tmp_path / "set").table == graphs.table
    (tmp_path / "other").mkdir()
    with GraphSetWriter(tmp_path / "other") as writer:
        writer.append(graphs)
        with pytest.raises(UserError, match="different further columns"):
            writer.append(motifs(8))


def test_numbers_and_times() -> None:
    graphs = with_table(motifs(8))
    np.testing.assert_array_equal(numbers(graphs, "weight"), np.arange(8) / 2)
    assert (np.diff(times(graphs, "when")) > 0).all()
    np.testing.assert_array_equal(times(graphs, "weight"), np.arange(8) / 2)
    wrong = "motifs: column 'note' has 8 values that are not a finite number, the first in graph 0: 'é 0'"
    with pytest.raises(UserError, match=wrong):
        numbers(graphs, "note")
    with pytest.raises(UserError, match="column 'note' has 8 values that are not a number or a date such as"):
        times(graphs, "note")
    with pytest.raises(UserError, match="motifs has no column 'notes'; did you mean 'note'\\? its columns: weight"):
        numbers(graphs, "notes")
    with pytest.raises(UserError, match="motifs has no column 'mass'; its columns: weight, when, note"):
        numbers(graphs, "mass")
    with pytest.raises(UserError, match="it has none, because its source was not a table"):
        motifs(8).column("mass")


def test_a_table_fits_its_names() -> None:
    graphs = with_table(motifs(8))
    for names, message in ((("a", "a", "b"), "must differ"), (("a", "b"), "table has 24 texts, not one for each of")):
        with pytest.raises(UserError, match=message):
            with_table(graphs, names, [tuple("abc")] * 8)


def test_kept_columns_pass_through_to_predictions(tmp_path: Path) -> None:
    with_table(motifs(8)).save(tmp_path / "set")
    asked = Asked(keep=("note", "weight"))
    assert kept_columns(tmp_path / "set", ("all",)) == NAMES
    assert [line.kept for line in lines_of(tmp_path / "set", asked)] == [(row[2], row[0]) for row in ROWS]
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "graphs.csv").write_text("graph,label,mass,year\na,x,2,1999\nb,y,3,2000\nc,y,4,2001\n")
    (folder / "edges.csv").write_text("graph,source,target\na,1,2\nb,1,2\nc,1,2\n")
    import_to(folder, tmp_path / "imported")
    assert kept_columns(tmp_path / "imported", ("all",)) == ("graph", "row", "id", "mass", "year")
    lines = list(lines_of(tmp_path / "imported", Asked(keep=("year", "row", "mass")), 1, 3))
    assert lines == [Line("b", "", ("2000", "2", "3")), Line("c", "", ("2001", "3", "4"))]
