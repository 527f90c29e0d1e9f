// The layered layout, part one: which node comes in which layer, and where long links pass the layers between.

/**
 * A node as the layout sees it. `length` is its size along the direction of the graph; `before` and `after` is how far
 * it reaches to either side of its middle, across, with what is written beside its links, and `half` how far without.
 * `pin` holds it in the first or in the last layer.
 * @typedef {{length: number, before: number, after: number, half?: number, pin?: "first"|"last"}} LayoutNode
 *
 * A link from a node to another one, by their places in the list. Ports are where it leaves and arrives, across, from
 * the middle of the node; without `toPort` the layout chooses.
 * @typedef {{from: number, to: number, fromPort?: number, toPort?: number}} LayoutLink
 */

/**
 * The links, all from a node to a later one: nodes are in the order of the program, and what runs against it is turned.
 * @param {LayoutLink[]} links @returns {LayoutLink[]}
 */
function forwardLinks(links) {
  return links.map((link) => (link.from < link.to ? link : turnedLink(link)));
}

/** @param {LayoutLink} link @returns {LayoutLink} */
function turnedLink({ from, to, fromPort, toPort }) {
  return { from: to, to: from, fromPort: toPort, toPort: fromPort };
}

/**
 * How many links the longest way to each node has.
 * @param {number} count of nodes @param {LayoutLink[]} links that lead forward @returns {Int32Array}
 */
function depthsOf(count, links) {
  const depths = new Int32Array(count);
  const sorted = [...links].sort((a, b) => a.from - b.from);
  for (const { from, to } of sorted) depths[to] = Math.max(depths[to], depths[from] + 1);
  return depths;
}

/**
 * How many links the longest way from each node on has.
 * @param {number} count of nodes @param {LayoutLink[]} links that lead forward @returns {Int32Array}
 */
function heightsOf(count, links) {
  const heights = new Int32Array(count);
  const sorted = [...links].sort((a, b) => b.to - a.to);
  for (const { from, to } of sorted) heights[from] = Math.max(heights[from], heights[to] + 1);
  return heights;
}

/**
 * The layer of each node: as early as can be, but near its consumers if it has more of them than producers.
 * @param {LayoutNode[]} nodes @param {LayoutLink[]} links that lead forward @returns {Int32Array}
 */
function layersOf(nodes, links) {
  const layers = depthsOf(nodes.length, links);
  const hasFirst = nodes.some((node) => node.pin === "first");
  if (hasFirst) keepFirstLayerFree(nodes, links, layers);
  pullToConsumers(nodes, links, layers);
  const last = layers.reduce((most, layer) => Math.max(most, layer), 0);
  const isEndTaken = nodes.some((node, place) => !node.pin && layers[place] === last);
  nodes.forEach((node, place) => {
    if (node.pin === "last") layers[place] = isEndTaken ? last + 1 : last;
  });
  return layers;
}

/** Only nodes that are pinned there are in the first layer. */
function keepFirstLayerFree(
  /** @type {LayoutNode[]} */ nodes, /** @type {LayoutLink[]} */ links, /** @type {Int32Array} */ layers,
) {
  nodes.forEach((node, place) => {
    if (!node.pin) layers[place] = Math.max(layers[place], 1);
  });
  const sorted = [...links].sort((a, b) => a.from - b.from);
  for (const { from, to } of sorted) layers[to] = Math.max(layers[to], layers[from] + 1);
}

/**
 * Move nodes next to the first of their consumers: those that have more consumers than producers, and those that come
 * right before their consumer in the program.
 */
function pullToConsumers(
  /** @type {LayoutNode[]} */ nodes, /** @type {LayoutLink[]} */ links, /** @type {Int32Array} */ layers,
) {
  /** @type {number[][]} */
  const targets = emptyLists(nodes.length);
  /** @type {number[][]} */
  const sources = emptyLists(nodes.length);
  for (const { from, to } of links) {
    targets[from].push(to);
    sources[to].push(from);
  }
  for (let node = nodes.length - 1; node >= 0; node--) {
    if (nodes[node].pin || !targets[node].length) continue;
    if (!isNearConsumer(node, sources[node], targets[node])) continue;
    layers[node] = Math.min(...targets[node].map((target) => layers[target])) - 1;
  }
}

