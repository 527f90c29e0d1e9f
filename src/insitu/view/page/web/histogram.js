// Histograms of values: small ones on an axis that all rows share, so that growth shows down the column, and large ones.

const BINS = 16; // of a histogram in the data, equal ones from the least value to the largest
const AXIS_CELLS = 64; // of the common axis
const OUTLIER = 1e4; // how many times larger than nearly all others a tensor is that the axis does not reach
const AXIS_REACH = 1e6; // from the smallest number that is told from zero to the end of the axis
const NEARLY_ALL = 0.95;
const MOST_SAMPLED = 20_000; // tensors by which the axis is chosen
const MOST_DRAWN = 400; // calls of a folded row whose histograms are added up
const SPARK_HEIGHT = 16;
const MOST_AXIS_DIGITS = 5; // of a number at an end of the axis, so that the head of the column has room for three

/** An axis for numbers of all sizes and both signs: straight near zero, logarithmic beyond, zero in the middle. */
class SymlogAxis {
  /** @param {ArrayLike<number>} sizes the largest magnitude of each tensor */
  constructor(sizes) {
    const sorted = Float64Array.from(sizes).filter((size) => size > 0 && Number.isFinite(size)).sort();
    const largest = sorted[sorted.length - 1] ?? 1;
    const usual = sorted[Math.floor((sorted.length - 1) * NEARLY_ALL)] ?? 1;
    const small = sorted[Math.floor((sorted.length - 1) * 0.1)] ?? 1;
    this.end = largest > usual * OUTLIER ? usual * 10 : largest;
    this.linear = Math.max(small / 10, this.end / AXIS_REACH, Number.MIN_VALUE);
    this.length = Math.log1p(this.end / this.linear);
  }

  /** Where a number is: -1 and 1 are the ends. @param {number} value */
  place(value) {
    const part = Math.log1p(Math.abs(value) / this.linear) / this.length;
    return Math.sign(value) * Math.min(1, part);
  }

  /** The number at a place. @param {number} place */
  value(place) {
    return Math.sign(place) * this.linear * Math.expm1(Math.abs(place) * this.length);
  }

  /** The cell of a number. @param {number} value */
  cell(value) {
    return Math.max(0, Math.min(AXIS_CELLS - 1, Math.floor(((this.place(value) + 1) / 2) * AXIS_CELLS)));
  }

  /** Powers of ten that the axis reaches, of both signs, and zero. @param {number} most of each sign */
  ticks(most) {
    const last = Math.floor(Math.log10(this.end));
    const first = Math.ceil(Math.log10(this.linear));
    const step = Math.max(1, Math.ceil((last - first + 1) / most));
    const found = [0];
    for (let power = last; power >= first; power -= step) found.push(10 ** power, -(10 ** power));
    return found.sort((a, b) => a - b);
  }
}

/** The axis of all tensors of the page, for integers only if there is nothing else. @param {Calls} calls @returns {SymlogAxis} */
function commonAxis(calls) {
  const known = commonAxes.get(calls);
  if (known) return known;
  const floats = tensorSizes(calls, (made) => !calls.isWhole(made));
  const axis = new SymlogAxis(floats.length ? floats : tensorSizes(calls, () => true));
  commonAxes.set(calls, axis);
  return axis;
}

/** The largest magnitudes of some tensors: of many a sample, and the largest of all. */
function tensorSizes(/** @type {Calls} */ calls, /** @type {(made: number) => boolean} */ isWanted) {
  const { tensor, stats } = calls.data;
  const step = Math.ceil(tensor.stats.length / MOST_SAMPLED);
  const sizes = [];
  let largest = 0;
  for (let made = 1; made < tensor.stats.length; made++) {
    const number = tensor.stats[made];
    if (!number || !isWanted(made)) continue;
    const size = Math.max(Math.abs(stats.min[number]), Math.abs(stats.max[number]));
    if (made % step === 0) sizes.push(size);
    if (size > largest) largest = size;
  }
  return largest > 0 ? [...sizes, largest] : sizes;
}

/** @type {WeakMap<Calls, SymlogAxis>} */
const commonAxes = new WeakMap();

/** The heights of the bins of a tensor, from 0 to 15. @param {Data} data @param {number} number of the statistics */
function binHeights(data, number) {
  return Array.from({ length: BINS }, (_, bin) => Math.min(15, data.stats.bars[number * BINS + bin]));
}

/** Whether there are values to draw. @param {Data} data @param {number} number */
const hasValues = (data, number) => number > 0 && data.stats.min[number] <= data.stats.max[number];

/** Whether there is more than one value. @param {Data} data @param {number} number */
const hasSpread = (data, number) => number > 0 && data.stats.min[number] < data.stats.max[number];

