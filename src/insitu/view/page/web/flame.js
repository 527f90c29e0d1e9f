// The calls of a step over time.

const AXIS = 18; // pixels
const LANES = { flame: 20, strip: 16 }; // pixels of a call: in a view of its own, and below the tree
const NARROWEST = 0.7; // pixels of a call that is drawn

/**
 * The calls of one thread. `base` is the depth of the outermost of them, `top` the first lane.
 * @typedef {{thread: number, base: number, depth: number, top: number}} Band
 * @typedef {{left: number, right: number, row: number}} FlameBox
 */

/** The calls of a step, each as wide as it took and below the one that called it; each thread has a band. */
class Flame {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = at("flame");
    /** @type {[number, number]} the rows that are shown */
    this.range = [-1, -1];
    this.step = -1; // the row of the step, if there is one
    /** @type {Map<number, Band>} by thread */
    this.bands = new Map();
    this.lanes = 0;
    this.window = new TimeWindow(0, 1);
    /** @type {FlameBox[][]} by lane */
    this.boxes = [];
    this.isWaiting = false;
    this.listen();
  }

  listen() {
    const { canvas } = this;
    listenToDrag(canvas, {
      onClick: (x, y) => this.pick(x, y, (row) => this.app.go(row, "moved")),
      onDrag: (x, y) => this.drag(x, y),
    });
    canvas.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => this.onDoubleClick(event));
    canvas.addEventListener("wheel", (/** @type {WheelEvent} */ event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => hideTip());
    at("zoom-in").onclick = () => this.zoom(0.5);
    at("zoom-out").onclick = () => this.zoom(2);
    at("unzoom").onclick = () => this.reset();
    new ResizeObserver(() => this.soon()).observe(at("flamebox"));
  }

  onColours() {
    this.soon();
  }

  onView() {
    this.soon();
  }

  /** Show the calls around a row. @param {number} row */
  onSelect(row) {
    if (this.app.pairs) return;
    const { tree, calls } = this.app;
    const [root = row] = row >= 0 ? tree.ancestors(row) : [];
    const isInStep = row >= 0 && calls.row.kind[root] === STEP;
    this.step = isInStep ? root : -1;
    this.showRange(isInStep ? [root + 1, tree.end[root]] : [0, calls.size]);
    this.soon();
  }

  /** @param {[number, number]} range */
  showRange(range) {
    const isSame = range[0] === this.range[0] && range[1] === this.range[1];
    if (isSame) return;
    this.range = range;
    this.findBands();
  }

  /** Find the time that the calls take, and how deep the calls of each thread are. */
  findBands() {
    const { calls, tree } = this.app;
    const { row } = calls;
    this.bands = new Map();
    let begin = Infinity;
    let finish = 0;
    for (let call = this.range[0]; call < this.range[1]; call++) {
      if (!row.duration[call]) continue;
      begin = Math.min(begin, row.start[call]);
      finish = Math.max(finish, row.start[call] + row.duration[call]);
      this.deepen(row.thread[call], tree.depth[call]);
    }
    this.window = new TimeWindow(Math.min(begin, finish), finish);
    this.stackBands();
  }

  /** Let the band of a thread include a depth of the tree. @param {number} thread @param {number} depth */
  deepen(thread, depth) {
    const band = this.bands.get(thread);
    if (!band) {
      this.bands.set(thread, { thread, base: depth, depth: depth + 1, top: 0 });
      return;
    }
    if (depth < band.base) band.base = depth;
    if (depth >= band.depth) band.depth = depth + 1;
  }

  /** Put the bands one below the other; with several threads, each has a lane for its name. */
  stackBands() {
    const named = this.bands.size > 1 ? 1 : 0;
    this.lanes = 0;
    for (const band of [...this.bands.values()].sort((a, b) => a.thread - b.thread)) {
      band.top = this.lanes + named;
      this.lanes = band.top + band.depth - band.base;
    }
  }

  // What the user does.

  /** @param {number} factor below 1: closer */
  zoom(factor, x = this.window.width / 2) {
    this.window.zoom(x, factor);
    this.soon();
  }

  reset() {
    this.window.reset();
    this.soon();
  }

  /** Stretch a call over the whole width. @param {number} row */
  focus(row) {
    const { start, duration } = this.app.calls.row;
    if (row < 0 || !duration[row]) return;
    this.window.show(start[row], start[row] + duration[row]);
    this.soon();
  }

  /** @param {WheelEvent} event */
  onWheel(event) {
    event.preventDefault();
    const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (isSideways) this.drag(-(event.deltaX || event.deltaY), 0);
    else this.zoom(1.0015 ** event.deltaY, event.offsetX);
  }

  /** @param {number} x @param {number} y pixels that the pointer has moved */
  drag(x, y) {
    this.window.pan(x);
    at("flamebox").scrollTop -= y;
    this.soon();
  }

  /** @param {MouseEvent} event */
  onDoubleClick(event) {
    const row = this.find(event.offsetX, event.offsetY);
    if (row < 0) this.reset();
    else this.focus(row);
  }

  /** @param {number} x @param {number} y @param {(row: number) => void} then */
  pick(x, y, then) {
    const row = this.find(x, y);
    if (row >= 0) then(row);
  }

  /** The call at a place, or -1. @param {number} x @param {number} y */
  find(x, y) {
    const boxes = this.boxes[Math.floor(y / this.lane)] ?? [];
    const found = boxes.filter((box) => x >= box.left && x <= box.right);
    return found.length ? found[found.length - 1].row : -1;
  }

  /** @param {PointerEvent} event */
  hover(event) {
    const row = event.buttons ? -1 : this.find(event.offsetX, event.offsetY);
    if (row < 0) hideTip();
    else showTip(event, this.tipLines(row));
  }

  /** What the tooltip of a call says. @param {number} row */
  tipLines(row) {
    const { calls } = this.app;
    const units = calls.row.duration[row] - 1;
    const share = (100 * units) / (this.window.finish - this.window.begin);
    const part = this.step >= 0 ? "the step" : "all";
    const path = calls.row.kind[row] === MODULE ? "" : calls.path(row);
    const marks = [phaseText(calls, row), ...markWords(calls, row)].filter(Boolean);
    const lines = [calls.named(row), [path, ...marks].filter(Boolean).join(" · ")];
    return [...lines, `${time(units)} · ${digits(share, 2)} % of ${part}`].filter(Boolean);
  }

  // Drawing.

  soon() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.paint();
    });
  }

  /** The height of a lane, in pixels. */
  get lane() {
    return this.app.view === "flame" ? LANES.flame : LANES.strip;
  }

  paint() {
    if (!this.canvas.clientWidth) return;
    const height = this.lanes * this.lane;
    this.canvas.style.height = `${height}px`;
    const { pen, width } = cleared(this.canvas, height);
    this.window.width = width;
    this.boxes = Array.from({ length: this.lanes }, () => []);
    pen.font = `${this.app.view === "flame" ? 12 : 11}px ui-monospace, monospace`;
    pen.textBaseline = "middle";
    this.paintCalls(pen);
    this.paintThreads(pen);
    this.paintSelected(pen);
    this.paintAxis();
    this.describe();
  }

  /** @param {CanvasRenderingContext2D} pen */
  paintCalls(pen) {
    const { calls, tree } = this.app;
    const { start, duration } = calls.row;
    const { window: shown } = this;
    let call = this.range[0];
    while (call < this.range[1]) {
      if (!duration[call]) {
        call++;
        continue;
      }
      const left = shown.x(start[call]);
      const right = shown.x(start[call] + duration[call]);
      const isOutside = left > shown.width || right < 0;
      const isTiny = right - left < NARROWEST;
      if (!isOutside) this.paintBox(pen, call, left, right);
      call = isOutside || isTiny ? tree.end[call] : call + 1; // what is inside is as far away, and as small
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {number} row @param {number} left @param {number} right */
  paintBox(pen, row, left, right) {
    const lane = this.laneOf(row);
    const boxes = this.boxes[lane];
    const before = boxes[boxes.length - 1];
    const isHidden = right - left < NARROWEST && before && left - before.left < NARROWEST;
    if (isHidden) return;
    boxes.push({ left, right: Math.max(right, left + 1), row });
    const [from, to] = [Math.max(left, 0), Math.min(right, this.window.width)];
    drawCall(pen, this.app, row, { x: from, y: lane * this.lane, width: Math.max(to - from, 0.8), height: this.lane - 1 });
  }

  /** @param {number} row */
  laneOf(row) {
    const { calls, tree } = this.app;
    const band = /** @type {Band} */ (this.bands.get(calls.row.thread[row]));
    return band.top + tree.depth[row] - band.base;
  }

  /** The names of threads, where there are several. @param {CanvasRenderingContext2D} pen */
  paintThreads(pen) {
    if (this.bands.size < 2) return;
    const { inks: ink } = this.app;
    for (const band of this.bands.values()) {
      const y = (band.top - 1) * this.lane;
      pen.fillStyle = ink.line;
      pen.fillRect(0, y, this.window.width, 1);
      pen.fillStyle = ink.dim;
      pen.fillText(`thread ${band.thread}`, 3, y + this.lane / 2 + 1);
    }
  }

  /** A frame around the selected call, however small it is. @param {CanvasRenderingContext2D} pen */
  paintSelected(pen) {
    const { calls, selectedRow: row, inks: ink } = this.app;
    const { start, duration } = calls.row;
    const isShown = row >= this.range[0] && row < this.range[1] && duration[row] > 0;
    if (!isShown) return;
    const left = this.window.x(start[row]);
    const right = Math.max(this.window.x(start[row] + duration[row]), left + 3);
    pen.strokeStyle = ink.text;
    pen.lineWidth = 2;
    pen.strokeRect(left, this.laneOf(row) * this.lane + 0.5, right - left, this.lane - 2);
  }

  /** The times at the top. */
  paintAxis() {
    const { pen, width } = cleared(at("axis"), AXIS);
    const { inks: ink } = this.app;
    const { begin, from, to } = this.window;
    const times = timeTicks(from - begin, to - begin, Math.max(2, Math.floor(width / 110)));
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const tick of times) {
      const x = this.window.x(begin + tick);
      pen.fillStyle = ink.faint;
      pen.fillRect(x, 4, 1, AXIS - 4);
      pen.fillStyle = ink.dim;
      pen.fillText(tickText(tick, to - begin), x + 4, AXIS / 2);
    }
  }

  /** Say which part of the run is shown. */
  describe() {
    const { calls } = this.app;
    const whole = time(this.window.finish - this.window.begin);
    const name = this.step >= 0 ? calls.label(this.step) : "all calls";
    at("flame-name").textContent = this.range[1] > this.range[0] ? `${name} · ${whole}` : "";
    at("unzoom").hidden = this.window.isWhole;
    at("unzoom").textContent = this.step >= 0 ? "whole step" : "all calls";
    this.canvas.setAttribute("aria-label", `The calls of ${name} over time`);
  }
}

