// Incidents as cards, open ones first, on a timeline, and what people say back: accept and clear.

import { get, post } from "./api.js";
import { findingList } from "./findings.js";
import { labelWords } from "./label.js";
import { incidentPath, nodePath } from "./router.js";
import { Timeline } from "./timeline.js";
import { byId, clock, element, extent, number, splitNodes } from "./words.js";

const NAMED = 12;
const KEPT = 60;
export const SEVERITY = { critical: "▲ critical", warning: "◆ warning", info: "● info" };
export const ENDS = { cleared: "cleared", accepted: "accepted as the new baseline", restored: "back at the earlier baseline", timed_out: "timed out", merged: "merged into another incident" };

export class Incidents {
  // `ask(question)` opens the dialog, `alerted(text)` is read out at once.
  constructor(ask, alerted) {
    this.timeline = new Timeline(byId("timeline"));
    Object.assign(this, { ask, alerted, silenced: new Set(), records: new Map(), cards: new Map(), findings: new Map(), unfolded: new Set() });
  }

  async load() {
    const meanwhile = (this.meanwhile = []); // what the stream says until then may be newer than the answer
    const { incidents, findings, silenced } = await get(`/api/v1/incidents?limit=${KEPT}`).finally(() => (this.meanwhile = null));
    this.silenced = new Set(silenced);
    this.records = new Map(incidents.map((record) => [record.incident, record]));
    this.findings.clear();
    for (const record of [...findings, ...meanwhile.filter((one) => one.event === "incident.analyzed")]) this.found(record);
    for (const record of meanwhile) if (record.event !== "incident.analyzed") this.keep(record);
    this.show();
    return incidents;
  }

  found(record) {
    const known = this.findings.get(record.incident) ?? new Map();
    this.findings.set(record.incident, known.set(record.id, record));
  }

  // Of each kind the latest word: a settled case says more than an early one.
  foundOf(record) {
    const found = [...(this.findings.get(record.incident)?.values() ?? [])].sort((a, b) => a.time - b.time);
    return [...new Map(found.map((one) => [one.details.kind, one])).values()];
  }

  // The latest record of an incident counts; whether this one does.
  keep(record) {
    const known = this.records.get(record.incident);
    if (known && known.sequence > record.sequence) return false;
    this.records.set(record.incident, record);
    return true;
  }

  take(record) {
    this.meanwhile?.push(record);
    if (record.event === "incident.analyzed") {
      this.found(record);
      return this.show();
    }
    if (!this.keep(record)) return;
    if (record.event === "incident.opened") this.alerted(`New incident, ${record.severity}: ${record.summary}`);
    this.show();
  }

  get open() {
    return [...this.records.values()].filter((record) => !record.resolution).length;
  }

  show() {
    const all = [...this.records.values()].sort((a, b) => (b.opened ?? 0) - (a.opened ?? 0));
    for (const record of all.splice(KEPT)) {
      if (!record.resolution) continue;
      for (const kept of [this.records, this.findings, this.cards]) kept.delete(record.incident);
    }
    const [open, ended] = [all.filter((record) => !record.resolution), all.filter((record) => record.resolution)];
    this.arrange(byId("incidents-open"), open);
    this.arrange(byId("incidents-ended"), ended);
    byId("incidents-none").hidden = open.length > 0;
    this.timeline.show(all, this.now);
    byId("ended-summary").textContent = `Ended (${ended.length})`;
    byId("ended-fold").hidden = ended.length === 0;
  }

  // The time of the stream goes on: the timeline follows it.
  tick(now) {
    this.now = now;
    this.timeline.show([...this.records.values()], now);
  }

  // Cards are kept and moved only if they must, so that focus stays where it is.
  arrange(list, records) {
    const wanted = records.map((record) => this.card(record));
    wanted.forEach((card, i) => {
      if (list.children[i] !== card) list.insertBefore(card, list.children[i] ?? null);
    });
    while (list.children.length > wanted.length) list.lastChild.remove();
  }

