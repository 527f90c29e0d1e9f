// Variables over steps as the page carries them: the way back from series_columns.py.

/**
 * @typedef {{number: number, grid: number, start: number, rank: number, run: number, width: number, steps: number,
 *   isWhole: boolean, oddSteps: number, firstOdd: number|null, lastStep: number, constants: Record<string, number>}} DescribedLine
 * @typedef {{rank: number, run: number, width: number, first: number[], last: number[], text: number[],
 *   count: number[], texts: string[]}} DescribedBands
 * @typedef {{path: string, role: string, type: string, norm: string, source: string, lines: DescribedLine[],
 *   bands: DescribedBands[], first?: number|null, largest?: number, other?: string, place?: number}} DescribedVariable
 * @typedef {{unit: string, labels: string[]|null, state: string, notes: string[], marks: [number, string, string][],
 *   variables: DescribedVariable[], revision: number|null}} DescribedSeries
 */

const LINE_COLUMNS = ["mean", "low", "high", "std", "norm"];
const COUNT_COLUMNS = ["nan", "inf", "zeros"];

/** One rank of a variable in one run: columns with a number for each point. */
class SeriesLine {
  /** @param {DescribedLine} described @param {Table} points */
  constructor(described, points) {
    this.rank = described.rank;
    this.run = described.run;
    this.isWhole = described.isWhole;
    /** @type {Record<string, number>} counts that are the same at all points */
    this.constants = {};
    this.steps = new Float64Array(0);
    /** @type {Record<string, Numbers>} */
    this.columns = {};
    this.replace(described, points);
  }

  /** Take the points from one on; those before it stay. @param {DescribedLine} described @param {Table} points */
  replace(described, points) {
    const { number, start } = described;
    const before = this.steps.length;
    this.width = described.width; // steps in a point
    this.total = described.steps;
    this.oddSteps = described.oddSteps;
    this.firstOdd = described.firstOdd;
    this.lastStep = described.lastStep;
    this.steps = joinedNumbers(this.steps, start, points[`grid:${described.grid}`]);
    for (const name of [...LINE_COLUMNS, ...COUNT_COLUMNS]) {
      const part = points[`${number}:${name}`];
      const constant = described.constants[name];
      this.takeColumn(name, start, part, constant, before);
    }
    this.stride = usualDistance(this.steps);
  }

  /**
   * @param {string} name @param {number} start @param {Numbers|undefined} part
   * @param {number|undefined} constant @param {number} before
   */
  takeColumn(name, start, part, constant, before) {
    const isFirst = start === 0 || before === 0;
    if (isFirst) {
      delete this.columns[name];
      delete this.constants[name];
    }
    if (constant !== undefined && (isFirst || this.constants[name] === constant)) {
      this.constants[name] = constant;
      return;
    }
    const length = this.steps.length - start;
    const values = part ?? (constant === undefined ? undefined : new Float64Array(length).fill(constant));
    if (!values) return;
    const known = this.columns[name] ?? new Float64Array(start).fill(this.constants[name] ?? NaN);
    delete this.constants[name];
    this.columns[name] = joinedNumbers(known, start, values);
  }

  get length() {
    return this.steps.length;
  }

  /** Whether a point has a range, and so a band. */
  get hasRange() {
    return this.columns.low !== undefined;
  }

  /** A number of a point; that of a line without a range is its value. @param {string} name @param {number} point */
  value(name, point) {
    const column = this.columns[name];
    if (column) return column[point];
    if (name in this.constants) return this.constants[name];
    return name === "low" || name === "high" ? this.columns.mean[point] : NaN;
  }

  /** Whether a point has a NaN or an Inf. @param {number} point */
  isOdd(point) {
    return this.value("nan", point) + this.value("inf", point) > 0;
  }

  /** Whether steps are missing before a point. @param {number} point */
  isAfterGap(point) {
    if (point === 0) return false;
    return this.steps[point] - this.steps[point - 1] > 1.5 * Math.max(this.stride, this.width);
  }

