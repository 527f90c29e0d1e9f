// What is known of calls, by the numbers of their rows, and how a call is written into its row.

class Calls {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.row = data.row;
    this.size = data.row.id.length;
    this.givenAt = offsets(data.row.taken);
    this.madeAt = offsets(data.row.returned);
    this.second = data.diff?.second ?? this.size; // the first row of the other run
    /** @type {Map<number, number>[]} the rows of each run by the ids of their events */
    this.byId = [new Map(), new Map()];
    for (let i = this.size - 1; i >= 0; i--)
      if (this.row.id[i] >= 0) this.byId[Number(i >= this.second)].set(this.row.id[i], i);
  }

  /** Where a row is found again: #e=7, or #b=7 for an event of the second run. @param {number} i */
  address(i) {
    return `#${i < this.second ? "e" : "b"}=${this.row.id[i]}`;
  }

  /** The row of an address. @param {string} address @returns {number|undefined} */
  found(address) {
    const [, run, id] = /^#([eb])=(\d+)$/.exec(address) ?? [];
    return id === undefined ? undefined : this.byId[Number(run === "b")].get(Number(id));
  }

  /** @param {number} i @returns {number[]} numbers of tensors */
  inputs(i) {
    return part(this.data.given, this.givenAt[i], this.givenAt[i + 1]);
  }

  /** @param {number} i @returns {number[]} */
  outputs(i) {
    return part(this.data.made, this.madeAt[i], this.madeAt[i + 1]);
  }

  /** The range of what rows returned, together. @param {number[]} rows */
  spread(rows) {
    const { stats, tensor } = this.data;
    const found = { min: Infinity, max: -Infinity, nan: 0, inf: 0, isKnown: false };
    for (const i of rows)
      for (const made of this.outputs(i)) {
        const number = tensor.stats[made];
        if (!number) continue;
        found.isKnown = true;
        found.nan += stats.nan[number];
        found.inf += stats.inf[number];
        if (stats.min[number] < found.min) found.min = stats.min[number];
        if (stats.max[number] > found.max) found.max = stats.max[number];
      }
    return found;
  }

  /** The number of the statistics of the first output that has them. @param {number} i */
  firstStats(i) {
    for (const made of this.outputs(i)) if (this.data.tensor.stats[made]) return this.data.tensor.stats[made];
    return 0;
  }

  /** What was kept of the first output. @param {number} i */
  kept(i) {
    const { tensor, texts } = this.data;
    const found = this.outputs(i).find((made) => tensor.kept[made]);
    return found === undefined ? "" : texts[tensor.kept[found]];
  }

  /**
   * The rows that were given each tensor, by its number, and those that were given anything a row made, by minus that
   * row's number less one: autograd hands on what a call made as another tensor.
   */
  get users() {
    if (!this._users) {
      const { same, made } = this.data.tensor;
      /** @type {Map<number, number[]>} */
      this._users = new Map();
      for (let i = 0; i < this.size; i++)
        for (const key of new Set(this.inputs(i).flatMap((given) => [same[given], -made[given]]))) {
          const rows = this._users.get(key);
          if (rows) rows.push(i);
          else this._users.set(key, [i]);
        }
    }
    return this._users;
  }

  /** The rows of the backward pass, by the row of their forward call. */
  get behind() {
    if (!this._behind) {
      /** @type {Map<number, number[]>} */
      this._behind = new Map();
      for (let i = 0; i < this.size; i++)
        if (this.row.forward[i]) {
          const forward = this.row.forward[i] - 1, rows = this._behind.get(forward);
          if (rows) rows.push(i);
          else this._behind.set(forward, [i]);
        }
    }
    return this._behind;
  }

  /** Who made what a row was given. @param {number} i */
  makers(i) {
    const rows = this.inputs(i).map((given) => this.data.tensor.made[given] - 1);
    return [...new Set(rows)].filter((made) => made >= 0 && made !== i);
  }

  /**
   * Who was given what a row returned; of calls that lie in each other the outermost.
   * @param {number} i @param {Tree} tree
   */
  takers(i, tree) {
    const keys = [-i - 1, ...this.outputs(i).map((made) => this.data.tensor.same[made])];
    const rows = keys.flatMap((key) => this.users.get(key) ?? []);
    const sorted = [...new Set(rows)].filter((user) => user < i || user >= tree.end[i]).sort((a, b) => a - b);
    let end = -1;
    return sorted.filter((user) => !(i > user && i < tree.end[user]) && user >= end && (end = tree.end[user]));
  }

  /** @param {number} i */
  path(i) {
    return this.data.modules[this.row.module[i]]?.[0] ?? "";
  }

  /** @param {number} i */
  label(i) {
    return this.data.texts[this.row.label[i]];
  }

  /** A name for links: what was called, and in which module. @param {number} i */
  named(i) {
    const path = this.path(i);
    return this.row.kind[i] === 0 && path ? `${path} ${this.label(i)}` : this.label(i);
  }

  /** @param {number} i */
  place(i) {
    const site = this.data.sites[this.row.site[i]];
    return site ? `${basename(site[0])}:${site[1]}` : "";
  }

  /** @param {number} i @returns {string} */
  spreadText(i) {
    const found = this.spread([i]);
    return found.isKnown ? rangeText(found) : this.kept(i);
  }
}

