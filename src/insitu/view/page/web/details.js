// The pane beside the calls: all that is known of one call.

const MOST_LINKS = 12;

/** The pane that shows everything about the selected row. */
class Details {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
  }

  onSelect() {
    const { app } = this;
    const item = app.grid.selected;
    at("details").replaceChildren(...(app.pairs ? pairDetails(app, item) : details(app, item)));
    at("details").scrollTop = 0;
  }
}

/** @param {App} app @param {number} i @returns {HTMLElement[]} */
function details(app, i) {
  const { row, texts } = app.calls.data;
  const kind = KINDS[row.kind[i]];
  const parts = [...crumbs(app, i), make("h2", `k-${kind}`, make("span", "what", app.calls.named(i)))];
  parts.push(make("p", "facts", facts(app, i)));
  const message = row.message[i] ? `: ${texts[row.message[i]]}` : "";
  if (row.raised[i]) parts.push(make("p", "alarm", `✗ raised ${texts[row.raised[i]]}${message}`));
  if (row.odd[i] & IS_WRONG) parts.push(make("p", "alarm", `✗ ${oddText(app.calls, i)}`));
  if (app.callTree.parent[i] < 0 && !app.pairs) parts.push(...news(app));
  const likes = app.pairs ? [i] : app.tree.likes(i);
  parts.push(...elsewhere(app, i, likes));
  if (app.tree.run[i] > 1) parts.push(...alike(app, i));
  parts.push(...source(app, i), ...argumentList(app, i), ...results(app, i));
  parts.push(...lineage(app, i), ...passes(app, i), ...cost(app, i), ...spent(app, i), ...module(app, i));
  return parts;
}

/** What is to be said of a row that stands for several: the rest is of the first. @param {App} app @param {number} i */
function elsewhere(app, i, /** @type {number[]} */ likes) {
  if (likes.length < 2) return [];
  const { row } = app.calls;
  const wrong = likes.filter((one) => row.odd[one] & IS_WRONG);
  const said = [make("p", "facts", `the row stands for ${many(likes.length)} that are alike; this is the first of them`)];
  if (!wrong.length || row.odd[i] & IS_WRONG) return said;
  const what = wrong.some((one) => row.odd[one] & HAS_NAN) ? "NaN" : "Inf";
  return [...said, make("p", "alarm", `✗ ${what} in ${many(wrong.length)} of them, first in `, numbered(app, wrong[0]))];
}

/** @param {Calls} calls @param {number} i */
function oddText(calls, i) {
  const odd = calls.row.odd[i], what = odd & HAS_NAN ? "NaN" : "Inf";
  if (!(odd & IS_ORIGIN)) return `${what} in the output: it went in, or began inside`;
  const texts = {
    begins: `${what} begins here: no ${what} goes in, ${what} comes out`,
    "comes in": `${what} goes in, and no call that is shown made it`,
    "comes out": `${what} comes out, and not all that goes in is known`,
  };
  return texts[calls.origin(i)];
}

/** Where NaN and Inf begin in the whole run. @param {App} app */
function news(app) {
  const { row } = app.calls;
  const where = (one) => make("span", "dim", app.isStepped ? `step ${row.step[one]}` : app.calls.place(one));
  const sign = () => make("span", "sign red", "✗");
  const lines = app.stops.slice(0, 6).map((one) => make("li", "", sign(), numbered(app, one), where(one)));
  const left = app.stops.length - 6;
  const more = left > 0 ? [make("li", "dim", `… ${many(left)} more: f goes from one to the next`)] : [];
  const what = lines.length && row.odd[app.stops[0]] & HAS_NAN ? "NaN" : "Inf";
  const isKnown = lines.length && row.odd[app.stops[0]] & IS_ORIGIN && app.calls.origin(app.stops[0]) === "begins";
  return lines.length ? [section(`${what} ${isKnown ? "begins" : "first seen"}`, make("ul", "links", ...lines, ...more))] : [];
}

/** @param {string} name @param {...(Node|string)} children */
function section(name, ...children) {
  return make("section", "part", make("h3", "", name), ...children);
}

/** A link to a row, with an address of its own. @param {App} app @param {number} i @param {string} [text] */
function link(app, i, text) {
  const kind = KINDS[app.calls.row.kind[i]];
  const element = /** @type {HTMLAnchorElement} */ (make("a", `k-${kind}`, text ?? app.calls.named(i)));
  element.href = app.calls.address(i);
  element.dataset.row = String(i);
  return element;
}

/** A link with the number of the call. @param {App} app @param {number} i */
const numbered = (app, i) => link(app, i, `#${app.calls.row.id[i]} ${app.calls.named(i)}`);

/** @param {App} app @param {number} i */
function crumbs(app, i) {
  const above = app.tree.ancestors(app.itemOf(i)).map((item) => app.rowOf(item)).filter((one) => one >= 0);
  const links = above.flatMap((one) => [" ▸ ", link(app, one, shortName(app.calls, one))]).slice(1);
  const nav = make("nav", "crumbs", ...links);
  nav.setAttribute("aria-label", "Lies in");
  return links.length ? [nav] : [];
}