  /** How many steps are missing between the first and the last; unknown, and 0, if a point has several steps. */
  missingSteps() {
    if (this.width > 1) return 0;
    let missing = 0;
    for (let point = 1; point < this.length; point++)
      if (this.isAfterGap(point)) missing += Math.round((this.steps[point] - this.steps[point - 1]) / this.stride) - 1;
    return missing;
  }

  /** Where a point is across: a point of several steps is in their middle. @param {number} point */
  middle(point) {
    return this.steps[point] + (this.width - 1) / 2;
  }

  /** The first point that ends at or after a step. @param {number} step */
  pointFrom(step) {
    return lowerBound(this.steps, step - this.width + 1);
  }

  /** The point that has a step; -1 if the line has no value there. @param {number} step */
  pointAt(step) {
    const point = this.pointFrom(step);
    const isInside = point < this.length && this.steps[point] <= step;
    return isInside ? point : -1;
  }

  /** The point nearest to a place across; -1 for an empty line. @param {number} step */
  nearest(step) {
    const after = this.pointFrom(step);
    if (after >= this.length) return this.length - 1;
    if (after === 0) return 0;
    const isCloserBefore = step - this.middle(after - 1) < this.middle(after) - step;
    return isCloserBefore ? after - 1 : after;
  }

  /** The steps of a point, in words. @param {number} point @param {string} unit */
  stepText(point, unit) {
    const first = this.steps[point];
    if (this.width === 1) return `${unit} ${many(first)}`;
    const end = Math.min(Math.floor(first / this.width) * this.width + this.width - 1, this.lastStep);
    return `${unit}s ${many(first)}–${many(end)}`;
  }
}

/** A variable: a line or bands for each rank, of one run or of two. */
class SeriesVariable {
  /** @param {DescribedVariable} described @param {Table} points @param {number} index */
  constructor(described, points, index) {
    this.index = index;
    this.path = described.path;
    this.role = described.role;
    this.type = described.type;
    this.norm = described.norm;
    this.source = described.source;
    this.other = described.other ?? "";
    this.firstDifference = described.first ?? null;
    this.largest = described.largest ?? 0;
    this.place = described.place ?? index; // in the order of the model
    this.lines = described.lines.map((line) => new SeriesLine(line, points));
    this.bands = described.bands;
    this.isSpreadOld = true; // whether the line of many ranks is to be made anew
  }

  /** Take what is new. @param {DescribedVariable} described @param {Table} points */
  update(described, points) {
    this.type = described.type;
    this.bands = described.bands;
    this.isSpreadOld = true;
    for (const part of described.lines) {
      const line = this.lines.find((each) => each.rank === part.rank && each.run === part.run);
      if (line) line.replace(part, points);
      else this.lines.push(new SeriesLine(part, points));
    }
  }

  get isTensor() {
    return this.norm !== "";
  }

  get isText() {
    return !this.lines.length && this.bands.length > 0;
  }

  /** How many steps have a NaN or an Inf, on the rank with most of them. */
  get oddSteps() {
    return this.lines.reduce((most, line) => Math.max(most, line.oddSteps), 0);
  }

  /** The first step with a NaN or an Inf, on any rank. @returns {number|null} */
  get firstOdd() {
    const firsts = this.lines.flatMap((line) => (line.firstOdd === null ? [] : [line.firstOdd]));
    return firsts.length ? Math.min(...firsts) : null;
  }

  /** The first and the last step of all lines and bands. @returns {[number, number]} */
  get extent() {
    const filled = this.lines.filter((line) => line.length > 0);
    const starts = [...filled.map((line) => line.steps[0]), ...this.bands.map((band) => band.first[0])];
    const ends = [...filled.map((line) => line.lastStep),
      ...this.bands.map((band) => band.last[band.last.length - 1])];
    return [Math.min(...starts), Math.max(...ends)];
  }

  /** The lines that are drawn: of many ranks, one that holds the range of all. @returns {SeriesLine[]} */
  get drawnLines() {
    if (this.lines.length <= MOST_LINES) return this.lines;
    if (this.isSpreadOld) {
      this.spread = [0, 1].map((run) => spreadLine(this.lines.filter((line) => line.run === run)));
      this.isSpreadOld = false;
    }
    return /** @type {SeriesLine[]} */ (this.spread.filter((line) => line.length > 0));
  }

