// Variables over steps: tools, notes, a heat strip, and a card for each variable in its group.

const MOST_OPEN_CARDS = 24; // cards that are open at the start
const PINNED = "pinned";
const [CARD_WIDTH, CARD_GAP] = [360, 12]; // pixels, as in series.css

/** A group of cards that folds; its cards are made when it opens. */
class GroupBox {
  /** @param {SeriesPane} pane @param {SeriesGroup} group @param {boolean} isOpen */
  constructor(pane, group, isOpen) {
    this.pane = pane;
    this.group = group;
    this.isOpen = isOpen;
    this.cards = make("div", "cards");
    this.button = make("button", "group-head");
    this.button.setAttribute("type", "button");
    this.button.onclick = () => this.toggle();
    const isNamed = group.name !== "";
    const heading = isNamed ? make("h2", "", this.button) : make("h2", "unseen", "variables");
    this.element = make("section", "group", heading, this.cards);
    this.show();
  }

  toggle() {
    this.isOpen = !this.isOpen;
    this.pane.opened.set(this.group.name, this.isOpen);
    this.show();
  }

  show() {
    const { name, variables } = this.group;
    const odd = variables.filter((variable) => variable.oddSteps > 0).length;
    this.button.setAttribute("aria-expanded", String(this.isOpen));
    this.button.replaceChildren(make("span", "twisty", this.isOpen ? "▾" : "▸"), make("b", "", name),
      make("span", "dim", counted(variables.length, "variable")));
    if (odd) this.button.append(make("span", "red", `✗ NaN or Inf in ${odd}`));
    this.cards.hidden = !this.isOpen;
    this.fit(this.pane.columns);
    const cards = this.isOpen ? variables.map((variable) => this.pane.cardOf(variable).element) : [];
    this.cards.replaceChildren(...cards);
  }

  /** Take as many columns as there are cards, so that small groups are side by side. @param {number} columns */
  fit(columns) {
    const count = this.group.variables.length;
    const isWhole = !this.isOpen || count >= columns || this.pane.variables.length <= FEW_VARIABLES;
    this.element.style.gridColumn = isWhole ? "1 / -1" : `span ${count}`;
  }
}

