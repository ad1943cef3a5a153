/** The views of the table. The data contain the content of each cell in each view (a value to sort by, a main line, a line under it, and whether it is bold) and, in
 * `study.metric`, the words of each view and the direction in which results get better. */
const VIEWS = {
  accuracy: {
    wordsUnder: "Below: the published mean.",
    marked: true,
  },
  difference: {
    title: "Difference to the paper",
    marked: false,
  },
  rank: {
    title: "Rank",
    marked: true,
    better: 1,
  },
};

const MARKS = { "▲": "mark up", "▼": "mark down" };

/** The table of a study. `state` holds the view, hidden methods and order; the caller keeps it between redraws. */
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

  /** Cycles through best first, worst first and the order of the study. */
  sortBy(column) {
    const { state } = this;
    const first = column < 0 ? 1 : VIEWS[state.view].better ?? this.study.metric.better;
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
