const slider = document.getElementById("level");

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

slider.addEventListener("input", () => show(Number(slider.value)));
for (const stop of document.querySelectorAll("[data-stop]")) {
  stop.addEventListener("click", () => show(Number(stop.dataset.stop)));
}
show(Number(slider.max));
