// The norms of all layers over the steps: a row for each layer, a colour for each norm.

const STRIP_ROLES = ["gradient", "parameter", "output", "variable"];
const NORM_STRIP_HEIGHT = 380; // pixels for all rows, if they do not become too thin for that
const ROW_HEIGHTS = { least: 1.2, most: 17 };
const LEAST_RED = 3; // pixels of a cell that is not finite, so that one among thousands is seen
const LABEL_HEIGHT = 12;

class HeatStrip {
  /** @param {SeriesPane} pane */
  constructor(pane) {
    this.pane = pane;
    this.role = "";
    /** @type {SeriesVariable[]} */
    this.rows = [];
    this.title = make("h2");
    this.roles = make("div", "choices");
    this.roles.setAttribute("role", "group");
    this.roles.setAttribute("aria-label", "Which tensors the strip shows");
    this.legend = make("div", "strip-legend");
    this.canvas = /** @type {HTMLCanvasElement} */ (make("canvas"));
    this.cross = make("div", "cross");
    this.brush = make("div", "brush");
    this.marker = make("div", "strip-marker");
    this.plot = make("div", "plot strip-plot", this.canvas, this.cross, this.brush, this.marker);
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "slider");
    const scroll = make("div", "strip-scroll", this.plot);
    this.element = make("section", "strip", make("div", "strip-head", this.title, this.roles, this.legend), scroll);
    this.selected = 0;
    listenToStrip(this);
  }

  /** Take the variables that are shown. @param {SeriesVariable[]} variables */
  take(variables) {
    const tensors = variables.filter((variable) => variable.isTensor);
    const known = STRIP_ROLES.filter((role) => tensors.filter((variable) => variable.role === role).length > 1);
    if (!known.includes(this.role)) this.role = known[0] ?? "";
    this.element.hidden = this.role === "";
    this.rows = tensors.filter((variable) => variable.role === this.role).sort((one, other) => one.place - other.place);
    this.selected = Math.min(this.selected, Math.max(this.rows.length - 1, 0));
    this.showRoles(known);
    this.describe();
  }

  /** A button for each kind of tensors. @param {string[]} known */
  showRoles(known) {
    const buttons = known.map((role) => {
      const button = make("button", "", ROLE_NAMES[role]);
      button.setAttribute("type", "button");
      button.setAttribute("aria-pressed", String(role === this.role));
      button.onclick = () => this.choose(role);
      return button;
    });
    this.roles.replaceChildren(...(known.length > 1 ? buttons : []));
  }

  /** @param {string} role */
  choose(role) {
    this.role = role;
    this.pane.refreshStrip();
  }

  describe() {
    const isCompared = this.pane.series.labels !== null;
    const what = isCompared ? "relative difference of the l2 norm" : "l2 norm";
    this.title.textContent = `${ROLE_NAMES[this.role] ?? ""}: ${what}, layer by ${this.pane.series.unit}`;
    const isComputed = this.rows.some((variable) => variable.norm === "statistics");
    this.title.title = isComputed ? "The l2 norm of the finite elements, computed from their count, mean and std." : "";
    this.plot.setAttribute("aria-label", `${this.title.textContent}; ${counted(this.rows.length, "layer")}`);
    this.plot.setAttribute("aria-valuenow", String(this.selected));
    this.plot.setAttribute("aria-valuemin", "0");
    this.plot.setAttribute("aria-valuemax", String(Math.max(this.rows.length - 1, 0)));
  }

  get rowHeight() {
    const height = NORM_STRIP_HEIGHT / Math.max(this.rows.length, 1);
    const whole = height > 3 ? Math.floor(height) : height;
    return Math.max(ROW_HEIGHTS.least, Math.min(whole, ROW_HEIGHTS.most));
  }

  /** @returns {ChartFrame} */
  get frame() {
    const width = this.canvas.clientWidth;
    const gutter = Math.min(250, Math.max(96, width * 0.2));
    return { left: gutter, right: width - ROOM.right, top: 7, bottom: 7 + this.rows.length * this.rowHeight };
  }

  /** The steps that are shown; each cell has its step in the middle. @returns {[number, number]} */
  get range() {
    const [first, last] = this.pane.view.range;
    return [first - 0.5, last + 0.5];
  }

  draw() {
    if (this.element.hidden || !this.canvas.clientWidth) return;
    const { inks } = this.pane;
    const { frame } = this;
    const height = frame.bottom + FOOT;
    this.canvas.style.height = `${height}px`;
    const { pen } = cleared(this.canvas, height);
    const cells = new StripCells(this.rows, this.range, frame.right - frame.left, this.pane.series.labels !== null);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(cells.picture(inks), frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
    this.drawOdd(pen, cells, frame);
    pen.font = CHART_FONT;
    drawStepAxis(pen, this.range, frame, inks);
    this.drawLabels(pen, frame);
    this.showLegend(cells);
    this.showCursor();
  }

  /** Cells that are not finite, large enough to be seen. @param {CanvasRenderingContext2D} pen @param {StripCells} cells @param {ChartFrame} frame */
  drawOdd(pen, cells, frame) {
    const wide = (frame.right - frame.left) / cells.columns;
    const [width, height] = [Math.max(wide, LEAST_RED), Math.max(this.rowHeight, LEAST_RED)];
    const isSeen = !cells.hasOdd || (wide >= LEAST_RED && this.rowHeight >= LEAST_RED);
    if (isSeen) return;
    pen.fillStyle = this.pane.inks.red;
    cells.values.forEach((value, place) => {
      if (value !== NOT_FINITE) return;
      const [row, column] = [Math.floor(place / cells.columns), place % cells.columns];
      pen.fillRect(frame.left + column * wide, frame.top + (row + 0.5) * this.rowHeight - height / 2, width, height);
    });
  }

  /** @param {CanvasRenderingContext2D} pen @param {ChartFrame} frame */
  drawLabels(pen, frame) {
    const { inks } = this.pane;
    const room = Math.floor((frame.left - 10) / 6.4);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const row of labelledRows(this.rows, Math.ceil(LABEL_HEIGHT / this.rowHeight))) {
      const variable = this.rows[row];
      const isOdd = variable.oddSteps > 0;
      pen.fillStyle = isOdd ? inks.red : inks.dim;
      const sign = isOdd ? "✗ " : "";
      const layer = layerName(variable);
      const text = cutMiddle(sign + layer, room, sign.length + modulePrefix(layer).length);
      pen.fillText(text, frame.left - 6, frame.top + (row + 0.5) * this.rowHeight);
    }
  }

  /** @param {StripCells} cells */
  showLegend(cells) {
    const isCompared = this.pane.series.labels !== null;
    const text = (/** @type {number} */ value) => (isCompared ? percentText(value) : digits(value));
    const parts = [];
    if (cells.low <= cells.high) parts.push(text(cells.low), make("i", "heat-scale"), text(cells.high));
    if (cells.hasZero) parts.push(make("i", "heat-zero"), isCompared ? "the same" : "0");
    if (cells.hasOdd) parts.push(make("i", "heat-odd"), "NaN or Inf");
    this.legend.replaceChildren(...parts.flatMap((part) => [" ", part]));
  }

  /** The row at a place of the window; -1 outside. @param {number} clientY */
  rowAt(clientY) {
    const y = clientY - this.canvas.getBoundingClientRect().top - this.frame.top;
    const row = Math.floor(y / this.rowHeight);
    return row >= 0 && row < this.rows.length ? row : -1;
  }

  /** @param {number} clientX */
  exactStepAt(clientX) {
    return stepAcross(clientX - this.canvas.getBoundingClientRect().left, this.range, this.frame);
  }

  /** Select a cell, and say what it is. @param {number} row @param {number} step */
  select(row, step) {
    this.selected = row;
    this.pane.view.point(step);
    this.showMarker();
    this.plot.setAttribute("aria-valuetext", `${this.rows[row].path}, ${this.cellText(row, step)}`);
    this.plot.setAttribute("aria-valuenow", String(row));
  }

  /** The norm of a layer at a step. @param {number} row @param {number} step */
  cellText(row, step) {
    const variable = this.rows[row];
    const line = variable?.lines.find((each) => each.pointAt(step) >= 0);
    if (!line) return "no value at this step";
    const point = line.pointAt(step);
    const where = line.stepText(point, this.pane.series.unit);
    if (this.pane.series.labels) return `${where}: ${percentText(Math.max(0, normDifference(variable, step)))}`;
    if (line.isOdd(point)) return `${where}: ✗ ${oddName(line, point)}`;
    return `${where}: ${line.width > 1 ? "at most " : ""}${digits(line.value("norm", point), 4)}`;
  }

  showMarker() {
    const { frame, rowHeight, selected } = this;
    this.marker.style.transform = `translateY(${frame.top + selected * rowHeight}px)`;
    this.marker.style.height = `${rowHeight}px`;
  }

  showCursor() {
    const { cursor, range } = this.pane.view;
    const isShown = cursor !== null && cursor >= range[0] && cursor <= range[1];
    this.cross.hidden = !isShown;
    if (isShown) this.cross.style.transform = `translateX(${Math.round(acrossChart(cursor, this.range, this.frame))}px)`;
  }
}

