// The state of the page: what there is, what is selected, and the panes that follow.

/**
 * A part of the page that follows the state. Each method may be missing.
 * @typedef {object} Pane
 * @property {(row: number) => void} [onSelect] a row was selected; -1 if the selection has no row of its own
 * @property {() => void} [onRows] other rows of the tree are visible, or the table has scrolled
 * @property {(view: string) => void} [onView] the user looks at another view
 * @property {() => void} [onColours] the colours have changed
 */

/** The columns of a comparison of two runs. @param {string[]} labels @returns {Column[]} */
const pairColumns = ([a, b]) => [
  { name: "where", kind: "c-where", least: 110, most: 240, grow: 0.5 },
  { name: a, kind: "c-a", least: 130, most: 400, grow: 1 },
  { name: b, kind: "c-b", least: 130, most: 400, grow: 1 },
  { name: "difference", kind: "c-difference", least: 110, most: 300, grow: 0.8, rank: 1 },
];

class App {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.view = "tree";
    this.calls = new Calls(data);
    this.callTree = new RowTree(data.row.depth, data.row.alike);
    this.pairs = data.diff ? new Pairs(data) : null;
    // In a comparison the table shows items, each a pair of calls; else its items are the rows themselves.
    this.tree = this.pairs?.tree ?? this.callTree;
    this.sorted = { kind: "", isReversed: false };
    this.lineage = { makers: new Set(), takers: new Set() };
    this.inks = inks();
    this.nonFinite = new NonFiniteRows(this.calls);
    this.longest = this.longestRoot();
    this.isStepped = hasSeveralSteps(data.row.step);
    this.stops = this.pairs ? this.pairs.causeItems.filter((item) => item >= 0) : this.nonFinite.stops();
    this.grid = this.makeGrid();
    this.search = new Search(this);
    this.details = new Details(this);
    this.minimap = new Minimap(this);
    this.flame = new Flame(this);
    this.graph = new Graph(this);
    /** @type {Pane[]} */
    this.panes = [this.details, this.graph, this.minimap, this.flame, new SeriesPane(this)];
    if (this.pairs) this.panes.push(new PairStrip(this));
  }

  makeGrid() {
    const every = this.pairs ? pairColumns(this.data.diff.labels) : callColumns(this.data);
    const columns = new Columns(every, () => this.grid?.soon(), (column) => this.sortBy(column));
    columns.addTool(this.foldButton);
    const paint = this.pairs ? paintPair : paintCall;
    const fill = (cells, item, element) => paint(this, cells, item, element);
    const grid = new Grid(this.tree, columns, fill, (item, how) => this.onItem(item, how));
    grid.onPaint = () => this.onRows();
    grid.onHidden = () => this.search.leaveOnlyHits();
    showValuesAxis(this.calls);
    return grid;
  }

  get foldButton() {
    const button = namedButton("unfold");
    button.id = "fold";
    button.title = "fold everything, or unfold one level more";
    button.onclick = () => this.fold();
    return button;
  }

  /** What the search found. */
  get hits() {
    return this.search.hits;
  }

  /** Sort siblings by a column; again, the other way round; again, in the order of execution. @param {Column} column */
  sortBy({ kind }) {
    const key = this.pairs ? undefined : SORT_KEYS[kind];
    const isAgain = this.sorted.kind === kind;
    const isDone = !key || (isAgain && this.sorted.isReversed);
    this.sorted = isDone ? { kind: "", isReversed: false } : { kind, isReversed: isAgain };
    const findKeys = () => sortNumbers(this.calls, this.tree, /** @type {SortKey} */ (key));
    this.tree.setOrder(isDone ? null : { findKeys, isReversed: isAgain });
    this.grid.columns.showOrder(this.sorted.kind, this.sorted.isReversed);
    this.grid.refresh();
    if (isDone) this.grid.scrollTo(this.tree.position(this.grid.selected), true);
    else this.grid.box.scrollTop = 0;
    this.grid.fitColumns();
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
    this.search.say();
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
    if (view === "series") return this.data.series.variables.length > 0 || this.data.series.revision !== null;
    if (view === "tree") return this.tree.size > 0;
    if (view === "graph") return !document.body.classList.contains("no-graph");
    return this.calls.size > 0 && !this.pairs;
  }

  /** Say why the table has no rows, if it has none. */
  sayIfEmpty() {
    const isFilteredOut = this.tree.size > 0 && !this.tree.visible.length;
    const text = isFilteredOut ? "No row matches the search." : this.data.empty ?? "";
    at("empty").textContent = text;
    at("empty").hidden = !text;
  }

  /** Go to the first place where something begins to be wrong, or to the one after the selected one. */
  first() {
    if (!this.stops.length) return;
    const place = this.stops.indexOf(this.grid.selected);
    this.show(this.stops[(place + 1) % this.stops.length], "jumped");
  }

  /** Show more of the graph or of the flame, or more closely. @param {boolean} isCloser */
  zoom(isCloser) {
    if (this.view === "graph") this.graph.zoom(isCloser);
    else this.flame.zoom(isCloser ? 0.5 : 2);
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
    this.grid.refresh();
    const { selected } = this.grid;
    if (selected >= 0) this.grid.select(this.tree.standIn(selected), "moved"); // the details show what the table shows
  }

  /** Change between dark and light. */
  toggleTheme() {
    toggleTheme();
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
