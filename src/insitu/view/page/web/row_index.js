// Rows by a number that they refer to.

/** For each key, the rows that refer to it, in order. */
class RowIndex {
  /**
   * @param {number} size how many keys there are
   * @param {(add: (key: number, row: number) => void) => void} visit calls `add` for each reference, by ascending rows
   */
  constructor(size, visit) {
    const counts = new Uint32Array(size);
    visit(once(size, (key) => counts[key]++));
    this.starts = offsets(counts);
    this.rows = new Uint32Array(this.starts[size]);
    const next = this.starts.slice();
    visit(once(size, (key, row) => {
      this.rows[next[key]++] = row;
    }));
  }

  /** The rows of a key. @param {number} key @returns {number[]} */
  get(key) {
    return Array.from(this.rows.subarray(this.starts[key], this.starts[key + 1]));
  }
}

/** A function that passes on each pair of a key and a row once: a row may refer to a key several times. */
function once(/** @type {number} */ size, /** @type {(key: number, row: number) => void} */ add) {
  const last = new Int32Array(size).fill(-1);
  return (/** @type {number} */ key, /** @type {number} */ row) => {
    if (last[key] === row) return;
    last[key] = row;
    add(key, row);
  };
}
