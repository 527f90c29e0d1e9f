// The search: what was found, and whether the table shows only that.

class Search {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.hits = new Hits(app.tree.size);
    this.problem = ""; // what is wrong with the query
    this.isOnlyHits = false;
    /** @type {Uint8Array|null} which rows were open before only hits were shown */
    this.openBefore = null;
    this.box = new SearchBox(this, app.data);
  }

  /** The hits as they are visible: each at the row that represents it. */
  get shownHits() {
    return this.app.tree.shownHits(this.hits);
  }

  /** Look for something else. @param {string} text */
  find(text) {
    const query = new Query(this.app.data, text);
    try {
      this.hits = this.hitsOf(query);
      this.problem = this.hits.found.length ? "" : query.doubt;
    } catch (error) {
      this.hits = new Hits(this.app.tree.size);
      this.problem = /** @type {Error} */ (error).message;
    }
    this.say();
    const wasFiltered = this.app.tree.filter !== null;
    this.filterRows();
    if (wasFiltered && !this.app.tree.filter) this.app.grid.select(this.app.grid.selected, "opened");
  }

  /** @param {Query} query @returns {Hits} */
  hitsOf(query) {
    const { pairs, tree } = this.app;
    const test = query.test();
    if (!test) return new Hits(tree.size);
    const hits = Hits.of(tree.size, pairs ? (item) => pairs.rows(item).some(test) : test);
    hits.query = query.text;
    return hits;
  }

  /** Say how many hits there are, and which one is selected; or what is wrong with the query. */
  say() {
    this.box.showHits(this.problem || this.hitsText(), this.problem !== "");
  }

  hitsText() {
    const { found, before, query } = this.hits;
    const { selected } = this.app.grid;
    if (!query) return "";
    if (!found.length) return "no hits";
    const isHit = selected >= 0 && this.hits.has(selected);
    const place = isHit ? many(before[selected] + 1) : "–";
    return `${place}/${many(found.length)}`;
  }

  /** Go to the next hit or, without a query, to the next difference. @param {number} by 1, or -1 for the one before */
  next(by) {
    const { pairs, tree, grid } = this.app;
    const isAsked = this.hits.query !== "" || !pairs;
    const hits = isAsked ? this.hits : Hits.of(tree.size, (item) => pairs.isDifference(item));
    this.app.show(hits.next(grid.selected, by), "jumped");
  }

  // Only hits.

  /** Show only hits and the rows around them, or all rows. @param {boolean} isOnly */
  showOnlyHits(isOnly) {
    if (!isOnly) {
      this.leaveOnlyHits();
      this.app.grid.select(this.app.grid.selected, "opened");
      return;
    }
    this.isOnlyHits = true;
    this.filterRows();
    this.say();
  }

  leaveOnlyHits() {
    this.isOnlyHits = false;
    this.filterRows();
    this.say();
  }

  /** Let the table show what the query asks for; without a filter, rows are open as they were before. */
  filterRows() {
    const { tree, grid } = this.app;
    const isActive = this.isOnlyHits && this.hits.query !== "";
    const wasActive = tree.filter !== null;
    if (isActive) this.openBefore ??= tree.isOpen.slice();
    if (this.openBefore) tree.isOpen.set(this.openBefore);
    if (!isActive) this.openBefore = null;
    tree.filter = isActive ? this.hits : null;
    if (isActive) tree.openAround(this.hits);
    if (isActive || wasActive) grid.refresh();
    else grid.paint();
    this.app.sayIfEmpty();
  }
}
