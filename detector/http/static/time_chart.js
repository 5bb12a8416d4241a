// Charts over time: drag to zoom, Shift and drag to move, buttons and keys for both; all charts of a group move together.

import { Chart, clocks } from "./charts.js";
import { colours } from "./marks.js";
import { clock, element, isUnix, number } from "./words.js";

// The stretch of time that several charts show; `null` is all of it.
export class TimeGroup {
  constructor() {
    Object.assign(this, { charts: new Set(), shown: null, whole: null, key: `time-${Math.random()}` });
  }

  // The whole stretch there is; what is shown stays, if somebody has zoomed.
  setWhole(from, to) {
    this.whole = to > from ? [from, to] : [from - 1, to + 1];
    this.apply();
  }

  show(from, to) {
    if (!this.whole || !(to > from)) return;
    const [low, high] = this.whole;
    const length = Math.min(to - from, high - low);
    const begin = Math.min(Math.max(from, low), high - length);
    this.shown = length >= (high - low) * 0.999 ? null : [begin, begin + length];
    this.apply();
  }

  range() {
    return this.shown ?? this.whole;
  }

  zoom(factor, around = 0.5) {
    const [from, to] = this.range() ?? [0, 0];
    const length = (to - from) / factor;
    const at = from + around * (to - from);
    this.show(at - around * length, at + (1 - around) * length);
  }

  move(share) {
    const [from, to] = this.range() ?? [0, 0];
    const by = share * (to - from);
    const [low, high] = this.whole ?? [from, to];
    const held = Math.min(Math.max(by, low - from), high - to);
    this.show(from + held, to + held);
  }

  all() {
    this.shown = null;
    this.apply();
  }

  apply() {
    if (!this.whole) return;
    const [min, max] = this.range();
    for (const chart of this.charts) chart.reach(min, max);
  }

  // Buttons for those who cannot drag.
  tools(label) {
    const button = (text, name, does) => {
      const made = element("button", { type: "button", textContent: text, "aria-label": name, title: name });
      made.addEventListener("click", does);
      return made;
    };
    return element("div", { class: "tools", role: "group", "aria-label": label },
      button("←", "Earlier", () => this.move(-0.4)), button("→", "Later", () => this.move(0.4)),
      button("+", "Zoom in", () => this.zoom(2)), button("−", "Zoom out", () => this.zoom(0.5)),
      button("All", "Show all", () => this.all()));
  }
}

export class TimeChart extends Chart {
  // `marks` are {time, until, name, kind}: lines at a time, shaded stretches of an incident.
  constructor(place, group, height = 150) {
    super(place, height);
    Object.assign(this, { group, marks: [] });
    group.charts.add(this);
    place.tabIndex = 0;
    place.setAttribute("role", "img");
    place.addEventListener("keydown", (event) => this.typed(event));
    place.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    place.addEventListener("pointerdown", (event) => this.grabbed(event), { capture: true });
  }

  remove() {
    this.group.charts.delete(this);
    this.clear();
  }

  // `lines` are {label, stroke, values, dash, width, band}; `unit` is the words at the axis of values.
  show(times, lines, { unit = "", marks = [], top = null } = {}) {
    const unix = times.length === 0 || isUnix(times[0]);
    this.marks = marks;
    const shape = JSON.stringify([unix, unit, lines.map((line) => [line.label, line.stroke, line.dash, line.hidden]), top]);
    const bands = [];
    lines.forEach((line, i) => line.bandWith !== undefined && bands.push({ series: [i + 1, line.bandWith + 1], fill: line.fill }));
    const range = this.group.range() ?? [times[0] ?? 0, times.at(-1) ?? 1];
    this.give(shape, () => ({
      scales: { x: { time: unix, min: range[0], max: range[1], auto: false }, y: { range: (_, low, high) => spread(low, high, top) } },
      tzDate: (time) => window.uPlot.tzDate(new Date(time * 1e3), "Etc/UTC"),
      axes: this.axes({ ...(unix ? { values: clocks, space: 78 } : {}) }, { label: unit }),
      cursor: { sync: { key: this.group.key, setSeries: false }, drag: { x: true, y: false, setScale: false, dist: 6 } },
      series: [
        { label: "time", value: (_, time) => (time === null ? "–" : clock(time, true)) },
        ...lines.map((line) => ({
          label: line.label, stroke: line.stroke, width: line.width ?? 1.4, dash: line.dash, points: { show: false },
          spanGaps: false, value: (_, value) => number(value, 4), ...(line.hidden ? { class: "unlisted" } : {}),
        })),
      ],
      bands,
      hooks: { drawClear: [(plot) => this.shade(plot)], setSelect: [(plot) => this.selected(plot)], ready: [(plot) => plot.over.addEventListener("dblclick", () => this.group.all())] },
    }), [times, ...lines.map((line) => line.values)]);
    this.reach(...range);
  }

