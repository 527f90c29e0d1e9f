// The details of a pair: the two calls beside each other, pictures of both and of their difference.

/**
 * @typedef {{group: string, name: string, text: string, content?: Node[], isCompared?: boolean}} SideFact
 * one fact of one side; `text` is what is compared, `content` what is shown
 */

/** @param {App} app @param {number} item @returns {HTMLElement[]} */
function pairDetails(app, item) {
  const { pairs } = app;
  const { pair, count } = pairs.items[item];
  if (count) return [make("h2", "", pairFoldText(pairs.items[item])), make("p", "facts", "open it to see each: l or →")];
  const rows = [pairs.pair.a[pair] - 1, pairs.pair.b[pair] - 1];
  return [
    pairHeading(app, pair, rows),
    make("p", "facts", pairFacts(app, pair)),
    ...causeNote(app, item),
    ...rows.flatMap((row, side) => sideAlarm(app, row, side)),
    make("div", "pair-details", make("div", "", ...pairOutputs(app, pair, rows)), make("div", "", sideTable(app, rows))),
  ];
}

/** @param {App} app @param {number} pair @param {number[]} rows */
function pairHeading(app, pair, rows) {
  const status = app.pairs.status(pair);
  const row = rows.find((side) => side >= 0) ?? 0;
  const name = copiedText(app.calls, row);
  return make("h2", "", `${SIGNS[status] ?? ""} ${STATUS_WORDS[status] ?? status}: ${name} `, copyButton(name));
}

const STATUS_WORDS = {
  argument: "called differently", close: "equal within the tolerance", follows: "differs because of what came before",
  structure: "same values in another form",
};

/** How large the difference is, and what that is known from. @param {App} app @param {number} pair */
function pairFacts({ pairs, calls }, pair) {
  const relative = pairs.relativeText(pair);
  const certainty = calls.texts[pairs.pair.certainty[pair]];
  const isCause = pairs.everyCause.has(pairs.itemOfPair[pair]); // the reason is written below
  const facts = [
    isCause ? "" : calls.texts[pairs.pair.what[pair]],
    relative ? `relative error ${relative}` : "",
    pairs.status(pair) === "same" ? "" : pairs.deltaText(pair),
    certainty ? `compared by ${certainty}` : "",
  ];
  return facts.filter(Boolean).join(" · ");
}

/** The cause that a pair is, or that it follows from. @param {App} app @param {number} item */
function causeNote(app, item) {
  const { pairs } = app;
  const number = pairs.pair.cause[pairs.items[item].pair];
  if (!number) return [];
  const [, why, , , a, b, , , notes] = app.data.diff.causes[number - 1];
  if (pairs.everyCause.has(item)) return [make("p", "alarm", why), ...notes.map((note) => make("p", "facts", note))];
  const row = (a || b) - 1;
  const cause = row >= 0 ? linkToCall(app, row) : "";
  return [make("p", "facts", "because of ", ...chainLinks(app, item, row), cause, `: ${why}`)];
}

const MOST_CHAIN = 4; // calls between a difference and its cause that are shown

/** The calls through which a pair has its difference, before the cause. @param {App} app @param {number} item @param {number} root */
function chainLinks(app, item, root) {
  const { pair } = app.pairs;
  const rows = [];
  let next = pair.because[app.pairs.items[item].pair] - 1;
  while (next >= 0) {
    rows.push((pair.a[next] || pair.b[next]) - 1);
    next = pair.because[next] - 1;
  }
  const between = rows.filter((row) => row !== root);
  const shown = between.slice(0, MOST_CHAIN).flatMap((row) => [linkToCall(app, row), " ← "]);
  const left = between.length - MOST_CHAIN;
  return left > 0 ? [...shown, `${many(left)} more ← `] : shown;
}

/** @param {App} app @param {number} row */
const linkToCall = (app, row) => link(app, row, `${app.calls.path(row)} ${app.calls.label(row)}`.trim());

/** NaN or Inf that begins on one side. @param {App} app @param {number} row @param {number} side */
function sideAlarm(app, row, side) {
  const isOrigin = row >= 0 && app.calls.row.odd[row] & IS_WRONG && app.calls.row.odd[row] & IS_ORIGIN;
  return isOrigin ? [make("p", "alarm", `✗ ${app.data.diff.labels[side]}: `, ...nonFiniteParts(app, row))] : [];
}

/** Pictures and histograms of the outputs of both calls. @param {App} app @param {number} pair @param {number[]} rows */
function pairOutputs(app, pair, rows) {
  const [left, right] = rows.map((row) => (row >= 0 ? app.calls.outputs(row) : []));
  const count = Math.min(MOST_OPEN, Math.max(left.length, right.length));
  const parts = Array.from({ length: count }, (_, place) => outputPictures(app, pair, place, [left[place], right[place]]));
  return parts.flat();
}

/** @param {App} app @param {number} pair @param {number} place @param {(number|undefined)[]} numbers of the tensors */
function outputPictures(app, pair, place, numbers) {
  const { details, calls } = app;
  const { labels } = app.data.diff;
  const panels = [];
  numbers.forEach((number, side) => {
    const [picture] = number === undefined ? [] : details.pictures.of(number);
    if (picture) panels.push({ label: labels[side], picture, group: 0 });
  });
  const difference = details.pictures.difference(pair, place);
  if (difference) panels.push({ label: `${labels[0]} − ${labels[1]}`, picture: difference, group: 1 });
  const title = `Output${place ? ` ${place + 1}` : ""}`;
  const parts = panels.length ? [details.picture(panels)] : [];
  const stats = numbers.map((number) => (number === undefined ? 0 : calls.data.tensor.stats[number]));
  const known = stats.filter((number) => hasSpread(calls.data, number));
  if (known.length) parts.push(histogramPair(calls, stats, labels));
  return parts.length ? [section(title, ...parts)] : [];
}

