// What is written on the nodes of the graph, and what appears on hovering.

const MOST_NODE_NAME = 34; // characters
const MOST_NODE_WHAT = 30;
const MOST_ONE_LINE = 40; // characters of a node that fit one line
const LINE_HEIGHT = 15;
const NODE_PAD = 8;
const PIECE_GAP = 7; // between pieces of text
const LEAST_TEXT = 14; // the width of the text of a node
const SIGN_WIDTH = 15; // the width of the sign that opens a node
const STACK_STEP = 3; // how far each copy of a folded node looks out behind it

/**
 * A piece of text in a node, with its class.
 * @typedef {{text: string, name: string, width: number}} Piece
 * @typedef {{lines: Piece[][], width: number, height: number, sign: string, stack: number}} NodeText
 * `stack` is the part of the size where the copies of a folded node look out behind it
 */

/** Measures texts in the fonts of the graph. */
class Ruler {
  constructor() {
    this.pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
    this.family = getComputedStyle(document.body).getPropertyValue("--mono") || "monospace";
    /** @type {Map<string, number>} */
    this.known = new Map();
  }

  /** @param {string} text @param {string} font size and weight */
  width(text, font) {
    const key = `${font} ${text}`;
    const known = this.known.get(key);
    if (known !== undefined) return known;
    this.pen.font = `${font} ${this.family}`;
    const width = Math.ceil(this.pen.measureText(text).width);
    this.known.set(key, width);
    return width;
  }
}

/** @type {Record<string, string>} */
const GRAPH_FONTS = { path: "650 12px", what: "12px", copies: "11px", news: "650 11px", label: "10.5px" };

/** A text that is not too long: the middle of a long one is left out. @param {string} text @param {number} most */
function shortened(text, most) {
  const signs = Array.from(text);
  if (signs.length <= most) return text;
  const tail = most >> 2;
  return [...signs.slice(0, most - tail - 1), "…", ...signs.slice(signs.length - tail)].join("");
}

/** What is written in a node, and how large that is. */
function nodeText(
  /** @type {GraphModel} */ model, /** @type {GraphNode} */ node, /** @type {Ruler} */ ruler,
  /** @type {Direction} */ direction,
) {
  const { app } = model.flow;
  const pieces = nodePieces(model, node).filter((piece) => piece.text);
  for (const piece of pieces) piece.width = ruler.width(piece.text, GRAPH_FONTS[piece.name]);
  const sign = signOf(app, node);
  const lines = node.isOpen ? [pieces] : linesOf(pieces, direction);
  const width = Math.max(...lines.map(lineWidth), LEAST_TEXT) + 2 * NODE_PAD + (sign ? SIGN_WIDTH : 0);
  const isStacked = node.kind === "call" && !node.isOpen && app.callTree.isFolded(node.row);
  const stack = isStacked ? 2 * STACK_STEP : 0;
  return { lines, sign, stack, width: width + stack, height: lines.length * LINE_HEIGHT + 8 + stack };
}

/** @param {Piece[]} line */
const lineWidth = (line) => line.reduce((sum, piece) => sum + piece.width + PIECE_GAP, -PIECE_GAP);

/** The sign that opens or closes a node, if there is something in it. @param {App} app @param {GraphNode} node */
function signOf(app, node) {
  const canOpen = node.kind === "call" && app.callTree.hasChildren(node.row);
  if (!canOpen) return "";
  return node.isOpen ? "−" : "+";
}

/** Pieces in one line, or in two where one would be too long. @param {Piece[]} pieces @param {Direction} direction */
function linesOf(pieces, direction) {
  const length = pieces.reduce((sum, piece) => sum + piece.text.length, 0);
  const place = pieces.findIndex((piece) => piece.name === "what");
  const isOneLine = place <= 0 || (direction === "down" && length <= MOST_ONE_LINE);
  return isOneLine ? [pieces] : [pieces.slice(0, place), pieces.slice(place)];
}

