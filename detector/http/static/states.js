// How the detector itself is, in one line that cannot be mistaken: quiet is said only when changes would be seen.

import { byId, clock, duration, plural } from "./words.js";

const STILL_MS = 30000; // without a new sample: nothing is being watched
const FULL = 0.8; // of the queue: alarms come late

export class StateLine {
  constructor() {
    Object.assign(this, { frame: null, connection: "connecting", since: null, accepted: null, moved: 0, sources: null });
    setInterval(() => this.show(), 1000);
    this.show();
  }

  connected(state) {
    if (this.connection === "up" && state !== "up") this.since = Date.now() / 1000;
    this.connection = state;
    this.show();
  }

  take(frame) {
    if (frame.accepted !== this.accepted) this.moved = Date.now();
    this.accepted = frame.accepted;
    this.frame = frame;
    this.show();
  }

  takeStatus(status) {
    this.sources = status.sources;
  }

  show() {
    const [kind, words, more] = this.said();
    const line = byId("phase");
    if (line.dataset.kind !== kind) line.className = `phase is-${kind}`;
    line.dataset.kind = kind;
    if (line.textContent !== words) line.textContent = words;
    const small = byId("phase-more");
    if (small.textContent !== more) small.textContent = more;
    // What is shown below belongs to the past: it is dimmed, and says so.
    document.body.classList.toggle("stale", kind === "disconnected");
    const open = this.frame?.incidents;
    const mark = { disconnected: "(not connected) ", learning: "(learning) ", empty: "(no data) ", still: "(no data) ", overloaded: "(overloaded) " }[kind];
    if (byId("overview").hidden) return;
    document.title = `${open && kind !== "disconnected" ? `(${open}) ` : (mark ?? "")}detector`;
  }

  said() {
    const { frame } = this;
    if (this.connection === "refused") return ["disconnected", "not connected: a token is needed", ""];
    if (this.connection !== "up") {
      if (!frame) return [this.connection === "connecting" ? "connecting" : "disconnected", this.connection === "connecting" ? "connecting …" : "not connected", ""];
      return ["disconnected", "connection lost: the state of the network is not known", `What is shown is from ${clock(this.since, true)} and may be wrong by now.`];
    }
    if (!frame) return ["connecting", "connecting …", ""];
    if (frame.stage) return ["learning", "calibrating", `${frame.stage.name}: ${percent(frame.stage.share)}. No alarms until then.`];
    if (frame.watermark === null) return ["empty", "no data yet", "No sample has arrived, so nothing is watched. Sources are under Health."];
    const ended = this.sources && Object.values(this.sources).length > 0 && Object.values(this.sources).every((source) => source.status === "ended");
    const still = Date.now() - this.moved > STILL_MS;
    const late = `latest data ${clock(frame.watermark, true)}`;
    if (frame.phase === "learning") return ["learning", "learning", still ? `No samples arrive; ${late}. No alarms until it has learnt.` : `Learning what is normal: ${percent(frame.progress)}. No alarms until then.`];
    const open = `${plural(frame.incidents, "incident")} open`;
    if (ended) return ["still", "input ended", `${late}; ${open} at the end.`];
    if (still) return ["still", "no data arrive: changes are not seen", `${late}; ${open} then.`];
    if ((frame.queue ?? 0) >= FULL) return ["overloaded", `overloaded, ${open}`, `The queue is ${percent(frame.queue)} full: incidents are seen late; ${late}.`];
    const blind = [...frame.states].filter((letter) => "lxko".includes(letter)).length;
    const unseen = blind ? `${plural(blind, "sensor")} of ${frame.states.length} silent, stuck, out of range or learning: changes there are hardly seen.` : "";
    if (blind === frame.states.length) return ["still", "no sensor is watched", unseen];
    return [frame.incidents ? "incidents" : "quiet", `watching, ${open}`, unseen];
  }
}

const percent = (share) => `${Math.round(100 * (share ?? 0))} %`;

// How far behind the clock the stream is, if it is the clock's time at all.
export const behind = (frame) => (frame.watermark > 1e8 && frame.time - frame.watermark < 366 * 86400 && frame.time >= frame.watermark ? duration(frame.time - frame.watermark) : null);
