// The search of mkdocs-material, for pages that come from disk: there a browser neither fetches an index nor starts a
// worker. So the index is a script, and the worker's script runs in a frame of this page.
// The search's language has a meaning for ":" and quotes; readers look for muster::Estimator.
var __search = { transform: (query) => query.replace(/[:"()]+/g, " ").trim() };
__search.index = new Promise((done) => { __search.found = done; });
addEventListener("DOMContentLoaded", () => {
  const script = document.createElement("script");
  script.src = __search_base + "/search/search_index.js";
  document.head.append(script);
});

if (location.protocol === "file:") {
  // A Worker, as far as the search uses one: messages there and back.
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((done) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.src = new URL(url, location.href);
          script.onload = () => done(inside);
          inside.document.body.append(script);
        };
      });
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