  /** The name of a line among the lines of the variable. @param {SeriesLine} line @param {string[]|null} labels */
  lineName(line, labels) {
    const names = [];
    if (labels) names.push(labels[line.run]);
    const isRanked = this.lines.some((other) => other.rank !== this.lines[0].rank);
    if (isRanked) names.push(line.rank < 0 ? `${this.lines.length} ranks` : `rank ${line.rank}`);
    return names.join(" ");
  }
}

const MOST_LINES = 8; // that are drawn one by one

/** One line for those of many ranks: their range, and the mean of their means. @param {SeriesLine[]} lines */
function spreadLine(lines) {
  const steps = Float64Array.from(new Set(lines.flatMap((line) => [...line.steps]))).sort();
  const width = lines.reduce((most, line) => Math.max(most, line.width), 1);
  const empty = { number: 0, grid: 0, start: 0, rank: -1, run: lines[0]?.run ?? 0, width, steps: 0, isWhole: false,
    oddSteps: 0, firstOdd: null, lastStep: mostOf([0, ...lines.map((line) => line.lastStep)]), constants: {} };
  const columns = Object.fromEntries([...LINE_COLUMNS, ...COUNT_COLUMNS].map((name) => [name, new Float64Array(steps.length)]));
  steps.forEach((step, place) => {
    const points = lines.flatMap((line) => {
      const point = line.pointAt(step);
      return point < 0 ? [] : [[line, point]];
    });
    for (const [name, join] of Object.entries(RANK_JOINS))
      columns[name][place] = join(points.map(([line, point]) => line.value(name, point)));
  });
  const table = Object.fromEntries(Object.entries(columns).map(([name, column]) => [`0:${name}`, column]));
  return new SeriesLine(empty, { ...table, "grid:0": steps });
}

const knownNumbers = (/** @type {number[]} */ values) => values.filter((value) => !Number.isNaN(value));
const leastOf = (/** @type {number[]} */ values) => knownNumbers(values).reduce((a, b) => Math.min(a, b), Infinity);
const mostOf = (/** @type {number[]} */ values) => knownNumbers(values).reduce((a, b) => Math.max(a, b), -Infinity);

/** @param {number[]} values */
function meanOf(values) {
  const known = knownNumbers(values);
  return known.reduce((sum, value) => sum + value / known.length, known.length ? 0 : NaN);
}

/** How the numbers of several ranks become one. */
const RANK_JOINS = { mean: meanOf, low: leastOf, high: mostOf, std: meanOf, norm: mostOf, nan: mostOf, inf: mostOf, zeros: mostOf };

/** The numbers of a column up to a place, and others from there on. @param {Numbers} before @param {number} start @param {Numbers} part */
function joinedNumbers(before, start, part) {
  if (start === 0) return /** @type {Float64Array} */ (part);
  const joined = new Float64Array(start + part.length);
  for (let i = 0; i < start; i++) joined[i] = before[i];
  for (let i = 0; i < part.length; i++) joined[start + i] = part[i];
  return joined;
}

/** The first place whose number is not less than one. @param {Numbers} sorted @param {number} number */
function lowerBound(sorted, number) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The distance that most neighbours have; with no such distance the largest, so that nothing is a gap. @param {Numbers} steps */
function usualDistance(steps) {
  /** @type {Map<number, number>} */
  const counts = new Map();
  let largest = 1;
  for (let i = 1; i < steps.length; i++) {
    const distance = steps[i] - steps[i - 1];
    counts.set(distance, (counts.get(distance) ?? 0) + 1);
    largest = Math.max(largest, distance);
  }
  for (const [distance, count] of counts) if (count > 0.6 * (steps.length - 1)) return distance;
  return largest;
}

/** @param {Data} data @returns {SeriesVariable[]} */
function seriesVariables(data) {
  return data.series.variables.map((described, index) => new SeriesVariable(described, data.points, index));
}
