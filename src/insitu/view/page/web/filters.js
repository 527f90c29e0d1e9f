// The filters of the search: `mod:attn`, `max>5`. Each makes a test for rows; texts are looked at once each.

/**
 * @typedef {(row: number) => boolean} RowTest
 * @typedef {object} Filter
 * @property {string} name
 * @property {string} form how it is written, as an example
 * @property {string} text what it finds
 * @property {boolean} compares whether it takes a sign and a number: `max>5`
 * @property {(data: Data, value: string, sign: string) => RowTest} test
 */

const TIME_UNITS = { ns: 0.01, us: 10, "µs": 10, ms: 1e4, s: 1e7 };
const BYTE_UNITS = { b: 1, kb: 1e3, mb: 1e6, gb: 1e9, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30 };
const PHASES = ["forward", "backward", "recompute"];

/** @type {Filter[]} */
const FILTERS = [
  filter("mod", "mod:h.*.attn", "in this module; * is one segment, ** any number", modTest),
  filter("nan", "nan:", "the output contains NaN", ({ row }) => (i) => (row.odd[i] & HAS_NAN) > 0),
  filter("inf", "inf:", "the output contains Inf", ({ row }) => (i) => (row.odd[i] & HAS_INF) > 0),
  comparison("max", "max>5", "the largest value of an output", (data) => statistic(data, "max")),
  comparison("min", "min<-3", "the smallest value of an output", (data) => statistic(data, "min")),
  comparison("abs", "abs>100", "the largest absolute value of an output", largestAbsolutes),
  { ...filter("size", "size>1MB", "the size of an output: elements, or bytes with a unit", sizeTest), compares: true },
  { ...filter("dur", "dur>1ms", "the time of a call", durationTest), compares: true },
  filter("shape", "shape:24,*,96", "an output has these sizes next to each other", shapeTest),
  filter("dtype", "dtype:bf16", "an output has this dtype", dtypeTest),
  filter("kind", "kind:module", "module, function, aten, python, variable", kindTest),
  filter("phase", "phase:backward", "forward, backward or recompute", phaseTest),
  filter("step", "step:3-5", "a step, or some", ({ row }, value) => rangeTest(row.step, "step", value)),
  filter("rank", "rank:0", "a rank, or some", ({ row }, value) => rangeTest(row.rank, "rank", value)),
  filter("file", "file:model.py:66", "the file and the line", fileTest),
  filter("src", 'src:"x @ y"', "the source line, or the function around it", sourceTest),
  filter("raised", "raised:", "an exception ended the call", raisedTest),
];

/** @param {string} name @param {string} form @param {string} text @param {Filter["test"]} test @returns {Filter} */
function filter(name, form, text, test) {
  return { name, form, text, compares: false, test };
}

/** A filter that compares a number of each tensor. @returns {Filter} */
function comparison(
  /** @type {string} */ name, /** @type {string} */ form, /** @type {string} */ text,
  /** @type {(data: Data) => (tensor: number) => number} */ numberOf,
) {
  const test = (/** @type {Data} */ data, /** @type {string} */ value, /** @type {string} */ sign) => {
    const limit = parsedNumber(value, `${name}${sign}`, form);
    const number = numberOf(data);
    return outputTest(data, (tensor) => compared(number(tensor), sign, limit));
  };
  return { name, form, text, compares: true, test };
}

/** The filters for the other statistics of this trace. @param {Data} data @returns {Filter[]} */
function statisticFilters(data) {
  const known = new Set(FILTERS.filter((found) => found.compares).map((found) => found.name));
  return data.statistics.filter(([name]) => !known.has(name)).map(([name, label]) =>
    comparison(name, `${name}>1`, `${label} of an output`, () => statistic(data, name)));
}

/** A statistic of each tensor; NaN where there is none. @param {Data} data @param {string} name */
function statistic({ stats, tensor }, name) {
  const column = stats[name];
  return (/** @type {number} */ number) => (tensor.stats[number] ? column[tensor.stats[number]] : NaN);
}

/** @param {Data} data */
function largestAbsolutes(data) {
  const [low, high] = [statistic(data, "min"), statistic(data, "max")];
  return (/** @type {number} */ tensor) => Math.max(Math.abs(low(tensor)), Math.abs(high(tensor)));
}

