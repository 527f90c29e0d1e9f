// The query: words and filters, all of which must hold. Texts are looked at once each, rows by number.

const FILTERS = "mod: nan: inf: raised: shape: dtype: kind: phase: step: rank: file: src: dur> dur<";

/**
 * The tests of a query; each says of a row whether it holds.
 * @param {Data} data @param {string} query @returns {((row: number) => boolean)[]}
 */
function tests(data, query) {
  const words = query.match(/[^\s"]*"[^"]*"?|\S+/g) ?? [];
  return words.map((word) => test(data, word.replaceAll('"', "")));
}

/** @param {Data} data @param {string} word @returns {(row: number) => boolean} */
function test(data, word) {
  const { row } = data;
  const timed = /^dur([<>])=?(.*)$/i.exec(word);
  if (timed) return longer(row, timed[1], timed[2]);
  const [, name, value] = /^([a-z]+):(.*)$/i.exec(word) ?? [];
  const wanted = (value ?? "").toLowerCase();
  switch (name?.toLowerCase()) {
    case "mod": return byTable(row.module, data.modules, (module) => fitsPath(wanted, module[0].toLowerCase()));
    case "file": return byTable(row.site, data.sites, (site) => `${site[0]}:${site[1]}`.toLowerCase().includes(wanted));
    case "src": return byTable(row.site, data.sites, (site) => `${site[2]} ${site[3]}`.toLowerCase().includes(wanted));
    case "nan": return (i) => (row.odd[i] & HAS_NAN) > 0;
    case "inf": return (i) => (row.odd[i] & HAS_INF) > 0;
    case "raised": return (i) => row.raised[i] > 0 && data.texts[row.raised[i]].toLowerCase().includes(wanted);
    case "kind": return (i) => KINDS[row.kind[i]].startsWith(wanted);
    case "phase": return (i) => row.kind[i] <= PYTHON && (row.is_backward[i] ? "backward" : "forward").startsWith(wanted);
    case "step": return inRange(row.step, "step", wanted);
    case "rank": return inRange(row.rank, "rank", wanted);
    case "shape": return byOutput(data, shaped(wanted));
    case "dtype": return byOutput(data, (type) => type[0].toLowerCase().startsWith(`${wanted}[`));
    default: return spoken(data, word.toLowerCase());
  }
}

/** A word that stands somewhere in a row. @param {Data} data @param {string} word */
function spoken(data, word) {
  const { row } = data;
  const holds = (text) => text.toLowerCase().includes(word);
  const texts = Uint8Array.from(data.texts, (text) => Number(holds(text)));
  const modules = Uint8Array.from(data.modules, (module) => Number(!!module && (holds(module[0]) || holds(module[1]))));
  const columns = [row.label, row.name, row.output, row.args, row.raised, row.message];
  const isOfBackward = holds("backward");
  return (i) => {
    for (const column of columns) if (texts[column[i]]) return true;
    return (row.kind[i] === MODULE && modules[row.module[i]] > 0) || (isOfBackward && row.is_backward[i] > 0);
  };
}

/** @param {Numbers} column @param {any[]} table @param {(item: any) => boolean} holds */
function byTable(column, table, holds) {
  const flags = Uint8Array.from(table, (item) => Number(!!item && holds(item)));
  return (i) => flags[column[i]] > 0;
}

/** @param {Data} data @param {(type: any) => boolean} holds */
function byOutput(data, holds) {
  const { made, row, tensor } = data;
  const flags = Uint8Array.from(data.types, (type) => Number(!!type && holds(type)));
  const starts = offsets(row.returned);
  return (i) => {
    for (let at = starts[i]; at < starts[i + 1]; at++) if (flags[tensor.type[made[at]]]) return true;
    return false;
  };
}

/** A path holds the text; with `*` or `?` the whole path must match, as a pattern. */
function fitsPath(/** @type {string} */ wanted, /** @type {string} */ path) {
  return /[*?]/.test(wanted) ? matchesPath(wanted, path) : path.includes(wanted);
}

/** The rules of insitu.trace.path.Pattern: `*` is one segment, `**` any number, and no other character is special. */
function matchesPath(/** @type {string} */ pattern, /** @type {string} */ path) {
  const segments = pattern ? pattern.split(".") : [];
  const parts = segments.map((segment) => segment === "**" ? "(?:\\.[^.]+)*"
    : `\\.${escaped(segment).replaceAll("\\*", segment === "*" ? "[^.]+" : "[^.]*").replaceAll("\\?", "[^.]")}`);
  return new RegExp(`^${parts.join("")}$`).test(path ? `.${path}` : "");
}

/** Sizes that stand next to each other in a shape; a star is any size. @param {string} wanted */
function shaped(wanted) {
  const sizes = wanted.replace(/[[\]\s]/g, "").split(/[,x×]/).filter(Boolean);
  const pattern = new RegExp(`[[,]${sizes.map((size) => (size === "*" ? "[^,\\]]+" : escaped(size))).join(",")}[,\\]]`);
  return (type) => !sizes.length || pattern.test(type[0].replaceAll(" ", ""));
}

/** @param {Table} row @param {string} sign @param {string} text */
function longer(row, sign, text) {
  const [, amount, unit] = /^(\d*\.?\d+)(ns|us|µs|ms|s)?$/.exec(text) ?? [];
  if (!amount) throw new Error(`dur${sign}${text} is no time: write dur${sign}1ms`);
  const units = Number(amount) * { ns: 0.01, us: 10, "µs": 10, ms: 1e4, s: 1e7 }[unit ?? "ms"];
  const { duration } = row;
  return (i) => duration[i] > 0 && (sign === ">" ? duration[i] - 1 > units : duration[i] - 1 < units);
}

/** @param {Numbers} column @param {string} name @param {string} text one number, or two with a dash between */
function inRange(column, name, text) {
  const [, low, high] = /^(\d+)(?:[-–](\d+))?$/.exec(text) ?? [];
  if (low === undefined) throw new Error(`${text || "nothing"} is no number: write ${name}:6 or ${name}:3-5`);
  return (i) => column[i] >= Number(low) && column[i] <= Number(high ?? low);
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** What was found: which rows, and how many before each. */
class Hits {
  /** @param {number} size */
  constructor(size) {
    /** @type {number[]} */
    this.found = [];
    this.before = new Uint32Array(size + 1);
    this.query = "";
  }

  /** @param {number} size @param {(item: number) => boolean} holds */
  static of(size, holds) {
    const hits = new Hits(size);
    for (let i = 0; i < size; i++) {
      hits.before[i] = hits.found.length;
      if (holds(i)) hits.found.push(i);
    }
    hits.before[size] = hits.found.length;
    return hits;
  }

  /** How many lie in a range. @param {number} start @param {number} end */
  count(start, end) {
    return this.before[end] - this.before[start];
  }

  /** The next one after a row, or before it, around the end if need be. @param {number} row @param {number} by */
  next(row, by) {
    if (!this.found.length) return -1;
    const place = by > 0 ? this.before[row + 1] ?? 0 : this.before[Math.max(row, 0)] - 1;
    return this.found[(place + this.found.length) % this.found.length];
  }
}
