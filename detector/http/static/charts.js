// Charts of one node, drawn by uPlot. A chart is made once per kind of data and then only given new data.

import { colours } from "./marks.js";

const HEIGHT = 210;
const DASH = [6, 4];

export class Chart {
  constructor(place, height = HEIGHT) {
    this.place = place;
    this.height = height;
    this.plot = null;
    this.shape = "";
    new ResizeObserver(() => this.plot && this.plot.setSize({ width: this.width(), height: this.height })).observe(place);
  }

  width() {
    return Math.max(240, this.place.clientWidth);
  }

  // `shape` names everything but the data: when it changes, the chart is built anew.
  give(shape, options, data) {
    if (this.shape !== shape) {
      this.clear();
      this.shape = shape;
      this.plot = new window.uPlot({ width: this.width(), height: this.height, legend: { markers: { dash: marker } }, ...options() }, data, this.place);
    } else {
      this.plot.setData(data);
    }
  }

  clear() {
    this.plot?.destroy();
    this.plot = null;
    this.shape = "";
  }

  axes(x = {}, y = {}) {
    const colour = colours();
    const common = { stroke: colour.soft, grid: { stroke: colour.line, width: 1 }, ticks: { stroke: colour.line, width: 1 }, font: "11px system-ui, sans-serif", labelFont: "11px system-ui, sans-serif", labelSize: 16, size: 34 };
    return [{ ...common, ...x }, { ...common, size: 48, ...y }];
  }
}

// In the legend, too, two lines of one colour are told apart.
function marker(plot, i) {
  const dash = plot.series[i].dash;
  return dash ? (dash[0] < dash[1] ? "dotted" : "dashed") : "solid";
}

// x is counted in samples back from now; reference and test windows are shaded.
export class SignalChart extends Chart {
  show(view, components) {
    const [before, now] = [view.reference.length, view.recent.length];
    const gap = view.held && before ? Math.max(4, Math.round(before / 40)) : 0; // a held reference does not touch the present
    const lengths = view.scales.map((scale) => scale.length);
    this.spans = { start: -(before + gap + now), held: -(gap + now), now: -now, lengths };
    const rows = [...view.reference, ...Array(gap).fill(null), ...view.recent];
    const x = rows.map((_, i) => i - rows.length + 1);
    const original = (value, c) => (view.scale[c] === null || view.centre[c] === null ? value : view.centre[c] + view.scale[c] * value);
    const series = components.map((_, c) => rows.map((row) => (row === null ? null : original(row[c], c))));
    const palette = [colours().ink, colours().stuck, colours().held, colours().suspected];
    this.give(`signal ${components.join("\n")}`, () => ({
      scales: { x: { time: false } },
      axes: this.axes({ label: "samples before now" }),
      series: [{ label: "sample" }, ...components.map((name, c) => ({ label: name, stroke: palette[c % 4], width: 1.2, dash: c < 4 ? undefined : DASH, points: { show: false } }))],
      hooks: { drawClear: [(plot) => this.shade(plot)] },
    }), [x, ...series]);
  }

  shade(plot) {
    const { start, held, now, lengths } = this.spans;
    const colour = colours();
    const { ctx: context, bbox } = plot;
    const at = (sample) => plot.valToPos(Math.min(sample, 0), "x", true);
    context.save();
    context.beginPath();
    context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    context.clip();
    context.globalAlpha = 0.13;
    context.fillStyle = colour.before;
    context.fillRect(at(start), bbox.top, at(held) - at(start), bbox.height);
    // Stripes, so that the two windows differ without colour, too.
    context.globalAlpha = 0.5;
    context.strokeStyle = colour.now;
    context.lineWidth = 1;
    context.beginPath();
    context.rect(at(now), bbox.top, at(0) - at(now), bbox.height);
    context.save();
    context.clip();
    context.beginPath();
    for (let x = at(now) - bbox.height; x < at(0); x += 12) {
      context.moveTo(x, bbox.top + bbox.height);
      context.lineTo(x + bbox.height, bbox.top);
    }
    context.stroke();
    context.restore();
    context.globalAlpha = 0.9;
    context.setLineDash([3, 3]);
    context.beginPath();
    for (const length of lengths) {
      context.moveTo(at(-length), bbox.top);
      context.lineTo(at(-length), bbox.top + bbox.height);
    }
    context.stroke();
    context.restore();
  }
}

export class RatioChart extends Chart {
  show(view, c, component) {
    const curve = view.ratio[c];
    const known = view.scale[c] !== null && view.centre[c] !== null;
    const x = curve.z.map((z) => (known ? view.centre[c] + view.scale[c] * z : z));
    const one = x.map(() => 1);
    const colour = colours();
    const more = curve.ratio.map((ratio) => Math.max(ratio, 1));
    const less = curve.ratio.map((ratio) => Math.min(ratio, 1));
    const hidden = { stroke: "transparent", width: 0, points: { show: false } };
    this.give(`ratio ${known} ${component}`, () => ({
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(2, high * 1.1)] } },
      axes: this.axes({ label: known ? component : `${component}, in baseline standard deviations` }, { label: "times as likely" }),
      legend: { show: false },
      series: [
        { label: component },
        { label: "ratio", stroke: colour.ink, width: 1.8, points: { show: false } },
        { label: "one", stroke: colour.soft, width: 1, dash: DASH, points: { show: false } },
        { ...hidden, label: "more" }, { ...hidden, label: "less" },
      ],
      bands: [{ series: [3, 2], fill: faint(colour.now) }, { series: [2, 4], fill: faint(colour.before) }],
    }), [x, curve.ratio, one, more, less]);
  }
}

// Hours and minutes, with seconds where the ticks are closer than a minute, dates where they are days apart.
export function clocks(plot, times) {
  const step = times.length > 1 ? times[1] - times[0] : 60;
  return times.map((time) => {
    const text = new Date(time * 1000).toISOString();
    if (step >= 86400) return text.slice(0, 10);
    // Midnight is its date, so that days can be told apart; there is room for one line.
    return time % 86400 === 0 ? text.slice(5, 10) : text.slice(11, step < 60 ? 19 : 16);
  });
}

function faint(hex) {
  return `${hex}66`;
}