/** @param {number} number @param {string} sign @param {number} limit */
function compared(number, sign, limit) {
  if (sign === ">") return number > limit;
  if (sign === "<") return number < limit;
  return sign === ">=" ? number >= limit : number <= limit;
}

/** @param {string} text @param {string} name @param {string} form */
function parsedNumber(text, name, form) {
  const number = Number(text);
  if (!text.trim() || Number.isNaN(number)) throw new Error(`${name} expects a number, got "${text}": ${form}`);
  return number;
}

/** An amount with a unit. @returns {[number, string]} */
function parsedAmount(
  /** @type {string} */ text, /** @type {Record<string, number>} */ units, /** @type {string} */ name,
  /** @type {string} */ what, /** @type {string} */ form,
) {
  const [, amount, unit] = /^(\d*\.?\d+(?:e\d+)?)\s*([a-zµ]*)$/i.exec(text) ?? [];
  const isKnown = amount !== undefined && (!unit || unit.toLowerCase() in units);
  if (!isKnown) throw new Error(`${name} expects ${what}, got "${text}": ${form}`);
  return [Number(amount), unit.toLowerCase()];
}

// The tests.

/** @param {Data} data @param {string} value @returns {RowTest} */
function modTest({ row, modules }, value) {
  const wanted = value.toLowerCase();
  return tableTest(row.module, modules, (module) => fitsPath(wanted, module[0].toLowerCase()));
}

/** @param {Data} data @param {string} value @returns {RowTest} */
function fileTest({ row, sites }, value) {
  const wanted = value.toLowerCase();
  return tableTest(row.site, sites, (site) => `${site[0]}:${site[1]}`.toLowerCase().includes(wanted));
}

/** @param {Data} data @param {string} value @returns {RowTest} */
function sourceTest({ row, sites }, value) {
  const wanted = value.toLowerCase();
  return tableTest(row.site, sites, (site) => `${site[2]} ${site[3]}`.toLowerCase().includes(wanted));
}

/** @param {Data} data @param {string} value @returns {RowTest} */
function raisedTest({ row, texts }, value) {
  const wanted = value.toLowerCase();
  return (i) => row.raised[i] > 0 && texts[row.raised[i]].toLowerCase().includes(wanted);
}

/** @param {Data} data @param {string} value @returns {RowTest} */
function kindTest({ row }, value) {
  const wanted = value.toLowerCase();
  const flags = KINDS.map((kind) => kind.startsWith(wanted));
  if (!flags.includes(true)) throw new Error(`kind: expects one of ${KINDS.join(", ")}, got "${value}"`);
  return (i) => flags[row.kind[i]];
}

/** @param {Data} data @param {string} value @returns {RowTest} */
function phaseTest({ row, texts }, value) {
  const flags = PHASES.map((phase) => phase.startsWith(value.toLowerCase()));
  if (!flags.includes(true)) throw new Error(`phase: expects one of ${PHASES.join(", ")}, got "${value}"`);
  const isRecomputed = Uint8Array.from(texts, (text) => Number(/^recompute\b/.test(text)));
  const phaseOf = (/** @type {number} */ i) => (isRecomputed[row.marks[i]] ? 2 : Number(row.is_backward[i] > 0));
  return (i) => row.kind[i] <= PYTHON && flags[phaseOf(i)];
}

/** One number, or two with a dash between. @returns {RowTest} */
function rangeTest(/** @type {Numbers} */ column, /** @type {string} */ name, /** @type {string} */ value) {
  const [, low, high] = /^(\d+)(?:[-–](\d+))?$/.exec(value) ?? [];
  if (low === undefined) throw new Error(`${name}: expects a number, got "${value}": ${name}:6 or ${name}:3-5`);
  return (i) => column[i] >= Number(low) && column[i] <= Number(high ?? low);
}

/** Sizes next to each other in a shape; a star is any size. @param {Data} data @param {string} value @returns {RowTest} */
function shapeTest(data, value) {
  const sizes = value.replace(/[[\]\s]/g, "").split(/[,x×]/).filter(Boolean);
  const parts = sizes.map((size) => (size === "*" ? "[^,\\]]+" : escaped(size)));
  const pattern = new RegExp(`[[,]${parts.join(",")}[,\\]]`);
  return typeTest(data, (type) => !sizes.length || pattern.test(type[0].replaceAll(" ", "")));
}

