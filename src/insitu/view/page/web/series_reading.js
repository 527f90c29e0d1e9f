// What a variable held at a step, in words.

/** A number of a point as text; a mean of integers need not be one. @param {SeriesLine} line @param {number} value @param {number} [most] */
function valueText(line, value, most = 4) {
  return digits(value, most, line.isWhole && Number.isInteger(value));
}

/** What a chart shows at a point: the value, or what was chosen for tensors. @param {SeriesVariable} variable @param {SeriesLine} line @param {number} point @param {SeriesView} view */
function shownText(variable, line, point, view) {
  const measure = variable.isTensor ? view.measure : "range";
  const value = line.value(MEASURES[measure].line, point);
  if (Number.isNaN(value)) return line.isOdd(point) ? oddName(line, point) : "no value";
  const odd = line.isOdd(point) ? `${oddName(line, point)} · ` : "";
  return odd + measuredText(variable, line, point, measure);
}

/** The numbers that a measure shows at a point. @param {SeriesVariable} variable @param {SeriesLine} line @param {number} point @param {string} measure */
function measuredText(variable, line, point, measure) {
  const value = line.value(MEASURES[measure].line, point);
  const isRange = variable.isTensor && measure === "range";
  if (isRange) return limits(line.value("low", point), line.value("high", point), line.isWhole);
  if (measure === "std") return `${digits(value)} ± ${digits(line.value("std", point))}`;
  if (measure === "zeros") return many(value);
  return valueText(line, value);
}

/** "NaN" or "Inf", whichever a point has. @param {SeriesLine} line @param {number} point */
function oddName(line, point) {
  if (!line.value("inf", point)) return "NaN";
  return line.value("nan", point) ? "NaN and Inf" : "Inf";
}

/** What each line of a variable holds at a step, or at its last one. @param {SeriesVariable} variable @param {SeriesView} view @param {number|null} step */
function readings(variable, view, step) {
  if (variable.isText) return bandReadings(variable, step);
  return variable.drawnLines.map((line) => {
    const point = step === null ? line.length - 1 : line.pointAt(step);
    return point < 0 ? "–" : shownText(variable, line, point, view);
  });
}

/** @param {SeriesVariable} variable @param {number|null} step */
function bandReadings(variable, step) {
  return variable.bands.map((bands) => {
    const place = step === null ? bands.first.length - 1 : blockAt(bands, step);
    return place < 0 ? "–" : cutText(bands.texts[bands.text[place]], 24);
  });
}

/** Whether the value at a step, or the last one, is not finite. @param {SeriesVariable} variable @param {number|null} step */
function isOddAt(variable, step) {
  return variable.lines.some((line) => {
    const point = step === null ? line.length - 1 : line.pointAt(step);
    return point >= 0 && line.isOdd(point);
  });
}

/** The facts of a point, each a term and a text. @param {SeriesVariable} variable @param {SeriesLine} line @param {number} point */
function pointFacts(variable, line, point) {
  /** @type {[string, string][]} */
  const facts = [];
  const number = (/** @type {string} */ name) => line.value(name, point);
  const isUnknown = Number.isNaN(number("mean"));
  if (!isUnknown) facts.push([line.hasRange ? "mean" : "value", valueText(line, number("mean"), 6)]);
  else facts.push(["value", line.isOdd(point) ? `✗ ${oddName(line, point)}` : "no value"]);
  const [low, high] = [number("low"), number("high")];
  if (low < high) facts.push(["min … max", limits(low, high, line.isWhole)]);
  if (variable.isTensor && !isUnknown) {
    facts.push(["std", digits(number("std"), 4)]);
    facts.push([line.width > 1 ? "norm, at most" : "norm", digits(number("norm"), 4)]);
  }
  for (const [name, label] of [["nan", "NaN"], ["inf", "Inf"], ["zeros", "zeros"]])
    if (isWorthSaying(variable, line, point, name)) facts.push([label, countOfElements(line, point, name)]);
  return facts;
}

/** Counts are said of tensors, and where they are not 0. */
function isWorthSaying(/** @type {SeriesVariable} */ variable, /** @type {SeriesLine} */ line, /** @type {number} */ point,
  /** @type {string} */ name) {
  return variable.isTensor && line.value(name, point) > 0;
}

/** @param {SeriesLine} line @param {number} point @param {string} name */
function countOfElements(line, point, name) {
  return `${line.width > 1 ? "at most " : ""}${many(line.value(name, point))}`;
}

/** By how much two numbers differ, as a part of the larger one. @param {number} a @param {number} b */
function relativeDifference(a, b) {
  const size = Math.max(Math.abs(a), Math.abs(b));
  return size > 0 ? Math.abs(a - b) / size : 0;
}

/** A part of a whole in percent. @param {number} part */
const percentText = (part) => `${digits(part * 100, 2)} %`;

/**
 * The row of the page that a point of a variable came from; -1 if there is none.
 * @param {App} app @param {SeriesVariable} variable @param {SeriesLine|DescribedBands} line @param {number} step
 */
function rowOfStep(app, variable, line, step) {
  const { row, texts, series } = app.data;
  const isOfVariable = (/** @type {string} */ name) => name === variable.path || (series.labels && name.startsWith(`${variable.path}.`));
  const names = texts.map((text) => isOfVariable(text));
  let changes = 0;
  for (let i = 0; i < row.step.length; i++) {
    if (KINDS[row.kind[i]] !== "variable" || !names[row.name[i]] || row.rank[i] !== line.rank) continue;
    const place = series.unit === "step" ? row.step[i] : changes++;
    if (place >= step && place < step + line.width) return i;
  }
  return -1;
}
