// The card of one variable: its path, its value, its chart, and what a reader must know of it.

const FEW_VARIABLES = 2; // that are large from the start

class SeriesCard {
  /** @param {SeriesPane} pane @param {SeriesVariable} variable */
  constructor(pane, variable) {
    this.pane = pane;
    this.variable = variable;
    this.isVisible = false;
    this.isDirty = true;
    this.isLarge = pane.variables.length <= FEW_VARIABLES;
    this.reading = make("span", "reading");
    this.pin = this.makePin();
    this.canvas = /** @type {HTMLCanvasElement} */ (make("canvas"));
    this.cross = make("div", "cross");
    this.brush = make("div", "brush");
    this.plot = this.makePlot();
    this.foot = make("div", "card-foot");
    this.size = this.makeSizeButton();
    const head = make("div", "card-head", this.makeTitle(), this.reading, this.size, this.pin);
    this.element = make("article", "series-card", head, ...this.makeLegend(), this.plot, this.foot);
    this.element.dataset.path = variable.path;
    this.showSize();
    this.describe();
  }

  makeSizeButton() {
    const button = /** @type {HTMLButtonElement} */ (make("button", "card-button"));
    button.type = "button";
    button.onclick = () => {
      this.isLarge = !this.isLarge;
      this.showSize();
      this.isDirty = true;
      this.pane.soon();
    };
    return button;
  }

  /** Be as large as the user wants. */
  showSize() {
    this.canvas.style.height = `${this.height}px`;
    this.element.classList.toggle("large", this.isLarge);
    this.size.textContent = this.isLarge ? "⤡" : "⤢";
    this.size.title = this.isLarge ? "smaller" : "larger";
    this.size.setAttribute("aria-label", `Make the chart of ${this.variable.path} ${this.size.title}`);
  }

  get height() {
    return pictureHeight(this.variable, this.isLarge);
  }

  makeTitle() {
    const { path, type, source, other } = this.variable;
    const title = make("h3", "", ...pathParts(path, this.pane.view.grouping));
    title.title = [path, other && `in b: ${other}`, type, source].filter(Boolean).join("\n");
    return title;
  }

  makePin() {
    const button = /** @type {HTMLButtonElement} */ (make("button", "card-button pin"));
    button.type = "button";
    button.onclick = () => this.pane.togglePin(this.variable);
    return button;
  }

  makePlot() {
    const plot = make("div", "plot", this.canvas, this.cross, this.brush);
    plot.tabIndex = 0;
    plot.setAttribute("role", "slider");
    plot.setAttribute("aria-label", `${this.variable.path} over ${this.pane.series.unit}s`);
    listenToPlot(this, plot);
    return plot;
  }

  /** The colours of the lines, each with its value; a single line needs none. */
  makeLegend() {
    const lines = this.variable.drawnLines;
    /** @type {HTMLElement[]} the value of each line at the step under the pointer */
    this.lineReadings = [];
    if (lines.length < 2) return [];
    const items = lines.map((line, place) => {
      const sample = make("i", "sample");
      sample.style.color = `var(--${SERIES_INKS[place % SERIES_INKS.length]})`;
      const isDashed = this.pane.series.labels !== null && line.run === 1;
      if (isDashed) sample.classList.add("dashed");
      const reading = make("span", "reading");
      this.lineReadings.push(reading);
      return make("span", "legend-item", sample, `${this.variable.lineName(line, this.pane.series.labels)} `, reading);
    });
    return [make("div", "legend", ...spaced(items))];
  }

  /** Write what does not depend on the pointer: notes, the pin, the value at the last step. */
  describe() {
    const isPinned = this.pane.view.pins.has(this.variable.path);
    this.pin.textContent = isPinned ? "★" : "☆";
    this.pin.setAttribute("aria-pressed", String(isPinned));
    this.pin.setAttribute("aria-label", `Pin ${this.variable.path} to the top`);
    this.pin.title = isPinned ? "unpin" : "pin to the top";
    this.foot.replaceChildren(...spaced(cardNotes(this.pane, this.variable)));
    const [first, last] = this.variable.extent;
    this.plot.setAttribute("aria-valuemin", String(first));
    this.plot.setAttribute("aria-valuemax", String(last));
    this.showCursor();
  }

