// What a search found.

/** Which rows were found, and how many before each row. */
class Hits {
  /** @param {number} size of the table */
  constructor(size) {
    /** @type {number[]} */
    this.found = [];
    this.before = new Uint32Array(size + 1);
    this.query = "";
  }

  /** @param {number} size @param {(item: number) => boolean} holds */
  static of(size, holds) {
    const hits = new Hits(size);
    for (let item = 0; item < size; item++) {
      hits.before[item] = hits.found.length;
      if (holds(item)) hits.found.push(item);
    }
    hits.before[size] = hits.found.length;
    return hits;
  }

  /** Hits at rows that represent others: a row may have several. @param {Uint32Array} counts */
  static ofCounts(counts) {
    const hits = new Hits(counts.length);
    let total = 0;
    counts.forEach((count, item) => {
      hits.before[item] = total;
      total += count;
      if (count) hits.found.push(item);
    });
    hits.before[counts.length] = total;
    return hits;
  }

  /** How many there are from one item up to another. @param {number} start @param {number} end */
  count(start, end) {
    return this.before[end] - this.before[start];
  }

  /** Whether an item is one of them. @param {number} item */
  has(item) {
    return this.count(item, item + 1) > 0;
  }

  /** The next one after an item, or before it, around the end if need be. @param {number} item @param {number} by */
  next(item, by) {
    const { found } = this;
    if (!found.length) return -1;
    const place = by > 0 ? this.before[item + 1] ?? 0 : this.before[Math.max(item, 0)] - 1;
    return found[(place + found.length) % found.length];
  }
}
