// Everything joined: what is shown first, the buttons, the keys, the address.

const MOST_FIRST = 90; // rows that are open at the start
const KEYS = [
  ["j k ↓ ↑", "next and previous row"],
  ["l h → ←", "open, close; into it, out of it"],
  ["e", "open all that lies in it; again, unfold it"],
  ["u", "each of those that are alike, or one for all"],
  ["/", "search"],
  ["n N", "next and previous hit (or difference)"],
  ["p c", "to the producer, to the consumer"],
  ["f", "first NaN or Inf, then the next (or first cause)"],
  ["v", "variables over steps"],
  ["d", "dark or light"],
  ["g G", "first and last row"],
  ["?", "this help"],
];

const CALL_COLUMNS = [
  ["call", "c-call"], ["output", "c-output"], ["values", "c-values"],
  ["min … max", "c-min-max"], ["time", "c-time"], ["source", "c-source"],
];
/** @param {string[]} labels */
const pairColumns = ([a, b]) => [["where", "c-where"], [a, "c-a"], [b, "c-b"], ["difference", "c-difference"]];

/** The state of the page: what there is, and what is looked at. */
class App {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.calls = new Calls(data);
    this.callTree = new Tree(data.row.depth, data.row.run);
    this.pairs = data.diff ? new Pairs(data) : null;
    this.tree = this.pairs?.tree ?? this.callTree;
    this.hits = new Hits(this.tree.size);
    this.lineage = { makers: new Set(), takers: new Set() };
    this.inks = inks();
    const hitsOf = (/** @type {(how: string) => boolean} */ isMeant) => [HAS_NAN, HAS_INF].map((what) => {
      const flags = IS_ORIGIN | what;
      return Hits.of(this.calls.size, (i) => (data.row.odd[i] & flags) === flags && isMeant(this.calls.origin(i)));
    });
    this.origins = hitsOf((how) => how === "begins");
    this.entries = hitsOf((how) => how !== "begins");
    const tops = [];
    for (let i = 0; i < this.calls.size; i = this.callTree.end[i]) tops.push(i);
    this.longest = tops.reduce((most, i) => Math.max(most, data.row.duration[i]), 1);
    this.isStepped = data.row.step.length > 0 && data.row.step[0] !== data.row.step[data.row.step.length - 1];
    this.news = this.pairs ? this.pairs.causeItems.filter((item) => item >= 0) : this.begins();
    this.itemOf = (row) => (this.pairs ? this.pairs.itemOfRow[row] : row);
    this.rowOf = (item) => (this.pairs && item >= 0 ? this.pairs.rows(item)[0] ?? -1 : item);
    const columns = this.pairs ? pairColumns(data.diff.labels) : CALL_COLUMNS;
    const paint = this.pairs ? paintPair : paintCall;
    const fill = (cells, item, element) => paint(this, cells, item, element);
    this.grid = new Grid(this.tree, columns, fill, (item, how) => this.chosen(item, how));
    this.minimap = new Minimap(this);
    this.flame = new Flame(this);
    this.grid.painted = () => {
      this.minimap.paint();
      at("fold").textContent = this.isFolded ? "unfold" : "fold";
    };
  }

  /** What begins in a range of rows, or what comes into it: NaN, Inf, both. @param {Hits[]} places */
  begun(places, /** @type {number} */ start, /** @type {number} */ end) {
    const [nan, inf] = places.map((hits) => hits.count(start, end));
    return (nan ? HAS_NAN : 0) | (inf ? HAS_INF : 0);
  }

  /** The rows where NaN or Inf begins; where that is not known, the first that has any. */
  begins() {
    const { odd, size } = { odd: this.data.row.odd, size: this.calls.size };
    const found = [], wrong = [];
    for (let i = 0; i < size; i++) {
      if (odd[i] & IS_ORIGIN) found.push(i);
      else if (odd[i] & IS_WRONG && !wrong.length) wrong.push(i);
    }
    const isNan = (i) => odd[i] & HAS_NAN;
    return found.some(isNan) ? found.filter(isNan) : found.length ? found : wrong;
  }

  /** Go to a row. @param {number} row @param {string} how */
  go(row, how) {
    this.show(this.itemOf(row), how);
  }

  /** Show an item among the calls, wherever one is. @param {number} item @param {string} how */
  show(item, how) {
    if (item < 0) return;
    this.showTab("calls");
    this.grid.select(item, how);
  }

  /** A row was selected. @param {number} item @param {string} how */
  chosen(item, how) {
    const row = this.rowOf(item);
    at("details").replaceChildren(...(this.pairs ? pairDetails(this, item) : details(this, item)));
    at("details").scrollTop = 0;
    if (!this.pairs) {
      const seen = (rows) => new Set(rows.map((one) => this.tree.standIn(one)).filter((one) => one !== item));
      this.lineage = { makers: seen(this.calls.makers(row)), takers: seen(this.calls.takers(row, this.tree)) };
      this.flame.show(row);
    }
    this.counted();
    at("trouble").hidden = true;
    const address = row >= 0 && this.data.row.id[row] >= 0 ? this.calls.address(row) : location.hash;
    if (location.hash !== address)
      try {
        history[how === "jumped" ? "pushState" : "replaceState"](null, "", address);
      } catch {
        // a frame without an address of its own
      }
  }

  /** Go where the address says. @returns {boolean} */
  followAddress() {
    const row = this.calls.found(location.hash);
    if (row === undefined) return false;
    at("trouble").hidden = true;
    this.showTab("calls");
    if (this.grid.selected !== this.itemOf(row)) this.go(row, "jumped");
    return true;
  }

  /** @param {string} query */
  search(query) {
    try {
      const every = tests(this.data, query.trim());
      const holds = (row) => every.every((one) => one(row));
      const inItem = (item) => /** @type {Pairs} */ (this.pairs).rows(item).some(holds);
      this.hits = every.length ? Hits.of(this.tree.size, this.pairs ? inItem : holds) : new Hits(this.tree.size);
      this.hits.query = query.trim();
      at("query").removeAttribute("aria-invalid");
      this.counted();
    } catch (error) {
      at("hits").textContent = /** @type {Error} */ (error).message;
      at("query").setAttribute("aria-invalid", "true");
    }
    this.grid.paint();
  }

  /** Say how many hits there are, and which one this is. */
  counted() {
    const { found, before, query } = this.hits, { selected } = this.grid;
    const isHit = selected >= 0 && before[selected + 1] > before[selected];
    const place = isHit ? many(before[selected] + 1) : "–";
    at("hits").textContent = !query ? "" : found.length ? `${place}/${many(found.length)}` : "no hits";
  }

  /** The next hit or, without a query, the next difference. @param {number} by */
  next(by) {
    const { pairs } = this;
    const isAsked = this.hits.query !== "" || !pairs;
    const hits = isAsked ? this.hits : Hits.of(this.tree.size, (item) => pairs.isDifference(item));
    this.show(hits.next(this.grid.selected, by), "jumped");
  }

  /** The first place where something begins to be wrong, or the one after this. */
  first() {
    if (!this.news.length) return;
    const place = this.news.indexOf(this.grid.selected);
    this.show(this.news[(place + 1) % this.news.length], "jumped");
  }

  /** @param {"makers"|"takers"} which */
  follow(which) {
    const row = this.rowOf(this.grid.selected);
    if (row < 0) return;
    const [next] = which === "makers" ? this.calls.makers(row) : this.calls.takers(row, this.callTree);
    if (next !== undefined) this.go(next, "jumped");
  }

  /** @param {string} tab "calls" or "series" */
  showTab(tab) {
    const isSeries = tab === "series" && this.data.series.length > 0;
    at("series").hidden = !isSeries;
    at("grid").hidden = isSeries;
    at("show-calls").setAttribute("aria-pressed", String(!isSeries));
    at("show-series").setAttribute("aria-pressed", String(isSeries));
  }

  get isFolded() {
    return !this.tree.visible.some((row) => this.tree.isOpen[row] && this.tree.hasChildren(row));
  }

  /** Fold everything, or open one level more where everything is folded. */
  fold() {
    if (this.isFolded) this.tree.openLevel();
    else this.tree.foldAll();
    const selected = this.grid.selected;
    if (selected >= 0) this.grid.selected = this.tree.standIn(selected);
    this.grid.refresh();
  }

  theme() {
    const isDark = getComputedStyle(document.documentElement).colorScheme === "dark"
      || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
    try {
      localStorage.setItem("insitu-theme", isDark ? "light" : "dark");
    } catch {
      // a frame without storage of its own
    }
    this.repaint();
  }

  repaint() {
    this.inks = inks();
    this.minimap.paint();
    this.flame.paint();
  }
}

