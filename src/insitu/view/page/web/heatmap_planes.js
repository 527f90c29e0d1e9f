// Planes of cells on a canvas: one with the indices along its sides, or several beside each other.

const LEAST_HATCHED = 4; // pixels of a cell in which lines can be seen
const INDEX_WIDTH = 52;
const INDEX_HEIGHT = 27;
const TILE_TITLE = 14;
const TILE_GAP = 8;
const LEAST_TILE = 72; // pixels of the height to which flat planes are stretched
const INDEX_ROOM = 30; // pixels between two indices
const NARROW = 0.25; // the part of the width that a plane of few columns is stretched to

/**
 * @typedef {{plane: number, row: number, column: number}} Cell
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {{picture: Picture, cells: Float64Array, planes: number[], scale: ColourScale, heat: Record<string, string>,
 *   inks: Record<string, string>, isImage: boolean, room: Room}} PlaneView
 * @typedef {{width: number, height: number, mostCell: number}} Room the pixels of a drawing, and of a cell at most
 */

/** Draws planes, and knows where each of their cells is. */
class PlaneTiles {
  /** @param {PlaneView} view */
  constructor(view) {
    this.view = view;
    this.isTiled = view.planes.length > 1 && !view.isImage;
    this.origin = this.isTiled ? { x: 0, y: TILE_TITLE } : { x: INDEX_WIDTH, y: INDEX_HEIGHT };
    this.count = view.isImage ? 1 : view.planes.length;
    this.cell = this.isTiled ? this.tileCell() : this.singleCell();
    const { rows, columns } = view.picture;
    this.plane = { width: columns * this.cell.width, height: rows * this.cell.height };
    this.perRow = this.tilesPerRow(this.cell.width);
  }

  /** How many planes are beside each other. @param {number} cellWidth */
  tilesPerRow(cellWidth) {
    const width = this.view.picture.columns * cellWidth + TILE_GAP;
    return Math.max(1, Math.min(this.count, Math.floor((this.view.room.width + TILE_GAP) / width)));
  }

  /** The size of a cell of a plane alone: a square, unless the plane would be too narrow or too flat. */
  singleCell() {
    const { picture, room } = this.view;
    const width = Math.max(16, room.width - INDEX_WIDTH);
    const height = Math.max(16, room.height - INDEX_HEIGHT);
    const side = cellSize(Math.min(width / picture.columns, height / picture.rows), room.mostCell);
    const stretchedWidth = cellSize((width * NARROW) / picture.columns, room.mostCell);
    const stretchedHeight = cellSize((height * NARROW) / picture.rows, room.mostCell);
    return { width: Math.max(side, stretchedWidth), height: Math.max(side, stretchedHeight) };
  }

  /** The largest cells with which all planes fit, the least if they do not; flat planes are stretched. */
  tileCell() {
    const { picture, room } = this.view;
    let width = cellSize(room.width / picture.columns, room.mostCell);
    while (width > 1 && this.tilesHeight(width, width) > room.height) width--;
    let height = width;
    const isFlat = picture.rows * 2 < picture.columns;
    const isStretchable = () => isFlat && picture.rows * height < LEAST_TILE && height < room.mostCell;
    while (isStretchable() && this.tilesHeight(width, height + 1) <= room.height) height++;
    return { width, height };
  }

  /** @param {number} cellWidth @param {number} cellHeight */
  tilesHeight(cellWidth, cellHeight) {
    return Math.ceil(this.count / this.tilesPerRow(cellWidth)) * this.tileHeight(cellHeight);
  }

  /** @param {number} cellHeight */
  tileHeight(cellHeight) {
    return this.view.picture.rows * cellHeight + TILE_TITLE + TILE_GAP;
  }

  /** The size of the drawing. */
  get size() {
    if (!this.isTiled) return { width: this.origin.x + this.plane.width, height: this.origin.y + this.plane.height };
    return { width: this.view.room.width, height: this.tilesHeight(this.cell.width, this.cell.height) };
  }

