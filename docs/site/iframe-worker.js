// The search of this site runs in a worker. A browser refuses workers to pages that were opened from disk, so that there
// the script of the worker runs in a hidden frame instead.

(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    /** @param {string | URL} url of the script to run */
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = String(url);
      this.isReady = new Promise((resolve) => script.addEventListener("load", resolve));
      inside.document.body.append(script);
    }

    /** Hand a message to the script. @param {unknown} data */
    async postMessage(data) {
      await this.isReady;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
