// What is drawn: bars of histograms, all calls as a strip, the calls of a step over time.

const BINS = 16;

/** @param {Data} data @param {number} number of the statistics */
function bars(data, number) {
  return Array.from({ length: BINS }, (_, k) => Math.min(15, data.stats.bars[number * BINS + k]));
}

/** Whether there is anything to draw: values that differ. @param {Data} data @param {number} number */
const hasSpread = (data, number) => number > 0 && data.stats.min[number] < data.stats.max[number];

/** The histogram of a row. @param {Data} data @param {number} number */
function sparkline(data, number) {
  const path = bars(data, number).map((height, k) => (height ? `M${k * 4} 15v${-height}h3v${height}z` : "")).join("");
  const shape = draw("path", { d: path || "M0 15" });
  return draw("svg", { viewBox: "0 0 64 16", class: "spark", "aria-hidden": "true" }, shape);
}

/**
 * The histogram of a tensor, with its ends written below.
 * @param {Data} data @param {number} number @param {boolean} isWhole
 */
function histogram(data, number, isWhole) {
  const { min, max } = data.stats;
  const shapes = bars(data, number).flatMap((height, k) =>
    height ? [draw("rect", { x: k * 20 + 1, y: 60 - height * 4, width: 18, height: height * 4 })] : []);
  if (min[number] < 0 && max[number] > 0) {
    const low = min[number] / 2, zero = (-low / (max[number] / 2 - low)) * 320; // halves: the whole may be too large
    shapes.push(draw("line", { x1: zero, x2: zero, y1: 0, y2: 60, class: "zero" }));
  }
  const look = { viewBox: "0 0 320 61", preserveAspectRatio: "none", class: "histogram", role: "img" };
  const picture = draw("svg", look, ...shapes);
  const [low, high] = [min[number], max[number]].map((end) => digits(end, 3, isWhole));
  picture.setAttribute("aria-label", `histogram from ${low} to ${high}`);
  const ends = make("div", "ends", make("span", "", low), make("span", "", high));
  return make("div", "plot", /** @type {any} */ (picture), ends);
}

/** The colours of the style, as a canvas needs them. */
function inks() {
  const names = ["text", "dim", "line", "panel", "accent", "red", "module", "function", "aten", "python", "faint"];
  const probe = document.body.appendChild(make("span"));
  const found = Object.fromEntries(names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return found;
}

/** A canvas as large as its element, cleared. @param {HTMLCanvasElement} canvas @param {number} height */
function cleared(canvas, height) {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, width * ratio);
  canvas.height = Math.max(1, height * ratio);
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  return { pen, width };
}

/** All calls from left to right: how long they took themselves, red where something is wrong. */
class Minimap {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = at("minimap");
    this.canvas.onpointerdown = (/** @type {PointerEvent} */ event) => this.go(event);
    this.canvas.onpointermove = (/** @type {PointerEvent} */ event) => event.buttons === 1 && this.go(event);
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  /** @param {PointerEvent} event */
  go(event) {
    const row = Math.floor((event.offsetX / this.canvas.clientWidth) * this.app.calls.size);
    this.app.go(Math.max(0, Math.min(row, this.app.calls.size - 1)), "moved");
  }

  /** The time of each bar, and whether something is wrong there. @param {number} width */
  buckets(width) {
    if (this.width === width) return;
    const { row, size } = this.app.calls;
    const count = Math.min(Math.ceil(width), size);
    this.width = width;
    this.times = new Float64Array(count);
    this.wrong = new Uint8Array(count);
    this.steps = [];
    for (let i = 0; i < size; i++) {
      const x = Math.floor((i / size) * count);
      if (row.kind[i] === STEP) this.steps.push([(i / size) * width, row.step[i]]);
      else this.times[x] += Math.max(0, row.duration[i] - 1 - row.inside[i]);
      if (row.odd[i] & IS_WRONG || row.raised[i]) this.wrong[x] = 1;
    }
  }

  paint() {
    const { calls, grid, hits } = this.app;
    const { pen, width } = cleared(this.canvas, 34);
    const ink = this.app.inks;
    if (!calls.size || !width) return;
    this.buckets(width);
    const most = Math.log1p(this.times.reduce((a, b) => Math.max(a, b), 0)) || 1;
    const wide = width / this.times.length;
    for (let k = 0; k < this.times.length; k++) {
      const height = 4 + (Math.log1p(this.times[k]) / most) * 20;
      pen.fillStyle = this.wrong[k] ? ink.red : ink.faint;
      pen.fillRect(k * wide, 32 - height, wide > 4 ? wide - 1 : wide, height);
    }
    pen.fillStyle = ink.accent;
    let before = -1;
    for (const row of hits.found) {
      const x = Math.floor((row / calls.size) * width);
      if (x !== before) pen.fillRect(x, 0, 2, 5);
      before = x;
    }
    this.labels(pen, ink, width);
    const [first, last] = grid.range;
    pen.strokeStyle = ink.text;
    pen.lineWidth = 1;
    pen.strokeRect((first / calls.size) * width + 0.5, 0.5, Math.max(3, ((last - first) / calls.size) * width), 33);
  }

  /** The numbers of the steps, where there is room. */
  labels(pen, ink, width) {
    pen.font = "10px ui-monospace, monospace";
    pen.textBaseline = "top";
    let free = 0;
    for (const [x, step] of this.steps.length > 1 ? this.steps : []) {
      pen.fillStyle = ink.line;
      pen.fillRect(x, 0, 1, 34);
      if (x < free || x > width - 40) continue;
      pen.fillStyle = ink.text;
      pen.fillText(String(step), x + 3, 1);
      free = x + 30;
    }
  }
}

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

  /** Show the calls around a row. @param {number} row */
  show(row) {
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
