/** Computes positions only: the data contain every number of a chart as text. */
function scale(from, to, start, end) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

function drawing(width, height, label, children) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label }, children);
}

/** The result of every split as a dot, equal values stacked; below them the mean with its interval, and the published mean. */
function dotPlot({ label, low, high, axis, dots, mean, interval, published }) {
  const width = 640, bottom = 112;
  const x = scale(low, high, 16, width - 16);
  const piles = new Map();
  const circles = dots.map(({ at, text }) => {
    const place = Math.round(x(at) / 9);
    const height = piles.get(place) ?? 0;
    piles.set(place, height + 1);
    return shape("circle", { cx: place * 9, cy: 70 - 9 * height, r: 4, class: "dot" }, shape("title", {}, text));
  });
  const lines = axis.map(({ at, text }) => [
    shape("line", { x1: x(at), x2: x(at), y1: 8, y2: bottom - 18, class: "rule" }),
    shape("text", { x: x(at), y: bottom, "text-anchor": "middle" }, text),
  ]);
  const marks = [shape("line", { x1: x(mean), x2: x(mean), y1: 80, y2: 94, class: "mean" })];
  if (interval) marks.push(shape("line", { x1: x(interval[0]), x2: x(interval[1]), y1: 87, y2: 87, class: "mean" }));
  if (published) {
    const at = x(published.at);
    marks.push(shape("path", { d: `M${at - 6} 87L${at} 81L${at + 6} 87L${at} 93Z`, class: "published" },
      shape("title", {}, published.text)));
  }
  return drawing(width, bottom + 6, label, [lines, circles, marks].flat(2));
}

const path = (points, x, y) => "M" + points.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L");

/** Lines over epochs. Courses are means, some with a band; threads are thin lines of single splits. Heights are integers up to `top`,
 * epochs are stored as differences. */
function epochChart({ label, courses, threads, last, low, high, top, across, up }) {
  const width = 640, height = 230, left = 46, bottom = height - 24;
  const x = scale(1, last, left, width - 10);
  const y = scale(low, high, bottom - 6, 8);
  const epochs = across.map(({ at, text }) => shape("text", { x: x(at), y: height - 6, "text-anchor": "middle" }, text));
  const values = up.map(({ at, text }) => [
    shape("line", { x1: left, x2: width - 10, y1: y(at), y2: y(at), class: "rule" }),
    shape("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, text),
  ]);
  const ofHeight = scale(0, top, bottom - 6, 8);
  const along = (steps, heights) => {
    let epoch = 0;
    return steps.map((step, i) => [(epoch += step), heights[i]]);
  };
  const line = (points) => path(points, x, ofHeight);
  const thin = threads.map(({ steps, values }) => shape("path", { d: line(along(steps, values)), class: "thread" }));
  const thick = courses.map((course) => {
    const { kind, steps, mean, low: least, high: most } = course;
    return [
      least ? shape("path", { d: `${line([...along(steps, most), ...along(steps, least).reverse()])}Z`, class: `band ${kind}` }) : null,
      shape("path", { d: line(along(steps, mean)), class: `course ${kind}` }),
    ];
  });
  return drawing(width, height, label, [epochs, values, thin, thick].flat(2).filter(Boolean));
}
