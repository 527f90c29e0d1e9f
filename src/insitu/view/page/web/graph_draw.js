// The graph as elements: boxes, wires, labels, nodes. Strings become text, never markup.

const NODE_CORNER = 5;
const BOX_CORNER = 8;
const MOST_ROUND = 3; // characters of an operator that is drawn as a round node

/**
 * @typedef {{all: SVGElement[], nodes: SVGElement[], frames: (SVGElement|null)[], wires: SVGElement[]}} Drawn
 * `all` is to be shown; the others are parts of it, by the numbers of nodes and wires
 */

/** @param {Scene} scene @param {boolean} hasGradients @returns {Drawn} */
function drawGraph(scene, hasGradients) {
  const { model, picture } = scene;
  const frames = model.nodes.map((node, id) => (node.isOpen ? drawFrame(scene, id) : null));
  const wires = picture.wires.map((wire) => drawWire(scene, wire, hasGradients));
  const labels = picture.labels.map(drawLabel);
  const nodes = model.nodes.map((_, id) => drawNode(scene, id));
  const group = (/** @type {string} */ name, /** @type {Node[]} */ children) =>
    draw("g", { class: name, "aria-hidden": "true" }, ...children);
  const all = [
    group("frames", frames.filter((frame) => frame !== null)),
    group("wires", wires),
    group("labels", labels),
    draw("g", { class: "nodes", role: "presentation" }, ...nodes),
  ];
  return { all, nodes, frames, wires };
}

/** The box of an open node, without its title. @param {Scene} scene @param {number} id */
function drawFrame({ model, picture }, id) {
  const { app } = model.flow;
  const { row } = model.nodes[id];
  const box = picture.boxes[id];
  const frame = draw("g", { class: `frame k-${kindName(app, model.nodes[id])}` });
  frame.classList.toggle("bad", app.calls.together(app.callTree.likes(row)).isBad);
  if (app.callTree.isFolded(row)) frame.append(...stackOf(box, BOX_CORNER));
  frame.append(draw("rect", { class: "plate", ...box, rx: BOX_CORNER }));
  return frame;
}

/** What looks out behind a node that is one for several. @param {Box} box @param {number} corner */
function stackOf({ x, y, width, height }, corner) {
  return [2, 1].map((place) => {
    const shift = place * STACK_STEP;
    return draw("rect", { class: "stack", x: x + shift, y: y + shift, width, height, rx: corner });
  });
}

/** The kind of a node, as the style knows it. @param {App} app @param {GraphNode} node */
function kindName(app, node) {
  return node.kind === "call" ? KINDS[app.calls.row.kind[node.row]] : node.kind;
}

/** @param {Scene} scene @param {number} id */
function drawNode(scene, id) {
  const { model, picture, texts } = scene;
  const node = model.nodes[id];
  const { x, y, width, height } = picture.boxes[id];
  const { sign } = texts[id];
  const item = draw("g", {
    class: classOf(model, node),
    id: `graph-node-${id}`,
    role: "treeitem",
    transform: `translate(${x} ${y})`,
    "data-node": id,
    "aria-label": spokenText(model, node),
    "aria-level": boxesOf(model.nodes, id).length + 1,
    "aria-selected": "false",
  });
  if (sign) item.setAttribute("aria-expanded", String(node.isOpen));
  const title = draw("title", {});
  title.textContent = nodeTitle(model.flow.app, node);
  item.append(title);
  if (node.isOpen) item.append(...drawTitle(texts[id]));
  else item.append(...drawPlate(scene, id, width - texts[id].stack, height - texts[id].stack));
  return item;
}

/** @param {GraphModel} model @param {GraphNode} node */
function classOf({ flow: { app } }, node) {
  const names = ["node", `k-${kindName(app, node)}`];
  if (node.isOpen) names.push("open");
  if (node.kind !== "call") return names.join(" ");
  const rows = app.callTree.likes(node.row);
  if (app.calls.together(rows).isBad) names.push("bad");
  if (app.calls.row.is_backward[node.row]) names.push("backward");
  return names.join(" ");
}

/** The plate of a closed node. */
function drawPlate(
  /** @type {Scene} */ { model, texts }, /** @type {number} */ id, /** @type {number} */ width,
  /** @type {number} */ height,
) {
  const { lines, sign, stack } = texts[id];
  const corner = isRound(model, model.nodes[id]) ? height / 2 : NODE_CORNER;
  const parts = stack ? stackOf({ x: 0, y: 0, width, height }, corner) : [];
  parts.push(draw("rect", { class: "plate", x: 0, y: 0, width, height, rx: corner }));
  const right = width - (sign ? SIGN_WIDTH : 0);
  lines.forEach((line, place) => {
    parts.push(...drawLine(line, (right - lineWidth(line)) / 2, 4 + LINE_HEIGHT * (place + 0.5)));
  });
  if (sign) parts.push(drawSign(sign, width - SIGN_WIDTH / 2 - 3, height / 2));
  return parts;
}

/** Whether a node has round ends: inputs and outputs, and operators such as + and @. */
function isRound(/** @type {GraphModel} */ { flow }, /** @type {GraphNode} */ { kind, row }) {
  if (kind === "input" || kind === "output") return true;
  const isFunction = kind === "call" && KINDS[flow.calls.row.kind[row]] === "function";
  return isFunction && flow.calls.label(row).length <= MOST_ROUND;
}

/** The title of a box. @param {NodeText} text */
function drawTitle({ lines, sign, width }) {
  const back = draw("rect", { class: "back", x: 3, y: 2, width: width - 2, height: TITLE_HEIGHT - 1, rx: 4 });
  const parts = [back, ...drawLine(lines[0], SIGN_WIDTH + 6, 12)];
  if (sign) parts.push(drawSign(sign, 12, 12));
  return parts;
}

/** @param {Piece[]} line @param {number} x @param {number} y the middle */
function drawLine(line, x, y) {
  return line.map((piece) => {
    const text = draw("text", { class: piece.name, x, y });
    text.textContent = piece.text;
    x += piece.width + PIECE_GAP;
    return text;
  });
}

/** The sign that opens or closes a node. @param {string} sign @param {number} x @param {number} y */
function drawSign(sign, x, y) {
  const isOpen = sign !== "+";
  const lines = `M${x - 2.5} ${y}h5${isOpen ? "" : `M${x} ${y - 2.5}v5`}`;
  const area = draw("rect", { x: x - 5.5, y: y - 5.5, width: 11, height: 11, rx: 3 });
  return draw("g", { class: "sign" }, area, draw("path", { d: lines }));
}
