// The columns of the table: which are shown, how wide they are, and which one sorts the rows.

const LEAST_WIDTH = 40; // pixels of a column that the user has made narrow
const WIDTH_BY_KEY = 16;

/**
 * @typedef {object} Column
 * @property {string} name the heading
 * @property {string} kind the class of its cells
 * @property {number} least the least width, in pixels
 * @property {number} [comfort] the width up to which its content is not cut, as long as there are optional columns
 * @property {number} [most] the largest width that its content gets
 * @property {number} [spare] what it wants beside its content, in pixels
 * @property {number} [grow] its share of the width that is left
 * @property {number} [rank] where the pane is too narrow, the column with the highest rank leaves first
 * @property {boolean} [isOptional] whether it leaves before the content of others is cut
 * @property {string} [sorts] what the rows are sorted by, in words
 * @property {boolean} [isEmpty] whether no row has anything in it
 * @property {string} [hint] how to record what the column shows
 */

class Columns {
  /**
   * @param {Column[]} columns
   * @param {() => void} onLayout the columns have other widths
   * @param {(column: Column) => void} onSort the user asks for another order
   */
  constructor(columns, onLayout, onSort) {
    this.every = columns;
    this.onLayout = onLayout;
    this.onSort = onSort;
    this.room = 0;
    /** @type {number[]} the widths of what the columns contain */
    this.natural = columns.map((column) => column.least);
    /** @type {Record<string, number>} the widths that the user has chosen */
    this.chosen = rememberedWidths();
    /** @type {Record<string, number>} the widths of columns that grow, while others are resized: edges stay in place */
    this.frozen = {};
    /** @type {boolean[]} */
    this.isShown = columns.map((column) => !column.isEmpty);
    this.heads = columns.map((column, place) => this.head(column, place));
    at("heads").className = "row";
    at("heads").replaceChildren(...this.heads);
    this.showHints();
  }

  /** The heading of a column: a button that sorts, and an edge that the pointer moves. */
  head(/** @type {Column} */ column, /** @type {number} */ place) {
    const button = make("button", "head", make("span", "name", column.name), make("span", "arrow"));
    button.setAttribute("type", "button");
    button.title = headTitle(column);
    button.onclick = () => this.onSort(column);
    button.addEventListener("keydown", (event) => this.onKey(event, place));
    const head = make("span", `cell ${column.kind}`, button, this.grip(place));
    head.setAttribute("role", "columnheader");
    return head;
  }