  /** The upper left corner of a plane. @param {number} place among those that are shown */
  corner(place) {
    const across = place % this.perRow;
    const down = Math.floor(place / this.perRow);
    return {
      x: this.origin.x + across * (this.plane.width + TILE_GAP),
      y: this.origin.y + down * this.tileHeight(this.cell.height),
    };
  }

  /** The cell at a place of the drawing. @param {number} x @param {number} y @returns {Cell|undefined} */
  cellAt(x, y) {
    const { picture, planes } = this.view;
    for (let place = 0; place < this.count; place++) {
      const corner = this.corner(place);
      const column = Math.floor((x - corner.x) / this.cell.width);
      const row = Math.floor((y - corner.y) / this.cell.height);
      const isInside = column >= 0 && column < picture.columns && row >= 0 && row < picture.rows;
      if (isInside) return { plane: planes[place], row, column };
    }
    return undefined;
  }

  /** Where a cell is drawn. @param {Cell} cell @returns {Box|undefined} */
  boxOf(cell) {
    const place = this.view.isImage ? 0 : this.view.planes.indexOf(cell.plane);
    if (place < 0) return undefined;
    const corner = this.corner(place);
    const { width, height } = this.cell;
    return { x: corner.x + cell.column * width, y: corner.y + cell.row * height, width, height };
  }

  /** @param {CanvasRenderingContext2D} pen */
  draw(pen) {
    pen.font = "10px ui-monospace, monospace";
    if (!this.isTiled) this.drawIndices(pen);
    for (let place = 0; place < this.count; place++) {
      if (this.isTiled) this.drawTitle(pen, place);
      this.drawPlane(pen, place);
    }
  }

  /** The index of a plane above it. @param {CanvasRenderingContext2D} pen @param {number} place */
  drawTitle(pen, place) {
    const { picture, planes, inks } = this.view;
    const { x, y } = this.corner(place);
    const index = picture.indexOf(planes[place]);
    pen.fillStyle = inks.dim;
    pen.textAlign = "left";
    pen.fillText(String(index[index.length - 1]), x, y - 3);
  }

  /** @param {CanvasRenderingContext2D} pen @param {number} place */
  drawPlane(pen, place) {
    const { picture, inks } = this.view;
    const { x, y } = this.corner(place);
    const image = new OffscreenCanvas(picture.columns, picture.rows);
    const inner = /** @type {OffscreenCanvasRenderingContext2D} */ (image.getContext("2d"));
    inner.putImageData(this.view.isImage ? this.colours() : this.shades(place), 0, 0);
    pen.imageSmoothingEnabled = this.cell.width < 1;
    pen.drawImage(image, x, y, this.plane.width, this.plane.height);
    if (!this.view.isImage) this.hatch(pen, place);
    pen.strokeStyle = inks.line;
    pen.lineWidth = 1;
    pen.strokeRect(x - 0.5, y - 0.5, this.plane.width + 1, this.plane.height + 1);
  }

  /** The values of a plane. @param {number} plane */
  values(plane) {
    const { picture, cells } = this.view;
    const length = picture.rows * picture.columns;
    return cells.subarray(plane * length, (plane + 1) * length);
  }

  /** The pixels of a plane, one for each cell. @param {number} place */
  shades(place) {
    const { picture, scale, heat } = this.view;
    const values = this.values(this.view.planes[place]);
    const image = new ImageData(picture.columns, picture.rows);
    const nan = channels(heat["heat-nan"]);
    const inf = channels(heat[this.isHatched ? "heat-inf" : "heat-inf-line"]);
    for (let i = 0; i < values.length; i++) {
      if (Number.isFinite(values[i])) scale.write(image.data, i * 4, values[i]);
      else image.data.set([...(Number.isNaN(values[i]) ? nan : inf), 255], i * 4);
    }
    return image;
  }

