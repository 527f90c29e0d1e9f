// The keys of the page.

const KEYS = [
  ["j k ↓ ↑", "next and previous row"],
  ["l h → ←", "open, close; into it, out of it"],
  ["e", "expand everything below; press again to show what is alike one by one"],
  ["u", "show or collapse the siblings that are alike"],
  ["/", "search"],
  ["n N", "next and previous hit (or difference)"],
  ["p c", "to the producer, to the consumer"],
  ["f", "first NaN or Inf, then the next (or first cause)"],
  ["t m w v", "tree, graph of modules, flame, variables over steps"],
  ["d", "dark or light"],
  ["g G", "first and last row"],
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
    "/": () => at("query").focus(),
    n: () => app.next(1),
    N: () => app.next(-1),
    f: () => app.first(),
    p: () => app.follow("makers"),
    c: () => app.follow("takers"),
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
  if (hasModifier || at("help").open) return;
  if (target.id === "query") {
    onQueryKey(app, event);
    return;
  }
  if (target.closest("input, select, textarea")) return;
  const action = keyAction(app, event.key, target);
  if (!action) return;
  event.preventDefault();
  action();
}

/** What a key does where it was pressed. @param {App} app @param {string} key @param {HTMLElement} target */
function keyAction(app, key, target) {
  const scrollsPane = target.closest("#details, #series, .splitter") && /^(Arrow|Page|Home|End)/.test(key);
  if (scrollsPane) return undefined;
  if (key !== "Enter") return keyActions(app)[key];
  const isOnControl = target.closest("button, a, summary, .splitter");
  if (isOnControl || app.grid.selected < 0) return undefined;
  return () => app.grid.toggle(app.grid.selected);
}

/** A key in the search box. @param {App} app @param {KeyboardEvent} event */
function onQueryKey(app, event) {
  if (event.key === "Enter") app.next(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape" || event.key === "ArrowDown") at("grid").focus();
  else return;
  event.preventDefault();
}