/**
 * How dense the values of some tensors are in each cell of the common axis: a bin is as high as on a straight axis, and
 * as wide as it is on this one.
 * @param {Calls} calls @param {number[]} numbers of the statistics
 */
function cellDensities(calls, numbers) {
  const densities = new Float64Array(AXIS_CELLS);
  for (const number of numbers) if (hasValues(calls.data, number)) addDensities(densities, calls, number);
  return densities;
}

/** @param {Float64Array} densities @param {Calls} calls @param {number} number */
function addDensities(densities, calls, number) {
  const { data } = calls;
  const axis = commonAxis(calls);
  const [low, high] = [data.stats.min[number], data.stats.max[number]];
  const heights = binHeights(data, number);
  const most = Math.max(...heights, 1);
  const [first, last] = [axis.cell(low), axis.cell(high)];
  for (let cell = first; cell <= last; cell++) {
    const middle = axis.value(((cell + 0.5) / AXIS_CELLS) * 2 - 1);
    const inside = Math.max(low, Math.min(middle, high));
    const bin = Math.min(BINS - 1, Math.floor(partOf(inside, low, high) * BINS));
    densities[cell] += (heights[bin] || (first === last ? most : 0)) / most;
  }
}

/**
 * The histogram of a row on the common axis: of the values of one tensor or, for a row that stands for several, of all.
 * @param {Calls} calls @param {...number} numbers of the statistics
 */
function sparkline(calls, ...numbers) {
  const look = { viewBox: `0 0 ${AXIS_CELLS} ${SPARK_HEIGHT}`, class: "spark", "aria-hidden": "true" };
  return draw("svg", look, ...commonShapes(calls, numbers, SPARK_HEIGHT));
}

/**
 * The picture of the values in a row: of all calls that the row shows. A call with several outputs has none.
 * @param {App} app @param {HTMLElement} cell @param {number} _row @param {Together} shown
 */
function paintValues({ calls }, cell, _row, shown) {
  cell.replaceChildren(...rowHistogram(calls, shown).map((picture) => picture.cloneNode(true)));
}

/** @param {Calls} calls @param {Together} shown @returns {Node[]} */
function rowHistogram(calls, shown) {
  const known = rowHistograms.get(shown);
  if (known) return known;
  const every = shown.ranges.length === 1 ? shown.rows.map((row) => calls.firstStats(row)) : [];
  const numbers = every.length > MOST_DRAWN ? sampledStats(calls.data, every) : every;
  const pictures = numbers.some((number) => hasValues(calls.data, number)) ? [sparkline(calls, ...numbers)] : [];
  rowHistograms.set(shown, pictures);
  return pictures;
}

/** Some of many tensors, and those with the least and the largest value. @param {Data} data @param {number[]} numbers */
function sampledStats({ stats }, numbers) {
  const known = numbers.filter((number) => number > 0);
  const step = Math.ceil(known.length / MOST_DRAWN);
  const lowest = known.reduce((best, number) => (stats.min[number] < stats.min[best] ? number : best), known[0]);
  const highest = known.reduce((best, number) => (stats.max[number] > stats.max[best] ? number : best), known[0]);
  return [...known.filter((_, place) => place % step === 0), lowest, highest].filter(Boolean);
}

/** @type {WeakMap<Together, Node[]>} what was drawn for rows */
const rowHistograms = new WeakMap();

/** A histogram on the common axis, a unit for each cell, and the line of zero. @param {Calls} calls @param {number[]} numbers */
function commonShapes(calls, numbers, /** @type {number} */ height) {
  const densities = cellDensities(calls, numbers);
  const most = Math.max(...densities);
  const bars = Array.from(densities, (density, cell) => {
    const whole = visibleHeight(density / most, height - 1);
    return whole ? `M${cell} ${height}v${-whole}h1v${whole}z` : "";
  });
  const shapes = [
    draw("path", { d: bars.join("") || "M0 0" }),
    draw("path", { d: `M${AXIS_CELLS / 2} 0v${height}`, class: "zero" }),
  ];
  return [...shapes, ...beyondShapes(calls, numbers, height)];
}

/** Signs at the ends, if values are beyond them. @param {Calls} calls @param {number[]} numbers @param {number} height */
function beyondShapes(calls, numbers, height) {
  const { min, max } = calls.data.stats;
  const { end } = commonAxis(calls);
  const middle = height / 2;
  const shapes = [];
  if (numbers.some((number) => min[number] < -end)) shapes.push(`M4 ${middle - 4}l-4 4l4 4z`);
  if (numbers.some((number) => max[number] > end)) shapes.push(`M${AXIS_CELLS - 4} ${middle - 4}l4 4l-4 4z`);
  return shapes.map((path) => draw("path", { d: path, class: "beyond" }));
}

