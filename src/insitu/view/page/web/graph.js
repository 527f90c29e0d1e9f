// The graph of modules, beside the tree: what is open there is open here, folded until it fits.

const LEAST_WHOLE = 0.58; // the zoom from which on a graph is shown as a whole, even if not all of it is easy to read
const LEAST_VIEW = 0.75; // the zoom at which a part of a larger graph is shown
const MOST_NODES = 240;
const ZOOM_STEP = 1.3;
const REST = 150; // milliseconds after which a size is the last one

class Graph {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.pane = at("graph");
    this.hasContent = !app.pairs && hasGraph(app);
    if (!this.hasContent) {
      document.body.classList.add("no-graph");
      return;
    }
    this.hasGradients = false;
    this.isWaiting = false;
    this.isFresh = true; // the scene is to be made anew, and to fit the pane
    /** @type {Set<number>} the rows that the user opened, the last one at the end */
    this.wanted = new Set();
    this.build();
  }

  /** Make the elements that stay. */
  build() {
    const root = draw("g", {});
    this.root = root;
    this.canvas = draw("svg", { class: "canvas", role: "tree", tabindex: 0, "aria-label": "Graph of modules" }, root);
    this.title = make("span", "graph-title");
    this.note = make("span", "graph-note");
    const bar = make("div", "graph-bar", this.title, this.note, ...this.buttons());
    this.pane.append(bar, /** @type {any} */ (this.canvas));
    this.camera = new Camera(/** @type {any} */ (this.canvas), root);
    this.ruler = new Ruler();
    this.canvas.addEventListener("click", (event) => this.onClick(event));
    this.canvas.addEventListener("dblclick", (event) => this.onDoubleClick(event));
    this.canvas.addEventListener("pointerover", (event) => this.sketch?.light("lit", nodeUnder(event)));
    this.canvas.addEventListener("pointerleave", () => this.sketch?.light("lit", -1));
    this.canvas.addEventListener("keydown", (event) => onGraphKey(this, /** @type {KeyboardEvent} */ (event)));
    new ResizeObserver(() => this.onResize()).observe(this.pane);
  }

  buttons() {
    const tools = [
      toolButton("−", "Zoom out", () => this.zoom(false)),
      toolButton("+", "Zoom in", () => this.zoom(true)),
      toolButton("fit", "Show the whole graph", () => this.showWhole()),
    ];
    if (!hasGradients(this.app)) return tools;
    const gradients = toolButton("gradients", "Show gradients along the edges", () => this.toggleGradients(gradients));
    gradients.setAttribute("aria-pressed", "false");
    return [gradients, ...tools];
  }

  onSelect() {
    this.soon();
  }

  onRows() {
    this.soon();
  }

  /** @param {string} [view] */
  onView(view) {
    if (!this.hasContent) return;
    this.isFresh = true; // the pane has another size
    this.soon();
    if (view === "graph") this.canvas.focus({ preventScroll: true }); // the arrow keys follow the edges
    else this.canvas.blur(); // the keys belong to the other view now
  }

  /** @param {boolean} isCloser */
  zoom(isCloser) {
    this.camera.zoomBy(isCloser ? ZOOM_STEP : 1 / ZOOM_STEP);
  }

  /** The pane may have another size: fit at once, and fold anew when it rests. */
  onResize() {
    const isSame = this.size === this.camera.size;
    if (!this.camera.width || isSame) return;
    if (!this.scene) this.soon();
    if (!this.scene || this.camera.isTouched) return;
    this.fit();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.onRest(), REST);
  }

  onRest() {
    const isSame = this.size === this.camera.size;
    if (!isSame && !this.camera.isTouched) this.onView();
  }

  /** Look at the state in the next frame: several things may change in this one. */
  soon() {
    if (this.isWaiting || !this.hasContent) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      const isSeen = this.pane.clientWidth > 0 && this.pane.clientHeight > 0;
      if (isSeen) this.update();
    });
  }

  /** Show what the tree shows. */
  update() {
    const row = Math.max(0, this.app.selectedRow);
    const scope = scopeOf(this.app, row);
    const isOther = scope !== this.flow?.scope;
    if (isOther) this.flow = new ScopeFlow(this.app, scope);
    if (isOther) this.wanted.clear();
    if (isOther || this.isFresh) this.begin(row);
    else if (this.isStale(row)) this.rebuild(row);
    this.select(row);
  }

  get stage() {
    return new Stage(this.flow, this.camera, this.ruler, this.hasGradients);
  }

  /** Make the scene anew, and let it fit the pane. @param {number} row that is selected */
  begin(row) {
    this.isFresh = false;
    this.size = this.camera.size;
    this.show(this.stage.bestScene(row, this.neededRows(row, [])));
    this.fit();
  }

  /** The rows that must be boxes: around the selected row, that row, what the user opened and, if few, others. */
  neededRows(/** @type {number} */ row, /** @type {Iterable<number>} */ others) {
    const { app, flow } = this;
    const isOpen = (/** @type {number} */ known) => known > flow.scope && app.callTree.isOpen[known] > 0;
    const certain = [...rowsAround(app, flow.scope, row), ...[row].filter(isOpen)];
    const wanted = [...this.wanted].reverse().filter(isOpen);
    const asked = limitedRows(app, flow.scope, certain, wanted, MOST_NODES);
    return limitedRows(app, flow.scope, asked, [...others].filter(isOpen), MOST_AUTOMATIC);
  }

  /** Whether the tree shows other rows than the graph. @param {number} row that is selected */
  isStale(row) {
    const { callTree } = this.app;
    const node = this.scene.model.nodes[this.scene.model.nodeAt(row)];
    const isClosed = node !== undefined && !node.isOpen;
    const isHidden = isClosed && row > node.row && row < callTree.end[node.row];
    const isToOpen = isClosed && row === node.row && callTree.isOpen[row] > 0 && childRows(this.app, row).length > 0;
    if (isHidden || isToOpen || node?.kind === "rest") return true;
    return this.states.some((state) => {
      const isOpenNow = callTree.isOpen[state.row];
      return state.isOpen !== isOpenNow || state.isFolded !== callTree.isFolded(state.row);
    });
  }

  /** Show what is open or closed now; what the user looks at stays where it is. @param {number} row that is selected */
  rebuild(row) {
    const { callTree } = this.app;
    const opened = this.states.filter((state) => callTree.isOpen[state.row] && !state.isOpen).map((state) => state.row);
    if (opened.length === 1) this.want(opened[0]);
    const isInside = (/** @type {number} */ row) => opened.some((outer) => row > outer && row < callTree.end[outer]);
    const needed = this.neededRows(row, this.scene.boxes);
    this.showInPlace(row, this.stage.foldedScene(row, needed, this.scene.direction, isInside));
  }

  /** The user opened a row. @param {number} row */
  want(row) {
    this.wanted.delete(row);
    this.wanted.add(row);
  }

  /** Show another scene, with the node of a row where it was on the screen. @param {number} row @param {Scene} scene */
  showInPlace(row, scene) {
    const before = this.boxOf(row);
    this.show(scene);
    const now = this.boxOf(row);
    if (before && now) this.camera.pan((before.x - now.x) * this.camera.zoom, (before.y - now.y) * this.camera.zoom);
  }

  /** @param {number} row @returns {Box|undefined} */
  boxOf(row) {
    return this.scene.picture.boxes[this.scene.model.nodeShowing(row)];
  }

  /** @param {Scene} scene */
  show(scene) {
    const { callTree, data, calls } = this.app;
    this.scene = scene;
    this.sketch = new Sketch(scene, this.hasGradients);
    this.root.replaceChildren(...this.sketch.drawn.all);
    const shown = scene.model.nodes.filter((node) => node.kind === "call");
    /** What the tree said of each row of the scene. */
    this.states = shown.map(({ row }) => ({ row, isOpen: callTree.isOpen[row], isFolded: callTree.isFolded(row) }));
    this.title.textContent = this.flow.scope < 0 ? data.title : calls.label(this.flow.scope);
    this.note.textContent = noteText(scene.model, this.hasGradients);
    this.note.title = this.note.textContent;
    performance.mark("graph");
  }

  /** Show the scene as a whole or, where that is too small to read, the part around the selected node. */
  fit() {
    const { picture, fit } = this.scene;
    const least = fit >= LEAST_WHOLE ? 0 : LEAST_VIEW;
    this.camera.fit(picture, least, this.boxOf(Math.max(0, this.app.selectedRow)));
  }

  showWhole() {
    this.camera.fit(this.scene.picture);
    this.camera.isTouched = true;
  }

  /** Mark the node of a row, and move it into sight. @param {number} row */
  select(row) {
    const node = this.scene.model.nodeShowing(row);
    if (node === this.sketch.chosen) return;
    this.sketch.choose(node);
    if (node < 0) this.canvas.removeAttribute("aria-activedescendant");
    else this.canvas.setAttribute("aria-activedescendant", `graph-node-${node}`);
    if (node >= 0) this.camera.reveal(this.scene.picture.boxes[node]);
  }

  /** @param {Event} event */
  onClick(event) {
    const node = nodeUnder(event);
    if (node < 0 || this.camera.isDragging) return;
    this.canvas.focus({ preventScroll: true });
    if (isOnSign(event)) this.toggle(node);
    else this.choose(node);
  }

  /** @param {Event} event */
  onDoubleClick(event) {
    const node = nodeUnder(event);
    if (node >= 0 && !isOnSign(event)) this.toggle(node);
  }

  /** Select a node, in the tree too. @param {number} id */
  choose(id) {
    const { row } = this.scene.model.nodes[id];
    this.app.go(row, "moved");
    this.select(row);
  }

  /** Open a node, or close it: in the tree too. @param {number} id */
  toggle(id) {
    const { app } = this;
    const { kind, row, isOpen } = this.scene.model.nodes[id];
    app.go(row, "moved");
    const canOpen = kind === "call" && app.callTree.hasChildren(row);
    if (!canOpen) return;
    const isFoldedHere = !isOpen && app.callTree.isOpen[row]; // it is open in the tree, and did not fit here
    if (!isFoldedHere) {
      app.grid.toggle(row);
      return;
    }
    this.want(row);
    this.rebuild(row);
    this.select(row);
  }

  /** @param {HTMLElement} button */
  toggleGradients(button) {
    this.hasGradients = !this.hasGradients;
    button.setAttribute("aria-pressed", String(this.hasGradients));
    if (!this.scene) return;
    const row = Math.max(0, this.app.selectedRow);
    this.showInPlace(row, this.stage.again(this.scene, this.scene.direction));
    this.select(row);
  }
}

