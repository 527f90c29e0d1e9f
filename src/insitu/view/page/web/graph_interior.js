// What is inside one box of the graph: its nodes, ports and wires, laid out in coordinates that begin at its corner.

const TITLE_HEIGHT = 20; // of a box
const BOX_PAD = 12; // between the border of a box and what is in it
const NO_PADS = { start: 0, end: 0, left: 0, right: 0 };

/**
 * @typedef {{node: number, along: number, across: number, length: number, breadth: number}} Span a node and its place
 * @typedef {{wire: number, label: Label, end: "start"|"end"}} LabelMark a label, and at which end of its wire it is
 * @typedef {object} Interior
 * @property {number} length @property {number} breadth
 * @property {number[]} wires their numbers @property {Spot[][]} routes of the wires, in the same order
 * @property {Span[]} spans
 * @property {{spot: Spot, label: Label}[]} labels
 * @property {Map<string, number>} ports where wires pass the border, across, from its middle
 */

/** What is to be laid out inside a box: its ports and children as nodes, its wires as links. */
class Plan {
  /** @param {Nest} nest @param {number} box @param {number[]} children */
  constructor(nest, box, children) {
    this.box = box;
    this.children = children;
    this.wires = nest.wiresIn.get(box) ?? [];
    const wires = this.wires.map((number) => nest.wires[number]);
    this.entries = sourcesOf(wires.filter((wire) => wire.from === "in"));
    this.exits = sourcesOf(wires.filter((wire) => wire.to === "out"));
    /** @type {Map<string, number>} the place of each port and child among the nodes */
    this.places = new Map();
    const keys = [...this.entries.map(entryKey), ...children.map(String), ...this.exits.map(exitKey)];
    keys.forEach((key, place) => this.places.set(key, place));
    /** @type {LayoutNode[]} */
    this.nodes = [
      ...this.entries.map(() => portNode("first")),
      ...children.map((child) => nodeInside(nest, child)),
      ...this.exits.map(() => portNode("last")),
    ];
    this.links = wires.map((wire) => linkInside(nest, this.places, wire));
    this.marks = wires.flatMap((wire, place) => marksOf(nest, wire, place));
  }
}

/** @param {Nest} nest @param {number} child @returns {LayoutNode} */
function nodeInside(nest, child) {
  const { length, breadth } = sizeInside(nest, child);
  return { length, before: breadth / 2, after: breadth / 2, half: breadth / 2 };
}

/** The size of a node: of an open one, that of its box. @param {Nest} nest @param {number} child */
function sizeInside(nest, child) {
  const { width, height } = nest.nodes[child];
  const size = nest.isDown ? { length: height, breadth: width } : { length: width, breadth: height };
  const { length, breadth } = nest.interiors.get(child) ?? size;
  return { length, breadth };
}

/** @param {Nest} nest @param {Map<string, number>} places @param {Wire} wire @returns {LayoutLink} */
function linkInside(nest, places, { from, to, source }) {
  const first = places.get(from === "in" ? entryKey(source) : String(from)) ?? 0;
  const last = places.get(to === "out" ? exitKey(source) : String(to)) ?? 0;
  const fromPort = from === "in" ? 0 : nest.interiors.get(from)?.ports.get(exitKey(source)) ?? 0;
  const toPort = to === "out" ? 0 : nest.interiors.get(to)?.ports.get(entryKey(source));
  return { from: first, to: last, fromPort, toPort };
}

/**
 * The label of a wire, if something is written on it.
 * @param {Nest} nest @param {Wire} wire @param {number} place of the wire @returns {LabelMark[]}
 */
function marksOf(nest, wire, place) {
  const { label, end } = nest.labelOn(wire);
  return label?.text ? [{ wire: place, label, end }] : [];
}

/** Lay out a plan. @param {Nest} nest @param {Plan} plan @returns {Interior} */
function interiorOf(nest, plan) {
  const { room, roomBefore } = labelRoom(plan, nest.isDown);
  const layout = layeredLayout(plan.nodes, plan.links, room, roomBefore);
  const { length, breadth, move } = frameOf(nest, plan, layout);
  const spans = plan.children.map((node, place) => {
    const size = sizeInside(nest, node);
    const { along, across } = move(layout.places[plan.entries.length + place]);
    return { node, along, across: across - size.breadth / 2, ...size };
  });
  const routes = layout.routes.map((route) => route.map(move));
  if (nest.isDown) passTitle(plan, routes);
  const portAt = (/** @type {string} */ key) => move(layout.places[plan.places.get(key) ?? 0]).across - breadth / 2;
  const keys = [...plan.entries.map(entryKey), ...plan.exits.map(exitKey)];
  const ports = new Map(keys.map((key) => [key, portAt(key)]));
  return { length, breadth, wires: plan.wires, routes, spans, ports, labels: placedLabels(nest, plan, routes) };
}

/**
 * The size of a box, and how what was laid out moves into it.
 * @param {Nest} nest @param {Plan} plan @param {Layout} layout
 */
function frameOf(nest, plan, layout) {
  const { isDown } = nest;
  const isBox = plan.box !== OUTSIDE;
  const title = isBox ? nest.nodes[plan.box].width : 0;
  const pads = isBox ? padsOf(isDown, plan.entries.length > 0, plan.exits.length > 0) : NO_PADS;
  const whole = layout.length + pads.start + pads.end;
  const wide = layout.breadth + pads.left + pads.right;
  const breadth = isDown ? Math.max(wide, title) : wide;
  const left = pads.left + (breadth - wide) / 2;
  const move = (/** @type {Spot} */ { along, across }) => ({ along: along + pads.start, across: across + left });
  return { length: isDown ? whole : Math.max(whole, title), breadth, move };
}

/** What is free inside the border of a box; ports are in the border itself. */
function padsOf(/** @type {boolean} */ isDown, /** @type {boolean} */ hasEntries, /** @type {boolean} */ hasExits) {
  const end = hasExits ? 0 : BOX_PAD;
  if (isDown) return { start: hasEntries ? 0 : TITLE_HEIGHT + 10, end, left: BOX_PAD, right: BOX_PAD };
  return { start: hasEntries ? 0 : BOX_PAD, end, left: TITLE_HEIGHT + 6, right: BOX_PAD };
}

/** Wires that come in bend below the title, not across it. @param {Plan} plan @param {Spot[][]} routes */
function passTitle(plan, routes) {
  plan.links.forEach((link, place) => {
    const isEntry = link.from < plan.entries.length;
    if (isEntry) routes[place][1].along = TITLE_HEIGHT;
  });
}

/** @param {"first"|"last"} pin @returns {LayoutNode} */
const portNode = (pin) => ({ length: 0, before: 4, after: 4, pin });
/** @param {number} source */
const entryKey = (source) => `in ${source}`;
/** @param {number} source */
const exitKey = (source) => `out ${source}`;
/** @param {Wire[]} wires @returns {number[]} */
const sourcesOf = (wires) => [...new Set(wires.map((wire) => wire.source))].sort((a, b) => a - b);
