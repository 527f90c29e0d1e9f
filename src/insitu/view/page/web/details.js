// The pane beside the calls: all that is known about the selected call, in words and pictures.

const MOST_STOPS = 6; // places where NaN begins that are listed
const MOST_COPIES = 24; // calls that are alike, each with a link

/** The pane that shows everything about the selected row. */
class Details {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.pictures = new Pictures(app.data);
    /** @type {Heatmap[]} the pictures that are on the screen */
    this.heatmaps = [];
  }

  onSelect() {
    const { app } = this;
    const item = app.grid.selected;
    this.heatmaps = [];
    at("details").replaceChildren(...(app.pairs ? pairDetails(app, item) : callDetails(app, item)));
    at("details").scrollTop = 0;
    for (const heatmap of this.heatmaps) heatmap.fit();
  }

  onColours() {
    for (const heatmap of this.heatmaps) heatmap.draw();
  }

  /** A picture of arrays, which is drawn again when the colours change. @param {Panel[]} panels */
  picture(panels) {
    const heatmap = new Heatmap(this.app, panels);
    this.heatmaps.push(heatmap);
    return heatmap.element;
  }
}

/** @param {App} app @param {number} row @returns {HTMLElement[]} */
function callDetails(app, row) {
  return [
    ...crumbs(app, row),
    heading(app, row),
    make("p", "facts", factsText(app, row)),
    ...alarms(app, row),
    ...foldNote(app, row),
    ...outputSections(app, row),
    ...sourceSections(app, row),
    ...argumentSection(app, row),
    ...lineageSections(app, row),
    ...passSections(app, row),
    ...factSection("Cost", costFacts(app, row), "stats"),
    ...timeSection(app, row),
    ...factSection("Module", moduleFacts(app, row), "pairs"),
  ];
}

/** The calls around a call. @param {App} app @param {number} row */
function crumbs(app, row) {
  const above = app.callTree.ancestors(row);
  if (!above.length) return [];
  const links = above.flatMap((outer) => [" ▸ ", link(app, outer, shortName(app.calls, outer))]).slice(1);
  const nav = make("nav", "crumbs", ...links);
  nav.setAttribute("aria-label", "Calls around it");
  return [nav];
}

/** The name of a call, and a button that copies it. @param {App} app @param {number} row */
function heading(app, row) {
  const { calls } = app;
  const name = make("span", "what", calls.named(row));
  return make("h2", `k-${KINDS[calls.row.kind[row]]}`, name, " ", copyButton(copiedText(calls, row)));
}

/** What is worth copying: the module, the call and its place. @param {Calls} calls @param {number} row */
function copiedText(calls, row) {
  const place = calls.place(row);
  const isModule = calls.row.kind[row] === MODULE;
  const name = isModule ? calls.named(row) : `${calls.path(row)} ${calls.label(row)}`.trim();
  return place ? `${name} (${place})` : name;
}

/** @param {string} text */
function copyButton(text) {
  const button = make("button", "copy", "copy");
  button.title = `copy: ${text}`;
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      button.textContent = "not allowed here"; // a frame without a clipboard
    }
  };
  return button;
}

/** What a row is, in a line. @param {App} app @param {number} row */
function factsText(app, row) {
  const { row: columns } = app.calls;
  const facts = [columns.id[row] >= 0 ? `#${columns.id[row]}` : "", KINDS[columns.kind[row]]];
  if (columns.is_backward[row]) facts.push("backward");
  if (columns.marks[row]) facts.push(app.calls.texts[columns.marks[row]]);
  if (columns.kind[row] !== STEP && app.isStepped) facts.push(`step ${columns.step[row]}`);
  if (columns.rank[row]) facts.push(`rank ${columns.rank[row]}`);
  if (columns.thread[row]) facts.push(`thread ${columns.thread[row]}`);
  if (columns.duration[row]) facts.push(time(columns.duration[row] - 1));
  return facts.filter(Boolean).join(" · ");
}

