// Histograms of values: a small one in a row, a large one in the details.

const BINS = 16;

/** @param {Data} data @param {number} number of the statistics */
function bars(data, number) {
  return Array.from({ length: BINS }, (_, k) => Math.min(15, data.stats.bars[number * BINS + k]));
}

/** Whether there is anything to draw: values that differ. @param {Data} data @param {number} number */
const hasSpread = (data, number) => number > 0 && data.stats.min[number] < data.stats.max[number];

/** The histogram of a row. @param {Data} data @param {number} number */
function sparkline(data, number) {
  const path = bars(data, number).map((height, k) => (height ? `M${k * 4} 15v${-height}h3v${height}z` : "")).join("");
  const shape = draw("path", { d: path || "M0 15" });
  return draw("svg", { viewBox: "0 0 64 16", class: "spark", "aria-hidden": "true" }, shape);
}

/**
 * The histogram of a tensor, with its ends written below.
 * @param {Data} data @param {number} number @param {boolean} isWhole
 */
function histogram(data, number, isWhole) {
  const { min, max } = data.stats;
  const shapes = bars(data, number).flatMap((height, k) =>
    height ? [draw("rect", { x: k * 20 + 1, y: 60 - height * 4, width: 18, height: height * 4 })] : []);
  if (min[number] < 0 && max[number] > 0) {
    const low = min[number] / 2, zero = (-low / (max[number] / 2 - low)) * 320; // halves: the whole may be too large
    shapes.push(draw("line", { x1: zero, x2: zero, y1: 0, y2: 60, class: "zero" }));
  }
  const look = { viewBox: "0 0 320 61", preserveAspectRatio: "none", class: "histogram", role: "img" };
  const picture = draw("svg", look, ...shapes);
  const [low, high] = [min[number], max[number]].map((end) => digits(end, 3, isWhole));
  picture.setAttribute("aria-label", `histogram from ${low} to ${high}`);
  const ends = make("div", "ends", make("span", "", low), make("span", "", high));
  return make("div", "plot", /** @type {any} */ (picture), ends);
}
