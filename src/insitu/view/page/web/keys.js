// The keys of the page.

const KEYS = [
  ["j k ↓ ↑", "next and previous row"],
  ["l h → ←", "open and close a row; go into it, go out of it"],
  ["g G", "first and last row"],
  ["e", "expand everything below; press again to show alike blocks one by one"],
  ["u", "show alike siblings one by one, or as one row"],
  ["/", "search; Enter goes to the next hit, Esc back to the rows"],
  ["n N", "next and previous hit; in a comparison, difference"],
  ["o", "show only hits and the rows around them"],
  ["p c", "go to the producer of an input, to a consumer of the output"],
  ["f", "go to the first NaN or Inf, then to the next; in a comparison, to a cause"],
  ["t m w v", "tree, graph, flame, variables over steps"],
  ["↑ ↓ ← →", "in the graph: along the edges; Enter opens a node, + and − zoom, 0 shows all of it"],
  ["z", "zoom the flame to the selected call; + and − zoom, Esc shows all again"],
  ["← →", "in a chart of a variable: previous and next point; + − 0 zoom, p pins it, Enter goes to the change"],
  ["d", "dark or light"],
  ["?", "this help"],
];

/** What each key does. @param {App} app @returns {Record<string, () => void>} */
function keyActions(app) {
  const { grid } = app;
  return {
    j: () => grid.move(1),
    ArrowDown: () => grid.move(1),
    k: () => grid.move(-1),
    ArrowUp: () => grid.move(-1),
    l: () => grid.inward(),
    ArrowRight: () => grid.inward(),
    h: () => grid.outward(),
    ArrowLeft: () => grid.outward(),
    PageDown: () => grid.move(grid.pageful()),
    PageUp: () => grid.move(-grid.pageful()),
    Home: () => grid.move(-Infinity),
    g: () => grid.move(-Infinity),
    End: () => grid.move(Infinity),
    G: () => grid.move(Infinity),
    "/": () => at(app.view === "series" ? "series-query" : "query").focus(),
    n: () => app.search.next(1),
    N: () => app.search.next(-1),
    f: () => app.first(),
    p: () => app.follow("makers"),
    c: () => app.follow("takers"),
    o: () => app.search.showOnlyHits(!app.search.isOnlyHits),
    z: () => app.flame.focus(app.selectedRow),
    "+": () => app.zoom(true),
    "-": () => app.zoom(false),
    Escape: () => app.flame.reset(),
    d: () => app.toggleTheme(),
    "?": () => at("help").showModal(),
    u: () => grid.unfold(grid.selected),
    e: () => grid.openAll(),
    t: () => app.showView("tree"),
    m: () => app.showView("graph"),
    w: () => app.showView("flame"),
    v: () => app.showView(app.view === "series" ? "tree" : "series"),
  };
}

/** @param {App} app @param {KeyboardEvent} event */
function onKey(app, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
  if (hasModifier || document.querySelector("dialog[open]")) return;
  if (target.closest("input, select, textarea")) return;
  const action = keyAction(app, event.key, target);
  if (!action) return;
  event.preventDefault();
  action();
}

/** What a key does where it was pressed. @param {App} app @param {string} key @param {HTMLElement} target */
function keyAction(app, key, target) {
  const isInPane = target.closest("#details, #series, #flamebox, #filters, .more, .splitter");
  const isScrolling = /^(Arrow|Page|Home|End)/.test(key);
  if (isInPane && isScrolling) return undefined;
  if (key !== "Enter") return keyActions(app)[key];
  const isOnControl = target.closest("button, a, summary, .splitter");
  if (isOnControl || app.grid.selected < 0) return undefined;
  return () => app.grid.toggle(app.grid.selected);
}
