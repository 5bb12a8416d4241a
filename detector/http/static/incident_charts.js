// Charts of one incident: the signal of each member, their statistics, and values before and since.

import { Chart } from "./charts.js";
import { colours } from "./marks.js";
import { nodePath } from "./router.js";
import { band, TimeChart, TimeGroup } from "./time_chart.js";
import { byId, clock, element, number } from "./words.js";

const SHOWN = 4; // members that are drawn at once
const MORE = 4;
const faint = (colour) => `${colour}38`;

export class IncidentCharts {
  constructor() {
    this.group = new TimeGroup();
    this.charts = new Map();
    this.histograms = [];
    this.most = SHOWN;
    this.told = null;
    byId("signals-tools").replaceChildren(this.group.tools("Time that is shown"));
    byId("signals-more").addEventListener("click", () => {
      this.most += MORE;
      this.show(this.signals);
    });
  }

  clear() {
    for (const { chart } of this.charts.values()) chart.remove();
    this.charts.clear();
    this.group.shown = null;
    this.most = SHOWN;
    this.told = null;
    for (const histogram of this.histograms) histogram.clear();
    this.histograms = [];
    for (const place of ["incident-signals", "incident-statistic", "incident-distributions"]) byId(place).replaceChildren();
  }

  show(signals) {
    this.signals = signals;
    const drawn = signals.nodes.filter((node) => node.times.length > 1);
    byId("signals-none").hidden = drawn.length > 0;
    byId("signals-tools").hidden = drawn.length === 0;
    byId("signals-more").hidden = drawn.length <= this.most;
    if (drawn.length) {
      this.group.setWhole(Math.min(...drawn.map((node) => node.times[0])), Math.max(...drawn.map((node) => node.times.at(-1))));
      this.showSignals(signals, drawn);
      this.showStatistics(signals, drawn);
    }
    this.showDistributions(signals);
  }

  marks({ onset, opened, ended, nodes }) {
    const last = ended ?? Math.max(...nodes.map((node) => node.times.at(-1) ?? -Infinity));
    const marks = [{ time: onset ?? opened, until: last, name: "onset" }];
    if (onset !== null && opened !== onset) marks.push({ time: opened, kind: "opened", name: "opened" });
    if (ended !== null) marks.push({ time: ended, kind: "end", name: "ended" });
    return marks;
  }

  chart(key, title, host, height) {
    let made = this.charts.get(key);
    if (!made) {
      const place = element("div");
      const caption = element("figcaption", {}, title);
      host.append(element("figure", {}, caption, place));
      made = { chart: new TimeChart(place, this.group, height), place };
      this.charts.set(key, made);
    }
    return made;
  }

  // One chart for each component of each member: the mean, and lowest to highest around it.
  showSignals(signals, drawn) {
    const colour = colours();
    const marks = this.marks(signals);
    for (const node of drawn.slice(0, this.most)) {
      node.mean.forEach((mean, c) => {
        const component = signals.components[c] ?? `component ${c + 1}`;
        const title = element("span", {}, element("a", { href: nodePath(node.name), textContent: node.name }), node.mean.length > 1 ? `, ${component}` : "");
        const { chart, place } = this.chart(`signal ${c} ${node.name}`, title, byId("incident-signals"), 140);
        chart.show(node.times, [
          { label: "mean", stroke: colour.ink, values: mean },
          ...band(node, c),
        ], { marks });
        place.setAttribute("aria-label", `${node.name}, ${component}, from ${clock(node.times[0], true)} to ${clock(node.times.at(-1), true)}. Arrow keys move, plus and minus zoom, 0 shows all.`);
      });
    }
  }

