// A drag across a chart or a strip shows the steps that it went over; a click does something else.

const LEAST_DRAG = 6; // pixels, from which on a click is a range

/** @typedef {{brush: HTMLElement, canvas: HTMLCanvasElement, pane: SeriesPane, exactStepAt: (clientX: number) => number}} Dragged */

class StepDrag {
  /** @param {Dragged} subject @param {(clientX: number, clientY: number) => void} onClick */
  constructor(subject, onClick) {
    this.subject = subject;
    this.onClick = onClick;
    /** @type {number|null} where the pointer went down */
    this.start = null;
  }

  /** @param {HTMLElement} plot */
  listen(plot) {
    plot.addEventListener("pointerdown", (event) => {
      if (event.button === 0) this.start = event.clientX;
    });
    plot.addEventListener("pointermove", (event) => this.move(plot, event));
    plot.addEventListener("pointerup", (event) => this.end(event));
    plot.addEventListener("pointercancel", () => this.clear());
    plot.addEventListener("dblclick", () => this.subject.pane.view.show(null));
  }

  /** @param {PointerEvent} event */
  isFar(event) {
    return this.start !== null && Math.abs(event.clientX - this.start) >= LEAST_DRAG;
  }

  /** @param {HTMLElement} plot @param {PointerEvent} event */
  move(plot, event) {
    if (!this.isFar(event)) return;
    plot.setPointerCapture(event.pointerId);
    const { left } = this.subject.canvas.getBoundingClientRect();
    const ends = [/** @type {number} */ (this.start) - left, event.clientX - left];
    this.subject.brush.style.transform = `translateX(${Math.min(...ends)}px)`;
    this.subject.brush.style.width = `${Math.abs(ends[1] - ends[0])}px`;
  }

  /** @param {PointerEvent} event */
  end(event) {
    const { start, subject } = this;
    const isRange = this.isFar(event);
    this.clear();
    if (start === null) return;
    if (isRange) subject.pane.view.show([subject.exactStepAt(start), subject.exactStepAt(event.clientX)]);
    else this.onClick(event.clientX, event.clientY);
  }

  clear() {
    this.start = null;
    this.subject.brush.style.width = "0";
  }
}
