// SPDX-License-Identifier: Apache-2.0
// Search without a server: browsers start no worker from file://, so the theme's search runs in a hidden frame instead. The theme
// recognizes that by the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((loaded) => frame.addEventListener("load", loaded, { once: true })).then(() => {
        const inside = frame.contentWindow;
        const script = (src) => new Promise((done, failed) => {
          const s = inside.document.createElement("script");
          s.src = new URL(src, document.baseURI);
          s.onload = done;
          s.onerror = failed;
          inside.document.body.appendChild(s);
        });
        inside.importScripts = (...urls) => urls.reduce((before, u) => before.then(() => script(u)), Promise.resolve());
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        return script(url).then(() => inside);
      });
      document.body.appendChild(frame);
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
