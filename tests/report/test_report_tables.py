"""The tables as text: what they say, and that nothing from a store becomes markup."""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cgipool.report.blocks import Block
from cgipool.report.page import study_data
from cgipool.report.tables import LONGEST, _tex_tables, latex, markdown, tidy
from cgipool.report.view import View, view_of
from cgipool.study.records import read_book
from stores import METHODS, add_cell, add_study, fail, write


def only_view(store: Path) -> View:
    book = read_book(store)
    return view_of(book.studies[0], book)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two methods on three data sets: accuracies whose mean and standard error are known, one failed, one missing."""
    axes = {"method": ["sag", "cgi"], "dataset": ["NCI1", "COLLAB", "PROTEINS"]}
    published = {("cgi", "NCI1"): (81.5, 1.25), ("sag", "COLLAB"): (70.0, None)}
    add_study(
        tmp_path, "small", axes, published=published, title="A & B_1 | 100 % <b>bold</b> $x$", about="Two lines\nof it"
    )
    for method, shares in (("sag", [0.70, 0.72, 0.74]), ("cgi", [0.80, 0.81, 0.85])):
        path = add_cell(tmp_path, {"method": method, "dataset": "NCI1"}, 80.0)
        record = json.loads(path.read_text())
        record["splits"] = record["splits"][:3]
        for row, share in zip(record["splits"], shares, strict=True):
            row["test"]["accuracy"] = share
        write(path, record)
    fail(tmp_path, {"method": "sag", "dataset": "COLLAB"}, "<script>alert(1)</script> | a*b")
    return tmp_path


def rows_of(text: str, title: str) -> list[list[str]]:
    """The cells of the Markdown table under a heading."""
    part = text.split(f"## {title}\n")[1].split("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]


def test_the_accuracy_table_by_hand(small: Path):
    table = rows_of(markdown(only_view(small)), "Accuracy")
    # 72 ± √((2² + 0² + 2²) / 2 / 3) and 82 ± √((2² + 1² + 3²) / 2 / 3); they differ by 10, 9 and 11, so that
    # t = 10 / √(1/3 + 110/880) = 14.8 with 2 degrees of freedom, and p = 0.005.
    assert table[0] == ["method", "NCI1", "COLLAB", "PROTEINS"]
    assert table[2] == ["SAGPool", "72.00 ± 1.15 ▼", "failed", "–"]
    assert table[3] == ["published", "–", "70.00", "–"]
    assert table[4] == ["CGIPool", "**82.00 ± 1.53**", "–", "–"]
    assert table[5] == ["published", "81.50 (+0.50)", "–", "–"]


def test_a_report_says_how_its_cells_were_trained(small: Path):
    assert "2 of 6 cells are done; 1 failed, 3 missing. Recipe paper; 3 random splits." in markdown(only_view(small))
    path = next((small / "cells").iterdir())
    record = json.loads(path.read_text())
    record["cell"] |= {"ensemble": 10, "recipe": record["cell"]["recipe"] | {"name": "strong-social"}}
    write(path, record)
    text = markdown(only_view(small))
    assert "strong-social" in text
    assert "; 3 random splits; ensembles of 10." in text


def test_each_table_has_its_words_and_numbers(written: Path):
    text = (written / "table1.md").read_text()
    against = rows_of(text, "CGIPool against the others")
    assert len(against) == 2 + 47
    assert "Nadeau and Bengio" in text
    assert "47 comparisons" in text
    ranks = rows_of(text, "Average ranks")
    assert (len(ranks), ranks[2][0]) == (2 + 8, "CGIPool")
    assert "Friedman test for equal methods: χ² = " in text
    assert "critical difference 4.70" in text  # 3.031 √(8·9 / (6·5))
    assert len(rows_of(text, "Probability of improvement")) == 2 + 7
    gaps = rows_of(text, "Gap to the published numbers")
    assert len(gaps) == 2 + 53
    ours, published, spread, floor, difference = (float(x.replace("−", "-")) for x in gaps[2][2:7])
    assert difference == pytest.approx(ours - published, abs=0.011)
    assert (spread, floor) == (1.1, pytest.approx(np.sqrt(76 * 24 / 110), abs=0.005))


def test_ensembles_stand_beside_their_members(small: Path):
    """Of two cells one is an ensemble: two points above its members on the first split and three on the others."""
    path = next(path for path in (small / "cells").iterdir() if json.loads(path.read_text())["cell"]["method"] == "cgi")
    assert "Ensembles against" not in markdown(only_view(small))
    record = json.loads(path.read_text())
    for number, row in enumerate(record["splits"]):
        middle = row["test"]["accuracy"] - (0.02 if number == 0 else 0.03)
        row["members"] = [{"test_accuracy": middle - 0.05}, {"test_accuracy": middle + 0.05}]
    write(path, record)
    (found,) = rows_of(markdown(only_view(small)), "Ensembles against their members")[2:]
    # 8/3 ± 4.303 · √((1/3) (1/3 + 110/880)): t = 8/3 / 0.391 = 6.82 with 2 degrees of freedom.
    assert found[:8] == ["CGIPool", "NCI1", "82.00", "79.33", "+2.67", "0.98 to 4.35", "3", "0.021"]
    assert found[8:] == ["0.021", "▲"]


def test_markdown_shows_markup_as_text(small: Path):
    text = markdown(only_view(small))
    assert text.startswith("# A &amp; B\\_1 \\| 100 % &lt;b>bold&lt;/b> $x$\n\nTwo lines of it\n")
    assert "<" not in text
    assert "- SAGPool, COLLAB: &lt;script>alert(1)&lt;/script> \\| a\\*b" in text


def unescaped(text: str, character: str) -> int:
    return len(re.findall(rf"(?<!\\)(?:\\\\)*{re.escape(character)}", text))


def test_latex_is_well_formed(written: Path, small: Path):
    for text in ((written / "table1.tex").read_text(), (written / "alpha.tex").read_text(), latex(only_view(small))):
        assert unescaped(text, "{") == unescaped(text, "}")
        assert unescaped(text, "$") % 2 == 0
        for kind in ("table*", "tabular"):
            assert text.count(rf"\begin{{{kind}}}") == text.count(rf"\end{{{kind}}}") >= 1
        assert text.isascii()
        for table in text.split(r"\begin{tabular}")[1:]:
            columns = re.match(r"\{@\{\}((?:[lr]|p\{0\.5\\textwidth\})+)@\{\}\}\n\\toprule\n", table)
            assert columns
            lines = [line for line in table.split(r"\end{tabular}")[0].splitlines() if line.endswith(r"\\")]
            assert lines
            assert {unescaped(line, "&") for line in lines} == {len(re.sub(r"\{.*?\}", "", columns[1])) - 1}


def test_latex_compiles_in_two_columns(written: Path, tmp_path: Path):
    r"""`longtable` stops in two columns; a float of `tabular` is set in any class, and none is wider than the page."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    tables = "".join(rf"\input{{{written / name}}}\clearpage" for name in ("table1", "alpha", "figure3"))
    head = r"\documentclass[twocolumn]{article}\usepackage{booktabs}\begin{document}"
    (tmp_path / "paper.tex").write_text(rf"{head}Text.{tables}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search(r"Overfull \\hbox|Float too large", done.stdout)


def test_latex_continues_long_tables_and_breaks_long_words():
    rows = [[f"m{number}", "a word " * 20, "1.00"] for number in range(LONGEST + 1)]
    first, second = _tex_tables(Block("Title", ["Words."], ["method", "near", "rank"], rows, left=2, strong={(50, 2)}))
    assert r"\caption{\textbf{Title.} Words.}" in first
    assert r"\caption{\textbf{Title, continued.}}" in second
    assert r"{@{}lp{0.5\textwidth}r@{}}" in first
    assert re.findall(r"^m\d+", first + second, re.MULTILINE) == [row[0] for row in rows]
    assert r"\textbf{1.00}" in second


def test_latex_escapes_what_it_would_run(small: Path):
    path = small / "studies" / "small.json"
    study = json.loads(path.read_text())
    write(path, study | {"titles": {"method": {"cgi": r"\input{x} 50% #1 a_b^c~d {", "sag": "S&G"}}})
    text = latex(only_view(small))
    assert r"\textbackslash{}input\{x\} 50\% \#1 a\_b\textasciicircum{}c\textasciitilde{}d \{" in text
    assert r"S\&G & 72.00" in text
    assert r"\input{" not in text


def test_csv_has_every_split_of_every_cell(store: Path, written: Path):
    rows = list(csv.DictReader(io.StringIO((written / "figure3.csv").read_text())))
    assert len(rows) == 32 * 20
    names = "study method dataset ratio recipe ensemble unread split accuracy balanced_accuracy mcc roc_auc pr_auc"
    assert list(rows[0]) == [*names.split(), "positive", "val_loss", "epochs", "best_epoch", "seconds", "key"]
    records = read_book(store).records
    for row in rows:
        record = records[row["key"]]
        split = record.splits[int(row["split"])]
        assert (row["method"], row["dataset"]) == (record.cell["method"], record.cell["dataset"])
        assert float(row["ratio"]) == record.cell["recipe"]["ratio"]
        assert (row["recipe"], row["ensemble"]) == ("paper", "1")
        assert float(row["accuracy"]) == split["test"]["accuracy"]
        assert (int(row["epochs"]), float(row["val_loss"]), row["pr_auc"]) == (split["epochs"], split["val_loss"], "")


def test_csv_of_a_study_without_results_is_its_heading(tmp_path: Path):
    add_study(tmp_path, "empty", {"method": list(METHODS), "dataset": ["NCI1"]})
    assert tidy(only_view(tmp_path)).splitlines() == [
        "study,method,dataset,recipe,ensemble,unread,split,positive,val_loss,epochs,best_epoch,seconds,key"
    ]


def test_cells_along_a_setting_that_is_not_read_are_marked_as_one_result(tmp_path: Path):
    """No pooling at two ratios is one cell: marked, counted and compared once."""
    axes = {"method": ["topk", "cgi"], "dataset": ["NCI1"], "ratio": [0.2, 0.8]}
    cells = add_study(tmp_path, "ratios", axes, baseline="topk")
    for cell in cells:
        add_cell(tmp_path, cell["at"], 75.0)
    path = tmp_path / "studies" / "ratios.json"
    before = only_view(tmp_path)
    assert "‡" not in markdown(before)
    study = json.loads(path.read_text())
    for cell in study["cells"]:  # as if neither read the ratio
        cell |= {"unread": ["ratio"], "key": next(c["key"] for c in cells if c["at"]["method"] == cell["at"]["method"])}
    write(path, study)
    view = only_view(tmp_path)
    text = markdown(view)
    assert "2 of 2 cells are done." in text
    assert text.count("‡") == 4 + 1, "every cell, and the footnote"
    assert "‡ one result shown several times: the method does not use ratio." in text
    assert len(rows_of(text, "TopKPool against the others")) == 2 + 1
    assert "1 comparison of this study" in text
    entry = view.of("cgi", "ratio 0.2")
    assert entry
    assert entry.against
    assert entry.against.adjusted == entry.against.paired.p, "nothing to adjust for"
    assert r"$\ddagger$" in latex(view)
    rows = list(csv.DictReader(io.StringIO(tidy(view))))
    assert len(rows) == 4 * 20
    assert {row["unread"] for row in rows} == {"ratio"}
    cells = {entry.wanted.key: {} for entry in view.entries}
    assert {tick for e in study_data(view, {}, cells)["entries"] for tick in e["marks"]} >= {"‡"}
