// What every canvas needs: the colours of the style, and a clear area of the right size.

const INKS = [
  ...["text", "dim", "line", "panel", "accent", "red", "module", "function", "aten", "python", "faint", "select"],
  ...["module", "function", "aten", "python", "red", "other"].flatMap((hue) => [`flame-${hue}`, `flame-${hue}-back`]),
];

/** The colours of the style, as a canvas needs them. @returns {Record<string, string>} */
function inks(names = INKS) {
  const probe = document.body.appendChild(make("span"));
  const found = Object.fromEntries(names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return found;
}

/** A canvas as large as its element, cleared. @param {HTMLCanvasElement} canvas @param {number} height */
function cleared(canvas, height) {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, width * ratio);
  canvas.height = Math.max(1, height * ratio);
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  return { pen, width };
}
