"""Contrasts over families, equivalence, power, seeds, the forest plot and the ceiling, as a report shows them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from cgipool.report.figures import draw_curves, figures_of
from cgipool.report.forest import draw_forest
from cgipool.report.statistics import blocks_of
from cgipool.report.view import View, view_of
from cgipool.study.analysis import Analysis
from cgipool.study.records import read_book
from stores import add_cell, add_ratios, add_study, level_of, write

FAMILY = ["NCI1", "NCI109"]


def shown(folder: Path, name: str, analysis: Analysis) -> View:
    book = read_book(folder)
    study = next(study for study in book.studies if study.name == name)
    return view_of(replace(study, analysis=analysis), book)


def table(view: View, title: str) -> list[list[str]]:
    return next((block.rows for block in blocks_of(view) if block.title == title), [])


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods on three data sets; each split of a cell has two members around its accuracy."""
    folder = tmp_path_factory.mktemp("contrasts")
    axes = {"method": ["none", "topk", "sag"], "dataset": [*FAMILY, "PROTEINS"]}
    points = {"none": 82.0, "topk": 78.0, "sag": 82.1}
    for wanted in add_study(folder, "three", axes, baseline="none"):
        path = add_cell(folder, wanted["at"], points[wanted["at"]["method"]])
        record = json.loads(path.read_text())
        for row in record["splits"]:
            share = row["test"]["accuracy"]
            row["members"] = [{"test_accuracy": share - 0.01}, {"test_accuracy": share + 0.01 + 0.001 * row["split"]}]
        write(path, record)
    return folder


def test_a_contrast_is_the_mean_of_corrected_differences(three: Path) -> None:
    view = shown(three, "three", Analysis(contrasts={"molecules": FAMILY}))
    (topk, sag) = view.contrasts
    assert (topk.family, topk.method, sag.method) == ("molecules", "topk", "sag")
    means, variances = [], []
    for name in FAMILY:
        one, other = (view.of(method, name) for method in ("none", "topk"))
        assert one is not None
        assert other is not None
        assert one.measured is not None
        assert other.measured is not None
        each = one.measured.array - other.measured.array
        means.append(each.mean())
        variances.append(each.var(ddof=1) * (1 / 20 + 110 / 880))
    assert topk.pooled.difference == pytest.approx(np.mean(means))
    assert topk.pooled.se == pytest.approx(math.sqrt(sum(variances)) / 2)
    p = 2 * stats.t.sf(abs(np.mean(means)) / topk.pooled.se, topk.pooled.df)
    assert topk.adjusted == pytest.approx(min(1.0, 2 * p))
    assert (topk.mark, sag.mark) == ("▼", "")
    ((method, family, difference, *_), _) = table(view, "Contrasts over families of data sets")
    assert (method, family) == ("TopKPool", "molecules")
    assert difference == f"{np.mean(means):+.2f}"


def test_a_family_with_a_missing_cell_is_left_out(three: Path) -> None:
    view = shown(three, "three", Analysis(contrasts={"molecules": [*FAMILY, "Mutagenicity"], "proteins": ["PROTEINS"]}))
    assert {one.family for one in view.contrasts} == {"proteins"}


def test_equivalence_needs_a_margin(three: Path) -> None:
    assert table(shown(three, "three", Analysis()), "Equivalence") == []
    rows = table(shown(three, "three", Analysis(margin=2.5)), "Equivalence")
    assert {(method, equivalent) for method, *_, equivalent in rows} == {("TopKPool", "not shown"), ("SAGPool", "yes")}
    assert {row[-1] for row in table(shown(three, "three", Analysis(margin=0.01)), "Equivalence")} == {"not shown"}


def test_power_is_smaller_for_one_of_many_comparisons(three: Path) -> None:
    rows = table(shown(three, "three", Analysis()), "Power")
    assert len(rows) == 6
    for _, _, se, alone, among in rows:
        assert float(se) < float(alone) < float(among)
        assert float(alone) == pytest.approx(float(se) * 2.954, abs=0.02), "at 19 degrees of freedom"


def test_both_readings_of_seeds(three: Path) -> None:
    single, together = (shown(three, "three", Analysis(seeds=seeds)) for seeds in (2, 1))
    one, other = single.of("none", "NCI1"), together.of("none", "NCI1")
    assert one is not None
    assert other is not None
    assert one.summary is not None
    assert other.summary is not None
    assert one.summary.mean == pytest.approx(other.summary.mean + 100 * 0.001 * 9.5 / 2)
    for view in (single, together):
        rows = table(view, "Seeds")
        assert len(rows) == 9
        assert rows[0][2] == "2"
        assert rows[0][3] == f"{one.summary.mean:.2f}"
        assert float(rows[0][6]) == pytest.approx(100 * (0.02 + 0.001 * 9.5) / math.sqrt(2), abs=0.05)


