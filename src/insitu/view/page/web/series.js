// Variables over steps: a line in a band from the least to the largest value, a red tick where something is not finite.

const WIDE = 400, HIGH = 120, EDGE = 6;

/** @typedef {{name: string, rank: number, unit: string, isWhole: boolean, x: number[], low: number[], mean: number[], high: number[],
 *   odd: number[], rows: number[]}} Drawn */

/** @param {Data} data @returns {Drawn[]} */
function drawnSeries(data) {
  let start = 0;
  return data.series.map(([name, rank, unit, length, isWhole]) => {
    const own = (/** @type {string} */ column) => part(data.points[column], start, start + length);
    const [x, low, mean, high, odd, rows] = ["x", "low", "mean", "high", "is_odd", "rows"].map(own);
    start += length;
    return { name, rank, unit, isWhole: !!isWhole, x, low, mean, high, odd, rows };
  });
}

/** @param {App} app @param {Drawn[]} series */
function showSeries(app, series) {
  const isRanked = series.some((one) => one.rank);
  at("series").replaceChildren(...series.map((one) => card(app, one, isRanked)));
}

/** @param {App} app @param {Drawn} one @param {boolean} isRanked */
function card(app, one, isRanked) {
  const name = isRanked ? `${one.name}  rank ${one.rank}` : one.name;
  const known = one.mean.filter((value) => !Number.isNaN(value));
  const low = one.low.reduce((least, value) => (value < least ? value : least), Infinity);
  const high = one.high.reduce((most, value) => (value > most ? value : most), -Infinity);
  const head = make("div", "head", make("h2", "", name));
  if (one.x.length) head.append(lastValue(one));
  const picture = chart(one, low, high);
  const end = (value) => digits(value, 3, one.isWhole);
  const ends = known.length ? ` from ${end(low)} to ${end(high)}` : ", none of them finite";
  picture.setAttribute("aria-label", `${name}: ${one.x.length} ${one.x.length === 1 ? "point" : "points"}${ends}`);
  picture.addEventListener("click", (event) => point(app, one, /** @type {MouseEvent} */ (event)));
  picture.addEventListener("mousemove", (event) => hover(one, picture, /** @type {MouseEvent} */ (event)));
  const [top, bottom] = known.length ? [end(high), end(low)] : ["", ""];
  const scale = make("div", "scale", make("span", "", top), make("span", "", bottom));
  const [from, to] = one.x.length ? [`${one.unit} ${one.x[0]}`, String(one.x[one.x.length - 1])] : ["nothing", ""];
  const axis = make("div", "axis", make("span", "", from), foot(app, one), make("span", "", to));
  return make("article", "card", head, make("div", "drawing", scale, /** @type {any} */ (picture)), axis);
}

/** The value of the last point: where that is not finite, it says so. @param {Drawn} one */
function lastValue(one) {
  const k = one.x.length - 1;
  if (Number.isNaN(one.mean[k])) return make("span", "last red", one.odd[k] ? "NaN or Inf" : "?");
  return make("span", one.odd[k] ? "last red" : "last", pointText(one, k) + (one.odd[k] ? " with NaN or Inf" : ""));
}

/** The value of a point; a mean of integers need not be one. @param {Drawn} one @param {number} k */
const pointText = (one, k) => digits(one.mean[k], 4, one.isWhole && Number.isInteger(one.mean[k]));

/** What is said below a chart: where it is not finite. @param {App} app @param {Drawn} one */
function foot(app, one) {
  const odd = one.x.flatMap((_, k) => (one.odd[k] ? [k] : []));
  if (!odd.length) return make("span", "");
  const first = one.x[odd[0]];
  const where = odd.length === 1 ? `${one.unit} ${first}` : `${odd.length} ${one.unit}s, first ${first}`;
  const text = `✗ NaN or Inf in ${where}`;
  const row = one.rows[odd[0]] - 1;
  return row >= 0 ? make("span", "red", link(app, row, text)) : make("span", "red", text);
}

/** Where a point lies across. @param {Drawn} one @param {number} k */
function across(one, k) {
  const first = one.x[0], span = one.x[one.x.length - 1] - first;
  return span ? EDGE + ((one.x[k] - first) / span) * (WIDE - 2 * EDGE) : WIDE / 2;
}

/** @param {Drawn} one @param {number} low @param {number} high */
function chart(one, low, high) {
  const span = high / 2 - low / 2; // halves, for the whole may be too large for a number
  const up = (v) => (span > 0 ? HIGH - 16 - ((v / 2 - low / 2) / span) * (HIGH - 24) : HIGH / 2);
  const shapes = [draw("line", { x1: 0, x2: WIDE, y1: HIGH - 8.5, y2: HIGH - 8.5, class: "ground" })];
  const spot = (/** @type {number} */ k, /** @type {number} */ v) => [across(one, k).toFixed(1), up(v).toFixed(1)];
  for (const stretch of stretches(one)) {
    const upper = stretch.map((k) => spot(k, one.high[k])), lower = stretch.map((k) => spot(k, one.low[k])).reverse();
    const line = stretch.map((k) => spot(k, one.mean[k]));
    if (stretch.some((k) => one.low[k] < one.high[k]))
      shapes.push(draw("polygon", { class: "band", points: [...upper, ...lower].join(" ") }));
    shapes.push(draw("polyline", { class: "curve", points: line.join(" ") }));
    if (one.x.length <= 60) for (const [cx, cy] of line) shapes.push(draw("circle", { class: "dot", cx, cy, r: 2.5 }));
  }
  for (const k of one.x.keys())
    if (one.odd[k]) shapes.push(draw("rect", { class: "odd", x: across(one, k) - 1.5, y: HIGH - 16, width: 3, height: 16 }));
  return draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "series-chart", role: "img" }, ...shapes);
}

/** The points that follow each other without a gap. @param {Drawn} one @returns {number[][]} */
function stretches(one) {
  /** @type {number[][]} */
  const found = [];
  let isGap = true;
  one.x.forEach((_, k) => {
    if (Number.isNaN(one.mean[k])) return void (isGap = true);
    if (isGap) found.push([]);
    found[found.length - 1].push(k);
    isGap = false;
  });
  return found;
}

/** The point nearest to the pointer. @param {Drawn} one @param {Element} picture @param {MouseEvent} event */
function nearest(one, picture, event) {
  const box = picture.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * WIDE;
  return one.x.reduce((best, _, k) => (Math.abs(across(one, k) - x) < Math.abs(across(one, best) - x) ? k : best), 0);
}

/** @param {App} app @param {Drawn} one @param {MouseEvent} event */
function point(app, one, event) {
  const row = one.rows[nearest(one, /** @type {Element} */ (event.currentTarget), event)] - 1;
  if (row >= 0) app.go(row, "jumped");
}

/** @param {Drawn} one @param {Element} picture @param {MouseEvent} event */
function hover(one, picture, event) {
  const k = nearest(one, picture, event);
  const isKnown = !Number.isNaN(one.mean[k]);
  const range = one.low[k] < one.high[k] ? ` (${limits(one.low[k], one.high[k], one.isWhole)})` : "";
  const value = isKnown ? pointText(one, k) : "NaN or Inf";
  const text = `${one.unit} ${one.x[k]}: ${value}${range}${isKnown && one.odd[k] ? " with NaN or Inf" : ""}`;
  let title = picture.querySelector("title");
  if (!title) picture.prepend((title = /** @type {any} */ (draw("title", {}))));
  title.textContent = text;
}