/** @param {App} app @param {number} i */
function facts(app, i) {
  const { row } = app.calls;
  const found = [row.id[i] >= 0 ? `#${row.id[i]}` : "", KINDS[row.kind[i]]];
  if (row.is_backward[i]) found.push("backward");
  if (row.marks[i]) found.push(app.data.texts[row.marks[i]]);
  if (row.kind[i] !== STEP && app.isStepped) found.push(`step ${row.step[i]}`);
  if (row.rank[i]) found.push(`rank ${row.rank[i]}`);
  if (row.thread[i]) found.push(`thread ${row.thread[i]}`);
  if (row.duration[i]) found.push(time(row.duration[i] - 1));
  return found.filter(Boolean).join(" · ");
}

/** @param {App} app @param {number} i */
function alike(app, i) {
  const rows = app.tree.siblings(i);
  const clock = (one) => (app.calls.row.duration[one] ? time(app.calls.row.duration[one] - 1) : "");
  const items = rows.slice(0, 24).map((one) => link(app, one, `${shortName(app.calls, one)} ${clock(one)}`));
  const more = rows.length > 24 ? [make("span", "dim", `… ${many(rows.length - 24)} more`)] : [];
  return [section(`${many(rows.length)} alike`, make("div", "chips", ...items, ...more))];
}

/** @param {App} app @param {number} i */
function source(app, i) {
  const { sites } = app.calls.data, { row } = app.calls;
  const site = sites[row.site[i]];
  const parts = site ? [section("Source", ...place(site), ...callers(sites, site))] : [];
  const defined = sites[row.defined[i]];
  return defined ? [...parts, section("Defined", ...place(defined))] : parts;
}

/** @param {any} site */
function place([file, line, name, text, start, end]) {
  const where = make("p", "where", make("b", "", `${basename(file)}:${line}`), ` in ${name}`);
  where.title = file;
  if (!text) return [where];
  const cut = text.length - text.trimStart().length;
  const code = make("code", "source");
  if (start === null || end === null || start >= end || start < cut) code.append(text.trim());
  else code.append(text.slice(cut, start), make("mark", "", text.slice(start, end)), text.slice(end).trimEnd());
  return [where, code];
}

/** @param {any[]} sites @param {any} site */
function callers(sites, site) {
  const found = [];
  for (let above = sites[site[6]]; above && found.length < 40; above = sites[above[6]]) found.push(above);
  if (!found.length) return [];
  const lines = found.map((one) => make("li", "", make("b", "", `${basename(one[0])}:${one[1]}`), ` in ${one[2]}`));
  const head = make("summary", "", `called from ${basename(found[0][0])}:${found[0][1]}`);
  return [make("details", "callers", head, make("ol", "", ...lines))];
}

/** @param {App} app @param {number} i */
function argumentList(app, i) {
  const text = app.calls.data.texts[app.calls.row.args[i]];
  if (!text) return [];
  const lines = text.split("\n").map((line) => {
    const [name, value] = line.split("\t");
    return entry(name, value ?? "");
  });
  return [section("Arguments", make("dl", "pairs", ...lines))];
}

/** @param {App} app @param {number} i */
function results(app, i) {
  const { data } = app.calls;
  const made = app.calls.outputs(i).slice(0, 16);
  const parts = made.map((number) => tensor(app.calls, number));
  const left = app.calls.outputs(i).length - made.length;
  if (left) parts.push(make("p", "dim", `… ${many(left)} more`));
  const text = data.texts[data.row.output[i]];
  if (!parts.length && text) parts.push(make("code", "value", text));
  const grads = made.filter((number) => data.tensor.grad[number]);
  const found = parts.length ? [section("Output", ...parts)] : [];
  if (grads.length) found.push(section("Gradient", ...grads.map((number) => tensor(app.calls, data.tensor.grad[number]))));
  return found;
}

/** @param {Calls} calls @param {number} number */
function tensor(calls, number) {
  const { data } = calls, isWhole = calls.isWhole(number);
  const [text, device, size, notes] = data.types[data.tensor.type[number]];
  const more = [device, notes, bytesText(size)].filter(Boolean).join(" · ");
  const parts = [make("p", "typed", make("b", "", text), ` ${more}`)];
  const stats = data.tensor.stats[number];
  if (stats) parts.push(...statistics(data, stats, isWhole));
  if (hasSpread(data, stats)) parts.push(histogram(data, stats, isWhole));
  if (data.tensor.kept[number]) parts.push(make("code", "value", data.texts[data.tensor.kept[number]]));
  return make("div", "tensor", ...parts);
}

