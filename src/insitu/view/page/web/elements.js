// Elements of the page. Strings become text, never markup: nothing in a trace can run as code.

/**
 * An element with a class and children; strings become text, never markup.
 * @param {string} tag @param {string} [name] @param {...(Node|string)} children
 */
function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

/** A term and what is said of it, for a list of such. @param {string} term @param {string} text */
const entry = (term, text, name = "pair") => make("div", name, make("dt", "", term), make("dd", "", text));

/** Parts with spaces between, which are also copied and read out. @param {Node[]} parts @returns {(Node|string)[]} */
const spaced = (parts) => parts.flatMap((part) => [" ", part]).slice(1);

/** @param {string} tag @param {Record<string, string|number>} attributes @param {...Node} children */
function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** @param {string} id @returns {any} */
const at = (id) => document.getElementById(id);
