// Two runs side by side: each call beside its like, what is the same folded away, causes marked.

const SIGNS = {
  same: "=", close: "≈", follows: "~", structure: "≠", differs: "✗", argument: "✗", raised: "✗", "only in a": "−", "only in b": "+",
};
const QUIET = new Set(["same", "close", "follows"]);

/** @typedef {{pair: number, count?: number, follows?: number, close?: number}} Item a pair, or a fold of so many */

class Pairs {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.pair = data.pair;
    this.size = data.pair.status.length;
    /** @type {Item[]} */
    this.items = [];
    this.itemOfRow = new Int32Array(data.row.id.length).fill(-1);
    const depth = this.folded();
    this.tree = new RowTree(depth, new Uint8Array(depth.length).fill(1));
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

  /** The items and their depths: pairs that tell nothing new lie in folds. */
  folded() {
    /** @type {number[]} */
    const depth = [];
    const add = (/** @type {Item} */ item, level) => {
      const rows = item.count ? [] : [this.pair.a[item.pair], this.pair.b[item.pair]];
      for (const row of rows) if (row) this.itemOfRow[row - 1] = this.items.length;
      this.items.push(item);
      depth.push(level);
    };
    for (let start = 0; start < this.size; ) {
      let end = start, follows = 0, close = 0;
      while (end < this.size && QUIET.has(this.status(end))) end++;
      // A few of them stay beside what differs, so that one sees where it is.
      const from = start ? Math.min(end, start + 2) : 0, to = end < this.size ? Math.max(from, end - 3) : end;
      const count = to - from;
      for (let pair = from; pair < to; pair++) {
        follows += Number(this.status(pair) === "follows");
        close += Number(this.status(pair) === "close");
      }
      for (let pair = start; pair < end; pair++) {
        if (pair === from && count > 1) add({ pair, count, follows, close }, 0);
        add({ pair }, count > 1 && pair >= from && pair < to ? 1 : 0);
      }
      if (end < this.size) add({ pair: end++ }, 0);
      start = end;
    }
    return depth;
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

  /** How large a difference is, of a pair or of a cause. @param {number} item */
  delta(item) {
    const { pair } = this.items[item];
    const size = this.pair.delta[pair], measure = this.data.texts[this.pair.measure[pair]];
    const isTwo = this.pair.a[pair] > 0 && this.pair.b[pair] > 0;
    if (!measure || size === 0 || this.status(pair) === "same" || !(isTwo || this.everyCause.has(item))) return "";
    return Number.isNaN(size) ? measure : `${measure} ${digits(size)}`;
  }
}

/** @param {App} app @param {HTMLElement[]} cells @param {number} item @param {HTMLElement} element */
function paintPair(app, cells, item, element) {
  const { pairs, calls, tree } = app;
  const { pair, count } = pairs.items[item];
  const status = pairs.status(pair);
  const isCause = pairs.everyCause.has(item);
  element.classList.add(count ? "s-fold" : `s-${status.replaceAll(" ", "-")}`);
  element.classList.toggle("cause", isCause);
  element.classList.toggle("hit", app.hits.count(item, item + 1) > 0);
  cells[0].style.paddingLeft = `${8 + tree.depth[item] * 14}px`;
  if (count) {
    const inside = tree.isOpen[item] ? 0 : app.hits.count(item + 1, tree.end[item]);
    const marks = inside ? [make("span", "tag blue", `${many(inside)} ${inside === 1 ? "hit" : "hits"}`)] : [];
    cells[0].replaceChildren(...spaced([twisty(tree, item), make("span", "what", foldText(pairs.items[item])), ...marks]));
    for (const cell of cells.slice(1)) cell.replaceChildren();
    return;
  }
  const sign = make("span", "sign", SIGNS[status] ?? "?");
  const [a, b] = [pairs.pair.a[pair] - 1, pairs.pair.b[pair] - 1];
  const paths = new Set([a, b].filter((row) => row >= 0).map((row) => calls.path(row)));
  cells[0].replaceChildren(...spaced([twisty(tree, item), sign, make("b", "path", [...paths].join(" → "))]));
  side(calls, a, cells[1]);
  side(calls, b, cells[2]);
  const mark = isCause ? [make("span", "tag red", item === pairs.firstCause ? "first cause" : "cause")] : [];
  const what = [calls.data.texts[pairs.pair.what[pair]], pairs.delta(item)].filter(Boolean).join("  ");
  cells[3].replaceChildren(...spaced([...mark, make("span", "", what || (status === "same" ? "" : status))]));
}

/** @param {Item} item */
function foldText({ count = 0, follows = 0, close = 0 }) {
  const same = count - follows - close;
  const texts = [
    follows ? `${many(follows)} ${follows === 1 ? "differs" : "differ"} because of what came before` : "",
    close ? `${many(close)} equal within the tolerance` : "",
    same ? `${many(same)} same` : "",
  ];
  return `${follows ? "~" : close ? "≈" : "="}  ${texts.filter(Boolean).join(", ")}`;
}

/** One side of a pair. @param {Calls} calls @param {number} row @param {HTMLElement} cell */
function side(calls, row, cell) {
  if (row < 0) return void cell.replaceChildren(make("span", "dim", "(not there)"));
  const raised = calls.row.raised[row];
  const text = raised ? `✗ raised ${calls.data.texts[raised]}` : calls.data.texts[calls.row.output[row]];
  const what = make("span", `what k-${KINDS[calls.row.kind[row]]}`, calls.label(row));
  const made = make("span", raised ? "red" : "out", text);
  cell.replaceChildren(...spaced([what, made, make("span", "dim", calls.spreadText(row))]));
}

/** What comparing found, above the table. @param {App} app */
function verdict(app) {
  const { diff } = app.calls.data, { pairs } = app;
  const parts = [];
  if (diff.agreement) parts.push(make("p", "calm", diff.agreement));
  diff.causes.slice(0, 5).forEach((cause, k) => {
    const [kind, why, followers, certainty, , , effect, again] = cause, item = pairs.causeItems[k];
    const row = (cause[4] || cause[5]) - 1;
    const name = row >= 0 && item >= 0 ? `${app.calls.path(row)} ${app.calls.label(row)}`.trim() : "";
    const differ = followers === 1 ? "call differs" : "calls differ";
    const after = followers ? `${many(followers)} ${differ} because of it · ` : "";
    const words = [make("span", "tag red", k ? "cause" : "first cause"), name ? link(app, row, name) : make("b", "", kind)];
    if (again.length) words.push(make("b", "", `× ${many(again.length + 1)}`));
    const lost = effect === "lost" ? "its effect is lost on the way · " : "";
    words.push(make("span", "", why), make("span", "dim", `${lost}${after}known from ${certainty}`));
    parts.push(make("p", "", ...spaced(words)));
  });
  const left = diff.causes.length - 5;
  if (left > 0) parts.push(make("p", "dim", `… ${many(left)} causes more: n goes to the next`));
  parts.push(...diff.remarks.map((remark) => make("p", "", `! ${remark}`)));
  at("verdict").replaceChildren(...parts);
  at("verdict").hidden = false;
}

/** @param {App} app @param {number} item @returns {HTMLElement[]} */
function pairDetails(app, item) {
  const { pairs } = app, { diff } = app.calls.data;
  const { pair, count } = pairs.items[item];
  if (count) return [make("h2", "", foldText(pairs.items[item])), make("p", "facts", "open it to see each: l or →")];
  const status = pairs.status(pair), cause = pairs.pair.cause[pair];
  const parts = [make("h2", "", `${SIGNS[status] ?? ""} ${status}`)];
  const { texts } = app.calls.data;
  const what = [texts[pairs.pair.what[pair]], pairs.delta(item), `compared by ${texts[pairs.pair.certainty[pair]]}`];
  parts.push(make("p", "facts", what.filter(Boolean).join(" · ")));
  if (cause) parts.push(make("p", pairs.everyCause.has(item) ? "alarm" : "facts", diff.causes[cause - 1][1]));
  [pairs.pair.a, pairs.pair.b].forEach((side, k) => {
    const row = side[pair] - 1;
    const inner = row >= 0 ? details(app, row) : [make("p", "dim", "no such call")];
    parts.push(make("div", "side", make("p", "label", diff.labels[k]), ...inner));
  });
  return parts;
}
