// What a call returned: pictures of kept values, statistics and histograms.

const MOST_OUTPUTS = 16; // tensors that are listed
const MOST_OPEN = 3; // tensors whose pictures are drawn at once

/** @param {App} app @param {number} row @returns {HTMLElement[]} */
function outputSections(app, row) {
  const { calls } = app;
  const { tensor, texts } = calls.data;
  const outputs = calls.outputs(row);
  const shown = outputs.slice(0, MOST_OUTPUTS);
  const text = texts[calls.row.output[row]];
  if (!shown.length) return text ? [section("Output", make("code", "value", text))] : [];
  const parts = shown.map((number, place) => tensorPart(app, number, place < MOST_OPEN));
  const left = outputs.length - shown.length;
  if (left > 0) parts.push(make("p", "dim", `… ${many(left)} more`));
  const gradients = shown.map((number) => tensor.grad[number]).filter(Boolean);
  const found = [section("Output", ...parts)];
  if (gradients.length)
    found.push(section("Gradient", ...gradients.map((number, place) => tensorPart(app, number, place < MOST_OPEN))));
  return found;
}

/** A tensor: what it is, then its values. @param {App} app @param {number} number @param {boolean} isOpen */
function tensorPart(app, number, isOpen) {
  const { types, tensor } = app.calls.data;
  const [text, device, size, notes] = types[tensor.type[number]];
  const more = [device, notes, bytesText(size)].filter(Boolean).join(" · ");
  const typed = make("p", "typed", make("b", "", text), ` ${more}`);
  if (isOpen) return make("div", "tensor", typed, ...tensorValues(app, number));
  return make("div", "tensor", typed, onDemand("values", () => tensorValues(app, number)));
}

/** A part that is made when the user opens it. @param {string} title @param {() => HTMLElement[]} build */
function onDemand(title, build) {
  const element = /** @type {HTMLDetailsElement} */ (make("details", "on-demand", make("summary", "", title)));
  element.addEventListener("toggle", () => {
    if (element.open && element.children.length === 1) element.append(...build());
  });
  return element;
}

/** The values of a tensor: their picture, or the text of a few; statistics; histograms. */
function tensorValues(/** @type {App} */ app, /** @type {number} */ number) {
  const { calls, details } = app;
  const { data } = calls;
  const pictures = details.pictures.of(number);
  const parts = pictures.map((picture) => picturePart(app, picture));
  const kept = data.texts[data.tensor.kept[number]];
  if (kept && !pictures.length) parts.push(make("code", "value", kept));
  if (details.pictures.unshown.has(number)) parts.push(make("p", "note", unshownText(details.pictures)));
  const stats = data.tensor.stats[number];
  if (stats) parts.push(factList(statisticFacts(data, stats, calls.isWhole(number)), "stats"));
  if (hasSpread(data, stats)) parts.push(histogram(calls, stats, calls.isWhole(number)));
  if (!parts.length) parts.push(make("p", "note", 'no values: record with keep="stats" or keep="values"'));
  return parts;
}

/** @param {App} app @param {Picture} picture */
function picturePart(app, picture) {
  const element = app.details.picture([{ label: "", picture, group: 0 }]);
  const { tensor, types } = app.calls.data;
  const isSample = !types[tensor.type[picture.tensor]][0].endsWith(`[${picture.shape.join(", ")}]`);
  const name = [picture.name, isSample ? `[${picture.shape.join(", ")}]` : ""].filter(Boolean).join(" ");
  return name ? make("div", "", make("p", "note", `kept by your function: ${name}`), element) : element;
}

/** That the page has no room for kept values. @param {Pictures} pictures */
function unshownText(pictures) {
  const count = pictures.unshown.size;
  const tensors = count === 1 ? "1 tensor" : `${many(count)} tensors`;
  return `kept values of ${tensors}, this one too, are not in this page: insitu.save(trace, "x.html", only=…) shows a part`;
}

/** The numbers that are known, then the counts that are not zero. @param {Data} data @returns {Fact[]} */
function statisticFacts(data, /** @type {number} */ number, /** @type {boolean} */ isWhole) {
  const numbers = [];
  const counts = [];
  for (const [name, label, kind, bound, isAlarming] of data.statistics) {
    const value = data.stats[name][number];
    if (kind === "count" && value) counts.push({ name: label, text: many(value), isAlarming });
    const isKnown = kind === "number" && !Number.isNaN(value);
    if (isKnown) numbers.push({ name: label, text: digits(value, 4, isWhole && bound === "extreme") });
  }
  return [...numbers, ...counts];
}
