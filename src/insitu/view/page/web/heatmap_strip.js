// Numbers in a row: bars from zero or, for many, the band from the least to the largest of each block.

const STRIP_HEIGHT = 96;
const STRIP_TOP = 6;
const STRIP_BOTTOM = 16;
const STRIP_LEFT = 56;

/** Draws a row of numbers, and knows where each of them is. */
class Strip {
  /** @param {PlaneView} view */
  constructor(view) {
    this.view = view;
    this.height = Math.max(STRIP_HEIGHT, Math.min(view.room.height, view.room.width / 4));
    this.cellWidth = Math.min(view.room.mostCell, (view.room.width - STRIP_LEFT) / view.picture.columns);
    const [low, high] = view.picture.ends;
    const isKnown = low <= high;
    this.low = isKnown ? Math.min(0, low) : 0;
    this.high = isKnown ? Math.max(0, high) : 1;
    if (this.low === this.high) this.high = 1;
  }

  get size() {
    return { width: this.view.room.width, height: this.height };
  }

  /** @param {number} value */
  y(value) {
    const part = (value / 2 - this.low / 2) / (this.high / 2 - this.low / 2);
    return this.height - STRIP_BOTTOM - part * (this.height - STRIP_TOP - STRIP_BOTTOM);
  }

  /** The number at a place of the drawing. @param {number} x @returns {Cell|undefined} */
  cellAt(x) {
    const column = Math.floor((x - STRIP_LEFT) / this.cellWidth);
    const isInside = column >= 0 && column < this.view.picture.columns;
    return isInside ? { plane: 0, row: 0, column } : undefined;
  }

  /** @param {Cell} cell @returns {Box} */
  boxOf({ column }) {
    const x = STRIP_LEFT + column * this.cellWidth;
    return { x, y: STRIP_TOP, width: this.cellWidth, height: this.height - STRIP_TOP - STRIP_BOTTOM };
  }

  /** @param {CanvasRenderingContext2D} pen */
  draw(pen) {
    pen.font = "10px ui-monospace, monospace";
    this.drawAxes(pen);
    for (let column = 0; column < this.view.picture.columns; column++) this.drawNumber(pen, column);
  }

  /** @param {CanvasRenderingContext2D} pen */
  drawAxes(pen) {
    const { picture, inks, room } = this.view;
    pen.fillStyle = inks.dim;
    pen.textAlign = "right";
    const isFarFromZero = (/** @type {number} */ value) => Math.abs(this.y(value) - this.y(0)) > 10;
    const marks = [0, ...[this.low, this.high].filter(isFarFromZero)];
    for (const mark of marks) pen.fillText(digits(mark, 3, picture.isWhole), STRIP_LEFT - 5, this.y(mark) + 3);
    pen.fillRect(STRIP_LEFT, this.y(0), room.width - STRIP_LEFT, 0.5);
    pen.textAlign = "center";
    for (const index of indexTicks(picture.shape[0], this.cellWidth / picture.blockColumns))
      pen.fillText(String(index), STRIP_LEFT + ((index + 0.5) / picture.blockColumns) * this.cellWidth, this.height - 4);
    pen.textAlign = "left";
    pen.fillText("dim 0 →", 0, this.height - 4);
  }

  /** A bar from zero, or a band; what is not finite over the whole height. */
  drawNumber(/** @type {CanvasRenderingContext2D} */ pen, /** @type {number} */ column) {
    const { picture, cells, heat, scale } = this.view;
    const isBand = picture.pooling === "range";
    const first = cells[column];
    const second = isBand ? cells[picture.columns + column] : 0;
    const box = this.boxOf({ plane: 0, row: 0, column });
    const width = Math.max(0.5, this.cellWidth - (this.cellWidth > 3 ? 1 : 0));
    const odd = [first, second].find((value) => !Number.isFinite(value));
    if (odd !== undefined) {
      pen.fillStyle = heat[Number.isNaN(odd) ? "heat-nan" : "heat-inf-line"];
      pen.fillRect(box.x, box.y, width, box.height);
      return;
    }
    const [top, bottom] = [this.y(first), this.y(second)].sort((a, b) => a - b);
    pen.fillStyle = barInk(first, scale);
    pen.fillRect(box.x, top, width, Math.max(1, bottom - top));
  }
}

/** The colour of a bar: that of its sign. @param {number} value @param {ColourScale} scale */
function barInk(value, { stops, ends }) {
  if (!ends.isDiverging) return stops[2];
  return value < 0 ? stops[1] : stops[3];
}
