// What the user chose for all charts: the steps, the scale, the numbers that are drawn; and the step under the pointer.

/**
 * The numbers that a chart draws of a tensor. `line` is a column; the band is between `low` and `high`.
 * @typedef {{label: string, line: string, low: (line: SeriesLine, point: number) => number,
 *   high: (line: SeriesLine, point: number) => number, hasBand: boolean}} Measure
 */

/** @type {Record<string, Measure>} */
const MEASURES = {
  range: {
    label: "min … max",
    line: "mean",
    low: (line, point) => line.value("low", point),
    high: (line, point) => line.value("high", point),
    hasBand: true,
  },
  std: {
    label: "mean ± std",
    line: "mean",
    low: (line, point) => line.value("mean", point) - line.value("std", point),
    high: (line, point) => line.value("mean", point) + line.value("std", point),
    hasBand: true,
  },
  norm: {
    label: "l2 norm",
    line: "norm",
    low: (line, point) => line.value("norm", point),
    high: (line, point) => line.value("norm", point),
    hasBand: false,
  },
  zeros: {
    label: "zeros",
    line: "zeros",
    low: (line, point) => line.value("zeros", point),
    high: (line, point) => line.value("zeros", point),
    hasBand: false,
  },
};

const LEAST_STEPS = 4; // that a zoom can show

class SeriesView {
  /** @param {[number, number]} extent the first and the last step of all variables @param {boolean} isCompared */
  constructor(extent, isCompared) {
    this.extent = extent;
    /** @type {[number, number]|null} the steps that are shown; null for all */
    this.zoom = null;
    /** @type {number|null} the step under the pointer */
    this.cursor = null;
    this.isLog = remembered("series-log") === "yes";
    this.smoothing = 0;
    // The ranges of two runs hide each other; the norms are two lines.
    this.measure = isCompared ? "norm" : choiceOf(MEASURES, remembered("series-measure"), "range");
    this.grouping = isCompared ? "none" : choiceOf(GROUPINGS, remembered("series-grouping"), "module");
    this.query = "";
    this.pins = new Set(rememberedList("series-pins"));
    /** @type {(() => void)[]} */
    this.onChange = [];
    /** @type {(() => void)[]} */
    this.onCursor = [];
  }

  /** The steps that are shown. @returns {[number, number]} */
  get range() {
    return this.zoom ?? this.extent;
  }

  /** Show some of the steps; all of them if there are hardly any. @param {[number, number]|null} range */
  show(range) {
    this.zoom = range && withinExtent(range, this.extent);
    this.changed();
  }

  /** Show fewer or more steps around the pointer. @param {number} factor */
  scaleBy(factor) {
    const [first, last] = this.range;
    const middle = this.cursor ?? (first + last) / 2;
    this.show([middle - (middle - first) * factor, middle + (last - middle) * factor]);
  }

  /** Move along the steps. @param {number} part of the steps that are shown */
  moveBy(part) {
    if (!this.zoom) return;
    const [first, last] = this.zoom;
    const room = part > 0 ? this.extent[1] - last : this.extent[0] - first;
    const by = part > 0 ? Math.min((last - first) * part, room) : Math.max((last - first) * part, room);
    this.show([first + by, last + by]);
  }

  /** @param {number|null} step */
  point(step) {
    if (step === this.cursor) return;
    this.cursor = step;
    for (const listener of this.onCursor) listener();
  }

  /** @param {string} measure */
  choose(measure) {
    this.measure = measure;
    remember("series-measure", measure);
    this.changed();
  }

  /** @param {boolean} isLog */
  useLog(isLog) {
    this.isLog = isLog;
    remember("series-log", isLog ? "yes" : "no");
    this.changed();
  }

  /** Pin a variable to the top, or unpin it. @param {string} path */
  togglePin(path) {
    if (!this.pins.delete(path)) this.pins.add(path);
    remember("series-pins", JSON.stringify([...this.pins].slice(-MOST_PINS)));
  }

  changed() {
    for (const listener of this.onChange) listener();
  }
}

const MOST_PINS = 200;

/** A range of steps inside another one; null if it is as large. @param {[number, number]} range @param {[number, number]} extent */
function withinExtent([first, last], extent) {
  const from = Math.max(extent[0], Math.min(first, last));
  const to = Math.min(extent[1], Math.max(first, last));
  const isAll = from <= extent[0] && to >= extent[1];
  if (isAll) return null;
  if (to - from >= LEAST_STEPS) return /** @type {[number, number]} */ ([from, to]);
  const start = Math.max(extent[0], Math.min((from + to - LEAST_STEPS) / 2, extent[1] - LEAST_STEPS));
  return extent[1] - extent[0] <= LEAST_STEPS ? null : /** @type {[number, number]} */ ([start, start + LEAST_STEPS]);
}

/** A choice of an earlier page, if it still exists. @param {object} choices @param {string|null} choice @param {string} usual */
function choiceOf(choices, choice, usual) {
  return choice !== null && Object.hasOwn(choices, choice) ? choice : usual;
}

/** A list that an earlier page kept. @param {string} name @returns {string[]} */
function rememberedList(name) {
  try {
    const list = JSON.parse(remembered(name) ?? "[]");
    return Array.isArray(list) ? list.filter((item) => typeof item === "string") : [];
  } catch {
    return [];
  }
}
