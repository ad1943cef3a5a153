"use strict";
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
