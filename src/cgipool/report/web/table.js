/** The views of the table. What a cell shows in each comes with the data: a value to sort by, a main line, a quiet one under it, and whether it is bold. */
const VIEWS = {
  accuracy: {
    title: "Accuracy",
    words: "Test accuracy in percent: mean over splits ± its standard error. The best of a comparison is bold. Splits share graphs: the error is that of the mean over such splits.",
    wordsUnder: "Under it: the published mean.",
    marked: true,
    better: -1,
  },
  difference: {
    title: "Difference to the paper",
    words: "Ours minus the published mean, in percentage points. Under it: the 95 % interval, which includes the uncertainty of both. Bold: the interval does not contain zero.",
    marked: false,
    better: -1,
  },
  rank: {
    title: "Rank",
    words: "Rank of the mean accuracy among the methods on the same data; 1 is best.",
    marked: true,
    better: 1,
  },
};

const MARKS = { "▲": "mark up", "▼": "mark down" };

/** The table of a study. `state` holds view, hidden methods and order, and is kept by the caller over redraws. */
class StudyTable {
  constructor(study, state, open) {
    Object.assign(this, { study, state, open });
    this.places = new Map(study.entries.map((entry) => [`${entry.row},${entry.column}`, entry]));
    this.body = make("tbody");
    this.heads = [this.head(study.heading, -1), ...study.columns.map((title, column) => this.head(this.columnTitle(title), column))];
    const table = make("table", { class: "main" },
      make("caption", { class: "hidden" }, study.title), make("thead", {}, make("tr", {}, this.heads)), this.body);
    this.element = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Results: ${study.title}` }, table);
    this.redraw();
  }

  columnTitle(title) {
    return this.study.columnAxis === "dataset" || this.study.columnAxis === "method" ? title : `${this.study.columnAxis} ${title}`;
  }

  head(title, column) {
    const button = make("button", { type: "button", click: () => this.sortBy(column) },
      title, make("span", { class: "arrow", "aria-hidden": "true" }));
    return make("th", { scope: "col", "aria-sort": "none" }, button);
  }

  /** First the better end on top, then the other, then the order of the study. */
  sortBy(column) {
    const { state } = this;
    const first = column < 0 ? 1 : VIEWS[state.view].better;
    if (state.column !== column || !state.direction) [state.column, state.direction] = [column, first];
    else state.direction = state.direction === first ? -first : 0;
    this.redraw();
  }

  order() {
    const { state, study } = this;
    const rows = study.rows.map((row, index) => ({ row, index })).filter(({ row }) => !state.hidden.has(row.method));
    if (!state.direction) return rows;
    const value = ({ row, index }) => {
      if (state.column < 0) return `${row.group} ${row.label}`;
      const entry = this.places.get(`${index},${state.column}`);
      return entry?.views[state.view]?.value ?? null;
    };
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, "en") : a - b) * state.direction;
    const known = rows.filter((row) => value(row) !== null).sort((a, b) => compare(value(a), value(b)));
    return [...known, ...rows.filter((row) => value(row) === null)];
  }

  redraw() {
    const { state, study } = this;
    this.heads.forEach((head, i) => {
      const sorted = state.direction && state.column === i - 1;
      head.setAttribute("aria-sort", !sorted ? "none" : state.direction > 0 ? "ascending" : "descending");
    });
    this.body.replaceChildren(...this.order().map(({ row, index }) => make("tr", {},
      make("th", { scope: "row" }, row.group ? make("span", { class: "group" }, row.group) : null, row.label),
      study.columns.map((_, column) => this.cell(this.places.get(`${index},${column}`))))));
  }

  cell(entry) {
    if (!entry) return make("td");
    if (entry.status !== "done") return make("td", { class: entry.status }, this.button(entry, entry.status));
    const shown = entry.views[this.state.view];
    if (!shown) return make("td", { class: "missing" }, this.button(entry, NOTHING));
    const marks = VIEWS[this.state.view].marked ? entry.marks : [];
    const parts = [
      make("span", { class: shown.bold ? "value bold" : "value" }, shown.main),
      marks.map((mark) => make("span", { class: MARKS[mark] ?? "mark", title: this.study.marks[mark] }, mark)),
      make("span", { class: "under" }, shown.under),
    ];
    return make("td", {}, this.button(entry, parts));
  }

  button(entry, content) {
    return make("button", { type: "button", class: "cell", "aria-haspopup": "dialog", "data-key": entry.key,
      "data-label": entry.label, click: () => this.open(entry) },
      make("span", { class: "hidden" }, `${entry.label}: `), content);
  }
}
