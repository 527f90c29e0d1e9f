// The calls of a step over time.

/** The calls of a step, each as wide as it took and below the one that made it. */
class Flame {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = at("flame");
    this.root = -2;
    /** @type {[number, number]} */
    this.range = [0, 0];
    this.zoom = -1;
    this.canvas.onclick = (/** @type {MouseEvent} */ event) => this.pick(event, (row) => app.go(row, "moved"));
    this.canvas.ondblclick = (/** @type {MouseEvent} */ event) => this.pick(event, (row) => this.focus(row));
    this.canvas.onmousemove = (/** @type {MouseEvent} */ event) => this.hover(event);
    new ResizeObserver(() => this.paint()).observe(at("flamebox"));
  }

  onColours() {
    this.paint();
  }

  /** Show the calls around a row. @param {number} row */
  onSelect(row) {
    if (this.app.pairs) return;
    const { tree, calls } = this.app;
    const [root = row] = row >= 0 ? tree.ancestors(row) : [];
    const isStep = row >= 0 && calls.row.kind[root] === STEP;
    this.root = row;
    /** @type {[number, number]} */
    const range = isStep ? [root + 1, tree.end[root]] : [0, calls.size];
    if (range[0] !== this.range[0] || range[1] !== this.range[1]) this.zoom = -1;
    this.range = range;
    this.paint();
  }

  /** Stretch a call over the whole width; twice, the step again. @param {number} row */
  focus(row) {
    this.zoom = this.zoom === row ? -1 : row;
    this.paint();
  }

  /** @param {MouseEvent} event @param {(row: number) => void} then */
  pick(event, then) {
    const row = this.find(event);
    if (row >= 0) then(row);
  }

  /** @param {MouseEvent} event */
  find(event) {
    const level = Math.floor(event.offsetY / 16);
    const found = this.boxes?.[level]?.filter((box) => event.offsetX >= box[0] && event.offsetX <= box[1]);
    return found?.length ? found[found.length - 1][2] : -1;
  }

  /** @param {MouseEvent} event */
  hover(event) {
    const row = this.find(event);
    this.canvas.title = row < 0 ? "" : `${this.app.calls.named(row)}  ${time(this.app.calls.row.duration[row] - 1)}`;
  }

  paint() {
    const { calls, tree, grid } = this.app;
    const { row } = calls;
    const [from, to] = this.range;
    const base = from < to ? tree.depth[from] : 0;
    let begin = Infinity, finish = 0, deepest = 0;
    const inside = this.zoom >= 0 ? [this.zoom, this.zoom + 1] : [from, to];
    for (let i = from; i < to; i++) deepest = row.duration[i] ? Math.max(deepest, tree.depth[i] - base + 1) : deepest;
    for (let i = inside[0]; i < inside[1]; i++) {
      if (!row.duration[i]) continue;
      begin = Math.min(begin, row.start[i]);
      finish = Math.max(finish, row.start[i] + row.duration[i]);
    }
    this.canvas.style.height = `${deepest * 16}px`;
    const { pen, width } = cleared(this.canvas, deepest * 16);
    const scale = width / Math.max(finish - begin, 1);
    /** @type {[number, number, number][][]} */
    this.boxes = Array.from({ length: deepest }, () => []);
    pen.font = "11px ui-monospace, monospace";
    pen.textBaseline = "middle";
    for (let i = from; i < to; i++) {
      if (!row.duration[i]) continue;
      const x = (row.start[i] - begin) * scale, wide = row.duration[i] * scale, level = tree.depth[i] - base;
      const boxes = this.boxes[level], before = boxes[boxes.length - 1];
      if (x > width || x + wide < 0 || (wide < 0.7 && before && x - before[0] < 0.7 && i !== grid.selected)) continue;
      boxes.push([x, x + Math.max(wide, 1), i]);
      const left = Math.max(x, 0), right = Math.min(x + wide, width);
      this.box(pen, i, left, level * 16, Math.max(right - left, 0.8), grid.selected === i);
    }
  }

  /** @param {CanvasRenderingContext2D} pen */
  box(pen, i, x, y, wide, isSelected) {
    const { row } = this.app.calls, ink = this.app.inks;
    const isWrong = row.odd[i] & IS_WRONG || row.raised[i];
    pen.fillStyle = isWrong ? ink.red : ink[KINDS[row.kind[i]]] ?? ink.dim;
    pen.globalAlpha = isSelected ? 1 : row.is_backward[i] ? 0.45 : 0.75;
    pen.fillRect(x, y, Math.max(wide - 0.5, 0.5), 15);
    pen.globalAlpha = 1;
    if (isSelected) {
      pen.strokeStyle = ink.text;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, Math.max(wide - 2, 1), 13);
    }
    const room = Math.floor((wide - 6) / 6.7);
    if (room < 3) return;
    pen.fillStyle = ink.panel;
    const text = this.app.calls.label(i);
    pen.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, x + 3, y + 8);
  }
}
