// The tools above the charts: search, groups, what is drawn, the scale, smoothing, the steps that are shown.

class SeriesTools {
  /** @param {SeriesPane} pane */
  constructor(pane) {
    this.pane = pane;
    const { view } = pane;
    this.query = this.makeQuery();
    this.count = make("span", "series-count");
    this.count.setAttribute("role", "status");
    this.state = make("span", "series-state");
    this.state.setAttribute("role", "status");
    this.state.hidden = true;
    this.reset = make("button", "");
    this.reset.setAttribute("type", "button");
    this.reset.title = "show all steps (double click on a chart)";
    this.reset.onclick = () => view.show(null);
    const grouping = choiceBox("groups", GROUPINGS, view.grouping, (choice) => pane.groupBy(choice));
    this.measure = choiceBox("tensors", MEASURES, view.measure, (choice) => view.choose(choice));
    const scale = checkBox("log scale", view.isLog, (isLog) => view.useLog(isLog));
    this.measure.hidden = !pane.variables.some((variable) => variable.isTensor);
    this.element = make("div", "series-tools", this.query, this.count, grouping, this.measure, scale,
      this.makeSmoothing(), this.reset, this.state);
    this.showRange();
  }

  makeQuery() {
    const input = /** @type {HTMLInputElement} */ (make("input"));
    input.type = "search";
    input.id = "series-query";
    input.placeholder = "/  h.*.attn.**  weight.grad  nan:";
    input.spellcheck = false;
    input.autocomplete = "off";
    input.setAttribute("aria-label", "Search variables");
    input.addEventListener("input", () => this.pane.search(input.value));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") at("series").focus();
    });
    return input;
  }

  makeSmoothing() {
    const input = /** @type {HTMLInputElement} */ (make("input"));
    Object.assign(input, { type: "range", min: "0", max: "0.99", step: "0.01", value: "0" });
    const text = make("output", "", "off");
    input.addEventListener("input", () => {
      this.pane.view.smoothing = Number(input.value);
      text.textContent = Number(input.value) > 0 ? input.value : "off";
      this.pane.view.changed();
    });
    return make("label", "tool", "smoothing ", input, " ", text);
  }

  /** Say how many variables are shown. @param {number} shown @param {number} all */
  showCount(shown, all) {
    this.count.textContent = shown === all ? counted(all, "variable") : `${many(shown)} of ${counted(all, "variable")}`;
  }

  /** Say which steps are shown, if not all. */
  showRange() {
    const { zoom } = this.pane.view;
    this.reset.hidden = !zoom;
    if (zoom) this.reset.textContent = `${this.pane.series.unit}s ${many(Math.ceil(zoom[0]))}–${many(Math.floor(zoom[1]))} ×`;
  }
}

/** A box with a label to choose one of several. */
function choiceBox(/** @type {string} */ label, /** @type {Record<string, {label: string}>} */ choices,
  /** @type {string} */ chosen, /** @type {(choice: string) => void} */ onChoice) {
  const box = /** @type {HTMLSelectElement} */ (make("select"));
  for (const [name, choice] of Object.entries(choices)) {
    const option = /** @type {HTMLOptionElement} */ (make("option", "", choice.label));
    option.value = name;
    option.selected = name === chosen;
    box.append(option);
  }
  box.addEventListener("change", () => onChoice(box.value));
  return make("label", "tool", `${label} `, box);
}

/** @param {string} label @param {boolean} isChecked @param {(isChecked: boolean) => void} onChange */
function checkBox(label, isChecked, onChange) {
  const box = /** @type {HTMLInputElement} */ (make("input"));
  box.type = "checkbox";
  box.checked = isChecked;
  box.addEventListener("change", () => onChange(box.checked));
  return make("label", "tool", box, ` ${label}`);
}
