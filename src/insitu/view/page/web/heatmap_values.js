// Kept values: which pictures the page carries, and their cells as numbers. planes.py and pictures.py made them.

const LEVEL_MINUS_INF = 253;
const LEVEL_PLUS_INF = 254;
const LEVEL_NAN = 255;
const FORM_BYTES = { levels: 1, half: 2, single: 4 };
const SIDE_OF_IMAGE = 16; // pixels from which on three planes may be shown as an image

/**
 * An array that was kept: its last two dimensions are the rows and columns of a plane, the others number the planes.
 * A cell stands for `blockRows` times `blockColumns` values.
 */
class Picture {
  /** @param {Data} data @param {any[]} described in the order of `Picture.described` in pictures.py */
  constructor(data, described) {
    const [tensor, pair, output, name, kind, isImage, stats, ...layout] = described;
    const [shape, leading, rows, columns, blockRows, blockColumns, pooling, ...coding] = layout;
    const [form, start, isExact, low, step, scale] = coding;
    Object.assign(this, { data, tensor, pair, output, name, kind, stats, form, start, low, step, scale });
    Object.assign(this, { shape, leading, rows, columns, blockRows, blockColumns, pooling });
    this.isImage = isImage === 1;
    this.isExact = isExact === 1;
  }

  /** Whether these are numbers in a row, not in planes. */
  get isRow() {
    return this.shape.length < 2;
  }

  get isWhole() {
    return this.kind === "integer" || this.kind === "bool";
  }

  /** Whether three planes may be the colours of an image. */
  get hasChannels() {
    const isLarge = this.rows >= SIDE_OF_IMAGE && this.columns >= SIDE_OF_IMAGE;
    return isLarge && this.shape[this.shape.length - 3] === 3 && this.leading[this.leading.length - 1] === 3;
  }

  /** The planes that the page has. */
  get planeCount() {
    return this.leading.reduce((count, size) => count * size, 1);
  }

  /** The cells of all planes. @returns {Float64Array} */
  cells() {
    const count = this.planeCount * this.rows * this.columns;
    const bytes = this.data.values.slice(this.start, this.start + count * FORM_BYTES[this.form]);
    if (this.form === "levels") return Float64Array.from(bytes, (code) => this.levelValue(code));
    if (this.form === "single") return Float64Array.from(new Float32Array(bytes.buffer), (number) => number * this.scale);
    return Float64Array.from(new Uint16Array(bytes.buffer), (bits) => halfValue(bits) * this.scale);
  }

  /** @param {number} code */
  levelValue(code) {
    if (code === LEVEL_NAN) return NaN;
    if (code === LEVEL_PLUS_INF) return Infinity;
    if (code === LEVEL_MINUS_INF) return -Infinity;
    return this.low + this.step * code;
  }

  /** The place of a plane among all of them. @param {number[]} index one for each leading dimension */
  planeAt(index) {
    return this.leading.reduce((place, size, dimension) => place * size + Math.min(index[dimension], size - 1), 0);
  }

  /** The indices of a plane. @param {number} plane @returns {number[]} */
  indexOf(plane) {
    const index = [];
    for (const size of [...this.leading].reverse()) {
      index.unshift(plane % size);
      plane = Math.floor(plane / size);
    }
    return index;
  }

  /** What of the array a cell shows, as Python would index it; of an image, all channels. */
  indexText(/** @type {number} */ plane, /** @type {number} */ row, /** @type {number} */ column, isImage = false) {
    const across = indexRange(column, this.blockColumns, this.shape[this.shape.length - 1]);
    if (this.isRow) return `[${across}]`;
    const down = indexRange(row, this.blockRows, this.shape[this.shape.length - 2]);
    const leading = this.indexOf(plane).map(String);
    if (isImage) leading[leading.length - 1] = ":";
    return `[${[...leading, down, across].join(", ")}]`;
  }

  /** The least and the largest finite value of the whole array; NaN if there is none. @returns {[number, number]} */
  get ends() {
    const { min, max } = this.data.stats;
    return [min[this.stats], max[this.stats]];
  }
}

/** The indices that a cell covers. @param {number} cell @param {number} block @param {number} size */
function indexRange(cell, block, size) {
  const first = cell * block;
  const last = Math.min(first + block, size) - 1;
  return first === last ? `${first}` : `${first}:${last + 1}`;
}

/** A float of 16 bits as a number. @param {number} bits */
function halfValue(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** The pictures of the page, by what they belong to. */
class Pictures {
  /** @param {Data} data */
  constructor(data) {
    this.count = data.pictures.length;
    /** @type {Map<number, Picture[]>} */
    this.byTensor = new Map();
    /** @type {Map<string, Picture>} */
    this.byPair = new Map();
    for (const described of data.pictures) this.add(new Picture(data, described));
    this.unshown = new Set(Array.from(data.unshown));
  }

  /** @param {Picture} picture */
  add(picture) {
    if (picture.pair) {
      this.byPair.set(`${picture.pair} ${picture.output}`, picture);
      return;
    }
    const known = this.byTensor.get(picture.tensor);
    if (known) known.push(picture);
    else this.byTensor.set(picture.tensor, [picture]);
  }

  /** The pictures of a tensor. @param {number} tensor @returns {Picture[]} */
  of(tensor) {
    return this.byTensor.get(tensor) ?? [];
  }

  /** The difference of an output of a pair of calls. @param {number} pair @param {number} output @returns {Picture|undefined} */
  difference(pair, output) {
    return this.byPair.get(`${pair + 1} ${output}`);
  }
}
