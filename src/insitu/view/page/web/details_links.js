// Where a call is, what it was given, who made that, who used its result, and what it cost.

const MOST_LINKS = 12;
const MOST_CALLERS = 40;
const MOST_TIMES = 8;

/** A link to a row, with an address of its own. @param {App} app @param {number} row @param {string} [text] */
function link(app, row, text) {
  const kind = KINDS[app.calls.row.kind[row]];
  const element = /** @type {HTMLAnchorElement} */ (make("a", `k-${kind}`, text ?? app.calls.named(row)));
  element.href = app.calls.address(row);
  element.dataset.row = String(row);
  return element;
}

/** A link with the number of the call. @param {App} app @param {number} row */
const numbered = (app, row) => link(app, row, `#${app.calls.row.id[row]} ${app.calls.named(row)}`);

/** The path of a module, the name of another call. @param {Calls} calls @param {number} row */
const shortName = (calls, row) => (calls.row.kind[row] === MODULE && calls.path(row)) || calls.label(row);

/** The line that made the call, and where a function is defined. @param {App} app @param {number} row */
function sourceSections(app, row) {
  const { sites } = app.calls.data;
  const site = sites[app.calls.row.site[row]];
  const defined = sites[app.calls.row.defined[row]];
  const found = [];
  if (site) found.push(section("Source", ...sourceLine(site), ...callers(sites, site)));
  if (defined) found.push(section("Defined", ...sourceLine(defined)));
  return found;
}

/** A line of source, with the expression marked. @param {any} site */
function sourceLine([file, line, name, text, start, end]) {
  const where = make("p", "where", make("b", "", `${basename(file)}:${line}`), ` in ${name}`);
  where.title = file;
  if (!text) return [where];
  const indent = text.length - text.trimStart().length;
  const code = make("code", "source");
  const isMarked = start !== null && end !== null && start < end && start >= indent;
  if (isMarked) code.append(text.slice(indent, start), make("mark", "", text.slice(start, end)), text.slice(end).trimEnd());
  else code.append(text.trim());
  return [where, code];
}

/** The places that led to a line. @param {any[]} sites @param {any} site */
function callers(sites, site) {
  const found = [];
  let above = sites[site[6]];
  while (above && found.length < MOST_CALLERS) {
    found.push(above);
    above = sites[above[6]];
  }
  if (!found.length) return [];
  const lines = found.map(([file, line, name]) => make("li", "", make("b", "", `${basename(file)}:${line}`), ` in ${name}`));
  const head = make("summary", "", `called from ${basename(found[0][0])}:${found[0][1]}`);
  return [make("details", "callers", head, make("ol", "", ...lines))];
}

/** @typedef {{name: string, text: string, tensors: number[]}} Argument */

/** The arguments of a call, each with the tensors in it. @param {Calls} calls @param {number} row @returns {Argument[]} */
function callArguments(calls, row) {
  const text = calls.texts[calls.row.args[row]];
  if (!text) return [];
  const inputs = calls.inputs(row);
  const isMethod = calls.texts[calls.row.name[row]].startsWith("torch.Tensor.");
  return text.split("\n").map((line) => {
    const [name, value = "", count = "0", label = ""] = line.split("\t");
    return { name: label || argumentName(name, isMethod), text: value, tensors: inputs.splice(0, Number(count)) };
  });
}

/** What an argument is called: its name or, as people count, its place. @param {string} name @param {boolean} isMethod */
function argumentName(name, isMethod) {
  if (!/^\d+$/.test(name)) return name;
  if (isMethod && name === "0") return "self";
  return `argument ${Number(name) + (isMethod ? 0 : 1)}`;
}

/** @param {App} app @param {number} row @returns {HTMLElement[]} */
function argumentSection(app, row) {
  const lines = callArguments(app.calls, row).map((argument) => argumentLine(app, argument));
  return lines.length ? [section("Arguments", make("dl", "arguments", ...lines))] : [];
}

/** @param {App} app @param {Argument} argument */
function argumentLine(app, { name, text, tensors }) {
  const value = make("dd", "", make("span", tensors.length ? "typed" : "", text));
  for (const number of tensors.slice(0, MOST_LINKS)) value.append(tensorLine(app, number));
  const left = tensors.length - MOST_LINKS;
  if (left > 0) value.append(make("div", "dim", `… ${many(left)} more`));
  return make("div", "argument", make("dt", "", name), value);
}

/** Where a tensor comes from and its range; its values on demand. @param {App} app @param {number} number */
function tensorLine(app, number) {
  const { calls, details } = app;
  const range = tensorRange(calls, number);
  const line = make("div", "origin", originPart(app, number), make("span", "dim", range ? ` · ${range}` : ""));
  const isKept = details.pictures.of(number).length > 0;
  const isSpread = hasSpread(calls.data, calls.data.tensor.stats[number]);
  if (isKept || isSpread) line.append(onDemand("values", () => tensorValues(app, number)));
  return line;
}

