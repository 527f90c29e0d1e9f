// The part of the trace that the graph shows, and what flows between its calls: known once, whatever is open.

const MOST_CHILDREN = 44; // of one box; the others are two nodes, for what is before and after

/** The row around all that the graph shows: the step of a row; -1 without steps. @param {App} app @param {number} row */
function scopeOf(app, row) {
  const [root = row] = app.callTree.ancestors(row);
  return app.calls.row.kind[root] === STEP ? root : -1;
}

/**
 * The rows directly inside a row that are nodes; -1 is around all.
 * @param {App} app @param {number} parent @returns {number[]}
 */
function childRows(app, parent) {
  const tree = app.callTree;
  const end = parent < 0 ? app.calls.size : tree.end[parent];
  const found = [];
  for (let row = parent + 1; row < end; row = tree.end[row]) {
    const isFoldedAway = !tree.run[row] && !tree.isUnfolded[tree.head[row]];
    if (!isFoldedAway && isDrawn(app, row)) found.push(row);
  }
  return found;
}

/** Whether a row is a node: a call or a group of calls in which there are tensors, or a call that raised. */
function isDrawn(/** @type {App} */ { calls, callTree }, /** @type {number} */ row) {
  const kind = calls.row.kind[row];
  const isCallOrGroup = kind <= PYTHON || kind >= STEP;
  if (!isCallOrGroup) return false;
  const end = callTree.end[row];
  const hasInputs = calls.givenAt[end] > calls.givenAt[row];
  const hasOutputs = calls.madeAt[end] > calls.madeAt[row];
  return hasInputs || hasOutputs || calls.row.raised[row] > 0;
}

/** The rows around a row, inside the scope. @param {App} app @param {number} scope @param {number} row @returns {number[]} */
function rowsAround(app, scope, row) {
  return app.callTree.ancestors(row).filter((above) => above > scope);
}

/**
 * The rows that are open in the tree, from the outermost to the innermost, as long as there are few nodes.
 * @param {App} app @param {number} scope @param {Set<number>} needed rows that are boxes anyway @param {number} most
 * @returns {number[]} without the rows that are needed
 */
function openRowsInside(app, scope, needed, most) {
  /** @type {number[]} */
  const found = [];
  let level = childRows(app, scope).slice(0, MOST_CHILDREN);
  let count = level.length;
  while (level.length && count < most) {
    /** @type {number[]} */
    const next = [];
    for (const row of level) {
      const isNeeded = needed.has(row);
      if (!isNeeded && !app.callTree.isOpen[row]) continue;
      const children = childRows(app, row).slice(0, MOST_CHILDREN);
      const fits = children.length > 0 && count + children.length <= most;
      if (!isNeeded && !fits) continue;
      if (!isNeeded) found.push(row);
      count += children.length;
      next.push(...children);
    }
    level = next;
  }
  return found;
}

/**
 * Some rows as boxes, and as many others as there may be nodes, each with the rows around it.
 * @param {App} app @param {number} scope @param {Iterable<number>} certain @param {number[]} others the most important first
 * @param {number} most @returns {Set<number>}
 */
function limitedRows(app, scope, certain, others, most) {
  const found = new Set(certain);
  const sizeOf = (/** @type {number} */ row) => Math.min(MOST_CHILDREN, childRows(app, row).length);
  let count = [...found].reduce((sum, row) => sum + sizeOf(row), 0);
  for (const row of others) {
    const fresh = [...rowsAround(app, scope, row), row].filter((box) => !found.has(box));
    count += fresh.reduce((sum, box) => sum + sizeOf(box), 0);
    if (count > most) break;
    for (const box of fresh) found.add(box);
  }
  return found;
}

/**
 * All tensors that come to the calls of a scope. The item at the same place of each list belongs together: a row, the
 * row that gave it a tensor (-1: from outside of the trace), and the number of the tensor.
 */