const basename = (file) => file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);

/** @param {{min: number, max: number, nan: number, inf: number}} found */
function rangeText(found) {
  const few = (n) => (n < 1e3 ? many(n) : countText(n));
  const odd = [found.nan && `${few(found.nan)} NaN`, found.inf && `${few(found.inf)} Inf`].filter(Boolean).join(", ");
  if (found.nan) return `✗ ${odd}`;
  if (!(found.min <= found.max)) return odd;
  const text = found.min === found.max ? digits(found.min) : `${digits(found.min)} … ${digits(found.max)}`;
  return odd ? `${text}, ${odd}` : text;
}

/** A path as seen from another one. @param {string} path @param {string} base */
function relative(path, base) {
  if (!base || !path.startsWith(base)) return path;
  return path.length === base.length ? "" : path[base.length] === "." ? path.slice(base.length + 1) : path;
}

/**
 * Write a call into its row.
 * @param {App} app @param {HTMLElement[]} cells @param {number} i @param {HTMLElement} element
 */
function paintCall(app, cells, i, element) {
  const { calls, tree } = app;
  const { row, texts } = calls.data;
  const rows = tree.isFolded(i) ? tree.siblings(i) : [i];
  const kind = KINDS[row.kind[i]];
  element.classList.add(`k-${kind}`);
  const isBad = rows.some((one) => row.odd[one] & IS_WRONG || row.raised[one]);
  element.classList.toggle("bad", isBad);
  element.classList.toggle("raised", row.raised[i] > 0);
  element.classList.toggle("maker", app.lineage.makers.has(i));
  element.classList.toggle("taker", app.lineage.takers.has(i));
  element.classList.toggle("hit", app.hits.count(i, i + 1) > 0);
  cells[0].style.paddingLeft = `${8 + tree.depth[i] * 14}px`;
  cells[0].replaceChildren(...spaced(title(app, i)));
  const raised = row.raised[i];
  cells[1].textContent = raised ? `✗ raised ${texts[raised]}` : texts[row.output[i]];
  const found = calls.spread(rows);
  const number = calls.firstStats(i);
  cells[2].replaceChildren(...(hasSpread(calls.data, number) ? [sparkline(calls.data, number)] : []));
  cells[3].textContent = found.isKnown ? rangeText(found) : calls.kept(i);
  cells[3].classList.toggle("red", found.nan > 0);
  timeCell(app, cells[4], rows, i);
  cells[5].textContent = calls.place(i);
  element.title = `${texts[row.name[i]]}${cells[1].textContent ? `  →  ${cells[1].textContent}` : ""}`;
}

