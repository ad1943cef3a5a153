"""The page of one graph in a real Chromium: the slider, the scores on hover, both themes and a phone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from cgipool import GraphSet, load_dataset
from cgipool.cli import main
from cgipool.explain import Explained, explain_graph, page
from cgipool.fitted import FittedModel, fit

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>{{data}} NAME"
NUMBER = 3


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """CGIPool with three levels, TopKPool with two."""
    folder, graphs = tmp_path_factory.mktemp("models"), load_dataset("motifs").subset(range(0, 1000, 8))
    paths = [folder / "cgi.safetensors", folder / "topk.safetensors"]
    for path, levels in zip(paths, (3, 2), strict=True):
        fit(graphs, method=path.stem, width=16, epochs=5, levels=levels).save(path)
    return paths


@pytest.fixture(scope="module")
def explained(models: list[Path]) -> list[Explained]:
    graphs = load_dataset("motifs")
    return [explain_graph(FittedModel.load(path), graphs, NUMBER) for path in models]


@pytest.fixture(scope="module")
def written(models: list[Path]) -> Path:
    first, second = models
    out = first.parent / "graph.html"
    words = ["--graph", str(NUMBER), "--out", str(out), "--against", str(second)]
    assert main(["explain", str(first), "motifs", *words]) == 0
    return out


once = pytest.mark.parametrize("opened", ["light"], indirect=True)
"""For what neither theme nor width has a part in."""


@pytest.fixture(params=["light", "dark", "phone"])
def opened(request: pytest.FixtureRequest, browser: Browser, written: Path) -> Iterator[Page]:
    """The page; at the end, nothing was logged and nothing was asked of any network."""
    size = {"width": 375, "height": 812} if request.param == "phone" else {"width": 1280, "height": 900}
    context = browser.new_context(viewport=size, color_scheme="dark" if request.param == "dark" else "light")
    yield from visited(context.new_page(), written)
    context.close()


def visited(view: Page, path: Path) -> Iterator[Page]:
    said: list[str] = []
    asked: list[str] = []
    view.on("console", lambda message: said.append(message.text))
    view.on("pageerror", lambda error: said.append(str(error)))
    view.on("request", lambda request: asked.append(request.url))
    view.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    view.goto(path.as_uri())
    expect(view.locator("#graph-0 .trace-kept .point").first).to_be_visible()
    yield view
    assert said == []
    assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}


def points(view: Page, model: int, kind: str) -> Locator:
    return view.locator(f"#graph-{model} .trace-{kind} .point")


@once
def test_the_slider_moves_both_models(opened: Page, explained: list[Explained]) -> None:
    slider = opened.get_by_label("Level")
    assert slider.input_value() == "3"
    for level in (2, 1, 0):
        slider.press("ArrowLeft")
        assert slider.input_value() == str(level)
        for model, one in enumerate(explained):
            alive = one.trace.alive[level - 1] if level else np.ones(one.graph.n_nodes, bool)
            expect(points(opened, model, "kept")).to_have_count(int(alive.sum()))
            expect(points(opened, model, "gone")).to_have_count(int((~alive).sum()))
            now = opened.locator(".model").nth(model).locator("tr.here")
            edges = one.edges_left[level - 1] if level else len(one.edges)
            assert now.inner_text().split() == [str(level) if level else "input", str(alive.sum()), str(edges)]
    assert opened.locator("#words-0").inner_text().startswith("Input: ")


@once
def test_a_model_with_fewer_levels_stays_at_its_last(opened: Page, explained: list[Explained]) -> None:
    assert opened.locator("#words-0").inner_text().startswith("Level 3: ")
    assert opened.locator("#words-1").inner_text().startswith("Level 2: ")
    expect(points(opened, 1, "kept")).to_have_count(explained[1].nodes_left[-1])


def test_hover_shows_the_scores(opened: Page, explained: list[Explained]) -> None:
    opened.get_by_label("Level").fill("1")
    one = explained[0]
    node = int(np.flatnonzero(one.trace.alive[0])[0])
    points(opened, 0, "kept").first.hover(force=True)
    shown = opened.locator("#graph-0 .hoverlayer")
    expect(shown).to_contain_text(f"node {node}")
    for name, values in one.trace.scores.items():
        expect(shown).to_contain_text(f"{name} {values[0, node]:.4f}")
    points(opened, 0, "gone").first.hover(force=True)
    expect(shown).to_contain_text("dropped at level 1")


@once
def test_probabilities_are_shown(opened: Page, explained: list[Explained]) -> None:
    for model, one in enumerate(explained):
        bars = opened.locator(".bars").nth(model).locator("li")
        for place, (name, p) in enumerate(one.probabilities.items()):
            text = bars.nth(place).inner_text()
            assert name in text
            assert f"{p:.3f}" in text
            assert ("its class" in text) == (name == one.true_class)


def test_the_page_never_scrolls_sideways(opened: Page) -> None:
    width = opened.viewport_size["width"]
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [opened.locator(f"#graph-{model}").bounding_box() for model in (0, 1)]
    assert (boxes[0]["y"] == boxes[1]["y"]) == (width > 1000), "side by side where there is room"
    for box in opened.locator(".graph svg.main-svg").all():
        assert box.bounding_box()["width"] <= width


def test_the_theme_follows_the_system_and_the_switch(opened: Page) -> None:
    dark = opened.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    for expected in (dark, not dark):
        ground = opened.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        line = opened.evaluate(
            "Number(getComputedStyle(document.querySelector('.trace-kept-edges .js-line')).stroke.match(/\\d+/)[0])"
        )
        assert (ground < 64) == expected
        assert abs(ground - line) > 90, "kept edges stand out"
        opened.locator("#theme").click()


def test_names_are_text_everywhere(browser: Browser, tmp_path: Path, models: list[Path]) -> None:
    graph = load_dataset("motifs").subset([0])
    evil = replace(
        graph,
        name=EVIL,
        class_names=(EVIL, *graph.class_names[1:]),
        category=np.zeros((graph.n_nodes, 1), np.int32),
        category_names=((EVIL,),),
    )
    model = replace(FittedModel.load(models[0]), class_names=(EVIL, *graph.class_names[1:]))
    path = tmp_path / "evil.html"
    path.write_text(page([explain_graph(model, evil, 0)]), encoding="utf-8")
    for view in visited(browser.new_page(), path):
        assert view.locator("h1").inner_text() == f"Graph 0 of {EVIL}"
        assert EVIL in view.locator(".bars li").first.inner_text()
        points(view, 0, "kept").first.hover(force=True)
        expect(view.locator(".hoverlayer")).to_contain_text("onerror=alert(1)>")
        assert view.locator("img[src=x]").count() == 0


def test_a_graph_of_one_node(browser: Browser, tmp_path: Path, models: list[Path]) -> None:
    one = GraphSet.from_edges("one", [1], np.empty(0, int), np.empty(0, int), [0])
    path = tmp_path / "one.html"
    path.write_text(page([explain_graph(FittedModel.load(models[0]), one, 0)]), encoding="utf-8")
    for view in visited(browser.new_page(), path):
        expect(points(view, 0, "kept")).to_have_count(1)


@once
def test_the_colour_bar_tells_its_ends(opened: Page, explained: list[Explained]) -> None:
    trace = explained[0].trace
    score = trace.score[-1][trace.alive[-1]]
    ticks = opened.locator("#graph-0 .cbaxis text")
    expect(ticks.first).to_have_text(f"{score.min():.3f}")
    expect(ticks.last).to_have_text(f"{score.max():.3f}")
