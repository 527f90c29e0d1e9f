// The layered layout, part three: where each item is, across. What is on the longest way through the graph, and each
// long link, is straight.

const NODE_GAP = 22; // between two nodes of a layer
const LINE_GAP = 14; // between a line and its neighbour
const PORT_GAP = 11; // between links that arrive at a node
const PORT_MARGIN = 6; // between such a link and the corner of the node
const MOST_ROUNDS = 12;

/**
 * Where the middle of each item is, across, and where each link arrives at its node.
 * @param {Chart} chart @returns {{across: Float64Array, arrivals: number[]}}
 */
function placeAcross(chart) {
  const straight = straightJoints(chart);
  const arrivals = arrivalPorts(chart, straight);
  const blocks = new Blocks(chart, straight, arrivals);
  blocks.compact();
  for (let round = 0; round < MOST_ROUNDS; round++) blocks.relax(round % 2 === 0);
  return { across: blocks.across(), arrivals };
}

/**
 * The joints that will be straight: no two at one end of an item, and none that cross. Lines come first, then what is
 * on the longest way.
 * @param {Chart} chart @returns {Set<Joint>}
 */
function straightJoints(chart) {
  const depths = depthsOf(chart.size, chart.links);
  const heights = heightsOf(chart.size, chart.links);
  const weight = (/** @type {Joint} */ joint) => {
    const { from, to } = chart.links[joint.link];
    const lines = Number(chart.isLine(joint.upper)) + Number(chart.isLine(joint.lower));
    if (lines === 2) return Infinity;
    const way = depths[from] + heights[to];
    return lines ? way : way + 2 * chart.size;
  };
  const found = new Set();
  for (const joints of chart.joints) {
    const weights = new Map(joints.map((joint) => [joint, weight(joint)]));
    const sorted = [...joints].sort((a, b) => compareWeights(weights.get(b), weights.get(a)));
    for (const joint of straightOf(chart, sorted)) found.add(joint);
  }
  return found;
}

/** @param {number} a @param {number} b */
const compareWeights = (a, b) => (a === b ? 0 : a - b);

/** Of the joints between two layers, the first ones that fit each other. */
function straightOf(/** @type {Chart} */ chart, /** @type {Joint[]} */ sorted) {
  /** @type {Joint[]} */
  const found = [];
  const { places } = chart;
  for (const joint of sorted) {
    const fits = (/** @type {Joint} */ other) => {
      const above = places[joint.upper] - places[other.upper];
      const below = places[joint.lower] - places[other.lower];
      return above * below > 0;
    };
    if (found.every(fits)) found.push(joint);
  }
  return found;
}

/**
 * Where each link arrives: a straight one at the middle of its node, the others beside it on their side.
 * @param {Chart} chart @param {Set<Joint>} straight @returns {number[]}
 */
function arrivalPorts(chart, straight) {
  const ports = chart.links.map((link) => link.toPort ?? 0);
  const arriving = emptyLists(chart.size);
  for (const joints of chart.joints)
    for (const joint of joints)
      if (!chart.isLine(joint.lower) && joint.lowerPort === undefined) arriving[joint.lower].push(joint);
  arriving.forEach((joints, node) => {
    joints.sort((a, b) => upperPlace(chart, a) - upperPlace(chart, b));
    const main = joints.findIndex((joint) => straight.has(joint));
    const middle = main < 0 ? (joints.length - 1) / 2 : main;
    const gap = portGap(chart.nodes[node], joints.length);
    joints.forEach((joint, place) => (ports[joint.link] = (place - middle) * gap));
  });
  return ports;
}

/** How far apart links arrive: all of them at the node, even if one is at its middle. @param {LayoutNode} node @param {number} count */
function portGap({ before, after, half = Math.min(before, after) }, count) {
  const room = Math.max(0, half - PORT_MARGIN);
  return Math.min(PORT_GAP, room / Math.max(1, count - 1));
}

/** Items that straight joints hold together, as one block each: they move together. */
class Blocks {
  /** @param {Chart} chart @param {Set<Joint>} straight @param {number[]} arrivals */
  constructor(chart, straight, arrivals) {
    this.chart = chart;
    const count = chart.layerOf.length;
    this.blockOf = new Int32Array(count).fill(-1);
    this.shifts = new Float64Array(count); // of items, against their block
    this.size = 0;
    /** @type {[number, number][][]} of each block, those on its left side, and how far away at least */
    this.lefts = [];
    /** @type {[number, number][][]} */
    this.rights = [];
    /** @type {{other: number, offset: number}[][]} where the links of a block want it */
    this.pulls = [];
    this.lowerPort = (/** @type {Joint} */ joint) => (chart.isLine(joint.lower) ? 0 : arrivals[joint.link]);
    this.build(straight);
    this.order();
    this.link();
  }

