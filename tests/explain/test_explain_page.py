"""The page of one graph in a real Chromium: letters and bonds of molecules, slider, scores, both themes and a phone."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from cgipool import GraphSet, load_dataset
from cgipool.cli import main
from cgipool.explain import Explanation, explain_graph, page
from cgipool.inference.fitted import FittedModel
from cgipool.inference.fitting import fit

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
def explained(models: list[Path]) -> list[Explanation]:
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
    expect(view.locator(".view:not(.away) .node.kept").first).to_be_attached()
    yield view
    assert said == []
    assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}


def shown(view: Page, model: int, what: str) -> Locator:
    """Parts of the drawing of a model at the level that is shown."""
    return view.locator(".model").nth(model).locator(f".view:not(.away) {what}")


def caption(view: Page, model: int) -> str:
    return view.locator(".model").nth(model).locator(".now:not(.away)").inner_text()


@once
def test_the_slider_moves_both_models(opened: Page, explained: list[Explanation]) -> None:
    slider = opened.get_by_label("Pooling level")
    assert slider.input_value() == "3"
    for level in (2, 1, 0):
        slider.press("ArrowLeft")
        assert slider.input_value() == str(level)
        expect(opened.locator("[data-stop][aria-pressed=true]")).to_have_text(f"Level {level}" if level else "Input")
        for model, one in enumerate(explained):
            alive = one.alive(level)
            kept, gone = int(alive.sum()), int((~alive).sum())
            expect(shown(opened, model, ".node.kept")).to_have_count(kept)
            expect(shown(opened, model, ".node.gone")).to_have_count(gone)
            edges = one.edges_left[level - 1] if level else len(one.edges)
            lines = [shown(opened, model, f".edges.{kind}").get_attribute("d").count("M") for kind in ("kept", "gone")]
            assert lines == [edges, len(one.edges) - edges]
            now = opened.locator(".model").nth(model).locator("tr.here")
            assert now.inner_text().split() == [str(level) if level else "input", str(kept), str(gone), str(edges)]
    assert caption(opened, 0).startswith("Input: ")
    opened.get_by_role("button", name="Level 2").click()
    assert slider.input_value() == "2"


@once
def test_a_model_with_fewer_levels_stays_at_its_last(opened: Page, explained: list[Explanation]) -> None:
    assert caption(opened, 0).startswith("Level 3: ")
    assert caption(opened, 1).startswith("Level 2: ")
    expect(shown(opened, 1, ".node.kept")).to_have_count(explained[1].nodes_left[-1])


def test_hover_shows_the_scores(opened: Page, explained: list[Explanation]) -> None:
    opened.get_by_label("Pooling level").fill("1")
    one = explained[0]
    node = int(np.flatnonzero(one.trace.alive[0])[0])
    tip = opened.locator("#tip")
    expect(tip).to_be_hidden()
    shown(opened, 0, ".node.kept").first.hover(force=True)
    expect(tip).to_contain_text(f"node {node}")
    for name, values in one.trace.scores.items():
        expect(tip).to_contain_text(f"{name} {values[0, node]:.4f}")
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= opened.viewport_size["width"]
    shown(opened, 0, ".node.gone").first.hover(force=True)
    expect(tip).to_contain_text("dropped at level 1")


@once
def test_probabilities_are_shown(opened: Page, explained: list[Explanation]) -> None:
    for model, one in enumerate(explained):
        bars = opened.locator(".bars").nth(model).locator("li")
        for place, (name, p) in enumerate(one.predictions.items()):
            text = bars.nth(place).inner_text()
            assert name in text
            assert f"{p:.3f}" in text
            assert ("true class" in text) == (name == one.true_class)
        guess = opened.locator(".guess").nth(model).inner_text()
        assert guess == "Predicted class {}, probability {:.2f}".format(*one.prediction)


def test_the_page_never_scrolls_sideways(opened: Page) -> None:
    width = opened.viewport_size["width"]
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [shown(opened, model, ".edges.kept").locator("..").bounding_box() for model in (0, 1)]
    assert (boxes[0]["y"] == boxes[1]["y"]) == (width > 1000), "side by side where there is room"
    assert all(box["width"] <= width for box in boxes)


def test_the_theme_follows_the_system_and_the_switch(opened: Page) -> None:
    dark = opened.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    for expected in (dark, not dark):
        ground = opened.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
        line = opened.evaluate(
            "Number(getComputedStyle(document.querySelector('.view:not(.away) .edges.kept')).stroke.match(/\\d+/)[0])"
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
    one = replace(explain_graph(model, evil, 0), node_names=[EVIL] * graph.n_nodes)
    path.write_text(page([one]), encoding="utf-8")
    for view in visited(browser.new_page(), path):
        assert view.locator("h1").inner_text() == f"Graph 0 of {EVIL}"
        assert EVIL in view.locator(".bars li").first.inner_text()
        shown(view, 0, ".node.kept").first.hover(force=True)
        expect(view.locator("#tip")).to_contain_text(EVIL)
        assert shown(view, 0, ".name").first.text_content() == f"{EVIL[:25]}…"
        assert view.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("width", [900, 1000, 1280])
def test_beside_the_drawing_the_table_has_room_for_all_columns(
    width: int, browser: Browser, tmp_path: Path, explained: list[Explanation]
) -> None:
    path = tmp_path / "one.html"
    path.write_text(page(explained[:1]), encoding="utf-8")
    for view in visited(browser.new_page(viewport={"width": width, "height": 800}), path):
        table, drawing = (view.locator(what).first for what in (".counts .scroll", ".drawn"))
        assert table.evaluate("box => box.scrollWidth <= box.clientWidth")
        assert table.bounding_box()["x"] > drawing.bounding_box()["x"], "it is beside it"


def test_a_graph_of_one_node(browser: Browser, tmp_path: Path, models: list[Path]) -> None:
    one = GraphSet.from_edges("one", [1], np.empty(0, int), np.empty(0, int), [0])
    path = tmp_path / "one.html"
    path.write_text(page([explain_graph(FittedModel.load(models[0]), one, 0)]), encoding="utf-8")
    for view in visited(browser.new_page(), path):
        expect(shown(view, 0, ".node.kept")).to_have_count(1)


@once
def test_all_levels_have_one_scale(opened: Page, explained: list[Explanation]) -> None:
    for model, one in enumerate(explained):
        section = opened.locator(".model").nth(model)
        legend = section.locator(".legend").inner_text()
        assert one.scale.meaning in legend
        assert "has no class direction" in legend
        for level in range(1, one.trace.levels + 1):
            opened.get_by_label("Pooling level").fill(str(level))
            assert section.locator(".tick").all_inner_texts() == [f"{tick:g}" for tick in one.scale.ticks]
            score = one.trace.score[level - 1, one.alive(level)]
            filled = shown(opened, model, ".node.kept").evaluate_all(
                "all => all.map(node => node.getAttribute('fill'))"
            )
            assert filled == [one.scale.colour(value) for value in score]
            assert f"from {score.min():.4f} to {score.max():.4f}" in caption(opened, model)
            bar, span = (section.locator(part).bounding_box() for part in (".shades", ".span:not(.away)"))
            start = (span["x"] - bar["x"]) / bar["width"]
            assert start == pytest.approx(one.scale.share(float(score.min())), abs=0.01)


SMILES = [
    "O=C(O)c1ccccc1Nc1cccc(C(F)(F)F)c1",
    "CC(=O)Oc1ccccc1C(=O)O",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "C[C@H](N)C(=O)O",
    "F/C=C/C=C\\Cl",
    "C#CC1=CC=C(Br)S1",
    "C[N+](C)(C)CC([O-])=O",
    "CS(=O)(=O)c1ccc(I)cc1",
    "O=[N+]([O-])c1ccc(P(=O)(O)O)cc1",
    "CC1(C)S[C@@H]2[C@H](NC(=O)Cc3ccccc3)C(=O)N2[C@H]1C(=O)O",
    "B(O)(O)c1ccncc1[Si](C)(C)C",
]


def test_molecules_keep_their_letters_and_bonds_at_every_level(browser: Browser, tmp_path: Path) -> None:
    Chem = pytest.importorskip("rdkit.Chem")
    from cgipool.data.molecules import MoleculeFeaturizer

    made = MoleculeFeaturizer().graphs(SMILES)
    made = made.relabelled(np.arange(len(SMILES)) % 2, ("no", "yes"))
    model, path = fit(made, width=8, epochs=1, featurizer=MoleculeFeaturizer().to_json()), tmp_path / "molecule.html"
    explained = [explain_graph(model, made, number) for number in range(len(SMILES))]
    assert len(page(explained[:1])) < 150_000
    path.write_text(page(explained), encoding="utf-8")  # one page for all of them is quicker to load
    for view in visited(browser.new_page(), path):
        for level in (3, 2, 1, 0):
            for number, smiles in enumerate(SMILES):
                texts, paths, discs, kept = drawn(view, number)
                source = Chem.MolFromSmiles(smiles)
                Chem.Kekulize(source, clearAromaticFlags=True)
                for atom in source.GetAtoms():
                    assert atom.GetSymbol() == "C" or atom.GetSymbol() in texts[atom.GetIdx()], smiles
                assert sorted(map(order, paths)) == sorted(int(b.GetBondTypeAsDouble()) for b in source.GetBonds()), (
                    smiles
                )
                left = explained[number].nodes_left[level - 1] if level else source.GetNumAtoms()
                assert (discs, kept) == (left if level else 0, left)
            view.get_by_label("Pooling level").press("ArrowLeft")


def drawn(view: Page, model: int) -> tuple[dict[int, str], list[list[np.ndarray]], int, int]:
    """Of a molecule as it is shown: the letters at each atom, the lines [2 ends, 2] of each bond, and how many
    coloured discs and kept atoms there are."""
    found = shown(view, model, "text, path[class^=bond], ellipse, .node.kept").evaluate_all(
        "all => all.filter(part => part.checkVisibility()).map(part => "
        "[part.tagName, part.getAttribute('class'), part.textContent, part.getAttribute('d')])"
    )
    texts, bonds, count = defaultdict(str), defaultdict(list), Counter(tag for tag, *_ in found)
    for tag, name, text, line in found:
        if tag == "text":
            texts[int(name.removeprefix("atom-"))] += text
        elif tag == "path":
            ends = np.array(re.findall(r"(-?[\d.]+),(-?[\d.]+)", line), float)
            bonds[int(name.split()[0].removeprefix("bond-"))] += [ends] if len(ends) == 2 else []
    return texts, list(bonds.values()), count["ellipse"], count["circle"]


def order(lines: list[np.ndarray]) -> int:
    """Of a bond by its parallel lines; a wedge is a filled shape or many short lines."""
    if not lines or len(lines) > 6:
        return 1
    along = lines[0][1] - lines[0][0]
    across = np.array([-along[1], along[0]]) / np.linalg.norm(along)
    return len({round(float((line.mean(0) - lines[0][0]) @ across) / 3) for line in lines})
