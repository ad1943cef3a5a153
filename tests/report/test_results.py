"""What pages take from results/: it is as results/ has it, and the tables compute what they say."""

import json
from pathlib import Path

import numpy as np
import pytest

import paired_tables
import results
import results_tables
from cgipool.study.plan import read_study
from cgipool.study.records import key_of, read_book
from stores import add_cell, add_study, write

STUDIES = results.REPOSITORY / "studies"


def test_pages_and_figures_are_as_results_has_them() -> None:
    assert results.differing(results.wanted(results.read(*results.STORES))) == []


@pytest.mark.parametrize("store", [store for store in results.STORES if (store / "cells").is_dir()], ids=str)
def test_results_are_cells_of_the_studies_made_by_runs(store: Path) -> None:
    book = read_book(store)
    studies = [read_study(STUDIES / f"{study.name}.toml") for study in book.studies]
    wanted = {cell.key for study in studies for cell in study.cells}
    assert book.problems == []
    assert book.records.keys() <= wanted
    for record in book.records.values():
        assert key_of(record.cell) == record.key
        assert [row["split"] for row in record.splits] == list(range(record.cell["splits"]))
        assert record.provenance["commit"]
        assert not record.provenance["commit"].endswith("+")
        assert record.provenance["command"].startswith("cgipool train")


@pytest.fixture
def found(tmp_path: Path) -> results.Results:
    """Two studies of two methods on two data sets, and two cells of the second with other settings."""
    axes = {"method": ["topk", "cgi"], "dataset": ["NCI1", "COLLAB"]}
    published = {("cgi", "NCI1"): (78.62, 1.0), ("topk", "NCI1"): (77.0, 1.0)}
    for number, study in enumerate(("table1", "distinct")):
        add_study(tmp_path, study, axes | ({"ratio": [0.5]} if number else {}), published=published)
        for method in axes["method"]:
            at = {"method": method, "dataset": "NCI1"} | ({"ratio": 0.5} if number else {})
            add_cell(tmp_path, at, 75.0 + number)
    return results.read(tmp_path)


