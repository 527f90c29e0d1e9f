// The strip of all calls in order.

const MINIMAP = 34; // pixels
const SHORTEST_BAR = 4;
const LONGEST_BAR = 24;

/** All calls from left to right: how long they took themselves, red where something is wrong. */
class Minimap {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = at("minimap");
    this.width = 0;
    this.times = new Float64Array(0);
    this.isWrong = new Uint8Array(0);
    /** @type {{row: number, step: number}[]} */
    this.steps = [];
    /** @type {Hits|null} the hits that `ticks` shows */
    this.hits = null;
    /** @type {number[]} */
    this.ticks = [];
    /** @type {{x: number, width: number}} the part that the table shows */
    this.box = { x: 0, width: 0 };
    this.isBoxDragged = false;
    this.dragX = 0;
    listenToDrag(this.canvas, {
      onPress: (event) => this.press(event.offsetX),
      onClick: (x) => this.app.go(this.rowAt(x), "moved"),
      onDrag: (x) => this.drag(x),
    });
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  onRows() {
    this.paint();
  }

  onSelect() {
    this.paint();
  }

  onColours() {
    this.paint();
  }

  /** @param {number} x @returns {number} */
  rowAt(x) {
    const { size } = this.app.calls;
    return Math.max(0, Math.min(Math.floor((x / this.canvas.clientWidth) * size), size - 1));
  }

  /** @param {number} row */
  x(row) {
    return (row / this.app.calls.size) * this.width;
  }

  /** @param {number} x */
  isInBox(x) {
    if (!this.app.grid.box.clientHeight) return false;
    return x >= this.box.x - 4 && x <= this.box.x + this.box.width + 4;
  }

  /** @param {number} x */
  press(x) {
    this.isBoxDragged = this.isInBox(x);
    this.dragX = this.isBoxDragged ? this.box.x : x;
  }

  /** Move the box, and the table with it; beside the box, select what is below the pointer. @param {number} by pixels */
  drag(by) {
    this.dragX += by;
    const row = this.rowAt(this.dragX);
    if (this.isBoxDragged) this.scrollTo(row);
    else this.app.go(row, "moved");
  }

  /** @param {number} row */
  scrollTo(row) {
    const { tree, grid } = this.app;
    const position = tree.position(tree.standIn(row));
    if (position >= 0) grid.box.scrollTop = position * ROW;
  }

  /** Sum up the times of the rows below each bar. @param {number} width */
  sumUp(width) {
    if (this.width === width) return;
    const { calls } = this.app;
    const { row, size } = calls;
    const count = Math.min(Math.ceil(width), size);
    this.width = width;
    this.hits = null;
    this.times = new Float64Array(count);
    this.isWrong = new Uint8Array(count);
    this.steps = [];
    for (let i = 0; i < size; i++) {
      const bar = Math.floor((i / size) * count);
      if (row.kind[i] === STEP) this.steps.push({ row: i, step: row.step[i] });
      else this.times[bar] += Math.max(0, row.duration[i] - 1 - row.inside[i]);
      if (calls.isBad(i)) this.isWrong[bar] = 1;
    }
  }

  paint() {
    const { calls, inks: ink } = this.app;
    if (!calls.size || !this.canvas.clientWidth) return;
    const { pen, width } = cleared(this.canvas, MINIMAP);
    this.sumUp(width);
    this.paintStep(pen, ink);
    this.paintBars(pen, ink);
    this.paintHits(pen, ink);
    this.paintNumbers(pen, ink);
    this.paintBox(pen, ink);
  }

  /** The selected step has another background. @param {CanvasRenderingContext2D} pen */
  paintStep(pen, ink) {
    const { flame, tree } = this.app;
    if (flame.step < 0) return;
    const left = this.x(flame.step);
    pen.fillStyle = ink.select;
    pen.fillRect(left, 0, Math.max(2, this.x(tree.end[flame.step]) - left), MINIMAP);
  }

  /** @param {CanvasRenderingContext2D} pen */
  paintBars(pen, ink) {
    const { times, width } = this;
    const most = Math.log1p(times.reduce((a, b) => Math.max(a, b), 0)) || 1;
    const wide = width / times.length;
    for (let bar = 0; bar < times.length; bar++) {
      const height = SHORTEST_BAR + (Math.log1p(times[bar]) / most) * (LONGEST_BAR - SHORTEST_BAR);
      pen.fillStyle = this.isWrong[bar] ? ink.red : ink.faint;
      pen.fillRect(bar * wide, MINIMAP - 2 - height, wide > 4 ? wide - 1 : wide, height);
    }
  }

  /** @param {CanvasRenderingContext2D} pen */
  paintHits(pen, ink) {
    const { hits } = this.app;
    if (this.hits !== hits) {
      this.hits = hits;
      this.ticks = [...new Set(hits.found.map((item) => Math.floor(this.x(this.app.rowOf(item)))))];
    }
    pen.fillStyle = ink.accent;
    for (const x of this.ticks) pen.fillRect(x, 0, 2, 5);
  }

  /** The numbers of the steps, where there is room. @param {CanvasRenderingContext2D} pen */
  paintNumbers(pen, ink) {
    const steps = this.steps.length > 1 ? this.steps : [];
    pen.textBaseline = "top";
    let free = 0;
    for (const { row, step } of steps) {
      const x = this.x(row);
      const isSelected = row === this.app.flame.step;
      pen.fillStyle = ink.line;
      pen.fillRect(x, 0, 1, MINIMAP);
      if (!isSelected && (x < free || x > this.width - 40)) continue;
      pen.font = `${isSelected ? "700 " : ""}10px ui-monospace, monospace`;
      pen.fillStyle = ink.text;
      pen.fillText(String(step), x + 3, 1);
      free = x + 30;
    }
  }

  /** The part that the table shows, where there is a table. @param {CanvasRenderingContext2D} pen */
  paintBox(pen, ink) {
    const { grid } = this.app;
    if (!grid.box.clientHeight) return;
    const [first, last] = grid.range;
    this.box = { x: this.x(first), width: Math.max(3, this.x(last) - this.x(first)) };
    pen.strokeStyle = ink.text;
    pen.lineWidth = 1;
    pen.strokeRect(this.box.x + 0.5, 0.5, this.box.width, MINIMAP - 1);
  }
}
