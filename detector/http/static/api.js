// Questions to the daemon, with the token if it wants one, and the live stream with its reconnections.
// The stream is read by fetch instead of EventSource, which cannot send a token.

const KEY = "detector-token";
const SILENCE_MS = 45000; // frames come every second, of very large networks every 20: longer is a dead line

const REPLACED_MS = 60000; // another reader took our place at the limit: pages must not take turns every second

export class Refused extends Error {}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

function headers() {
  const given = token.get();
  return given ? { Authorization: `Bearer ${given}` } : {};
}

async function good(response) {
  if (response.ok) return response;
  let said = response.statusText;
  try {
    said = (await response.json()).error ?? said;
  } catch {
    // not JSON: the status has to do
  }
  const error = response.status === 401 ? new Refused(said) : new Error(said || `status ${response.status}`);
  error.status = response.status;
  throw error;
}

export async function get(path) {
  return (await good(await fetch(path, { headers: headers(), cache: "no-store" }))).json();
}

// A file of the daemon, given to the browser to keep: a link could not send the token.
export async function download(path, name) {
  const content = await (await good(await fetch(path, { headers: headers(), cache: "no-store" }))).blob();
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export async function post(path, body) {
  const options = { method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await good(await fetch(path, options))).json();
}

export class Stream {
  // `heard(kind, data)` for every message; `changed(state, why)` with "up", "down", "replaced" or "refused".
  constructor(path, heard, changed) {
    Object.assign(this, { path, heard, changed, wait: 500, timer: null, abort: null, replaced: false });
    document.addEventListener("visibilitychange", () => document.hidden || this.timer === null || this.start());
    // A page that is left stays in the browser's cache for a while, and would keep one of its six connections to us.
    window.addEventListener("pagehide", () => this.abort?.abort());
    window.addEventListener("pageshow", (event) => event.persisted && this.start());
    window.addEventListener("online", () => this.timer === null || this.start());
  }

  start() {
    clearTimeout(this.timer);
    this.timer = null;
    this.abort?.abort();
    this.run(new AbortController());
  }

  async run(abort) {
    this.abort = abort;
    this.replaced = false;
    let why = "the connection ended";
    try {
      const response = await good(await fetch(this.path, { headers: headers(), signal: abort.signal, cache: "no-store" }));
      this.changed("up");
      this.wait = 500;
      await this.read(response.body.getReader(), abort);
    } catch (error) {
      if (error instanceof Refused) return this.changed("refused", error.message);
      why = error.message;
    }
    if (this.abort !== abort) return; // another run has taken over
    this.changed(this.replaced ? "replaced" : "down", why);
    // Not all pages at once after a restart: jitter.
    const wait = this.replaced ? REPLACED_MS : this.wait;
    this.timer = setTimeout(() => this.start(), wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, 15000);
  }

  async read(reader, abort) {
    const decoder = new TextDecoder();
    let text = "";
    let watch = setTimeout(() => abort.abort(), SILENCE_MS);
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(watch);
        watch = setTimeout(() => abort.abort(), SILENCE_MS);
        text += decoder.decode(value, { stream: true });
        for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) this.tell(text.slice(0, end));
      }
    } finally {
      clearTimeout(watch);
    }
  }

  tell(message) {
    let kind = "message", data = "";
    for (const line of message.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (kind === "replaced") this.replaced = true;
    if (data) this.heard(kind, JSON.parse(data));
  }
}
