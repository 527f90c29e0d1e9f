// The state of the page: what there is, what is selected, and the panes that follow.

/**
 * A part of the page that follows the state. Each method may be missing.
 * @typedef {object} Pane
 * @property {(row: number) => void} [onSelect] a row was selected; -1 if the selection has no row of its own
 * @property {() => void} [onRows] other rows of the tree are visible, or the table has scrolled
 * @property {(view: string) => void} [onView] the user looks at another view
 * @property {() => void} [onColours] the colours have changed
 */

const CALL_COLUMNS = [
  ["call", "c-call"], ["output", "c-output"], ["values", "c-values"],
  ["min … max", "c-min-max"], ["time", "c-time"], ["source", "c-source"],
];

/** @param {string[]} labels */
const pairColumns = ([a, b]) => [["where", "c-where"], [a, "c-a"], [b, "c-b"], ["difference", "c-difference"]];

class App {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.view = "tree";
    this.calls = new Calls(data);
    this.callTree = new RowTree(data.row.depth, data.row.run);
    this.pairs = data.diff ? new Pairs(data) : null;
    // In a comparison the table shows items, each a pair of calls; else its items are the rows themselves.
    this.tree = this.pairs?.tree ?? this.callTree;
    this.hits = new Hits(this.tree.size);
    this.lineage = { makers: new Set(), takers: new Set() };
    this.inks = inks();
    this.origins = this.nonFiniteRows((kind) => kind === "begins");
    this.entries = this.nonFiniteRows((kind) => kind !== "begins");
    this.longest = this.longestRoot();
    this.isStepped = hasSeveralSteps(data.row.step);
    this.stops = this.pairs ? this.pairs.causeItems.filter((item) => item >= 0) : this.firstNonFiniteRows();
    this.grid = this.makeGrid();
    this.details = new Details(this);
    this.minimap = new Minimap(this);
    this.flame = new Flame(this);
    /** @type {Pane[]} */
    this.panes = [this.details, new Graph(this), this.minimap, this.flame];
  }

  makeGrid() {
    const columns = this.pairs ? pairColumns(this.data.diff.labels) : CALL_COLUMNS;
    const paint = this.pairs ? paintPair : paintCall;
    const fill = (cells, item, element) => paint(this, cells, item, element);
    const grid = new Grid(this.tree, columns, fill, (item, how) => this.onItem(item, how));
    grid.onPaint = () => this.onRows();
    return grid;
  }

  /** The rows that have NaN, and those that have Inf, in which it appears in the way that is asked for. */
  nonFiniteRows(/** @type {(kind: string) => boolean} */ isWanted) {
    const { odd } = this.data.row;
    const rowsWith = (/** @type {number} */ flag) => {
      const flags = IS_ORIGIN | flag;
      const holds = (/** @type {number} */ row) => (odd[row] & flags) === flags && isWanted(this.calls.origin(row));
      return Hits.of(this.calls.size, holds);
    };
    return [rowsWith(HAS_NAN), rowsWith(HAS_INF)];
  }

  /** Flags for what the rows of a range have: NaN, Inf, or both. @param {Hits[]} places */
  nonFiniteIn(places, /** @type {number} */ start, /** @type {number} */ end) {
    const [nan, inf] = places.map((hits) => hits.count(start, end));
    return (nan ? HAS_NAN : 0) | (inf ? HAS_INF : 0);
  }

  /** The rows where NaN begins, else those where Inf begins; where that is not known, the first that has any. */
  firstNonFiniteRows() {
    const { odd } = this.data.row;
    const begin = [];
    const wrong = [];
    for (let row = 0; row < this.calls.size; row++) {
      if (odd[row] & IS_ORIGIN) begin.push(row);
      else if (odd[row] & IS_WRONG && !wrong.length) wrong.push(row);
    }
    const withNan = begin.filter((row) => odd[row] & HAS_NAN);
    if (withNan.length) return withNan;
    return begin.length ? begin : wrong;
  }

  /** The time of the longest outermost row. */
  longestRoot() {
    let longest = 1;
    for (let row = 0; row < this.calls.size; row = this.callTree.end[row])
      longest = Math.max(longest, this.data.row.duration[row]);
    return longest;
  }

  /** The item of the table that shows a row. @param {number} row */
  itemOf(row) {
    return this.pairs ? this.pairs.itemOfRow[row] : row;
  }

  /** The row that an item shows; of a pair, the first. @param {number} item */
  rowOf(item) {
    if (!this.pairs || item < 0) return item;
    return this.pairs.rows(item)[0] ?? -1;
  }

  get selectedRow() {
    return this.rowOf(this.grid.selected);
  }

  /** Go to a row. @param {number} row @param {string} how "jumped" leaves a step back in the browser, "moved" does not */
  go(row, how) {
    this.show(this.itemOf(row), how);
  }

  /** Show an item, in the tree unless the present view shows calls too. @param {number} item @param {string} how */
  show(item, how) {
    if (item < 0) return;
    if (this.view === "series") this.showView("tree");
    this.grid.select(item, how);
  }

  /** The table selected an item. @param {number} item @param {string} how */
  onItem(item, how) {
    const row = this.rowOf(item);
    if (!this.pairs) this.findLineage(row, item);
    for (const pane of this.panes) pane.onSelect?.(row);
    this.countHits();
    at("trouble").hidden = true;
    this.writeAddress(row, how);
  }

  /** @param {number} row @param {number} item */
  findLineage(row, item) {
    const visible = (rows) => new Set(rows.map((one) => this.tree.standIn(one)).filter((one) => one !== item));
    this.lineage = { makers: visible(this.calls.makers(row)), takers: visible(this.calls.takers(row, this.tree)) };
  }

  /** @param {number} row @param {string} how */
  writeAddress(row, how) {
    const hasAddress = row >= 0 && this.data.row.id[row] >= 0;
    if (!hasAddress) return;
    const address = this.calls.address(row);
    if (location.hash === address) return;
    try {
      if (how === "jumped") history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    } catch {
      // a frame without an address of its own
    }
  }

  /** Go where the address says. @returns {boolean} whether the page has such a row */
  followAddress() {
    const row = this.calls.found(location.hash);
    if (row === undefined) return false;
    at("trouble").hidden = true;
    if (this.view === "series") this.showView("tree");
    if (this.grid.selected !== this.itemOf(row)) this.go(row, "jumped");
    return true;
  }

  onRows() {
    for (const pane of this.panes) pane.onRows?.();
    at("fold").textContent = this.isFolded ? "unfold" : "fold";
  }

  /** @param {string} view "tree", "graph", "flame" or "series" */
  showView(view) {
    if (!this.hasView(view)) return;
    this.view = view;
    document.body.dataset.view = view;
    for (const button of at("views").children) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    for (const pane of this.panes) pane.onView?.(view);
    this.grid.paint();
  }

  /** Whether there is anything to show in a view. @param {string} view */
  hasView(view) {
    if (view === "series") return this.data.series.length > 0;
    if (view === "tree") return this.tree.size > 0;
    if (view === "graph") return !document.body.classList.contains("no-graph");
    return this.calls.size > 0 && !this.pairs;
  }

  /** @param {string} query */
  search(query) {
    try {
      this.hits = this.findHits(query.trim());
      at("query").removeAttribute("aria-invalid");
      this.countHits();
    } catch (error) {
      at("hits").textContent = /** @type {Error} */ (error).message;
      at("query").setAttribute("aria-invalid", "true");
    }
    this.grid.paint();
  }

  /** @param {string} query @returns {Hits} */
  findHits(query) {
    const every = tests(this.data, query);
    if (!every.length) return new Hits(this.tree.size);
    const holds = (row) => every.every((test) => test(row));
    const { pairs } = this;
    const hits = Hits.of(this.tree.size, pairs ? (item) => pairs.rows(item).some(holds) : holds);
    hits.query = query;
    return hits;
  }

  /** Say how many hits there are, and which one is selected. */
  countHits() {
    at("hits").textContent = this.hitsText();
  }

  hitsText() {
    const { found, before, query } = this.hits;
    const { selected } = this.grid;
    if (!query) return "";
    if (!found.length) return "no hits";
    const isHit = selected >= 0 && before[selected + 1] > before[selected];
    const place = isHit ? many(before[selected] + 1) : "–";
    return `${place}/${many(found.length)}`;
  }

  /** Go to the next hit or, without a query, to the next difference. @param {number} by 1, or -1 for the one before */
  next(by) {
    const { pairs } = this;
    const isAsked = this.hits.query !== "" || !pairs;
    const hits = isAsked ? this.hits : Hits.of(this.tree.size, (item) => pairs.isDifference(item));
    this.show(hits.next(this.grid.selected, by), "jumped");
  }

  /** Go to the first place where something begins to be wrong, or to the one after the selected one. */
  first() {
    if (!this.stops.length) return;
    const place = this.stops.indexOf(this.grid.selected);
    this.show(this.stops[(place + 1) % this.stops.length], "jumped");
  }

  /** Go to the producer or to the consumer of what is selected. @param {"makers"|"takers"} which */
  follow(which) {
    const row = this.selectedRow;
    if (row < 0) return;
    const [next] = which === "makers" ? this.calls.makers(row) : this.calls.takers(row, this.callTree);
    if (next !== undefined) this.go(next, "jumped");
  }

  get isFolded() {
    return !this.tree.visible.some((item) => this.tree.isOpen[item] && this.tree.hasChildren(item));
  }

  /** Fold everything, or open one level more where everything is folded. */
  fold() {
    if (this.isFolded) this.tree.openLevel();
    else this.tree.foldAll();
    const { selected } = this.grid;
    if (selected < 0) this.grid.refresh();
    else this.grid.select(this.tree.standIn(selected), "moved"); // the details must show what the table shows
  }

  /** Change between dark and light. */
  toggleTheme() {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    remember("theme", theme);
    this.onColours();
  }

  onColours() {
    this.inks = inks();
    for (const pane of this.panes) pane.onColours?.();
  }
}

/** Steps are in order: the first and the last tell. @param {Numbers} steps */
function hasSeveralSteps(steps) {
  return steps.length > 0 && steps[0] !== steps[steps.length - 1];
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Keep a choice of the user for the next page; a frame without storage of its own forgets it. */
function remember(/** @type {string} */ name, /** @type {string} */ value) {
  try {
    localStorage.setItem(`insitu-${name}`, value);
  } catch {
    // nothing is kept
  }
}

/** The choice that the user made earlier. @param {string} name @returns {string|null} */
function remembered(name) {
  try {
    return localStorage.getItem(`insitu-${name}`);
  } catch {
    return null;
  }
}
