// One chart: the lines of a variable in their bands, and what happened at its steps.

const CHART_HEIGHTS = { small: 140, large: 340 };
const GUTTER = 54; // for the numbers beside the chart
const DIFFERENCE_HEIGHT = 34; // of the difference of two runs, below their lines
const FOOT = 17; // for the steps below it
const ROOM = { top: 8, right: 10 };
const MOST_DOTS = 60; // points that are drawn as dots too
const SERIES_INKS = ["series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7", "series-8"];
const DASHES = [[], [5, 3], [1.5, 2.5], [7, 2, 1.5, 2]];
const CHART_FONT = "10.5px ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";

/** @typedef {{left: number, right: number, top: number, bottom: number}} ChartFrame */

/** The colours of charts and strips, as a canvas needs them. */
function seriesInks() {
  const names = ["text", "dim", "line", "faint", "red", "amber", "accent", "panel", ...SERIES_INKS, ...NORM_INKS];
  const probe = document.body.appendChild(make("span"));
  const found = Object.fromEntries(names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return found;
}

/** A line as it is drawn: the points in the range of steps, with one more on each side. */
class ChartLine {
  /** @param {SeriesLine} line @param {SeriesVariable} variable @param {SeriesView} view @param {number} place */
  constructor(line, variable, view, place) {
    const measure = MEASURES[variable.isTensor ? view.measure : "range"];
    const [first, last] = view.range;
    this.line = line;
    this.from = Math.max(0, line.pointFrom(first) - 1);
    this.to = Math.min(line.length, lowerBound(line.steps, last) + 2);
    this.ink = SERIES_INKS[place % SERIES_INKS.length];
    this.dash = DASHES[Math.floor(place / SERIES_INKS.length) % DASHES.length];
    this.isWhole = line.isWhole || measure.line === "zeros";
    this.values = Array.from({ length: line.length }, (_, point) => line.value(measure.line, point));
    this.smooth = view.smoothing > 0 ? smoothed(this.values, view.smoothing) : null;
    this.hasBand = measure.hasBand && line.hasRange;
    this.low = (/** @type {number} */ point) => measure.low(line, point);
    this.high = (/** @type {number} */ point) => measure.high(line, point);
  }

  /** The least and the largest value, and the least size of one that is not 0. */
  limits() {
    let low = Infinity, high = -Infinity, least = Infinity;
    const take = (/** @type {number} */ value) => {
      if (!Number.isFinite(value)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
      if (value !== 0) least = Math.min(least, Math.abs(value));
    };
    for (let point = this.from; point < this.to; point++) {
      take(this.values[point]);
      if (!this.hasBand) continue;
      take(this.low(point));
      take(this.high(point));
    }
    return { low, high, least };
  }

  /** The points that follow each other without a gap. @returns {[number, number][]} */
  stretches() {
    /** @type {[number, number][]} */
    const found = [];
    let start = -1;
    for (let point = this.from; point < this.to; point++) {
      const isBreak = Number.isNaN(this.values[point]);
      const endsHere = start >= 0 && (isBreak || this.line.isAfterGap(point));
      if (endsHere) found.push([start, point]);
      if (isBreak) start = -1;
      else if (start < 0 || endsHere) start = point;
    }
    if (start >= 0) found.push([start, this.to]);
    return found;
  }
}

/**
 * The relative difference at each step that both lines have, and where the step is.
 * @param {ChartLine} a @param {ChartLine} b @returns {[number, number][]}
 */
function stepDifferences(a, b) {
  /** @type {[number, number][]} */
  const found = [];
  for (let point = a.from; point < a.to; point++) {
    const there = b.line.pointAt(a.line.steps[point]);
    const difference = there < 0 ? NaN : relativeDifference(a.values[point], b.values[there]);
    if (Number.isFinite(difference)) found.push([a.line.middle(point), difference]);
  }
  return found;
}

/** The lines of a variable, ready to be drawn. @param {SeriesVariable} variable @param {SeriesView} view */
function chartLinesOf(variable, view) {
  return variable.drawnLines.map((line, place) => new ChartLine(line, variable, view, place));
}

class ChartDrawing {
  /**
   * @param {HTMLCanvasElement} canvas @param {number} height @param {SeriesVariable} variable @param {SeriesView} view
   * @param {Record<string, string>} inks @param {DescribedSeries} series
   */
  constructor(canvas, height, variable, view, inks, series) {
    const { pen, width } = cleared(canvas, height);
    this.pen = pen;
    this.inks = inks;
    this.view = view;
    this.variable = variable;
    this.series = series;
    /** @type {ChartFrame} */
    this.frame = chartFrame(width, height);
    this.floor = this.frame.bottom;
    if (series.labels) this.frame.bottom -= DIFFERENCE_HEIGHT;
    this.lines = chartLinesOf(variable, view);
    this.scale = chartScale(this.lines, view.isLog, height > CHART_HEIGHTS.small ? 9 : 5);
  }

  /** Where a step is. @param {number} step */
  x(step) {
    return acrossChart(step, this.view.range, this.frame);
  }

  /** Where a value is. @param {number} value */
  y(value) {
    const { top, bottom } = this.frame;
    return bottom - this.scale.place(value) * (bottom - top);
  }

  draw() {
    const { pen } = this;
    pen.font = CHART_FONT;
    this.drawGrid();
    pen.save();
    pen.clip(this.plotArea());
    this.drawMarks();
    for (const chartLine of this.lines) this.drawBand(chartLine);
    this.drawDifference();
    for (const chartLine of this.lines) this.drawLine(chartLine);
    for (const chartLine of this.lines) this.drawOdd(chartLine);
    pen.restore();
    if (this.series.labels) this.drawDifferenceBelow();
  }

  /** Lines at round values and steps, with their numbers. */
  drawGrid() {
    const { pen, frame, inks, scale } = this;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.lineWidth = 1;
    const isWhole = this.lines.every((chartLine) => chartLine.isWhole);
    for (const tick of scale.ticks) {
      const y = Math.round(this.y(tick)) + 0.5;
      pen.strokeStyle = inks.line;
      strokeLine(pen, frame.left, y, frame.right, y);
      pen.fillStyle = inks.dim;
      pen.fillText(digits(tick, 3, isWhole && Number.isInteger(tick)), frame.left - 6, y);
    }
    drawStepAxis(pen, this.view.range, { ...frame, bottom: this.floor }, inks);
  }

  /** What happened at steps: attempts, errors, marks; and the first difference of two runs. */
  drawMarks() {
    const { pen, frame, inks, variable } = this;
    pen.setLineDash([3, 3]);
    for (const [step, kind] of this.series.marks) {
      pen.strokeStyle = { attempt: inks.amber, error: inks.red }[kind] ?? inks.faint;
      const x = Math.round(this.x(step)) + 0.5;
      strokeLine(pen, x, 0, x, frame.bottom);
    }
    pen.setLineDash([]);
    if (variable.firstDifference === null) return;
    const x = Math.round(this.x(variable.firstDifference)) + 0.5;
    pen.fillStyle = inks.red;
    pen.strokeStyle = inks.red;
    strokeLine(pen, x, 2, x, this.floor);
    pen.beginPath();
    pen.moveTo(x - 4, 0);
    pen.lineTo(x + 4, 0);
    pen.lineTo(x, 6);
    pen.fill();
  }

  /** The area from the least to the largest value. @param {ChartLine} chartLine */
  drawBand(chartLine) {
    if (!chartLine.hasBand) return;
    const { pen, inks } = this;
    pen.fillStyle = inks[chartLine.ink];
    pen.strokeStyle = inks[chartLine.ink];
    pen.lineWidth = 0.6;
    pen.lineJoin = "round";
    for (const [start, end] of chartLine.stretches()) {
      this.outlineBand(chartLine, start, end);
      pen.globalAlpha = this.lines.length > 1 ? 0.1 : 0.17;
      pen.fill();
      pen.globalAlpha = 0.3; // an edge, for a single large value is thinner than what is seen of the area
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  /** Go along the largest values and back along the least. @param {ChartLine} chartLine @param {number} start @param {number} end */
  outlineBand(chartLine, start, end) {
    const { pen } = this;
    const x = (/** @type {number} */ point) => this.x(chartLine.line.middle(point));
    const top = (/** @type {number} */ point) => this.y(chartLine.high(point));
    const bottom = (/** @type {number} */ point) => this.y(chartLine.low(point));
    pen.beginPath();
    const isSinglePoint = end - start === 1; // whose area would have no width
    if (isSinglePoint) pen.rect(x(start) - 2, top(start), 4, bottom(start) - top(start));
    for (let point = start; point < end; point++) pen.lineTo(x(point), top(point));
    for (let point = end - 1; point >= start; point--) pen.lineTo(x(point), bottom(point));
  }

  /** The lines of two runs; undefined where one run does not have the variable. */
  get pair() {
    return [0, 1].map((run) => this.lines.find((chartLine) => chartLine.line.run === run));
  }

  /** The area between the lines of two runs. */
  drawDifference() {
    const [a, b] = this.pair;
    if (!this.series.labels || !a || !b) return;
    const { pen, inks } = this;
    pen.fillStyle = inks.red;
    pen.globalAlpha = 0.22;
    for (let point = a.from + 1; point < a.to; point++) {
      const [here, before] = [b.line.pointAt(a.line.steps[point]), b.line.pointAt(a.line.steps[point - 1])];
      const corners = [a.values[point - 1], a.values[point], b.values[here], b.values[before]];
      if (!corners.every((value) => Number.isFinite(value))) continue;
      const [left, right] = [this.x(a.line.middle(point - 1)), this.x(a.line.middle(point))];
      pen.beginPath();
      pen.moveTo(left, this.y(corners[0]));
      pen.lineTo(right, this.y(corners[1]));
      pen.lineTo(right, this.y(corners[2]));
      pen.lineTo(left, this.y(corners[3]));
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  /** The relative difference of two runs, step by step. */
  drawDifferenceBelow() {
    const [a, b] = this.pair;
    const { pen, frame, inks } = this;
    if (!a || !b) return;
    const found = stepDifferences(a, b);
    const most = found.reduce((largest, [, difference]) => Math.max(largest, difference), 0);
    pen.fillStyle = inks.dim;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(most > 0 ? percentText(most) : "Δ 0", frame.left - 6, frame.bottom + 14);
    if (most === 0) return;
    const high = DIFFERENCE_HEIGHT - 9;
    pen.fillStyle = inks.red;
    pen.beginPath();
    pen.moveTo(this.x(found[0][0]), this.floor);
    for (const [step, difference] of found) pen.lineTo(this.x(step), this.floor - (difference / most) * high);
    pen.lineTo(this.x(found[found.length - 1][0]), this.floor);
    pen.save();
    pen.clip(this.plotArea());
    pen.globalAlpha = 0.5;
    pen.fill();
    pen.restore();
  }

  plotArea() {
    const { frame } = this;
    const area = new Path2D();
    area.rect(frame.left, 0, frame.right - frame.left, this.floor + 1);
    return area;
  }

  /** @param {ChartLine} chartLine */
  drawLine(chartLine) {
    const { pen, inks } = this;
    pen.strokeStyle = inks[chartLine.ink];
    pen.fillStyle = inks[chartLine.ink];
    pen.lineJoin = "round";
    pen.setLineDash(this.series.labels && chartLine.line.run === 1 ? DASHES[1] : chartLine.dash);
    if (chartLine.smooth) {
      pen.globalAlpha = 0.3;
      this.strokeValues(chartLine, chartLine.values, 1);
      pen.globalAlpha = 1;
      this.strokeValues(chartLine, chartLine.smooth, 1.8);
    } else this.strokeValues(chartLine, chartLine.values, 1.5);
    pen.setLineDash([]);
    if (chartLine.to - chartLine.from <= MOST_DOTS) this.drawDots(chartLine);
  }

  /** @param {ChartLine} chartLine @param {number[]} values @param {number} thickness */
  strokeValues(chartLine, values, thickness) {
    const { pen } = this;
    const { line } = chartLine;
    pen.lineWidth = thickness;
    for (const [start, end] of chartLine.stretches()) {
      pen.beginPath();
      for (let point = start; point < end; point++) pen.lineTo(this.x(line.middle(point)), this.y(values[point]));
      pen.stroke();
      if (end - start === 1) this.drawDot(this.x(line.middle(start)), this.y(values[start]));
    }
  }

  /** @param {ChartLine} chartLine */
  drawDots(chartLine) {
    for (const [start, end] of chartLine.stretches())
      for (let point = start; point < end; point++)
        this.drawDot(this.x(chartLine.line.middle(point)), this.y(chartLine.values[point]));
  }

  /** @param {number} x @param {number} y */
  drawDot(x, y) {
    this.pen.beginPath();
    this.pen.arc(x, y, 2.2, 0, 2 * Math.PI);
    this.pen.fill();
  }

  /** Red ticks at the foot, where something is not finite. @param {ChartLine} chartLine */
  drawOdd(chartLine) {
    const { pen, frame, inks } = this;
    if (!chartLine.line.oddSteps) return;
    pen.fillStyle = inks.red;
    let before = -Infinity;
    for (let point = chartLine.from; point < chartLine.to; point++) {
      if (!chartLine.line.isOdd(point)) continue;
      const x = this.x(chartLine.line.middle(point));
      if (x - before < 1) continue;
      pen.fillRect(x - 1.25, frame.bottom - 11, 2.5, 12);
      before = x;
    }
  }
}

/** The area of a chart in a canvas. @param {number} width @param {number} height @returns {ChartFrame} */
function chartFrame(width, height) {
  return { left: GUTTER, right: width - ROOM.right, top: ROOM.top, bottom: height - FOOT };
}

/** Where a step is across a chart. @param {number} step @param {[number, number]} range @param {ChartFrame} frame */
function acrossChart(step, [first, last], frame) {
  if (first === last) return (frame.left + frame.right) / 2;
  return frame.left + ((step - first) / (last - first)) * (frame.right - frame.left);
}

/** The step at a place across a chart. @param {number} x @param {[number, number]} range @param {ChartFrame} frame */
function stepAcross(x, [first, last], frame) {
  const part = (x - frame.left) / Math.max(frame.right - frame.left, 1);
  return first + Math.max(0, Math.min(part, 1)) * (last - first);
}

/** The numbers of the steps below a chart or a strip. */
function drawStepAxis(/** @type {CanvasRenderingContext2D} */ pen, /** @type {[number, number]} */ range,
  /** @type {ChartFrame} */ frame, /** @type {Record<string, string>} */ inks) {
  pen.strokeStyle = inks.line;
  strokeLine(pen, frame.left, frame.bottom + 0.5, frame.right, frame.bottom + 0.5);
  pen.fillStyle = inks.dim;
  pen.textAlign = "center";
  pen.textBaseline = "top";
  const most = Math.max(2, Math.floor((frame.right - frame.left) / 80));
  for (const step of stepTicks(range[0], range[1], most)) {
    const x = acrossChart(step, range, frame);
    const half = pen.measureText(stepText(step)).width / 2;
    pen.fillText(stepText(step), Math.min(Math.max(x, frame.left - 8 + half), frame.right + 8 - half), frame.bottom + 5);
  }
}

/** The scale that holds all lines. @param {ChartLine[]} lines @param {boolean} isLog @param {number} most ticks */
function chartScale(lines, isLog, most) {
  const limits = lines.map((line) => line.limits());
  const low = Math.min(...limits.map((each) => each.low));
  const high = Math.max(...limits.map((each) => each.high));
  if (low > high) return { ...linearScale(0, 1, 3), ticks: [] };
  if (!isLog) return linearScale(low, high, most);
  return logScale(low, high, Math.min(...limits.map((each) => each.least)), most);
}

/** @param {CanvasRenderingContext2D} pen */
function strokeLine(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}
