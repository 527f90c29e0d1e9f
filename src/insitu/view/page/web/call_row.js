// A call, written into the cells of its row.

const INDENT = 14; // pixels for each level

const LARGEST_OUTPUT = "the size of the output, or of the largest inside";
const LARGEST_INSIDE = "the largest absolute value, also inside";

/** @type {Column[]} */
const CALL_COLUMNS = [
  { name: "call", kind: "c-call", least: 170, comfort: 190, most: 460, grow: 1, sorts: "order of execution" },
  { name: "output", kind: "c-output", least: 84, comfort: 140, most: 210, rank: 1, sorts: LARGEST_OUTPUT },
  { name: "values", kind: "c-values", least: 80, most: 80, rank: 5, isOptional: true, sorts: LARGEST_INSIDE },
  { name: "min … max", kind: "c-min-max", least: 104, comfort: 140, most: 210, rank: 2, sorts: LARGEST_INSIDE },
  { name: "time", kind: "c-time", least: 74, comfort: 80, most: 150, spare: 52, rank: 3, sorts: "time" },
  { name: "source", kind: "c-source", least: 76, comfort: 120, most: 220, rank: 4, isOptional: true },
];

/** The columns of a trace; those that no row has anything for are empty. @param {Data} data @returns {Column[]} */
function callColumns(data) {
  const hasValues = data.stats.min.length > 1 || largest(data.tensor.kept) > 0;
  const hint = 'values: record with keep="stats"';
  const isEmpty = {
    "c-values": data.stats.min.length <= 1,
    "c-min-max": !hasValues,
    "c-time": largest(data.row.duration) === 0,
    "c-source": data.sites.length <= 1,
  };
  return CALL_COLUMNS.map((column) => ({ ...column, isEmpty: !!isEmpty[column.kind], hint: hasValues ? "" : hint }));
}

/**
 * Write a call into its row.
 * @param {App} app @param {HTMLElement[]} cells @param {number} row @param {HTMLElement} element
 */
function paintCall(app, cells, row, element) {
  const { calls, tree } = app;
  const likes = tree.likes(row);
  const shown = calls.together(likes);
  markRow(app, row, element, shown);
  const [call, output, values, minMax, time, source] = cells;
  call.style.paddingLeft = `${8 + tree.depth[row] * INDENT}px`;
  call.replaceChildren(...spaced(callTitle(app, row, shown)));
  call.dataset.name = calls.texts[calls.row.name[row]];
  const isVariable = KINDS[calls.row.kind[row]] === "variable";
  output.replaceChildren(isVariable ? "" : shown.output, ...sizeNote(app, row));
  paintValues(app, values, row, shown);
  minMax.textContent = shown.values;
  minMax.classList.toggle("red", shown.ranges.some((range) => range.nan > 0));
  paintTime(app, time, row, shown);
  source.textContent = shown.place;
}

/** The classes of a row. @param {App} app @param {number} row @param {HTMLElement} element @param {Together} shown */
function markRow(app, row, element, shown) {
  const { calls, lineage } = app;
  element.classList.add(`k-${KINDS[calls.row.kind[row]]}`);
  element.classList.toggle("bad", shown.isBad);
  element.classList.toggle("raised", calls.row.raised[row] > 0);
  element.classList.toggle("maker", lineage.makers.has(row));
  element.classList.toggle("taker", lineage.takers.has(row));
  element.classList.toggle("hit", app.search.shownHits.has(row));
}

/** What was called: the sign to open it, the path, what it is, and marks. */
function callTitle(/** @type {App} */ app, /** @type {number} */ row, /** @type {Together} */ shown) {
  const { calls, tree } = app;
  const kind = KINDS[calls.row.kind[row]];
  const badges = tree.alike[row] > 1 ? [foldBadge(tree, row)] : [];
  const what = make("span", "what", whatText(app, row, shown));
  if (kind === "module") return [twisty(tree, row), ...modulePath(app, row), ...badges, what, ...marks(app, row, shown)];
  if (kind !== "variable") return [twisty(tree, row), what, ...badges, ...marks(app, row, shown)];
  return [twisty(tree, row), what, make("span", "held", shown.output), ...badges, ...marks(app, row, shown)];
}

/** The text of a row. @param {App} app @param {number} row @param {Together} shown */
function whatText({ calls, tree }, row, { label }) {
  const kind = KINDS[calls.row.kind[row]];
  if (kind === "step" && tree.isFolded(row)) return `${label} … ${calls.row.step[tree.last(row)]}`;
  if (kind === "variable" && isYield(calls, row)) return "yield";
  if (kind === "note") return `# ${label}`;
  return kind === "trouble" ? `! ${label}` : label;
}

/** @param {Calls} calls @param {number} row of a variable */
const isYield = (calls, row) => calls.texts[calls.row.args[row]] === "changed\tyielded";