/** @param {Data} data @param {string} value @returns {RowTest} */
function dtypeTest(data, value) {
  const wanted = value.toLowerCase();
  return typeTest(data, (type) => type[0].toLowerCase().startsWith(`${wanted}[`));
}

/** @param {Data} data @param {string} value @param {string} sign @returns {RowTest} */
function sizeTest(data, value, sign) {
  const [amount, unit] = parsedAmount(value, BYTE_UNITS, `size${sign}`, "a number of elements, or of bytes", "size>1MB");
  if (!unit) return typeTest(data, (type) => compared(elements(type[0]), sign, amount));
  return typeTest(data, (type) => compared(type[2], sign, amount * BYTE_UNITS[unit]));
}

/** How many elements a tensor of a type has. @param {string} type as in f32[2, 3] */
function elements(type) {
  const sizes = type.slice(type.indexOf("[") + 1, -1);
  return sizes ? sizes.split(",").reduce((product, size) => product * Number(size), 1) : 1;
}

/** @param {Data} data @param {string} value @param {string} sign @returns {RowTest} */
function durationTest({ row }, value, sign) {
  const [amount, unit] = parsedAmount(value, TIME_UNITS, `dur${sign}`, "a time", "dur>1ms");
  const limit = amount * TIME_UNITS[unit || "ms"];
  return (i) => row.duration[i] > 0 && compared(row.duration[i] - 1, sign, limit);
}

/** A word that is in a row. @param {Data} data @param {string} word @returns {RowTest} */
function wordTest(data, word) {
  const { row } = data;
  const wanted = word.toLowerCase();
  const holds = (/** @type {string} */ text) => text.toLowerCase().includes(wanted);
  const texts = Uint8Array.from(data.texts, (text) => Number(holds(text)));
  const modules = Uint8Array.from(data.modules, (module) => Number(!!module && (holds(module[0]) || holds(module[1]))));
  const columns = [row.label, row.name, row.output, row.args, row.raised, row.message, row.marks];
  const isOfBackward = holds("backward");
  return (i) => {
    for (const column of columns) if (texts[column[i]]) return true;
    if (row.kind[i] === MODULE && modules[row.module[i]]) return true;
    return isOfBackward && row.is_backward[i] > 0;
  };
}

/** Rows whose item of a table passes. @returns {RowTest} */
function tableTest(/** @type {Numbers} */ column, /** @type {any[]} */ table, /** @type {(item: any) => boolean} */ holds) {
  const flags = Uint8Array.from(table, (item) => Number(!!item && holds(item)));
  return (i) => flags[column[i]] > 0;
}

/** Rows with an output whose type passes. @param {Data} data @param {(type: any) => boolean} holds @returns {RowTest} */
function typeTest(data, holds) {
  const flags = Uint8Array.from(data.types, (type) => Number(!!type && holds(type)));
  return outputTest(data, (tensor) => flags[data.tensor.type[tensor]] > 0);
}

/** Rows with an output that passes. @param {Data} data @param {(tensor: number) => boolean} holds @returns {RowTest} */
function outputTest(data, holds) {
  const { made, row } = data;
  const starts = offsets(row.returned);
  return (i) => {
    for (let at = starts[i]; at < starts[i + 1]; at++) if (holds(made[at])) return true;
    return false;
  };
}

/** A path contains the text; with `*` or `?` the whole path must match, as a pattern. */
function fitsPath(/** @type {string} */ wanted, /** @type {string} */ path) {
  return /[*?]/.test(wanted) ? matchesPath(wanted, path) : path.includes(wanted);
}

/** The rules of insitu.trace.path.Pattern: `*` is one segment, `**` any number, and no other character is special. */
function matchesPath(/** @type {string} */ pattern, /** @type {string} */ path) {
  const segments = pattern ? pattern.split(".") : [];
  return new RegExp(`^${segments.map(segmentPattern).join("")}$`).test(path ? `.${path}` : "");
}

/** @param {string} segment */
function segmentPattern(segment) {
  if (segment === "**") return "(?:\\.[^.]+)*";
  const star = segment === "*" ? "[^.]+" : "[^.]*";
  return `\\.${escaped(segment).replaceAll("\\*", star).replaceAll("\\?", "[^.]")}`;
}

/** @param {string} text */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
