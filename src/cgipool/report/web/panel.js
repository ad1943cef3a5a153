/** Show all details of a cell. */
function openPanel(dialog, entry, cell) {
  const close = make("button", { type: "button", class: "quiet", click: () => dialog.close() }, "Close");
  const top = make("div", { class: "panel-top" }, make("h2", { id: "panel-title" }, entry.label), close);
  dialog.replaceChildren(top, make("div", { class: "panel-body" }, entry.status === "done" ? cellParts(entry, cell) : absentParts(entry)));
  dialog.showModal();
  dialog.querySelector(".panel-body").scrollTop = 0;
}

function absentParts(entry) {
  const words = entry.status === "failed" ? "The training of this cell failed:" : "This cell has not been run, or its file cannot be read.";
  return [make("p", {}, words), entry.reason ? make("pre", { class: "reason" }, entry.reason) : null, facts([["cell", entry.key]])];
}

function cellParts(entry, cell) {
  return [
    entry.notices.map((notice) => make("p", { class: "notice" }, notice)),
    facts(entry.facts),
    section("Splits", entry.dots ? [dotPlot(entry.dots),
      make("p", { class: "words" }, "Dot: a split. Bar: the mean and its 95 % interval." + (entry.dots.published ? " Diamond: published." : ""))] : null,
      make("details", {}, make("summary", {}, "Numbers of each split"), plainTable(entry.splits.head, entry.splits.rows, { label: "Splits" }))),
    cell.charts.length ? section("Training", cell.charts.map((chart) => [epochChart(chart), make("p", { class: "words" }, chart.words)])) : null,
    commandPart(cell.command),
    section("Settings", facts(cell.settings)),
    section("Provenance", facts(cell.provenance)),
    cell.diagnostics ? section("Diagnostics", plainTable(cell.diagnostics.head, cell.diagnostics.rows, { label: "Diagnostics" })) : null,
  ];
}

function section(title, ...parts) {
  return make("section", {}, make("h3", {}, title), parts);
}

function facts(pairs) {
  return make("dl", { class: "facts" }, pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function commandPart(command) {
  if (!command) return null;
  const code = make("code", {}, command);
  const button = make("button", { type: "button", class: "quiet copy", click: () => copy(code, button) }, "Copy");
  return section("Command", make("div", { class: "command" }, make("pre", {}, code), button));
}

/** A page opened as a file may have no access to the clipboard; the text is then selected and copied. */
async function copy(element, button) {
  try {
    await navigator.clipboard.writeText(element.textContent);
  } catch {
    getSelection().selectAllChildren(element);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