/**
 * The rows that have room for a name: first those where NaN or Inf began, then each that is far enough from them.
 * @param {SeriesVariable[]} rows @param {number} distance in rows
 */
function labelledRows(rows, distance) {
  const begin = Math.min(...rows.map((variable) => variable.firstOdd ?? Infinity));
  const places = rows.map((_, row) => row);
  const firsts = places.filter((row) => rows[row].firstOdd !== null && rows[row].firstOdd === begin);
  /** @type {Set<number>} */
  const found = new Set();
  const isFree = (/** @type {number} */ row) => {
    for (let near = row - distance + 1; near < row + distance; near++) if (found.has(near)) return false;
    return true;
  };
  for (const row of [...firsts, ...places]) if (isFree(row)) found.add(row);
  return [...found];
}

/** The path of a layer, without what all rows of a strip have in common. @param {SeriesVariable} variable */
const layerName = (variable) => variable.path.replace(/\.grad$/, "");

/** A text without its middle, if it is too long: the layer that it begins with, and its end. */
function cutMiddle(/** @type {string} */ text, /** @type {number} */ most, /** @type {number} */ head) {
  if (text.length <= most) return text;
  const begin = Math.min(head, Math.floor(most / 2));
  return `${text.slice(0, begin)}…${text.slice(text.length - Math.max(most - begin - 1, 1))}`;
}

