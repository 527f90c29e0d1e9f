// What the pointer does on a canvas: clicks, drags, and a tooltip that follows it.

const CLICK_SLOP = 4; // pixels that a click may move

/**
 * Tell clicks from drags.
 * @param {HTMLElement} element
 * @param {{onClick: (x: number, y: number) => void, onDrag: (x: number, y: number) => void,
 *   onPress?: (event: PointerEvent) => void}} actions `onDrag` gets the pixels since it was called last
 */
function listenToDrag(element, { onClick, onDrag, onPress }) {
  let isDown = false;
  let isDrag = false;
  let last = { x: 0, y: 0 };
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    isDown = true;
    isDrag = false;
    last = { x: event.clientX, y: event.clientY };
    element.setPointerCapture(event.pointerId);
    onPress?.(event);
  });
  element.addEventListener("pointermove", (event) => {
    if (!isDown) return;
    const [x, y] = [event.clientX - last.x, event.clientY - last.y];
    isDrag ||= Math.hypot(x, y) > CLICK_SLOP;
    if (!isDrag) return;
    last = { x: event.clientX, y: event.clientY };
    onDrag(x, y);
  });
  element.addEventListener("pointerup", (event) => {
    if (isDown && !isDrag) onClick(event.offsetX, event.offsetY);
    isDown = false;
  });
  element.addEventListener("pointercancel", () => {
    isDown = false;
  });
}

/** Show a tooltip beside the pointer, inside the window. @param {PointerEvent} event @param {string[]} lines */
function showTip(event, lines) {
  const tip = at("tip");
  tip.replaceChildren(...lines.map((line, place) => make("p", place ? "dim" : "", line)));
  tip.hidden = false;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  const below = event.clientY + 16;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 8))}px`;
  tip.style.top = `${below + height > innerHeight ? event.clientY - height - 10 : below}px`;
}

function hideTip() {
  at("tip").hidden = true;
}
