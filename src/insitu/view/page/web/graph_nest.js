// The layout of nested boxes: what is inside an open box is laid out first, then the box is a node of what is around it.
// A wire is the part of an edge inside one box; wires of one source share ports in the borders of boxes.

const OUTSIDE = -1; // around all boxes

/**
 * @typedef {{parent: number, isOpen: boolean, width: number, height: number}} NestNode
 * `width` and `height` of an open node are those of its title
 * @typedef {{from: number, to: number}} NestEdge
 * @typedef {{text: string, width: number, isBad: boolean, isGradient: boolean}} Label
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {{x: number, y: number}} Point
 * @typedef {{inside: number, source: number, from: number|"in", to: number|"out", edges: number[], points: Point[]}} Wire
 * `inside` is the box that the wire is in, `source` the node where its edges begin
 * @typedef {{x: number, y: number, label: Label}} PlacedLabel
 * @typedef {{boxes: Box[], wires: Wire[], labels: PlacedLabel[], width: number, height: number}} Picture
 */

/**
 * Lay out nodes in boxes. Nodes are in the order of the program, a box before what is in it.
 * @param {NestNode[]} nodes @param {NestEdge[]} edges @param {(edges: number[]) => Label} labelOf the text on a wire
 * @param {"down"|"right"} direction @returns {Picture}
 */
function nestedLayout(nodes, edges, labelOf, direction) {
  return new Nest(nodes, edges, labelOf, direction).picture();
}

class Nest {
  /**
   * @param {NestNode[]} nodes @param {NestEdge[]} edges @param {(edges: number[]) => Label} labelOf
   * @param {"down"|"right"} direction
   */
  constructor(nodes, edges, labelOf, direction) {
    this.nodes = nodes;
    this.edges = edges;
    this.labelOf = labelOf;
    this.isDown = direction === "down";
    /** @type {Wire[]} */
    this.wires = [];
    /** @type {Map<string, number>} */
    this.wireNumbers = new Map();
    /** @type {Map<number, number[]>} the wires in each box */
    this.wiresIn = new Map();
    /** @type {Map<number, number[]>} */
    this.childrenOf = new Map();
    nodes.forEach((node, id) => addTo(this.childrenOf, node.parent, id));
    edges.forEach((_, edge) => this.route(edge));
    this.hasOneText = this.findCommonTexts();
    /** @type {Map<number, Interior>} */
    this.interiors = new Map();
    this.layOut(OUTSIDE);
  }

  /** The boxes around a node, from the outermost. @param {number} node @returns {number[]} */
  boxesAround(node) {
    const found = [];
    for (let above = this.nodes[node].parent; above !== OUTSIDE; above = this.nodes[above].parent) found.push(above);
    found.push(OUTSIDE);
    return found.reverse();
  }

  /**
   * Make the wires of an edge: out of the boxes of its source, and into those of its target. An edge to a box around its
   * source ends at the border of that box.
   * @param {number} edge
   */
  route(edge) {
    const { from, to } = this.edges[edge];
    const out = [...this.boxesAround(from), from];
    const into = [...this.boxesAround(to), to];
    let common = 0;
    while (out[common + 1] === into[common + 1]) common += 1;
    for (let level = out.length - 2; level > common; level--) this.addWire(edge, out[level], out[level + 1], "out");
    this.addWire(edge, out[common], out[common + 1], into[common + 1] ?? "out");
    for (let level = common + 1; level < into.length - 1; level++) this.addWire(edge, into[level], "in", into[level + 1]);
  }

  /** @param {number} edge @param {number} inside @param {number|"in"} from @param {number|"out"} to */
  addWire(edge, inside, from, to) {
    const source = this.edges[edge].from;
    const key = `${inside} ${source} ${from} ${to}`;
    const known = this.wireNumbers.get(key);
    if (known !== undefined) {
      this.wires[known].edges.push(edge);
      return;
    }
    this.wireNumbers.set(key, this.wires.length);
    addTo(this.wiresIn, inside, this.wires.length);
    this.wires.push({ inside, source, from, to, edges: [edge], points: [] });
  }

  /** Of each source, whether all its edges have the same text: then the text is written once, where they begin. */
  findCommonTexts() {
    const texts = this.nodes.map(() => new Set());
    this.edges.forEach((edge, number) => texts[edge.from].add(this.labelOf([number]).text));
    return texts.map((found) => found.size === 1);
  }

  /**
   * What is written on a wire, and at which end; an empty text where it is written elsewhere.
   * @param {Wire} wire @returns {{label: Label|undefined, end: "start"|"end"}}
   */
  labelOn(wire) {
    if (this.hasOneText[wire.source]) {
      const [first] = wire.edges;
      const isStart = wire.from === wire.source;
      return { label: isStart ? this.labelOf([first]) : undefined, end: "start" };
    }
    const label = this.labelOf(wire.edges);
    const isElsewhere = wire.to === "out" || label.text === this.textBefore(wire);
    return { label: isElsewhere ? undefined : label, end: "end" };
  }

  /** The text on the wire that leads to the port where this one begins. @param {Wire} wire */
  textBefore(wire) {
    if (wire.from !== "in") return undefined;
    const box = wire.inside;
    const before = (this.wiresIn.get(this.nodes[box].parent) ?? []).find((number) => {
      const other = this.wires[number];
      return other.to === box && other.source === wire.source;
    });
    return before === undefined ? undefined : this.labelOf(this.wires[before].edges).text;
  }

  /** Lay out what is inside a box, and what is inside the boxes in it first. @param {number} box */
  layOut(box) {
    const children = this.childrenOf.get(box) ?? [];
    for (const child of children) if (this.nodes[child].isOpen) this.layOut(child);
    this.interiors.set(box, interiorOf(this, new Plan(this, box, children)));
  }

  /** @returns {Picture} */
  picture() {
    const outside = /** @type {Interior} */ (this.interiors.get(OUTSIDE));
    /** @type {Picture} */
    const picture = { boxes: new Array(this.nodes.length), wires: this.wires, labels: [], ...this.sizeOf(outside) };
    this.draw(OUTSIDE, 0, 0, picture);
    return picture;
  }

  /** Put what is inside a box where it belongs. @param {number} box @param {Picture} picture */
  draw(box, /** @type {number} */ along, /** @type {number} */ across, picture) {
    const interior = /** @type {Interior} */ (this.interiors.get(box));
    const point = (/** @type {Spot} */ spot) => this.pointAt(spot.along + along, spot.across + across);
    interior.wires.forEach((wire, place) => (this.wires[wire].points = interior.routes[place].map(point)));
    for (const { spot, label } of interior.labels) picture.labels.push({ ...point(spot), label });
    for (const { node, along: start, across: side, length, breadth } of interior.spans) {
      const corner = this.pointAt(start + along, side + across);
      picture.boxes[node] = { ...corner, ...this.sizeOf({ length, breadth }) };
      if (this.nodes[node].isOpen) this.draw(node, start + along, side + across, picture);
    }
  }

  /** @param {number} along @param {number} across @returns {Point} */
  pointAt(along, across) {
    return this.isDown ? { x: across, y: along } : { x: along, y: across };
  }

  /** @param {{length: number, breadth: number}} size */
  sizeOf({ length, breadth }) {
    return this.isDown ? { width: breadth, height: length } : { width: length, height: breadth };
  }
}
