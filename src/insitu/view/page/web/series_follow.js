// A run that is being recorded: ask the server of this page for new steps, and say how the run is.

const FOLLOW_PAUSE = 1000; // milliseconds between two questions
const HIDDEN_PAUSE = 5000; // while nobody looks at the page
const SILENCE = 30; // seconds without a step after which the page says so

const STATE_TEXTS = {
  running: "● running",
  ended: "■ ended",
  killed: "✗ the process was killed, or lost",
  unknown: "? runs on another machine, or was killed there",
};

class SeriesFollower {
  /** @param {SeriesPane} pane @param {number} revision */
  constructor(pane, revision) {
    this.pane = pane;
    this.revision = revision;
    this.state = pane.series.state;
    this.isConnected = true;
    this.news = Date.now();
    this.isBusy = false;
  }

  start() {
    this.show();
    this.wait();
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.ask();
    });
  }

  wait() {
    setTimeout(() => this.ask().then(() => this.wait()), document.hidden ? HIDDEN_PAUSE : FOLLOW_PAUSE);
  }

  /** Ask for what is new, and show it. */
  async ask() {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      const response = await fetch(`points?after=${this.revision}`);
      if (!response.ok) throw new Error(String(response.status));
      this.take(await unpacked(await response.text()));
      this.isConnected = true;
    } catch {
      this.isConnected = false;
    }
    this.isBusy = false;
    this.show();
  }

  /** @param {Data} data */
  take({ series, points }) {
    if (series.isOther) location.reload();
    this.revision = series.revision;
    this.state = series.state;
    if (series.variables.length) this.news = Date.now();
    this.pane.update(series, points);
  }

  show() {
    const { state } = this.pane.tools;
    state.hidden = false;
    state.textContent = this.text();
    state.className = `series-state ${this.isConnected ? this.state : "lost"}`;
  }

  text() {
    if (!this.isConnected) return "✗ not connected: insitu open has ended; the page stays as it is";
    const [, last] = this.pane.view.extent;
    const text = `${STATE_TEXTS[this.state] ?? this.state} · ${this.pane.series.unit} ${many(last)}`;
    const silence = Math.round((Date.now() - this.news) / 1000);
    const isSilent = this.state === "running" && silence >= SILENCE;
    return isSilent ? `${text} · no news for ${silence} s` : text;
  }
}
