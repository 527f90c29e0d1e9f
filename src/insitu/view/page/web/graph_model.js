// What the graph shows: rows of the tree as nodes, the tensors between them as edges.

const MOST_PORTS = 4; // inputs, or outputs, of a call that are nodes of their own
const MOST_INPUTS = 24;
const MOST_GRAPH_NODES = 65536;

/**
 * @typedef {"call"|"input"|"output"|"rest"} NodeKind
 * @typedef {object} GraphNode
 * @property {NodeKind} kind
 * @property {number} row what it shows; of an input or output, the call that takes or returns it; of a rest, the first
 * @property {number} parent the box around it, or -1
 * @property {boolean} isOpen whether it is a box around others
 * @property {number} count of the calls in a rest
 * @property {string} name of an input or output
 * @property {boolean} isContinued whether a copy gives something to the next one
 * @property {number[]} folds the folded boxes around it, from the outermost, and itself if it is folded
 *
 * @typedef {object} GraphEdge
 * @property {number} from @property {number} to
 * @property {number} copy in which copy of what is folded it was seen first
 * @property {number[]} tensors their numbers, of that copy; an edge of mere order has none
 * @property {number[]} all the tensors of all copies @property {Set<number>} keys what tells them apart
 * @property {boolean} isBad whether one of them holds a NaN or Inf that is wrong
 * @property {boolean} isOrder @property {boolean} isBackward
 * @property {boolean} isNext whether it leads to the next copy of the folded box `to`, around `from`
 *
 * @typedef {{rows: number[], before: number[], after: number[]}} Siblings
 * `before` and `after` are too many to be shown
 */

/** Nodes for the rows of a scope, and the edges between them. */
class GraphModel {
  /**
   * @param {ScopeFlow} flow @param {Set<number>} boxes the rows that are boxes around what is in them
   * @param {number} focus the row that must be visible
   */
  constructor(flow, boxes, focus) {
    this.flow = flow;
    this.boxes = boxes;
    this.focus = focus;
    /** @type {GraphNode[]} */
    this.nodes = [];
    /** @type {GraphEdge[]} */
    this.edges = [];
    /** @type {Map<number, GraphEdge>} */
    this.edgesByEnds = new Map();
    /** The node of each row. */
    this.nodeOf = new Int32Array(flow.end - flow.first).fill(-1);
    /** @type {Map<number, number>} the node of each tensor that comes from outside, by the number of the tensor */
    this.inputs = new Map();
    const tops = this.windowOf(childRows(flow.app, flow.scope));
    this.addInputs(tops.rows);
    this.addNodes(tops, -1, []);
    addEdges(this);
    this.addOutputs(tops.rows);
    if (flow.data.about.level === "modules") addOrder(this);
    this.dropLonelyNodes();
  }

  /** Leave out calls that neither take nor give anything in the picture, unless they are modules or raised. */
  dropLonelyNodes() {
    const { calls } = this.flow;
    const joined = new Set(this.edges.flatMap(({ from, to }) => [from, to]));
    const isKept = this.nodes.map((node, id) => {
      const isLonely = node.kind === "call" && !node.isOpen && !joined.has(id);
      return !isLonely || isCallWithPorts(calls, node.row) || calls.row.raised[node.row] > 0;
    });
    this.lonely = joined.size ? isKept.filter((kept) => !kept).length : 0;
    if (this.lonely) this.keepNodes(isKept);
  }

  /** @param {boolean[]} isKept */
  keepNodes(isKept) {
    let count = 0;
    const numbers = isKept.map((kept) => (kept ? count++ : -1));
    const number = (/** @type {number} */ node) => (node < 0 ? node : numbers[node]);
    this.nodes = this.nodes.filter((_, id) => isKept[id]);
    for (const node of this.nodes) {
      node.parent = number(node.parent);
      node.folds = node.folds.map(number);
    }
    for (const edge of this.edges) {
      edge.from = number(edge.from);
      edge.to = number(edge.to);
    }
    this.nodeOf = this.nodeOf.map(number);
  }

  /** @param {Partial<GraphNode> & {kind: NodeKind, row: number}} facts @returns {number} */
  addNode(facts) {
    const node = { parent: -1, isOpen: false, count: 0, name: "", isContinued: false, folds: [], ...facts };
    return this.nodes.push(node) - 1;
  }

  /** Of too many siblings, those around the focus. @param {number[]} rows @returns {Siblings} */
  windowOf(rows) {
    if (rows.length <= MOST_CHILDREN) return { rows, before: [], after: [] };
    const place = rows.findIndex((row) => this.focus >= row && this.focus < this.endOf(row));
    const wish = Math.max(0, place) - (MOST_CHILDREN >> 1);
    const start = Math.max(0, Math.min(wish, rows.length - MOST_CHILDREN));
    const stop = start + MOST_CHILDREN;
    return { rows: rows.slice(start, stop), before: rows.slice(0, start), after: rows.slice(stop) };
  }

  /** Where a row, and those that are folded into it, end. @param {number} row */
  endOf(row) {
    const { tree } = this.flow;
    return tree.end[tree.isFolded(row) ? tree.last(row) : row];
  }

