// The answer on top of the page: why a guard wrote it, an exception, the first NaN or Inf, the first difference.

/**
 * @typedef {object} Answer
 * @property {string} kind "crash", "exception", "nonfinite", "difference" or "finding"
 * @property {string} head what it is: First NaN
 * @property {string} text where, and why
 * @property {string} more the whole explanation, in several lines; may be empty
 * @property {number} row the row of the call, or -1
 */

// Pixels of the window, for the explanation of an exception to be open.
const ROOMY = { width: 700, height: 640 };

class Banner {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {Answer[]} */
    this.answers = app.data.answers;
    at("banner").replaceChildren(...this.answers.map((answer) => this.line(answer)));
    at("banner").hidden = !this.answers.length;
  }

  /** The row that the page opens at, or -1. */
  get row() {
    return this.answers.find((answer) => answer.row >= 0)?.row ?? -1;
  }

  /** @param {Answer} answer */
  line(answer) {
    const text = make("p", "answer", make("b", "", `${answer.head}: `), answer.text);
    const line = make("div", `line ${answer.kind}`, make("span", "sign", "✗"), text);
    const more = answer.more ? make("pre", "more", answer.more) : null;
    const isAll = answer.kind === "exception" || (answer.kind === "crash" && answer.row < 0);
    const isOpen = isAll && innerHeight > ROOMY.height && innerWidth > ROOMY.width;
    if (more) line.append(this.opener(more, isOpen));
    if (answer.row >= 0) line.append(this.wayThere(answer.row));
    line.append(this.dismiss(line));
    if (more) line.append(more);
    return line;
  }

  /** The button that shows the whole explanation. @param {HTMLElement} more @param {boolean} isOpen */
  opener(more, isOpen) {
    const button = namedButton("explain");
    more.tabIndex = 0;
    const show = (/** @type {boolean} */ isShown) => {
      more.hidden = !isShown;
      button.setAttribute("aria-expanded", String(isShown));
    };
    show(isOpen);
    button.onclick = () => show(more.hidden);
    return button;
  }

  /** @param {number} row */
  wayThere(row) {
    const button = namedButton("go there");
    button.onclick = () => {
      this.app.go(row, "jumped");
      at("grid").focus();
    };
    return button;
  }

  /** @param {HTMLElement} line */
  dismiss(line) {
    const button = namedButton("×");
    button.classList.add("dismiss");
    button.setAttribute("aria-label", "Dismiss");
    button.onclick = () => {
      line.remove();
      at("banner").hidden = !at("banner").children.length;
      at("grid").focus();
    };
    return button;
  }
}

/** @param {string} name */
function namedButton(name) {
  const button = make("button", "", name);
  button.setAttribute("type", "button");
  return button;
}
