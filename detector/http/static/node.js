// The page of one node: hours or days of history, its windows now, ratio, scores, neighbours; refreshed while it is open.

import { download, get } from "./api.js";
import { RatioChart, SignalChart } from "./charts.js";
import { colours, STATES } from "./marks.js";
import { incidentPath, nodePath } from "./router.js";
import { band, TimeChart, TimeGroup } from "./time_chart.js";
import { byId, clock, duration, element, number } from "./words.js";

const EVERY_MS = 2000;
const HISTORY_MS = 10000;
const words = Object.fromEntries(STATES.map((state) => [state.name, state.words]));

export class NodePage {
  // `left()` when the reader is done, `failed(error)` for trouble.
  constructor(left, failed) {
    Object.assign(this, { failed, name: null, timer: null, component: 0, near: null, asking: 0, asked: 0, charts: new Map() });
    this.section = byId("node");
    this.signal = new SignalChart(byId("chart-signal"));
    this.ratio = new RatioChart(byId("chart-ratio"));
    this.group = new TimeGroup();
    byId("history-tools").replaceChildren(this.group.tools("Time that is shown"));
    byId("history-span").addEventListener("change", () => this.wider());
    byId("history-export").addEventListener("click", () => download(`/api/v1/nodes/${encodeURIComponent(this.name)}/export?span=${byId("history-span").value}`, "history.csv").catch(failed));
    byId("node-close").addEventListener("click", left);
    this.section.addEventListener("keydown", (event) => event.key === "Escape" && left());
  }

  async open(name) {
    this.name = name;
    this.component = 0;
    this.near = null;
    this.asked = 0;
    document.title = `${name} – detector`;
    byId("node-title").textContent = name;
    byId("node-facts").textContent = "";
    byId("node-missing").hidden = true;
    this.clear();
    await this.refresh();
    byId("node-title").focus({ preventScroll: true });
  }

  close() {
    clearTimeout(this.timer);
    this.name = null;
  }

  clear() {
    for (const chart of [this.signal, this.ratio]) chart.clear();
    for (const chart of this.charts.values()) chart.remove();
    this.charts.clear();
    this.group.shown = null;
    for (const id of ["history-charts", "history-incidents"]) byId(id).replaceChildren();
  }

  redraw() {
    this.clear();
    this.asked = 0;
    if (this.name !== null) this.refresh();
  }

  wider() {
    this.group.shown = null;
    this.asked = 0;
    this.refresh();
  }

  async refresh() {
    clearTimeout(this.timer);
    const { name } = this;
    const asking = ++this.asking;
    const path = `/api/v1/nodes/${encodeURIComponent(name)}`;
    const due = Date.now() - this.asked >= HISTORY_MS;
    try {
      const [view, history] = await Promise.all([get(path), due ? get(`${path}/history?span=${byId("history-span").value}`) : null]);
      if (asking !== this.asking || this.name !== name) return; // another node was opened meanwhile
      this.show(view);
      if (history) {
        this.asked = Date.now();
        this.showHistory(history);
      }
    } catch (error) {
      if (asking !== this.asking) return;
      if (error.status === 404) {
        byId("node-missing").hidden = false;
        return;
      }
      this.failed(error);
    }
    if (this.name === name) this.timer = setTimeout(() => this.refresh(), EVERY_MS);
  }

  showHistory(history) {
    const { times } = history;
    byId("history-none").hidden = times.length > 1;
    byId("history-facts").textContent = history.width ? `One point every ${duration(history.width)}: the mean within the range from minimum to maximum.` : "";
    this.showIncidents(history.incidents);
    if (times.length < 2) return;
    this.group.setWhole(times[0], times.at(-1));
    const colour = colours();
    const marks = history.incidents.map((one) => ({ time: Math.max(one.begin, times[0]), until: one.end ?? times.at(-1) }));
    history.mean.forEach((mean, c) => {
      const component = history.components[c] ?? `component ${c + 1}`;
      this.chart(component).show(times, [
        { label: component, stroke: colour.ink, values: mean },
        ...band(history, c),
      ], { marks });
    });
    const level = (value) => times.map(() => value);
    this.chart("statistic against threshold").show(times, [
      { label: "node", stroke: colour.now, width: 2, values: history.statistic },
      { label: "threshold of a node", stroke: colour.now, dash: [6, 4], values: level(history.threshold) },
      { label: "pooled with neighbours", stroke: colour.before, values: history.event_statistic },
      { label: "threshold of the network", stroke: colour.before, dash: [2, 4], values: level(history.event_threshold) },
    ], { marks, top: history.event_threshold });
  }

