// What the page carries, unpacked: the way back from packing.py.

/**
 * @typedef {ArrayLike<number>} Numbers
 * @typedef {Record<string, Numbers>} Table columns by name
 * @typedef {{row: Table, tensor: Table, stats: Table, pair: Table, points: Table, given: Numbers, made: Numbers,
 *   texts: string[], sites: any[], modules: any[], types: any[], series: any[], title: string,
 *   about: Record<string, string>, events?: number, diff?: any}} Data
 */

const ARRAYS = {
  B: Uint8Array, b: Int8Array, H: Uint16Array, h: Int16Array, I: Uint32Array, i: Int32Array,
  f: Float32Array, d: Float64Array,
};

/** @param {string} text base64 of gzip @returns {Promise<Data>} */
async function unpacked(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const whole = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(whole.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(whole.subarray(4, 4 + length)));
  return { ...header, ...tables(header.columns, whole, 4 + length) };
}

/** @param {any[]} described @param {Uint8Array} whole @param {number} start */
function tables(described, whole, start) {
  /** @type {any} */
  const found = { row: {}, tensor: {}, stats: {}, pair: {}, points: {}, given: [], made: [] };
  for (const [name, kind, isDelta, length] of described) {
    const array = ARRAYS[kind];
    const values = joined(whole, start, length, array);
    start += length * array.BYTES_PER_ELEMENT;
    const [table, column] = name.split(".");
    const made = isDelta ? summed(values) : values;
    if (column) found[table === "series" ? "points" : table][column] = made;
    else found[table] = made;
  }
  return found;
}

/** Bytes that lie in planes, one for each place in a number, as numbers. */
function joined(whole, start, length, array) {
  const width = array.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(length * width);
  for (let place = 0; place < width; place++) {
    const plane = start + place * length;
    for (let i = 0; i < length; i++) bytes[i * width + place] = whole[plane + i];
  }
  return new array(bytes.buffer);
}

/** @param {Numbers} deltas */
function summed(deltas) {
  const values = new Float64Array(deltas.length);
  let total = 0;
  for (let i = 0; i < deltas.length; i++) values[i] = total += deltas[i];
  return values;
}

/** Where the items of each row begin, from how many there are. @param {Numbers} counts */
function offsets(counts) {
  const starts = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) starts[i + 1] = starts[i] + counts[i];
  return starts;
}

/** @param {Numbers} values @param {number} start @param {number} end @returns {number[]} */
const part = (values, start, end) => Array.from({ length: end - start }, (_, k) => values[start + k]);

/**
 * An element with a class and children; strings become text, never markup.
 * @param {string} tag @param {string} [name] @param {...(Node|string)} children
 */
function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

/** A term and what is said of it, for a list of such. @param {string} term @param {string} text */
const entry = (term, text, name = "pair") => make("div", name, make("dt", "", term), make("dd", "", text));

/** Parts with spaces between, which are also copied and read out. @param {Node[]} parts @returns {(Node|string)[]} */
const spaced = (parts) => parts.flatMap((part) => [" ", part]).slice(1);

/** @param {string} tag @param {Record<string, string|number>} attributes @param {...Node} children */
function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** @param {string} id @returns {any} */
const at = (id) => document.getElementById(id);

/**
 * A number in about three digits, as in the terminal: none before the point is lost up to 100,000, integers are exact.
 * @param {number} value @param {number} [most] digits @param {boolean} [isWhole] whether its type is one of integers
 */
function digits(value, most = 3, isWhole = false) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "Inf" : "-Inf";
  const size = Math.abs(value);
  if (isWhole && size <= 2 ** 53) return String(value);
  const isWritten = size >= 10 ** (most - 1) && size < 1e5;
  const text = rounded(value, isWritten ? String(Math.trunc(size)).length : most);
  const isShort = !size || (size < 1e5 && size >= 1e-4);
  if (isShort) return String(Number(text));
  return (isWhole ? "≈ " : "") + text.replace(/\.?0+e/, "e").replace(/e([+-])(\d)$/, "e$10$2");
}

/** A range, with as many digits as tell its ends apart; one number where they are equal. */
function limits(/** @type {number} */ low, /** @type {number} */ high, isWhole = false) {
  const end = (most) => [digits(low, most, isWhole), digits(high, most, isWhole)];
  if (low === high) return end(3)[0];
  const [from, to] = end(3);
  return (from === to ? end(5) : [from, to]).join(" … ");
}

/** A number with so many digits; what lies in the middle goes to the even one, as in Python. @param {number} value */
function rounded(value, most) {
  const [whole, power] = value.toExponential(60).split("e"), end = most + 1 + Number(value < 0);
  const isEven = /[02468]$/.test(whole.slice(0, end)) && /^50*$/.test(whole.slice(end));
  return isEven ? `${whole.slice(0, end)}e${power}` : value.toExponential(most - 1);
}

/** @param {number} units of 100 ns */
function time(units) {
  const micro = units / 10;
  if (micro < 99.95) return `${micro.toFixed(1)}µs`;
  if (micro < 999.5) return `${micro.toFixed(0)}µs`;
  if (micro < 99950) return `${(micro / 1e3).toFixed(1)}ms`;
  return micro < 999500 ? `${(micro / 1e3).toFixed(0)}ms` : `${(micro / 1e6).toFixed(2)}s`;
}

/** @param {number} value @param {number} base @param {string[]} units */
function scaled(value, base, units) {
  let unit = 0;
  while (value >= base && unit < units.length - 1) [value, unit] = [value / base, unit + 1];
  return `${Number(value.toPrecision(3))}${units[unit]}`;
}

const bytesText = (n) => scaled(n, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
const countText = (n) => scaled(n, 1000, ["", " k", " M", " G", " T", " P", " E"]);
const many = (n) => n.toLocaleString("en");
/** @param {number} n @param {string} what */
const counted = (n, what) => `${many(n)} ${what}${n === 1 ? "" : "s"}`;
