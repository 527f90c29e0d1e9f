// What is known of calls, by the numbers of their rows, and how a call is written into its row.

const MOST_RANGES = 4; // that are shown one by one
const INTEGER = 1;

/**
 * @typedef {{min: number, max: number, nan: number, inf: number, count: number, isKnown: boolean, isWhole: boolean}} Range
 * @typedef {{rows: number[], ranges: Range[], values: string, output: string, label: string, place: string,
 *   time: number, isBad: boolean, odd: number}} Together
 */

class Calls {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.row = data.row;
    this.texts = data.texts;
    /** @type {Map<number, Together>} */
    this.joined = new Map();
    this.wholeTypes = Uint8Array.from(data.types, (type) => Number(!!type && /^(np )?[iu]\d+\[/.test(type[0])));
    this.size = data.row.id.length;
    this.givenAt = offsets(data.row.taken);
    this.madeAt = offsets(data.row.returned);
    this.second = data.diff?.second ?? this.size; // the first row of the other run
    /** @type {Map<number, number>[]} the rows of each run by the ids of their events */
    this.byId = [new Map(), new Map()];
    for (let i = this.size - 1; i >= 0; i--)
      if (this.row.id[i] >= 0) this.byId[Number(i >= this.second)].set(this.row.id[i], i);
  }

  /** Where a row is found again: #e=7, or #b=7 for an event of the second run. @param {number} i */
  address(i) {
    return `#${i < this.second ? "e" : "b"}=${this.row.id[i]}`;
  }

  /** The row of an address. @param {string} address @returns {number|undefined} */
  found(address) {
    const [, run, id] = /^#([eb])=(\d+)$/.exec(address) ?? [];
    return id === undefined ? undefined : this.byId[Number(run === "b")].get(Number(id));
  }

  /** @param {number} i @returns {number[]} numbers of tensors */
  inputs(i) {
    return part(this.data.given, this.givenAt[i], this.givenAt[i + 1]);
  }

  /** @param {number} i @returns {number[]} */
  outputs(i) {
    return part(this.data.made, this.madeAt[i], this.madeAt[i + 1]);
  }

  /**
   * How NaN or Inf comes to a row that is the first to have it: it begins there, it goes in and no row made it, or it
   * comes out and not all that went in is known.
   * @param {number} i @returns {"begins"|"comes in"|"comes out"}
   */
  origin(i) {
    const { stats, tensor } = this.data, given = this.inputs(i).map((number) => tensor.stats[number]);
    const count = this.row.odd[i] & HAS_NAN ? stats.nan : stats.inf;
    if (given.some((number) => count[number] > 0)) return "comes in";
    return given.includes(0) ? "comes out" : "begins";
  }

  /** Whether a tensor holds integers, which are exact. @param {number} made */
  isWhole(made) {
    return this.wholeTypes[this.data.tensor.type[made]] > 0;
  }

  /** The range of each output, over all rows. @param {number[]} rows @returns {Range[]} */
  ranges(rows) {
    const { stats, tensor, made } = this.data;
    /** @type {Range[]} */
    const found = [];
    for (const i of rows)
      for (let at = this.madeAt[i], place = 0; at < this.madeAt[i + 1]; at++, place++) {
        found[place] ??= { min: Infinity, max: -Infinity, nan: 0, inf: 0, count: 0, isKnown: false, isWhole: true };
        const range = found[place], number = tensor.stats[made[at]];
        range.isWhole &&= this.isWhole(made[at]);
        if (!number) continue;
        range.isKnown = true;
        range.nan += stats.nan[number];
        range.inf += stats.inf[number];
        range.count += stats.count[number];
        if (stats.min[number] < range.min) range.min = stats.min[number];
        if (stats.max[number] > range.max) range.max = stats.max[number];
      }
    return found;
  }

  /** What was kept of the outputs; where that differs, the first. @param {number[]} rows */
  commonKept(rows) {
    const text = this.kept(rows[0]);
    return !text || rows.every((i) => this.kept(i) === text) ? text : `${text} and others`;
  }

