// The layered layout, put together: nodes in layers, links as routes that go straight through the layers and bend
// between them. Coordinates are `along` the direction of the graph, and `across`.

const LAYER_GAP = 16; // between two layers, without labels
const MOST_BEND = 34; // that is added where links go far to the side
const BEND_SHARE = 0.07;

/**
 * @typedef {{along: number, across: number}} Spot
 * @typedef {{places: Spot[], routes: Spot[][], length: number, breadth: number}} Layout
 * `places` has where each node begins, along, and where its middle is, across
 */

/**
 * Lay out a graph. Nodes are in the order of the program.
 * @param {LayoutNode[]} nodes @param {LayoutLink[]} links
 * @param {(number|undefined)[]} [room] how much room each node needs after it, along, for what is written there
 * @param {(number|undefined)[]} [roomBefore] the same before it
 * @returns {Layout}
 */
function layeredLayout(nodes, links, room = [], roomBefore = []) {
  const chart = new Chart(nodes, forwardLinks(links));
  reduceCrossings(chart);
  const { across, arrivals } = placeAcross(chart);
  const bands = bandsOf(chart, across, arrivals, room, roomBefore);
  const targets = new Set(chart.links.map((link) => link.to));
  const places = nodes.map((node, place) => {
    const band = bands[chart.layerOf[place]];
    const along = targets.has(place) ? band.start : band.end - node.length; // a source is next to its consumers
    return { along, across: across[place] };
  });
  const routes = links.map((link, place) => {
    const route = routeOf(chart, bands, place, { across, arrivals, places });
    return link.from < link.to ? route : route.reverse();
  });
  const last = bands[bands.length - 1];
  const breadth = nodes.reduce((most, node, place) => Math.max(most, across[place] + node.after), 0);
  const widest = across.reduce((most, place) => Math.max(most, place), breadth);
  return { places, routes, length: last ? last.end : 0, breadth: widest };
}

/** Where each layer begins and ends, along. @returns {{start: number, end: number}[]} */
function bandsOf(
  /** @type {Chart} */ chart, /** @type {Float64Array} */ across, /** @type {number[]} */ arrivals,
  /** @type {(number|undefined)[]} */ room, /** @type {(number|undefined)[]} */ roomBefore,
) {
  const most = (/** @type {number[]|undefined} */ items, /** @type {(node: number) => number} */ size) =>
    (items ?? []).reduce((largest, item) => (chart.isLine(item) ? largest : Math.max(largest, size(item))), 0);
  let start = 0;
  return chart.layers.map((items, layer) => {
    const end = start + most(items, (node) => chart.nodes[node].length);
    const band = { start, end };
    const after = most(items, (node) => room[node] ?? 0);
    const before = most(chart.layers[layer + 1], (node) => roomBefore[node] ?? 0);
    start = end + LAYER_GAP + after + before + bendRoom(chart, layer, across, arrivals);
    return band;
  });
}

/** Links that go far to the side need a longer way to bend. */
function bendRoom(
  /** @type {Chart} */ chart, /** @type {number} */ layer, /** @type {Float64Array} */ across,
  /** @type {number[]} */ arrivals,
) {
  const furthest = chart.joints[layer].reduce((most, joint) => {
    const port = chart.isLine(joint.lower) ? 0 : arrivals[joint.link];
    const way = across[joint.lower] + port - across[joint.upper] - joint.upperPort;
    return Math.max(most, Math.abs(way));
  }, 0);
  return Math.min(MOST_BEND, furthest * BEND_SHARE);
}

/**
 * The spots of a link: straight through each layer.
 * @param {Chart} chart @param {{start: number, end: number}[]} bands @param {number} link
 * @param {{across: Float64Array, arrivals: number[], places: Spot[]}} found @returns {Spot[]}
 */
function routeOf(chart, bands, link, { across, arrivals, places }) {
  const { from, to, fromPort = 0 } = chart.links[link];
  const first = across[from] + fromPort;
  const last = across[to] + arrivals[link];
  const spots = [
    { along: places[from].along + chart.nodes[from].length, across: first },
    { along: bands[chart.layerOf[from]].end, across: first },
  ];
  for (const line of chart.chains[link].slice(1, -1)) {
    const { start, end } = bands[chart.layerOf[line]];
    spots.push({ along: start, across: across[line] }, { along: end, across: across[line] });
  }
  spots.push({ along: bands[chart.layerOf[to]].start, across: last }, { along: places[to].along, across: last });
  return spots;
}
