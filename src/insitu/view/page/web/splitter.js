// The bars between the panes, which the pointer or the arrow keys move.

const STEP_BY_KEY = 24; // pixels

/**
 * @typedef {{id: string, name: string, isVertical: boolean, least: number, most: () => number, size: () => number}} Split
 * `name` is the custom property of #main that holds the size, in pixels; `size` is the present one
 */

/** @param {App} app */
function listenToSplitters(app) {
  const main = at("main");
  /** @type {Split[]} */
  const splits = [
    {
      id: "side-splitter",
      name: "--side",
      isVertical: true,
      least: 260,
      most: () => main.clientWidth - 320,
      size: () => at("details").clientWidth,
    },
    {
      id: "graph-splitter",
      name: "--graph",
      isVertical: false,
      least: 90,
      most: () => main.clientHeight - 200,
      size: () => at(app.pairs ? "grid" : "graph").clientHeight,
    },
  ];
  for (const split of splits) listenToSplitter(app, split);
}

/** @param {App} app @param {Split} split */
function listenToSplitter(app, split) {
  const bar = at(split.id);
  const size = remembered(split.name);
  if (size) resize(split, Number(size));
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  bar.addEventListener("pointermove", (event) => {
    if (bar.hasPointerCapture(event.pointerId)) resize(split, pointedSize(split, event));
  });
  bar.addEventListener("pointerup", () => app.grid.paint());
  bar.addEventListener("keydown", (event) => {
    const by = sizeChange(split, event.key);
    if (by === 0) return;
    resize(split, split.size() + by);
    event.preventDefault();
  });
}

/** The size that the pointer asks for. @param {Split} split @param {PointerEvent} event */
function pointedSize(split, event) {
  const box = at("main").getBoundingClientRect();
  return split.isVertical ? box.right - event.clientX : event.clientY - box.top;
}

/** How a key changes the size. @param {Split} split @param {string} key */
function sizeChange(split, key) {
  const [larger, smaller] = split.isVertical ? ["ArrowLeft", "ArrowRight"] : ["ArrowDown", "ArrowUp"];
  if (key === larger) return STEP_BY_KEY;
  return key === smaller ? -STEP_BY_KEY : 0;
}

/** @param {Split} split @param {number} size */
function resize(split, size) {
  const pixels = Math.round(Math.max(split.least, Math.min(size, split.most())));
  at("main").style.setProperty(split.name, `${pixels}px`);
  at(split.id).setAttribute("aria-valuenow", String(pixels));
  remember(split.name, String(pixels));
}
