// A variable whose values are texts: a row of coloured blocks for each rank, each with its text.

const BAND_HEIGHT = 24;
const BAND_GAP = 4;
const STRIPE = 5; // pixels between the stripes of a block with several texts

/** How high the picture of a variable is. @param {SeriesVariable} variable @param {boolean} isLarge */
function pictureHeight(variable, isLarge) {
  if (!variable.isText) return isLarge ? CHART_HEIGHTS.large : CHART_HEIGHTS.small;
  return ROOM.top + variable.bands.length * (BAND_HEIGHT + BAND_GAP) + FOOT;
}

class BandDrawing {
  /**
   * @param {HTMLCanvasElement} canvas @param {number} height @param {SeriesVariable} variable @param {SeriesView} view
   * @param {Record<string, string>} inks @param {DescribedSeries} series
   */
  constructor(canvas, height, variable, view, inks, series) {
    const { pen, width } = cleared(canvas, height);
    this.pen = pen;
    this.variable = variable;
    this.view = view;
    this.inks = inks;
    this.series = series;
    this.frame = chartFrame(width, height);
    this.colours = textColours(variable.bands);
  }

  /** Where a step begins; a block reaches to the beginning of the next step. @param {number} step */
  x(step) {
    return acrossChart(step, this.view.range, this.frame);
  }

  draw() {
    const { pen, frame, inks } = this;
    pen.font = CHART_FONT;
    pen.lineWidth = 1;
    drawStepAxis(pen, this.view.range, frame, inks);
    this.variable.bands.forEach((bands, row) => this.drawRow(bands, row));
  }

  /** @param {DescribedBands} bands @param {number} row */
  drawRow(bands, row) {
    const { pen, frame, inks } = this;
    const top = frame.top + row * (BAND_HEIGHT + BAND_GAP);
    pen.fillStyle = inks.dim;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(bandsName(this.variable, bands, this.series.labels), frame.left - 6, top + BAND_HEIGHT / 2);
    pen.save();
    pen.beginPath();
    pen.rect(frame.left, top, frame.right - frame.left, BAND_HEIGHT);
    pen.clip();
    bands.first.forEach((first, place) => {
      const left = this.x(first);
      const right = Math.max(this.x(blockEnd(bands, place)), left + 1);
      if (right >= frame.left && left <= frame.right) this.drawBlock(bands, place, left, right, top);
    });
    pen.restore();
  }

  /** @param {DescribedBands} bands @param {number} place @param {number} left @param {number} right @param {number} top */
  drawBlock(bands, place, left, right, top) {
    const { pen, frame, inks } = this;
    const text = bands.texts[bands.text[place]];
    const ink = inks[this.colours.get(text) ?? "faint"];
    pen.fillStyle = ink;
    pen.globalAlpha = 0.25;
    pen.fillRect(left, top, right - left - 0.5, BAND_HEIGHT);
    pen.globalAlpha = 1;
    pen.fillRect(left, top + BAND_HEIGHT - 3, right - left - 0.5, 3);
    if (bands.count[place] > 1) this.drawStripes(ink, left, right, top);
    const start = Math.max(left, frame.left) + 5;
    const room = Math.floor((Math.min(right, frame.right) - start - 3) / 6.4);
    if (room < 2) return;
    pen.fillStyle = inks.text;
    pen.textAlign = "left";
    pen.fillText(cutText(text, room), start, top + BAND_HEIGHT / 2 - 1);
  }

  /** A block in which the text changed. */
  drawStripes(/** @type {string} */ ink, /** @type {number} */ left, /** @type {number} */ right, /** @type {number} */ top) {
    const { pen } = this;
    pen.strokeStyle = ink;
    for (let x = left; x < right; x += STRIPE) strokeLine(pen, x, top + BAND_HEIGHT, x + STRIPE, top);
  }
}

/** The step at which a block ends: the next block begins there, unless steps are missing. @param {DescribedBands} bands @param {number} place */
function blockEnd(bands, place) {
  const end = bands.last[place] + 1;
  const next = bands.first[place + 1];
  if (next === undefined) return end;
  const usual = Math.max(bands.width, usualDistance(bands.first.length > 2 ? bands.first : bands.last));
  return next - bands.last[place] <= 1.5 * usual ? next : end;
}

/** The name of a row. @param {SeriesVariable} variable @param {DescribedBands} bands @param {string[]|null} labels */
function bandsName(variable, bands, labels) {
  if (labels) return cutText(labels[bands.run], 7);
  return variable.bands.length > 1 ? `rank ${bands.rank}` : "";
}

/** A colour for each text, in the order in which they appear. @param {DescribedBands[]} every */
function textColours(every) {
  const texts = new Set(every.flatMap((bands) => bands.texts));
  return new Map([...texts].map((text, place) => [text, SERIES_INKS[place % SERIES_INKS.length]]));
}

/** The block that has a step; -1 if there is none. @param {DescribedBands} bands @param {number} step */
function blockAt(bands, step) {
  const place = lowerBound(bands.last, step);
  return place < bands.first.length && bands.first[place] <= step ? place : -1;
}

/** A text that fits into so many characters. @param {string} text @param {number} most */
const cutText = (text, most) => (text.length > most ? `${text.slice(0, Math.max(most - 1, 1))}…` : text);
