// A table of many rows of which only those on the screen are elements, and the ways to move in it.

const ROW = 22; // pixels, as in the style
const SPARE_ROWS = 3; // above and below the screen

class Grid {
  /**
   * @param {RowTree} tree
   * @param {Columns} columns
   * @param {(cells: HTMLElement[], row: number, element: HTMLElement) => void} paintRow
   * @param {(row: number, how: string) => void} onItem an item was selected
   */
  constructor(tree, columns, paintRow, onItem) {
    this.tree = tree;
    this.columns = columns;
    this.paintRow = paintRow;
    this.onItem = onItem;
    /** @type {(() => void)|undefined} the rows were painted */
    this.onPaint = undefined;
    /** @type {(() => void)|undefined} a row is to be selected that the filter hides */
    this.onHidden = undefined;
    this.selected = -1;
    this.box = at("grid");
    this.rows = at("rows");
    /** @type {HTMLElement[]} */
    this.pool = [];
    this.isWaiting = false;
    this.range = [0, 0]; // the first and the last row on the screen, in the order of execution
    this.box.addEventListener("scroll", () => this.soon());
    this.rows.addEventListener("click", (event) => this.click(event));
    this.rows.addEventListener("pointerover", (event) => showWholeText(event));
    new ResizeObserver(() => this.onResize()).observe(this.box);
  }

  onResize() {
    if (this.box.clientWidth) this.columns.layout(this.room);
    this.soon();
  }

  /** The width for columns: that of the pane without the mark on the left of each row. */
  get room() {
    return this.box.clientWidth - 3;
  }

  /** Make each column as wide as the content on the screen, as far as there is room. */
  fitColumns() {
    this.columns.measure();
    if (this.box.clientWidth) this.columns.layout(this.room);
    this.paint();
  }

  /** Other rows are visible now. */
  refresh() {
    this.tree.refresh();
    this.stretch();
    this.paint();
  }

  /** Make the sheet as high as all visible rows. */
  stretch() {
    const count = this.tree.visible.length;
    at("sheet").style.height = `${count * ROW}px`;
    this.box.setAttribute("aria-rowcount", String(count + 1));
  }

