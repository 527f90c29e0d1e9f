// The elements of a scene, and the marks on them: what is selected, and which edges belong to a node.

class Sketch {
  /** @param {Scene} scene @param {boolean} hasGradients */
  constructor(scene, hasGradients) {
    this.scene = scene;
    this.drawn = drawGraph(scene, hasGradients);
    this.chosen = -1;
  }

  /** Mark a node as the selected one. @param {number} node */
  choose(node) {
    this.mark(this.chosen, false);
    this.mark(node, true);
    this.chosen = node;
    this.light("near", node);
  }

  /** @param {number} node @param {boolean} isChosen */
  mark(node, isChosen) {
    this.drawn.nodes[node]?.setAttribute("aria-selected", String(isChosen));
    this.drawn.frames[node]?.classList.toggle("chosen", isChosen);
  }

  /** Give the wires of a node a class, and take it from all others. @param {string} name @param {number} node */
  light(name, node) {
    for (const wire of this.drawn.wires) wire.classList.remove(name);
    for (const place of this.wiresOf(node)) {
      const wire = this.drawn.wires[place];
      wire.classList.add(name);
      wire.parentNode?.append(wire); // above the wires with which it shares a line
    }
  }

  /** The wires of the edges that begin or end at a node, or inside of it. @param {number} node @returns {number[]} */
  wiresOf(node) {
    if (node < 0) return [];
    const { model, picture } = this.scene;
    const isInside = (/** @type {number} */ end) => end === node || isAround(model.nodes, node, end);
    const isOwn = model.edges.map(({ from, to }) => isInside(from) !== isInside(to));
    const places = picture.wires.map((_, place) => place);
    return places.filter((place) => picture.wires[place].edges.some((edge) => isOwn[edge]));
  }
}