/** The height of a bar; what is there can be seen. @param {number} part @param {number} height */
const visibleHeight = (part, height) => (part > 0 ? Math.max(1, Math.round(part * height)) : 0);

/** Write the ends of the axis, and zero, into the head of its column. @param {Calls} calls */
function showValuesAxis(calls) {
  const heads = at("heads");
  const head = heads.querySelector(".c-values .name") ?? heads.querySelector(".c-values");
  if (!head) return;
  const axis = commonAxis(calls);
  const end = shortDigits(axis.end);
  const marks = end.length > MOST_AXIS_DIGITS ? [`±${end}`] : [`-${end}`, "0", end];
  const element = make("span", "values-axis", ...marks.map((mark) => make("span", "", mark)));
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", `values: ${axisText(axis)}`);
  element.title = axisText(axis);
  head.replaceChildren(element);
}

/** A number in as few characters as possible: 8e5. @param {number} value */
const shortDigits = (value) => digits(value, 2).replace(/e\+?(-?)0*/, "e$1");

/** @param {SymlogAxis} axis */
function axisText(axis) {
  const [linear, end] = [digits(axis.linear, 2), digits(axis.end, 2)];
  return `all rows have this axis: from -${end} to ${end}, logarithmic beyond ±${linear}; a sign at an end: values beyond it`;
}

/**
 * The histogram of a tensor from its least to its largest value, and the same values on the axis of all rows.
 * @param {Calls} calls @param {number} number @param {boolean} isWhole
 */
function histogram(calls, number, isWhole) {
  return make("div", "plots", linearHistogram(calls.data, [number], isWhole), commonHistogram(calls, [number]));
}

/**
 * Histograms over each other, on a straight axis from the least value to the largest.
 * @param {Data} data @param {number[]} numbers one, or two of which the second is drawn as a line @param {boolean} isWhole
 */
function linearHistogram(data, numbers, isWhole) {
  const low = Math.min(...numbers.map((number) => data.stats.min[number]));
  const high = Math.max(...numbers.map((number) => data.stats.max[number]));
  const shapes = numbers.map((number, place) =>
    draw("path", { d: binPath(data, number, low, high, place === 0), class: place === 0 ? "bars" : "outline" }));
  if (low < 0 && high > 0) {
    const zero = partOf(0, low, high) * 320;
    shapes.push(draw("path", { d: `M${zero} 0v60`, class: "zero" }));
  }
  const [from, to] = [low, high].map((end) => digits(end, 3, isWhole));
  const ends = make("div", "ends", ...[from, "from min to max", to].map((text) => make("span", "", text)));
  return plot("histogram", `histogram from ${from} to ${to}`, shapes, ends);
}

/** The bins of a tensor as a path, bars or an outline. */
function binPath(data, /** @type {number} */ number, /** @type {number} */ low, /** @type {number} */ high, /** @type {boolean} */ isBars) {
  const start = partOf(data.stats.min[number], low, high) * 320;
  const width = Math.max(0.5, (partOf(data.stats.max[number], low, high) * 320 - start) / BINS);
  const gap = isBars ? Math.min(1, width / 4) : 0;
  return binHeights(data, number)
    .map((height, bin) => (height ? `M${start + bin * width + gap} 60v${-height * 4}h${width - 2 * gap}v${height * 4}z` : ""))
    .join("") || "M0 0";
}

/** Where a number is between two others, from 0 to 1. */
function partOf(/** @type {number} */ value, /** @type {number} */ low, /** @type {number} */ high) {
  return high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0; // halves: the whole may be too large
}

/** The values of tensors on the axis of all rows. @param {Calls} calls @param {number[]} numbers */
function commonHistogram(calls, numbers) {
  const axis = commonAxis(calls);
  const marks = axis.ticks(2).map((tick) => {
    const mark = make("span", "tick", tick === 0 ? "0" : digits(tick, 2));
    mark.style.left = `${((axis.place(tick) + 1) / 2) * 100}%`;
    return mark;
  });
  const ends = make("div", "ticks", ...marks);
  const element = plot("histogram common", "histogram on the axis of all rows", commonShapes(calls, numbers, 40), ends, [AXIS_CELLS, 41]);
  element.title = axisText(axis);
  element.append(make("p", "plot-note", "on the axis of all rows"));
  return element;
}

/** A drawing with its axis below it. @param {string} name @param {string} label @param {SVGElement[]} shapes @param {HTMLElement} axis */
function plot(name, label, shapes, axis, [width, height] = [320, 61]) {
  const box = `0 0 ${width} ${height}`;
  const look = { viewBox: box, preserveAspectRatio: "none", class: name, role: "img", "aria-label": label };
  return make("div", "plot", /** @type {any} */ (draw("svg", look, ...shapes)), axis);
}
