// The dialogs: keys and filters; and what is known about the run.

const EXAMPLES = [
  ["softmax mod:attn", "calls of softmax in modules whose path contains attn"],
  ["mod:h.*.attn dur>1ms", "in the attention of each block, longer than a millisecond"],
  ["abs>1000 kind:module", "modules with a large value in their output"],
  ["shape:24,*,96 step:3-5 phase:backward", "by shape, step and pass"],
];

/** @param {App} app */
function fillDialogs(app) {
  fillHelp();
  fillFacts(app);
  for (const dialog of [at("help"), at("facts")])
    dialog.addEventListener("click", (/** @type {MouseEvent} */ event) => event.target === dialog && dialog.close());
}

function fillHelp() {
  const keys = KEYS.map(([key, text]) => entry(key, text));
  const filters = FILTERS.map((filter) => entry(filter.form, filter.text));
  const examples = EXAMPLES.map(([query, text]) => entry(query, text));
  const words = "A row must match all words and filters. A word is looked for in names, paths, outputs and arguments.";
  at("help").replaceChildren(
    dialogHead("Keys", at("help")),
    make("dl", "pairs keys", ...keys),
    make("h2", "", "Search"),
    make("p", "", words),
    make("dl", "pairs filters", ...filters),
    make("h2", "", "Examples"),
    make("dl", "pairs examples", ...examples),
  );
}

/** @param {App} app */
function fillFacts(app) {
  const { about } = app.data;
  const lines = Object.entries(about).map(([name, value]) => entry(name, value));
  const head = dialogHead("About this page", at("facts"));
  at("facts").replaceChildren(head, make("p", "", aboutText(app)), make("dl", "pairs", ...lines));
}

/** @param {string} title @param {HTMLDialogElement} dialog */
function dialogHead(title, dialog) {
  const close = namedButton("close");
  close.onclick = () => dialog.close();
  return make("div", "dialog-head", make("h2", "", title), close);
}

/** What the page shows, in a few facts. @param {App} app */
function aboutText(app) {
  const { about, events, diff, series } = app.data;
  const facts = [];
  if (events !== undefined) facts.push(counted(events, "event"));
  if (events === undefined && !diff) facts.push(counted(series.variables.length, "variable"));
  if (diff) facts.push(`${comparedText(app)} compared`, ...evidenceTexts(diff));
  if (about.level) facts.push(`level ${about.level}`);
  if (about.torch) facts.push(`torch ${about.torch}`);
  facts.push(startText(about.started), about.missing);
  return facts.filter(Boolean).join(" · ");
}

/** What was compared: calls or, of two recorded runs, values of variables. @param {App} app */
function comparedText({ pairs, calls, data }) {
  const size = pairs?.size ?? 0;
  if (calls.hasCalls || !size) return counted(size, "call");
  return `${counted(size, "value")} of ${counted(data.series.variables.length, "variable")}`;
}

/** How the outputs were compared. @param {any} diff @returns {string[]} */
function evidenceTexts(diff) {
  const known = Object.entries(diff.evidence ?? {}).filter(([, count]) => Number(count) > 0);
  return known.map(([kind, count]) => `${counted(Number(count), "output")} by ${kind}`);
}

/** When the run started, to the minute. @param {string|undefined} started as in ISO 8601 */
function startText(started) {
  const [, day, minute] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/.exec(started ?? "") ?? [];
  return day ? `${day} ${minute}` : started;
}
