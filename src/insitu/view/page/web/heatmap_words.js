// What a picture of values says in words: the value of a cell, and what the picture does not show as it is.

const ALL_OF_A_ROW = 0.02; // how far the sum of a row of attention weights may be from 1

/** Which dimensions are rows and columns. @param {Picture} picture */
function dimensionsText({ isRow, shape }) {
  return isRow ? "" : `dim ${shape.length - 2} ↓  dim ${shape.length - 1} →  `;
}

/** The cell of another picture that has the same values, where the two are reduced differently. */
function sameCell(/** @type {Cell} */ cell, /** @type {Picture} */ from, /** @type {Picture} */ to) {
  if (from === to) return cell;
  return {
    plane: to.planeAt(from.indexOf(cell.plane)),
    row: Math.min(to.rows - 1, Math.floor((cell.row * from.blockRows) / to.blockRows)),
    column: Math.min(to.columns - 1, Math.floor((cell.column * from.blockColumns) / to.blockColumns)),
  };
}

/** The value of a cell. @param {Picture} picture @param {Float64Array} cells @param {Cell} cell */
function cellText(picture, cells, { plane, row, column }) {
  const at = (plane * picture.rows + row) * picture.columns + column;
  if (picture.pooling !== "range") return `${POOLED[picture.pooling]}= ${cellValueText(picture, cells[at])}`;
  return `from ${cellValueText(picture, cells[at])} to ${cellValueText(picture, cells[at + picture.columns])}`;
}

const POOLED = { value: "", farthest: "farthest from 0 ", mean: "mean ", range: "" };

/** @param {Picture} picture @param {number} value */
function cellValueText(picture, value) {
  if (picture.kind === "bool") return value ? "True" : "False";
  const isRounded = !picture.isExact && Number.isFinite(value);
  return isRounded ? `≈ ${digits(value, 3)}` : digits(value, 4, picture.isWhole);
}

/** What to say about a picture that does not show everything as it is. @param {Picture} picture @returns {string[]} */
function pictureNotes(picture) {
  const notes = [];
  if (picture.kind === "complex") notes.push("the sizes of complex numbers");
  const block = `${picture.blockRows} × ${picture.blockColumns} values`;
  if (picture.pooling === "farthest") notes.push(`each cell is the value farthest from 0 of ${block}, NaN if one is`);
  if (picture.pooling === "mean") notes.push(`each cell is the mean of ${block}`);
  if (picture.pooling === "range") notes.push(`each bar goes from the least to the largest of ${picture.blockColumns} values`);
  picture.leading.forEach((size, dimension) => {
    const whole = picture.shape[dimension];
    if (size < whole) notes.push(`only the first ${many(size)} of ${many(whole)} indices of dim ${dimension} are in this page`);
  });
  if (!picture.isExact) notes.push(ROUNDINGS[picture.form]);
  return notes;
}

const ROUNDINGS = {
  levels: "rounded to 253 levels from the least value to the largest",
  half: "rounded to about 3 digits",
  single: "rounded to 7 digits",
};

/** What the box says that shows all planes of a dimension. @param {Picture} picture @param {Float64Array} cells */
function tilesText(picture, cells) {
  const dimension = picture.leading.length - 1;
  const count = many(picture.leading[dimension]);
  return isAttention(picture, cells) ? `all ${count} heads (dim ${dimension})` : `all ${count} of dim ${dimension}`;
}

/** Whether planes look like attention weights: square, not negative, and each row of the first plane adds up to 1. */
function isAttention(/** @type {Picture} */ picture, /** @type {Float64Array} */ cells) {
  const isSquare = picture.shape.length === 4 && picture.rows === picture.columns && picture.pooling === "value";
  if (!isSquare || !(picture.ends[0] >= 0)) return false;
  for (let row = 0; row < picture.rows; row++) {
    const values = cells.subarray(row * picture.columns, (row + 1) * picture.columns);
    const sum = values.reduce((total, value) => total + value, 0);
    if (!(Math.abs(sum - 1) < ALL_OF_A_ROW)) return false;
  }
  return true;
}