/** What is wrong with a call: an exception, NaN, Inf. @param {App} app @param {number} row @returns {HTMLElement[]} */
function alarms(app, row) {
  const { row: columns, texts } = app.calls;
  const found = [];
  const message = columns.message[row] ? `: ${texts[columns.message[row]]}` : "";
  if (columns.raised[row]) found.push(make("p", "alarm", `✗ raised ${texts[columns.raised[row]]}${message}`));
  if (columns.odd[row] & IS_WRONG) found.push(make("p", "alarm", "✗ ", ...nonFiniteParts(app, row)));
  if (app.callTree.parent[row] < 0 && !app.pairs) found.push(...stopSection(app));
  return found;
}

/** Where NaN or Inf of a call comes from, as far as that is known. @param {App} app @param {number} row */
function nonFiniteParts(app, row) {
  const { calls } = app;
  const what = nonFiniteName(calls, row);
  if (!(calls.row.odd[row] & IS_ORIGIN)) return [`Output contains ${what}. `, ...firstStop(app, row)];
  const output = nonFiniteOutputText(calls, row, what);
  const why = calls.texts[calls.row.why[row]];
  const reason = why ? ` ${why[0].toUpperCase()}${why.slice(1)}.` : "";
  const origins = {
    begins: `${what} begins here: ${inputText(calls, row, what)}, ${output}.${reason}`,
    "comes in": `${what} is in an input, and no call of this page made it; ${output}.`,
    "comes out": `${what} comes out, and not all inputs are known; ${output}.${reason}`,
  };
  return [origins[calls.origin(row)]];
}

/** @param {Calls} calls @param {number} row */
const nonFiniteName = (calls, row) => (calls.row.odd[row] & HAS_NAN ? "NaN" : "Inf");

/** A link to the first place of the page where NaN or Inf begins. @param {App} app @param {number} row */
function firstStop(app, row) {
  const { calls } = app;
  const first = app.pairs ? undefined : app.stops.find((stop) => stop !== row);
  if (first === undefined) return ["It came in, or began inside."];
  const place = calls.place(first);
  return [`First ${nonFiniteName(calls, first)}: `, numbered(app, first), place ? ` (${place})` : ""];
}

/** That no NaN, or no Inf, goes into a call, and what does. @param {Calls} calls @param {number} row @param {string} what */
function inputText(calls, row, what) {
  const { stats, tensor } = calls.data;
  const numbers = calls.inputs(row).map((input) => tensor.stats[input]).filter(Boolean);
  const low = Math.min(...numbers.map((number) => stats.min[number]).filter(Number.isFinite));
  const high = Math.max(...numbers.map((number) => stats.max[number]).filter(Number.isFinite));
  const odd = numbers.reduce((total, number) => total + stats.nan[number] + stats.inf[number], 0);
  const range = low <= high ? ` (${limits(low, high)})` : "";
  return odd ? `no ${what} in the inputs` : `inputs finite${range}`;
}

/** How much of the outputs is NaN or Inf. @param {Calls} calls @param {number} row @param {string} what */
function nonFiniteOutputText(calls, row, what) {
  const { stats, tensor } = calls.data;
  const numbers = calls.outputs(row).map((output) => tensor.stats[output]).filter(Boolean);
  const counts = what === "NaN" ? stats.nan : stats.inf;
  const bad = numbers.reduce((sum, number) => sum + counts[number], 0);
  const whole = numbers.reduce((sum, number) => sum + stats.count[number], 0);
  return `output ${many(bad)}/${many(whole)} ${what}`;
}

