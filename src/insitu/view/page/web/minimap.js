// The strip of all calls in order.

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

  onRows() {
    this.paint();
  }

  onColours() {
    this.paint();
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
