// The graph of modules, beside the tree.

class Graph {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    document.body.classList.add("no-graph");
  }
}
