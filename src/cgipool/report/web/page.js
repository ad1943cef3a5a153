const DATA = JSON.parse(document.getElementById("data").textContent);
const STATES = new Map(DATA.studies.map((study) => [study.name, { view: "accuracy", hidden: new Set(), column: null, direction: 0 }]));

const UNREADABLE = "This browser cannot unpack the data of the study. Use a browser from 2023 or later. The same tables are in the .md and .csv files next to this page.";

function showProblems() {
  const box = document.getElementById("problems");
  if (!DATA.problems.length) return;
  const title = DATA.problems.length === 1 ? "One problem in the store" : `${DATA.problems.length} problems in the store`;
  box.append(make("h2", {}, title), make("ul", {}, DATA.problems.map((problem) => make("li", {}, problem))));
  box.hidden = false;
}

function showTabs() {
  const tabs = DATA.studies.map((study) => make("button", { type: "button", role: "tab", id: `tab-${study.name}`,
    "aria-controls": "study", click: () => choose(study.name), keydown: moveTab }, study.name));
  document.getElementById("tabs").append(...tabs);
}

function moveTab(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const next = tabs[(tabs.indexOf(event.currentTarget) + step + tabs.length) % tabs.length];
  next.focus();
  next.click();
}

/** The data of a study, unpacked when it is first shown. */
const unpacked = new Map();

async function unpack({ name, packed }) {
  if (!unpacked.has(name)) {
    const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    unpacked.set(name, JSON.parse(await new Response(stream).text()));
  }
  return unpacked.get(name);
}

async function choose(name) {
  const study = DATA.studies.find((candidate) => candidate.name === name) ?? DATA.studies[0];
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.id === `tab-${study.name}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
  }
  const main = document.getElementById("study");
  main.setAttribute("aria-labelledby", `tab-${study.name}`);
  history.replaceState(null, "", `#${encodeURIComponent(study.name)}`);
  const parts = await unpack(study).then(studyParts, () => [make("p", { class: "notice" }, UNREADABLE)]);
  // Another study may have been chosen in the meantime.
  if (main.getAttribute("aria-labelledby") !== `tab-${study.name}`) return;
  main.replaceChildren(...parts);
  main.dataset.study = study.name;
}

function studyParts(study) {
  const state = STATES.get(study.name);
  const dialog = document.getElementById("panel");
  const table = new StudyTable(study, state, (entry) => openPanel(dialog, entry, study.cells[entry.key]));
  const words = make("p", { class: "words" }, wordsOf(study, state.view));
  const redraw = () => {
    words.textContent = wordsOf(study, state.view);
    table.redraw();
  };
  return [
    make("h1", {}, study.title),
    make("p", { class: "about" }, study.about),
    make("p", { class: "words" }, `${study.counts}.`, study.trained && ` ${study.trained}.`, study.source && study.published ? ` Published numbers: ${study.source}.` : ""),
    make("div", { class: "controls" }, viewSwitch(study, state, redraw), methodFilter(study, state, redraw)),
    words,
    table.element,
    make("p", { class: "legend" }, study.legend),
    ...study.figures.map(figurePart),
    ...study.blocks.map(blockPart),
  ];
}

function wordsOf(study, view) {
  const words = study.metric[view], { wordsUnder } = VIEWS[view];
  return wordsUnder && study.published ? `${words} ${wordsUnder}` : words;
}

function viewSwitch(study, state, redraw) {
  const usable = (name) => study.entries.some((entry) => entry.views[name]);
  const option = (name) => make("label", {},
    make("input", { type: "radio", name: "view", value: name, checked: state.view === name, disabled: !usable(name),
      change: () => { state.view = name; redraw(); } }),
    make("span", {}, VIEWS[name].title ?? study.metric.title));
  return make("fieldset", { class: "switch" }, make("legend", { class: "hidden" }, "What the table shows"), Object.keys(VIEWS).map(option));
}

function methodFilter(study, state, redraw) {
  if (study.methods.length < 2 || !study.rows.some((row) => row.method)) return null;
  const toggle = (id) => (event) => {
    state.hidden[event.target.checked ? "delete" : "add"](id);
    redraw();
  };
  const option = ({ id, title }) => make("label", {},
    make("input", { type: "checkbox", value: id, checked: !state.hidden.has(id), change: toggle(id) }), make("span", {}, title));
  return make("fieldset", { class: "filter" }, make("legend", {}, "Methods"), study.methods.map(option));
}

function figurePart({ title, svg }) {
  const image = make("img", { src: `data:image/svg+xml,${encodeURIComponent(svg)}`, alt: title });
  return make("section", {}, make("h2", {}, title), make("div", { class: "scroll figure", tabindex: "0", role: "region", "aria-label": title }, image));
}

function blockPart(block) {
  return make("section", {}, make("h2", {}, block.title),
    block.words.map((line) => make("p", { class: "words" }, line)),
    plainTable(block.head, block.rows, { left: block.left, strong: block.strong, label: block.title }));
}

/** A page opened as a file may have no storage; it then uses the theme of the system. */
function remembered(theme) {
  try {
    if (theme) localStorage.setItem("theme", theme);
    return localStorage.getItem("theme");
  } catch {
    return null;
  }
}

function startTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const apply = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
  };
  const follow = () => apply(remembered() ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", follow);
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    remembered(theme);
    apply(theme);
  });
  follow();
}

startTheme();
showProblems();
showTabs();
choose(decodeURIComponent(location.hash.slice(1)));
const dialog = document.getElementById("panel");
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
