// The start: unpack, show, listen.

/** @param {App} app */
function listen(app) {
  document.addEventListener("keydown", (event) => pressed(app, event));
  document.addEventListener("click", (event) => {
    const element = /** @type {HTMLElement|null} */ (/** @type {HTMLElement} */ (event.target).closest("a[data-row]"));
    if (!element) return;
    event.preventDefault();
    app.go(Number(element.dataset.row), "jumped");
    at("grid").focus();
  });
  for (const what of ["hashchange", "popstate"])
    addEventListener(what, () => app.followAddress() || lost(location.hash));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.repaint());
  at("query").addEventListener("input", () => app.search(at("query").value));
  at("before").onclick = () => app.next(-1);
  at("after").onclick = () => app.next(1);
  at("first").onclick = () => app.first();
  at("fold").onclick = () => app.fold();
  at("theme").onclick = () => app.theme();
  at("ask").onclick = () => at("help").showModal();
  at("show-calls").onclick = () => app.showTab("calls");
  at("show-series").onclick = () => app.showTab("series");
}

/** Say that nothing has the address that was asked for. @param {string} address */
function lost(address) {
  at("trouble").hidden = !address;
  at("trouble").textContent = `nothing in this page has the address ${address}`;
}

/** What stands in the bar: how many events, where from, which buttons make sense. @param {App} app */
function introduce(app) {
  const { about, events, series, diff, row } = app.data;
  const facts = [events === undefined ? "" : counted(events, "event")];
  facts.push(about.level && `level ${about.level}`, about.torch && `torch ${about.torch}`, about.started, about.missing);
  if (diff) facts.push(`${counted(app.pairs?.size ?? 0, "call")} compared`);
  for (const [kind, count] of Object.entries(diff?.evidence ?? {}))
    if (count) facts.push(`${counted(Number(count), "output")} by ${kind}`);
  at("about").textContent = facts.filter(Boolean).join(" · ");
  at("about").title = Object.entries(about).map(([name, value]) => `${name}: ${value}`).join("\n");
  at("tabs").hidden = !series.length || !app.tree.size;
  at("show-series").textContent = `variables ${series.length}`;
  at("first").hidden = !app.news.length;
  const bad = !diff && row.odd[app.news[0]] & HAS_NAN ? "first NaN" : "first Inf";
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
  try {
    const kept = localStorage.getItem("insitu-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch {
    // a frame without storage of its own
  }
  const data = await unpacked(at("data").textContent ?? "");
  adopt(data);
  at("data").remove();
  const app = new App(data);
  if (app.pairs) {
    verdict(app);
    app.tree.refresh();
  } else app.tree.openHeaviest(MOST_FIRST, weight(app));
  introduce(app);
  helpText();
  listen(app);
  showSeries(app, drawnSeries(data));
  app.grid.refresh();
  if (!app.tree.size) app.showTab("series");
  const asked = location.hash;
  if (!app.followAddress()) {
    app.grid.select(Math.max(0, app.pairs?.firstCause ?? 0), "moved");
    lost(asked);
  }
  at("grid").focus({ preventScroll: true });
  summary(app);
  document.body.dataset.ready = "yes";
  performance.mark("ready");
}

start().catch((error) => {
  at("trouble").hidden = false;
  const isOld = typeof DecompressionStream === "undefined";
  at("trouble").textContent = `This page cannot be shown: ${isOld ? "it needs a browser of 2023 or later" : error}`;
  throw error;
});
