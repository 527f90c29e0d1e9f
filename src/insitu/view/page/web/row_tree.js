// The tree of rows: what is open, which siblings that are alike are folded, which rows are to be seen.

// The kinds of rows in the order of their numbers, the numbers of some, and the flags of `row.odd`: the data has them.
/** @type {string[]} */
let KINDS = [];
let MODULE = 0, PYTHON = 0, STEP = 0;
let HAS_NAN = 0, HAS_INF = 0, IS_WRONG = 0, IS_ORIGIN = 0;

/** Take the numbers of kinds and flags from the data. @param {Data} data */
function adopt({ kinds, flags }) {
  KINDS = kinds;
  [MODULE, PYTHON, STEP] = ["module", "python", "step"].map((kind) => kinds.indexOf(kind));
  ({ HAS_NAN, HAS_INF, IS_WRONG, IS_ORIGIN } = flags);
}

class RowTree {
  /** @param {Numbers} depth @param {Numbers} run how many siblings that are alike begin at a row, 0 for the others */
  constructor(depth, run) {
    const size = depth.length;
    this.size = size;
    this.depth = depth;
    this.run = run;
    this.parent = new Int32Array(size).fill(-1);
    this.end = new Int32Array(size);
    this.head = new Int32Array(size);
    this.isOpen = new Uint8Array(size);
    this.isUnfolded = new Uint8Array(size);
    /** @type {number[]} */
    this.visible = [];
    /** @type {Map<number, number[]>} */
    this.known = new Map();
    const path = [], heads = [];
    for (let i = 0; i < size; i++) {
      while (path.length > depth[i]) this.end[path.pop()] = i;
      if (path.length) this.parent[i] = path[path.length - 1];
      if (run[i]) heads[depth[i]] = i;
      this.head[i] = run[i] ? i : heads[depth[i]];
      path.push(i);
    }
    while (path.length) this.end[path.pop()] = size;
  }

  /** @param {number} i */
  hasChildren(i) {
    return this.end[i] > i + 1;
  }

  /** Whether one row stands for several now. @param {number} i */
  isFolded(i) {
    return this.run[i] > 1 && !this.isUnfolded[i];
  }

  /** Show each of the siblings that are alike, or one for all again. @param {number} i */
  toggleFold(i) {
    this.isUnfolded[i] = this.isUnfolded[i] ? 0 : 1;
    this.known.clear();
  }

  /**
   * All rows that a row stands for: its siblings, and their likes in every copy of what is folded around it. Copies
   * have the same rows, so that a like lies as far from the start of its copy.
   * @param {number} i @returns {number[]}
   */
  likes(i) {
    const known = this.known.get(i);
    if (known) return known;
    let found = [i];
    for (const row of [...this.ancestors(i), i])
      if (this.isFolded(row))
        found = found.flatMap((like) => this.siblings(row + like - i).map((one) => one + i - row));
    this.known.set(i, found);
    return found;
  }

  /** The siblings that a row stands for. @param {number} i @returns {number[]} */
  siblings(i) {
    const found = [i];
    for (let left = this.run[i] - 1, at = this.end[i]; left > 0; left--, at = this.end[at]) found.push(at);
    return found;
  }

  /** The last of the siblings that a row stands for. @param {number} i */
  last(i) {
    let at = i;
    for (let left = this.run[i] - 1; left > 0; left--) at = this.end[at];
    return at;
  }

  /** Find out anew which rows are to be seen. */
  refresh() {
    const seen = [];
    let i = 0;
    while (i < this.size) {
      if (!this.run[i] && !this.isUnfolded[this.head[i]]) {
        i = this.end[i];
        continue;
      }
      seen.push(i);
      i = this.isOpen[i] ? i + 1 : this.end[i];
    }
    this.visible = seen;
  }

  /** The place of a row among those to be seen, or -1. @param {number} i */
  position(i) {
    let low = 0, high = this.visible.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (this.visible[middle] === i) return middle;
      if (this.visible[middle] < i) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  /** @param {number} i @returns {number[]} from the outermost */
  ancestors(i) {
    const found = [];
    for (let above = this.parent[i]; above >= 0; above = this.parent[above]) found.push(above);
    return found.reverse();
  }

  /** The row to be seen that this one is, lies in, or is folded into. @param {number} i */
  standIn(i) {
    for (const row of [...this.ancestors(i), i]) {
      if (!this.run[row] && !this.isUnfolded[this.head[row]]) return this.head[row];
      if (row !== i && !this.isOpen[row]) return row;
    }
    return i;
  }

  /** Open what a row lies in. @param {number} i */
  reveal(i) {
    for (const row of [...this.ancestors(i), i]) {
      if (!this.run[row]) this.isUnfolded[this.head[row]] = 1;
      if (row !== i) this.isOpen[row] = 1;
    }
    this.known.clear();
    this.refresh();
  }

  foldAll() {
    this.isOpen.fill(0);
    this.isUnfolded.fill(0);
    this.known.clear();
    this.refresh();
  }

  /** Open all that lies in a row; where that is open already, unfold what is alike in it. @param {number} i */
  openAll(i) {
    let isNew = false;
    for (let row = i; row < this.end[i]; row++)
      if (!this.isOpen[row] && this.hasChildren(row)) isNew = !!(this.isOpen[row] = 1);
    if (!isNew) for (let row = i; row < this.end[i]; row++) this.isUnfolded[row] = 1;
    this.known.clear();
    this.refresh();
  }

  /** How many rows opening this one would add. @param {number} i */
  added(i) {
    let count = 0;
    for (let row = i + 1; row < this.end[i]; row = this.end[row]) count += this.run[row] ? 1 : 0;
    return count;
  }

  /**
   * Open the rows that weigh most, as long as there are no more than so many to be seen.
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
      for (let child = row + 1; child < this.end[row]; child = this.end[child])
        if (this.run[child] && weight(child) > 0) waiting.push(child);
    }
    this.refresh();
  }

  /** Open one level more everywhere. */
  openLevel() {
    for (const row of this.visible) this.isOpen[row] = 1;
    this.refresh();
  }
}
