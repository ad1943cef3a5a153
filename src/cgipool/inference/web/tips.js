"use strict";
const tip = document.getElementById("tip");

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
document.addEventListener("pointerover", point);
document.addEventListener("click", point);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
