// Where NaN and Inf are in the rows of a run.

class NonFiniteRows {
  /** @param {Calls} calls */
  constructor(calls) {
    this.calls = calls;
    this.origins = this.find((kind) => kind === "begins");
    this.entries = this.find((kind) => kind !== "begins");
  }

  /** The rows with NaN, and those with Inf, that are the first to have it, in a certain way. */
  find(/** @type {(kind: string) => boolean} */ isWanted) {
    const { odd } = this.calls.row;
    return [HAS_NAN, HAS_INF].map((flag) => {
      const flags = IS_ORIGIN | flag;
      const holds = (/** @type {number} */ row) => (odd[row] & flags) === flags && isWanted(this.calls.origin(row));
      return Hits.of(this.calls.size, holds);
    });
  }

  /** Flags for what begins, or enters, in a range of rows: NaN, Inf, or both. @param {Hits[]} places */
  within(places, /** @type {number} */ start, /** @type {number} */ end) {
    const [nan, inf] = places.map((hits) => hits.count(start, end));
    return (nan ? HAS_NAN : 0) | (inf ? HAS_INF : 0);
  }

  /** The rows where NaN begins, else those where Inf begins; where that is not known, the first that has any. */
  stops() {
    const { odd } = this.calls.row;
    const rows = Hits.of(this.calls.size, (row) => odd[row] > 0).found;
    const origins = rows.filter((row) => odd[row] & IS_ORIGIN);
    const withNan = origins.filter((row) => odd[row] & HAS_NAN);
    if (withNan.length) return withNan;
    return origins.length ? origins : rows.filter((row) => odd[row] & IS_WRONG).slice(0, 1);
  }
}