  soon() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.paint();
    });
  }

  paint() {
    const { visible } = this.tree;
    const count = Math.ceil(this.box.clientHeight / ROW) + 2 * SPARE_ROWS;
    const top = Math.floor(this.box.scrollTop / ROW) - SPARE_ROWS;
    const first = Math.max(0, Math.min(top, visible.length - count));
    while (this.pool.length < count) this.pool.push(this.rows.appendChild(this.element()));
    this.rows.style.transform = `translateY(${first * ROW}px)`;
    this.pool.forEach((element, place) => this.fill(element, first + place, place < count));
    this.range = ends(visible.slice(first, first + count));
    this.markActive();
    this.onPaint?.();
  }

  markActive() {
    if (this.tree.position(this.selected) < 0) this.box.removeAttribute("aria-activedescendant");
    else this.box.setAttribute("aria-activedescendant", `row-${this.selected}`);
  }

  element() {
    const element = make("div", "row");
    element.setAttribute("role", "row");
    for (const { kind } of this.columns.every) {
      const cell = element.appendChild(make("span", `cell ${kind}`));
      cell.setAttribute("role", "gridcell");
    }
    return element;
  }

  /** @param {HTMLElement} element @param {number} position @param {boolean} isUsed */
  fill(element, position, isUsed) {
    const row = this.tree.visible[position];
    element.hidden = !isUsed || row === undefined;
    if (element.hidden) {
      element.id = "";
      return;
    }
    element.id = `row-${row}`;
    element.dataset.row = String(row);
    element.className = "row";
    element.setAttribute("aria-level", String(this.tree.depth[row] + 1));
    element.setAttribute("aria-rowindex", String(position + 2));
    element.setAttribute("aria-selected", String(row === this.selected));
    if (this.tree.hasChildren(row)) element.setAttribute("aria-expanded", String(!!this.tree.isOpen[row]));
    else element.removeAttribute("aria-expanded");
    const cells = /** @type {any} */ (Array.from(element.children));
    this.columns.isShown.forEach((isShown, place) => {
      cells[place].hidden = !isShown;
    });
    this.paintRow(cells, row, element);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const element = /** @type {HTMLElement|null} */ (target.closest(".row"));
    if (!element) return;
    const row = Number(element.dataset.row);
    const action = /** @type {HTMLElement|null} */ (target.closest("[data-do]"))?.dataset.do;
    if (action === "toggle") this.toggle(row);
    if (action === "unfold") this.unfold(row);
    this.select(row, "moved");
  }

  /** @param {number} row */
  toggle(row) {
    this.tree.isOpen[row] = this.tree.isOpen[row] ? 0 : 1;
    this.refresh();
  }

  /** Open everything inside the selected row; where that is open already, show what is alike one by one. */
  openAll() {
    this.tree.openAll(Math.max(0, this.selected));
    this.refresh();
  }

  /** Show each of the alike siblings, or one for all again. @param {number} row */
  unfold(row) {
    const head = this.tree.head[row];
    if (!(this.tree.alike[head] > 1)) return;
    this.tree.toggleFold(head);
    this.refresh();
    const isGone = this.tree.position(this.selected) < 0;
    if (this.selected >= 0) this.select(isGone ? head : this.selected, "moved"); // the details show what the table shows
  }

  /** Select a row, opening what is around it. @param {number} row @param {string} how "moved", "jumped" or "opened" */
  select(row, how) {
    const isThere = row >= 0 && row < this.tree.size;
    if (!isThere) return;
    this.selected = row;
    if (this.tree.position(row) < 0) this.reveal(row);
    this.scrollTo(this.tree.position(row), how !== "moved");
    this.onItem(row, how);
    this.paint();
  }

  /** Open what is around a row. @param {number} row */
  reveal(row) {
    this.tree.reveal(row);
    if (this.tree.position(row) < 0) {
      this.onHidden?.();
      this.tree.reveal(row);
    }
    this.stretch();
  }

  /** @param {number} position @param {boolean} isCentred */
  scrollTo(position, isCentred) {
    const top = position * ROW;
    const height = this.box.clientHeight - ROW;
    const isInside = top >= this.box.scrollTop && top + ROW <= this.box.scrollTop + height;
    if (isInside) return;
    if (isCentred) this.box.scrollTop = top - height / 3;
    else this.box.scrollTop = top < this.box.scrollTop ? top : top + ROW - height;
  }

  /** @param {number} by */
  move(by) {
    const { visible } = this.tree;
    const position = this.tree.position(this.selected) + by;
    this.select(visible[Math.max(0, Math.min(position, visible.length - 1))], "moved");
  }

  /** To the right: open, or go to the first child. */
  inward() {
    const row = this.selected;
    if (row < 0 || !this.tree.hasChildren(row)) return;
    if (this.tree.isOpen[row]) this.move(1);
    else this.toggle(row);
  }

  /** To the left: close, or go to the row around. */
  outward() {
    const row = this.selected;
    if (row < 0) return;
    if (this.tree.isOpen[row] && this.tree.hasChildren(row)) this.toggle(row);
    else if (this.tree.parent[row] >= 0) this.select(this.tree.parent[row], "moved");
  }

  /** @returns {number} rows that fit the screen */
  pageful() {
    return Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2);
  }
}

/** The least and the largest of some rows. @param {number[]} rows */
function ends(rows) {
  if (!rows.length) return [0, 0];
  return [rows.reduce((a, b) => Math.min(a, b)), rows.reduce((a, b) => Math.max(a, b))];
}

/** Where the text of a cell is cut, the tooltip has all of it; `data-name` is what it says in any case. */
function showWholeText(/** @type {PointerEvent} */ event) {
  const cell = /** @type {HTMLElement|null} */ (/** @type {HTMLElement} */ (event.target).closest(".cell"));
  if (!cell) return;
  const isCut = cell.scrollWidth > cell.clientWidth;
  const text = isCut ? cell.innerText.trim() : "";
  cell.title = [text, cell.dataset.name].filter(Boolean).join("\n");
}
