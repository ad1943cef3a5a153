"""The fixed parts of the page: its frame, what it adds to the style of our reports, and its program."""

HTML = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data:">
<title>{{title}}</title>
<link rel="icon" href="data:,">
<style>
{{style}}
</style>
</head>
<body>
<header class="top">
  <p class="brand">What the pooling keeps</p>
  <button type="button" id="theme" class="quiet"></button>
</header>
<noscript><p class="notice">This page needs JavaScript.</p></noscript>
<main>
<h1>{{title}}</h1>
<p class="words">{{head}}.</p>
<div class="pick">
  <label for="level">Level</label>
  <input type="range" id="level" min="0" max="{{most}}" value="0" step="1">
  <output id="shown" for="level"></output>
</div>
<div class="models">
{{models}}
</div>
<p class="legend">Colours span the scores of the nodes that the level keeps. Small grey: dropped. Edges between kept
nodes are strong. Hover over a node, or tap it, for its scores.</p>
</main>
<script>{{plotly}}</script>
<script type="application/json" id="data">{{data}}</script>
<script>
{{script}}
</script>
</body>
</html>
"""

STYLE = """
.pick {
  position: sticky; top: 0; z-index: 3; display: flex; gap: 12px; align-items: center; max-width: 520px;
  margin: 10px 0; padding: 8px 0; background: var(--ground);
}
.pick input { flex: 1; min-width: 0; height: 28px; accent-color: var(--accent); }
.pick output { min-width: 3.5em; font-variant-numeric: tabular-nums; }
.models { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 8px 28px; }
.model { min-width: 0; }
.model h2 { margin-top: 16px; }
.bars { margin: 10px 0; padding: 0; list-style: none; font-size: 14px; }
.bars li { display: grid; grid-template-columns: 9.5em 1fr 3em; gap: 10px; align-items: center; }
.bar { height: 9px; border-radius: 5px; background: var(--rule); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--accent); }
.share { text-align: right; font-variant-numeric: tabular-nums; }
.chart-box { border: 1px solid var(--rule); border-radius: 12px; background: var(--sheet); box-shadow: var(--shadow); }
.graph { min-height: 430px; }
.now { max-width: none; margin: 0; padding: 8px 14px; border-top: 1px solid var(--rule); }
.plain tr.here > * { background: var(--hover); font-weight: 650; }
.graph .trace-gone-edges .js-line { stroke: var(--rule) !important; }
.graph .trace-kept-edges .js-line { stroke: var(--quiet) !important; }
.graph .trace-gone .point { fill: var(--rule) !important; }
.graph .trace-kept .point { stroke: var(--quiet) !important; }
.graph .trace-kept text { fill: var(--ink) !important; }
.graph .infolayer text { fill: var(--quiet) !important; }
"""

SCRIPT = """"use strict";
const { charts } = JSON.parse(document.getElementById("data").textContent);
const slider = document.getElementById("level");

function show(level) {
  document.getElementById("shown").textContent = level ? `${level} of ${slider.max}` : "input";
  charts.forEach(({ levels, layout }, number) => {
    const own = Math.min(level, levels.length - 1);
    const chart = document.getElementById(`graph-${number}`);
    Plotly.react(chart, levels[own].traces, layout, { displayModeBar: false, responsive: true });
    document.getElementById(`words-${number}`).textContent = levels[own].words;
    for (const row of chart.closest(".model").querySelectorAll("tr[data-level]")) {
      row.classList.toggle("here", Number(row.dataset.level) === own);
    }
  });
}

function startTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const apply = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light theme" : "Dark theme";
  };
  system.addEventListener("change", () => apply(system.matches));
  button.addEventListener("click", () => apply(root.dataset.theme !== "dark"));
  apply(system.matches);
}

startTheme();
slider.addEventListener("input", () => show(Number(slider.value)));
slider.value = slider.max;
show(Number(slider.value));
"""
