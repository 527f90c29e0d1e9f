// The box beside the pointer: all that is known of a variable at one step.

class SeriesTip {
  constructor() {
    this.element = make("div", "series-tip");
    this.element.hidden = true;
  }

  hide() {
    this.element.hidden = true;
  }

  /** Show some content near a place of the window. @param {Node[]} content @param {number} x @param {number} y */
  show(content, x, y) {
    this.element.replaceChildren(...content);
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const isRight = x + 18 + offsetWidth < innerWidth;
    const left = isRight ? x + 18 : Math.max(4, x - 18 - offsetWidth);
    const top = Math.max(4, Math.min(y + 16, innerHeight - offsetHeight - 6));
    this.element.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}

/** What a variable held at a step. @param {SeriesVariable} variable @param {number} step @param {DescribedSeries} series */
function tipContent(variable, step, series) {
  if (variable.isText) return bandTip(variable, step, series);
  /** @type {Node[]} */
  const parts = [];
  const lines = variable.lines.slice(0, MOST_LINES);
  for (const line of lines) {
    const point = line.pointAt(step);
    if (point < 0) continue;
    if (!parts.length) parts.push(make("b", "", line.stepText(point, series.unit)));
    const name = variable.lineName(line, series.labels);
    const facts = pointFacts(variable, line, point).map(([term, text]) => entry(term, text));
    if (name) parts.push(make("div", "line-name", name));
    parts.push(make("dl", "", ...facts));
  }
  const hidden = variable.lines.length - lines.length;
  if (hidden > 0) parts.push(make("div", "dim", `and ${counted(hidden, "rank")} more`));
  parts.push(...differenceTip(variable, step, series), ...markTips(step, lines[0]?.width ?? 1, series));
  return parts.length ? parts : [make("span", "", "no value at this step")];
}

/** The difference of two runs at a step. @param {SeriesVariable} variable @param {number} step @param {DescribedSeries} series */
function differenceTip(variable, step, series) {
  if (!series.labels) return [];
  const [a, b] = [0, 1].map((run) => variable.lines.find((line) => line.run === run));
  const [here, there] = [a?.pointAt(step) ?? -1, b?.pointAt(step) ?? -1];
  if (!a || !b || here < 0 || there < 0) return [];
  const [one, other] = [a.value("mean", here), b.value("mean", there)];
  if (Number.isNaN(one) || Number.isNaN(other)) return [];
  return [make("div", "", `|Δ| ${digits(Math.abs(one - other), 3)} (${percentText(relativeDifference(one, other))})`)];
}

/** What happened at a step. @param {number} step @param {number} width @param {DescribedSeries} series */
function markTips(step, width, series) {
  return series.marks.filter(([at]) => at >= step && at < step + width).map(([, kind, text]) => make("div", `mark ${kind}`, text));
}

/** @param {SeriesVariable} variable @param {number} step @param {DescribedSeries} series */
function bandTip(variable, step, series) {
  const parts = [make("b", "", `${series.unit} ${many(step)}`)];
  for (const bands of variable.bands) {
    const place = blockAt(bands, step);
    if (place < 0) continue;
    const [first, last] = [bands.first[place], bands.last[place]];
    const steps = first === last ? `${series.unit} ${many(first)}` : `${series.unit}s ${many(first)}–${many(last)}`;
    const texts = bands.count[place] > 1 ? ` (${bands.count[place]} texts)` : "";
    const name = bandsName(variable, bands, series.labels);
    parts.push(make("div", "", `${name ? `${name}: ` : ""}${bands.texts[bands.text[place]]}${texts}`), make("div", "dim", steps));
  }
  return parts;
}