class ScopeFlow {
  /** @param {App} app @param {number} scope */
  constructor(app, scope) {
    this.app = app;
    this.calls = app.calls;
    this.data = app.data;
    this.tree = app.callTree;
    this.scope = scope;
    this.first = scope + 1;
    this.end = scope < 0 ? this.calls.size : this.tree.end[scope];
    this.relays = this.findRelays();
    /** @type {number[]} */
    this.takers = [];
    /** @type {number[]} */
    this.givers = [];
    /** @type {number[]} */
    this.tensors = [];
    /** @type {Map<number, number[]>} the rows that take each tensor, by the number of the tensor */
    this.takersOf = new Map();
    for (let row = this.first; row < this.end; row++) this.addInputsOf(row);
  }

  /** @param {number} row */
  holds(row) {
    return row >= this.first && row < this.end;
  }

  /** @param {number} row */
  addInputsOf(row) {
    const { givenAt } = this.calls;
    for (let at = givenAt[row]; at < givenAt[row + 1]; at++) {
      const tensor = this.data.given[at];
      if (isParameter(this.data, tensor)) continue;
      const giver = this.giverOf(tensor, row);
      if (this.isSaved(giver, row)) continue;
      this.takers.push(row);
      this.givers.push(giver);
      this.tensors.push(tensor);
      addTo(this.takersOf, this.data.tensor.same[tensor], row);
    }
  }

  /** Whether a row of a range takes a tensor. @param {number} tensor @param {number} start @param {number} end */
  isTakenIn(tensor, start, end) {
    const takers = this.takersOf.get(this.data.tensor.same[tensor]) ?? [];
    return takers.some((taker) => taker >= start && taker < end);
  }

  /**
   * The calls that returned a tensor which they were given, by the number of the tensor: `dropout` in evaluation,
   * `contiguous`, an identity. The trace names another call as the producer.
   */
  findRelays() {
    const { calls, data, tree } = this;
    const { same, made } = data.tensor;
    /** @type {Map<number, number[]>} */
    const found = new Map();
    for (let row = this.first; row < this.end; row++)
      for (let at = calls.madeAt[row]; at < calls.madeAt[row + 1]; at++) {
        const maker = made[data.made[at]] - 1;
        const isOwn = maker >= row && maker < tree.end[row];
        const key = same[data.made[at]];
        if (!isOwn && calls.inputs(row).some((tensor) => same[tensor] === key)) addTo(found, key, row);
      }
    return found;
  }

  /**
   * The row that gave a tensor to another row: its producer, or the last call before that returned it unchanged and
   * whose result could be seen there; -1 if no row did.
   * @param {number} tensor @param {number} row
   */
  giverOf(tensor, row) {
    const { made, same } = this.data.tensor;
    const maker = made[tensor] - 1;
    const relays = this.relays.get(same[tensor]) ?? [];
    for (let place = relays.length - 1; place >= 0; place--) {
      const relay = relays[place];
      if (relay <= maker) break;
      const isOver = relay < row && this.tree.end[relay] <= row;
      if (isOver && this.canBeSeen(relay, same[tensor], row)) return relay;
    }
    return maker;
  }

  /** Whether the tensor that a call returned was handed on to where a row was called. */
  canBeSeen(/** @type {number} */ relay, /** @type {number} */ key, /** @type {number} */ row) {
    const { tree, calls, data } = this;
    for (let call = tree.parent[relay]; call >= 0; call = tree.parent[call]) {
      const isAroundBoth = row > call && row < tree.end[call];
      if (isAroundBoth) return true;
      const isCall = calls.row.kind[call] <= PYTHON;
      const isReturned = calls.outputs(call).some((tensor) => data.tensor.same[tensor] === key);
      if (isCall && !isReturned) return false;
    }
    return true;
  }

  /**
   * Whether a call of the backward pass takes what was there before it: tensors that the forward pass saved. Such edges
   * lead from everywhere to everywhere, and gradients do not flow along them.
   * @param {number} giver @param {number} row
   */
  isSaved(giver, row) {
    const { is_backward: isBackward } = this.calls.row;
    if (!isBackward[row] || isBackward[giver]) return false;
    let root = row;
    while (root >= 0 && isBackward[root]) root = this.tree.parent[root];
    return root < 0 || giver < root || giver >= this.tree.end[root];
  }
}

/** @param {Data} data @param {number} tensor */
function isParameter(data, tensor) {
  const notes = data.types[data.tensor.type[tensor]]?.[3] ?? "";
  return notes === "Parameter" || notes.startsWith("Parameter,");
}