/** What was called: the sign to open it, the path, what it is, and marks. @param {App} app @param {number} i */
function title(app, i) {
  const { calls, tree } = app;
  const { row, texts } = calls.data;
  const kind = KINDS[row.kind[i]];
  const parts = [twisty(tree, i)];
  let parent = tree.parent[i];
  while (parent >= 0 && row.kind[parent] >= STEP) parent = tree.parent[parent];
  if (kind === "module") {
    const base = parent >= 0 ? calls.path(parent) : "";
    const own = relative(calls.path(i), base);
    const other = tree.isFolded(i) ? relative(calls.path(tree.last(i)), base) : own;
    if (own) parts.push(make("b", "path", own === other ? own : `${own} … ${other}`));
  }
  let text = calls.label(i);
  if (kind === "step" && tree.isFolded(i)) text += ` … ${row.step[tree.last(i)]}`;
  if (kind === "variable") text += " =";
  if (kind === "note") text = `# ${text}`;
  if (kind === "trouble") text = `! ${text}`;
  const badge = tree.run[i] > 1 ? [folding(tree, i)] : [];
  const what = make("span", "what", text);
  parts.push(...(kind === "module" ? [...badge, what] : [what, ...badge]));
  if (kind === "variable") parts.push(make("span", "dim", texts[row.args[i]].split("\t")[1] ?? ""));
  const of = row.forward[i] && calls.path(i) ? ` of ${calls.path(i)}` : "";
  if (row.is_backward[i]) parts.push(make("span", "dim", `backward${of}`));
  const end = tree.isFolded(i) ? tree.end[tree.last(i)] : tree.end[i];
  const isNews = row.odd[i] & IS_ORIGIN;
  const begins = isNews ? row.odd[i] & (HAS_NAN | HAS_INF) : tree.isOpen[i] ? 0 : app.begun(i, end);
  const where = isNews ? "begins" : "begins inside";
  if (begins) parts.push(make("span", "tag red", `${begins & HAS_NAN ? "NaN" : "Inf"} ${where}`));
  if (app.lineage.makers.has(i)) parts.push(make("span", "tag amber", "made by"));
  if (app.lineage.takers.has(i)) parts.push(make("span", "tag green", "used by"));
  const inside = tree.isOpen[i] ? 0 : app.hits.count(i + 1, end);
  if (inside) parts.push(make("span", "tag blue", `${many(inside)} ${inside === 1 ? "hit" : "hits"}`));
  return parts;
}

/** What says that a row stands for several, or that these can be folded. @param {Tree} tree @param {number} i */
function folding(tree, i) {
  const badge = make("span", "badge", tree.isFolded(i) ? `× ${tree.run[i]} identical` : `fold ${tree.run[i]}`);
  badge.dataset.do = "unfold";
  badge.title = tree.isFolded(i) ? "one for all: click, or u, to see each" : "click, or u, to fold them again";
  return badge;
}

/** @param {Tree} tree @param {number} i */
function twisty(tree, i) {
  const sign = make("span", "twisty", tree.hasChildren(i) ? (tree.isOpen[i] ? "▾" : "▸") : "");
  if (tree.hasChildren(i)) sign.dataset.do = "toggle";
  return sign;
}

/** @param {App} app @param {HTMLElement} cell @param {number[]} rows @param {number} i */
function timeCell(app, cell, rows, i) {
  const { duration } = app.calls.row;
  let total = 0;
  for (const one of rows) total += Math.max(0, duration[one] - 1);
  if (!duration[i]) return void cell.replaceChildren();
  const [root = i] = app.tree.ancestors(i);
  const whole = root === i ? app.longest : duration[root];
  const bar = make("span", "timebar");
  bar.style.width = `${Math.min(100, (100 * total) / Math.max(whole, 1)).toFixed(1)}%`;
  cell.replaceChildren(make("span", "track", bar), make("span", "clock", time(total)));
}
