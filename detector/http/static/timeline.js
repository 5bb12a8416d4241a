// Incidents as bars over time: what overlapped, how long each was, where there was none.

import { incidentPath } from "./router.js";
import { byId, clock, duration, element, plural } from "./words.js";

const LANES = 6;
const LANE = 14;

export class Timeline {
  constructor(place) {
    this.place = place;
    this.told = "";
  }

  // `now` is the time of the stream, where it is known: an open incident lasts until then.
  show(records, now) {
    const known = records.filter((one) => one.opened !== null).map((one) => ({ record: one, begin: one.onset ?? one.opened, end: one.resolution ? one.time : null }));
    byId("timeline-place").hidden = known.length === 0;
    if (!known.length) return;
    const last = Math.max(now ?? 0, ...known.map((one) => Math.max(one.end ?? 0, one.record.time)));
    const first = Math.min(...known.map((one) => one.begin));
    const told = [Math.round(Math.log2(last - first + 1) * 20), ...known.map((one) => `${one.record.incident} ${one.end}`)].join("\n");
    if (told === this.told) return; // the bars stay, and with them the focus, until they would move by a few hundredths
    this.told = told;
    const span = Math.max(last - first, 1) * 1.02;
    const lanes = [];
    const bars = known.sort((a, b) => a.begin - b.begin).map((one) => {
      const end = one.end ?? last;
      let lane = lanes.findIndex((until) => until < one.begin - span / 200);
      if (lane < 0) lane = lanes.length < LANES ? lanes.length : LANES - 1;
      lanes[lane] = Math.max(end, lanes[lane] ?? 0);
      const words = `${one.record.severity}, ${one.end === null ? "open" : "ended"}, from ${clock(one.begin, true)}, ${duration(end - one.begin)}: ${one.record.summary}`;
      const bar = element("a", { class: `bar-of ${one.end === null ? one.record.severity : "ended"}`, href: incidentPath(one.record.incident), title: words, "aria-label": words });
      bar.style.left = `${(100 * (one.begin - first)) / span}%`;
      bar.style.width = `max(6px, ${(100 * (end - one.begin)) / span}%)`;
      bar.style.top = `${lane * LANE}px`;
      return bar;
    });
    this.place.style.height = `${Math.max(1, lanes.length) * LANE + 2}px`;
    this.place.replaceChildren(...bars);
    byId("timeline-words").textContent = `${plural(known.length, "incident")} from ${clock(first, true)} to ${clock(last, true)}`;
  }
}
