// A kept array on the page: its picture, the sliders that choose a slice, the scale, and the value under the pointer.

const MOST_TILES = 16; // planes that are shown beside each other unless the user chooses a slice

/**
 * @typedef {{label: string, picture: Picture, group: number}} Panel panels of one group share their scale
 * @typedef {{index: number[], isTiled: boolean, isImage: boolean, scaleBy: string}} Choice what the user wants to see
 */

const SCALES = [
  ["array", "colours: whole tensor"],
  ["slice", "colours: this slice"],
  ["middle", "colours: without the outermost 2 %"],
];

/** Pictures that show the same slice: of one array, or of two arrays and their difference. */
class Heatmap {
  /** @param {App} app @param {Panel[]} panels @param {Choice} [choice] that of a smaller picture, which this one enlarges */
  constructor(app, panels, choice) {
    this.app = app;
    this.isLarge = choice !== undefined;
    this.panels = panels.map((panel) => ({ ...panel, cells: panel.picture.cells() }));
    this.first = panels[0].picture;
    this.choice = choice ? { ...choice } : firstChoice(this.first);
    /** @type {Record<number, HTMLInputElement>} by their dimensions */
    this.sliders = {};
    this.drawings = this.panels.map((panel, place) => new HeatmapDrawing(this, panel, place));
    this.readout = make("p", "readout");
    this.readout.setAttribute("role", "status");
    this.box = make("div", "panels", ...this.drawings.map((drawing) => drawing.element));
    this.width = 0;
    this.element = make("div", "heatmap", this.controls(), this.box, this.readout, this.legend(), this.note());
    this.choose({});
    new ResizeObserver(() => this.fit()).observe(this.box);
  }

  /** Draw again if there is more or less room. */
  fit() {
    const width = this.box.clientWidth;
    if (width === this.width) return;
    this.width = width;
    this.draw();
  }

  draw() {
    for (const drawing of this.drawings) drawing.draw();
  }

  /** Change what is shown. @param {Partial<Choice>} change */
  choose(change) {
    Object.assign(this.choice, change);
    const inner = this.sliders[this.first.leading.length - 1];
    if (inner) inner.disabled = this.choice.isTiled || this.choice.isImage; // all of this dimension are shown
    this.point(undefined);
    this.draw();
  }

  controls() {
    const box = make("div", "controls");
    this.first.leading.forEach((size, dimension) => {
      if (size > 1) box.append(this.slider(dimension, size));
    });
    if (this.lastLeading > 1) box.append(this.checkbox(tilesText(this.first, this.panels[0].cells), "isTiled"));
    if (this.first.hasChannels) box.append(this.checkbox("as an image", "isImage"));
    if (!this.first.isRow) box.append(this.scaleMenu());
    if (!this.isLarge) box.append(this.enlargeButton());
    return box;
  }

  /** How many planes the last of the leading dimensions has. */
  get lastLeading() {
    return this.first.leading[this.first.leading.length - 1] ?? 1;
  }

  /** @param {number} dimension @param {number} size */
  slider(dimension, size) {
    const input = /** @type {HTMLInputElement} */ (make("input"));
    const value = make("span", "index", String(this.choice.index[dimension]));
    Object.assign(input, { type: "range", min: 0, max: size - 1, value: this.choice.index[dimension] });
    input.setAttribute("aria-label", `index of dim ${dimension}`);
    input.addEventListener("input", () => {
      const index = this.choice.index.map((old, place) => (place === dimension ? Number(input.value) : old));
      value.textContent = input.value;
      this.choose({ index });
    });
    this.sliders[dimension] = input;
    return make("label", "slider", `dim ${dimension}`, input, value);
  }

  /** @param {string} text @param {"isTiled"|"isImage"} name of the choice */
  checkbox(text, name) {
    const input = /** @type {HTMLInputElement} */ (make("input"));
    Object.assign(input, { type: "checkbox", checked: this.choice[name] });
    input.addEventListener("change", () => this.choose({ [name]: input.checked }));
    return make("label", "", input, text);
  }

  scaleMenu() {
    const menu = /** @type {HTMLSelectElement} */ (make("select", "", ...SCALES.map(([value, text]) => {
      const option = /** @type {HTMLOptionElement} */ (make("option", "", text));
      option.value = value;
      return option;
    })));
    menu.value = this.choice.scaleBy;
    menu.setAttribute("aria-label", "range of the colours");
    menu.addEventListener("change", () => this.choose({ scaleBy: menu.value }));
    return menu;
  }

  enlargeButton() {
    const button = make("button", "enlarge", "⤢ larger");
    button.onclick = () => this.enlarge();
    return button;
  }

  enlarge() {
    if (!this.isLarge) enlarge(this.app, this.panels, this.choice);
  }

