// Numbers as text, exactly as view/number.py writes them: tests/browser/test_formats.py compares both on the same cases.

/**
 * A number in about three digits, as in the terminal: none before the point is lost up to 100,000, integers are exact.
 * @param {number} value @param {number} [most] digits @param {boolean} [isWhole] whether its type is one of integers
 */
function digits(value, most = 3, isWhole = false) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "Inf" : "-Inf";
  const size = Math.abs(value);
  if (isWhole && size <= 2 ** 53) return String(value);
  const isWritten = size >= 10 ** (most - 1) && size < 1e5;
  const text = rounded(value, isWritten ? String(Math.trunc(size)).length : most);
  const isShort = !size || (size < 1e5 && size >= 1e-4);
  if (isShort) return String(Number(text));
  return (isWhole ? "≈ " : "") + text.replace(/\.?0+e/, "e").replace(/e([+-])(\d)$/, "e$10$2");
}

/** A range, with as many digits as tell its ends apart; one number where they are equal. */
function limits(/** @type {number} */ low, /** @type {number} */ high, isWhole = false) {
  const end = (most) => [digits(low, most, isWhole), digits(high, most, isWhole)];
  if (low === high) return end(3)[0];
  const [from, to] = end(3);
  return (from === to ? end(5) : [from, to]).join(" … ");
}

/** A number with so many digits; what lies in the middle goes to the even one, as in Python. @param {number} value */
function rounded(value, most) {
  const [whole, power] = value.toExponential(60).split("e"), end = most + 1 + Number(value < 0);
  const isEven = /[02468]$/.test(whole.slice(0, end)) && /^50*$/.test(whole.slice(end));
  return isEven ? `${whole.slice(0, end)}e${power}` : value.toExponential(most - 1);
}

/** @param {number} units of 100 ns */
function time(units) {
  const micro = units / 10;
  if (micro < 99.95) return `${micro.toFixed(1)}µs`;
  if (micro < 999.5) return `${micro.toFixed(0)}µs`;
  if (micro < 99950) return `${(micro / 1e3).toFixed(1)}ms`;
  return micro < 999500 ? `${(micro / 1e3).toFixed(0)}ms` : `${(micro / 1e6).toFixed(2)}s`;
}

/** @param {number} bytes */
function bytesText(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = bytes / 1024, unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value.toFixed(1)} ${units[unit]}`;
}

/** @param {number} flops */
function countText(flops) {
  const units = ["", " k", " M", " G", " T", " P", " E"];
  let value = flops, unit = 0;
  while (value >= 999.5 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${Number(value.toPrecision(3))}${units[unit]}`;
}

const many = (n) => n.toLocaleString("en");
/** @param {number} n @param {string} what */
const counted = (n, what) => `${many(n)} ${what}${n === 1 ? "" : "s"}`;
