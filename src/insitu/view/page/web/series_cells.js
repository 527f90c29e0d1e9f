// The cells of the strip of norms: their numbers, and the picture of them.

const NORM_INKS = ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4", "heat-5"];
const NORM_SHADES = 256;
const NO_VALUE = -2;
const NOT_FINITE = -1;
const ROUNDING = 1e-9; // of a column: what is this close to a column is in it

/** The cells of a strip: a number for each layer and each column of steps. */
class StripCells {
  /** @param {SeriesVariable[]} rows @param {[number, number]} range @param {number} pixels @param {boolean} isCompared */
  constructor(rows, range, pixels, isCompared) {
    const [first, last] = range;
    this.rows = rows.length;
    this.columns = Math.max(1, Math.min(Math.floor(pixels), Math.round(last - first)));
    this.values = new Float32Array(this.rows * this.columns).fill(NO_VALUE);
    this.low = Infinity;
    this.high = -Infinity;
    this.hasZero = this.hasOdd = false;
    this.first = first;
    this.scale = this.columns / (last - first); // columns for each step
    rows.forEach((variable, row) => {
      if (isCompared) this.addDifference(variable, row);
      else for (const line of variable.lines) this.addNorms(line, row);
    });
  }

  /** @param {SeriesLine} line @param {number} row */
  addNorms(line, row) {
    const norms = line.columns.norm;
    const hasOdd = line.oddSteps > 0;
    this.addPoints(line, row, (point) => (hasOdd && line.isOdd(point) ? NOT_FINITE : norms[point]));
  }

  /** @param {SeriesVariable} variable @param {number} row */
  addDifference(variable, row) {
    const [line] = variable.lines;
    if (line) this.addPoints(line, row, (point) => normDifference(variable, line.steps[point]));
  }

  /** Put a value for each point of a line. @param {SeriesLine} line @param {number} row @param {(point: number) => number} valueAt */
  addPoints(line, row, valueAt) {
    const cover = Math.max(line.width, line.stride); // steps
    for (let point = line.pointFrom(this.first); point < line.length; point++) {
      const begin = line.steps[point] - 0.5 - this.first;
      const start = Math.floor(begin * this.scale + ROUNDING);
      if (start >= this.columns) break;
      this.put(row, start, (begin + cover) * this.scale, valueAt(point));
    }
  }

  /** Put a value into the columns from one to another; the largest value of a column stays, NaN before all. */
  put(/** @type {number} */ row, /** @type {number} */ start, /** @type {number} */ end, /** @type {number} */ value) {
    if (Number.isNaN(value)) return;
    const last = Math.max(start + 1, Math.min(Math.ceil(end - ROUNDING), this.columns));
    for (let column = Math.max(start, 0); column < last; column++) {
      const place = row * this.columns + column;
      const before = this.values[place];
      if (before === NOT_FINITE || (value !== NOT_FINITE && before >= value)) continue;
      this.values[place] = value;
    }
    this.hasOdd ||= value === NOT_FINITE;
    this.hasZero ||= value === 0;
    if (value <= 0) return;
    this.low = Math.min(this.low, value);
    this.high = Math.max(this.high, value);
  }

  /** The cells as a picture with a pixel for each. @param {Record<string, string>} inks */
  picture(inks) {
    const canvas = document.createElement("canvas");
    canvas.width = this.columns;
    canvas.height = Math.max(this.rows, 1);
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const image = pen.createImageData(canvas.width, canvas.height);
    const shades = heatShades(NORM_INKS.map((name) => inks[name]));
    const [red, zero] = [pixelOf(colourParts(inks.red)), pixelOf(colourParts(inks.line))];
    const [from, to] = [Math.log(this.low), Math.log(this.high)];
    const scale = to > from ? (NORM_SHADES - 1) / (to - from) : 0;
    const pixels = new Uint32Array(image.data.buffer);
    const pixelFor = (/** @type {number} */ value) => {
      if (value === NOT_FINITE) return red;
      return value === 0 ? zero : shades[Math.round((Math.log(value) - from) * scale)];
    };
    let [before, pixel] = [NaN, 0]; // neighbours often have the same value
    for (let place = 0; place < this.values.length; place++) {
      const value = this.values[place];
      if (value === NO_VALUE) continue;
      if (value !== before) pixel = pixelFor(value);
      before = value;
      pixels[place] = pixel;
    }
    pen.putImageData(image, 0, 0);
    return canvas;
  }
}

/** The relative difference of the norms of two runs; NOT_FINITE if one of them is not finite. @param {SeriesVariable} variable @param {number} step */
function normDifference(variable, step) {
  let largest = NaN;
  for (const line of variable.lines.filter((each) => each.run === 0)) {
    const other = variable.lines.find((each) => each.run === 1 && each.rank === line.rank);
    const [here, there] = [line.pointAt(step), other?.pointAt(step) ?? -1];
    if (!other || here < 0 || there < 0) continue;
    if (line.isOdd(here) !== other.isOdd(there)) return NOT_FINITE;
    const difference = relativeDifference(line.value("norm", here), other.value("norm", there));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

/** The pixels of the colours between those of a scale. @param {string[]} stops */
function heatShades(stops) {
  const ends = stops.map(colourParts);
  return Uint32Array.from({ length: NORM_SHADES }, (_, shade) => {
    const place = (shade / (NORM_SHADES - 1)) * (ends.length - 1);
    const stop = Math.min(Math.floor(place), ends.length - 2);
    return pixelOf([0, 1, 2].map((part) => ends[stop][part] + (ends[stop + 1][part] - ends[stop][part]) * (place - stop)));
  });
}

/** A pixel as the memory of a canvas has it, in the byte order of the machine. @param {number[]} colour */
const pixelOf = (colour) => new Uint32Array(new Uint8ClampedArray([...colour, 255]).buffer)[0];

/** The red, green and blue of a colour that the browser computed. @param {string} colour */
const colourParts = (colour) => (colour.match(/[\d.]+/g) ?? ["0", "0", "0"]).slice(0, 3).map(Number);