/** Where NaN and Inf begin in the whole page. @param {App} app @returns {HTMLElement[]} */
function stopSection(app) {
  const { calls, stops } = app;
  if (!stops.length) return [];
  const lines = stops.slice(0, MOST_STOPS).map((row) => {
    const where = app.isStepped ? `step ${calls.row.step[row]}` : calls.place(row);
    return make("li", "", make("span", "sign red", "✗"), numbered(app, row), make("span", "dim", where));
  });
  const left = stops.length - lines.length;
  if (left > 0) lines.push(make("li", "dim", `… ${many(left)} more: f goes from one to the next`));
  const isKnown = calls.row.odd[stops[0]] & IS_ORIGIN && calls.origin(stops[0]) === "begins";
  const title = `${nonFiniteName(calls, stops[0])} ${isKnown ? "begins" : "first seen"}`;
  return [section(title, make("ul", "links", ...lines))];
}

/** What a row shows that stands for several calls, and a link to each. @param {App} app @param {number} row @returns {HTMLElement[]} */
function foldNote(app, row) {
  if (app.pairs) return [];
  const likes = app.tree.likes(row);
  const found = likes.length > 1 ? [foldedCallsText(app, row, likes), ...wrongCopies(app, row, likes)] : [];
  const copies = app.tree.siblings(row);
  return copies.length > 1 ? [...found, copiesSection(app, copies)] : found;
}

/** @param {App} app @param {number} row @param {number[]} likes */
function foldedCallsText({ calls }, row, likes) {
  const { values, time: total } = calls.together(likes);
  const sums = [values ? ` Range of all: ${values}.` : "", total ? ` Sum of all times: ${time(total)}.` : ""];
  const text = `One row for ${many(likes.length)} ${pluralOf(calls, row)} that are alike.${sums.join("")}`;
  const number = calls.row.id[row] >= 0 ? `, #${calls.row.id[row]}` : "";
  return make("p", "fold-note", `${text} Below is the first of them${number}.`);
}

const PLURALS = { step: "steps", pass: "passes", token: "tokens", expression: "groups of calls" };

/** What rows like this one are. @param {Calls} calls @param {number} row */
function pluralOf(calls, row) {
  const kind = calls.row.kind[row];
  if (kind <= PYTHON) return "calls";
  return PLURALS[KINDS[kind]] ?? "rows";
}

/** That another of the calls has NaN or Inf. @param {App} app @param {number} row @param {number[]} likes */
function wrongCopies(app, row, likes) {
  const { odd } = app.calls.row;
  const wrong = likes.filter((like) => odd[like] & IS_WRONG);
  if (!wrong.length || odd[row] & IS_WRONG) return [];
  const what = wrong.some((like) => odd[like] & HAS_NAN) ? "NaN" : "Inf";
  return [make("p", "alarm", `✗ ${what} in ${many(wrong.length)} of them, first in `, numbered(app, wrong[0]))];
}

/** @param {App} app @param {number[]} copies */
function copiesSection(app, copies) {
  const { calls } = app;
  const items = copies.slice(0, MOST_COPIES).map((copy) => {
    const clock = calls.row.duration[copy] ? ` ${time(calls.row.duration[copy] - 1)}` : "";
    return link(app, copy, `${shortName(calls, copy)}${clock}`);
  });
  const left = copies.length - items.length;
  const more = left > 0 ? [make("span", "dim", `… ${many(left)} more`)] : [];
  return section(`${many(copies.length)} alike`, make("div", "chips", ...items, ...more));
}

/** A part of the details with a title. @param {string} title @param {...(Node|string)} children */
function section(title, ...children) {
  return make("section", "part", make("h3", "", title), ...children);
}

/** @typedef {{name: string, text: string, isAlarming?: boolean}} Fact a name and what is known under it */

/** A part that lists facts. @param {string} title @param {Fact[]} facts @param {"stats"|"pairs"} look @returns {HTMLElement[]} */
function factSection(title, facts, look) {
  return facts.length ? [section(title, factList(facts, look))] : [];
}

/** @param {Fact[]} facts @param {"stats"|"pairs"} look beside each other, or below each other */
function factList(facts, look) {
  return make("dl", look, ...facts.map(({ name, text, isAlarming }) => entry(name, text, isAlarming ? "pair red" : "pair")));
}