  chart(title) {
    let chart = this.charts.get(title);
    if (!chart) {
      const place = element("div", { "aria-label": `${this.name}: ${title}. Arrow keys move, plus and minus zoom, 0 shows all.` });
      byId("history-charts").append(element("figure", {}, element("figcaption", { textContent: title }), place));
      this.charts.set(title, (chart = new TimeChart(place, this.group, 180)));
    }
    return chart;
  }

  showIncidents(incidents) {
    byId("history-incidents").replaceChildren(...(incidents.length ? incidents.map((one) => element("li", {},
      element("time", { textContent: clock(one.begin, true) }), " ", element("a", { href: incidentPath(one.incident), textContent: one.summary }),
      element("span", { class: "soft", textContent: one.end === null ? " open" : ` ended ${clock(one.end, true)}` }))) : [element("li", { class: "soft", textContent: "None in this period." })]));
  }

  show(view) {
    this.showFacts(view);
    this.showNeighbours(view.neighbours);
    const ready = view.reference !== undefined;
    byId("node-charts").hidden = !ready;
    byId("node-note").hidden = ready;
    if (!ready) {
      byId("node-note").textContent = `Still learning: ${Math.round(100 * (view.learning ?? 0))} % of the required samples have arrived.`;
      return;
    }
    const components = view.reference[0]?.map((_, c) => view.components[c] ?? `component ${c + 1}`) ?? view.components;
    const known = view.scale.every((scale) => scale !== null);
    byId("signal-caption").textContent = known ? "Windows being compared" : "Windows being compared, in baseline standard deviations";
    this.signal.show(view, components);
    this.describe("chart-signal", `${view.reference.length} reference and ${view.recent.length} recent samples`);
    this.showRatio(view, components);
    this.showScales(view.scales);
  }

  showFacts(view) {
    const facts = [words[view.state] ?? view.state];
    if (view.statistic !== undefined) {
      facts.push(`statistic ${number(view.statistic)} (threshold ${number(view.threshold)})`);
      facts.push(`pooled with its neighbours ${number(view.event_statistic)} (threshold ${number(view.event_threshold)})`);
    }
    if (view.onset) facts.push(`changed at about ${clock(view.onset, true)}`);
    if (view.preprocess?.learnt === false) facts.push(view.preprocess.why);
    const place = byId("node-facts");
    place.textContent = facts.join(" · ");
    if (view.incident) place.append(" · in ", element("a", { href: incidentPath(view.incident), textContent: `incident ${view.incident}` }), "; its baseline is held");
  }

  showNeighbours(names) {
    const key = names.join("\n");
    if (this.near === key) return; // the links stay, and with them the focus
    this.near = key;
    const links = names.slice(0, 24).map((name) => element("a", { class: "chip", href: nodePath(name), textContent: name }));
    const more = names.length > 24 ? `and ${names.length - 24} more` : "";
    byId("node-near").replaceChildren(names.length ? "Neighbours: " : "No neighbours.", ...links, more);
  }

  showRatio(view, components) {
    const curves = view.ratio ?? [];
    byId("chart-ratio").parentElement.hidden = !curves.length;
    if (!curves.length) return;
    const at = Math.min(this.component, curves.length - 1);
    this.ratio.show(view, at, components[at] ?? "value");
    const peak = curves[at].ratio.indexOf(Math.max(...curves[at].ratio));
    this.describe("chart-ratio", `some values are up to ${number(curves[at].ratio[peak])} times as likely as before`);
    const caption = byId("ratio-caption");
    if (curves.length > 1 && !caption.querySelector("select")) {
      const choice = element("select", { "aria-label": "Component" }, ...components.map((name, c) => element("option", { value: c, textContent: name })));
      choice.addEventListener("change", () => {
        this.component = Number(choice.value);
        this.ratio.clear();
        this.refresh();
      });
      caption.append(" ", choice);
    }
  }

  showScales(scales) {
    const highest = Math.max(4, ...scales.map((scale) => scale.level ?? 0));
    const rows = scales.map((scale) => {
      const fill = element("div", { class: (scale.level ?? 0) > 4 ? "fill high" : "fill" });
      fill.style.width = `${(100 * Math.max(0, scale.level ?? 0)) / highest}%`;
      const bar = element("div", { class: "track" }, fill);
      return element("tr", {},
        element("td", { class: "number", textContent: scale.length }),
        element("td", { class: "number", textContent: number(scale.score) }),
        element("td", {}, element("div", {}, bar, element("span", { class: "number", textContent: number(scale.level, 2) }))));
    });
    byId("node-scales").replaceChildren(...rows);
  }

  describe(id, text) {
    const place = byId(id);
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", text);
  }
}