def test_the_forest_has_a_panel_per_family_and_a_row_per_method(three: Path) -> None:
    figure = drawn(draw_forest(shown(three, "three", Analysis(contrasts={"named": FAMILY}))))
    assert [panel.get_title() for panel in figure.axes] == ["named", "proteins"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["TopKPool", "SAGPool"]
    view = shown(three, "three", Analysis(contrasts={"named": FAMILY}))
    diamonds = [line for line in figure.axes[0].get_lines() if line.get_marker() == "D"]
    assert [line.get_xdata()[0] for line in diamonds] == pytest.approx([-c.pooled.difference for c in view.contrasts])
    assert not [line for line in figure.axes[1].get_lines() if line.get_marker() == "D"], "one data set has no mean"
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert "thin, from the top: named: NCI1, NCI109" in figure.get_supxlabel()
    figure = drawn(draw_forest(shown(three, "three", Analysis(contrasts={one: [one] for one in FAMILY}))))
    assert "thin" not in figure.get_supxlabel(), "each panel has one data set"
    assert "forest" in figures_of(view)


def test_the_forest_leaves_out_what_sees_no_structure(three: Path) -> None:
    figure = drawn(draw_forest(shown(three, "three", Analysis(trivial=["topk"]))))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["SAGPool"]
    assert draw_forest(shown(three, "three", Analysis(trivial=["topk", "sag"]))) is None


def test_ranks_leave_out_what_sees_no_structure(three: Path) -> None:
    view = shown(three, "three", Analysis(trivial=["topk"]))
    assert view.ranks is not None
    assert view.ranks.methods == ["none", "sag"]
    words = next(block.words for block in blocks_of(view) if block.title == "Average ranks")
    assert words[-1] == "Without methods that do not see the structure of a graph: TopKPool."


def test_studies_without_no_pooling_have_no_forest(tmp_path: Path) -> None:
    add_ratios(tmp_path)
    assert draw_forest(shown(tmp_path, "figure3", Analysis())) is None


def test_the_ceiling_is_a_line_of_its_panel(tmp_path: Path) -> None:
    axes = {"method": ["topk"], "dataset": ["NCI1", "PROTEINS"], "ratio": [0.2, 0.8]}
    for cell in add_study(tmp_path, "curves", axes, curves="ratio", baseline=None):
        add_cell(tmp_path, cell["at"], level_of(cell["at"]))
    figure = drawn(draw_curves(shown(tmp_path, "curves", Analysis(ceiling={"NCI1": [90.0, 99.0]}))))
    first, second = figure.axes
    assert [list(line.get_ydata()) for line in first.get_lines()][-1] == [90.0, 99.0]
    assert len(second.get_lines()) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["TopKPool", "ceiling"]


def test_a_contrast_for_each_value_of_another_axis(tmp_path: Path) -> None:
    """Of methods that do not read the axis, the cells and the contrast are the same at each value, and count once."""
    axes = {"method": ["none", "cgi", "topk"], "dataset": FAMILY, "conv": ["gcn", "gin"]}
    points = {"none": 82.0, "topk": 81.0, "gcn": 78.0, "gin": 80.0}
    add_study(tmp_path, "three", axes, baseline="none")
    path = tmp_path / "studies" / "three.json"
    study = json.loads(path.read_text())
    for wanted in study["cells"]:
        at = wanted["at"] | ({} if wanted["at"]["method"] == "cgi" else {"conv": "gcn"})
        wanted["key"] = add_cell(tmp_path, at, points[at["conv"] if at["method"] == "cgi" else at["method"]]).stem
    write(path, study)
    view = shown(tmp_path, "three", Analysis(contrasts={"molecules": FAMILY}))
    found = {(one.method, one.setting): one for one in view.contrasts}
    assert set(found) == {("cgi", "gcn"), ("cgi", "gin"), ("topk", "gcn")}
    assert found["cgi", "gcn"].pooled.difference == pytest.approx(4.0, abs=0.5)
    assert found["cgi", "gin"].pooled.difference == pytest.approx(2.0, abs=0.5)
    least = min(view.contrasts, key=lambda one: one.pooled.p)
    assert least.adjusted == pytest.approx(3 * least.pooled.p)
    rows = table(view, "Contrasts over families of data sets")
    assert [family for _, family, *_ in rows] == ["molecules · gcn", "molecules · gcn", "molecules · gin"]