/** @implements {Pane} */
class SeriesPane {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {DescribedSeries} */
    this.series = app.data.series;
    this.box = at("series");
    this.isBuilt = false;
    /** @type {Map<SeriesVariable, SeriesCard>} */
    this.cards = new Map();
    /** @type {WeakMap<Element, SeriesCard>} */
    this.cardOfElement = new WeakMap();
    /** @type {Map<string, boolean>} the groups that the user opened or closed */
    this.opened = new Map();
    this.isWaiting = false;
    this.isStripDirty = true;
  }

  /** @param {string} view */
  onView(view) {
    if (view !== "series") return;
    if (!this.isBuilt) this.build();
    this.soon();
  }

  onColours() {
    if (!this.isBuilt) return;
    this.inks = seriesInks();
    this.redraw();
  }

  /** Make everything, when the user looks at it for the first time. */
  build() {
    this.isBuilt = true;
    this.variables = seriesVariables(this.app.data);
    this.inks = seriesInks();
    this.view = new SeriesView(extentOf(this.variables), this.series.labels !== null);
    this.view.onChange.push(() => this.redraw());
    this.view.onCursor.push(() => this.showCursor());
    this.tip = new SeriesTip();
    this.tools = new SeriesTools(this);
    this.strip = new HeatStrip(this);
    this.groups = make("div", "groups");
    this.notes = make("div", "series-notes");
    this.seer = new IntersectionObserver((entries) => this.onSight(entries), { root: this.box, rootMargin: "200px" });
    this.box.replaceChildren(this.tools.element, this.notes, this.strip.element, this.groups, this.tip.element);
    new ResizeObserver(() => this.onResize()).observe(this.box);
    this.showNotes();
    this.arrange();
    if (this.series.revision === null) return;
    this.follower = new SeriesFollower(this, this.series.revision);
    this.follower.start();
  }

  /** Take new points, and variables that are new. @param {DescribedSeries} series @param {Table} points */
  update(series, points) {
    const known = new Map(this.variables.map((variable) => [variable.path, variable]));
    const added = series.variables.filter((described) => !known.has(described.path));
    for (const described of series.variables) known.get(described.path)?.update(described, points);
    for (const described of added) this.variables.push(new SeriesVariable(described, points, this.variables.length));
    Object.assign(this.series, { notes: series.notes, marks: series.marks, state: series.state });
    this.view.extent = extentOf(this.variables);
    this.showNotes();
    const changed = new Set(series.variables.map((described) => described.path));
    for (const [variable, card] of this.cards) if (changed.has(variable.path) && card.isVisible) card.describe();
    if (added.length) this.arrange();
    if (changed.size) this.redraw();
  }

  /** How many cards are side by side. */
  get columns() {
    return Math.max(1, Math.floor((this.groups.clientWidth + CARD_GAP) / (CARD_WIDTH + CARD_GAP)));
  }

  onResize() {
    const { columns } = this;
    for (const box of this.boxes) box.fit(columns);
    this.redraw();
  }

  /** What a reader must know before the charts: where NaN began, what is missing, which attempts there were. */
  showNotes() {
    const notes = [...this.firstOddNote(), ...this.series.notes.map((note) => make("p", "", note))];
    this.notes.replaceChildren(...notes);
    this.notes.hidden = !notes.length;
  }

  /** The variables in which the first NaN or Inf appeared, with a way there. */
  firstOddNote() {
    const found = this.variables.filter((variable) => variable.firstOdd !== null);
    if (!found.length) return [];
    const first = Math.min(...found.map((variable) => /** @type {number} */ (variable.firstOdd)));
    const [variable, ...others] = found.filter((each) => each.firstOdd === first);
    const button = make("button", "", "go there");
    button.setAttribute("type", "button");
    button.onclick = () => this.goTo(variable, first);
    const more = others.length ? ` and ${counted(others.length, "other")}` : "";
    const text = `first NaN or Inf: ${this.series.unit} ${many(first)} in `;
    return [make("p", "first-odd", text, make("b", "", variable.path), `${more} `, button)];
  }

  /** Put the cards of the variables that are asked for into their groups. */
  arrange() {
    const shown = matchingVariables(this.variables, this.view.query);
    const isSearch = this.view.query.trim() !== "";
    const pinned = shown.filter((variable) => this.view.pins.has(variable.path));
    const others = shown.filter((variable) => !this.view.pins.has(variable.path));
    const groups = groupsOf(others, this.view.grouping);
    if (pinned.length) groups.unshift({ name: PINNED, variables: pinned });
    let room = MOST_OPEN_CARDS;
    const boxes = groups.map((group) => {
      const isFirst = room === MOST_OPEN_CARDS;
      const fits = isFirst || group.variables.length <= room || isSearch;
      room -= fits ? group.variables.length : 0;
      return new GroupBox(this, group, this.opened.get(group.name) ?? fits);
    });
    this.boxes = boxes;
    this.groups.replaceChildren(...boxes.map((box) => box.element));
    if (!shown.length) this.groups.replaceChildren(make("p", "nothing", this.nothingText()));
    this.tools.showCount(shown.length, this.variables.length);
    this.strip.take(shown);
    this.isStripDirty = true;
    this.soon();
  }

  nothingText() {
    return this.variables.length ? `no variable matches ${this.view.query.trim()}` : "no values yet";
  }

  /** @param {SeriesVariable} variable */
  cardOf(variable) {
    let card = this.cards.get(variable);
    if (!card) {
      card = new SeriesCard(this, variable);
      this.cards.set(variable, card);
      this.cardOfElement.set(card.element, card);
      this.seer.observe(card.element);
    }
    return card;
  }

  /** Cards came into sight, or left it. @param {IntersectionObserverEntry[]} entries */
  onSight(entries) {
    for (const { target, isIntersecting } of entries) {
      const card = this.cardOfElement.get(target);
      if (!card) continue;
      if (!isIntersecting) card.leave();
      card.isVisible = isIntersecting;
    }
    this.soon();
  }

  /** Draw what has changed, at the next picture of the browser. */
  soon() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.draw();
    });
  }

  redraw() {
    for (const card of this.cards.values()) card.isDirty = true;
    this.tools.showRange();
    this.isStripDirty = true;
    this.soon();
  }

  refreshStrip() {
    this.strip.take(matchingVariables(this.variables, this.view.query));
    this.isStripDirty = true;
    this.soon();
  }

  draw() {
    if (!this.isBuilt || this.app.view !== "series") return;
    for (const card of this.cards.values()) if (card.isDirty && card.isVisible) card.draw();
    if (this.isStripDirty) this.strip.draw();
    this.isStripDirty = false;
  }

  showCursor() {
    for (const card of this.cards.values()) if (card.isVisible) card.showCursor();
    this.strip.showCursor();
  }

  /** @param {string} query */
  search(query) {
    this.view.query = query;
    this.arrange();
  }

  /** @param {string} grouping */
  groupBy(grouping) {
    this.view.grouping = grouping;
    remember("series-grouping", grouping);
    this.forgetCards();
    this.arrange();
  }

  /** Make the cards anew when they are next shown. */
  forgetCards() {
    this.seer.disconnect();
    this.cards.clear();
  }

  /** @param {SeriesVariable} variable */
  togglePin(variable) {
    this.view.togglePin(variable.path);
    this.cards.get(variable)?.describe();
    this.arrange();
  }

  /** Go to the card of a variable, at a step. @param {SeriesVariable} variable @param {number} step */
  goTo(variable, step) {
    const box = this.boxes.find((each) => each.group.variables.includes(variable));
    if (!box) return;
    if (!box.isOpen) box.toggle();
    const card = this.cardOf(variable);
    card.element.scrollIntoView({ block: "center" });
    card.plot.focus({ preventScroll: true });
    card.element.classList.remove("found");
    requestAnimationFrame(() => card.element.classList.add("found"));
    this.view.point(step);
  }
}

/** The first and the last step of all variables. @param {SeriesVariable[]} variables @returns {[number, number]} */
function extentOf(variables) {
  const ends = variables.map((variable) => variable.extent).filter((extent) => extent[0] <= extent[1]);
  if (!ends.length) return [0, 0];
  return [Math.min(...ends.map((extent) => extent[0])), Math.max(...ends.map((extent) => extent[1]))];
}

/** The view that a page begins with: variables where it has no calls. @param {App} app */
function firstView(app) {
  if (!app.hasView("series")) return "tree";
  const isOnlyVariables = !app.calls.hasCalls && app.pairs !== null;
  return isOnlyVariables || !app.tree.size ? "series" : "tree";
}