/** @param {HeatStrip} strip */
function listenToStrip(strip) {
  const { plot, pane } = strip;
  const { view } = pane;
  const drag = new StepDrag(strip, (clientX, clientY) => {
    const row = strip.rowAt(clientY);
    if (row >= 0) pane.goTo(strip.rows[row], Math.round(strip.exactStepAt(clientX)));
  });
  plot.addEventListener("pointermove", (event) => {
    const row = strip.rowAt(event.clientY);
    if (row < 0) return;
    const step = Math.round(strip.exactStepAt(event.clientX));
    strip.select(row, step);
    const text = make("div", "", strip.cellText(row, step));
    pane.tip.show([make("b", "", strip.rows[row].path), text], event.clientX, event.clientY);
  });
  plot.addEventListener("pointerleave", () => {
    view.point(null);
    pane.tip.hide();
  });
  plot.addEventListener("keydown", (event) => onStripKey(strip, event));
  drag.listen(plot);
}

/** @param {HeatStrip} strip @param {KeyboardEvent} event */
function onStripKey(strip, event) {
  const { view } = strip.pane;
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
  if (hasModifier) return;
  const step = Math.round(view.cursor ?? view.range[1]);
  if (event.key === "Enter") strip.pane.goTo(strip.rows[strip.selected], step);
  else if (moves[event.key]) {
    const [down, right] = moves[event.key];
    const row = Math.max(0, Math.min(strip.selected + down, strip.rows.length - 1));
    const width = strip.rows[row].lines[0]?.width ?? 1;
    strip.select(row, Math.max(view.range[0], Math.min(step + right * width, view.range[1])));
  } else return;
  event.preventDefault();
  event.stopPropagation();
}