/** The known numbers, then the counts that are not zero. @param {Data} data @param {number} number @param {boolean} isWhole */
function statistics(data, number, isWhole) {
  const numbers = [], counts = [];
  for (const [name, label, kind, bound, isAlarming] of data.statistics) {
    const value = data.stats[name][number];
    if (kind === "count" && value) counts.push(entry(label, many(value), isAlarming ? "pair red" : "pair"));
    const isKnown = kind === "number" && !Number.isNaN(value);
    if (isKnown) numbers.push(entry(label, digits(value, 4, isWhole && bound === "extreme")));
  }
  return [make("dl", "stats", ...numbers, ...counts)];
}

/** @param {App} app @param {number} i */
function lineage(app, i) {
  const { data } = app.calls;
  const given = app.calls.inputs(i);
  const lines = given.slice(0, MOST_LINKS).map((number) => {
    const made = data.tensor.made[number] - 1;
    const from = made >= 0 ? numbered(app, made) : make("span", "dim", "given");
    const type = data.types[data.tensor.type[number]][0];
    return make("li", "", make("span", "sign", "←"), from, make("span", "dim", type));
  });
  const takers = app.calls.takers(i, app.callTree);
  const users = takers.slice(0, MOST_LINKS).map((one) =>
    make("li", "", make("span", "sign", "→"), numbered(app, one)));
  const found = [];
  if (lines.length) found.push(section("Made by", make("ul", "links amber", ...lines, ...rest(given.length))));
  if (users.length) found.push(section("Used by", make("ul", "links green", ...users, ...rest(takers.length))));
  return found;
}

/** @param {number} count */
const rest = (count) => (count > MOST_LINKS ? [make("li", "dim", `… ${many(count - MOST_LINKS)} more`)] : []);

/** The forward call of a backward one, and the other way. @param {App} app @param {number} i */
function passes(app, i) {
  const { row } = app.calls, found = [];
  if (row.forward[i]) found.push(section("Forward call", make("p", "", numbered(app, row.forward[i] - 1))));
  const behind = app.calls.behind.get(i) ?? [];
  const items = behind.slice(0, MOST_LINKS).map((one) =>
    make("li", "", make("span", "sign", "↩"), numbered(app, one)));
  if (items.length) found.push(section("Backward calls", make("ul", "links", ...items, ...rest(behind.length))));
  return found;
}

/** @param {App} app @param {number} i */
function cost(app, i) {
  const { data, row } = app.calls;
  const size = app.calls.outputs(i).reduce((sum, made) => sum + data.types[data.tensor.type[made]][2], 0);
  /** @type {[string, string][]} */
  const cells = [];
  if (row.duration[i]) cells.push(["time", time(row.duration[i] - 1)]);
  if (row.inside[i]) cells.push(["own time", time(Math.max(0, row.duration[i] - 1 - row.inside[i]))]);
  if (row.flops[i]) cells.push(["flops", countText(row.flops[i])]);
  if (size) cells.push(["output", bytesText(size)]);
  if (!cells.length || row.kind[i] === STEP) return [];
  return [section("Cost", make("dl", "stats", ...cells.map(([name, text]) => entry(name, text))))];
}

/** Where the time of a call goes: the calls in it by their own time. @param {App} app @param {number} i */
function spent(app, i) {
  const { row } = app.calls, { end } = app.callTree;
  if (end[i] < i + 3) return [];
  /** @type {Map<number, [number, number, number]>} */
  const found = new Map();
  for (let one = i + 1; one < end[i]; one++) {
    const own = row.duration[one] - 1 - row.inside[one];
    if (own <= 0) continue;
    const sum = found.get(row.name[one]);
    if (sum) [sum[0], sum[1]] = [sum[0] + own, sum[1] + 1];
    else found.set(row.name[one], [own, 1, one]);
  }
  const most = [...found].sort((a, b) => b[1][0] - a[1][0]).slice(0, 8);
  const lines = most.map(([name, [own, count, one]]) => {
    const text = count > 1 ? `× ${many(count)}  ${time(own)}` : time(own);
    return make("li", "", link(app, one, app.calls.data.texts[name]), make("span", "dim", text));
  });
  return lines.length ? [section("Time inside, by call", make("ul", "links", ...lines))] : [];
}

/** @param {Calls} calls @param {number} i */
const shortName = (calls, i) => (calls.row.kind[i] === MODULE && calls.path(i)) || calls.label(i);

/** @param {App} app @param {number} i */
function module(app, i) {
  const found = app.calls.data.modules[app.calls.row.module[i]];
  if (!found) return [];
  const [path, type, settings, parameters, own, trainable] = found;
  /** @type {[string, string][]} */
  const cells = [["path", path || "(root)"], ["type", type], ["settings", settings]];
  const owned = own !== parameters ? `, own ${many(own)}` : "";
  if (parameters) cells.push(["parameters", `${many(parameters)}${owned}, trainable ${many(trainable)}`]);
  const lines = cells.filter((cell) => cell[1]).map(([name, text]) => entry(name, text));
  return [section("Module", make("dl", "pairs", ...lines))];
}
