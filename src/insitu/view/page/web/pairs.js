// Two runs side by side: each call beside its counterpart, what is the same folded, causes marked.

const SIGNS = {
  same: "=", close: "≈", follows: "~", structure: "≠", differs: "✗", argument: "✗", raised: "✗", "only in a": "−", "only in b": "+",
};
const QUIET = new Set(["same", "close", "follows"]);
const SHOWN_AFTER = 2; // quiet pairs that stay visible after a difference, so that one sees where it is
const SHOWN_BEFORE = 3;

/** @typedef {{pair: number, count?: number, follows?: number, close?: number}} Item a pair, or a fold of so many */

class Pairs {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.pair = data.pair;
    this.size = data.pair.status.length;
    /** @type {Item[]} */
    this.items = [];
    /** @type {number[]} */
    this.depth = [];
    this.itemOfRow = new Int32Array(data.row.id.length).fill(-1);
    this.itemOfPair = new Int32Array(this.size);
    this.fold();
    this.tree = new RowTree(this.depth, new Uint8Array(this.depth.length).fill(1));
    const rows = data.diff.causes.map((cause) => cause[4] || cause[5]);
    this.causeItems = rows.map((row) => (row ? this.itemOfRow[row - 1] : -1));
    this.firstCause = this.causeItems.find((item) => item >= 0) ?? -1;
    const others = data.diff.causes.flatMap((cause) => cause[7]).map((row) => this.itemOfRow[row - 1]);
    this.everyCause = new Set([...this.causeItems, ...others].filter((item) => item >= 0));
  }

  /** @param {number} pair */
  status(pair) {
    return this.data.diff.statuses[this.pair.status[pair]];
  }

  /** Make the items: runs of quiet pairs are in folds, but for a few beside what differs. */
  fold() {
    let start = 0;
    while (start < this.size) {
      let end = start;
      while (end < this.size && QUIET.has(this.status(end))) end++;
      this.addQuiet(start, end);
      if (end < this.size) this.addItem({ pair: end++ }, 0);
      start = end;
    }
  }

  /** Add a run of quiet pairs. @param {number} start @param {number} end */
  addQuiet(start, end) {
    const from = start ? Math.min(end, start + SHOWN_AFTER) : 0;
    const to = end < this.size ? Math.max(from, end - SHOWN_BEFORE) : end;
    const count = to - from;
    for (let pair = start; pair < end; pair++) {
      if (pair === from && count > 1) this.addItem(this.foldOf(from, to), 0);
      const isInside = count > 1 && pair >= from && pair < to;
      this.addItem({ pair }, isInside ? 1 : 0);
    }
  }

  /** @param {number} from @param {number} to @returns {Item} */
  foldOf(from, to) {
    const item = { pair: from, count: to - from, follows: 0, close: 0 };
    for (let pair = from; pair < to; pair++) {
      if (this.status(pair) === "follows") item.follows += 1;
      if (this.status(pair) === "close") item.close += 1;
    }
    return item;
  }

  /** @param {Item} item @param {number} depth */
  addItem(item, depth) {
    const rows = item.count ? [] : [this.pair.a[item.pair], this.pair.b[item.pair]];
    for (const row of rows) if (row) this.itemOfRow[row - 1] = this.items.length;
    if (!item.count) this.itemOfPair[item.pair] = this.items.length;
    this.items.push(item);
    this.depth.push(depth);
  }

  /** Whether a pair is worth a stop. @param {number} item */
  isDifference(item) {
    return !this.items[item].count && !QUIET.has(this.status(this.items[item].pair));
  }

  /** The rows of an item. @param {number} item @returns {number[]} */
  rows(item) {
    const { pair, count } = this.items[item];
    return count ? [] : [this.pair.a[pair] - 1, this.pair.b[pair] - 1].filter((row) => row >= 0);
  }

  /** How large the difference of a pair is, as view/headline.py has it: `relative ≥ 0.25`, or what else is known. */
  sizeText(/** @type {number} */ pair) {
    const isTwo = this.pair.a[pair] > 0 && this.pair.b[pair] > 0;
    const isShown = isTwo || this.everyCause.has(this.itemOfPair[pair]);
    if (!isShown || this.status(pair) === "same") return "";
    const relative = this.relativeText(pair);
    return relative ? `relative ${relative}` : this.deltaText(pair);
  }

  /** The relative error of a pair, if there is a finite one. @param {number} pair */
  relativeText(pair) {
    const size = this.pair.relative[pair];
    const isKnown = this.data.texts[this.pair.measure[pair]] && size > 0 && Number.isFinite(size);
    if (!isKnown) return "";
    return `${this.pair.is_bound[pair] ? "≥ " : ""}${digits(size)}`;
  }

  /** The difference itself, and what it is the difference of. @param {number} pair */
  deltaText(pair) {
    const size = this.pair.delta[pair];
    const measure = this.data.texts[this.pair.measure[pair]];
    if (!measure || size === 0) return "";
    if (Number.isFinite(size)) return `${measure} ${digits(size)}`;
    return this.pair.relative[pair] === Infinity ? "NaN or Inf in one run only" : measure;
  }
}

