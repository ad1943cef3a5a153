const METRICS = {
  accuracy: "accuracy, %",
  balanced_accuracy: "balanced accuracy, %",
  roc_auc: "ROC-AUC, %",
  pr_auc: "PR-AUC, %",
  mcc: "MCC",
};

/** Show all that is known of a cell. */
function openPanel(dialog, study, entry, cell) {
  const close = make("button", { type: "button", class: "quiet", click: () => dialog.close() }, "Close");
  const top = make("div", { class: "panel-top" }, make("h2", { id: "panel-title" }, entry.label), close);
  dialog.replaceChildren(top, make("div", { class: "panel-body" }, entry.status === "done" ? cellParts(study, entry, cell) : absentParts(entry)));
  dialog.showModal();
  dialog.querySelector(".panel-body").scrollTop = 0;
}

function absentParts(entry) {
  const words = entry.status === "failed" ? "This cell could not be finished:" : "This cell has not been run, or its file cannot be read.";
  return [make("p", {}, words), entry.reason ? make("pre", { class: "reason" }, entry.reason) : null, facts([["cell", entry.key]])];
}

function cellParts(study, entry, cell) {
  return [
    entry.outdated ? make("p", { class: "notice" }, "Another version of the program made this cell; its results may differ from today's.") : null,
    facts(figuresOf(study, entry)),
    section("Splits", dotPlot(cell.splits, entry.summary, entry.published),
      make("p", { class: "words" }, "Dot: a split. Bar: the mean and its 95 % bootstrap interval." + (entry.published ? " Diamond: published." : "")),
      splitsTable(cell.splits)),
    trainingPart(cell),
    commandPart(cell.provenance.command),
    section("Settings", facts(settingsOf(cell.cell))),
    section("Provenance", facts([["cell", entry.key], ...flattened(cell.provenance).filter(([name]) => name !== "command")])),
    diagnosticsPart(cell.diagnostics),
  ];
}

function section(title, ...parts) {
  return make("section", {}, make("h3", {}, title), parts);
}

function facts(pairs) {
  return make("dl", { class: "facts" }, pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value ?? NOTHING)))));
}

function figuresOf(study, { summary, published, gap, rank, against }) {
  const pairs = [["mean ± SE, %", `${number(summary.mean)} ± ${number(summary.se)}`], ["95 % interval", interval(summary.low, summary.high)]];
  pairs.push(["SD over splits", number(summary.sd)], ["rank", rank]);
  if (published) pairs.push(["published, %", `${number(published[0])} ± ${number(published[1])}`]);
  if (gap) {
    pairs.push(["ours − published", `${number(gap.difference, 2, true)} (${interval(gap.low, gap.high)})`]);
    pairs.push(["binomial floor of ±", number(gap.floor)]);
  }
  if (against) {
    const { difference, low, high } = against.paired;
    pairs.push([`${study.baseline} − this`, `${number(difference, 2, true)} (${interval(low, high)})`]);
    pairs.push(["p, Holm-adjusted", `${pValue(against.adjusted)} ${against.mark}`]);
  }
  return pairs;
}

function splitsTable(splits) {
  const metrics = Object.keys(splits[0].test);
  const head = ["split", ...metrics.map((name) => METRICS[name] ?? name), "validation loss", "best epoch", "epochs", "seconds"];
  const metric = (name, value) => (value === null || value === undefined ? NOTHING : name === "mcc" ? number(value, 3) : number(100 * value));
  const rows = splits.map((split) => [
    String(split.split), ...metrics.map((name) => metric(name, split.test[name])),
    number(split.val_loss, 4), String(split.best_epoch ?? NOTHING), String(split.epochs ?? NOTHING), number(split.seconds, 1),
  ]);
  return make("details", {}, make("summary", {}, "Numbers of each split"), plainTable(head, rows, { label: "Splits" }));
}

function trainingPart({ courses, splits }) {
  const shown = [["val_loss", "val"], ["train_loss", "train"]].filter(([name]) => courses[name]);
  if (!shown.length) return null;
  const losses = shown.map(([name, kind]) => ({ course: courses[name], kind }));
  const words = "Loss by epoch. Thin: validation, each split. Thick: mean of validation. Dashed: mean of training. " +
    "Means go on while at least half of the splits train.";
  const parts = [epochChart(losses, splits.map((split) => split.curve), "Loss by epoch"), make("p", { class: "words" }, words)];
  if (courses.val_accuracy) {
    parts.push(epochChart([{ course: courses.val_accuracy, kind: "val" }], [], "Validation accuracy by epoch"),
      make("p", { class: "words" }, "Validation accuracy by epoch: mean, and 10 to 90 % of splits."));
  }
  return section("Training", parts);
}

function commandPart(command) {
  if (!command) return null;
  const code = make("code", {}, String(command));
  const button = make("button", { type: "button", class: "quiet copy", click: () => copy(code, button) }, "Copy");
  return section("Command", make("div", { class: "command" }, make("pre", {}, code), button));
}

/** A page opened as a file may not use the clipboard; then the text is copied as a selection is. */
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

/** Nested values as pairs, the names joined: recipe.width. */
function flattened(value, prefix = "") {
  return Object.entries(value).flatMap(([name, part]) =>
    part !== null && typeof part === "object" && !Array.isArray(part) ? flattened(part, `${prefix}${name}.`)
      : [[prefix + name, Array.isArray(part) ? JSON.stringify(part) : part]]);
}

function settingsOf(cell) {
  const { recipe, ...rest } = cell;
  const { name, ...settings } = recipe ?? {};
  return [...flattened(rest), ["recipe", name], ...flattened(settings)];
}

function diagnosticsPart(diagnostics) {
  const names = Object.keys(diagnostics);
  if (!names.length) return null;
  const levels = Math.max(...names.map((name) => diagnostics[name].length));
  const head = ["at the best epoch, mean over splits", ...Array.from({ length: levels }, (_, i) => `level ${i + 1}`)];
  const rows = names.map((name) => [name, ...Array.from({ length: levels }, (_, i) => number(diagnostics[name][i], 4))]);
  return section("Diagnostics", plainTable(head, rows, { label: "Diagnostics" }));
}
