// A call, written into the cells of its row.

/**
 * Write a call into its row.
 * @param {App} app @param {HTMLElement[]} cells @param {number} i @param {HTMLElement} element
 */
function paintCall(app, cells, i, element) {
  const { calls, tree } = app;
  const { row, texts } = calls.data;
  const rows = tree.likes(i), found = calls.together(rows);
  const kind = KINDS[row.kind[i]];
  element.classList.add(`k-${kind}`);
  element.classList.toggle("bad", found.isBad);
  element.classList.toggle("raised", row.raised[i] > 0);
  element.classList.toggle("maker", app.lineage.makers.has(i));
  element.classList.toggle("taker", app.lineage.takers.has(i));
  element.classList.toggle("hit", rows.some((one) => app.hits.count(one, one + 1) > 0));
  cells[0].style.paddingLeft = `${8 + tree.depth[i] * 14}px`;
  cells[0].replaceChildren(...spaced(title(app, i)));
  cells[1].textContent = found.output;
  // A picture shows one tensor: of several calls or outputs the ranges are all that is known together.
  const number = rows.length === 1 && found.ranges.length === 1 ? calls.firstStats(i) : 0;
  cells[2].replaceChildren(...(hasSpread(calls.data, number) ? [sparkline(calls.data, number)] : []));
  cells[3].textContent = found.values;
  cells[3].title = found.values; // all of it, where it does not fit
  cells[3].classList.toggle("red", found.ranges.some((one) => one.nan > 0));
  timeCell(app, cells[4], i);
  cells[5].textContent = found.place;
  element.title = `${texts[row.name[i]]}${found.output ? `  →  ${found.output}` : ""}`;
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
  const rows = tree.likes(i);
  let text = calls.together(rows).label;
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
  if (row.marks[i]) parts.push(make("span", "dim", texts[row.marks[i]]));
  const news = newsText(app, i, rows);
  if (news) parts.push(make("span", "tag red", news));
  if (app.lineage.makers.has(i)) parts.push(make("span", "tag amber", "made by"));
  if (app.lineage.takers.has(i)) parts.push(make("span", "tag green", "used by"));
  const inside = tree.isOpen[i] ? 0 : rows.reduce((sum, one) => sum + app.hits.count(one + 1, tree.end[one]), 0);
  if (inside) parts.push(make("span", "tag blue", `${many(inside)} ${inside === 1 ? "hit" : "hits"}`));
  return parts;
}

/** That NaN or Inf begins in a row or inside of it, or comes in there. @param {App} app @param {number} i */
function newsText(app, i, /** @type {number[]} */ rows) {
  const { calls, tree } = app, { odd } = calls.row;
  const name = (flags) => (flags & HAS_NAN ? "NaN" : "Inf");
  const own = rows.filter((one) => odd[one] & IS_ORIGIN);
  const first = own.find((one) => calls.origin(one) === "begins") ?? own[0];
  if (first !== undefined) return `${name(odd[first])} ${calls.origin(first)}`;
  if (tree.isOpen[i]) return "";
  const inside = (places) => rows.reduce((flags, one) => flags | app.nonFiniteIn(places, one, tree.end[one]), 0);
  const begun = inside(app.origins), entered = inside(app.entries);
  return begun ? `${name(begun)} begins inside` : entered ? `${name(entered)} inside` : "";
}

/** What says that a row stands for several, or that these can be folded. @param {RowTree} tree @param {number} i */
function folding(tree, i) {
  const badge = make("span", "badge", tree.isFolded(i) ? `× ${many(tree.run[i])} alike` : `fold ${many(tree.run[i])}`);
  badge.dataset.do = "unfold";
  badge.title = tree.isFolded(i) ? "one for all, with the range of all values and the sum of all times: click, or u, to see each" : "click, or u, to fold them again";
  return badge;
}

/** @param {RowTree} tree @param {number} i */
function twisty(tree, i) {
  const sign = make("span", "twisty", tree.hasChildren(i) ? (tree.isOpen[i] ? "▾" : "▸") : "");
  if (tree.hasChildren(i)) sign.dataset.do = "toggle";
  return sign;
}

/** A time, or the sum of all that a row stands for. @param {App} app @param {HTMLElement} cell @param {number} i */
function timeCell(app, cell, i) {
  const { calls, tree } = app;
  const rows = tree.likes(i), { time: total } = calls.together(rows);
  if (!calls.row.duration[i]) return void cell.replaceChildren();
  const [root = i] = tree.ancestors(i);
  const whole = root === i ? app.longest : calls.together(tree.likes(root)).time;
  const bar = make("span", "timebar");
  bar.style.width = `${Math.min(100, (100 * total) / Math.max(whole, 1)).toFixed(1)}%`;
  const clock = make("span", "clock", `${rows.length > 1 ? "Σ " : ""}${time(total)}`);
  if (rows.length > 1) clock.title = `the sum of ${many(rows.length)}`;
  cell.replaceChildren(make("span", "track", bar), clock);
}