  // The statistic of the members in one chart, with the threshold; all on the times of the first.
  showStatistics(signals, drawn) {
    const colour = colours();
    const palette = [colour.now, colour.before, colour.stuck, colour.held, colour.suspected, colour.out_of_range, colour.learning]; // ink is that of the network
    const nodes = drawn.slice(0, palette.length);
    const times = [...new Set(nodes.flatMap((node) => node.times))].sort((a, b) => a - b);
    const at = (node, values) => {
      const known = new Map(node.times.map((time, i) => [time, values[i]]));
      return times.map((time) => (known.has(time) ? known.get(time) : undefined));
    };
    const level = (value) => times.map(() => value);
    const pooled = at(nodes[0], nodes[0].event_statistic);
    const highest = times.map((_, i) => pooled[i]);
    for (const node of nodes.slice(1)) at(node, node.event_statistic).forEach((value, i) => (highest[i] = Math.max(highest[i] ?? -Infinity, value ?? -Infinity)));
    const { chart, place } = this.chart("statistic", "Statistic of the nodes against the thresholds", byId("incident-statistic"), 230);
    const lines = nodes.map((node, i) => ({ label: node.name, stroke: palette[i], values: at(node, node.statistic) }));
    if (signals.threshold !== null) lines.push({ label: "threshold of a node", stroke: colour.soft, dash: [6, 4], values: level(signals.threshold) });
    lines.push({ label: "pooled, largest", stroke: colour.ink, width: 2, values: highest.map((value) => (Number.isFinite(value) ? value : null)) });
    if (signals.event_threshold !== null) lines.push({ label: "threshold of the network", stroke: colour.ink, dash: [2, 4], values: level(signals.event_threshold) });
    chart.show(times, lines, { marks: this.marks(signals), top: Math.max(signals.threshold ?? 0, signals.event_threshold ?? 0) });
    place.setAttribute("aria-label", `Statistic of ${nodes.map((node) => node.name).join(", ")}; threshold ${number(signals.event_threshold)}`);
  }

  showDistributions(signals) {
    const told = JSON.stringify(signals.distributions);
    if (told === this.told) return;
    this.told = told;
    for (const histogram of this.histograms) histogram.clear();
    byId("distributions").hidden = signals.distributions.length === 0;
    this.histograms = signals.distributions.slice(0, 8).map((one) => {
      const place = element("div");
      const many = signals.distributions.some((other) => other.node === one.node && other !== one);
      byId("incident-distributions").append(element("figure", {}, element("figcaption", { textContent: many ? `${one.node}, ${one.component}` : one.node }), place));
      const histogram = new Histogram(place, 150);
      histogram.show(one);
      return histogram;
    });
    byId("incident-distributions").replaceChildren(...[...byId("incident-distributions").children].slice(-this.histograms.length || undefined));
  }
}

class Histogram extends Chart {
  show(one) {
    const colour = colours();
    const stepped = window.uPlot.paths.stepped({ align: 1 });
    const line = (label, stroke, more) => ({ label, stroke, fill: faint(stroke), width: 1.6, paths: stepped, points: { show: false }, value: (_, v) => (v === null ? "–" : `${number(100 * v, 2)} %`), ...more });
    const close = (shares) => [...shares, shares.at(-1)];
    this.give("histogram", () => ({
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, high * 1.08 || 1] } },
      axes: this.axes({ label: one.original ? one.component : `${one.component}, in baseline standard deviations` }, { values: (_, ticks) => ticks.map((tick) => `${number(100 * tick, 3)} %`) }),
      series: [{ label: one.component, value: (_, v) => number(v, 4) }, line("before", colour.before), line("after", colour.now, { dash: [5, 3] })],
    }), [one.edges, close(one.before), close(one.after)]);
    this.place.setAttribute("role", "img");
    const middle = (shares) => one.edges.slice(0, -1).reduce((sum, edge, i) => sum + ((edge + one.edges[i + 1]) / 2) * shares[i], 0);
    this.place.setAttribute("aria-label", `${one.node}, ${one.component}: mean before ${number(middle(one.before))}, after ${number(middle(one.after))}`);
  }
}
