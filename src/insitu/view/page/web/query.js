// The query of the search: words and filters, all of which must hold.

/**
 * A word of a query. `filter` is null for a plain word, and for one that looks like a filter that does not exist.
 * @typedef {{text: string, filter: Filter|null, name: string, sign: string, value: string}} Term
 */

class Query {
  /** @param {Data} data @param {string} text */
  constructor(data, text) {
    this.data = data;
    this.text = text.trim();
    this.filters = [...FILTERS, ...statisticFilters(data)];
    this.terms = words(this.text).map((word) => parsedTerm(this.filters, word));
  }

  /** A test that holds for a row if all terms do; null if there is nothing to look for. @returns {RowTest|null} */
  test() {
    const tests = this.terms.filter(isComplete).map((term) => termTest(this.data, term));
    if (!tests.length) return null;
    return (row) => tests.every((test) => test(row));
  }

  /** What is wrong with the query if it finds nothing: a filter that does not exist. */
  get doubt() {
    const unknown = this.terms.find((term) => term.sign && !term.filter);
    if (!unknown) return "";
    const written = `${unknown.name}${unknown.sign}`;
    return `"${written}" is not a filter: did you mean ${nearestFilter(this.filters, unknown)}?`;
  }
}

/** Words between blanks; quotes keep blanks together. @param {string} text @returns {string[]} */
const words = (text) => text.match(/[^\s"]*"[^"]*"?|\S+/g) ?? [];

/** @param {Filter[]} filters @param {string} word @returns {Term} */
function parsedTerm(filters, word) {
  const text = word.replaceAll('"', "");
  const plain = { text, filter: null, name: "", sign: "", value: "" };
  if (word.startsWith('"')) return plain;
  const [, name, sign, value] = /^([a-z]+)(:|<=|>=|<|>)(.*)$/i.exec(text) ?? [];
  if (!name) return plain;
  const found = filters.find((one) => one.name === name.toLowerCase() && one.compares === (sign !== ":"));
  return { text, filter: found ?? null, name, sign, value };
}

/** Whether a term can be looked for: `max>` still lacks its number. @param {Term} term */
const isComplete = ({ filter: found, value }) => !found?.compares || value !== "";

/** @param {Data} data @param {Term} term @returns {RowTest} */
function termTest(data, { filter: found, text, value, sign }) {
  return found ? found.test(data, value, sign) : wordTest(data, text);
}

/** The filter with the most similar name, as it is written. @param {Filter[]} filters @param {Term} term */
function nearestFilter(filters, { name, sign }) {
  const isComparison = sign !== ":";
  const distance = (/** @type {Filter} */ one) =>
    editDistance(name.toLowerCase(), one.name) + (one.compares === isComparison ? 0 : 0.5);
  return filters.reduce((best, one) => (distance(one) < distance(best) ? one : best)).form;
}

/** How many characters must be added, removed or replaced. @param {string} a @param {string} b */
function editDistance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1] + Number(a[i - 1] !== b[j - 1]);
      next.push(Math.min(replaced, row[j] + 1, next[j - 1] + 1));
    }
    row = next;
  }
  return row[b.length];
}
