// What is known about calls, by the numbers of their rows.

const INTEGER = 1; // in `row.number_kind`

class Calls {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.row = data.row;
    this.texts = data.texts;
    this.size = data.row.id.length;
    this.givenAt = offsets(data.row.taken);
    this.madeAt = offsets(data.row.returned);
    this.second = data.diff?.second ?? this.size; // the first row of the other run
    this.wholeTypes = Uint8Array.from(data.types, (type) => Number(!!type && /^(np )?[iu]\d+\[/.test(type[0])));
    /** @type {Map<number, Together>} by the first of the rows */
    this.knownTogether = new Map();
  }

  /** The address of a row: #e=7, or #b=7 for an event of the second run. @param {number} row */
  address(row) {
    const run = row < this.second ? "e" : "b";
    return `#${run}=${this.row.id[row]}`;
  }

  /** The row of an address. @param {string} address @returns {number|undefined} */
  found(address) {
    const [, run, id] = /^#([eb])=(\d+)$/.exec(address) ?? [];
    if (id === undefined) return undefined;
    const [start, end] = run === "b" ? [this.second, this.size] : [0, this.second];
    const wanted = Number(id);
    for (let row = start; row < end; row++) if (this.row.id[row] === wanted) return row;
    return undefined;
  }

  /** Whether there is any row that is not a variable. */
  get hasCalls() {
    const variable = KINDS.indexOf("variable");
    for (let row = 0; row < this.size; row++) if (this.row.kind[row] !== variable) return true;
    return false;
  }

  /** @param {number} row @returns {number[]} numbers of tensors */
  inputs(row) {
    return part(this.data.given, this.givenAt[row], this.givenAt[row + 1]);
  }

  /** @param {number} row @returns {number[]} numbers of tensors */
  outputs(row) {
    return part(this.data.made, this.madeAt[row], this.madeAt[row + 1]);
  }

  /** The path of the module that was called, or that contains the call. @param {number} row */
  path(row) {
    return this.data.modules[this.row.module[row]]?.[0] ?? "";
  }

  /** What was called. @param {number} row */
  label(row) {
    return this.texts[this.row.label[row]];
  }

  /** A name for links: what was called and, for a module, its path. @param {number} row */
  named(row) {
    const path = this.path(row);
    return this.row.kind[row] === MODULE && path ? `${path} ${this.label(row)}` : this.label(row);
  }

  /** The file and the line of a call. @param {number} row */
  place(row) {
    const site = this.data.sites[this.row.site[row]];
    return site ? `${basename(site[0])}:${site[1]}` : "";
  }

  /** Whether something is wrong with a row: NaN, Inf or an exception. @param {number} row */
  isBad(row) {
    return (this.row.odd[row] & IS_WRONG) > 0 || this.row.raised[row] > 0;
  }

  /** Whether a tensor holds integers, which are exact. @param {number} tensor */
  isWhole(tensor) {
    return this.wholeTypes[this.data.tensor.type[tensor]] > 0;
  }

  /**
   * How NaN or Inf comes to a row that is the first to have it: it begins there, it goes in and no row made it, or it
   * comes out and not all inputs are known.
   * @param {number} row @returns {"begins"|"comes in"|"comes out"}
   */
  origin(row) {
    const { stats, tensor } = this.data;
    const inputs = this.inputs(row).map((number) => tensor.stats[number]);
    const count = this.row.odd[row] & HAS_NAN ? stats.nan : stats.inf;
    if (inputs.some((number) => count[number] > 0)) return "comes in";
    return inputs.includes(0) ? "comes out" : "begins";
  }

  /** The bytes of all outputs of a row. @param {number} row */
  outputBytes(row) {
    const { made, tensor, types } = this.data;
    let total = 0;
    for (let at = this.madeAt[row]; at < this.madeAt[row + 1]; at++) total += types[tensor.type[made[at]]]?.[2] ?? 0;
    return total;
  }