  /** The right edge of a heading. @param {number} place */
  grip(place) {
    const grip = make("span", "grip");
    grip.addEventListener("pointerdown", (event) => {
      grip.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    grip.addEventListener("pointermove", (event) => {
      if (!grip.hasPointerCapture(event.pointerId)) return;
      this.resize(place, event.clientX - this.heads[place].getBoundingClientRect().left);
    });
    grip.addEventListener("dblclick", () => this.fit(place));
    return grip;
  }

  /** Shift and an arrow make a column wider or narrower. @param {KeyboardEvent} event @param {number} place */
  onKey(event, place) {
    const by = { ArrowLeft: -WIDTH_BY_KEY, ArrowRight: WIDTH_BY_KEY }[event.key];
    if (!event.shiftKey || by === undefined) return;
    this.resize(place, this.heads[place].clientWidth + by);
    event.preventDefault();
    event.stopPropagation();
  }

  /** Say in the first heading how to record what is missing. */
  showHints() {
    const hints = [...new Set(this.every.filter((column) => column.isEmpty).map((column) => column.hint))];
    const text = hints.filter(Boolean).join(" · ");
    if (!text) return;
    const hint = make("span", "hint", text);
    hint.title = text;
    this.heads[0].insertBefore(hint, this.heads[0].lastChild);
  }

  /** Show a picture in a heading instead of its name: an axis. @param {string} kind @param {Element} picture */
  showInHead(kind, picture) {
    const place = this.every.findIndex((column) => column.kind === kind);
    this.heads[place]?.querySelector(".name")?.replaceChildren(picture);
  }

  /** Put a button into the first heading. @param {HTMLElement} button */
  addTool(button) {
    this.heads[0].insertBefore(button, this.heads[0].lastChild);
  }

  /** Give a column another width, as long as the others keep their least. @param {number} place @param {number} width */
  resize(place, width) {
    this.freeze();
    const others = this.every.filter((_, other) => other !== place && this.isShown[other]);
    const most = this.room - sum(others.map((column) => column.least));
    this.chosen[this.every[place].kind] = Math.round(Math.max(LEAST_WIDTH, Math.min(width, most)));
    remember("widths", JSON.stringify(this.chosen));
    this.layout(this.room);
  }

  /** Let the columns that grow keep their widths. */
  freeze() {
    for (const { column, place } of this.shownColumns())
      if (column.grow) this.frozen[column.kind] ??= this.heads[place].clientWidth;
  }

  /** Make a column as wide as what it contains. @param {number} place */
  fit(place) {
    this.measure();
    this.resize(place, this.natural[place]);
  }

  /** Find out how wide the content of each column is, in the rows that are elements now. */
  measure() {
    const box = at("grid");
    const shown = this.shownColumns();
    const template = box.style.getPropertyValue("--columns");
    box.style.setProperty("--columns", shown.map(() => "max-content").join(" "));
    for (const { place, column } of shown) {
      const cells = box.querySelectorAll(`.row:not([hidden]) > .${column.kind}`);
      const widths = Array.from(cells, (cell) => cell.getBoundingClientRect().width);
      this.natural[place] = Math.ceil(Math.max(column.least, ...widths)) + (column.spare ?? 0);
    }
    box.style.setProperty("--columns", template);
  }

  shownColumns() {
    return this.every.map((column, place) => ({ column, place })).filter(({ place }) => this.isShown[place]);
  }

  /** Choose the columns that fit, and their widths. @param {number} room the width of the pane */
  layout(room) {
    if (room !== this.room) this.frozen = {};
    this.room = room;
    this.chooseShown(room);
    const shown = this.shownColumns();
    const widths = columnWidths(shown.map(({ column, place }) => this.limits(column, place)), room);
    const template = shown.map(({ column }, index) => this.track(column, widths[index]));
    at("grid").style.setProperty("--columns", template.join(" "));
    this.heads.forEach((head, place) => {
      head.hidden = !this.isShown[place];
    });
    this.onLayout();
  }

  /** Leave out columns until the others have room. @param {number} room */
  chooseShown(room) {
    this.isShown = this.every.map((column) => !column.isEmpty);
    const ranked = this.every.filter((column) => column.rank).sort((a, b) => (b.rank ?? 0) - (a.rank ?? 0));
    for (const column of ranked) {
      const limits = this.shownColumns().map(({ column: shown, place }) => this.limits(shown, place));
      const needed = sum(limits.map(({ least, comfort }) => (column.isOptional ? comfort : least)));
      if (needed > room) this.isShown[this.every.indexOf(column)] = false;
    }
  }

  /** The least, the comfortable and the wanted width of a column. @param {Column} column @param {number} place */
  limits(column, place) {
    const chosen = this.chosen[column.kind] ?? this.frozen[column.kind];
    const natural = this.natural[place];
    if (chosen) return { least: Math.min(chosen, column.least), comfort: chosen, wanted: chosen };
    const comfort = Math.max(column.least, Math.min(natural, column.comfort ?? 0));
    return { least: column.least, comfort, wanted: Math.min(natural, column.most ?? Infinity) };
  }

  /** The width of a column as the style needs it. @param {Column} column @param {number} width */
  track(column, width) {
    const pixels = `${Math.floor(width)}px`;
    const isFixed = this.chosen[column.kind] || this.frozen[column.kind];
    const grows = column.grow && !isFixed;
    return grows ? `minmax(${pixels}, ${column.grow}fr)` : pixels;
  }

  /** Mark the column that sorts the rows. @param {string} kind @param {boolean} isReversed */
  showOrder(kind, isReversed) {
    this.heads.forEach((head, place) => {
      const isSorting = this.every[place].kind === kind;
      const arrow = isReversed ? "▴" : "▾";
      /** @type {HTMLElement} */ (head.querySelector(".arrow")).textContent = isSorting ? arrow : "";
      if (isSorting) head.setAttribute("aria-sort", isReversed ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  }
}

/** @param {Column} column */
function headTitle(column) {
  const sorts = column.sorts ? `sort by ${column.sorts}; again: reverse; again: order of execution\n` : "";
  return `${sorts}drag the edge to resize, double click it to fit (Shift+← Shift+→)`;
}

/** @typedef {{least: number, comfort: number, wanted: number}} WidthLimits */

/** Widths that fill a room: each column gets its least, then its comfortable, then its wanted width. */
function columnWidths(/** @type {WidthLimits[]} */ limits, /** @type {number} */ room) {
  const least = limits.map((limit) => limit.least);
  const comfortable = stretched(least, limits.map((limit) => limit.comfort), room);
  return stretched(comfortable, limits.map((limit) => limit.wanted), room);
}

/** Widths between two others: what is missing is taken from all in proportion. @returns {number[]} */
function stretched(/** @type {number[]} */ from, /** @type {number[]} */ to, /** @type {number} */ room) {
  const extra = from.map((width, place) => Math.max(0, to[place] - width));
  const free = Math.max(0, room - sum(from));
  const share = Math.min(1, free / Math.max(1, sum(extra)));
  return from.map((width, place) => width + extra[place] * share);
}

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The widths that the user chose earlier. @returns {Record<string, number>} */
function rememberedWidths() {
  try {
    return JSON.parse(remembered("widths") ?? "{}");
  } catch {
    return {};
  }
}