/** The path of a module as seen from the module around it; of several, the first and the last. */
function modulePath(/** @type {App} */ { calls, tree }, /** @type {number} */ row) {
  let parent = tree.parent[row];
  while (parent >= 0 && calls.row.kind[parent] >= STEP) parent = tree.parent[parent];
  const base = parent >= 0 ? calls.path(parent) : "";
  const first = relative(calls.path(row), base);
  const last = tree.isFolded(row) ? relative(calls.path(tree.last(row)), base) : first;
  if (!first) return [];
  return [make("b", "path", first === last ? first : `${first} … ${last}`)];
}

/** What else there is to say about a row. @param {App} app @param {number} row @param {Together} shown */
function marks(app, row, shown) {
  const { calls, lineage } = app;
  const found = [];
  const phase = phaseText(calls, row);
  if (phase) found.push(make("span", "dim", phase));
  for (const word of markWords(calls, row)) found.push(make("span", "tag plain", word));
  const news = newsText(app, row, shown.rows);
  if (news) found.push(make("span", "tag red", news));
  if (lineage.makers.has(row)) found.push(make("span", "tag amber", "made by"));
  if (lineage.takers.has(row)) found.push(make("span", "tag green", "used by"));
  const inside = app.tree.isOpen[row] ? 0 : app.search.shownHits.count(row + 1, app.tree.end[row]);
  if (inside) found.push(make("span", "tag blue", counted(inside, "hit")));
  return found;
}

/** Which pass a call belongs to, unless it is the forward one. @param {Calls} calls @param {number} row */
function phaseText(calls, row) {
  if (!calls.row.is_backward[row]) return "";
  const path = calls.row.forward[row] ? calls.path(row) : "";
  return path ? `backward of ${path}` : "backward";
}

/** Words for how a call ran: recompute, compiled, vmap. @param {Calls} calls @param {number} row @returns {string[]} */
function markWords(calls, row) {
  return calls.texts[calls.row.marks[row]].split(" ").filter(Boolean);
}

/** That NaN or Inf begins in a row or inside of it, or comes in there. */
function newsText(/** @type {App} */ app, /** @type {number} */ row, /** @type {number[]} */ likes) {
  const { calls, tree } = app;
  const { odd } = calls.row;
  const name = (/** @type {number} */ flags) => (flags & HAS_NAN ? "NaN" : "Inf");
  const own = likes.filter((like) => odd[like] & IS_ORIGIN);
  const first = own.find((like) => calls.origin(like) === "begins") ?? own[0];
  if (first !== undefined) return `${name(odd[first])} ${calls.origin(first)}`;
  if (tree.isOpen[row] || !app.stops.length) return "";
  const { nonFinite } = app;
  const flagsIn = (/** @type {Hits[]} */ places) =>
    likes.reduce((flags, like) => flags | nonFinite.within(places, like, tree.end[like]), 0);
  const begun = flagsIn(nonFinite.origins);
  if (begun) return `${name(begun)} begins inside`;
  const entered = flagsIn(nonFinite.entries);
  return entered ? `${name(entered)} inside` : "";
}

/** What says that a row represents several, or that these can be folded. @param {RowTree} tree @param {number} row */
function foldBadge(tree, row) {
  const count = many(tree.alike[row]);
  const isFolded = tree.isFolded(row);
  const badge = make("span", "badge", isFolded ? `× ${count} alike` : `fold ${count}`);
  badge.dataset.do = "unfold";
  badge.title = isFolded
    ? "one row for all, with the range of all values and the sum of all times: click, or u, to see each"
    : "click, or u, to fold them again";
  return badge;
}

/** The sign that opens and closes a row. @param {RowTree} tree @param {number} row */
function twisty(tree, row) {
  if (!tree.hasChildren(row)) return make("span", "twisty");
  const sign = make("span", "twisty", tree.isOpen[row] ? "▾" : "▸");
  sign.dataset.do = "toggle";
  return sign;
}

/** The bytes of the output, while they sort the rows. @param {App} app @param {number} row */
function sizeNote(app, row) {
  const bytes = app.sorted.kind === "c-output" ? app.calls.outputBytes(row) : 0;
  return bytes ? [make("span", "dim", ` ${bytesText(bytes)}`)] : [];
}

/**
 * A time, or the sum of all that a row represents.
 * @param {App} app @param {HTMLElement} cell @param {number} row @param {Together} shown
 */
function paintTime(app, cell, row, shown) {
  const { calls, tree } = app;
  if (!calls.row.duration[row]) {
    cell.replaceChildren();
    return;
  }
  const [root = row] = tree.ancestors(row);
  const whole = root === row ? app.longest : calls.together(tree.likes(root)).time;
  const bar = make("span", "timebar");
  bar.style.width = `${Math.min(100, (100 * shown.time) / Math.max(whole, 1)).toFixed(1)}%`;
  const isSum = shown.rows.length > 1;
  const clock = make("span", "clock", `${isSum ? "Σ " : ""}${time(shown.time)}`);
  if (isSum) clock.title = `the sum of ${many(shown.rows.length)}`;
  cell.replaceChildren(make("span", "track", bar), clock);
}