/** The histograms of both sides on one axis, the second as a line. @param {Calls} calls @param {number[]} stats @param {string[]} labels */
function histogramPair(calls, stats, labels) {
  const known = stats.filter((number) => hasValues(calls.data, number));
  const words = [make("span", "", make("span", "square bars"), labels[0]), make("span", "", make("span", "square outline"), labels[1])];
  const legend = known.length === 2 ? [make("p", "legend", ...spaced(words))] : [];
  return make("div", "", linearHistogram(calls.data, known, false), ...legend);
}

/** Everything else that is known of both calls, side by side. @param {App} app @param {number[]} rows */
function sideTable(app, rows) {
  const sides = rows.map((row) => (row >= 0 ? sideFacts(app, row) : []));
  const body = [];
  for (const group of factGroups(sides)) {
    const heading = make("th", "", group);
    heading.setAttribute("colspan", "3");
    heading.setAttribute("scope", "rowgroup");
    body.push(make("tr", "group", heading), ...groupRows(sides, group, rows));
  }
  return make("table", "beside", make("thead", "", sideHeads(app, rows)), make("tbody", "", ...body));
}

/** @param {App} app @param {number[]} rows */
function sideHeads(app, rows) {
  const heads = app.data.diff.labels.map((label, side) => {
    const number = rows[side] >= 0 ? ` #${app.calls.row.id[rows[side]]}` : " (not there)";
    return make("th", "", label, make("span", "dim", number));
  });
  return make("tr", "", make("td", ""), ...heads);
}

/** The groups of facts in the order of the first side. @param {SideFact[][]} sides */
const factGroups = (sides) => [...new Set(sides.flat().map((fact) => fact.group))];

/** The rows of a group: facts of the same name are beside each other. @param {SideFact[][]} sides @param {string} group @param {number[]} rows */
function groupRows(sides, group, rows) {
  const own = sides.map((facts) => facts.filter((fact) => fact.group === group));
  const names = new Set(own.flat().map((fact) => fact.name));
  const areBoth = rows.every((row) => row >= 0);
  return [...names].map((name) => {
    const [left, right] = own.map((facts) => facts.find((fact) => fact.name === name));
    const isCompared = areBoth && (left ?? right)?.isCompared !== false;
    const isSame = left?.text === right?.text;
    const look = isSame ? "same" : "differs";
    const heading = make("th", "", isCompared && !isSame ? `≠ ${name}` : name);
    heading.setAttribute("scope", "row");
    return make("tr", isCompared ? look : "", heading, sideCell(left), sideCell(right));
  });
}

/** @param {SideFact|undefined} fact */
const sideCell = (fact) => make("td", "", ...(fact?.content ?? [fact?.text ?? ""]));

/** All facts about one side. @param {App} app @param {number} row @returns {SideFact[]} */
function sideFacts(app, row) {
  const { calls } = app;
  const raised = calls.row.raised[row];
  const facts = [{ group: "Call", name: "call", text: calls.label(row) }];
  if (raised) facts.push({ group: "Call", name: "raised", text: `${calls.texts[raised]} ${calls.texts[calls.row.message[row]]}` });
  return [
    ...facts,
    ...outputFacts(app, row),
    ...argumentFacts(app, row),
    ...grouped("Module", moduleFacts(app, row), true),
    ...sourceFacts(app, row),
    ...lineageFacts(app, row),
    ...grouped("Cost", costFacts(app, row), false),
  ];
}

/** @param {string} group @param {Fact[]} facts @param {boolean} isCompared @returns {SideFact[]} */
const grouped = (group, facts, isCompared) => facts.map(({ name, text }) => ({ group, name, text, isCompared }));

/** @param {App} app @param {number} row @returns {SideFact[]} */
function outputFacts({ calls }, row) {
  const { data } = calls;
  const outputs = calls.outputs(row).slice(0, MOST_OUTPUTS);
  if (!outputs.length) return [{ group: "Output", name: "value", text: calls.texts[calls.row.output[row]] }];
  return outputs.flatMap((number, place) => {
    const group = place ? `Output ${place + 1}` : "Output";
    const [type, device, , notes] = data.types[data.tensor.type[number]];
    const typed = { group, name: "type", text: [type, device, notes].filter(Boolean).join(" · ") };
    const stats = data.tensor.stats[number];
    return [typed, ...(stats ? grouped(group, statisticFacts(data, stats, calls.isWhole(number)), true) : [])];
  });
}

/** @param {App} app @param {number} row @returns {SideFact[]} */
function argumentFacts(app, row) {
  const { calls } = app;
  return callArguments(calls, row).map(({ name, text, tensors }) => {
    const ranges = tensors.map((number) => tensorRange(calls, number));
    const lines = tensors.slice(0, MOST_LINKS).map((number) => tensorLine(app, number));
    return { group: "Arguments", name, text: [text, ...ranges].join(" "), content: [text, ...lines] };
  });
}

/** @param {App} app @param {number} row @returns {SideFact[]} */
function sourceFacts({ calls }, row) {
  const site = calls.data.sites[calls.row.site[row]];
  if (!site) return [];
  const [file, line, name, text] = site;
  return [
    { group: "Source", name: "line", text: `${basename(file)}:${line} in ${name}` },
    { group: "Source", name: "code", text: text.trim(), content: [make("code", "", text.trim())] },
  ];
}

/** @param {App} app @param {number} row @returns {SideFact[]} */
function lineageFacts(app, row) {
  const takers = app.calls.takers(row, app.callTree);
  if (!takers.length) return [];
  return [{ group: "Used by", name: "calls", text: "", content: [linkList(app, takers, "→", "green")], isCompared: false }];
}
