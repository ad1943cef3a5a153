"""Where cells stand and what is computed of them, against hand-worked cases and scipy."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cgipool.errors import UserError
from cgipool.report.comparisons import ranks_among
from cgipool.report.training_curves import POINTS, _quantiles, diagnostics, thinned, training_curve
from cgipool.report.view import CellResult, View, view_of
from cgipool.report.write import check_study
from cgipool.study.records import Record, key_of, read_book
from stores import METHODS, add_cell, add_study, cell_of, fail, write


def view(store: Path, name: str) -> View:
    book = read_book(store)
    return view_of(next(study for study in book.studies if study.name == name), book)


def at(shown: View, method: str, context: str) -> CellResult:
    """The entry there, which must be there."""
    entry = shown.of(method, context)
    assert entry is not None
    return entry


def test_a_table_has_methods_as_rows_and_data_sets_as_columns(store: Path):
    shown = view(store, "table1")
    assert [row.label for row in shown.rows] == list(METHODS.values())
    assert shown.columns[:2] == ["NCI1", "NCI109"]
    assert all(row.group == "" for row in shown.rows)
    for entry in shown.entries:
        assert shown.rows[entry.row].method == entry.method == entry.wanted.at["method"]
        assert shown.columns[entry.column] == entry.context == entry.wanted.at["dataset"]


def test_curves_have_the_abscissa_as_columns_and_methods_together(store: Path):
    shown = view(store, "figure3")
    assert shown.columns == ["0.2", "0.4", "0.6", "0.8"]
    assert [(row.group, row.label) for row in shown.rows] == [
        (dataset, METHODS[method]) for dataset in ("NCI1", "IMDB-MULTI") for method in ("topk", "sag", "asap", "cgi")
    ]
    assert shown.contexts[0] == "NCI1 · ratio 0.2"
    assert shown.ranks is None, "contexts along a curve share their data"


def test_an_axis_with_one_value_takes_no_place(store: Path):
    shown = view(store, "alpha")
    assert [(row.group, row.label, row.method) for row in shown.rows] == [("", "NCI1", None), ("", "PROTEINS", None)]
    assert not any(entry.best for entry in shown.entries), "there is nothing to be better than"


def test_missing_and_failed_cells_are_told_apart(store: Path):
    shown = view(store, "table1")
    assert (shown.count("done"), shown.count("failed"), shown.count("missing")) == (54, 1, 1)
    assert "out of memory" in (at(shown, "diffpool", "COLLAB").reason or "")
    missing = at(shown, "asap", "PROTEINS")
    assert (missing.status, missing.summary) == ("missing", None)


def test_differences_are_the_corrected_paired_test_with_holm(store: Path):
    shown = view(store, "table1")
    raw = {}
    for entry in shown.entries:
        base = at(shown, "cgi", entry.context).measured
        if entry.method == "cgi" or entry.measured is None:
            assert entry.against is None
            continue
        assert base
        assert entry.against
        each = base.array - entry.measured.array
        t = each.mean() / math.sqrt(each.var(ddof=1) * (1 / 20 + 110 / 880))
        assert entry.against.paired.difference == pytest.approx(each.mean())
        assert entry.against.paired.p == pytest.approx(2 * stats.t.sf(abs(t), 19), rel=1e-6, abs=1e-12)
        raw[entry.method, entry.context] = entry.against.paired.p
    order = sorted(raw, key=raw.__getitem__)
    highest = 0.0
    for place, key in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - place) * raw[key]))
        against = at(shown, *key).against
        assert against
        assert against.adjusted == pytest.approx(highest)
        assert against.mark == ("▼" if highest < 0.05 else "")


def test_a_better_method_is_marked_upward(tmp_path: Path):
    axes = {"method": ["sag", "cgi"], "dataset": ["NCI1"]}
    for cell, percent in zip(add_study(tmp_path, "small", axes), (90.0, 70.0), strict=True):
        add_cell(tmp_path, cell["at"], percent)
    entry = at(view(tmp_path, "small"), "sag", "NCI1")
    assert entry.against
    assert (entry.against.mark, entry.best, entry.rank) == ("▲", True, 1)


def test_cells_of_other_splits_are_not_paired(tmp_path: Path):
    axes = {"method": ["sag", "cgi"], "dataset": ["NCI1"]}
    for cell in add_study(tmp_path, "small", axes):
        path = add_cell(tmp_path, cell["at"], 80.0)
    record = json.loads(path.read_text())
    record["provenance"]["data"] = "another"
    write(path, record)
    assert not any(entry.against for entry in view(tmp_path, "small").entries)


def test_the_gap_is_in_percentage_points(store: Path):
    entry = at(view(store, "table1"), "cgi", "NCI1")
    assert entry.measured
    assert entry.gap
    assert entry.wanted.published
    published = entry.wanted.published[0]
    assert entry.gap.difference == pytest.approx(entry.measured.array.mean() - published)
    assert entry.gap.floor == pytest.approx(math.sqrt(published * (100 - published) / 110))
    assert entry.gap.low < entry.gap.difference < entry.gap.high


def test_ranks_share_ties():
    assert ranks_among([70.0, 80.0, 80.0, 60.0]) == [3.0, 1.5, 1.5, 4.0]
    values = np.random.default_rng(0).integers(0, 6, 20).astype(float)
    assert ranks_among(values.tolist()) == stats.rankdata(-values).tolist()
    assert ranks_among([0.1 + 0.2, 0.3, 0.2]) == [1.5, 1.5, 3.0], "rounding is no difference"
    assert ranks_among([]) == []


def test_average_ranks_are_over_data_sets_that_all_methods_have(store: Path):
    shown = view(store, "table1")
    assert shown.ranks is not None
    assert shown.ranks.datasets == ["NCI1", "NCI109", "Mutagenicity", "IMDB-BINARY", "IMDB-MULTI"]
    for method, average in zip(shown.ranks.methods, shown.ranks.average, strict=True):
        places = [at(shown, method, dataset).rank for dataset in shown.ranks.datasets]
        assert average == pytest.approx(sum(place or 0 for place in places) / 5)
    assert set(shown.improvement) == set(METHODS) - {"cgi"}


def record_with(curves: list[list[float | None]]) -> Record:
    rows = [
        {"curve": {"epoch": list(range(1, len(curve) + 1)), "val_loss": curve}, "diagnostics": {"kept": [i, 2 * i]}}
        for i, curve in enumerate(curves)
    ]
    return Record("key", {}, rows, {})


def test_a_course_ends_where_fewer_than_half_of_the_splits_train():
    found = training_curve(record_with([[1.0, 2.0, 3.0, 9.0], [3.0, 4.0, 5.0], [5.0, None], [7.0]]), "val_loss")
    assert found is not None
    assert (found.epoch, found.mean) == ([1, 2, 3], [4.0, 3.0, 4.0])
    assert found.low[0] == pytest.approx(np.quantile([1, 3, 5, 7], 0.1))
    assert training_curve(record_with([[1.0]]), "train_loss") is None
    assert training_curve(record_with([[None, None]]), "val_loss") is None


def test_a_course_is_by_epoch_where_each_split_has_epochs_of_its_own():
    """Stored curves are thinned: the loss of a split is 1/1000 of the epoch here, whichever epochs are left of it."""
    record = record_with([])
    for end, points in ((100, 60), (300, 60), (400, 7)):
        epochs = np.linspace(1, end, points).round().astype(int)
        record.splits.append({"curve": {"epoch": epochs.tolist(), "val_loss": (epochs / 1000).tolist()}})
    found = training_curve(record, "val_loss")
    assert found is not None
    assert (found.epoch[0], found.epoch[-1], len(found.epoch)) == (1, 300, POINTS)
    assert found.mean == pytest.approx(np.array(found.epoch) / 1000)
    assert found.low == pytest.approx(found.high)


def test_a_long_curve_is_thinned_to_its_ends_and_points_between():
    curve = [float(i) for i in range(1, 1001)]
    epochs, values = thinned(record_with([curve]).splits[0], "val_loss")
    assert (len(epochs), epochs[0], epochs[-1]) == (POINTS, 1, 1000)
    assert (epochs == values).all()


def test_quantiles_without_nan_are_those_of_numpy():
    rng = np.random.default_rng(0)
    table = rng.random((9, 40))
    table[rng.random(table.shape) < 0.4] = np.nan
    table[0] = rng.random(40)
    assert (_quantiles(table, (0.1, 0.9)) == np.nanquantile(table, (0.1, 0.9), axis=0)).all()


def test_diagnostics_are_means_per_level():
    assert diagnostics(record_with([[1.0], [1.0], [1.0]])) == {"kept": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "../up"}, "not a valid file name"),
        ({"axes": {"method": ["cgi"]}}, "needs at least two axes"),
        ({"curves": "ratio"}, "no axis 'ratio'"),
        ({"axes": {"method": ["sag"], "dataset": ["NCI1"]}}, "no valid value on axis 'method'"),
        (
            {"cells": [{"key": "k", "at": {"method": "cgi", "dataset": "NCI1"}, "published": [178.0, 1]}]},
            "must be percentages",
        ),
        (
            {"cells": [{"key": "k", "at": {"method": "cgi", "dataset": "NCI1"}, "published": [78.0, 1e308]}]},
            "must be percentages",
        ),
    ],
)
def test_a_study_that_cannot_be_shown_is_refused(tmp_path: Path, change: dict, words: str):
    add_study(tmp_path, "small", {"method": ["cgi"], "dataset": ["NCI1"]})
    path = tmp_path / "studies" / "small.json"
    write(path, json.loads(path.read_text()) | change)
    with pytest.raises(UserError, match=words):
        check_study(read_book(tmp_path).studies[0])


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3}, {"title": None}, {"axes": []}, {"axes": {"method": 3, "dataset": []}}, {"titles": None},
        {"titles": {"method": None}}, {"titles": {"method": {"cgi": 3}}},
        {"curves": []}, {"baseline": ["cgi"]}, {"cells": [None]},
        {"cells": [{"key": ["k"], "at": {}}]}, {"cells": [{"key": "k", "at": None}]},
        {"cells": [{"key": "k", "at": {}, "published": ["80", 1]}]},
        {"cells": [{"key": "k", "at": {}, "published": [80]}]},
    ],
)  # fmt: skip
def test_a_file_that_is_no_study_is_told_and_left_out(tmp_path: Path, change: dict):
    for name in ("odd", "sound"):
        add_study(tmp_path, name, {"method": ["cgi"], "dataset": ["NCI1"]})
    path = tmp_path / "studies" / "odd.json"
    write(path, json.loads(path.read_text()) | change)
    book = read_book(tmp_path)
    assert [study.name for study in book.studies] == ["sound"]
    assert len(book.problems) == 1
    assert "odd.json is not a valid study record" in book.problems[0]


@pytest.mark.parametrize(
    "change",
    [
        {"key": 3}, {"cell": []}, {"cell": {"lr": math.nan}}, {"provenance": None}, {"provenance": {"versions": None}},
        {"splits": {}}, {"splits": [3]},
        {"splits": [{"split": [1], "test": {"accuracy": 1}, "graphs": {"train": 8, "test": 1}}]},
        {"splits": [{"split": 1, "test": {"accuracy": 1}, "graphs": {"train": "8", "test": 1}}]},
        {"splits": [{"split": 1, "test": {"accuracy": 1}, "graphs": {"train": 8, "test": 1}, "members": [{}]}]},
    ],
)  # fmt: skip
def test_a_file_that_is_no_cell_is_told_and_left_out(tmp_path: Path, change: dict):
    sound, odd = (add_cell(tmp_path, {"method": "cgi", "dataset": name}, 80.0) for name in ("NCI1", "COLLAB"))
    odd.write_text(json.dumps(json.loads(odd.read_text()) | change))
    book = read_book(tmp_path)
    assert list(book.records) == [sound.stem]
    assert len(book.problems) == 1
    assert f"{odd.name} is not a valid cell record" in book.problems[0]


def test_a_cell_of_another_version_is_known_as_such(tmp_path: Path):
    at = {"method": "cgi", "dataset": "NCI1"}
    add_study(tmp_path, "small", {"method": ["cgi"], "dataset": ["NCI1"]})
    path = add_cell(tmp_path, at, 80.0)
    assert not view(tmp_path, "small").entries[0].outdated
    record = json.loads(path.read_text())
    record["cell"]["recipe"]["width"] = 64
    write(path, record)
    assert view(tmp_path, "small").entries[0].outdated


def test_a_failed_cell_that_was_finished_since_is_done(tmp_path: Path):
    at = {"method": "cgi", "dataset": "NCI1"}
    add_study(tmp_path, "small", {"method": ["cgi"], "dataset": ["NCI1"]})
    fail(tmp_path, at, "no memory")
    add_cell(tmp_path, at, 80.0)
    assert view(tmp_path, "small").entries[0].status == "done"
    assert key_of(cell_of(at)) in read_book(tmp_path).failed