  card(record) {
    let card = this.cards.get(record.incident);
    if (!card) this.cards.set(record.incident, (card = element("li")));
    const findings = this.foundOf(record);
    const told = findings.map((one) => one.id).join(" ");
    if (card.dataset.record === record.id && card.dataset.findings === told) return card;
    const focused = card.contains(document.activeElement) ? document.activeElement.dataset.action : null;
    card.dataset.record = record.id;
    card.dataset.findings = told;
    card.className = record.resolution ? "ended" : record.severity;
    card.setAttribute("aria-label", `Incident ${record.incident}`);
    card.replaceChildren(this.head(record), element("p", { class: "summary" }, element("a", { href: incidentPath(record.incident), textContent: record.summary })), ...this.details(record), findingList(findings, this.unfolded) ?? "", this.actions(record));
    if (focused) (card.querySelector(`[data-action="${focused}"]`) ?? card.querySelector("button"))?.focus();
    return card;
  }

  head(record) {
    const onset = record.onset === null ? `opened ${clock(record.opened, true)}` : `began about ${clock(record.onset, true)}`;
    const state = record.resolution ? (ENDS[record.resolution] ?? record.resolution) : "open";
    return element("p", { class: "card-head" },
      element("span", { class: "badge", textContent: SEVERITY[record.severity] ?? record.severity }),
      element("span", { textContent: state }),
      this.silenced.has(record.incident) ? element("span", { class: "silenced", textContent: "silenced: not sent" }) : null,
      element("span", { class: "soft", textContent: onset }),
      element("span", { class: "soft", textContent: `peak ${number(record.peak)} (threshold ${number(record.threshold)})` }));
  }

  details(record) {
    const parts = [];
    if (record.description.length) {
      parts.push(element("ul", { class: "changes" }, ...record.description.slice(0, 5).map((change) => element("li", { textContent: change.text }))));
    }
    const { changed, possibly } = splitNodes(record.nodes);
    const chips = [...changed, ...possibly].slice(0, NAMED).map((node) => element("a", { class: "chip", href: nodePath(node.name), textContent: node.name, title: `${node.name}: ${node.state}` }));
    const left = record.nodes.length - NAMED;
    parts.push(element("p", { class: "chips" }, `${extent(record.nodes)}: `, ...chips, left > 0 ? `and ${left} more` : ""));
    const labels = record.labels;
    if (labels) {
      parts.push(element("p", { class: "said", textContent: `Labelled: ${labelWords(labels)}` }));
    }
    return parts;
  }

  actions(record) {
    const button = (action, text, what, does) => {
      const made = element("button", { type: "button", textContent: text, "aria-label": `${text} incident ${record.incident}` });
      made.dataset.action = action;
      made.title = what;
      made.addEventListener("click", does);
      return made;
    };
    const made = [];
    if (!record.resolution) {
      made.push(button("accept", "Accept", "Keep this as the new baseline", () => this.act(record, "accept")));
      made.push(button("clear", "Clear", "Close it and keep the earlier baseline", () => this.act(record, "clear")));
    }
    const link = (text, hash) => element("a", { class: "chip", href: incidentPath(record.incident) + hash, textContent: text, "aria-label": `${text} incident ${record.incident}` });
    made.push(link("Details", ""), link(record.labels ? "Change label" : "Label", "#label"));
    return element("div", { class: "actions" }, ...made);
  }

  // What to ask before an incident is accepted or cleared.
  act(record, action) {
    if (action === "accept") this.confirm(record, "accept", "Accept as the new baseline?", "Its nodes learn a new baseline from their present values. This cannot be undone.");
    else this.confirm(record, "clear", "Clear this incident?", "Its nodes keep the baseline they had before.");
  }

  confirm(record, action, title, words) {
    this.ask({ title, words: `${record.summary} – ${words}`, ok: action === "accept" ? "Accept" : "Clear", act: () => this.send(record, action, {}) });
  }

  async send(record, action, body) {
    const { records } = await post(`/api/v1/incidents/${encodeURIComponent(record.incident)}/${action}`, body);
    for (const one of records) if (one.incident && one.event.startsWith("incident.")) this.take(one);
  }
}