/** The range of the values of a tensor. @param {Calls} calls @param {number} number */
function tensorRange(calls, number) {
  const { tensor, stats } = calls.data;
  const known = tensor.stats[number];
  if (!known) return "";
  const [min, max, nan, inf] = [stats.min, stats.max, stats.nan, stats.inf].map((column) => column[known]);
  const text = rangeText({ min, max, nan, inf, count: 1, isKnown: true, isWhole: calls.isWhole(number) });
  const areEqual = min === max && stats.count[known] > 1 && !nan && !inf;
  return areEqual ? `all ${text}` : text;
}

/** Who made a tensor. @param {App} app @param {number} number */
function originPart(app, number) {
  const { tensor, types } = app.calls.data;
  const maker = tensor.made[number] - 1;
  if (maker >= 0) return make("span", "", "← ", numbered(app, maker));
  const notes = types[tensor.type[number]][3];
  return make("span", "dim", notes.startsWith("Parameter") ? "a parameter" : "from outside the trace");
}

/** Who made what a call was given, and who used what it returned. @param {App} app @param {number} row */
function lineageSections(app, row) {
  const { calls } = app;
  const found = [];
  const makers = calls.makers(row);
  const takers = calls.takers(row, app.callTree);
  if (makers.length) found.push(section("Made by", linkList(app, makers, "←", "amber")));
  if (takers.length) found.push(section("Used by", linkList(app, takers, "→", "green")));
  return found;
}

/** Links to calls, with their places. @param {App} app @param {number[]} rows @param {string} sign @param {string} look */
function linkList(app, rows, sign, look) {
  const lines = rows.slice(0, MOST_LINKS).map((row) =>
    make("li", "", make("span", "sign", sign), numbered(app, row), make("span", "dim", app.calls.place(row))));
  const left = rows.length - lines.length;
  if (left > 0) lines.push(make("li", "dim", `… ${many(left)} more`));
  return make("ul", `links ${look}`, ...lines);
}

/** The forward call of a backward one, and the other way. @param {App} app @param {number} row */
function passSections(app, row) {
  const { calls } = app;
  const found = [];
  const forward = calls.row.forward[row] - 1;
  const backward = calls.behind.get(row) ?? [];
  if (forward >= 0) found.push(section("Forward call", linkList(app, [forward], "↪", "")));
  if (backward.length) found.push(section("Backward calls", linkList(app, backward, "↩", "")));
  return found;
}

/** @param {App} app @param {number} row @returns {Fact[]} */
function costFacts(app, row) {
  const { data, row: columns } = app.calls;
  if (columns.kind[row] === STEP) return [];
  const size = app.calls.outputs(row).reduce((total, number) => total + data.types[data.tensor.type[number]][2], 0);
  const own = Math.max(0, columns.duration[row] - 1 - columns.inside[row]);
  const facts = [
    { name: "time", text: columns.duration[row] ? time(columns.duration[row] - 1) : "" },
    { name: "own time", text: columns.inside[row] ? time(own) : "" },
    { name: "flops", text: columns.flops[row] ? countText(columns.flops[row]) : "" },
    { name: "output", text: size ? bytesText(size) : "" },
  ];
  return facts.filter((fact) => fact.text);
}

/** The calls inside by their own time. @param {App} app @param {number} row @returns {HTMLElement[]} */
function timeSection(app, row) {
  const longest = [...timesInside(app, row)].sort((a, b) => b.total - a.total).slice(0, MOST_TIMES);
  const lines = longest.map(({ first, count, total }) => {
    const text = count > 1 ? `× ${many(count)}  ${time(total)}` : time(total);
    return make("li", "", link(app, first, app.calls.texts[app.calls.row.name[first]]), make("span", "dim", text));
  });
  return lines.length > 1 ? [section("Time inside, by call", make("ul", "links", ...lines))] : [];
}

/** The own times of the calls inside a row, by what was called. @param {App} app @param {number} row */
function timesInside(app, row) {
  const { row: columns } = app.calls;
  /** @type {Map<number, {first: number, count: number, total: number}>} */
  const found = new Map();
  for (let inner = row + 1; inner < app.callTree.end[row]; inner++) {
    const own = columns.duration[inner] - 1 - columns.inside[inner];
    if (own <= 0) continue;
    const known = found.get(columns.name[inner]) ?? { first: inner, count: 0, total: 0 };
    known.count += 1;
    known.total += own;
    found.set(columns.name[inner], known);
  }
  return found.values();
}

/** @param {App} app @param {number} row @returns {Fact[]} */
function moduleFacts(app, row) {
  const found = app.calls.data.modules[app.calls.row.module[row]];
  if (!found) return [];
  const [path, type, settings, parameters, own, trainable] = found;
  const owned = own !== parameters ? `, own ${many(own)}` : "";
  const counts = parameters ? `${many(parameters)}${owned}, trainable ${many(trainable)}` : "";
  const facts = [
    { name: "path", text: path || "(root)" },
    { name: "type", text: type },
    { name: "settings", text: settings },
    { name: "parameters", text: counts },
  ];
  return facts.filter((fact) => fact.text);
}