/** Whether a node belongs to its consumers rather than to its producers. */
function isNearConsumer(/** @type {number} */ node, /** @type {number[]} */ sources, /** @type {number[]} */ targets) {
  if (sources.length !== targets.length) return targets.length > sources.length;
  return Math.min(...targets) - node < node - Math.max(...sources);
}

/** @template T @param {number} count @returns {T[][]} so many empty lists */
const emptyLists = (count) => Array.from({ length: count }, () => []);

/** @template K, V @param {Map<K, V[]>} listsByKey @param {K} key @param {V} item */
function addTo(listsByKey, key, item) {
  const known = listsByKey.get(key);
  if (known) known.push(item);
  else listsByKey.set(key, [item]);
}

/**
 * Nodes and lines in their layers. An item is a node or, with a number from `size` on, a line: the part of a link that
 * passes a layer. Links from the same port share their lines. A chain has the items of a link, from its first node to
 * its last.
 */
class Chart {
  /** @param {LayoutNode[]} nodes @param {LayoutLink[]} links that lead forward */
  constructor(nodes, links) {
    this.nodes = nodes;
    this.links = links;
    this.size = nodes.length;
    /** @type {number[]} */
    this.layerOf = Array.from(layersOf(nodes, links));
    /** @type {Map<string, number>} the line of each port in each layer */
    this.lines = new Map();
    /** @type {number[][]} */
    this.chains = links.map((link) => this.chainOf(link));
    const count = this.layerOf.reduce((most, layer) => Math.max(most, layer + 1), 0);
    /** @type {number[][]} */
    this.layers = emptyLists(count);
    /** @type {Joint[][]} the joints between each layer and the next */
    this.joints = emptyLists(count);
    /** @type {Set<number>} the lines that a joint leads to */
    this.isReached = new Set();
    this.chains.forEach((chain, link) => this.join(chain, link));
    /** @type {number[]} the place of each item in its layer */
    this.places = new Array(this.layerOf.length).fill(0);
    this.arrange();
  }

  /** @param {number} item */
  isLine(item) {
    return item >= this.size;
  }

  /** @param {LayoutLink} link @returns {number[]} */
  chainOf({ from, to, fromPort = 0 }) {
    const chain = [from];
    for (let layer = this.layerOf[from] + 1; layer < this.layerOf[to]; layer++)
      chain.push(this.lineOf(`${from} ${fromPort} ${layer}`, layer));
    chain.push(to);
    return chain;
  }

  /** @param {string} key @param {number} layer */
  lineOf(key, layer) {
    const known = this.lines.get(key);
    if (known !== undefined) return known;
    this.lines.set(key, this.layerOf.length);
    return this.layerOf.push(layer) - 1;
  }

  /** @param {number[]} chain @param {number} link */
  join(chain, link) {
    const { fromPort, toPort } = this.links[link];
    for (let place = 1; place < chain.length; place++) {
      const upper = chain[place - 1];
      const lower = chain[place];
      const upperPort = place === 1 ? fromPort ?? 0 : 0;
      const isLine = this.isLine(lower);
      if (isLine && this.isReached.has(lower)) continue;
      if (isLine) this.isReached.add(lower);
      this.joints[this.layerOf[upper]].push({ upper, lower, upperPort, lowerPort: isLine ? 0 : toPort, link });
    }
  }

  /** The first order: depth first, so that what belongs together is together. */
  arrange() {
    const lower = emptyLists(this.layerOf.length);
    for (const joints of this.joints) for (const joint of joints) lower[joint.upper].push(joint.lower);
    const isSeen = new Uint8Array(this.layerOf.length);
    const roots = Array.from({ length: this.size }, (_, node) => node).sort((a, b) => this.layerOf[a] - this.layerOf[b]);
    for (const root of roots) {
      const waiting = [root];
      while (waiting.length) {
        const item = /** @type {number} */ (waiting.pop());
        if (isSeen[item]) continue;
        isSeen[item] = 1;
        this.layers[this.layerOf[item]].push(item);
        for (let place = lower[item].length - 1; place >= 0; place--) waiting.push(lower[item][place]);
      }
    }
    this.number();
  }

  /** Note the place of each item in its layer. */
  number() {
    for (const layer of this.layers) layer.forEach((item, place) => (this.places[item] = place));
  }
}

/**
 * A part of a link between two neighbouring layers.
 * @typedef {{upper: number, lower: number, upperPort: number, lowerPort?: number, link: number}} Joint
 */
