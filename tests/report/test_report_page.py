"""The page as a file: self-contained, its data safe between tags, its parts in the wheel."""

import json
import re
from importlib.resources import files
from itertools import accumulate
from pathlib import Path

import pytest

from cgipool.report.blocks import _ours
from cgipool.report.page import SCRIPTS, _brief, in_script
from cgipool.report.page_cells import axis, mean_and_error
from cgipool.report.training_curves import thinned
from cgipool.report.view import CellResult
from cgipool.study.records import Wanted, read_book
from cgipool.study.statistics import Summary
from report_pages import data_of


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return (written / "index.html").read_text(encoding="utf-8")


def test_the_page_is_self_contained(page: str):
    outside = re.sub(r'(?s)<script type="application/json".*?</script>', "", page)
    assert "{{" not in re.sub(r"\$\{\{?", "", outside)
    assert set(re.findall(r"https?://[^\s\"']+", outside)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<link[^>]+href=\"(?!data:)|<script[^>]+src=|@import|url\(", outside)
    assert "default-src 'none'" in outside


def test_the_data_are_those_of_the_store(page: str, store: Path):
    data = data_of(page)
    assert [study["name"] for study in data["studies"]] == ["alpha", "figure3", "table1"]
    records = read_book(store).records
    assert set(data["cells"]) == set(records)
    for key, cell in data["cells"].items():
        facts = dict(map(tuple, cell["settings"]))
        assert (facts["method"], facts["dataset"]) == (records[key].cell["method"], records[key].cell["dataset"])
        assert (facts["recipe"], float(facts["ratio"])) == ("paper", records[key].cell["recipe"]["ratio"])
        assert dict(map(tuple, cell["provenance"]))["versions.torch"] == "2.13.0"
    for study in data["studies"]:
        for entry in (entry for entry in study["entries"] if entry["status"] == "done"):
            shares = [row["test"]["accuracy"] for row in records[entry["key"]].splits]
            column = entry["splits"]["head"].index("accuracy, %")
            assert [row[column] for row in entry["splits"]["rows"]] == [f"{100 * share:.2f}" for share in shares]


def test_the_page_shows_the_digits_of_the_tables(page: str, written: Path):
    """Every accuracy, difference and p of the page is in the tables of its study, digit for digit."""
    for study in data_of(page)["studies"]:
        plain = (written / f"{study['name']}.md").read_text(encoding="utf-8")
        tex = (written / f"{study['name']}.tex").read_text(encoding="utf-8")
        for entry in (entry for entry in study["entries"] if entry["status"] == "done"):
            views, facts = entry["views"], dict(map(tuple, entry["facts"]))
            assert re.search(rf"\| \**{views['accuracy']['main']}[ *|]", plain), entry["label"]
            assert views["accuracy"]["main"].replace("±", r"$\pm$") in tex
            assert facts["mean ± SE, %"] == views["accuracy"]["main"]
            if views["difference"]:
                assert f" {views['difference']['main']} |" in plain
                assert f"| {facts['ours − published'].split('(')[1][:-1]} |" in plain
            if "p, Holm-adjusted" in facts:
                assert f" {facts['p, Holm-adjusted'].split()[0].replace('<', '&lt;')} |" in plain


def test_curves_of_the_page_are_those_of_the_store(page: str, store: Path):
    """Whole heights and steps between epochs, once undone, are the stored curves to half a step of the chart."""
    records = read_book(store).records
    for key, cell in list(data_of(page)["cells"].items())[:5]:
        chart = cell["charts"][0]
        step = (chart["high"] - chart["low"]) / chart["top"]
        assert len(chart["threads"]) == len(records[key].splits)
        for thread, row in zip(chart["threads"], records[key].splits, strict=True):
            epochs, values = thinned(row, "val_loss")
            assert list(accumulate(thread["steps"])) == epochs.tolist()
            heights = [chart["low"] + step * height for height in thread["values"]]
            assert heights == pytest.approx(values.tolist(), abs=0.51 * step)


def test_a_figure_in_the_page_has_shorter_paths_and_the_same_text():
    svg = '<svg><path d="M 1.23456 2L -0.5 3.999999"/><text x="1.23456">0.123456</text></svg>'
    assert _brief(svg) == '<svg><path d="M 1.23 2L -0.5 3.99"/><text x="1.23">0.123456</text></svg>'


def test_one_rounding_in_page_and_tables():
    entry = CellResult(Wanted("k", {}), 0, 0, "cgi", "NCI1", None, None, summary=Summary(3, 80.125001, 4.0, 2.795001))
    assert (mean_and_error(entry.summary, 2), _ours(entry)) == ("80.13 ± 2.80", "80.13 ± 2.80")
    shown = json.loads(in_script({"text": mean_and_error(entry.summary, 2), "value": entry.summary.se}))
    assert shown == {"text": "80.13 ± 2.80", "value": 2.795}, "numbers to draw by are rounded, those to read are text"


def test_the_program_of_the_page_writes_no_number():
    web = files("cgipool.report") / "web"
    program = {name: (web / name).read_text(encoding="utf-8") for name in SCRIPTS}
    written = {
        name: re.findall(r"toFixed|toPrecision|toLocaleString|Intl|Number\(", text) for name, text in program.items()
    }
    assert written == {name: [] for name in SCRIPTS} | {"charts.js": ["toFixed", "toFixed"]}, (
        "of a path in a drawing alone"
    )
    assert len(re.findall(r"\$\{x\(a\)\.toFixed\(1\)\} \$\{y\(b\)\.toFixed\(1\)\}", program["charts.js"])) == 1


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (70.0, 80.0, ["70", "72", "74", "76", "78", "80"]),
        (0.5, 0.9, ["0.5", "0.6", "0.7", "0.8", "0.9"]),
        (-0.01, 0.012, ["−0.01", "−0.005", "0.000", "0.005", "0.010"]),
    ],
)
def test_axes_have_round_numbers(low: float, high: float, texts: list[str]):
    assert [tick["text"].rstrip("0").rstrip(".") for tick in axis(low, high, 5)] == [
        t.rstrip("0").rstrip(".") for t in texts
    ]


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!-- <script>", "a & b\u2028c", '"\\'])
def test_no_text_ends_the_script(text: str):
    plain = in_script({"reason": text})
    assert not set(plain) & set("<>&")
    assert json.loads(plain) == {"reason": text}


def test_numbers_that_json_lacks_become_null():
    assert json.loads(in_script([float("inf"), float("nan"), 1 / 3])) == [None, None, 0.333333]


def test_the_parts_of_the_page_are_package_data():
    web = files("cgipool.report") / "web"
    assert {path.name for path in web.iterdir()} == {"head.html", "page.html", "page.css", *SCRIPTS}
