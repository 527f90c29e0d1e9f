// One canvas of a picture, with its colour bar; the pointer and the keys choose a cell on it.

const PANE_HEIGHT = 320; // pixels of a picture in the details
const PANE_CELL = 24;
const LARGE_CELL = 48;
const ROOM_OF_CONTROLS = 250; // pixels that a large picture leaves to what is around it

const CELL_STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** The cell beside another one; at the left and right end that of the next plane. */
function neighbour(/** @type {Picture} */ picture, /** @type {number[]} */ planes, /** @type {Cell} */ cell, /** @type {number[]} */ [down, across]) {
  const rows = picture.isRow ? 1 : picture.rows;
  const row = Math.max(0, Math.min(cell.row + down, rows - 1));
  const column = cell.column + across;
  const isInside = column >= 0 && column < picture.columns;
  if (isInside) return { plane: cell.plane, row, column };
  const plane = planes[planes.indexOf(cell.plane) + across];
  if (plane === undefined) return cell;
  return { plane, row, column: across > 0 ? 0 : picture.columns - 1 };
}

class HeatmapDrawing {
  /** @param {Heatmap} heatmap @param {Panel & {cells: Float64Array}} panel @param {number} place */
  constructor(heatmap, panel, place) {
    this.heatmap = heatmap;
    this.panel = panel;
    this.picture = panel.picture;
    this.canvas = /** @type {HTMLCanvasElement} */ (make("canvas"));
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.marker = make("div", "cell-mark");
    this.marker.hidden = true;
    this.bar = make("div", "");
    this.box = make("div", "canvas-box", this.canvas, this.marker);
    const caption = panel.label ? [make("figcaption", "", panel.label)] : [];
    this.element = make("figure", "panel", ...caption, this.box, this.bar);
    this.element.dataset.panel = String(place);
    this.listen();
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => this.pointAt(event.offsetX, event.offsetY));
    this.canvas.addEventListener("pointerdown", (event) => this.pointAt(event.offsetX, event.offsetY));
    this.canvas.addEventListener("click", () => this.heatmap.enlarge());
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** @param {number} x @param {number} y */
  pointAt(x, y) {
    const cell = this.painter?.cellAt(x, y);
    this.cell = cell ?? this.cell;
    this.heatmap.point(cell, this.picture);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.key === "Enter") {
      event.preventDefault(); // the button that gets the focus must not be pressed
      event.stopPropagation();
      this.heatmap.enlarge();
      return;
    }
    const step = CELL_STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const shown = this.heatmap.shownPlanes(this.picture);
    const planes = this.heatmap.choice.isImage ? shown.slice(0, 1) : shown;
    const isKnown = this.cell && planes.includes(this.cell.plane);
    this.cell = isKnown ? neighbour(this.picture, planes, this.cell, step) : { row: 0, column: 0, ...this.cell, plane: planes[0] };
    this.heatmap.point(this.cell, this.picture);
  }

  /** Put the frame around a cell. @param {Cell|undefined} cell */
  mark(cell) {
    const box = cell && this.painter?.boxOf(cell);
    this.marker.hidden = !box;
    if (!box) return;
    Object.assign(this.marker.style, {
      left: `${box.x - 1}px`, top: `${box.y - 1}px`, width: `${box.width + 2}px`, height: `${box.height + 2}px`,
    });
  }

  draw() {
    const width = this.box.clientWidth;
    if (!width) return;
    const scale = this.heatmap.scaleOf(this.panel.group);
    const view = {
      picture: this.picture,
      cells: this.panel.cells,
      planes: this.heatmap.shownPlanes(this.picture),
      scale,
      heat: inks(HEAT_INKS),
      inks: this.heatmap.app.inks,
      isImage: this.heatmap.choice.isImage,
      room: this.room(width),
    };
    this.painter = this.picture.isRow ? new Strip(view) : new PlaneTiles(view);
    paintCanvas(this.canvas, this.painter);
    this.canvas.setAttribute("aria-label", this.description());
    const hasNumbers = this.picture.ends[0] <= this.picture.ends[1];
    const hasBar = hasNumbers && !view.isImage && !this.picture.isRow;
    this.bar.replaceChildren(...(hasBar ? [colourBar(scale, this.picture.isWhole)] : []));
  }

  /** @param {number} width @returns {Room} */
  room(width) {
    if (!this.heatmap.isLarge) return { width, height: PANE_HEIGHT, mostCell: PANE_CELL };
    return { width, height: Math.max(PANE_HEIGHT, innerHeight - ROOM_OF_CONTROLS), mostCell: LARGE_CELL };
  }

  /** The picture in words. */
  description() {
    const { picture, panel } = this;
    const { isTiled, isImage, index } = this.heatmap.choice;
    const shape = `[${picture.shape.join(", ")}]`;
    const slice = picture.leading.length && !isTiled && !isImage ? `, slice ${index.join(", ")}` : "";
    const [low, high] = picture.ends;
    const range = low <= high ? `, from ${limits(low, high, picture.isWhole)}` : "";
    const nan = picture.data.stats.nan[picture.stats];
    const odd = nan ? `, ${many(nan)} NaN` : "";
    return `${panel.label} values of shape ${shape}${slice}${range}${odd}`.trim();
  }
}

/** Give a canvas the size of a drawing, and draw. @param {HTMLCanvasElement} canvas @param {PlaneTiles|Strip} painter */
function paintCanvas(canvas, painter) {
  const { width, height } = painter.size;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(ratio, ratio);
  painter.draw(pen);
}
