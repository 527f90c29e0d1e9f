// From time to pixels and back, and the ticks of an axis. Times are in units of 100 ns, as in the data.

/** The part of a time range that is visible, over a width in pixels. */
class TimeWindow {
  /** @param {number} begin @param {number} finish */
  constructor(begin, finish) {
    this.begin = begin;
    this.finish = Math.max(finish, begin + 1);
    this.from = this.begin;
    this.to = this.finish;
    this.width = 1;
  }

  get isWhole() {
    return this.from <= this.begin && this.to >= this.finish;
  }

  /** @param {number} time */
  x(time) {
    return ((time - this.from) / (this.to - this.from)) * this.width;
  }

  /** @param {number} x */
  time(x) {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  /** Show another part, not less than 100 times the unit of time and never more than there is. */
  show(/** @type {number} */ from, /** @type {number} */ to) {
    const whole = this.finish - this.begin;
    const length = Math.min(whole, Math.max(to - from, Math.min(100, whole)));
    this.from = Math.max(this.begin, Math.min(from, this.finish - length));
    this.to = this.from + length;
  }

  /** Show more or less around a place that stays where it is. @param {number} x @param {number} factor below 1: closer */
  zoom(x, factor) {
    const middle = this.time(x);
    this.show(middle - (middle - this.from) * factor, middle + (this.to - middle) * factor);
  }

  /** Move what is visible to the right. @param {number} pixels */
  pan(pixels) {
    const by = (pixels / this.width) * (this.to - this.from);
    const from = Math.max(this.begin, Math.min(this.from - by, this.finish - (this.to - this.from)));
    this.show(from, from + (this.to - this.from));
  }

  reset() {
    this.from = this.begin;
    this.to = this.finish;
  }
}

/**
 * Times at round distances, at most so many.
 * @param {number} from @param {number} to @param {number} most @returns {number[]}
 */
function timeTicks(from, to, most) {
  const step = roundTimeStep((to - from) / Math.max(1, most));
  const found = [];
  for (let tick = Math.ceil(from / step); tick * step <= to; tick++) found.push(tick * step);
  return found;
}

/** The next larger number of 1, 2 or 5 times a power of ten. @param {number} step */
function roundTimeStep(step) {
  const power = 10 ** Math.floor(Math.log10(Math.max(step, 1e-3)));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= step) ?? 10;
  return factor * power;
}

/** A time of an axis, in the unit that its end needs: `1.5 ms`. @param {number} units @param {number} end */
function tickText(units, end) {
  if (units === 0) return "0";
  const [name, size] = AXIS_UNITS.find(([, unit]) => end >= unit) ?? AXIS_UNITS[AXIS_UNITS.length - 1];
  return `${many(Number((units / size).toPrecision(7)))} ${name}`;
}

/** @type {[string, number][]} */
const AXIS_UNITS = [["s", 1e7], ["ms", 1e4], ["µs", 10], ["ns", 0.01]];
