"use strict";
const slider = document.getElementById("level");
const tip = document.getElementById("tip");

function show(level) {
  slider.value = level;
  slider.setAttribute("aria-valuetext", level ? `level ${level}` : "input");
  for (const stop of document.querySelectorAll("[data-stop]")) {
    stop.setAttribute("aria-pressed", String(Number(stop.dataset.stop) === level));
  }
  for (const model of document.querySelectorAll(".model")) {
    const own = Math.min(level, Number(model.dataset.levels));
    for (const part of model.querySelectorAll("[data-level]")) {
      part.classList.toggle("away", Number(part.dataset.level) !== own);
    }
    for (const row of model.querySelectorAll("[data-row]")) {
      row.classList.toggle("here", Number(row.dataset.row) === own);
    }
  }
  tip.hidden = true;
}

function point(event) {
  const node = event.target.closest?.("[data-tip]");
  tip.hidden = !node;
  if (!node) return;
  tip.textContent = node.dataset.tip;
  const box = node.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  const left = box.left + box.width / 2 - tip.offsetWidth / 2;
  const above = box.top - tip.offsetHeight - 8;
  tip.style.left = `${Math.max(6, Math.min(left, room - tip.offsetWidth - 6))}px`;
  tip.style.top = `${above > 6 ? above : box.bottom + 8}px`;
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
for (const stop of document.querySelectorAll("[data-stop]")) {
  stop.addEventListener("click", () => show(Number(stop.dataset.stop)));
}
document.addEventListener("pointerover", point);
document.addEventListener("click", point);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
show(Number(slider.max));