/** @param {string} text @param {string} label @param {() => void} action */
function toolButton(text, label, action) {
  const button = make("button", "", text);
  button.setAttribute("type", "button");
  button.setAttribute("aria-label", label);
  button.title = label;
  button.onclick = action;
  return button;
}

/** The node at the place of an event, or -1. @param {Event} event */
function nodeUnder(event) {
  const element = /** @type {Element} */ (event.target).closest("[data-node]");
  return element ? Number(element.getAttribute("data-node")) : -1;
}

/** Whether an event is on the sign that opens a node. @param {Event} event */
const isOnSign = (event) => /** @type {Element} */ (event.target).closest(".sign") !== null;

/** Whether there is anything to draw: a call with a tensor. @param {App} app */
function hasGraph({ calls, data }) {
  const hasTensors = data.given.length + data.made.length > 0;
  if (!hasTensors) return false;
  for (let row = 0; row < calls.size; row++) if (calls.row.kind[row] <= PYTHON) return true;
  return false;
}

/** Whether the trace has the gradient of any tensor. @param {App} app */
function hasGradients({ data }) {
  const { grad } = data.tensor;
  for (let tensor = 0; tensor < grad.length; tensor++) if (grad[tensor]) return true;
  return false;
}

/** What is to be said about a graph as a whole. @param {GraphModel} model @param {boolean} hasGradientLabels */
function noteText({ edges, nodes, flow, lonely }, hasGradientLabels) {
  const hasOrder = edges.some((edge) => edge.isOrder);
  const hasBackward = nodes.some((node) => node.kind === "call" && flow.calls.row.is_backward[node.row]);
  const notes = [
    hasOrder ? "dashed: the order of calls; functions were not recorded" : "",
    hasGradientLabels ? "∇: the gradient of a tensor, from its consumers back to its producer" : "",
    lonely ? `not drawn: ${counted(lonely, "call")} without edges` : "",
    hasBackward ? "not drawn: what the forward pass saved for the backward pass" : "",
  ];
  return notes.filter(Boolean).join(" · ");
}
