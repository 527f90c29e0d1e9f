// Scales of a chart: values up, steps across, and the numbers beside them.

/**
 * From values to places on an axis that goes up, from 0 at its foot to 1.
 * @typedef {{low: number, high: number, place: (value: number) => number, ticks: number[]}} ValueScale
 */

const DECADES = 6; // of a log scale with a sign, on each side of 0

/** A scale with equal distances. @param {number} low @param {number} high @param {number} most ticks @returns {ValueScale} */
function linearScale(low, high, most) {
  const [from, to] = padded(low, high);
  const half = to / 2 - from / 2; // halves, because the whole may be too large for a number
  const place = (/** @type {number} */ value) => (value / 2 - from / 2) / half;
  return { low: from, high: to, place, ticks: linearTicks(from, to, most) };
}

/** Ends with some room around them; around a single value there is more. @param {number} low @param {number} high */
function padded(low, high) {
  if (low === high) {
    const room = Math.abs(low) / 2 || 1;
    return [low - room, high + room];
  }
  const room = (high / 2 - low / 2) * 0.1;
  const top = high + room;
  const bottom = low >= 0 && low - room < 0 ? 0 : low - room;
  return [Number.isFinite(bottom) ? bottom : low, Number.isFinite(top) ? top : high];
}

/** Round numbers between two ends. @param {number} low @param {number} high @param {number} most */
function linearTicks(low, high, most) {
  const step = roundStep((high / 2 - low / 2) * 2 / most);
  if (!Number.isFinite(step) || step === 0) return [low, high];
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high && found.length <= most + 1; k++) found.push(exactTick(k * step));
  return found;
}

/** The least of 1, 2, 5, 10, 20 … that is not less than a number. @param {number} least */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 5, 10].find((each) => each * power >= least * 0.9999) ?? 10;
  return factor * power;
}

/** A multiple without the error of its product. @param {number} tick */
const exactTick = (tick) => Number(tick.toPrecision(12));

/**
 * A scale of powers of ten. Where values are negative or zero, it is linear near 0.
 * @param {number} low @param {number} high @param {number} least the least size of a value that is not 0
 * @param {number} most ticks @returns {ValueScale}
 */
function logScale(low, high, least, most) {
  if (low > 0) return positiveLogScale(low, high, most);
  const largest = Math.max(Math.abs(low), Math.abs(high));
  if (largest === 0) return linearScale(low, high, most);
  const near = Math.max(least, largest / 10 ** DECADES);
  const bend = (/** @type {number} */ value) => Math.sign(value) * Math.log10(1 + Math.abs(value) / near);
  const [from, to] = [bend(low), bend(high)];
  const room = (to - from) * 0.05 || 1;
  const place = (/** @type {number} */ value) => (bend(value) - from + room) / (to - from + 2 * room);
  const sizes = powersBetween(near, largest, most / 2);
  const ticks = [...sizes.map((size) => -size).reverse(), 0, ...sizes].filter((tick) => tick >= low && tick <= high);
  return { low, high, place, ticks };
}

/** @param {number} low @param {number} high @param {number} most @returns {ValueScale} */
function positiveLogScale(low, high, most) {
  const [from, to] = [Math.log10(low), Math.log10(high)];
  const room = (to - from) * 0.05 || 0.5;
  const place = (/** @type {number} */ value) => (Math.log10(value) - from + room) / (to - from + 2 * room);
  const [foot, top] = [10 ** (from - room), 10 ** (to + room)];
  return { low, high, place, ticks: logTicks(foot, top, most) };
}

/** Powers of ten; where there are few, also 2 and 5 times each. @param {number} low @param {number} high @param {number} most */
function logTicks(low, high, most) {
  const isInside = (/** @type {number} */ tick) => tick >= low && tick <= high;
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const powers = Array.from({ length: to - from + 1 }, (_, place) => Number(`1e${from + place}`));
  for (const factors of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = powers.flatMap((power) => factors.map((factor) => exactTick(factor * power))).filter(isInside);
    if (ticks.length <= most && ticks.length > 1) return ticks;
  }
  const few = powersBetween(low, high, most).filter(isInside);
  return few.length > 1 ? few : linearTicks(low, high, 2).filter(isInside);
}

/** Powers of ten, so few that there is room for them. @param {number} low @param {number} high @param {number} most */
function powersBetween(low, high, most) {
  const [from, to] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  const step = Math.max(1, Math.ceil((to - from + 1) / Math.max(most, 1)));
  const found = [];
  for (let power = to; power >= from; power -= step) found.push(Number(`1e${power}`));
  return found.reverse();
}

/** Steps beside an axis: round whole numbers. @param {number} first @param {number} last @param {number} most */
function stepTicks(first, last, most) {
  const step = Math.max(1, roundStep((last - first) / Math.max(most, 1)));
  const found = [];
  for (let k = Math.ceil(first / step); k * step <= last; k++) found.push(k * step);
  return found;
}

/** A step in a few characters: 120, 12k, 1.5M. @param {number} step */
function stepText(step) {
  const size = Math.abs(step);
  if (size >= 1e6) return `${exactTick(step / 1e6)}M`;
  if (size >= 1e4) return `${exactTick(step / 1e3)}k`;
  return String(step);
}

/**
 * Averages in which a value counts less the older it is; what is not known is left out.
 * @param {number[]} values @param {number} share of the average that stays at each value
 */
function smoothed(values, share) {
  let sum = 0, weight = 0;
  return values.map((value) => {
    if (Number.isNaN(value)) return NaN;
    sum = sum * share + value * (1 - share);
    weight = weight * share + (1 - share);
    return sum / weight;
  });
}
