"use strict";

const NOTHING = "–";

/** An element with attributes (a function is a listener) and children; a string becomes text, never markup. */
function make(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/** The same for a part of a drawing. */
function shape(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** A table in a box that scrolls sideways on narrow screens. */
function plainTable(head, rows, { left = 1, strong = [], label }) {
  const isStrong = new Set(strong.map(([row, column]) => `${row},${column}`));
  const cell = (tag, text, column, bold) =>
    make(tag, { class: column < left ? null : "number", scope: tag === "th" ? (column === 0 ? "row" : "col") : null },
      bold ? make("strong", {}, text) : text);
  const line = (row, r) => make("tr", {}, row.map((text, c) => cell(c ? "td" : "th", text, c, isStrong.has(`${r},${c}`))));
  const heading = head.map((text, c) => make("th", { scope: "col", class: c < left ? null : "number" }, text));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    make("table", { class: "plain" }, make("thead", {}, make("tr", {}, heading)), make("tbody", {}, rows.map(line))));
}
