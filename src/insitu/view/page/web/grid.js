// A table of many rows of which only those on the screen are elements, and the keys to move in it.

const ROW = 22; // pixels, as in the style

class Grid {
  /**
   * @param {RowTree} tree @param {string[][]} columns their names and classes
   * @param {(cells: HTMLElement[], row: number, element: HTMLElement) => void} paint
   * @param {(row: number, how: string) => void} onItem an item was selected
   */
  constructor(tree, columns, paint, onItem) {
    this.tree = tree;
    this.columns = columns;
    this.paintRow = paint;
    this.onItem = onItem;
    this.selected = -1;
    this.box = at("grid");
    this.rows = at("rows");
    /** @type {HTMLElement[]} */
    this.pool = [];
    this.isWaiting = false;
    this.range = [0, 0];
    const heads = columns.map(([name, kind]) => make("span", `cell ${kind}`, name));
    heads.forEach((head) => head.setAttribute("role", "columnheader"));
    at("heads").className = "row";
    at("heads").append(...heads);
    this.box.addEventListener("scroll", () => this.soon());
    this.rows.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.soon()).observe(this.box);
  }

  /** The visible rows have changed. */
  refresh() {
    this.tree.refresh();
    const count = this.tree.visible.length;
    at("sheet").style.height = `${count * ROW}px`;
    this.box.setAttribute("aria-rowcount", String(count + 1));
    this.paint();
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
    const visible = this.tree.visible;
    const count = Math.ceil(this.box.clientHeight / ROW) + 6;
    const first = Math.max(0, Math.min(Math.floor(this.box.scrollTop / ROW) - 3, visible.length - count));
    while (this.pool.length < count) this.pool.push(this.rows.appendChild(this.element()));
    this.rows.style.transform = `translateY(${first * ROW}px)`;
    this.pool.forEach((element, place) => this.fill(element, first + place, place < count));
    this.range = [visible[first] ?? 0, visible[Math.min(visible.length, first + count) - 1] ?? 0];
    if (this.tree.position(this.selected) < 0) this.box.removeAttribute("aria-activedescendant");
    else this.box.setAttribute("aria-activedescendant", `row-${this.selected}`);
    this.onPaint?.();
  }

  element() {
    const element = make("div", "row");
    element.setAttribute("role", "row");
    for (const [, kind] of this.columns) {
      const cell = element.appendChild(make("span", `cell ${kind}`));
      cell.setAttribute("role", "gridcell");
    }
    return element;
  }

  /** @param {HTMLElement} element @param {number} position @param {boolean} isUsed */
  fill(element, position, isUsed) {
    const row = this.tree.visible[position];
    element.hidden = !isUsed || row === undefined;
    if (element.hidden) return;
    element.id = `row-${row}`;
    element.dataset.row = String(row);
    element.className = "row";
    element.setAttribute("aria-level", String(this.tree.depth[row] + 1));
    element.setAttribute("aria-rowindex", String(position + 2));
    element.setAttribute("aria-selected", String(row === this.selected));
    if (this.tree.hasChildren(row)) element.setAttribute("aria-expanded", String(!!this.tree.isOpen[row]));
    else element.removeAttribute("aria-expanded");
    this.paintRow(/** @type {any} */ (Array.from(element.children)), row, element);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const element = /** @type {HTMLElement|null} */ (target.closest(".row"));
    if (!element) return;
    const row = Number(element.dataset.row);
    const what = /** @type {HTMLElement|null} */ (target.closest("[data-do]"))?.dataset.do;
    if (what === "toggle") this.toggle(row);
    if (what === "unfold") this.unfold(row);
    this.select(row, "moved");
  }

  /** @param {number} row */
  toggle(row) {
    this.tree.isOpen[row] = this.tree.isOpen[row] ? 0 : 1;
    this.refresh();
  }

  /** Open all that is inside the selected row; where that is open already, show what is alike one by one. */
  openAll() {
    this.tree.openAll(Math.max(0, this.selected));
    this.refresh();
  }

  /** Show each of the siblings that are alike, or one for all again. @param {number} row */
  unfold(row) {
    const head = this.tree.head[row];
    if (!(this.tree.run[head] > 1)) return;
    this.tree.toggleFold(head);
    this.refresh();
    if (this.tree.position(this.selected) < 0) this.select(head, "moved");
  }

  /** Select a row, opening what it lies in. @param {number} row @param {string} how "moved" or "jumped" */
  select(row, how) {
    if (!(row >= 0 && row < this.tree.size)) return; // nor is there a row in an empty table
    this.selected = row;
    if (this.tree.position(row) < 0) {
      this.tree.reveal(row);
      at("sheet").style.height = `${this.tree.visible.length * ROW}px`;
    }
    this.scrollTo(this.tree.position(row), how === "jumped");
    this.onItem(row, how);
    this.refresh();
  }

  /** @param {number} position @param {boolean} isCentred */
  scrollTo(position, isCentred) {
    const top = position * ROW, height = this.box.clientHeight - ROW;
    const isInside = top >= this.box.scrollTop && top + ROW <= this.box.scrollTop + height;
    if (isInside) return;
    if (isCentred) this.box.scrollTop = top - height / 3;
    else this.box.scrollTop = top < this.box.scrollTop ? top : top + ROW - height;
  }

  /** @param {number} by */
  move(by) {
    const visible = this.tree.visible;
    const position = this.tree.position(this.selected) + by;
    this.select(visible[Math.max(0, Math.min(position, visible.length - 1))], "moved");
  }

  /** To the right: open, or go to the first child. */
  inward() {
    const row = this.selected;
    if (row < 0 || !this.tree.hasChildren(row)) return;
    if (this.tree.isOpen[row]) this.select(row + 1, "moved");
    else this.toggle(row);
  }

  /** To the left: close, or go to what it lies in. */
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
