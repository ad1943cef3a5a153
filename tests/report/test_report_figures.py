"""The figures: well-formed SVG with text as text, marks where the numbers are."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from cgipool.report.drawing import PALETTE, looks
from cgipool.report.figures import draw_curves, draw_ranks, draw_splits, draw_training, figures_of
from cgipool.report.view import View, view_of
from cgipool.study.records import read_book
from stores import METHODS, add_cell, add_study

SVG = "{http://www.w3.org/2000/svg}"


def view(store: Path, name: str) -> View:
    book = read_book(store)
    return view_of(next(study for study in book.studies if study.name == name), book)


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def test_each_study_has_its_figures(written: Path):
    names = sorted(path.stem for path in written.glob("*.svg"))
    assert names == [
        "alpha-curves",
        "alpha-diagnostics",
        "figure3-curves",
        "figure3-diagnostics",
        "table1-ranks",
        "table1-splits",
        "table1-training",
    ]


def test_figures_hold_text_and_no_date(written: Path):
    for path in written.glob("*.svg"):
        text = path.read_text()
        words = {"".join(node.itertext()).strip() for node in ElementTree.fromstring(text).iter(f"{SVG}text")}
        assert words, path.name
        assert "<dc:date>" not in text
        if path.stem in ("table1-splits", "table1-training", "figure3-curves"):
            assert {"CGIPool", "ASAP", "NCI1", "IMDB-MULTI"} <= words, path.name


def test_curves_stand_where_the_means_are(store: Path):
    shown = view(store, "figure3")
    panel = drawn(draw_curves(shown)).axes[0]
    line = panel.get_lines()[3]
    entries = [entry for entry in shown.entries if entry.method == "cgi" and entry.wanted.at["dataset"] == "NCI1"]
    assert line.get_xdata().tolist() == [0.2, 0.4, 0.6, 0.8]
    assert line.get_ydata().tolist() == [entry.summary.mean for entry in entries if entry.summary]


def test_alpha_has_a_logarithmic_axis_with_a_place_for_zero(store: Path):
    panel = drawn(draw_curves(view(store, "alpha"))).axes[0]
    place = panel.transData.transform([(x, 76.0) for x in (0, 0.0001, 0.001, 0.01, 0.1, 1)])[:, 0]
    steps = np.diff(place)
    assert (steps > 0).all()
    assert steps[1:].max() / steps[1:].min() == pytest.approx(1, abs=0.05)
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0", "0.0001", "0.001", "0.01", "0.1", "1"]


def test_strips_hold_every_split(store: Path):
    shown = view(store, "table1")
    figure = drawn(draw_splits(shown))
    assert [panel.get_title() for panel in figure.axes] == shown.contexts
    entry = shown.of("set2set", "NCI1")
    assert entry
    assert entry.record
    assert figure.axes[0].get_lines()[0].get_xdata().tolist() == entry.measured.array.tolist()
    assert "failed" in [text.get_text() for text in figure.axes[5].texts]
    dots, bar, *_ = figure.axes[0].get_lines()
    assert set(bar.get_ydata()) == {0}
    assert min(abs(dots.get_ydata())) > 0.1, "the bar hides no split"


def test_training_has_a_line_per_method(store: Path):
    figure = drawn(draw_training(view(store, "table1")))
    assert [len(panel.get_lines()) for panel in figure.axes] == [8, 8, 8, 8, 8, 7, 7]


def test_a_panel_without_cells_has_no_scale(tmp_path: Path):
    add_study(tmp_path, "small", {"method": ["topk", "cgi"], "dataset": ["NCI1", "COLLAB"]})
    add_cell(tmp_path, {"method": "cgi", "dataset": "NCI1"}, 75.0)
    for draw in (draw_splits, draw_training):
        full, empty = drawn(draw(view(tmp_path, "small"))).axes
        assert len(full.get_xticks()) > 1
        assert len(empty.get_xticks()) == 0


def test_the_rank_diagram_joins_what_is_not_told_apart(store: Path):
    shown = view(store, "table1")
    assert shown.ranks is not None
    (panel,) = drawn(draw_ranks(shown)).axes
    bars = [line for line in panel.get_lines() if line.get_linewidth() == 4]
    assert len(bars) == len(shown.ranks.groups)
    average = dict(zip(shown.ranks.methods, shown.ranks.average, strict=True))
    for bar, group in zip(bars, shown.ranks.groups, strict=True):
        low, high = bar.get_xdata()
        inside = {method for method, rank in average.items() if low <= rank <= high}
        assert inside == set(group)


def luminance(colour: str) -> float:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_methods_can_be_told_apart_without_colour():
    found = looks(list(METHODS))
    assert len({look.colour for look in found}) == len(METHODS)
    assert len({look.marker for look in found}) == len(METHODS)
    assert all(luminance(colour) < 0.7 for colour in PALETTE), "too pale on white"


def test_a_dollar_in_a_title_is_a_dollar(tmp_path: Path):
    for cell in add_study(tmp_path, "small", {"method": ["cgi", "sag"], "dataset": ["A$_x$<b>", "NCI1"]}):
        add_cell(tmp_path, cell["at"], 80.0, splits=20)
    text = figures_of(view(tmp_path, "small"))["splits"]
    assert re.search(r">\s*A\$_x\$&lt;b&gt;\s*<", text)


def test_a_study_with_nothing_finished_has_no_figures(tmp_path: Path):
    add_study(tmp_path, "small", {"method": ["cgi", "sag"], "dataset": ["NCI1"]})
    assert figures_of(view(tmp_path, "small")) == {}
    add_study(tmp_path, "lines", {"method": ["cgi"], "dataset": ["NCI1"], "ratio": [0.2, 0.4]}, curves="ratio")
    assert figures_of(view(tmp_path, "lines")) == {}


def test_settings_of_matplotlib_are_left_as_they_were(store: Path):
    before = dict(matplotlib.rcParams)
    figures_of(view(store, "alpha"))
    assert dict(matplotlib.rcParams) == before


def test_captions_of_one_data_set_fit_and_name_what_is_there(tmp_path: Path):
    for cell in add_study(tmp_path, "one", {"method": ["cgi", "topk"], "dataset": ["NCI1"]}):
        add_cell(tmp_path, cell["at"], 80.0, splits=20)
    for draw in (draw_splits, draw_training):
        figure = drawn(draw(view(tmp_path, "one")))
        caption = figure._supxlabel
        assert "published" not in caption.get_text()
        assert caption.get_window_extent().width <= figure.bbox.width