  /** @param {Siblings} siblings @param {number} parent @param {number[]} folds the folded boxes around them */
  addNodes({ rows, before, after }, parent, folds) {
    this.addRest(before, parent, folds);
    for (const row of rows) this.addCall(row, parent, folds);
    this.addRest(after, parent, folds);
  }

  /** One node for calls that are left out. @param {number[]} rows @param {number} parent @param {number[]} folds */
  addRest(rows, parent, folds) {
    if (!rows.length) return;
    const [row] = rows;
    const node = this.addNode({ kind: "rest", row, parent, folds, count: rows.length });
    this.claim(row, this.endOf(rows[rows.length - 1]), node);
  }

  /** @param {number} row @param {number} parent @param {number[]} around the folded boxes around it */
  addCall(row, parent, around) {
    const { tree, app } = this.flow;
    const isOpen = this.boxes.has(row);
    const node = this.addNode({ kind: "call", row, parent, isOpen });
    const folds = tree.isFolded(row) ? [...around, node] : around;
    this.nodes[node].folds = folds;
    this.claim(row, isOpen ? row + 1 : tree.end[row], node);
    this.claimWrappers(row, parent, node);
    if (isOpen) this.addNodes(this.windowOf(childRows(app, row)), node, folds);
    if (tree.isFolded(row)) this.copyClaims(row);
  }

  /** Note the node of the rows up to an end. @param {number} row @param {number} end @param {number} node */
  claim(row, end, node) {
    this.nodeOf.fill(node, row - this.flow.first, end - this.flow.first);
  }

  /** Groups around a node that are not nodes themselves are shown as this node. */
  claimWrappers(/** @type {number} */ row, /** @type {number} */ parent, /** @type {number} */ node) {
    const { tree, scope } = this.flow;
    const box = parent < 0 ? scope : this.nodes[parent].row;
    for (let around = tree.parent[row]; around > box; around = tree.parent[around]) this.claim(around, around + 1, node);
  }

  /** The copies of a folded row have the same nodes. @param {number} row */
  copyClaims(row) {
    const { tree, first } = this.flow;
    for (const copy of tree.siblings(row).slice(1)) {
      const size = Math.min(tree.end[row] - row, tree.end[copy] - copy);
      this.nodeOf.copyWithin(copy - first, row - first, row + size - first);
    }
  }

  /** The node of a row, or -1. @param {number} row */
  nodeAt(row) {
    return this.flow.holds(row) ? this.nodeOf[row - this.flow.first] : -1;
  }

  /** The node that shows a row, or a row around it; -1 outside of the scope. @param {number} row */
  nodeShowing(row) {
    let shown = row;
    while (this.flow.holds(shown) && this.nodeAt(shown) < 0) shown = this.flow.tree.parent[shown];
    return this.nodeAt(shown);
  }

  /** Tensors that outermost calls take, and that no call in the scope made. @param {number[]} tops */
  addInputs(tops) {
    const { tree, calls } = this.flow;
    for (const top of tops) {
      const copies = tree.isFolded(top) ? tree.siblings(top) : [top];
      const unknown = copies.map((copy) => this.unknownInputs(outerCalls(this.flow, copy)));
      const isGroup = calls.row.kind[top] > PYTHON;
      const most = isGroup ? 1 : MOST_PORTS; // what a group takes is taken by calls that nobody sees
      if (unknown[0].length && this.nodes.length < MOST_INPUTS) this.addInputsOf(top, unknown, most);
    }
  }

  /** The tensors that come to rows from outside, each once. @param {number[]} rows @returns {number[]} */
  unknownInputs(rows) {
    const { calls, data } = this.flow;
    const tensors = rows.flatMap((row) => calls.inputs(row));
    return distinctTensors(data, tensors.filter((tensor) => this.isFromOutside(tensor)));
  }

  /** @param {number} tensor */
  isFromOutside(tensor) {
    const { data } = this.flow;
    const { made, same } = data.tensor;
    const isKnown = this.flow.holds(made[tensor] - 1) || this.inputs.has(same[tensor]);
    return !isKnown && !isParameter(data, tensor);
  }

  /** Nodes for the inputs of a row; the inputs of its copies have the same nodes. */
  addInputsOf(/** @type {number} */ row, /** @type {number[][]} */ unknown, /** @type {number} */ most) {
    const { calls, data } = this.flow;
    const [tensors] = unknown;
    const isTogether = tensors.length > most;
    const names = argumentNames(calls, row);
    const common = isCallWithPorts(calls, row) ? "input" : "outside";
    const nodes = tensors.map((tensor, place) => {
      if (isTogether && place) return this.nodes.length - 1;
      const name = isTogether ? `${tensors.length} tensors` : names.get(tensor) ?? common;
      return this.addNode({ kind: "input", row, name });
    });
    for (const copy of unknown)
      copy.forEach((tensor, place) => this.inputs.set(data.tensor.same[tensor], nodes[place] ?? nodes[0]));
  }