/** Write an item into its row. @param {App} app @param {HTMLElement[]} cells @param {number} item @param {HTMLElement} element */
function paintPair(app, cells, item, element) {
  const { pairs, tree } = app;
  const { pair, count } = pairs.items[item];
  element.classList.add(count ? "s-fold" : `s-${pairs.status(pair).replaceAll(" ", "-")}`);
  element.classList.toggle("cause", pairs.everyCause.has(item));
  element.classList.toggle("hit", app.hits.count(item, item + 1) > 0);
  cells[0].style.paddingLeft = `${8 + tree.depth[item] * 14}px`;
  if (count) paintFold(app, cells, item);
  else paintBoth(app, cells, item);
}

/** @param {App} app @param {HTMLElement[]} cells @param {number} item */
function paintFold({ pairs, tree, hits }, cells, item) {
  const inside = tree.isOpen[item] ? 0 : hits.count(item + 1, tree.end[item]);
  const marks = inside ? [make("span", "tag blue", counted(inside, "hit"))] : [];
  const what = make("span", "what", pairFoldText(pairs.items[item]));
  cells[0].replaceChildren(...spaced([twisty(tree, item), what, ...marks]));
  for (const cell of cells.slice(1)) cell.replaceChildren();
}

/** @param {App} app @param {HTMLElement[]} cells @param {number} item */
function paintBoth({ pairs, calls, tree }, cells, item) {
  const { pair } = pairs.items[item];
  const status = pairs.status(pair);
  const [a, b] = [pairs.pair.a[pair] - 1, pairs.pair.b[pair] - 1];
  const paths = new Set([a, b].filter((row) => row >= 0).map((row) => calls.path(row)));
  const sign = make("span", "sign", SIGNS[status] ?? "?");
  cells[0].replaceChildren(...spaced([twisty(tree, item), sign, make("b", "path", [...paths].join(" → "))]));
  paintSide(calls, a, cells[1]);
  paintSide(calls, b, cells[2]);
  const mark = pairs.everyCause.has(item) ? [make("span", "tag red", item === pairs.firstCause ? "first cause" : "cause")] : [];
  const what = [pairs.sizeText(pair), calls.texts[pairs.pair.what[pair]]].filter(Boolean).join("  ");
  cells[3].replaceChildren(...spaced([...mark, make("span", "", what || (status === "same" ? "" : status))]));
  cells[3].title = what;
}

/** One side of a pair. @param {Calls} calls @param {number} row @param {HTMLElement} cell */
function paintSide(calls, row, cell) {
  if (row < 0) {
    cell.replaceChildren(make("span", "dim", "(not there)"));
    return;
  }
  const raised = calls.row.raised[row];
  const text = raised ? `✗ raised ${calls.texts[raised]}` : calls.texts[calls.row.output[row]];
  const what = make("span", `what k-${KINDS[calls.row.kind[row]]}`, calls.label(row));
  const returned = make("span", raised ? "red" : "out", text);
  cell.replaceChildren(...spaced([what, returned, make("span", "dim", calls.spreadText(row))]));
}

/** How many pairs are folded, and how close they are. @param {Item} item */
function pairFoldText({ count = 0, follows = 0, close = 0 }) {
  const same = count - follows - close;
  const texts = [
    follows ? `${many(follows)} ${follows === 1 ? "differs" : "differ"} because of what came before` : "",
    close ? `${many(close)} equal within the tolerance` : "",
    same ? `${many(same)} same` : "",
  ];
  return `${foldSign(follows, close)}  ${texts.filter(Boolean).join(", ")}`;
}

/** @param {number} follows @param {number} close */
function foldSign(follows, close) {
  if (follows) return SIGNS.follows;
  return close ? SIGNS.close : SIGNS.same;
}