/** @typedef {{x: number, y: number, width: number, height: number}} Rectangle */

/** Draw a call: the colour is its kind, or red where something begins to be wrong; a backward call is paler. */
function drawCall(
  /** @type {CanvasRenderingContext2D} */ pen, /** @type {App} */ app, /** @type {number} */ row,
  /** @type {Rectangle} */ { x, y, width, height },
) {
  const { calls, inks: ink } = app;
  const isBad = calls.isBad(row);
  const isBackward = calls.row.is_backward[row] > 0;
  const hue = flameHue(calls, row);
  pen.fillStyle = ink[isBackward ? `flame-${hue}-back` : `flame-${hue}`];
  pen.fillRect(x, y, Math.max(width - 0.5, 0.5), height);
  if (isBackward && width > 3) {
    pen.strokeStyle = ink[`flame-${hue}`];
    pen.lineWidth = 1;
    pen.strokeRect(x + 0.5, y + 0.5, width - 1.5, height - 1);
  }
  if (isBad) {
    pen.fillStyle = ink.red;
    pen.fillRect(x, y + height - 2, Math.max(width - 0.5, 0.5), 2);
  }
  const room = Math.floor((width - 6) / 6.7);
  if (room < 3) return;
  pen.fillStyle = ink.text;
  pen.fillText(boxLabel(`${isBad ? "✗ " : ""}${calls.label(row)}`, room), x + 3, y + height / 2 + 0.5);
}

/** The name of the colour of a call. @param {Calls} calls @param {number} row */
function flameHue(calls, row) {
  const isOrigin = (calls.row.odd[row] & IS_ORIGIN) > 0 && calls.isBad(row);
  if (isOrigin || calls.row.raised[row]) return "red";
  return FLAME_HUES[KINDS[calls.row.kind[row]]] ?? "other";
}

const FLAME_HUES = { module: "module", function: "function", aten: "aten", python: "python" };

/** @param {string} text @param {number} room characters */
const boxLabel = (text, room) => (text.length > room ? `${text.slice(0, room - 1)}…` : text);
