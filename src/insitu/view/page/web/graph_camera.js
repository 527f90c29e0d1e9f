// The part of the graph that is to be seen: dragging, zooming, fitting.

const LEAST_GRAPH_ZOOM = 0.08;
const MOST_GRAPH_ZOOM = 3;
const FAR_ZOOM = 0.55; // below, labels are too small to read
const VIEW_MARGIN = 14;
const GLIDE_TIME = 220; // milliseconds
const DRAG_START = 4; // pixels, below which a press is a click

class Camera {
  /** @param {HTMLElement} pane @param {SVGElement} stage what moves */
  constructor(pane, stage) {
    this.pane = pane;
    this.stage = stage;
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
    this.isTouched = false; // by the user
    this.isDragging = false;
    this.frame = 0; // of a movement
    /** @type {Map<number, PointerEvent>} */
    this.pointers = new Map();
    pane.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    pane.addEventListener("pointerdown", (event) => this.onDown(event));
    pane.addEventListener("pointermove", (event) => this.onMove(event));
    for (const name of ["pointerup", "pointercancel"])
      pane.addEventListener(name, (event) => this.onUp(/** @type {PointerEvent} */ (event)));
  }

  get width() {
    return this.pane.clientWidth;
  }

  get height() {
    return this.pane.clientHeight;
  }

  /** Width and height, as one word. */
  get size() {
    return `${this.width} × ${this.height}`;
  }

  apply() {
    this.stage.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.zoom})`);
    this.pane.classList.toggle("far", this.zoom < FAR_ZOOM);
  }

  /** The largest zoom at which a size is to be seen as a whole. @param {{width: number, height: number}} size */
  fitOf({ width, height }) {
    const across = (this.width - 2 * VIEW_MARGIN) / Math.max(1, width);
    const down = (this.height - 2 * VIEW_MARGIN) / Math.max(1, height);
    return Math.min(across, down);
  }

  /** Show all of the picture; where that is too small to read, the part around a box. */
  fit(/** @type {{width: number, height: number}} */ size, least = 0, /** @type {Box} */ box = { x: 0, y: 0, ...size }) {
    this.cancel();
    this.zoom = Math.max(LEAST_GRAPH_ZOOM, Math.min(1, Math.max(this.fitOf(size), least)));
    this.x = this.startAround(this.width, size.width, box.x, box.width);
    this.y = this.startAround(this.height, size.height, box.y, box.height);
    this.isTouched = false;
    this.apply();
  }

  /** Where the picture begins: in the middle or, without room for all of it, so that a part of it is to be seen. */
  startAround(
    /** @type {number} */ room, /** @type {number} */ whole, /** @type {number} */ part, /** @type {number} */ size,
  ) {
    const spare = room - whole * this.zoom;
    if (spare >= 2 * VIEW_MARGIN) return spare / 2;
    const isLarge = size * this.zoom > room / 2;
    const wish = isLarge ? room / 4 - part * this.zoom : room / 2 - (part + size / 2) * this.zoom;
    return Math.max(spare - VIEW_MARGIN, Math.min(VIEW_MARGIN, wish));
  }

  /** Glide to where a box is to be seen; of a large one, its corner. @param {Box} box */
  reveal({ x, y, width, height }) {
    this.glide(
      this.x + this.moveInto(this.x + x * this.zoom, width * this.zoom, this.width),
      this.y + this.moveInto(this.y + y * this.zoom, height * this.zoom, this.height),
    );
  }

  /** Move in a short time, so that the eye can follow. @param {number} x @param {number} y */
  glide(x, y) {
    const isStill = x === this.x && y === this.y;
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const from = { x: this.x, y: this.y };
    const start = performance.now();
    this.cancel();
    const step = () => {
      const part = isCalm || isStill ? 1 : Math.min(1, (performance.now() - start) / GLIDE_TIME);
      const eased = 1 - (1 - part) ** 3;
      this.x = from.x + (x - from.x) * eased;
      this.y = from.y + (y - from.y) * eased;
      this.apply();
      if (part < 1) this.frame = requestAnimationFrame(step);
    };
    step();
  }

  /** End a movement where it is. */
  cancel() {
    cancelAnimationFrame(this.frame);
  }

  /** By how much to move what begins at a place, so that it is in the room; of what is too large, the beginning. */
  moveInto(/** @type {number} */ start, /** @type {number} */ size, /** @type {number} */ room) {
    const isTooLarge = size > room - 2 * VIEW_MARGIN;
    const isAtBegin = start >= 0 && start < room / 4;
    if (isTooLarge && isAtBegin) return 0;
    if (isTooLarge || start < VIEW_MARGIN) return VIEW_MARGIN - start;
    return Math.min(0, room - VIEW_MARGIN - size - start);
  }

  /** Zoom, with the point of the pane that stays where it is. */
  zoomBy(/** @type {number} */ factor, x = this.width / 2, y = this.height / 2) {
    this.cancel();
    const zoom = Math.max(LEAST_GRAPH_ZOOM, Math.min(MOST_GRAPH_ZOOM, this.zoom * factor));
    this.x = x - ((x - this.x) * zoom) / this.zoom;
    this.y = y - ((y - this.y) * zoom) / this.zoom;
    this.zoom = zoom;
    this.isTouched = true;
    this.apply();
  }

  /** @param {WheelEvent} event */
  onWheel(event) {
    event.preventDefault();
    const { left, top } = this.pane.getBoundingClientRect();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const speed = event.ctrlKey ? 0.01 : 0.0015; // a pinch on a touchpad comes as small steps with the control key
    this.zoomBy(Math.exp(-event.deltaY * lines * speed), event.clientX - left, event.clientY - top);
  }

  /** @param {PointerEvent} event */
  onDown(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, event);
    this.start = event;
    this.isDragging = false;
  }

  /** @param {PointerEvent} event */
  onMove(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const isStill = Math.hypot(event.clientX - this.start.clientX, event.clientY - this.start.clientY) < DRAG_START;
    if (isStill && !this.isDragging) return;
    if (!this.isDragging) this.pane.setPointerCapture(event.pointerId);
    this.isDragging = true;
    this.isTouched = true;
    if (this.pointers.size === 2) this.pinch(event);
    else this.pan(event.clientX - before.clientX, event.clientY - before.clientY);
    this.pointers.set(event.pointerId, event);
  }

  /** @param {number} x @param {number} y */
  pan(x, y) {
    this.cancel();
    this.x += x;
    this.y += y;
    this.apply();
  }

  /** One of two fingers moves. @param {PointerEvent} event */
  pinch(event) {
    const before = /** @type {PointerEvent} */ (this.pointers.get(event.pointerId));
    const other = [...this.pointers.values()].find((pointer) => pointer.pointerId !== event.pointerId);
    if (!other) return;
    const { left, top } = this.pane.getBoundingClientRect();
    const distance = (/** @type {PointerEvent} */ { clientX, clientY }) =>
      Math.hypot(clientX - other.clientX, clientY - other.clientY);
    const x = (event.clientX + other.clientX) / 2 - left;
    const y = (event.clientY + other.clientY) / 2 - top;
    this.pan((event.clientX - before.clientX) / 2, (event.clientY - before.clientY) / 2);
    this.zoomBy(distance(event) / Math.max(1, distance(before)), x, y);
  }

  /** @param {PointerEvent} event */
  onUp(event) {
    this.pointers.delete(event.pointerId);
  }
}