  /** The pixels of an image: red, green and blue are three planes. */
  colours() {
    const { picture, planes } = this.view;
    const [low, high] = picture.isImage ? imageEnds(picture) : picture.ends;
    const image = new ImageData(picture.columns, picture.rows);
    planes.forEach((plane, channel) => {
      const values = this.values(plane);
      for (let i = 0; i < values.length; i++)
        image.data[i * 4 + channel] = (255 * (values[i] - low)) / (high - low || 1);
    });
    for (let i = 3; i < image.data.length; i += 4) image.data[i] = 255;
    return image;
  }

  get isHatched() {
    return Math.min(this.cell.width, this.cell.height) >= LEAST_HATCHED;
  }

  /** Lines over the cells that are not finite: of NaN crossed, of Inf upwards, of -Inf downwards. */
  hatch(/** @type {CanvasRenderingContext2D} */ pen, /** @type {number} */ place) {
    if (!this.isHatched) return;
    const plane = this.view.planes[place];
    const values = this.values(plane);
    const { columns } = this.view.picture;
    const lines = { nan: new Path2D(), inf: new Path2D() };
    for (let i = 0; i < values.length; i++) {
      if (Number.isFinite(values[i])) continue;
      const box = /** @type {Box} */ (this.boxOf({ plane, row: Math.floor(i / columns), column: i % columns }));
      const path = Number.isNaN(values[i]) ? lines.nan : lines.inf;
      if (!(values[i] === -Infinity)) crossUp(path, box);
      if (!(values[i] === Infinity)) crossDown(path, box);
    }
    pen.lineWidth = 1;
    pen.strokeStyle = this.view.heat["heat-nan-line"];
    pen.stroke(lines.nan);
    pen.strokeStyle = this.view.heat["heat-inf-line"];
    pen.stroke(lines.inf);
  }

  /** The indices of rows and columns, and the numbers of the two dimensions. @param {CanvasRenderingContext2D} pen */
  drawIndices(pen) {
    const { picture, inks } = this.view;
    const { x, y } = this.corner(0);
    const last = picture.shape.length - 1;
    pen.fillStyle = inks.dim;
    pen.textAlign = "center";
    for (const index of indexTicks(picture.shape[last], this.cell.width / picture.blockColumns))
      pen.fillText(String(index), x + ((index + 0.5) / picture.blockColumns) * this.cell.width, y - 4);
    pen.textAlign = "left";
    pen.fillText(`dim ${last} →`, x, 10);
    pen.textAlign = "right";
    pen.fillText(`dim ${last - 1} ↓`, x - 5, 10);
    pen.textBaseline = "middle";
    for (const index of indexTicks(picture.shape[last - 1], this.cell.height / picture.blockRows))
      pen.fillText(String(index), x - 5, y + ((index + 0.5) / picture.blockRows) * this.cell.height);
    pen.textBaseline = "alphabetic";
  }
}

/** The pixels of a cell: whole ones if there are any. @param {number} size @param {number} most */
function cellSize(size, most) {
  return size < 1 ? size : Math.min(most, Math.floor(size));
}

/** The range of the numbers in an image. @param {Picture} picture @returns {[number, number]} */
const imageEnds = (picture) => (picture.isWhole ? [0, 255] : [0, 1]);

/** @param {Path2D} path @param {Box} box */
function crossUp(path, { x, y, width, height }) {
  path.moveTo(x, y + height);
  path.lineTo(x + width, y);
}

/** @param {Path2D} path @param {Box} box */
function crossDown(path, { x, y, width, height }) {
  path.moveTo(x, y);
  path.lineTo(x + width, y + height);
}

/** Indices at even distances, with room between them. @param {number} size @param {number} pixels of one index */
function indexTicks(size, pixels) {
  const least = INDEX_ROOM / pixels;
  const power = 10 ** Math.max(0, Math.floor(Math.log10(least)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= least) ?? 10 * power;
  const found = [];
  for (let index = 0; index < size; index += step) found.push(index);
  return found;
}