  /** What outermost modules and functions of the program return, and no call in the scope takes. @param {number[]} tops */
  addOutputs(tops) {
    const { calls, data, tree, end } = this.flow;
    const isFree = (/** @type {number} */ row, /** @type {number} */ tensor) =>
      !this.flow.isTakenIn(tensor, tree.end[row], end);
    for (const top of tops) {
      const copies = tree.isFolded(top) ? tree.siblings(top) : [top];
      const rows = copies.flatMap((copy) => outerCalls(this.flow, copy)).filter((row) => isCallWithPorts(calls, row));
      const free = rows.flatMap((row) => calls.outputs(row).filter((tensor) => isFree(row, tensor)));
      const tensors = distinctTensors(data, free);
      if (!tensors.length) continue;
      const groups = tensors.length > MOST_PORTS ? [tensors] : tensors.map((tensor) => [tensor]);
      for (const group of groups) this.addOutput(rows[rows.length - 1], group);
    }
  }

  /** @param {number} row @param {number[]} tensors */
  addOutput(row, tensors) {
    const name = tensors.length > 1 ? `${tensors.length} outputs` : "output";
    const to = this.addNode({ kind: "output", row, name });
    for (const tensor of tensors) {
      const from = this.sourceOf(tensor, this.flow.giverOf(tensor, this.flow.tree.end[row]));
      if (from >= 0) this.addTensor(this.edgeBetween(from, to, 0), tensor, 0);
    }
  }

  /** The node that a tensor comes from: that of the row that gave it, else an input; -1 if there is none. */
  sourceOf(/** @type {number} */ tensor, /** @type {number} */ giver) {
    const node = this.nodeAt(giver);
    return node >= 0 ? node : this.inputs.get(this.flow.data.tensor.same[tensor]) ?? -1;
  }

  /** Add a tensor to an edge, once. @param {GraphEdge} edge @param {number} tensor @param {number} copy that it is in */
  addTensor(edge, tensor, copy) {
    const { calls, data } = this.flow;
    const { same } = data.tensor;
    if (edge.keys.has(same[tensor])) return;
    edge.keys.add(same[tensor]);
    edge.all.push(tensor);
    if (edge.copy === copy) edge.tensors.push(tensor); // one copy shows what is in all of them
    edge.isBad ||= isBadTensor(calls, tensor);
  }

  /** @param {number} from @param {number} to @param {number} copy in which it is seen now @returns {GraphEdge} */
  edgeBetween(from, to, copy) {
    const key = from * MOST_GRAPH_NODES + to;
    const known = this.edgesByEnds.get(key);
    if (known) return known;
    const flags = { isBad: false, isOrder: false, isBackward: false, isNext: false };
    const edge = { from, to, copy, tensors: [], all: [], keys: new Set(), ...flags };
    this.edgesByEnds.set(key, edge);
    this.edges.push(edge);
    return edge;
  }
}

/**
 * The outermost calls of a row: itself or, of a group, what is in it.
 * @param {ScopeFlow} flow @param {number} top @returns {number[]}
 */
function outerCalls({ tree, calls }, top) {
  const waiting = [top];
  const found = [];
  while (waiting.length) {
    const row = /** @type {number} */ (waiting.pop());
    if (calls.row.kind[row] <= PYTHON) found.push(row);
    if (calls.row.kind[row] < STEP) continue;
    const inside = [];
    for (let child = row + 1; child < tree.end[row]; child = tree.end[child]) inside.push(child);
    waiting.push(...inside.reverse());
  }
  return found;
}

/** Whether the inputs and outputs of a call are those of the program: a module, or a function of the user. */
function isCallWithPorts(/** @type {Calls} */ { row: { kind } }, /** @type {number} */ row) {
  return kind[row] === MODULE || kind[row] === PYTHON;
}

/** The names of keyword arguments that are tensors, by the numbers of the tensors. @param {Calls} calls @param {number} row */
function argumentNames(calls, row) {
  const { data } = calls;
  const lines = data.texts[calls.row.args[row]].split("\n").map((line) => line.split("\t"));
  /** @type {Map<number, string>} */
  const names = new Map();
  let place = 0;
  for (const tensor of calls.inputs(row)) {
    const type = data.types[data.tensor.type[tensor]][0];
    const found = lines.findIndex(([, value], line) => line >= place && value === type);
    if (found < 0) continue;
    place = found + 1;
    const [name] = lines[found];
    if (!/^\d+$/.test(name)) names.set(tensor, name);
  }
  return names;
}

/** Each tensor once. @param {Data} data @param {number[]} tensors @returns {number[]} */
function distinctTensors({ tensor }, tensors) {
  return [...new Map(tensors.map((number) => [tensor.same[number], number])).values()];
}

/** Whether a tensor holds a NaN or Inf that is wrong. @param {Calls} calls @param {number} tensor */
function isBadTensor(calls, tensor) {
  const { data } = calls;
  const maker = data.tensor.made[tensor] - 1;
  const isWrong = maker >= 0 && (calls.row.odd[maker] & IS_WRONG) > 0;
  const number = data.tensor.stats[tensor];
  if (!isWrong || !number) return isWrong;
  return data.stats.nan[number] > 0 || data.stats.inf[number] > 0;
}
