// The keys of the graph, while it has the focus.

/** @type {Record<string, [number, number]>} the direction of each arrow key */
const ARROW_KEYS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/** @param {Graph} graph @param {KeyboardEvent} event */
function onGraphKey(graph, event) {
  const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
  const action = hasModifier ? undefined : graphAction(graph, event.key);
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}

/** What a key does in the graph. @param {Graph} graph @param {string} key @returns {(() => void)|undefined} */
function graphAction(graph, key) {
  if (!graph.sketch) return undefined;
  const isChosen = graph.sketch.chosen >= 0;
  const isMove = key === "Enter" || key === " " || key in ARROW_KEYS;
  if (isMove && !isChosen) return undefined;
  if (ARROW_KEYS[key]) return () => moveAlong(graph, ARROW_KEYS[key]);
  if (key === "Enter" || key === " ") return () => graph.toggle(graph.sketch.chosen);
  if (key === "+" || key === "=") return () => graph.zoom(true);
  if (key === "-") return () => graph.zoom(false);
  if (key === "0") return () => graph.showWhole();
  return undefined;
}

/** Select the next node in a direction: one at the other end of an edge, else the nearest. */
function moveAlong(/** @type {Graph} */ graph, /** @type {[number, number]} */ direction) {
  const { chosen } = graph.sketch;
  const { model, picture } = graph.scene;
  const neighbours = model.edges.flatMap(({ from, to }) => {
    if (from === chosen) return [to];
    return to === chosen ? [from] : [];
  });
  const everywhere = model.nodes.map((_, id) => id).filter((id) => id !== chosen);
  const next = nearestNode(picture, chosen, neighbours, direction) ?? nearestNode(picture, chosen, everywhere, direction);
  if (next !== undefined) graph.choose(next);
}

/** Of some nodes the nearest one in a direction. */
function nearestNode(
  /** @type {Picture} */ picture, /** @type {number} */ chosen, /** @type {number[]} */ nodes,
  /** @type {[number, number]} */ [right, down],
) {
  const middle = (/** @type {number} */ id) => {
    const { x, y, width, height } = picture.boxes[id];
    return [x + width / 2, y + height / 2];
  };
  const [x, y] = middle(chosen);
  let best;
  let least = Infinity;
  for (const id of nodes) {
    const [otherX, otherY] = middle(id);
    const ahead = (otherX - x) * right + (otherY - y) * down;
    const aside = Math.abs((otherX - x) * down) + Math.abs((otherY - y) * right);
    const distance = ahead + 2 * aside;
    const isBetter = ahead > 1 && aside < 3 * ahead && distance < least;
    if (!isBetter) continue;
    best = id;
    least = distance;
  }
  return best;
}