def rows(table: str) -> list[list[str]]:
    """The lines of a Markdown table under its head, as cells."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_differences_are_those_of_the_means(found: results.Results) -> None:
    one, other = (next(e for e in found.studies[name].entries if e.record) for name in ("distinct", "table1"))
    assert one.record is not None
    assert other.record is not None
    a, b = one.measured.array, other.measured.array
    se = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    assert results_tables.minus(one, other) == f"{a.mean() - b.mean():+.2f} ± {se:.2f}".replace("-", "−")
    assert results_tables.minus(one, None) == "–"


def test_paired_differences_are_of_the_same_splits(tmp_path: Path) -> None:
    """No pooling is three points below TopKPool on every split but one, and on other splits than CGIPool."""
    axes = {"method": ["topk", "cgi"], "dataset": ["NCI1"]}
    add_study(tmp_path, "table1", axes)
    add_study(tmp_path, "controls", axes | {"method": ["none"]})
    values = {"topk": np.linspace(70.0, 80.0, 20), "cgi": np.linspace(70.0, 80.0, 20)}
    values["none"] = values["topk"] - 3.0
    values["none"][0] -= 1.0
    for method, each in values.items():
        path = add_cell(tmp_path, {"method": method, "dataset": "NCI1"}, 75.0)
        record = json.loads(path.read_text())
        for number, (row, value) in enumerate(zip(record["splits"], each, strict=True)):
            row["test"]["accuracy"] = value / 100
            row["split"] = number + 100 * (method == "cgi")
        write(path, record)
    views = results.read(tmp_path).studies
    one = views["table1"].of("topk", "NCI1")
    assert one is not None
    assert one.record is not None
    each = np.array([3.0] * 19 + [4.0])
    se = each.std(ddof=1) * np.sqrt(1 / 20 + one.record.test_to_train)
    found = dict(rows(paired_tables.controls(views)))
    assert found == {"TopKPool": f"+{each.mean():.2f} ± {se:.2f} ▲", "CGIPool": "–"}


def test_classical_methods_are_paired_with_no_pooling(tmp_path: Path) -> None:
    """WL is two points above no pooling on every split but one; it has no cell on NCI109."""
    for name, methods in (("classical", ["wl"]), ("strong", ["none", "cgi"])):
        add_study(tmp_path, name, {"method": methods, "dataset": ["NCI1", "NCI109"]})
    values = {"none": np.linspace(70.0, 80.0, 20), "cgi": np.full(20, 71.0)}
    values["wl"] = values["none"] + 2.0
    values["wl"][0] += 1.0
    for method, each in values.items():
        path = add_cell(tmp_path, {"method": method, "dataset": "NCI1"}, 75.0)
        record = json.loads(path.read_text())
        for row, value in zip(record["splits"], each, strict=True):
            row["test"]["accuracy"] = value / 100
        write(path, record)
    views = results.read(tmp_path).studies
    one = views["classical"].of("wl", "NCI1")
    assert one is not None
    assert one.record is not None
    difference = np.array([2.0] * 19 + [3.0])
    se = difference.std(ddof=1) * np.sqrt(1 / 20 + one.record.test_to_train)
    means = {name: f"{each.mean():.2f} ± {each.std(ddof=1) / np.sqrt(20):.2f}" for name, each in values.items()}
    assert rows(paired_tables.classical(views)) == [
        ["wl", means["wl"], "–"],
        ["minus no pooling", f"+{difference.mean():.2f} ± {se:.2f} ▲", "–"],
        ["none", means["none"], "–"],
        ["CGIPool", means["cgi"], "–"],
    ]


def test_ensembles_are_paired_with_the_mean_of_their_members(tmp_path: Path) -> None:
    """Two points above the mean of two members on each of five splits, three on one, whatever single models have."""
    for name, splits in (("strong", 20), ("ensembles", 5)):
        width = {"width": [64]} if splits == 5 else {}
        add_study(tmp_path, name, {"method": ["cgi"], "dataset": ["NCI1"]} | width)
        path = add_cell(tmp_path, {"method": "cgi", "dataset": "NCI1"} | ({"width": 64} if width else {}), 75.0)
        record = json.loads(path.read_text())
        record["splits"] = record["splits"][:splits]
        for number, row in enumerate(record["splits"] if width else []):
            row["test"]["accuracy"] = (70 + number + 2 + (number == 0)) / 100
            row["members"] = [{"test_accuracy": (70 + number + spread) / 100} for spread in (-4, 4)]
        write(path, record)
    views = results.read(tmp_path).studies
    entry = views["ensembles"].of("cgi", "NCI1")
    assert entry is not None
    assert entry.record is not None
    se = np.std([3, 2, 2, 2, 2], ddof=1) * np.sqrt(1 / 5 + entry.record.test_to_train)
    ((_, told),) = rows(paired_tables.ensembles(views))
    assert told.removesuffix(" ▲") == f"+2.20 ± {se:.2f}"
    assert rows(results_tables.recipes(views, views["strong"]))[-1] == ["ten together", "+2.20"]


def test_another_recipe_stands_beside_the_papers(tmp_path: Path) -> None:
    for number, name in enumerate(("table1", "better")):
        width = {"width": [64]} if number else {}
        add_study(tmp_path, name, {"method": ["topk", "cgi"], "dataset": ["NCI1", "COLLAB"]} | width)
        for method in ("topk", "cgi"):
            at = {"method": method, "dataset": "NCI1"} | ({"width": 64} if number else {})
            add_cell(tmp_path, at, 75.0 + number + (method == "cgi"))
    views = results.read(tmp_path).studies
    table = rows(results_tables.recipes(views, views["better"]))
    assert [row[0] for row in table] == ["TopKPool", "recipe paper", "CGIPool", "recipe paper"]
    for (_, ours, _), (_, papers, missing), method in zip(table[::2], table[1::2], ("topk", "cgi"), strict=True):
        one, other = (views[name].of(method, "NCI1") for name in ("better", "table1"))
        assert one is not None
        assert other is not None
        assert one.summary is not None
        assert other.summary is not None
        assert ours.startswith(f"**{one.summary.mean:.2f}" if method == "cgi" else f"{one.summary.mean:.2f}")
        assert papers == f"{other.summary.mean:.2f} ({one.summary.mean - other.summary.mean:+.2f})".replace("-", "−")
        assert missing == "–"


def test_wall_time_is_of_the_union_of_all_legs(tmp_path: Path) -> None:
    add_study(tmp_path, "table1", {"method": ["topk", "cgi"], "dataset": ["NCI1"]})
    times = {"topk": ("03:00:00", 600.0), "cgi": ("03:05:00", 600.0)}
    for method, (start, seconds) in times.items():
        path = add_cell(tmp_path, {"method": method, "dataset": "NCI1"}, 75.0)
        record = json.loads(path.read_text())
        record["provenance"] |= {"started": f"2025-01-02T{start}+00:00", "seconds": seconds}
        if method == "cgi":  # its second leg an hour later, after a stop
            record["provenance"]["legs"] = [
                {"started": "2025-01-02T03:05:00+00:00", "seconds": 480.0},
                {"started": "2025-01-02T04:05:00+00:00", "seconds": 120.0},
            ]
        write(path, record)
    add_study(tmp_path, "controls", {"method": ["topk", "none"], "dataset": ["NCI1"]})
    assert rows(results_tables.times(results.read(tmp_path).studies)) == [
        ["table1", "2 of 2", "2", "20 min", "15 min"],
        ["controls", "1 of 2", "0", "0 s", "0 s"],
        ["both tables and the figure", "2 of 2", "", "20 min", "15 min"],
    ]


def test_the_papers_text_against_its_table(tmp_path: Path) -> None:
    table = read_study(STUDIES / "table1.toml").to_json()
    write(tmp_path / "studies" / "table1.json", table)
    (tmp_path / "cells").mkdir()
    found = {row[0]: row[1:] for row in rows(results_tables.claims(results.read(tmp_path).studies))}
    # Worked by hand from the printed table: 80.30 − 78.95, 74.10 − 73.86 and 77.94 − 76.73; and over VIPool
    # 77.94 − 76.73, 80.30 − 78.87 and 74.10 − 73.65.
    assert found["social networks"] == ["1.21", "VIPool on NCI109", "1.35", "COLLAB", "ASAP", "1.71"]
    assert found["bioinformatics"] == ["1.43", "VIPool on COLLAB", "0.24", "PROTEINS", "ASAP", "0.32"]
    assert found["molecules"] == ["0.45", "VIPool on PROTEINS", "1.21", "NCI109", "VIPool", "1.58"]


def test_places_of_a_page_are_filled_and_the_rest_is_left(found: results.Results) -> None:
    page = "before\n<!-- results: accuracy table1 -->\nformer text\n<!-- end of results -->\nafter\n"
    filled = results.filled(page, found)
    assert filled.startswith("before\n<!-- results: accuracy table1 -->\n\nTest accuracy")
    assert filled.endswith("|\n\n<!-- end of results -->\nafter\n")
    assert "former text" not in filled
    assert results.filled(filled, found) == filled


def test_what_cells_tell_of_their_trainings(found: results.Results) -> None:
    studies = found.studies
    entry = studies["table1"].of("cgi", "NCI1")
    assert entry is not None
    assert entry.record is not None
    for number, row in enumerate(entry.record.splits):
        row["best_epoch"] = 3 if number < 2 else 6
        row["diagnostics"] = {"mi": [1.0, 2.0, 3.0 + (number == 0)], "discriminator_accuracy": [0.5] * 3} | {
            "overlap": [0.75, 0.8, 0.85]
        }
    last = 3.0 + 1.0 / len(entry.record.splits)
    ((data, _, *told),) = rows(results_tables.diagnostics(studies, studies["table1"]))
    assert data == "NCI1"
    assert told == [f"1.00 / 2.00 / {last:.2f}", "0.50 / 0.50 / 0.50", "0.75 / 0.80 / 0.85"]
    failed = {method: counts for method, *counts in rows(results_tables.early(studies, studies["table1"]))}
    assert failed["CGIPool"] == ["2", "–"]


def test_a_sweep_is_beside_its_cell_of_table_1(tmp_path: Path) -> None:
    """A setting that is Table 1's own has no difference; another has its paired one, with its discriminator below."""
    add_study(tmp_path, "table1", {"method": ["cgi"], "dataset": ["NCI1"]})
    axes = {"method": ["cgi"], "dataset": ["NCI1"], "alpha": [0.001, 0.1]}
    add_study(tmp_path, "alpha", axes, curves="alpha")
    paths = [
        add_cell(tmp_path, {"method": "cgi", "dataset": "NCI1"} | setting, 75.0) for setting in ({}, {"alpha": 0.1})
    ]
    for number, path in enumerate(paths):
        record = json.loads(path.read_text())
        for split, row in enumerate(record["splits"]):
            row["test"]["accuracy"] = (75.0 + split - number * (3.0 + (split == 0))) / 100
            row["diagnostics"] = {"discriminator_accuracy": [0.5, 0.5 + number / 2, split % 2]}
        write(path, record)
    views = results.read(tmp_path).studies
    _, difference, right = rows(paired_tables.sweep(views, views["alpha"]))
    assert difference == ["minus Table 1", "–", "−3.05 ± 0.09 ▼"]
    assert right == ["discriminator accuracy", "0.50 / 0.50 / 0.50", "0.50 / 1.00 / 0.50"]
