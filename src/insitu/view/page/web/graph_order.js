// The layered layout, part two: the order of the items in each layer, with few crossings.

const MOST_SWEEPS = 16;
const PATIENCE = 4; // sweeps without progress

/** Put the items of each layer in an order with few crossings. @param {Chart} chart */
function reduceCrossings(chart) {
  let best = layersCopy(chart.layers);
  let least = countCrossings(chart);
  let idle = 0;
  for (let sweep = 0; sweep < MOST_SWEEPS; sweep++) {
    if (!least || idle >= PATIENCE) break;
    sweepLayers(chart, sweep % 2 === 0);
    swapNeighbours(chart);
    const count = countCrossings(chart);
    idle += 1;
    if (count >= least) continue;
    least = count;
    best = layersCopy(chart.layers);
    idle = 0;
  }
  chart.layers = best;
  chart.number();
}

/** @param {number[][]} layers */
const layersCopy = (layers) => layers.map((layer) => [...layer]);

/** Sort each layer by where its neighbours are, layer by layer. @param {Chart} chart @param {boolean} isDown */
function sweepLayers(chart, isDown) {
  const count = chart.layers.length;
  for (let step = 1; step < count; step++) {
    const layer = isDown ? step : count - 1 - step;
    const joints = chart.joints[isDown ? layer - 1 : layer];
    sortLayer(chart, layer, neighbourPlaces(chart, joints, isDown));
  }
}

/** Where the neighbours of each item are, as its number of places and their sum. */
function neighbourPlaces(
  /** @type {Chart} */ chart, /** @type {Joint[]} */ joints, /** @type {boolean} */ isDown,
) {
  /** @type {Map<number, number[]>} */
  const found = new Map();
  for (const joint of joints) {
    const item = isDown ? joint.lower : joint.upper;
    const place = isDown ? upperPlace(chart, joint) : lowerPlace(chart, joint);
    const known = found.get(item);
    if (known) known.push(place);
    else found.set(item, [place]);
  }
  return found;
}

/** @param {Chart} chart @param {Joint} joint */
const upperPlace = (chart, joint) => chart.places[joint.upper] + portShare(chart, joint.upper, joint.upperPort);
/** @param {Chart} chart @param {Joint} joint */
const lowerPlace = (chart, joint) => chart.places[joint.lower] + portShare(chart, joint.lower, joint.lowerPort ?? 0);

/** A port as a part of its node, so that it is a place between those of the neighbours. */
function portShare(/** @type {Chart} */ chart, /** @type {number} */ item, /** @type {number} */ port) {
  if (chart.isLine(item)) return 0;
  const { before, after } = chart.nodes[item];
  return port / (before + after + 1);
}

/** Sort a layer by the means of places; items without neighbours stay where they are. */
function sortLayer(
  /** @type {Chart} */ chart, /** @type {number} */ layer, /** @type {Map<number, number[]>} */ places,
) {
  const items = chart.layers[layer];
  const mean = (/** @type {number} */ item) => {
    const known = /** @type {number[]} */ (places.get(item));
    return known.reduce((sum, place) => sum + place, 0) / known.length;
  };
  const moving = items.filter((item) => places.has(item));
  const means = new Map(moving.map((item) => [item, mean(item)]));
  moving.sort((a, b) => means.get(a) - means.get(b));
  let next = 0;
  chart.layers[layer] = items.map((item) => (places.has(item) ? moving[next++] : item));
  chart.layers[layer].forEach((item, place) => (chart.places[item] = place));
}

/** Swap neighbours in a layer where that leaves fewer crossings. @param {Chart} chart */
function swapNeighbours(chart) {
  const uppers = emptyLists(chart.layerOf.length);
  const lowers = emptyLists(chart.layerOf.length);
  for (const joints of chart.joints)
    for (const joint of joints) {
      lowers[joint.upper].push(joint);
      uppers[joint.lower].push(joint);
    }
  /** How many crossings two neighbours have in this order. */
  const crossings = (/** @type {number} */ left, /** @type {number} */ right) =>
    inversions(uppers[left], uppers[right], (joint) => upperPlace(chart, joint))
    + inversions(lowers[left], lowers[right], (joint) => lowerPlace(chart, joint));
  for (const items of chart.layers)
    for (let place = 1; place < items.length; place++) {
      const left = items[place - 1];
      const right = items[place];
      if (crossings(right, left) >= crossings(left, right)) continue;
      [items[place - 1], items[place]] = [right, left];
      chart.places[left] = place;
      chart.places[right] = place - 1;
    }
}

/** How often a place of the first list is after one of the second. */
function inversions(
  /** @type {Joint[]} */ first, /** @type {Joint[]} */ second, /** @type {(joint: Joint) => number} */ placeOf,
) {
  const places = second.map(placeOf);
  let count = 0;
  for (const joint of first) {
    const place = placeOf(joint);
    for (const other of places) if (place > other) count += 1;
  }
  return count;
}

/** @param {Chart} chart */
function countCrossings(chart) {
  return chart.joints.reduce((sum, joints) => sum + crossingsOf(chart, joints), 0);
}

/** How many joints between two layers cross. @param {Chart} chart @param {Joint[]} joints */
function crossingsOf(chart, joints) {
  const ends = joints.map((joint) => [upperPlace(chart, joint), lowerPlace(chart, joint)]);
  ends.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  /** @type {number[]} the lower ends so far, sorted */
  const passed = [];
  let count = 0;
  for (let start = 0; start < ends.length;) {
    let end = start;
    while (end < ends.length && ends[end][0] === ends[start][0]) end += 1;
    const group = ends.slice(start, end);
    for (const [, lower] of group) count += passed.length - placeAfter(passed, lower);
    for (const [, lower] of group) passed.splice(placeAfter(passed, lower), 0, lower);
    start = end;
  }
  return count;
}

/** How many numbers of a sorted list are not above a limit. @param {number[]} sorted @param {number} limit */
function placeAfter(sorted, limit) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