  /** Draw the chart, if it can be seen. */
  draw() {
    if (!this.isVisible || !this.canvas.clientWidth) return;
    const { inks, view, series } = this.pane;
    const Drawing = this.variable.isText ? BandDrawing : ChartDrawing;
    new Drawing(this.canvas, this.height, this.variable, view, inks, series).draw();
    this.isDirty = false;
    this.showCursor();
  }

  /** Let go of the picture: a page may have hundreds. */
  leave() {
    this.isVisible = false;
    this.isDirty = true;
    this.canvas.width = 0;
  }

  /** Show the step under the pointer, and the value there. */
  showCursor() {
    const { view } = this.pane;
    const { cursor } = view;
    const isShown = cursor !== null && cursor >= view.range[0] && cursor <= view.range[1];
    this.cross.hidden = !isShown;
    if (isShown) this.cross.style.transform = `translateX(${Math.round(this.across(cursor))}px)`;
    const step = isShown ? cursor : null;
    const texts = readings(this.variable, view, step);
    const text = texts.join(", ");
    const isSingle = texts.length === 1;
    this.reading.textContent = isSingle ? text : "";
    this.reading.classList.toggle("red", isOddAt(this.variable, step));
    this.lineReadings.forEach((reading, place) => (reading.textContent = texts[place]));
    const [, last] = this.variable.extent;
    this.plot.setAttribute("aria-valuenow", String(Math.round(step ?? last)));
    this.plot.setAttribute("aria-valuetext", `${this.pane.series.unit} ${many(Math.round(step ?? last))}: ${text}`);
  }

  get frame() {
    return chartFrame(this.canvas.clientWidth, this.height);
  }

  /** @param {number} step */
  across(step) {
    return acrossChart(step, this.pane.view.range, this.frame);
  }

  /** The step at a place of the window: that of the nearest point. @param {number} clientX */
  stepAt(clientX) {
    const x = clientX - this.canvas.getBoundingClientRect().left;
    const step = stepAcross(x, this.pane.view.range, this.frame);
    const line = this.variable.drawnLines.find((each) => each.length > 0);
    if (!line) return Math.round(step);
    return line.middle(line.nearest(step));
  }

  /** The step at a place of the window, between points too. @param {number} clientX */
  exactStepAt(clientX) {
    return stepAcross(clientX - this.canvas.getBoundingClientRect().left, this.pane.view.range, this.frame);
  }

  /** Move the pointer to the next point. @param {number} by 1, or -1 for the one before */
  moveCursor(by) {
    const { view } = this.pane;
    const line = this.variable.drawnLines.find((each) => each.length > 0);
    if (!line) {
      view.point(Math.max(view.extent[0], Math.min((view.cursor ?? view.extent[1]) + by, view.extent[1])));
      return;
    }
    const here = view.cursor === null ? line.length - 1 : line.nearest(view.cursor);
    view.point(line.middle(Math.max(0, Math.min(here + by, line.length - 1))));
  }

  /** Go to the row of a step, if the page has one. @param {number} step */
  open(step) {
    const { app } = this.pane;
    const every = this.variable.isText ? this.variable.bands : this.variable.lines;
    const row = every.length ? rowOfStep(app, this.variable, every[0], Math.floor(step)) : -1;
    if (row >= 0) app.go(row, "jumped");
  }
}

/** A path, of which the part that the group names is dim. @param {string} path @param {string} grouping */
function pathParts(path, grouping) {
  const prefix = grouping === "module" ? modulePrefix(path) : "";
  const hasPrefix = prefix !== "" && path.startsWith(`${prefix}.`);
  if (!hasPrefix) return breakable(path);
  return [make("span", "dim", ...breakable(`${prefix}.`)), ...breakable(path.slice(prefix.length + 1))];
}

/** A path that can be broken after each dot. @param {string} path @returns {(Node|string)[]} */
function breakable(path) {
  return path.split(/(?<=\.)/).flatMap((part, place) => (place ? [make("wbr"), part] : [part]));
}

