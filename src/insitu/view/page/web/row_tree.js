// The tree of rows: which are open, which alike siblings are folded, which are visible, and in which order.

// The kinds of rows in the order of their numbers, the numbers of some, and the flags of `row.odd`: the data has them.
/** @type {string[]} */
let KINDS = [];
let MODULE = 0;
let PYTHON = 0;
let STEP = 0;
let HAS_NAN = 0;
let HAS_INF = 0;
let IS_WRONG = 0;
let IS_ORIGIN = 0;

/** Take the numbers of kinds and flags from the data. @param {Data} data */
function takeKindsAndFlags({ kinds, flags }) {
  KINDS = kinds;
  [MODULE, PYTHON, STEP] = ["module", "python", "step"].map((kind) => kinds.indexOf(kind));
  ({ HAS_NAN, HAS_INF, IS_WRONG, IS_ORIGIN } = flags);
}

/**
 * A way to order siblings: by a number for each row, the largest first; NaN comes last. `keys` are found again when
 * other rows are folded: a row that represents several has the number of all of them.
 * @typedef {{findKeys: () => Float64Array, isReversed: boolean}} RowOrder
 */

class RowTree {
  /** @param {Numbers} depth @param {Numbers} alike how many alike siblings begin at a row; 0 for the rest of them */
  constructor(depth, alike) {
    const size = depth.length;
    this.size = size;
    this.depth = depth;
    this.alike = alike;
    this.parent = new Int32Array(size).fill(-1);
    this.end = new Int32Array(size); // the row after the last one inside
    this.head = new Int32Array(size); // the first of the alike siblings
    this.isOpen = new Uint8Array(size);
    this.isUnfolded = new Uint8Array(size); // for the first of alike siblings: each is visible
    /** @type {number[]} the visible rows from top to bottom */
    this.visible = [];
    this.positions = new Int32Array(size).fill(-1); // of each row among the visible ones
    /** @type {Map<number, number[]>} */
    this.knownLikes = new Map();
    /** @type {Int32Array|null} */
    this.knownStandIns = null;
    /** @type {Map<Hits, Hits>} */
    this.knownHits = new Map();
    /** @type {Float64Array|null} */
    this.knownKeys = null;
    /** @type {RowOrder|null} */
    this.order = null;
    /** @type {Hits|null} with a filter, only its rows and those around them are visible */
    this.filter = null;
    this.link();
  }

  /** Find the parent, the end and the head of each row. */
  link() {
    const { size, depth, alike } = this;
    const path = [];
    const heads = [];
    for (let row = 0; row < size; row++) {
      while (path.length > depth[row]) this.end[path.pop()] = row;
      if (path.length) this.parent[row] = path[path.length - 1];
      if (alike[row]) heads[depth[row]] = row;
      this.head[row] = heads[depth[row]];
      path.push(row);
    }
    while (path.length) this.end[path.pop()] = size;
  }

  /** @param {number} row */
  hasChildren(row) {
    return this.end[row] > row + 1;
  }

  /** Whether this row represents several alike siblings now. @param {number} row */
  isFolded(row) {
    return this.alike[row] > 1 && !this.isUnfolded[row];
  }

  /** Whether another row represents this one. @param {number} row */
  isFoldedAway(row) {
    return !this.alike[row] && !this.isUnfolded[this.head[row]];
  }

  /** Show each of the alike siblings, or one for all again. @param {number} row */
  toggleFold(row) {
    this.isUnfolded[row] = this.isUnfolded[row] ? 0 : 1;
    this.forgetFolds();
  }

  /** Other rows are folded now. */
  forgetFolds() {
    this.knownLikes.clear();
    this.knownStandIns = null;
    this.knownHits.clear();
    this.knownKeys = null;
  }

  /** Show siblings in another order; null is the order of execution. @param {RowOrder|null} order */
  setOrder(order) {
    this.order = order;
    this.knownKeys = null;
  }

  /** The number of each row by which its siblings are ordered. @param {RowOrder} order */
  orderKeys(order) {
    this.knownKeys ??= order.findKeys();
    return this.knownKeys;
  }

  /** Hits as they are visible: each at the row that represents it. @param {Hits} hits @returns {Hits} */
  shownHits(hits) {
    const known = this.knownHits.get(hits);
    if (known) return known;
    this.knownHits.clear(); // those of an earlier query
    const { standIns } = this;
    const counts = new Uint32Array(this.size);
    for (const row of hits.found) counts[standIns[row]]++;
    const shown = Hits.ofCounts(counts);
    this.knownHits.set(hits, shown);
    return shown;
  }

  /**
   * All rows that a row represents: its siblings, and their likes in every copy of what is folded around it. Copies
   * have the same rows, so a like is as far from the start of its copy.
   * @param {number} row @returns {number[]}
   */
  likes(row) {
    const known = this.knownLikes.get(row);
    if (known) return known;
    let found = [row];
    for (const around of [...this.ancestors(row), row]) {
      if (!this.isFolded(around)) continue;
      const offset = row - around;
      found = found.flatMap((like) => this.siblings(like - offset).map((sibling) => sibling + offset));
    }
    this.knownLikes.set(row, found);
    return found;
  }

  /**
   * For each row the one that represents it: its like in the first copy of everything that is folded around it.
   * @returns {Int32Array}
   */
  get standIns() {
    if (this.knownStandIns) return this.knownStandIns;
    const found = new Int32Array(this.size);
    for (let row = 0; row < this.size; row++) {
      const parent = this.parent[row];
      const like = parent < 0 ? row : found[parent] + row - parent;
      const head = this.head[like];
      found[row] = this.isFolded(head) ? head : like;
    }
    this.knownStandIns = found;
    return found;
  }

