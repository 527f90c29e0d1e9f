// What one row shows for several that are alike: ranges over all of them, sums of their times.

const MOST_RANGES = 4; // that are shown one by one

/**
 * @typedef {{min: number, max: number, nan: number, inf: number, count: number, isKnown: boolean, isWhole: boolean}} Range
 * @typedef {{rows: number[], ranges: Range[], values: string, output: string, label: string, place: string,
 *   time: number, isBad: boolean, odd: number}} Together
 */

/** @param {Calls} calls @param {number[]} rows @returns {Together} */
function together(calls, rows) {
  const { row } = calls;
  const ranges = outputRanges(calls, rows);
  return {
    rows,
    ranges,
    values: ranges.some((range) => range.isKnown) ? rangesText(ranges) : commonKept(calls, rows),
    output: returnedText(calls, rows),
    label: commonLabel(calls, rows),
    place: commonPlace(calls, rows),
    time: rows.reduce((total, like) => total + Math.max(0, row.duration[like] - 1), 0),
    isBad: rows.some((like) => calls.isBad(like)),
    odd: rows.reduce((flags, like) => flags | row.odd[like], 0),
  };
}

/** The range of each output, over all rows. @param {Calls} calls @param {number[]} rows @returns {Range[]} */
function outputRanges(calls, rows) {
  const { made } = calls.data;
  /** @type {Range[]} */
  const found = [];
  for (const row of rows) {
    const start = calls.madeAt[row];
    for (let at = start; at < calls.madeAt[row + 1]; at++) {
      const place = at - start;
      found[place] ??= { min: Infinity, max: -Infinity, nan: 0, inf: 0, count: 0, isKnown: false, isWhole: true };
      widen(found[place], calls, made[at]);
    }
  }
  return found;
}

/** Let a range include the values of a tensor. @param {Range} range @param {Calls} calls @param {number} tensor */
function widen(range, calls, tensor) {
  const { stats } = calls.data;
  const number = calls.data.tensor.stats[tensor];
  range.isWhole &&= calls.isWhole(tensor);
  if (!number) return;
  range.isKnown = true;
  range.nan += stats.nan[number];
  range.inf += stats.inf[number];
  range.count += stats.count[number];
  if (stats.min[number] < range.min) range.min = stats.min[number];
  if (stats.max[number] > range.max) range.max = stats.max[number];
}

/** What was kept of the outputs; where that differs, of the first. @param {Calls} calls @param {number[]} rows */
function commonKept(calls, rows) {
  const text = calls.kept(rows[0]);
  const isCommon = !text || rows.every((row) => calls.kept(row) === text);
  return isCommon ? text : `${text} and others`;
}

/** What rows returned: numbers as a range; of other things that differ, the first. */
function returnedText(/** @type {Calls} */ calls, /** @type {number[]} */ rows) {
  const { row, texts } = calls;
  const [first] = rows;
  const text = texts[row.output[first]];
  if (row.raised[first]) return `✗ raised ${texts[row.raised[first]]}`;
  if (KINDS[row.kind[first]] === "variable") return variableText(calls, rows);
  if (rows.every((like) => row.output[like] === row.output[first])) return text;
  if (rows.every((like) => row.number_kind[like])) return numberRange(calls, rows);
  return shapesText(rows.map((like) => texts[row.output[like]])) ?? `${text} and others`;
}

const SHAPE = /\[[\d, ]*\]/g;

/**
 * Outputs that differ in sizes only: `f32[1, 8→26, 4]` if a size only grows or only shrinks, else `f32[1, 8 … 26, 4]`.
 * @param {string[]} texts
 */
function shapesText(texts) {
  const [first, ...others] = texts;
  const form = first.replace(SHAPE, "[]");
  if (others.some((text) => text.replace(SHAPE, "[]") !== form)) return null;
  const shapes = texts.map((text) => (text.match(SHAPE) ?? []).map((shape) => shape.match(/\d+/g) ?? []));
  const hasOtherLength = shapes.some((every) => every.some((sizes, i) => sizes.length !== shapes[0][i].length));
  if (hasOtherLength) return null;
  let place = 0;
  return first.replace(SHAPE, () => {
    const at = place++;
    return `[${shapes[0][at].map((_, i) => sizesText(shapes.map((every) => Number(every[at][i])))).join(", ")}]`;
  });
}

