// The search box: filters as chips, the word that is being typed, and a menu of filters.

class SearchBox {
  /** @param {Search} search @param {Data} data */
  constructor(search, data) {
    this.search = search;
    /** @type {string[]} the filters that are chips */
    this.chips = [];
    this.input = at("query");
    this.menu = at("filters");
    this.wantsMenu = false;
    this.problem = ""; // what is wrong with the query
    this.filters = [...FILTERS, ...statisticFilters(data)];
    this.listen();
  }

  listen() {
    this.input.addEventListener("input", () => this.onInput());
    this.input.addEventListener("change", () => this.makeChips());
    this.input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.onKey(event));
    this.input.addEventListener("focus", () => this.showMenu(true));
    at("search").addEventListener("focusout", (/** @type {FocusEvent} */ event) => {
      if (!at("search").contains(event.relatedTarget)) this.showMenu(false);
    });
    at("clear").onclick = () => this.write([], "");
    at("only").onclick = () => this.search.showOnlyHits(!this.search.isOnlyHits);
    at("before").onclick = () => this.search.next(-1);
    at("after").onclick = () => this.search.next(1);
  }

  /** The whole query. */
  get text() {
    return [...this.chips, this.input.value].join(" ").trim();
  }

  /** Replace the query. @param {string[]} chips @param {string} text the rest, in the box */
  write(chips, text) {
    this.chips = chips;
    this.input.value = text;
    this.showChips();
    this.onInput();
  }

  onInput() {
    this.search.find(this.text);
    this.showMenu(this.wantsMenu);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const action = this.keyAction(event);
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  /** What a key does in the box. @param {KeyboardEvent} event @returns {(() => void)|undefined} */
  keyAction(event) {
    const { key } = event;
    if (key === "Enter") return () => this.go(event.shiftKey ? -1 : 1);
    if (key === "Escape" || key === "ArrowDown") return () => at("grid").focus();
    if (key === " " && this.endsWithFilter()) return () => this.makeChips();
    const isAtStart = this.input.selectionStart === 0 && this.input.selectionEnd === 0;
    if (key === "Backspace" && isAtStart && this.chips.length) return () => this.edit(this.chips.length - 1);
    return undefined;
  }

  /** Make chips and go to the next hit. @param {number} by */
  go(by) {
    this.makeChips();
    this.showMenu(false);
    this.search.next(by);
  }

  /** Whether the word that was typed last is a filter; inside quotes, a blank does not end it. */
  endsWithFilter() {
    const typed = words(this.input.value);
    const last = typed[typed.length - 1] ?? "";
    const isQuoted = (last.split('"').length - 1) % 2 > 0;
    return !isQuoted && this.isFilter(last);
  }

  /** Whether a word is a complete filter. @param {string} word */
  isFilter(word) {
    const term = parsedTerm(this.filters, word);
    return term.filter !== null && isComplete(term);
  }

  /** Turn the filters that were typed into chips; other words stay in the box. */
  makeChips() {
    const typed = words(this.input.value);
    const added = typed.filter((word) => this.isFilter(word));
    if (!added.length) return;
    const rest = typed.filter((word) => !this.isFilter(word)).map((word) => `${word} `);
    this.write([...new Set([...this.chips, ...added])], rest.join(""));
  }

  /** Put a chip back into the box. @param {number} place */
  edit(place) {
    const chip = this.chips[place];
    const text = [chip, this.input.value].filter(Boolean).join(" ");
    this.write(this.chips.filter((_, other) => other !== place), text);
    this.input.focus();
    this.input.setSelectionRange(chip.length, chip.length);
  }

  /** @param {number} place */
  remove(place) {
    this.write(this.chips.filter((_, other) => other !== place), this.input.value);
    this.input.focus();
  }

  showChips() {
    at("chips").replaceChildren(...this.chips.map((text, place) => this.chip(text, place)));
  }

  /** @param {string} text @param {number} place */
  chip(text, place) {
    const edit = make("button", "edit", text);
    edit.title = "edit";
    edit.onclick = () => this.edit(place);
    const remove = make("button", "remove", "×");
    remove.setAttribute("aria-label", `Remove ${text}`);
    remove.onclick = () => this.remove(place);
    for (const button of [edit, remove]) button.setAttribute("type", "button");
    return make("span", "chip", edit, remove);
  }

  /** Show what is wrong with the query, and the filters that begin with what is being typed; or nothing. */
  showMenu(/** @type {boolean} */ isWanted) {
    this.wantsMenu = isWanted;
    const typed = /\S*$/.exec(this.input.value)?.[0].toLowerCase() ?? "";
    const fitting = FILTERS.filter((one) => one.form.startsWith(typed)).map((one) => this.menuItem(one));
    const problem = this.problem ? [make("p", "problem", this.problem)] : [];
    this.menu.replaceChildren(...problem, ...fitting);
    this.menu.hidden = !isWanted || !this.menu.children.length;
  }

  /** @param {Filter} found */
  menuItem(found) {
    const item = make("button", "", make("code", "", found.form), make("span", "dim", found.text));
    item.setAttribute("type", "button");
    item.onclick = () => this.complete(found);
    return item;
  }

  /** Write the beginning of a filter into the box. @param {Filter} found */
  complete(found) {
    const rest = this.input.value.replace(/\S*$/, "");
    const beginning = /^[a-z]+(:|<|>)/.exec(found.form)?.[0] ?? "";
    this.input.value = rest + beginning;
    this.input.focus();
    this.onInput();
  }

  /** Say how many hits there are, or what is wrong with the query. @param {string} text @param {boolean} isWrong */
  showHits(text, isWrong) {
    this.problem = isWrong ? text : "";
    at("hits").textContent = text;
    at("hits").title = text;
    at("hits").classList.toggle("red", isWrong);
    if (isWrong) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
    for (const id of ["clear", "only", "before", "after"]) at(id).hidden = !this.text;
    at("only").setAttribute("aria-pressed", String(this.search.isOnlyHits));
  }
}