  /** The alike siblings that begin at a row. @param {number} row @returns {number[]} */
  siblings(row) {
    const found = [row];
    let next = this.end[row];
    while (found.length < this.alike[row]) {
      found.push(next);
      next = this.end[next];
    }
    return found;
  }

  /** The last of the alike siblings that begin at a row. @param {number} row */
  last(row) {
    const siblings = this.siblings(row);
    return siblings[siblings.length - 1];
  }

  /** Find the visible rows again. */
  refresh() {
    for (const row of this.visible) this.positions[row] = -1;
    this.visible = this.findVisible();
    this.visible.forEach((row, position) => {
      this.positions[row] = position;
    });
  }

  /** @returns {number[]} */
  findVisible() {
    const found = [];
    const waiting = this.children(-1).reverse();
    while (waiting.length) {
      const row = /** @type {number} */ (waiting.pop());
      found.push(row);
      if (!this.isOpen[row] || !this.hasChildren(row)) continue;
      const inside = this.children(row);
      for (let place = inside.length - 1; place >= 0; place--) waiting.push(inside[place]);
    }
    return found;
  }

  /** The rows to show directly inside a row, in their order. @param {number} row -1 for the outermost */
  children(row) {
    const end = row < 0 ? this.size : this.end[row];
    const found = [];
    for (let child = row + 1; child < end; child = this.end[child]) if (this.isShown(child)) found.push(child);
    if (!this.order) return found;
    return sortedRows(found, this.orderKeys(this.order), this.order.isReversed);
  }

  /** Whether a row is visible once all around it is open. @param {number} row */
  isShown(row) {
    if (this.isFoldedAway(row)) return false;
    return !this.filter || this.shownHits(this.filter).count(row, this.end[row]) > 0;
  }

  /** The place of a row among the visible ones, or -1. @param {number} row */
  position(row) {
    return this.positions[row] ?? -1;
  }

  /** @param {number} row @returns {number[]} from the outermost */
  ancestors(row) {
    const found = [];
    for (let above = this.parent[row]; above >= 0; above = this.parent[above]) found.push(above);
    return found.reverse();
  }

  /** The visible row that this one is, is inside of, or is folded into. @param {number} row */
  standIn(row) {
    for (const around of this.ancestors(row)) {
      if (this.isFoldedAway(around)) return this.head[around];
      if (!this.isOpen[around]) return around;
    }
    return this.isFoldedAway(row) ? this.head[row] : row;
  }

  /** Open everything around a row. @param {number} row */
  reveal(row) {
    for (const around of [...this.ancestors(row), row]) {
      if (!this.alike[around]) this.isUnfolded[this.head[around]] = 1;
      if (around !== row) this.isOpen[around] = 1;
    }
    this.forgetFolds();
    this.refresh();
  }

  foldAll() {
    this.isOpen.fill(0);
    this.isUnfolded.fill(0);
    this.forgetFolds();
    this.refresh();
  }

  /** Open everything inside a row; where that is open already, unfold what is alike in it. @param {number} row */
  openAll(row) {
    if (!this.openInside(row)) this.isUnfolded.fill(1, row, this.end[row]);
    this.forgetFolds();
    this.refresh();
  }

  /** Open everything inside a row. @param {number} row @returns {boolean} whether anything was closed */
  openInside(row) {
    let hasOpened = false;
    for (let inside = row; inside < this.end[row]; inside++) {
      if (this.isOpen[inside] || !this.hasChildren(inside)) continue;
      this.isOpen[inside] = 1;
      hasOpened = true;
    }
    return hasOpened;
  }

  /** Open the rows around all hits. @param {Hits} hits */
  openAround(hits) {
    const isDone = new Uint8Array(this.size);
    for (const row of this.shownHits(hits).found) {
      for (let above = this.parent[row]; above >= 0 && !isDone[above]; above = this.parent[above]) {
        isDone[above] = 1;
        this.isOpen[above] = 1;
      }
    }
  }

  /** How many rows opening this one would add. @param {number} row */
  added(row) {
    let count = 0;
    for (let child = row + 1; child < this.end[row]; child = this.end[child]) count += this.alike[child] ? 1 : 0;
    return count;
  }

  /**
   * Open the rows that weigh most, as long as there are no more than so many visible ones.
   * @param {number} most @param {(row: number) => number} weight 0 for rows that stay closed
   */
  openHeaviest(most, weight) {
    this.refresh();
    const waiting = this.visible.filter((row) => weight(row) > 0);
    let count = this.visible.length;
    while (waiting.length && count < most) {
      waiting.sort((a, b) => weight(a) - weight(b));
      const row = /** @type {number} */ (waiting.pop());
      const more = this.added(row);
      if (this.isOpen[row] || count + more > most) continue;
      this.isOpen[row] = 1;
      count += more;
      for (const child of this.children(row)) if (weight(child) > 0) waiting.push(child);
    }
    this.refresh();
  }

  /** Open one level more everywhere. */
  openLevel() {
    for (const row of this.visible) this.isOpen[row] = 1;
    this.refresh();
  }
}

/** @param {number[]} rows @param {Float64Array} keys @param {boolean} isReversed @returns {number[]} */
function sortedRows(rows, keys, isReversed) {
  const known = rows.filter((row) => !Number.isNaN(keys[row]));
  const unknown = rows.filter((row) => Number.isNaN(keys[row]));
  known.sort((a, b) => keys[b] - keys[a] || a - b);
  if (isReversed) known.reverse();
  return [...known, ...unknown];
}
