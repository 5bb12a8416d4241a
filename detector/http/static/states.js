// The state of the detector in one line that cannot be mistaken: quiet is shown only when changes would be detected.

import { byId, clock, duration, plural } from "./words.js";

const STILL_S = 30; // without a new sample: nothing is being watched
const STILL_STEPS = 3; // or so many steps, where samples are further apart
const FULL = 0.8; // of the queue: alarms come late
const BLIND = "lxko"; // states of sensors in which changes are hardly seen
const MOSTLY = 0.5; // of the sensors must be watched, or the network is not

export class StateLine {
  constructor() {
    Object.assign(this, { frame: null, connection: "connecting", since: null, sources: null });
    setInterval(() => this.show(), 1000);
    this.show();
  }

  connected(state) {
    if (this.connection === "up" && state !== "up") this.since = Date.now() / 1000;
    this.connection = state;
    this.show();
  }

  take(frame) {
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
    const mark = { disconnected: "(not connected) ", learning: "(learning) ", empty: "(no data) ", still: "(no data) ", overloaded: "(overloaded) ", blind: "(hardly watching) " }[kind];
    if (byId("overview").hidden) return;
    document.title = `${open && kind !== "disconnected" ? `(${open}) ` : (mark ?? "")}detector`;
  }

  said() {
    const { frame } = this;
    if (this.connection === "refused") return ["disconnected", "not connected: token required", ""];
    if (this.connection !== "up") {
      if (!frame) return [this.connection === "connecting" ? "connecting" : "disconnected", this.connection === "connecting" ? "connecting …" : "not connected", ""];
      return ["disconnected", "connection lost: the state of the network is unknown", `The data below date from ${clock(this.since, true)} and may be out of date.`];
    }
    if (!frame) return ["connecting", "connecting …", ""];
    if (frame.stage) return ["learning", "calibrating", `${frame.stage.name}: ${percent(frame.stage.share)}. No alarms until then.`];
    if (frame.watermark === null) return ["empty", "no data yet", "No sample has arrived, so nothing is being watched. The sources are listed under Health."];
    const ended = this.sources && Object.values(this.sources).length > 0 && Object.values(this.sources).every((source) => source.status === "ended");
    const still = frame.idle > Math.max(STILL_S, STILL_STEPS * frame.step);
    const late = `latest data ${clock(frame.watermark, true)}`;
    if (frame.phase === "learning") return ["learning", "learning", still ? `No samples are arriving; ${late}. No alarms until the baseline is learnt.` : `Learning the baseline: ${percent(frame.progress)}. No alarms until then.`];
    const open = `${plural(frame.incidents, "incident")} open`;
    if (ended) return ["still", "input ended", `${late}; ${open} at the end.`];
    if (still) return ["still", "no data arriving: changes cannot be detected", `${late}; ${open} at that time.`];
    if ((frame.queue ?? 0) >= FULL) return ["overloaded", `overloaded, ${open}`, `The queue is ${percent(frame.queue)} full, so incidents are detected late; ${late}.`];
    const all = frame.states.length;
    const watched = all - [...frame.states].filter((letter) => BLIND.includes(letter)).length;
    const unseen = watched < all ? `${plural(all - watched, "sensor")} of ${all} silent, stuck, out of range or learning: changes there are hardly detectable.` : "";
    if (watched === 0) return ["still", "no sensor is watched", unseen];
    if (watched < MOSTLY * all) return ["blind", `only ${watched} of ${plural(all, "sensor")} watched, ${open}`, unseen];
    const watching = watched < all ? `watching ${watched} of ${plural(all, "sensor")}` : "watching";
    return [frame.incidents ? "incidents" : watched < all ? "partial" : "quiet", `${watching}, ${open}`, unseen];
  }
}

const percent = (share) => `${Math.round(100 * (share ?? 0))} %`;

// How far behind the clock the stream is, if it is the clock's time at all.
export const behind = (frame) => (frame.watermark > 1e8 && frame.time - frame.watermark < 366 * 86400 && frame.time >= frame.watermark ? duration(frame.time - frame.watermark) : null);
