// Which variables are shown, and in which groups.

/**
 * @typedef {{name: string, variables: SeriesVariable[]}} SeriesGroup
 */

/** How variables can be grouped: the name of the group that a variable is in. */
const GROUPINGS = {
  module: { label: "by module", nameOf: (/** @type {SeriesVariable} */ variable) => modulePrefix(variable.path) },
  part: { label: "by part", nameOf: (/** @type {SeriesVariable} */ variable) => withoutNumbers(variable.path) },
  role: { label: "by kind", nameOf: (/** @type {SeriesVariable} */ variable) => ROLE_NAMES[variable.role] ?? variable.role },
  none: { label: "none", nameOf: () => "" },
};

const ROLE_NAMES = { gradient: "gradients", parameter: "parameters", output: "outputs", variable: "variables" };

/** The layer that a path is in: up to its first number, else its first part; none for a name alone. @param {string} path */
function modulePrefix(path) {
  const parts = path.split(".");
  if (parts.length === 1) return "";
  const place = parts.findIndex((part) => /^\d+$/.test(part));
  return parts.slice(0, Math.max(place, 0) + 1).join(".");
}

/** A path with a star for each number: the same for the same part of each layer. @param {string} path */
function withoutNumbers(path) {
  return path.split(".").map((part) => (/^\d+$/.test(part) ? "*" : part)).join(".");
}

/** Variables in groups, both in their order; texts come after numbers. @param {SeriesVariable[]} variables @param {string} grouping */
function groupsOf(variables, grouping) {
  const { nameOf } = GROUPINGS[grouping];
  /** @type {Map<string, SeriesGroup>} */
  const found = new Map();
  for (const variable of variables) {
    const name = nameOf(variable);
    if (!found.has(name)) found.set(name, { name, variables: [] });
    found.get(name)?.variables.push(variable);
  }
  for (const group of found.values()) group.variables.sort((one, other) => Number(one.isText) - Number(other.isText));
  return [...found.values()];
}

/** The variables that a query asks for: each of its words must hold. @param {SeriesVariable[]} variables @param {string} query */
function matchingVariables(variables, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return variables.filter((variable) => words.every((word) => isNamedBy(variable, word)));
}

/** Whether a word of a query names a variable: a path pattern, a part of the path, or `nan:`. */
function isNamedBy(/** @type {SeriesVariable} */ variable, /** @type {string} */ word) {
  if (word === "nan:") return variable.oddSteps > 0;
  return fitsPath(word, variable.path.toLowerCase());
}