  /** The planes of a picture that are shown now. @param {Picture} picture @returns {number[]} */
  shownPlanes(picture) {
    const { index, isTiled, isImage } = this.choice;
    if (!isTiled && !isImage) return [picture.planeAt(index)];
    const inner = picture.leading.length - 1;
    return Array.from({ length: picture.leading[inner] ?? 1 }, (_, last) =>
      picture.planeAt(index.map((old, place) => (place === inner ? last : old))));
  }

  /** The scale of the panels of a group. @param {number} group */
  scaleOf(group) {
    const ranges = this.panels.filter((panel) => panel.group === group).map((panel) => this.rangeOf(panel));
    const low = Math.min(...ranges.map((range) => range[0]).filter(Number.isFinite));
    const high = Math.max(...ranges.map((range) => range[1]).filter(Number.isFinite));
    return new ColourScale(scaleEnds(low, high), inks(HEAT_INKS));
  }

  /** The range of the values that a panel's colours are for. @returns {[number, number]} */
  rangeOf(/** @type {Panel & {cells: Float64Array}} */ { picture, cells }) {
    if (this.choice.scaleBy === "array") return picture.ends;
    const length = picture.rows * picture.columns;
    const shown = this.shownPlanes(picture).map((plane) => cells.subarray(plane * length, (plane + 1) * length));
    const values = shown.length === 1 ? shown[0] : Float64Array.from(shown.flatMap((part) => [...part]));
    return this.choice.scaleBy === "slice" ? finiteRange(values) : middleRange(values);
  }

  /** Show the value of a cell in every panel. @param {Cell|undefined} cell @param {Picture} [picture] whose cell it is */
  point(cell, picture) {
    for (const drawing of this.drawings) drawing.mark(cell && picture ? sameCell(cell, picture, drawing.picture) : undefined);
    if (!cell || !picture) {
      this.readout.textContent = `${dimensionsText(this.first)}point at it for a value; arrow keys move from cell to cell`;
      return;
    }
    const values = this.panels.map((panel) => {
      const value = this.valueText(panel, sameCell(cell, picture, panel.picture));
      return panel.label ? `${panel.label} ${value}` : value;
    });
    const index = picture.indexText(cell.plane, cell.row, cell.column, this.choice.isImage);
    this.readout.textContent = `${index}  ${values.join("  ·  ")}`;
  }

  /** The value of a cell of a panel, of an image those of its three channels. */
  valueText(/** @type {Panel & {cells: Float64Array}} */ { picture, cells }, /** @type {Cell} */ cell) {
    if (!this.choice.isImage) return cellText(picture, cells, cell);
    const length = picture.rows * picture.columns;
    const place = cell.row * picture.columns + cell.column;
    const channels = this.shownPlanes(picture).map((plane) => cellValueText(picture, cells[plane * length + place]));
    return `= ${channels.join(", ")}`;
  }

  /** What is not finite, each with its sign and how often it occurs. */
  legend() {
    const box = make("p", "legend");
    for (const { label, picture } of this.panels) {
      const { nan, inf } = picture.data.stats;
      const of = label ? ` in ${label}` : "";
      if (nan[picture.stats]) box.append(swatch("nan"), `${many(nan[picture.stats])} NaN${of} `);
      if (inf[picture.stats]) box.append(swatch("inf"), `${many(inf[picture.stats])} Inf${of} `);
    }
    return box;
  }

  note() {
    const texts = [...new Set(this.panels.flatMap((panel) => pictureNotes(panel.picture)))];
    return make("p", "note", texts.join("; "));
  }
}

/** What is shown before the user chooses. @param {Picture} picture @returns {Choice} */
function firstChoice(picture) {
  const inner = picture.leading[picture.leading.length - 1] ?? 1;
  const isTiled = !picture.isImage && inner > 1 && inner <= MOST_TILES;
  return { index: picture.leading.map(() => 0), isTiled, isImage: picture.isImage, scaleBy: "array" };
}

/** A sample of how NaN or Inf is drawn. @param {"nan"|"inf"} what */
const swatch = (what) => make("span", `swatch ${what}`);

/** Show the same as large as the window. @param {App} app @param {Panel[]} panels @param {Choice} choice */
function enlarge(app, panels, choice) {
  const close = make("button", "", "close");
  const heatmap = new Heatmap(app, panels, choice);
  const dialog = /** @type {HTMLDialogElement} */ (make("dialog", "zoom", close, heatmap.element));
  dialog.setAttribute("aria-label", "Values");
  close.onclick = () => dialog.close();
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("keydown", (event) => event.stopPropagation()); // the keys of the page wait
  document.body.append(dialog);
  dialog.showModal();
  heatmap.fit();
}
