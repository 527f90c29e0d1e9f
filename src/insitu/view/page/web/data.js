// What the page carries, unpacked: the way back from packing.py.

/**
 * @typedef {ArrayLike<number>} Numbers
 * @typedef {Record<string, Numbers>} Table columns by name
 * @typedef {{row: Table, tensor: Table, stats: Table, pair: Table, points: Table, given: Numbers, made: Numbers,
 *   texts: string[], sites: any[], modules: any[], types: any[], series: any, title: string,
 *   about: Record<string, string>, kinds: string[], flags: Record<string, number>, statistics: any[], answers: any[],
 *   empty?: string, events?: number, diff?: any}} Data
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
