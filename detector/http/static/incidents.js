// Incidents as cards, open ones first, and what people say back: accept, clear, label.

import { get, post } from "./api.js";
import { findingList } from "./findings.js";
import { labelFields, labelWords, loadLabel } from "./label.js";
import { byId, clock, element, number, plural } from "./words.js";

const NAMED = 12;
const KEPT = 60;
const OFFERED = 50; // nodes to choose from in a label; others by the command line
const SEVERITY = { critical: "▲ critical", warning: "◆ warning", info: "● info" };
const ENDS = { cleared: "cleared", accepted: "accepted as the new normal", timed_out: "timed out", merged: "merged into another" };

export class Incidents {
  // `ask(question)` opens the dialog, `opened(name)` a node, `alerted(text)` is read out at once.
  constructor(ask, opened, alerted) {
    Object.assign(this, { ask, opened, alerted, records: new Map(), cards: new Map(), findings: new Map(), unfolded: new Set() });
  }

  async load() {
    const [{ incidents, findings }] = await Promise.all([get(`/api/v1/incidents?limit=${KEPT}`), loadLabel()]);
    this.records = new Map(incidents.map((record) => [record.incident, record]));
    this.findings.clear();
    for (const record of findings) this.found(record);
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

  take(record) {
    if (record.event === "incident.analyzed") {
      this.found(record);
      return this.show();
    }
    const known = this.records.get(record.incident);
    if (known && known.sequence > record.sequence) return;
    this.records.set(record.incident, record);
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
    byId("ended-summary").textContent = `Ended (${ended.length})`;
    byId("ended-fold").hidden = ended.length === 0;
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
    card.replaceChildren(this.head(record), element("p", { class: "summary", textContent: record.summary }), ...this.details(record), findingList(findings, this.unfolded) ?? "", this.actions(record));
    if (focused) (card.querySelector(`[data-action="${focused}"]`) ?? card.querySelector("button"))?.focus();
    return card;
  }

  head(record) {
    const onset = record.onset === null ? `opened ${clock(record.opened, true)}` : `began about ${clock(record.onset, true)}`;
    const state = record.resolution ? (ENDS[record.resolution] ?? record.resolution) : "open";
    return element("p", { class: "card-head" },
      element("span", { class: "badge", textContent: SEVERITY[record.severity] ?? record.severity }),
      element("span", { textContent: state }),
      element("span", { class: "soft", textContent: onset }),
      element("span", { class: "soft", textContent: `peak ${number(record.peak)} (threshold ${number(record.threshold)})` }));
  }

  details(record) {
    const parts = [];
    if (record.description.length) {
      parts.push(element("ul", { class: "changes" }, ...record.description.slice(0, 5).map((change) => element("li", { textContent: change.text }))));
    }
    const chips = record.nodes.slice(0, NAMED).map((node) => {
      const button = element("button", { type: "button", textContent: node.name, title: `${node.name}: ${node.state}` });
      button.addEventListener("click", () => this.opened(node.name));
      return button;
    });
    const left = record.nodes.length - NAMED;
    parts.push(element("p", { class: "chips" }, `${plural(record.nodes.length, "node")}: `, ...chips, left > 0 ? `and ${left} more` : ""));
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
      made.push(button("accept", "Accept", "This is the new normal: learn it", () => this.confirm(record, "accept", "Accept as the new normal?", "Its nodes learn a new reference from what they do now. This cannot be undone.")));
      made.push(button("clear", "Clear", "It is over, or never was: learn nothing", () => this.confirm(record, "clear", "Clear this incident?", "Its nodes go on with the reference they had before.")));
    }
    made.push(button("label", "Label", "Note what you know about it", () => this.label(record)));
    return element("div", { class: "actions" }, ...made);
  }

  confirm(record, action, title, words) {
    this.ask({ title, words: `${record.summary} – ${words}`, ok: action === "accept" ? "Accept" : "Clear", act: () => this.send(record, action, {}) });
  }

  label(record) {
    const fields = labelFields(record.labels ?? {}, record.nodes.slice(0, OFFERED).map((node) => node.name));
    this.ask({
      title: "Label this incident",
      words: record.summary,
      extra: findingList(this.foundOf(record), this.unfolded),
      fields,
      ok: "Save",
      act: (values) => this.send(record, "label", values),
    });
  }

  async send(record, action, body) {
    const { records } = await post(`/api/v1/incidents/${encodeURIComponent(record.incident)}/${action}`, body);
    for (const one of records) if (one.incident && one.event.startsWith("incident.")) this.take(one);
  }
}