  reach(min, max) {
    Object.assign(this.place.dataset, { from: min, to: max });
    this.plot?.setScale("x", { min, max });
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    this.group.show(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  }

  shade(plot) {
    const { ctx: context, bbox } = plot;
    const colour = colours();
    context.save();
    context.beginPath();
    context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    context.clip();
    for (const mark of this.marks) {
      const x = plot.valToPos(mark.time, "x", true);
      if (mark.until !== undefined) {
        context.globalAlpha = 0.14;
        context.fillStyle = colour.now;
        context.fillRect(x, bbox.top, plot.valToPos(mark.until, "x", true) - x, bbox.height);
      }
      context.globalAlpha = 0.9;
      context.strokeStyle = mark.kind === "end" ? colour.soft : colour.now;
      context.lineWidth = 1.5 * (window.devicePixelRatio || 1);
      context.setLineDash(mark.kind === "opened" ? [4, 4] : []);
      context.beginPath();
      context.moveTo(x, bbox.top);
      context.lineTo(x, bbox.top + bbox.height);
      context.stroke();
    }
    context.restore();
  }

  typed(event) {
    const does = { ArrowLeft: () => this.group.move(-0.2), ArrowRight: () => this.group.move(0.2), "+": () => this.group.zoom(1.5), "=": () => this.group.zoom(1.5), "-": () => this.group.zoom(1 / 1.5), 0: () => this.group.all() };
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in does)) return;
    event.preventDefault();
    does[event.key]();
  }

  wheeled(event) {
    if (!event.ctrlKey || !this.plot) return; // without it the reader scrolls the page
    event.preventDefault();
    const box = this.plot.over.getBoundingClientRect();
    this.group.zoom(Math.exp(-event.deltaY / 200), Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)));
  }

  // With Shift the pointer takes the time axis along, instead of choosing a stretch of it.
  grabbed(event) {
    if (!event.shiftKey || !this.plot) return;
    event.preventDefault();
    event.stopPropagation();
    let x = event.clientX;
    const width = this.plot.over.getBoundingClientRect().width;
    const moved = (now) => {
      this.group.move((x - now.clientX) / width);
      x = now.clientX;
    };
    const released = () => {
      window.removeEventListener("pointermove", moved);
      window.removeEventListener("pointerup", released);
    };
    window.addEventListener("pointermove", moved);
    window.addEventListener("pointerup", released);
  }
}

function spread(low, high, top) {
  if (low === null || high === null) return [0, top ?? 1];
  const most = top === null ? high : Math.max(high, top);
  const room = (most - low) * 0.06 || Math.abs(most) * 0.05 || 1;
  return [low - room, most + room];
}

// Lowest to highest around the mean, which is the first line; none where each row is one sample.
export function band(signal, c) {
  if (!signal.low.length) return [];
  const stroke = `${colours().before}38`;
  return [
    { label: "lowest", stroke, width: 0.5, values: signal.low[c] },
    { label: "highest", stroke, width: 0.5, values: signal.high[c], bandWith: 1, fill: stroke },
  ];
}
