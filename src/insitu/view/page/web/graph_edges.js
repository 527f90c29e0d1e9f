// The edges between the nodes of the graph: who gives to whom, as far as the trace knows.

/** Add the edges between all nodes. @param {GraphModel} model */
function addEdges(model) {
  const { takers, givers, tensors } = model.flow;
  /** @type {Map<string, number>} what goes from a node to the next copy of a fold: both, and a tensor */
  const nexts = new Map();
  takers.forEach((row, place) => {
    const to = model.nodeAt(row);
    const from = model.sourceOf(tensors[place], givers[place]);
    const isInPicture = from >= 0 && to >= 0;
    if (!isInPicture) return;
    const isInside = from === to && !model.nodes[to].folds.length;
    if (!isInside) addEdge(model, { from, to, row, giver: givers[place], tensor: tensors[place] }, nexts);
  });
  addNextEdges(model, nexts);
}

/**
 * A tensor that comes to a row, with the nodes of both ends.
 * @typedef {{from: number, to: number, row: number, giver: number, tensor: number}} Passage
 */

/** @param {GraphModel} model @param {Passage} passage @param {Map<string, number>} nexts */
function addEdge(model, passage, nexts) {
  const { nodes, flow } = model;
  const { from, to, row, giver, tensor } = passage;
  const isNested = isAround(nodes, from, to) || isAround(nodes, to, from);
  if (isNested) return;
  const { copy, fold } = copyOfPassage(model, passage);
  if (fold >= 0) nodes[fold].isContinued = true;
  if (fold >= 0 && fold !== from) nexts.set(`${from} ${fold}`, tensor);
  if (fold >= 0 || from === to) return;
  const isTakenInside = nodes[to].isOpen && flow.isTakenIn(tensor, row + 1, flow.tree.end[row]);
  if (isTakenInside) return; // the edge leads there
  const edge = model.edgeBetween(from, to, copy);
  model.addTensor(edge, tensor, copy);
  const { is_backward: isBackward } = flow.calls.row;
  edge.isBackward ||= isBackward[giver] > 0 && isBackward[row] > 0;
}

/** Whether a box is around a node. @param {GraphNode[]} nodes @param {number} box @param {number} node */
function isAround(nodes, box, node) {
  if (!nodes[box].isOpen) return false;
  return boxesOf(nodes, node).includes(box);
}

/** The boxes around a node. @param {GraphNode[]} nodes @param {number} node @returns {number[]} */
function boxesOf(nodes, node) {
  const found = [];
  for (let box = nodes[node].parent; box >= 0; box = nodes[box].parent) found.push(box);
  return found;
}

/**
 * In which copy of the folded boxes around both of its ends an edge is. An edge from one copy of a fold to another
 * continues it and does not go back in it: then `fold` is its node, else -1.
 * @param {GraphModel} model @param {Passage} passage @returns {{copy: number, fold: number}}
 */
function copyOfPassage({ nodes, flow }, { from, to, giver, row }) {
  let copy = 0;
  for (const fold of giver < 0 ? [] : commonFolds(nodes, from, to)) {
    const head = nodes[fold].row;
    const size = flow.tree.end[head] - head;
    const number = Math.floor((giver - head) / size);
    if (number !== Math.floor((row - head) / size)) return { copy, fold };
    copy = copy * flow.tree.alike[head] + number;
    giver -= number * size;
    row -= number * size;
  }
  return { copy, fold: -1 };
}

/** The folds that two nodes are in. @param {GraphNode[]} nodes @param {number} from @param {number} to */
function commonFolds(nodes, from, to) {
  if (from === to) return nodes[from].folds;
  return nodes[from].folds.filter((fold) => nodes[to].folds.includes(fold));
}

/**
 * Add the edges that lead to the next copy of a folded box, from nodes that give nothing to what is outside of it: they
 * end at the border.
 * @param {GraphModel} model @param {Map<string, number>} nexts
 */
function addNextEdges(model, nexts) {
  const leaving = new Set();
  for (const { from, to } of model.edges)
    for (const box of boxesOf(model.nodes, from)) if (!isAround(model.nodes, box, to)) leaving.add(`${from} ${box}`);
  for (const [key, tensor] of nexts) {
    if (leaving.has(key)) continue;
    const [from, box] = key.split(" ").map(Number);
    const edge = model.edgeBetween(from, box, 0);
    edge.isNext = true;
    model.addTensor(edge, tensor, 0);
  }
}

/**
 * Where the trace has no functions, a module may take what no recorded call made: add an edge of mere order from the
 * node before it.
 * @param {GraphModel} model
 */
function addOrder(model) {
  const reached = new Set();
  for (const { from, to } of model.edges) {
    const around = boxesOf(model.nodes, from);
    for (const node of [to, ...boxesOf(model.nodes, to)]) if (!around.includes(node)) reached.add(node);
  }
  /** @type {Map<number, number>} the last node in each box so far */
  const last = new Map();
  model.nodes.forEach((node, id) => {
    if (node.kind !== "call") return;
    const before = last.get(node.parent);
    last.set(node.parent, id);
    if (before === undefined || reached.has(id)) return;
    model.edgeBetween(before, id, 0).isOrder = true;
  });
}