/** What is said below a chart. @param {SeriesPane} pane @param {SeriesVariable} variable @returns {Node[]} */
function cardNotes(pane, variable) {
  const { unit } = pane.series;
  const notes = [];
  const { oddSteps, firstOdd } = variable;
  if (firstOdd !== null) notes.push(oddNote(pane, variable, oddSteps, firstOdd));
  if (pane.series.labels) notes.push(differenceNote(variable, unit));
  const line = variable.lines[0];
  if (line && line.width > 1)
    notes.push(make("span", "dim", `${many(line.total)} ${unit}s, ${many(line.width)} in each point`));
  if (variable.lines.length > variable.drawnLines.length)
    notes.push(make("span", "dim", `mean and range of ${counted(variable.lines.length, "rank")}`));
  const missing = line ? line.missingSteps() : 0;
  if (missing > 0) notes.push(make("span", "amber", `${counted(missing, unit)} missing`));
  if (variable.type && !pane.series.labels) notes.push(make("span", "dim", variable.type));
  return notes;
}

/** Where a variable is not finite. @param {SeriesPane} pane @param {SeriesVariable} variable @param {number} count @param {number} first */
function oddNote(pane, variable, count, first) {
  const { unit } = pane.series;
  const where = count === 1 ? `${unit} ${many(first)}` : `${counted(count, unit)}, first ${many(first)}`;
  const text = `✗ NaN or Inf in ${where}`;
  const row = pane.app.calls.size ? rowOfStep(pane.app, variable, { ...variable.lines[0], width: 1 }, first) : -1;
  return row >= 0 ? make("span", "red", link(pane.app, row, text)) : make("span", "red", text);
}

/** How far two runs agree. @param {SeriesVariable} variable @param {string} unit */
function differenceNote(variable, unit) {
  const { firstDifference, largest, lines, bands } = variable;
  const runs = new Set([...lines, ...bands].map((line) => line.run));
  if (runs.size < 2) return make("span", "red", `only in ${runs.has(0) ? "a" : "b"}`);
  if (firstDifference === null && largest === 0) return make("span", "dim", "the same in both");
  const size = largest > 0 ? `, by up to ${percentText(largest)}` : "";
  if (firstDifference === null) return make("span", "dim", `equal within the tolerance${size}`);
  const what = variable.isTensor ? "range or mean differs" : "differs";
  return make("span", "red", `▼ ${what} from ${unit} ${many(firstDifference)} on${size}`);
}

/** Listen to the pointer and the keys on a chart. @param {SeriesCard} card @param {HTMLElement} plot */
function listenToPlot(card, plot) {
  const { pane } = card;
  const { view } = pane;
  plot.addEventListener("pointermove", (event) => {
    view.point(card.stepAt(event.clientX));
    pane.tip.show(tipContent(card.variable, Math.floor(view.cursor ?? 0), pane.series), event.clientX, event.clientY);
  });
  plot.addEventListener("pointerleave", () => {
    view.point(null);
    pane.tip.hide();
  });
  plot.addEventListener("keydown", (event) => onPlotKey(card, event));
  plot.addEventListener("blur", () => view.point(null));
  new StepDrag(card, (clientX) => card.open(card.stepAt(clientX))).listen(plot);
}

/** What the keys do on a chart. @param {SeriesCard} card @returns {Record<string, () => void>} */
function plotActions(card) {
  const { view } = card.pane;
  return {
    ArrowLeft: () => card.moveCursor(-1),
    ArrowRight: () => card.moveCursor(1),
    "shift ArrowLeft": () => view.moveBy(-0.25),
    "shift ArrowRight": () => view.moveBy(0.25),
    "+": () => view.scaleBy(0.5),
    "-": () => view.scaleBy(2),
    0: () => view.show(null),
    Enter: () => card.open(view.cursor ?? view.extent[1]),
    p: () => card.pane.togglePin(card.variable),
  };
}

/** @param {SeriesCard} card @param {KeyboardEvent} event */
function onPlotKey(card, event) {
  const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
  if (hasModifier) return;
  const isShifted = event.shiftKey && event.key.startsWith("Arrow");
  const action = plotActions(card)[isShifted ? `shift ${event.key}` : event.key];
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}