/** @param {App} app @param {KeyboardEvent} event */
function pressed(app, event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || at("help").open) return;
  if (target.id === "query") return void asked(app, event);
  const { grid } = app;
  const isOnControl = target.closest("button, a, summary");
  /** @type {Record<string, () => void>} */
  const actions = {
    j: () => grid.move(1), ArrowDown: () => grid.move(1), k: () => grid.move(-1), ArrowUp: () => grid.move(-1),
    l: () => grid.inward(), ArrowRight: () => grid.inward(), h: () => grid.outward(), ArrowLeft: () => grid.outward(),
    PageDown: () => grid.move(grid.pageful()), PageUp: () => grid.move(-grid.pageful()),
    Home: () => grid.move(-Infinity), g: () => grid.move(-Infinity),
    End: () => grid.move(Infinity), G: () => grid.move(Infinity),
    "/": () => at("query").focus(), n: () => app.next(1), N: () => app.next(-1), f: () => app.first(),
    p: () => app.follow("makers"), c: () => app.follow("takers"),
    d: () => app.theme(), "?": () => at("help").showModal(),
    u: () => grid.unfold(grid.selected), v: () => app.showTab(at("series").hidden ? "series" : "calls"),
    e: () => (grid.tree.openAll(Math.max(0, grid.selected)), grid.refresh()),
  };
  if (event.key === "Enter" && !isOnControl && grid.selected >= 0) actions.Enter = () => grid.toggle(grid.selected);
  const inPane = target.closest("#details, #series") && /^(Arrow|Page|Home|End)/.test(event.key);
  const action = actions[event.key];
  if (!action || inPane) return;
  event.preventDefault();
  action();
}

/** A key in the search box. @param {App} app @param {KeyboardEvent} event */
function asked(app, event) {
  if (event.key === "Enter") app.next(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape" || event.key === "ArrowDown") at("grid").focus();
  else return;
  event.preventDefault();
}
