// The panel of one node: signal and windows, statistic, ratio, scores, neighbours; refreshed while it is open.

import { get } from "./api.js";
import { RatioChart, SignalChart, StatisticChart } from "./charts.js";
import { STATES } from "./marks.js";
import { byId, clock, element, number } from "./words.js";

const EVERY_MS = 2000;
const words = Object.fromEntries(STATES.map((state) => [state.name, state.words]));

export class NodePanel {
  // `opened(name)` for a neighbour, `closed()` when the reader is done, `failed(error)` for trouble.
  constructor(opened, closed, failed) {
    Object.assign(this, { opened, closed, failed, name: null, timer: null, component: 0, near: null, asking: 0 });
    this.section = byId("node");
    this.signal = new SignalChart(byId("chart-signal"));
    this.statistic = new StatisticChart(byId("chart-statistic"));
    this.ratio = new RatioChart(byId("chart-ratio"));
    byId("node-close").addEventListener("click", () => this.close());
    this.section.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  async open(name) {
    this.name = name;
    this.component = 0;
    this.near = null;
    this.section.hidden = false;
    byId("node-title").textContent = name;
    byId("node-facts").textContent = "";
    for (const chart of [this.signal, this.statistic, this.ratio]) chart.clear();
    await this.refresh();
    byId("node-title").focus({ preventScroll: true });
    this.section.scrollIntoView({ block: "nearest" });
  }

  close() {
    clearTimeout(this.timer);
    this.name = null;
    this.section.hidden = true;
    this.closed();
  }

  redraw() {
    for (const chart of [this.signal, this.statistic, this.ratio]) chart.clear();
    if (this.name !== null) this.refresh();
  }

  async refresh() {
    clearTimeout(this.timer);
    const { name } = this;
    const asking = ++this.asking;
    const path = encodeURIComponent(name);
    try {
      const [view, history] = await Promise.all([get(`/api/v1/nodes/${path}`), get(`/api/v1/history/${path}`)]);
      if (asking !== this.asking || this.name !== name) return; // another node was opened meanwhile
      this.show(view, history);
    } catch (error) {
      if (asking === this.asking) this.failed(error);
    }
    if (this.name === name) this.timer = setTimeout(() => this.refresh(), EVERY_MS);
  }

  show(view, history) {
    this.showFacts(view);
    this.showNeighbours(view.neighbours);
    const ready = view.reference !== undefined;
    byId("node-charts").hidden = !ready;
    byId("node-note").hidden = ready;
    if (!ready) {
      byId("node-note").textContent = `Still learning: ${Math.round(100 * (view.learning ?? 0))} % of the samples are there.`;
      return;
    }
    const components = view.reference[0]?.map((_, c) => view.components[c] ?? `component ${c + 1}`) ?? view.components;
    const known = view.scale.every((scale) => scale !== null);
    byId("signal-caption").textContent = known ? "Signal" : "Signal, in baseline standard deviations";
    this.signal.show(view, components);
    this.statistic.show(history);
    this.describe("chart-signal", `${view.reference.length} reference and ${view.recent.length} recent samples`);
    this.describe("chart-statistic", `statistic ${number(view.statistic)}, threshold ${number(view.threshold)}`);
    this.showRatio(view, components);
    this.showScales(view.scales);
  }

  showFacts(view) {
    const facts = [words[view.state] ?? view.state];
    if (view.statistic !== undefined) {
      facts.push(`statistic ${number(view.statistic)} (threshold ${number(view.threshold)})`);
      facts.push(`pooled with its neighbours ${number(view.event_statistic)} (threshold ${number(view.event_threshold)})`);
    }
    if (view.onset) facts.push(`changed about ${clock(view.onset)}`);
    if (view.incident) facts.push(`in incident ${view.incident}; its reference is held`);
    if (view.preprocess?.learnt === false) facts.push(view.preprocess.why);
    byId("node-facts").textContent = facts.join(" · ");
  }

  showNeighbours(names) {
    const key = names.join("\n");
    if (this.near === key) return; // the buttons stay, and with them the focus
    this.near = key;
    const buttons = names.slice(0, 24).map((name) => {
      const button = element("button", { type: "button", textContent: name });
      button.addEventListener("click", () => this.opened(name));
      return button;
    });
    const more = names.length > 24 ? `and ${names.length - 24} more` : "";
    byId("node-near").replaceChildren(names.length ? "Neighbours: " : "No neighbours.", ...buttons, more);
  }

  showRatio(view, components) {
    const curves = view.ratio ?? [];
    byId("chart-ratio").parentElement.hidden = !curves.length;
    if (!curves.length) return;
    const at = Math.min(this.component, curves.length - 1);
    this.ratio.show(view, at, components[at] ?? "value");
    const peak = curves[at].ratio.indexOf(Math.max(...curves[at].ratio));
    this.describe("chart-ratio", `values became up to ${number(curves[at].ratio[peak])} times as likely`);
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
