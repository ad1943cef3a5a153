"""The page in a real Chromium: what a reader does with it, in both themes and on a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from cgipool.report import write_report
from cgipool.study.records import key_of
from stores import add_study, add_table, cell_of, fail


@pytest.fixture
def report(written: Path) -> Path:
    """The page of the full store."""
    return written / "index.html"


once = pytest.mark.parametrize("page", ["light"], indirect=True)
"""For what neither theme nor width has a part in."""


@pytest.fixture(params=["light", "dark", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Page]:
    """The page on the study table1; at the end, nothing was logged and nothing was asked of any network."""
    size = {"width": 375, "height": 812} if request.param == "phone" else {"width": 1280, "height": 900}
    scheme = "dark" if request.param == "dark" else "light"
    context = browser.new_context(viewport=size, color_scheme=scheme)
    yield from visited(context.new_page(), report)
    context.close()


def visited(page: Page, report: Path) -> Iterator[Page]:
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    page.goto(f"{report.as_uri()}#table1")
    expect(page.locator("h1")).to_have_text("Graph classification, eight methods")
    yield page
    assert said == []
    assert {url for url in asked if not url.startswith("data:")} == {report.as_uri()}


def rows(page: Page) -> list[str]:
    return page.locator("table.main tbody th").all_inner_texts()


def cell(page: Page, label: str) -> Locator:
    return page.locator(f"button.cell[data-label='{label}']")


def head(page: Page, title: str) -> Locator:
    return page.locator("table.main thead th").filter(has_text=title).first


@once
def test_a_heading_sorts_by_click_and_by_key(page: Page):
    study = rows(page)
    header = head(page, "NCI109")
    assert header.get_attribute("aria-sort") == "none"
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    first = rows(page)
    assert first[0] == "CGIPool"
    header.locator("button").press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    assert rows(page) == first[::-1]
    header.locator("button").press("Space")
    assert header.get_attribute("aria-sort") == "none"
    assert rows(page) == study


@once
def test_missing_cells_are_last_in_either_order(page: Page):
    button = head(page, "PROTEINS").locator("button")
    for _ in range(2):
        button.click()
        assert rows(page)[-1] == "ASAP"


@once
def test_methods_sort_by_name(page: Page):
    head(page, "method").locator("button").click()
    assert rows(page) == sorted(rows(page), key=str.lower)


def test_the_table_switches_between_its_views(page: Page):
    assert "±" in cell(page, "CGIPool on NCI1").inner_text()
    page.get_by_label("Difference to the paper").check()
    expect(cell(page, "CGIPool on NCI1").locator(".value")).to_have_text("−1.34")
    assert page.locator(".mark").count() == 0, "marks are of another comparison"
    page.get_by_label("Rank", exact=True).check()
    assert cell(page, "CGIPool on NCI1").locator(".value").inner_text() == "1"
    head(page, "NCI1").locator("button").click()
    values = page.locator("table.main tbody tr td:nth-child(2) .value").all_inner_texts()
    assert [float(value) for value in values] == [1, 2, 3, 4, 5, 6, 7, 8]
    page.get_by_label("Accuracy", exact=True).check()
    assert "±" in cell(page, "CGIPool on NCI1").inner_text()


@once
def test_the_page_shows_the_numbers_of_the_markdown(page: Page, written: Path):
    rows_of = [
        line.strip("| ").split(" | ") for line in (written / "table1.md").read_text().splitlines() if "±" in line
    ]
    told = {row[0]: row[1:] for row in rows_of if len(row) == 8 and row[0] != "method"}
    assert len(told) == 8
    for name, numbers in told.items():
        shown = page.locator("table.main tbody tr", has=page.locator("th", has_text=name)).locator("td").all()
        for place, text in zip(shown, numbers, strict=True):
            if "±" in text:
                value, *marks = [place.locator(".value").inner_text(), *place.locator(".mark").all_inner_texts()]
                assert [value, *marks] == [part for part in text.replace("*", "").rsplit(" ", "▼" in text) if part]


def test_a_cell_opens_and_closes(page: Page):
    dialog = page.locator("dialog")
    button = cell(page, "CGIPool on NCI1")
    button.press("Enter")
    expect(dialog).to_be_visible()
    assert dialog.locator("h2").inner_text() == "CGIPool on NCI1"
    assert dialog.locator("circle.dot").count() == 20
    assert dialog.locator("path.thread").count() == 20
    assert dialog.locator("path.course").count() == 3
    dialog.get_by_text("Numbers of each split").click()
    assert dialog.locator("details tbody tr").count() == 20
    text = dialog.inner_text()
    for fact in (
        "cgipool train NCI1 --method cgi",
        "0123456789abcdef",
        "sha256:77aa",
        "tf32",
        "split_kind",
        "kept_share",
    ):
        assert fact in text
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert button.evaluate("element => element === document.activeElement")
    button.click()
    dialog.get_by_text("Close").click()
    expect(dialog).to_be_hidden()


@once
def test_the_command_is_copied(page: Page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    cell(page, "SAGPool on NCI109").click()
    page.locator(".copy").click()
    expect(page.locator(".copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "cgipool train NCI109 --method sag --splits 20 --device cuda"


@once
def test_methods_are_filtered(page: Page):
    page.get_by_label("SAGPool").uncheck()
    page.get_by_label("DGCNN").uncheck()
    assert not {"SAGPool", "DGCNN"} & set(rows(page))
    assert len(rows(page)) == 6
    page.get_by_label("SAGPool").check()
    assert len(rows(page)) == 7


@once
def test_missing_and_failed_cells_are_shown_as_such(page: Page):
    assert "missing" in cell(page, "ASAP on PROTEINS").inner_text()
    failed = cell(page, "DiffPool on COLLAB")
    assert "failed" in failed.inner_text()
    failed.click()
    assert page.locator("dialog .reason").inner_text() == "out of memory: <script>alert('no')</script> & more"
    assert page.locator("dialog script").count() == 0


@once
def test_problems_are_at_the_top(page: Page):
    items = page.locator("#problems li")
    assert items.count() == 1
    assert "cells/<b>broken<b>.json is damaged" in items.inner_text()
    assert page.locator("#problems").bounding_box()["y"] < page.locator("h1").bounding_box()["y"]


@once
def test_marks_have_a_legend(page: Page):
    assert cell(page, "Set2Set on NCI1").locator(".mark").inner_text() == "▼"
    assert cell(page, "CGIPool on NCI1").locator(".mark").count() == 0
    assert "▼ significantly worse" in page.locator(".legend").inner_text()


def test_studies_are_chosen_by_click_and_by_arrow(page: Page):
    page.get_by_role("tab", name="figure3").click()
    expect(page.locator("h1")).to_have_text("Accuracy by pooling ratio")
    assert page.get_by_label("Difference to the paper").is_disabled(), "nothing is published"
    page.get_by_role("tab", name="figure3").press("ArrowLeft")
    expect(page.locator("h1")).to_have_text("The weight α of the mutual information")
    assert page.get_by_role("tab", name="alpha").get_attribute("aria-selected") == "true"
    assert page.url.endswith("#alpha")


def test_figures_are_drawn(page: Page):
    for image in page.locator(".figure img").all():
        image.scroll_into_view_if_needed()
        assert image.evaluate("image => image.complete && image.naturalWidth") > 400


def test_the_page_never_scrolls_sideways(page: Page):
    width = page.viewport_size["width"]
    for name in ("alpha", "figure3", "table1"):
        page.get_by_role("tab", name=name).click()
        expect(page.locator(f"main[data-study={name}]")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    cell(page, "CGIPool on NCI1").click()
    box = page.locator("dialog").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert page.locator(".panel-body").evaluate("body => body.scrollWidth <= body.clientWidth")


def background(page: Page) -> int:
    """How bright the page is, 0 to 255."""
    return page.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")


def contrast(page: Page, selector: str) -> float:
    """WCAG's ratio of an element's text to the ground of the page or its box."""
    return page.evaluate(
        """selector => {
            const shine = colour => {
                const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255);
                const linear = parts.map(c => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
                return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
            };
            const element = document.querySelector(selector);
            let ground = element;
            while (/, 0\\)$|transparent/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
            const pair = [shine(getComputedStyle(element).color), shine(getComputedStyle(ground).backgroundColor)];
            return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        }""",
        selector,
    )


def test_the_theme_follows_the_system_and_the_switch(page: Page):
    system = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    for dark in (system, not system):
        assert (background(page) < 64) == dark
        for selector in (
            "h1",
            ".words",
            ".under",
            ".mark",
            ".failed .cell",
            ".missing .cell",
            "thead button",
            "#problems li",
        ):
            assert contrast(page, selector) >= 4.5, selector
        page.locator("#theme").click()
    page.reload()
    assert (background(page) < 64) == system, "the switch is remembered"


def test_on_a_phone_the_first_column_stays(browser: Browser, report: Path):
    context = browser.new_context(viewport={"width": 375, "height": 812})
    for page in visited(context.new_page(), report):
        box = page.locator(".scroll").first
        assert box.evaluate("box => box.scrollWidth > box.clientWidth")
        before = page.locator("table.main tbody th").first.bounding_box()
        box.evaluate("box => { box.scrollLeft = 200; }")
        after = page.locator("table.main tbody th").first.bounding_box()
        assert after["x"] == pytest.approx(before["x"], abs=1.5)
    context.close()


def test_markup_from_the_store_is_text_everywhere(browser: Browser, tmp_path: Path):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    store = tmp_path / "store"
    add_table(store, "plain", methods=2, datasets=2)
    words = {"title": evil, "about": evil, "source": evil}
    add_study(store, "evil", {"method": ["cgi", evil], "dataset": [evil, "NCI1"]}, baseline="cgi", **words)
    fail(store, {"method": evil, "dataset": "NCI1"}, evil)
    write_report(store, tmp_path / "out")
    page = browser.new_page()
    said: list[str] = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("console", lambda message: said.append(message.text))
    page.goto(f"{(tmp_path / 'out' / 'index.html').as_uri()}#evil")
    assert page.locator("h1").inner_text() == evil
    page.locator(f"button[data-key='{key_of(cell_of({'method': evil, 'dataset': 'NCI1'}))}']").click()
    assert page.locator("dialog .reason").inner_text() == evil
    assert page.locator("img[src=x]").count() == 0
    assert said == []
    page.close()
