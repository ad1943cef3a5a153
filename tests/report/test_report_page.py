"""The page as a file: self-contained, its data safe between tags, its parts in the wheel."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from cgipool.report.page import SCRIPTS, in_script
from cgipool.study.records import read_book


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


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


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!-- <script>", "a & b\u2028c", '"\\'])
def test_no_text_ends_the_script(text: str):
    plain = in_script({"reason": text})
    assert not set(plain) & set("<>&")
    assert json.loads(plain) == {"reason": text}


def test_numbers_that_json_lacks_become_null():
    assert json.loads(in_script([float("inf"), float("nan"), 1 / 3])) == [None, None, 0.333333]


def test_the_parts_of_the_page_are_package_data():
    web = files("cgipool.report") / "web"
    assert {path.name for path in web.iterdir()} == {"page.html", "page.css", *SCRIPTS}
