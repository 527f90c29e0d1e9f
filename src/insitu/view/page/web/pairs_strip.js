// The strip of a comparison: how large the difference of each pair of calls is, from the first to the last.

const STRIP_PIXELS = 62;
const STRIP_LABELS = 40; // pixels at the left, for the numbers of the axis
const STRIP_HEAD = 12; // pixels at the top, for the signs of causes
const LEAST_ERROR = 1e-9; // the relative error at the bottom; 1 is at the top
const STATUS_INKS = { same: "faint", close: "dim", follows: "amber", structure: "accent", "only in a": "accent", "only in b": "accent" };

/** @typedef {{pair: number, part: number, status: string}} StripBar the largest difference of some pairs; `part` of the height */

class PairStrip {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.pairs = /** @type {Pairs} */ (app.pairs);
    this.canvas = at("strip");
    this.canvas.onclick = (/** @type {MouseEvent} */ event) => this.go(event.offsetX);
    this.canvas.onpointermove = (/** @type {PointerEvent} */ event) => this.describe(event.offsetX);
    this.canvas.setAttribute("aria-label", this.summary());
    at("changes").hidden = !this.hasSizes();
    at("changes").prepend(this.legend());
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  onSelect() {
    this.paint();
  }

  onColours() {
    this.paint();
  }

  /** Whether there is more than one pair, and a difference among them. */
  hasSizes() {
    for (let pair = 0; pair < this.pairs.size; pair++)
      if (this.pairs.status(pair) !== "same") return this.pairs.size > 1;
    return false;
  }

  /** What the colours mean. */
  legend() {
    const words = [["red", "cause"], ["amber", "differs because of it"], ["dim", "within the tolerance"], ["accent", "other calls"]];
    const parts = words.map(([ink, text]) => {
      const square = make("span", "square");
      square.style.background = `var(--${ink})`;
      return make("span", "", square, text);
    });
    return make("p", "legend", make("b", "", "relative error, call by call "), ...spaced(parts));
  }

  /** The largest difference, in words. */
  summary() {
    const { size, pair } = this.pairs;
    let largest = 0;
    for (let other = 1; other < size; other++) if (!(pair.relative[other] <= pair.relative[largest])) largest = other;
    const text = size ? this.pairs.relativeText(largest) : "";
    return `Relative error of ${counted(size, "pair")} of calls${text ? `; the largest is ${text}` : ""}`;
  }

  /** The bars: one for each pair, or for several if there are many. @param {number} width @returns {StripBar[]} */
  bars(width) {
    const count = Math.max(1, Math.min(this.pairs.size, Math.floor(width / 2)));
    const bars = [];
    for (let place = 0; place < count; place++) {
      const start = Math.floor((place * this.pairs.size) / count);
      const end = Math.floor(((place + 1) * this.pairs.size) / count);
      bars.push(this.largestBar(start, end));
    }
    return bars;
  }

  /** The cause among some pairs, else the one that differs most. @param {number} start @param {number} end @returns {StripBar} */
  largestBar(start, end) {
    let best = this.bar(start);
    for (let pair = start + 1; pair < end; pair++) {
      const bar = this.bar(pair);
      const isMore = this.isCause(bar.pair) > this.isCause(best.pair) || (this.isCause(bar.pair) === this.isCause(best.pair) && bar.part > best.part);
      if (isMore) best = bar;
    }
    return best;
  }

  /** @param {number} pair @returns {StripBar} */
  bar(pair) {
    return { pair, part: errorPart(this.pairs.pair.relative[pair]), status: this.pairs.status(pair) };
  }

  /** @param {number} pair */
  isCause(pair) {
    return this.pairs.everyCause.has(this.pairs.itemOfPair[pair]);
  }

  /** @param {number} x @returns {StripBar|undefined} */
  barAt(x) {
    const bars = this.drawn ?? [];
    const width = this.canvas.clientWidth - STRIP_LABELS;
    const place = Math.floor(((x - STRIP_LABELS) / width) * bars.length);
    return bars[Math.max(0, Math.min(place, bars.length - 1))];
  }

  /** @param {number} x */
  go(x) {
    const bar = this.barAt(x);
    if (bar) this.app.show(this.pairs.itemOfPair[bar.pair], "jumped");
  }

  /** Name what is under the pointer. @param {number} x */
  describe(x) {
    const bar = this.barAt(x);
    if (!bar) return;
    const row = (this.pairs.pair.a[bar.pair] || this.pairs.pair.b[bar.pair]) - 1;
    const { calls } = this.app;
    const size = this.pairs.sizeText(bar.pair) || bar.status;
    this.canvas.title = `${calls.path(row)} ${calls.label(row)}: ${size}`.trim();
  }

  paint() {
    const { pen, width } = cleared(this.canvas, STRIP_PIXELS);
    const inkOf = inks([...INKS, "amber"]);
    this.drawn = this.bars(width - STRIP_LABELS);
    this.paintAxis(pen, width, inkOf);
    const step = (width - STRIP_LABELS) / this.drawn.length;
    this.drawn.forEach((bar, place) => this.paintBar(pen, bar, STRIP_LABELS + place * step, step, inkOf));
    this.paintSelected(pen, width, inkOf);
  }

  /** @param {CanvasRenderingContext2D} pen @param {number} width @param {Record<string, string>} inkOf */
  paintAxis(pen, width, inkOf) {
    pen.font = "10px ui-monospace, monospace";
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const error of [1, 1e-3, 1e-6]) {
      const y = errorY(errorPart(error));
      pen.fillStyle = inkOf.line;
      pen.fillRect(STRIP_LABELS, y, width - STRIP_LABELS, 1);
      pen.fillStyle = inkOf.dim;
      pen.fillText(digits(error), STRIP_LABELS - 5, y);
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {StripBar} bar @param {number} x @param {number} step @param {Record<string, string>} inkOf */
  paintBar(pen, bar, x, step, inkOf) {
    const isCause = this.isCause(bar.pair);
    pen.fillStyle = inkOf[isCause ? "red" : STATUS_INKS[bar.status] ?? "red"];
    const y = errorY(bar.part);
    pen.fillRect(x, y, Math.max(1, step - (step > 3 ? 1 : 0)), STRIP_PIXELS - y);
    if (!isCause) return;
    const middle = x + step / 2;
    pen.fill(new Path2D(`M${middle - 5} 1h10l-5 8z`));
  }

  /** A frame around the selected pair. @param {CanvasRenderingContext2D} pen @param {number} width @param {Record<string, string>} inkOf */
  paintSelected(pen, width, inkOf) {
    const item = this.pairs.items[this.app.grid.selected];
    if (!item || item.count) return;
    const x = STRIP_LABELS + ((item.pair + 0.5) / this.pairs.size) * (width - STRIP_LABELS);
    pen.strokeStyle = inkOf.text;
    pen.strokeRect(Math.round(x) - 3.5, STRIP_HEAD - 1.5, 7, STRIP_PIXELS - STRIP_HEAD + 1);
  }
}

/** How high the bar of a relative error is, from 0 to 1: logarithmic; an unknown one can just be seen. @param {number} error */
function errorPart(error) {
  if (Number.isNaN(error)) return 0.06;
  if (!(error > 0)) return 0.02;
  const part = 1 - Math.log10(Math.min(error, 1)) / Math.log10(LEAST_ERROR);
  return Math.max(0.06, part);
}

/** @param {number} part */
const errorY = (part) => STRIP_PIXELS - part * (STRIP_PIXELS - STRIP_HEAD);
