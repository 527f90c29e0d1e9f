// The start: unpack, show, listen.

const MOST_FIRST = 90; // rows that are open at the start
const MOST_PRINTED = 200; // rows

async function start() {
  adoptTheme();
  const data = await unpacked(at("data").textContent ?? "");
  at("data").remove();
  takeKindsAndFlags(data);
  const app = new App(data);
  openFirstRows(app);
  introduce(app);
  fillDialogs(app);
  listen(app);
  app.grid.refresh();
  app.showView(firstView(app));
  const banner = new Banner(app);
  selectFirstRow(app, banner);
  app.grid.fitColumns();
  at("grid").focus({ preventScroll: true });
  fillSummary(app);
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

/** How heavy a row is when it is decided what to open first; 0 stays closed. @param {App} app */
function weight(app) {
  const { row, modules } = app.data;
  return (/** @type {number} */ i) => {
    const kind = KINDS[row.kind[i]];
    const isLeaf = kind === "module" && modules[row.module[i]]?.[6];
    const isLaterStep = kind === "step" && i > 0; // one step shows what all are like
    const isGeneration = kind === "expression" && KINDS[row.kind[i + 1]] === "token";
    const isCall = ["aten", "function", "expression", "token"].includes(kind) && !isGeneration;
    const isClosed = isLeaf || isLaterStep || isCall;
    if (isClosed || !app.callTree.hasChildren(i)) return 0;
    return row.duration[i] || 1;
  };
}

/** Select the row of the address, else the one of the banner, else the first cause or the first row. */
function selectFirstRow(/** @type {App} */ app, /** @type {Banner} */ banner) {
  const address = location.hash;
  if (app.followAddress()) return;
  const answer = app.itemOf(banner.row) ?? -1;
  if (answer >= 0) app.grid.select(answer, "opened");
  else app.grid.select(Math.max(0, app.pairs?.firstCause ?? 0), "moved");
  reportUnknownAddress(address);
}

/** What the bar says: how many events, where from, which buttons make sense. @param {App} app */
function introduce(app) {
  const { diff, row, empty } = app.data;
  at("about").textContent = aboutText(app);
  at("about").title = aboutText(app);
  const views = Array.from(at("views").children);
  for (const button of views) button.hidden = !app.hasView(button.dataset.view);
  at("views").hidden = views.filter((button) => !button.hidden).length < 2;
  const bad = row.odd[app.stops[0]] & HAS_NAN ? "first NaN" : "first Inf";
  at("first").hidden = !app.stops.length;
  at("first").textContent = diff ? "first cause" : bad;
  app.sayIfEmpty();
  if (diff) document.body.classList.add("diff");
  if (empty) document.body.classList.add("is-empty");
  if (!app.hasView("tree") && app.hasView("series")) document.body.classList.add("only-series");
}

/** @param {App} app */
function listen(app) {
  document.addEventListener("keydown", (event) => onKey(app, event));
  document.addEventListener("click", (event) => followLink(app, event));
  for (const event of ["hashchange", "popstate"]) addEventListener(event, () => onAddress(app));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.onColours());
  at("first").onclick = () => app.first();
  at("theme").onclick = () => app.toggleTheme();
  at("ask").onclick = () => at("help").showModal();
  at("about").onclick = () => at("facts").showModal();
  at("handle").onclick = () => toggleDetails();
  for (const button of at("views").children) button.onclick = () => app.showView(button.dataset.view);
  listenToSplitters(app);
}

/** Open or close the details, which are a sheet below the rest on a phone. */
function toggleDetails() {
  const isOpen = document.body.dataset.sheet !== "closed";
  document.body.dataset.sheet = isOpen ? "closed" : "open";
  at("handle").setAttribute("aria-expanded", String(!isOpen));
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

/** The rows that are open at the start, as a plain table for paper. @param {App} app */
function fillSummary(app) {
  const { tree, grid } = app;
  const { every } = grid.columns;
  const places = every.map((_, place) => place).filter((place) => !every[place].isEmpty);
  const rows = tree.visible.slice(0, MOST_PRINTED).map((item) => summaryRow(app, item, places));
  const head = make("tr", "", ...places.map((place) => make("th", "", every[place].name)));
  const left = tree.visible.length - rows.length;
  const more = left > 0 ? [make("p", "", `… ${many(left)} more rows`)] : [];
  const answers = app.data.answers.map(({ head, text }) => make("p", "", `${head}: ${text}`));
  at("summary").replaceChildren(make("h2", "", app.data.title), make("p", "", aboutText(app)), ...answers,
    make("table", "", make("thead", "", head), make("tbody", "", ...rows)), ...more);
}

/** @param {App} app @param {number} item @param {number[]} places of the columns that are printed */
function summaryRow(app, item, places) {
  const line = make("tr");
  const cells = app.grid.columns.every.map(() => make("td"));
  app.grid.paintRow(cells, item, line);
  line.append(...places.map((place) => cells[place]));
  return line;
}

start().catch((error) => {
  at("trouble").hidden = false;
  const isOld = typeof DecompressionStream === "undefined";
  at("trouble").textContent = `This page cannot be shown: ${isOld ? "it needs a browser of 2023 or later" : error}`;
  throw error;
});
