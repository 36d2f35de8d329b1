/* Pages opened from a disk may not start workers, so the search runs in a hidden frame there. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = (this.inside = frame.contentWindow)
      const load = (source) =>
        new Promise((done) => {
          const script = inside.document.createElement("script")
          Object.assign(script, { src: source, onload: done })
          inside.document.body.append(script)
        })
      // What a worker has and a frame has not, or has with another meaning.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...sources) => sources.reduce((one, next) => one.then(() => load(next)), Promise.resolve())
      this.ready = load(String(url))
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