  /** What rows returned, in words: numbers as a range, of other things that differ the first. @param {number[]} rows */
  outputText(rows) {
    const { row, texts } = this, [first] = rows, last = rows[rows.length - 1];
    const text = (i) => texts[row.output[i]];
    if (row.raised[first]) return `✗ raised ${texts[row.raised[first]]}`;
    if (rows.every((i) => row.output[i] === row.output[first])) return text(first);
    if (KINDS[row.kind[first]] === "variable") return `${text(first)} → ${[text(last), this.nanText(rows)].filter(Boolean).join(", ")}`;
    if (rows.every((i) => row.number_kind[i])) return this.numberRange(rows);
    return `${text(first)} and others`;
  }

  /** How many numbers are NaN. @param {number[]} rows */
  nanText(rows) {
    const { number_kind: kind, number } = this.row;
    const count = rows.filter((i) => kind[i] && Number.isNaN(number[i])).length;
    return count ? `${many(count)} NaN` : "";
  }

  /** @param {number[]} rows */
  numberRange(rows) {
    const { number_kind: kind, number } = this.row;
    const known = rows.filter((i) => !Number.isNaN(number[i])).map((i) => number[i]);
    const isWhole = rows.every((i) => kind[i] === INTEGER);
    const low = known.reduce((least, one) => Math.min(least, one), Infinity);
    const high = known.reduce((most, one) => Math.max(most, one), -Infinity);
    return [known.length ? limits(low, high, isWhole) : "", this.nanText(rows)].filter(Boolean).join(", ");
  }

  /** All that is shown of the rows that one row stands for. @param {number[]} rows @returns {Together} */
  together(rows) {
    const known = this.joined.get(rows[0]);
    if (known?.rows === rows) return known;
    const { row } = this, ranges = this.ranges(rows);
    const found = {
      rows, ranges,
      values: ranges.some((one) => one.isKnown) ? rangesText(ranges) : this.commonKept(rows),
      output: this.outputText(rows),
      label: this.commonLabel(rows),
      place: this.commonPlace(rows),
      time: rows.reduce((sum, i) => sum + Math.max(0, row.duration[i] - 1), 0),
      isBad: rows.some((i) => row.odd[i] & IS_WRONG || row.raised[i]),
      odd: rows.reduce((flags, i) => flags | row.odd[i], 0),
    };
    this.joined.set(rows[0], found);
    return found;
  }

  /** What was called; where the arguments differ, without them. @param {number[]} rows */
  commonLabel(rows) {
    const text = this.label(rows[0]);
    if (rows.every((i) => this.row.label[i] === this.row.label[rows[0]]) || this.row.kind[rows[0]] > PYTHON) return text;
    return `${text.split("(")[0]}(…)`;
  }

  /** Where it was called; of several places the first. @param {number[]} rows */
  commonPlace(rows) {
    const text = this.place(rows[0]);
    const isSame = (i) => this.row.site[i] === this.row.site[rows[0]] || this.place(i) === text;
    return !text || rows.every(isSame) ? text : `${text} …`;
  }

  /** The number of the statistics of the first output that has them. @param {number} i */
  firstStats(i) {
    for (const made of this.outputs(i)) if (this.data.tensor.stats[made]) return this.data.tensor.stats[made];
    return 0;
  }

  /** What was kept of each output. @param {number} i */
  kept(i) {
    const { tensor, texts } = this.data, found = this.outputs(i).map((made) => tensor.kept[made]);
    return found.some(Boolean) ? listed(found.map((number) => (number ? texts[number] : "?"))) : "";
  }

  /**
   * The rows that were given each tensor, by its number, and those that were given anything a row made, by minus that
   * row's number less one: autograd hands on what a call made as another tensor.
   */
  get users() {
    if (!this._users) {
      const { same, made } = this.data.tensor;
      /** @type {Map<number, number[]>} */
      this._users = new Map();
      for (let i = 0; i < this.size; i++)
        for (const key of new Set(this.inputs(i).flatMap((given) => [same[given], -made[given]]))) {
          const rows = this._users.get(key);
          if (rows) rows.push(i);
          else this._users.set(key, [i]);
        }
    }
    return this._users;
  }