  /** @param {Set<Joint>} straight */
  build(straight) {
    const above = new Map();
    for (const joint of straight) above.set(joint.lower, joint);
    for (const layer of this.chart.layers)
      for (const item of layer) {
        const joint = above.get(item);
        this.blockOf[item] = joint ? this.blockOf[joint.upper] : this.size++;
        if (joint) this.shifts[item] = this.shifts[joint.upper] + joint.upperPort - this.lowerPort(joint);
      }
    this.lefts = emptyLists(this.size);
    this.rights = emptyLists(this.size);
    this.pulls = emptyLists(this.size);
    this.positions = new Float64Array(this.size);
  }

  /** Which block is on the left side of which, and an order of all from left to right. */
  order() {
    for (const layer of this.chart.layers)
      for (let place = 1; place < layer.length; place++) this.separate(layer[place - 1], layer[place]);
    const waiting = new Int32Array(this.size);
    for (const rights of this.rights) for (const [right] of rights) waiting[right] += 1;
    /** @type {number[]} */
    this.sorted = [];
    for (let block = 0; block < this.size; block++) if (!waiting[block]) this.sorted.push(block);
    for (let place = 0; place < this.sorted.length; place++)
      for (const [right] of this.rights[this.sorted[place]]) {
        waiting[right] -= 1;
        if (!waiting[right]) this.sorted.push(right);
      }
  }

  /** Keep two neighbours of a layer apart. @param {number} left @param {number} right */
  separate(left, right) {
    const distance = this.reach(left, "after") + this.reach(right, "before") + this.gap(left, right);
    const blocks = [this.blockOf[left], this.blockOf[right]];
    const offset = distance + this.shifts[left] - this.shifts[right];
    this.rights[blocks[0]].push([blocks[1], offset]);
    this.lefts[blocks[1]].push([blocks[0], offset]);
  }

  /** @param {number} item @param {"before"|"after"} side */
  reach(item, side) {
    return this.chart.isLine(item) ? 0 : this.chart.nodes[item][side];
  }

  /** @param {number} left @param {number} right */
  gap(left, right) {
    return this.chart.isLine(left) || this.chart.isLine(right) ? LINE_GAP : NODE_GAP;
  }

  /** Where the links of each block want it to be. */
  link() {
    for (const joints of this.chart.joints)
      for (const joint of joints) {
        const upper = this.blockOf[joint.upper];
        const lower = this.blockOf[joint.lower];
        if (upper === lower) continue;
        const offset = this.shifts[joint.upper] + joint.upperPort - this.shifts[joint.lower] - this.lowerPort(joint);
        this.pulls[lower].push({ other: upper, offset });
        this.pulls[upper].push({ other: lower, offset: -offset });
      }
  }

  /** Put every block as far to the left as it goes. */
  compact() {
    for (const block of this.sorted) this.positions[block] = Math.max(0, this.leastPosition(block));
  }

  /** @param {number} block */
  leastPosition(block) {
    return this.lefts[block].reduce((least, [left, offset]) => Math.max(least, this.positions[left] + offset), -Infinity);
  }

  /** @param {number} block */
  mostPosition(block) {
    return this.rights[block].reduce((most, [right, offset]) => Math.min(most, this.positions[right] - offset), Infinity);
  }

  /** Move each block to where its links want it, as far as its neighbours let it. @param {boolean} isFromRight */
  relax(isFromRight) {
    const order = isFromRight ? [...this.sorted].reverse() : this.sorted;
    for (const block of order) {
      if (!this.pulls[block].length) continue;
      const wish = medianOf(this.pulls[block].map(({ other, offset }) => this.positions[other] + offset));
      const bounded = Math.min(wish, this.mostPosition(block));
      this.positions[block] = Math.max(bounded, this.leastPosition(block));
    }
  }

  /** Where each item is; the leftmost begins at 0. */
  across() {
    const found = this.shifts.map((shift, item) => this.positions[this.blockOf[item]] + shift);
    const start = found.reduce((least, place, item) => Math.min(least, place - this.reach(item, "before")), Infinity);
    return found.map((place) => place - start);
  }
}

/** @param {number[]} numbers */
function medianOf(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length % 2) return sorted[middle];
  return (sorted[middle - 1] + sorted[middle]) / 2;
}
