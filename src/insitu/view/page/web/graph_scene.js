// A scene of the graph: what is open, laid out. Of what is open in the tree, as much is open here as fits the pane.

const LEAST_FIT = 0.66; // the zoom from which on a graph is too small to read: fewer boxes are open
const FEW_NODES = 7; // a graph with fewer says little: more is shown although it does not fit
const MOST_AUTOMATIC = 60; // nodes that are shown without being asked for
const RIGHT_ADVANTAGE = 1.3; // how much better a graph to the right must fit; in a wide pane, how much worse it may
const WIDE_PANE = 1.8; // the ratio of a wide pane

/**
 * @typedef {"down"|"right"} Direction
 * @typedef {object} Scene
 * @property {GraphModel} model @property {Picture} picture @property {NodeText[]} texts
 * @property {Direction} direction
 * @property {Set<number>} boxes the rows that are boxes
 * @property {number} fit the zoom at which all of it fits the pane
 * @property {number} count of the boxes that nobody asked for
 */

/** Makes scenes. */
class Stage {
  /** @param {ScopeFlow} flow @param {Camera} camera @param {Ruler} ruler @param {boolean} hasGradients */
  constructor(flow, camera, ruler, hasGradients) {
    this.flow = flow;
    this.camera = camera;
    this.ruler = ruler;
    this.hasGradients = hasGradients;
  }

  /**
   * The scene in the direction that fits the pane.
   * @param {number} focus @param {Set<number>} needed rows that must be boxes @returns {Scene}
   */
  bestScene(focus, needed) {
    const down = this.foldedScene(focus, needed, "down");
    const right = this.foldedScene(focus, needed, "right");
    const isWide = this.camera.width > WIDE_PANE * this.camera.height;
    const advantage = isWide ? 1 / RIGHT_ADVANTAGE : RIGHT_ADVANTAGE;
    const isFitter = right.count === down.count && right.fit > advantage * down.fit;
    return isFitter || right.count > down.count ? right : down;
  }

  /**
   * A scene with as many of the open rows as boxes as fit the pane.
   * @param {number} focus @param {Set<number>} needed rows that must be boxes @param {Direction} direction
   * @param {(row: number) => boolean} isOptional whether a row that is open in the tree may be a box
   * @returns {Scene}
   */
  foldedScene(focus, needed, direction, isOptional = () => true) {
    const { app, scope } = this.flow;
    const optional = openRowsInside(app, scope, needed, MOST_AUTOMATIC).filter(isOptional);
    const attempt = (/** @type {number} */ count) =>
      this.scene(focus, new Set([...needed, ...optional.slice(0, count)]), direction, count);
    const whole = attempt(optional.length);
    if (isFitting(whole)) return whole;
    let best = attempt(0);
    let most = optional.length;
    while (best.count < most - 1) {
      const middle = attempt((best.count + most) >> 1);
      if (isFitting(middle)) best = middle;
      else most = middle.count;
    }
    const isPoor = best.model.nodes.length < FEW_NODES && best.count < optional.length;
    return isPoor ? attempt(best.count + 1) : best;
  }

  /** @param {number} focus @param {Set<number>} boxes @param {Direction} direction @param {number} count @returns {Scene} */
  scene(focus, boxes, direction, count) {
    return this.laidOut(new GraphModel(this.flow, boxes, focus), boxes, direction, count);
  }

  /** A scene once more, in another direction or with other labels. @param {Scene} scene @param {Direction} direction */
  again({ model, boxes, count }, direction) {
    return this.laidOut(model, boxes, direction, count);
  }

  /** @param {GraphModel} model @param {Set<number>} boxes @param {Direction} direction @param {number} count @returns {Scene} */
  laidOut(model, boxes, direction, count) {
    const texts = model.nodes.map((node) => nodeText(model, node, this.ruler, direction));
    const nodes = model.nodes.map(({ parent, isOpen }, id) => {
      const { width, height } = texts[id];
      return { parent, isOpen, width, height };
    });
    const picture = nestedLayout(nodes, model.edges, this.labels(model), direction);
    return { model, texts, picture, boxes, direction, count, fit: this.camera.fitOf(picture) };
  }

  /** What is written on edges, made once for the same ones. @param {GraphModel} model @returns {(edges: number[]) => Label} */
  labels(model) {
    /** @type {Map<string, Label>} */
    const known = new Map();
    return (numbers) => {
      const key = numbers.join();
      const label = known.get(key) ?? this.labelOf(model, numbers);
      known.set(key, label);
      return label;
    };
  }

  /** @param {GraphModel} model @param {number[]} numbers */
  labelOf(model, numbers) {
    return edgesLabel(this.flow.data, numbers.map((number) => model.edges[number]), this.hasGradients, this.ruler);
  }
}

/** Whether a scene can be read as a whole, or has so little in it that more should be shown. @param {Scene} scene */
function isFitting({ model, fit }) {
  return fit >= LEAST_FIT || model.nodes.length < FEW_NODES;
}