/** @param {GraphModel} model @param {GraphNode} node @returns {Piece[]} */
function nodePieces(model, node) {
  const { app } = model.flow;
  const piece = (/** @type {string} */ text, /** @type {string} */ name) => ({ text, name, width: 0 });
  if (node.kind === "rest") return [piece(`… ${counted(node.count, "call")} more`, "what")];
  if (node.kind !== "call") return [piece(shortened(node.name, MOST_NODE_NAME), "what")];
  const { row } = node;
  const around = node.parent < 0 ? -1 : model.nodes[node.parent].row;
  const path = piece(shortened(pathText(app, row, around), MOST_NODE_NAME), "path");
  const copies = piece(app.callTree.isFolded(row) ? `× ${many(app.callTree.alike[row])} alike` : "", "copies");
  const what = piece(shortened(app.calls.together(app.callTree.likes(row)).label, MOST_NODE_WHAT), "what");
  const news = piece(alarmText(app, row), "news");
  return path.text ? [path, copies, what, news] : [what, copies, news];
}

/**
 * The path of a module as seen from the box around it; of several that are alike, the first and the last. Of a call of
 * the backward pass, the path of its forward call.
 */
function pathText(/** @type {App} */ app, /** @type {number} */ row, /** @type {number} */ around) {
  const { calls, callTree } = app;
  if (calls.row.kind[row] !== MODULE) return calls.row.is_backward[row] ? calls.path(row) : "";
  const base = around < 0 ? "" : calls.path(around);
  const own = relative(calls.path(row), base);
  const last = callTree.isFolded(row) ? relative(calls.path(callTree.last(row)), base) : own;
  return own === last ? own : `${own} … ${last}`;
}

/** That a call raised, or that NaN or Inf began in it or inside of it. @param {App} app @param {number} row */
function alarmText(app, row) {
  const rows = app.callTree.likes(row);
  const raised = rows.find((like) => app.calls.row.raised[like]);
  if (raised !== undefined) return `✗ ${app.data.texts[app.calls.row.raised[raised]]}`;
  const news = newsText(app, row, rows);
  return news ? `✗ ${news}` : "";
}

/** All that the graph says of a node on hovering. @param {App} app @param {GraphNode} node */
function nodeTitle(app, node) {
  const { calls, callTree, data } = app;
  const { row } = node;
  if (node.kind === "rest") return `${counted(node.count, "call")}, left out here: click to go there`;
  if (node.kind === "input") return `${node.name}: given from outside to ${calls.named(row)}`;
  if (node.kind === "output") return `${node.name} of ${calls.named(row)}`;
  const whole = calls.together(callTree.likes(row));
  const inside = callTree.end[row] - row - 1;
  const isModule = calls.row.kind[row] === MODULE;
  const isFold = callTree.isFolded(row);
  const isBackward = calls.row.is_backward[row] > 0;
  const lines = [
    calls.named(row),
    isBackward && ["backward", calls.path(row)].filter(Boolean).join(" of "),
    isModule && data.modules[calls.row.module[row]]?.[2],
    isFold && `one for ${many(callTree.alike[row])} that are alike: u shows each`,
    node.isContinued && "each takes what the one before it returns",
    whole.output && `→ ${whole.output}`,
    whole.values,
    alarmText(app, row),
    whole.time && time(whole.time),
    whole.place,
    inside && `${counted(inside, "row")} inside: double-click to ${node.isOpen ? "close" : "open"}`,
  ];
  return lines.filter(Boolean).join("\n");
}

/** A node in words, for those who hear the page. @param {GraphModel} model @param {GraphNode} node */
function spokenText(model, node) {
  const { app } = model.flow;
  const words = nodePieces(model, node).map((piece) => piece.text);
  if (node.kind !== "call") return words.join(", ");
  const phase = app.calls.row.is_backward[node.row] ? "backward" : "";
  const { output } = app.calls.together(app.callTree.likes(node.row));
  return [...words, phase, output].filter(Boolean).join(", ");
}
