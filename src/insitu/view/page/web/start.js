// The start: unpack, show, listen.

const MOST_FIRST = 90; // rows that are open at the start

/** @param {App} app */
function listen(app) {
  document.addEventListener("keydown", (event) => onKey(app, event));
  document.addEventListener("click", (event) => followLink(app, event));
  for (const event of ["hashchange", "popstate"]) addEventListener(event, () => onAddress(app));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.onColours());
  at("query").addEventListener("input", () => app.search(at("query").value));
  at("before").onclick = () => app.next(-1);
  at("after").onclick = () => app.next(1);
  at("first").onclick = () => app.first();
  at("fold").onclick = () => app.fold();
  at("theme").onclick = () => app.toggleTheme();
  at("ask").onclick = () => at("help").showModal();
  for (const button of at("views").children) button.onclick = () => app.showView(button.dataset.view);
  listenToSplitters(app);
}

/** A click on a link to a row. @param {App} app @param {MouseEvent} event */
function followLink(app, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const element = /** @type {HTMLElement|null} */ (target.closest("a[data-row]"));
  if (!element) return;
  event.preventDefault();
  app.go(Number(element.dataset.row), "jumped");
  at("grid").focus();
}

/** The browser went to another address. @param {App} app */
function onAddress(app) {
  if (!app.followAddress()) reportUnknownAddress(location.hash);
}

/** Say that no row has the address. @param {string} address */
function reportUnknownAddress(address) {
  at("trouble").hidden = !address;
  at("trouble").textContent = `nothing in this page has the address ${address}`;
}

/** What stands in the bar: how many events, where from, which buttons make sense. @param {App} app */
function introduce(app) {
  const { about, events, diff, row } = app.data;
  const facts = [events === undefined ? "" : counted(events, "event")];
  facts.push(about.level && `level ${about.level}`, about.torch && `torch ${about.torch}`, about.started, about.missing);
  if (diff) facts.push(`${counted(app.pairs?.size ?? 0, "call")} compared`);
  for (const [kind, count] of Object.entries(diff?.evidence ?? {}))
    if (count) facts.push(`${counted(Number(count), "output")} by ${kind}`);
  at("about").textContent = facts.filter(Boolean).join(" · ");
  at("about").title = Object.entries(about).map(([name, value]) => `${name}: ${value}`).join("\n");
  for (const button of at("views").children) button.hidden = !app.hasView(button.dataset.view);
  at("first").hidden = !app.stops.length;
  const bad = !diff && row.odd[app.stops[0]] & HAS_NAN ? "first NaN" : "first Inf";
  at("first").textContent = diff ? "first cause" : bad;
  if (diff) document.body.classList.add("diff");
  if (!app.tree.size) document.body.classList.add("only-series");
}

function helpText() {
  const keys = KEYS.map(([key, text]) => entry(key, text));
  const examples = ["softmax mod:attn", "mod:h.*.attn dur>1ms", "shape:24,*,96 step:3-5 phase:backward"];
  const close = make("button", "", "close");
  close.onclick = () => at("help").close();
  const words = "Words must all be found in a row: in its name, path, output or arguments. Filters: ";
  at("help").replaceChildren(make("h2", "", "Keys"), make("dl", "pairs", ...keys), make("h2", "", "Search"),
    make("p", "", words, make("code", "", FILTERS)),
    make("p", "", "Examples: ", ...spaced(examples.map((example) => make("code", "", example)))), close);
}

/** The rows that are open at the start, as a plain table for paper. @param {App} app */
function summary(app) {
  const { tree } = app;
  const rows = tree.visible.slice(0, 200).map((item) => {
    const line = make("tr");
    const cells = app.grid.columns.map(() => line.appendChild(make("td")));
    if (app.pairs) paintPair(app, cells, item, line);
    else paintCall(app, cells, item, line);
    return line;
  });
  const head = make("tr", "", ...app.grid.columns.map(([name]) => make("th", "", name)));
  const more = tree.visible.length > 200 ? [make("p", "", `… ${many(tree.visible.length - 200)} rows more`)] : [];
  at("summary").replaceChildren(make("h2", "", app.data.title), make("p", "", at("about").textContent ?? ""),
    make("table", "", make("thead", "", head), make("tbody", "", ...rows)), ...more);
}

/** How heavy a row is when it is decided what to open first. @param {App} app */
function weight(app) {
  const { row, modules } = app.data, { callTree } = app;
  return (i) => {
    const kind = KINDS[row.kind[i]];
    if (!callTree.hasChildren(i) || kind === "aten" || kind === "function") return 0;
    if (kind === "module" && modules[row.module[i]]?.[6]) return 0;
    if (kind === "step" && i > 0) return 0; // one step shows what all are like
    if (kind === "expression") return 0;
    return row.duration[i] || 1;
  };
}

async function start() {
  const theme = remembered("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  const data = await unpacked(at("data").textContent ?? "");
  adopt(data);
  at("data").remove();
  const app = new App(data);
  openFirstRows(app);
  introduce(app);
  helpText();
  listen(app);
  showSeries(app, drawnSeries(data));
  app.grid.refresh();
  app.showView(app.tree.size ? "tree" : "series");
  selectFirstRow(app);
  at("grid").focus({ preventScroll: true });
  summary(app);
  document.body.dataset.ready = "yes";
  performance.mark("ready");
}

/** @param {App} app */
function openFirstRows(app) {
  if (!app.pairs) {
    app.tree.openHeaviest(MOST_FIRST, weight(app));
    return;
  }
  verdict(app);
  app.tree.refresh();
}

/** Select the row of the address, else the first cause or the first row. @param {App} app */
function selectFirstRow(app) {
  const asked = location.hash;
  if (app.followAddress()) return;
  app.grid.select(Math.max(0, app.pairs?.firstCause ?? 0), "moved");
  reportUnknownAddress(asked);
}

start().catch((error) => {
  at("trouble").hidden = false;
  const isOld = typeof DecompressionStream === "undefined";
  at("trouble").textContent = `This page cannot be shown: ${isOld ? "it needs a browser of 2023 or later" : error}`;
  throw error;
});
