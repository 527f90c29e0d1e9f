// What the rows are sorted by: a number for each row, the largest first.

/**
 * @typedef {object} SortKey
 * @property {(calls: Calls, row: number) => number} of the number of one row; NaN where it is not known
 * @property {"sum"|"largest"} join how the numbers of folded rows become one; with "largest" also those inside a row
 */

/** By the class of the column. @type {Record<string, SortKey>} */
const SORT_KEYS = {
  "c-output": { of: (calls, row) => calls.outputBytes(row) || NaN, join: "largest" },
  "c-values": { of: (calls, row) => calls.largestValue(row), join: "largest" },
  "c-min-max": { of: (calls, row) => calls.largestValue(row), join: "largest" },
  "c-time": { of: (calls, row) => calls.row.duration[row] || NaN, join: "sum" },
};

/**
 * The numbers by which a column sorts, at the rows that represent others. A row with a large output deep inside comes
 * first, so that the first row of each level leads to it.
 * @param {Calls} calls @param {RowTree} tree @param {SortKey} key @returns {Float64Array}
 */
function sortNumbers(calls, tree, { of, join }) {
  const own = new Float64Array(tree.size);
  for (let row = 0; row < tree.size; row++) own[row] = of(calls, row);
  if (join === "largest") spreadOutward(own, tree);
  const add = join === "sum" ? (a, b) => a + b : Math.max;
  const { standIns } = tree;
  const found = new Float64Array(tree.size).fill(NaN);
  for (let row = 0; row < tree.size; row++) found[standIns[row]] = joinedNumber(found[standIns[row]], own[row], add);
  return found;
}

/** Give each row the largest number of the rows inside it. @param {Float64Array} numbers @param {RowTree} tree */
function spreadOutward(numbers, tree) {
  for (let row = tree.size - 1; row >= 0; row--) {
    const parent = tree.parent[row];
    if (parent >= 0) numbers[parent] = joinedNumber(numbers[parent], numbers[row], Math.max);
  }
}

/**
 * Two numbers, either of which may be unknown, as one.
 * @param {number} a @param {number} b @param {(a: number, b: number) => number} add
 */
function joinedNumber(a, b, add) {
  if (Number.isNaN(a)) return b;
  return Number.isNaN(b) ? a : add(a, b);
}
