// Colours for numbers: a scale with zero in the middle for numbers of both signs, one from low to high for the others.

const SHADES = 255; // an odd number: zero has the shade in the middle
const DIVERGING = ["heat-minus-far", "heat-minus", "heat-zero", "heat-plus", "heat-plus-far"];
const SEQUENTIAL = ["heat-zero", "heat-low", "heat-middle", "heat-high"];
const HEAT_INKS = [...new Set([...DIVERGING, ...SEQUENTIAL]), "heat-nan", "heat-nan-line", "heat-inf", "heat-inf-line"];
const MIDDLE_PART = 0.98; // of the values, where the few that are far away are left out of the scale

/** @typedef {{low: number, high: number, isDiverging: boolean}} ScaleEnds */

/**
 * The ends of a scale for values in a range: symmetric around zero if some are negative; else from zero, unless all
 * values are far away from it.
 * @param {number} low @param {number} high @returns {ScaleEnds}
 */
function scaleEnds(low, high) {
  if (!(low <= high)) return { low: 0, high: 1, isDiverging: false };
  if (low < 0) {
    const far = Math.max(-low, high);
    return { low: -far, high: far, isDiverging: true };
  }
  const start = low > high / 2 ? low : 0;
  return { low: start, high: high > start ? high : start + (Math.abs(start) || 1), isDiverging: false };
}

/** The least and the largest of the finite values. @param {ArrayLike<number>} values @returns {[number, number]} */
function finiteRange(values) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** The range without the values that are farthest from zero. @param {ArrayLike<number>} values @returns {[number, number]} */
function middleRange(values) {
  const sizes = Float64Array.from(values, Math.abs).filter((size) => Number.isFinite(size)).sort();
  if (!sizes.length) return [NaN, NaN];
  const most = sizes[Math.floor((sizes.length - 1) * MIDDLE_PART)];
  const [low, high] = finiteRange(values);
  return [Math.max(low, -most), Math.min(high, most)];
}

/** Turns numbers into colours. */
class ColourScale {
  /** @param {ScaleEnds} ends @param {Record<string, string>} inks */
  constructor(ends, inks) {
    this.ends = ends;
    this.stops = (ends.isDiverging ? DIVERGING : SEQUENTIAL).map((name) => inks[name]);
    this.shades = shadesBetween(this.stops.map(channels));
  }

  /** The shade of a finite value; one beyond an end has the colour of that end. @param {number} value */
  shade(value) {
    const { low, high } = this.ends;
    const part = (value / 2 - low / 2) / (high / 2 - low / 2); // halves: the whole may be too large
    return Math.max(0, Math.min(SHADES - 1, Math.round(part * (SHADES - 1))));
  }

  /** Write the colour of a value into pixels. @param {Uint8ClampedArray} pixels @param {number} at @param {number} value */
  write(pixels, at, value) {
    const shade = this.shade(value) * 3;
    pixels[at] = this.shades[shade];
    pixels[at + 1] = this.shades[shade + 1];
    pixels[at + 2] = this.shades[shade + 2];
    pixels[at + 3] = 255;
  }
}

/** The numbers of a colour such as `rgb(1, 2, 3)`. @param {string} colour @returns {number[]} */
const channels = (colour) => (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);

/** Shades from the first stop to the last. @param {number[][]} stops */
function shadesBetween(stops) {
  const shades = new Uint8ClampedArray(SHADES * 3);
  for (let shade = 0; shade < SHADES; shade++) {
    const place = (shade / (SHADES - 1)) * (stops.length - 1);
    const before = Math.min(Math.floor(place), stops.length - 2);
    for (let channel = 0; channel < 3; channel++) {
      const [from, to] = [stops[before][channel], stops[before + 1][channel]];
      shades[shade * 3 + channel] = from + (to - from) * (place - before);
    }
  }
  return shades;
}

/** A bar with the colours of a scale, and numbers below it. @param {ColourScale} scale @param {boolean} isWhole */
function colourBar(scale, isWhole) {
  const { low, high, isDiverging } = scale.ends;
  const bar = make("div", "colour-bar");
  bar.style.background = `linear-gradient(to right, ${scale.stops.join(", ")})`;
  const middle = isDiverging ? 0 : low / 2 + high / 2;
  const isMiddleWritten = !isWhole || Number.isInteger(middle);
  const marks = isMiddleWritten ? [low, middle, high] : [low, high];
  const numbers = marks.map((mark) => make("span", "", digits(mark, 3, isWhole)));
  return make("div", "colours", bar, make("div", "ends", ...numbers));
}
