// The wires of the graph and their labels, as elements.

const ARROW_LENGTH = 5;
const GRADIENT_SHIFT = 4.5; // from the wire to the line of the gradient

/** @param {Scene} scene @param {Wire} wire @param {boolean} hasGradients */
function drawWire({ model, direction }, wire, hasGradients) {
  const isDown = direction === "down";
  const edges = wire.edges.map((edge) => model.edges[edge]);
  const isLast = edges.some((edge) => edge.to === wire.to || (edge.isNext && edge.to === wire.inside));
  const way = pathOf(wire.points, isDown, isLast ? ARROW_LENGTH - 1 : 0);
  const title = draw("title", {});
  title.textContent = wireTitle(model, wire);
  const paths = ["reach", "line"].map((name) => draw("path", { class: name, d: way }));
  const group = draw("g", { class: "wire" }, title, ...paths);
  group.classList.toggle("bad", edges.some((edge) => edge.isBad));
  group.classList.toggle("order", edges.every((edge) => edge.isOrder));
  group.classList.toggle("backward", edges.every((edge) => edge.isBackward));
  if (isLast) group.append(draw("path", { class: "arrow", d: arrowOf(wire.points, isDown) }));
  const hasGradient = hasGradients && edges.some((edge) => gradientsOf(model.flow.data, edge.all).length > 0);
  if (hasGradient) group.append(...drawGradient(wire, isDown));
  return group;
}

/** The way of the gradient: beside the wire, and back. @param {Wire} wire @param {boolean} isDown */
function drawGradient(wire, isDown) {
  const shifted = wire.points.map(({ x, y }) => (isDown ? { x: x - GRADIENT_SHIFT, y } : { x, y: y + GRADIENT_SHIFT }));
  const back = shifted.reverse();
  const isLast = wire.from === wire.source;
  const line = draw("path", { class: "gradient line", d: pathOf(back, isDown, isLast ? ARROW_LENGTH - 1 : 0) });
  if (!isLast) return [line];
  return [line, draw("path", { class: "gradient arrow", d: arrowOf(back, isDown) })];
}

/**
 * A path through points, which bends between them.
 * @param {Point[]} points @param {boolean} isDown @param {number} cut what is left free at its end
 */
function pathOf(points, isDown, cut) {
  const parts = [`M${points[0].x} ${points[0].y}`];
  for (let place = 1; place < points.length; place++) {
    const from = points[place - 1];
    const to = { ...points[place] };
    if (place === points.length - 1) shorten(from, to, isDown, cut);
    parts.push(stepOf(from, to, isDown));
  }
  return parts.join("");
}

/** Move the end of a path back. @param {Point} from @param {Point} to @param {boolean} isDown @param {number} cut */
function shorten(from, to, isDown, cut) {
  const side = isDown ? "y" : "x";
  to[side] -= Math.sign(to[side] - from[side] || 1) * cut;
}

/** @param {Point} from @param {Point} to @param {boolean} isDown */
function stepOf(from, to, isDown) {
  const isStraight = Math.abs(isDown ? from.x - to.x : from.y - to.y) < 0.5;
  if (isStraight) return `L${to.x} ${to.y}`;
  if (isDown) {
    const middle = (from.y + to.y) / 2;
    return `C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`;
  }
  const middle = (from.x + to.x) / 2;
  return `C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
}

/** The head of an arrow at the end of a path. @param {Point[]} points @param {boolean} isDown */
function arrowOf(points, isDown) {
  const { x, y } = points[points.length - 1];
  const before = [...points].reverse().find((point) => (isDown ? point.y !== y : point.x !== x)) ?? points[0];
  const length = (isDown ? y >= before.y : x >= before.x) ? ARROW_LENGTH : -ARROW_LENGTH;
  if (isDown) return `M${x} ${y}l-3.2 ${-length}h6.4z`;
  return `M${x} ${y}l${-length} -3.2v6.4z`;
}

/** @param {PlacedLabel} placed */
function drawLabel({ x, y, label }) {
  const text = draw("text", { class: "label", x, y });
  text.classList.toggle("gradient", label.isGradient);
  text.classList.toggle("bad", label.isBad);
  text.textContent = label.text;
  return text;
}