  /**
   * The largest absolute value in the outputs of a row; NaN if it is not known. It is infinite if a NaN or an Inf is
   * wrong there; the -inf of a mask does not count.
   */
  largestValue(/** @type {number} */ row) {
    const { made, stats, tensor } = this.data;
    if (this.row.odd[row] & IS_WRONG) return Infinity;
    let largest = NaN;
    for (let at = this.madeAt[row]; at < this.madeAt[row + 1]; at++) {
      const number = tensor.stats[made[at]];
      if (!number) continue;
      const value = Math.max(Math.abs(stats.min[number]), Math.abs(stats.max[number]));
      if (!(value <= largest)) largest = value;
    }
    return largest;
  }

  /** The number of the statistics of the first output that has them. @param {number} row */
  firstStats(row) {
    const tensor = this.outputs(row).find((number) => this.data.tensor.stats[number]);
    return tensor === undefined ? 0 : this.data.tensor.stats[tensor];
  }

  /** What was kept of each output, in words. @param {number} row */
  kept(row) {
    const { tensor } = this.data;
    const kept = this.outputs(row).map((number) => tensor.kept[number]);
    if (!kept.some(Boolean)) return "";
    return listed(kept.map((number) => (number ? this.texts[number] : "?")));
  }

  /** Everything that one row shows for several. @param {number[]} rows @returns {Together} */
  together(rows) {
    const known = this.knownTogether.get(rows[0]);
    if (known?.rows === rows) return known;
    const found = together(this, rows);
    this.knownTogether.set(rows[0], found);
    return found;
  }

  /** The values of the outputs of one row, in words. @param {number} row */
  spreadText(row) {
    return this.together([row]).values;
  }

  // Who produced what.

  /** The rows that each tensor went into. */
  get usersOfTensor() {
    const { given, tensor } = this.data;
    this._usersOfTensor ??= new RowIndex(largest(tensor.same) + 1, (add) => this.eachInput(given, tensor.same, add));
    return this._usersOfTensor;
  }

  /** The rows that got anything that a row produced: autograd passes on what a call produced as another tensor. */
  get usersOfRow() {
    const { given, tensor } = this.data;
    this._usersOfRow ??= new RowIndex(this.size + 1, (add) => this.eachInput(given, tensor.made, add));
    return this._usersOfRow;
  }

  /**
   * Visit a number of each input of each row, and the row.
   * @param {Numbers} given @param {Numbers} column @param {(key: number, row: number) => void} add
   */
  eachInput(given, column, add) {
    for (let row = 0; row < this.size; row++)
      for (let at = this.givenAt[row]; at < this.givenAt[row + 1]; at++) add(column[given[at]], row);
  }

  /** The rows of the backward pass, by the row of their forward call. */
  get behind() {
    const { forward } = this.row;
    this._behind ??= new RowIndex(this.size, (add) => {
      for (let row = 0; row < this.size; row++) if (forward[row]) add(forward[row] - 1, row);
    });
    return this._behind;
  }

  /** The rows that produced the inputs of a row. @param {number} row */
  makers(row) {
    const makers = this.inputs(row).map((number) => this.data.tensor.made[number] - 1);
    return [...new Set(makers)].filter((maker) => maker >= 0 && maker !== row);
  }

  /**
   * The rows that got what a row returned; of rows inside each other, the outermost.
   * @param {number} row @param {RowTree} tree
   */
  takers(row, tree) {
    const { same } = this.data.tensor;
    const direct = this.outputs(row).flatMap((number) => this.usersOfTensor.get(same[number]));
    const users = [...new Set([...this.usersOfRow.get(row + 1), ...direct])].sort((a, b) => a - b);
    const isInside = (/** @type {number} */ inner, /** @type {number} */ outer) => inner > outer && inner < tree.end[outer];
    const found = [];
    let end = -1;
    for (const user of users) {
      const isRelated = user === row || isInside(user, row) || isInside(row, user);
      if (isRelated || user < end) continue;
      found.push(user);
      end = tree.end[user];
    }
    return found;
  }
}

/** @param {string} file */
const basename = (file) => file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);

/** @param {Numbers} numbers */
function largest(numbers) {
  let found = 0;
  for (let place = 0; place < numbers.length; place++) if (numbers[place] > found) found = numbers[place];
  return found;
}

/** A path as seen from another one. @param {string} path @param {string} base */
function relative(path, base) {
  if (!base || !path.startsWith(base)) return path;
  if (path.length === base.length) return "";
  return path[base.length] === "." ? path.slice(base.length + 1) : path;
}
