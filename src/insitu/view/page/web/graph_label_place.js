// Where the labels of wires are inside a box: beside their lines, where few wires pass through them.

const EDGE_LABEL_HEIGHT = 12;
const BOX_GAP = 6; // between the border of a box and a label
const BEND_SAMPLES = 8;

/**
 * Make room for labels: beside the lines that they belong to, and between the layers.
 * @param {Plan} plan @param {boolean} isDown
 */
function labelRoom({ nodes, links, marks }, isDown) {
  const room = nodes.map((node) => (node.pin === "first" && isDown ? TITLE_HEIGHT : 0));
  const roomBefore = nodes.map(() => 0);
  for (const { wire, label, end } of marks) {
    const isStart = end === "start";
    const node = isStart ? links[wire].from : links[wire].to;
    const along = isStart ? room : roomBefore;
    along[node] = Math.max(along[node], isDown ? EDGE_LABEL_HEIGHT : label.width + 4);
    const reach = isDown ? label.width + 9 : EDGE_LABEL_HEIGHT + 4;
    nodes[node].before = Math.max(nodes[node].before, reach); // which side it is on turns out later
    nodes[node].after = Math.max(nodes[node].after, reach);
  }
  return { room, roomBefore };
}

/** The labels of a box and where they begin; of wires that begin at the same node, one. */
function placedLabels(/** @type {Nest} */ nest, /** @type {Plan} */ plan, /** @type {Spot[][]} */ routes) {
  const starts = new Set();
  const marks = plan.marks.filter(({ wire, end }) => {
    const isKnown = end === "start" && starts.has(plan.links[wire].from);
    if (end === "start") starts.add(plan.links[wire].from);
    return !isKnown;
  });
  return marks.map(({ wire, label, end }) => {
    const isBox = nest.nodes[nest.wires[plan.wires[wire]].source].isOpen;
    const areas = labelAreas(labelOrigin(routes[wire], end, isBox), end, nest.isDown, label.width);
    const hits = areas.map((area) => routes.filter((route) => isThrough(route, area)).length);
    return { label, spot: textSpot(hits[1] < hits[0] ? areas[1] : areas[0], nest.isDown) };
  });
}

/**
 * The end of a route that a label is at.
 * @param {Spot[]} route @param {"start"|"end"} end @param {boolean} isBox whether it begins at a box
 */
function labelOrigin(route, end, isBox) {
  if (end === "end") return route[route.length - 1];
  const { along, across } = route[0];
  return { along: along + (isBox ? BOX_GAP : 0), across };
}

/** Where a text begins in its area, in the middle of its height. @param {Area} area @param {boolean} isDown */
function textSpot({ along, across }, isDown) {
  const half = EDGE_LABEL_HEIGHT / 2;
  return isDown ? { along: along + half, across } : { along, across: across + half };
}

/**
 * @typedef {{along: number, across: number, length: number, breadth: number}} Area
 * The two areas where a label can be: on either side of its line.
 */
function labelAreas(
  /** @type {Spot} */ { along, across }, /** @type {"start"|"end"} */ end, /** @type {boolean} */ isDown,
  /** @type {number} */ width,
) {
  const [length, breadth] = isDown ? [EDGE_LABEL_HEIGHT, width] : [width, EDGE_LABEL_HEIGHT];
  const isStart = end === "start";
  const from = isStart ? along + (isDown ? 4 : 5) : along - length - (isDown ? 4 : 9);
  // Gradients are on the left side of a line, or below it.
  const sides = isDown ? [across + 6, across - 10 - breadth] : [across + 7, across - 2 - breadth];
  if (!isDown) sides.reverse(); // above the line, rather than below
  return sides.map((side) => ({ along: from, across: side, length, breadth }));
}

/** Whether a route passes through an area. @param {Spot[]} route @param {Area} area */
function isThrough(route, area) {
  for (let place = 1; place < route.length; place++) {
    const spots = bendOf(route[place - 1], route[place]);
    const isHit = spots.some((spot, sample) => sample > 0 && crosses(spots[sample - 1], spot, area));
    if (isHit) return true;
  }
  return false;
}

/** Spots on the bend between two spots; it leaves and arrives straight. @param {Spot} from @param {Spot} to */
function bendOf(from, to) {
  if (Math.abs(from.across - to.across) < 0.5) return [from, to];
  const middle = (from.along + to.along) / 2;
  return Array.from({ length: BEND_SAMPLES + 1 }, (_, sample) => {
    const t = sample / BEND_SAMPLES;
    const early = (1 - t) ** 3;
    const late = t ** 3;
    const start = early + 3 * (1 - t) ** 2 * t;
    return {
      along: early * from.along + (1 - early - late) * middle + late * to.along,
      across: start * from.across + (1 - start) * to.across,
    };
  });
}

/** Whether the rectangle around two spots touches an area. @param {Spot} from @param {Spot} to @param {Area} area */
function crosses(from, to, { along, across, length, breadth }) {
  const isAlong = Math.max(from.along, to.along) > along && Math.min(from.along, to.along) < along + length;
  const isAcross = Math.max(from.across, to.across) > across && Math.min(from.across, to.across) < across + breadth;
  return isAlong && isAcross;
}