  /** The rows of the backward pass, by the row of their forward call. */
  get behind() {
    if (!this._behind) {
      /** @type {Map<number, number[]>} */
      this._behind = new Map();
      for (let i = 0; i < this.size; i++)
        if (this.row.forward[i]) {
          const forward = this.row.forward[i] - 1, rows = this._behind.get(forward);
          if (rows) rows.push(i);
          else this._behind.set(forward, [i]);
        }
    }
    return this._behind;
  }

  /** Who made what a row was given. @param {number} i */
  makers(i) {
    const rows = this.inputs(i).map((given) => this.data.tensor.made[given] - 1);
    return [...new Set(rows)].filter((made) => made >= 0 && made !== i);
  }

  /**
   * Who was given what a row returned; of calls that lie in each other the outermost.
   * @param {number} i @param {RowTree} tree
   */
  takers(i, tree) {
    const keys = [-i - 1, ...this.outputs(i).map((made) => this.data.tensor.same[made])];
    const rows = keys.flatMap((key) => this.users.get(key) ?? []);
    const sorted = [...new Set(rows)].filter((user) => user < i || user >= tree.end[i]).sort((a, b) => a - b);
    let end = -1;
    return sorted.filter((user) => !(i > user && i < tree.end[user]) && user >= end && (end = tree.end[user]));
  }

  /** @param {number} i */
  path(i) {
    return this.data.modules[this.row.module[i]]?.[0] ?? "";
  }

  /** @param {number} i */
  label(i) {
    return this.data.texts[this.row.label[i]];
  }

  /** A name for links: what was called, and in which module. @param {number} i */
  named(i) {
    const path = this.path(i);
    return this.row.kind[i] === MODULE && path ? `${path} ${this.label(i)}` : this.label(i);
  }

  /** @param {number} i */
  place(i) {
    const site = this.data.sites[this.row.site[i]];
    return site ? `${basename(site[0])}:${site[1]}` : "";
  }

  /** @param {number} i @returns {string} */
  spreadText(i) {
    return this.together([i]).values;
  }
}

const basename = (file) => file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);

/** @param {Range[]} ranges @returns {string} one for each output; of many the first, and what is not finite after them */
function rangesText(ranges) {
  const [only] = ranges;
  if (ranges.length === 1) return rangeText(only);
  const text = (one) => (!one.isKnown ? "?" : one.count ? rangeText(one) : "empty");
  const rest = ranges.slice(MOST_RANGES - 1);
  const nan = rest.reduce((sum, one) => sum + one.nan, 0), inf = rest.reduce((sum, one) => sum + one.inf, 0);
  const odd = nan || inf ? `, ${rangeText({ ...only, min: Infinity, max: -Infinity, nan, inf })}` : "";
  return listed(ranges.map(text), odd);
}

/** A text for each output; of many the first ones, and how many more there are. @param {string[]} texts */
function listed(texts, last = "") {
  if (texts.length <= MOST_RANGES) return texts.join(" | ");
  const shown = texts.slice(0, MOST_RANGES - 1);
  return [...shown, `… ${many(texts.length - shown.length)} more${last}`].join(" | ");
}

/** @param {Range} found */
function rangeText(found) {
  const odd = [found.nan && `${many(found.nan)} NaN`, found.inf && `${many(found.inf)} Inf`].filter(Boolean).join(", ");
  if (found.nan) return `✗ ${odd}`;
  if (!(found.min <= found.max)) return odd;
  const text = limits(found.min, found.max, found.isWhole);
  return odd ? `${text}, ${odd}` : text;
}

/** A path as seen from another one. @param {string} path @param {string} base */
function relative(path, base) {
  if (!base || !path.startsWith(base)) return path;
  return path.length === base.length ? "" : path[base.length] === "." ? path.slice(base.length + 1) : path;
}