/** A size that all have, or how it goes. @param {number[]} sizes */
function sizesText(sizes) {
  const [low, high] = ends(sizes);
  if (low === high) return `${low}`;
  const steps = sizes.slice(1).map((size, i) => size - sizes[i]);
  const isSteady = steps.every((step) => step >= 0) || steps.every((step) => step <= 0);
  return isSteady ? `${sizes[0]}→${sizes[sizes.length - 1]}` : `${low} … ${high}`;
}

/** How a variable changed: `5.0 (new)`, `5.0 → 10.0`. @param {Calls} calls @param {number[]} rows */
function variableText(calls, rows) {
  const { row, texts } = calls;
  const [first] = rows;
  const last = rows[rows.length - 1];
  const changes = texts[row.args[last]].split("\t")[1] ?? "";
  const text = texts[row.output[last]];
  const before = rows.length > 1 ? texts[row.output[first]] : texts[row.before[first]];
  if (changes === "deleted") return "(deleted)";
  if (changes === "yielded") return text;
  const course = before && before !== text ? `${before} → ${text}` : `${text}${changeNote(changes)}`;
  return [course, rows.length > 1 ? nanText(calls, rows) : ""].filter(Boolean).join(", ");
}

/** @param {string} changes */
function changeNote(changes) {
  if (!changes) return "";
  return changes === "new" ? " (new)" : ` (${changes} changed)`;
}

/** How many numbers are NaN. @param {Calls} calls @param {number[]} rows */
function nanText(calls, rows) {
  const { number_kind: kind, number } = calls.row;
  const count = rows.filter((row) => kind[row] && Number.isNaN(number[row])).length;
  return count ? `${many(count)} NaN` : "";
}

/** @param {Calls} calls @param {number[]} rows */
function numberRange(calls, rows) {
  const { number_kind: kind, number } = calls.row;
  const known = rows.map((row) => number[row]).filter((value) => !Number.isNaN(value));
  const isWhole = rows.every((row) => kind[row] === INTEGER);
  const [low, high] = ends(known);
  return [known.length ? limits(low, high, isWhole) : "", nanText(calls, rows)].filter(Boolean).join(", ");
}

/** What was called; where the arguments differ, without them. @param {Calls} calls @param {number[]} rows */
function commonLabel(calls, rows) {
  const { label, kind } = calls.row;
  const text = calls.label(rows[0]);
  const isCommon = rows.every((row) => label[row] === label[rows[0]]);
  const isCall = kind[rows[0]] <= PYTHON;
  return isCommon || !isCall ? text : `${text.split("(")[0]}(…)`;
}

/** Where it was called; of several places, the first. @param {Calls} calls @param {number[]} rows */
function commonPlace(calls, rows) {
  const { site } = calls.row;
  const text = calls.place(rows[0]);
  const isSame = (/** @type {number} */ row) => site[row] === site[rows[0]] || calls.place(row) === text;
  return !text || rows.every(isSame) ? text : `${text} …`;
}

/** A range for each output; of many the first ones, and after them what is not finite. @param {Range[]} ranges */
function rangesText(ranges) {
  if (ranges.length === 1) return rangeText(ranges[0]);
  const rest = ranges.slice(MOST_RANGES - 1);
  const nan = sum(rest.map((range) => range.nan));
  const inf = sum(rest.map((range) => range.inf));
  const odd = nan || inf ? `, ${rangeText({ ...ranges[0], min: Infinity, max: -Infinity, nan, inf })}` : "";
  return listed(ranges.map(someRangeText), odd);
}

/** The range of one of several outputs. @param {Range} range */
function someRangeText(range) {
  if (!range.isKnown) return "?";
  return range.count ? rangeText(range) : "empty";
}

/** A text for each output; of many the first ones, and how many more there are. @param {string[]} texts */
function listed(texts, last = "") {
  if (texts.length <= MOST_RANGES) return texts.join(" | ");
  const shown = texts.slice(0, MOST_RANGES - 1);
  return [...shown, `… ${many(texts.length - shown.length)} more${last}`].join(" | ");
}

/** @param {Range} range */
function rangeText({ min, max, nan, inf, isWhole }) {
  const odd = [nan && `${many(nan)} NaN`, inf && `${many(inf)} Inf`].filter(Boolean).join(", ");
  if (nan) return `✗ ${odd}`;
  if (!(min <= max)) return odd;
  const text = limits(min, max, isWhole);
  return odd ? `${text}, ${odd}` : text;
}
