/** Round numbers that span a range, about `count` of them. */
function ticks(low, high, count = 5) {
  const rough = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push({ at: i * step, text: number(i * step, digits) });
  return found;
}

function scale(from, to, start, end) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

function drawing(width, height, label, children) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label }, children);
}

/** Test accuracy of every split as a dot, equal ones stacked; under them the mean with its interval, and the published mean. */
function dotPlot(splits, summary, published) {
  const width = 640, bottom = 112;
  const values = splits.map((split) => 100 * split.test.accuracy);
  const all = published ? [...values, published[0]] : values;
  const pad = (Math.max(...all) - Math.min(...all)) * 0.05 || 1;
  const [low, high] = [Math.min(...all) - pad, Math.max(...all) + pad];
  const x = scale(low, high, 16, width - 16);
  const piles = new Map();
  const dots = splits.map((split, i) => {
    const place = Math.round(x(values[i]) / 9);
    const height = piles.get(place) ?? 0;
    piles.set(place, height + 1);
    return shape("circle", { cx: place * 9, cy: 70 - 9 * height, r: 4, class: "dot" },
      shape("title", {}, `split ${split.split}: ${number(values[i])} %`));
  });
  const axis = ticks(low, high, 7).map((tick) => [
    shape("line", { x1: x(tick.at), x2: x(tick.at), y1: 8, y2: bottom - 18, class: "rule" }),
    shape("text", { x: x(tick.at), y: bottom, "text-anchor": "middle" }, tick.text),
  ]);
  const marks = [shape("line", { x1: x(summary.mean), x2: x(summary.mean), y1: 80, y2: 94, class: "mean" })];
  if (summary.low !== null) marks.push(shape("line", { x1: x(summary.low), x2: x(summary.high), y1: 87, y2: 87, class: "mean" }));
  if (published) {
    const at = x(published[0]);
    marks.push(shape("path", { d: `M${at - 6} 87L${at} 81L${at + 6} 87L${at} 93Z`, class: "published" },
      shape("title", {}, `published: ${number(published[0])} %`)));
  }
  return drawing(width, bottom + 6, "Test accuracy of every split, in percent", [axis, dots, marks].flat(2));
}

const path = (points, x, y) => "M" + points.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L");

/** Lines over epochs: courses are means with a band, threads are thin lines of single splits. */
function epochChart(courses, threads, label) {
  const width = 640, height = 230, left = 46, bottom = height - 24;
  const bands = courses.flatMap(({ course }) => [...course.low, ...course.high]);
  const values = [...bands, ...threads.flat().map(([, value]) => value)];
  const last = Math.max(...courses.flatMap(({ course }) => course.epoch), ...threads.flat().map(([epoch]) => epoch));
  const x = scale(1, last, left, width - 10);
  const y = scale(Math.min(...values), Math.max(...values), bottom - 6, 8);
  const across = ticks(1, last, 6).map((tick) => shape("text", { x: x(tick.at), y: height - 6, "text-anchor": "middle" }, tick.text));
  const up = ticks(Math.min(...values), Math.max(...values), 4).map((tick) => [
    shape("line", { x1: left, x2: width - 10, y1: y(tick.at), y2: y(tick.at), class: "rule" }),
    shape("text", { x: left - 6, y: y(tick.at) + 4, "text-anchor": "end" }, tick.text),
  ]);
  const thin = threads.filter((thread) => thread.length).map((thread) => shape("path", { d: path(thread, x, y), class: "thread" }));
  const thick = courses.map(({ course, kind }) => {
    const along = (values) => course.epoch.map((epoch, i) => [epoch, values[i]]);
    const outline = [...along(course.high), ...along(course.low).reverse()];
    return [
      threads.length ? null : shape("path", { d: `${path(outline, x, y)}Z`, class: `band ${kind}` }),
      shape("path", { d: path(along(course.mean), x, y), class: `course ${kind}` }),
    ];
  });
  return drawing(width, height, label, [across, up, thin, thick].flat(2).filter(Boolean));
}
