// The page of one incident: what happened, its signals over time, what was found out, what people said.

import { get, post } from "./api.js";
import { findingList } from "./findings.js";
import { IncidentCharts } from "./incident_charts.js";
import { LabelForm } from "./label.js";
import { neighbourhood, subframe } from "./neighbourhood.js";
import { NetworkMap } from "./map.js";
import { nodePath } from "./router.js";
import { ENDS, SEVERITY } from "./incidents.js";
import { byId, clock, duration, element, extent, fillList, number } from "./words.js";

const EVERY_MS = 5000;
const EVENTS = { "incident.opened": "opened", "incident.updated": "updated", "incident.resolved": "resolved", "incident.labelled": "labelled", "incident.analyzed": "finding" };

export class IncidentPage {
  // `act(record, action)` asks before it accepts or clears; `page` holds network and frame; `failed(error)`.
  constructor({ act, silence, page, opened, said, failed }) {
    Object.assign(this, { act, silence, page, opened, failed, id: null, timer: null, unfolded: new Set(), drawn: null });
    this.charts = new IncidentCharts();
    this.map = new NetworkMap(byId("incident-map"), (node) => this.drawn && opened(this.drawn.names[node]), said);
    this.label = new LabelForm(byId("incident-label"), (values) => this.send("label", values));
    byId("comment-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.comment();
    });
    for (const action of ["accept", "clear"]) byId(`incident-${action}`).addEventListener("click", () => this.act(this.record, action));
    byId("incident-silence").addEventListener("click", () => this.silence(this.record));
  }

  open(id) {
    this.id = id;
    this.record = null;
    this.charts.clear();
    this.label.clear();
    for (const place of ["incident-facts", "incident-findings", "incident-log", "incident-comments", "incident-changes"]) byId(place).replaceChildren();
    byId("incident-title").textContent = "Incident";
    byId("incident-state").textContent = "";
    byId("incident-missing").hidden = true;
    byId("incident-body").hidden = true;
    document.title = "incident – detector";
    this.refresh();
  }

  close() {
    clearTimeout(this.timer);
    this.id = null;
  }

  redraw() {
    this.charts.clear();
    if (this.id !== null) this.refresh();
  }

  // Something was said of this incident: what is shown is no longer all there is.
  take(record) {
    if (record.incident === this.id) this.refresh();
  }

  async refresh() {
    clearTimeout(this.timer);
    const { id } = this;
    const path = `/api/v1/incidents/${encodeURIComponent(id)}`;
    try {
      // The signals come last: they are large, and some of them are asked of a pipeline that may be busy.
      const drawn = get(`${path}/signals`);
      drawn.catch(() => {}); // its failure is met below
      const [told, remarks, audit] = await Promise.all([get(path), get(`${path}/comments`), get(`/api/v1/audit?subject=${encodeURIComponent(id)}`)]);
      if (this.id !== id) return;
      byId("incident-body").hidden = false;
      this.show(told, remarks.comments, audit.audit);
      const signals = await drawn;
      if (this.id === id) this.charts.show(signals);
    } catch (error) {
      if (this.id !== id) return;
      if (error.status === 404) {
        byId("incident-missing").hidden = false;
        return;
      }
      this.failed(error);
    }
    if (this.id === id && (this.record === null || !this.record.resolution)) this.timer = setTimeout(() => document.hidden || this.refresh(), EVERY_MS);
  }

  show(told, comments, audit) {
    const state = told.records.filter((one) => ["incident.opened", "incident.updated", "incident.resolved"].includes(one.event)).at(-1);
    const labels = told.records.filter((one) => one.labels).at(-1)?.labels ?? null;
    this.record = { ...state, labels };
    this.showHead(told.open);
    const findings = new Map(told.records.filter((one) => one.event === "incident.analyzed").map((one) => [one.details.kind, one]));
    byId("incident-findings").replaceChildren(findingList([...findings.values()], this.unfolded) ?? element("p", { class: "soft", textContent: "None yet." }));
    this.showMembers();
    this.showLog(told.records, audit);
    this.showComments(comments);
    this.label.show(this.record);
    this.showMap();
  }

  showHead(open) {
    const { record } = this;
    document.title = `${record.severity} ${open ? "open" : "ended"} – ${record.incident} – detector`;
    byId("incident-title").textContent = record.summary;
    const badge = byId("incident-state");
    badge.className = `state-line ${open ? record.severity : "ended"}`;
    badge.textContent = `${SEVERITY[record.severity] ?? record.severity} · ${open ? "open" : (ENDS[record.resolution] ?? record.resolution ?? "no longer tracked")}`;
    const end = record.resolution ? record.time : null;
    fillList(byId("incident-facts"), [
      ["change began", record.onset === null ? (record.details.onset ?? "–") : `about ${clock(record.onset, true)}`],
      ["opened", clock(record.opened, true)],
      ...(open ? [["open for", duration(this.page.frame?.watermark - record.opened)]] : end === null ? [] : [["ended", `${clock(end, true)}, after ${duration(end - (record.onset ?? record.opened))}`]]),
      ["peak", `${number(record.peak)} (threshold ${number(record.threshold)})`],
      ["extent", extent(record.nodes)],
      ["id", record.incident],
    ]);
    byId("incident-changes").replaceChildren(...record.description.map((change) => element("li", { textContent: change.text })));
    for (const action of ["accept", "clear", "silence"]) byId(`incident-${action}`).hidden = !open;
  }

  showMembers() {
    const rows = this.record.nodes.map((node) => element("tr", {},
      element("th", { scope: "row" }, element("a", { href: nodePath(node.name), textContent: node.name })),
      element("td", { textContent: node.state }),
      element("td", { textContent: clock(node.onset ?? node.since, true) }),
      element("td", { class: "number", textContent: number(node.peak) }),
      element("td", { textContent: node.change.map((change) => change.text).join("; ") })));
    byId("incident-members").replaceChildren(...rows);
  }

  showLog(records, audit) {
    const rows = [
      ...records.map((one) => ({ time: one.time, what: EVENTS[one.event] ?? one.event, words: one.event === "incident.analyzed" ? `${one.details.kind}: ${one.summary}` : one.summary })),
      ...audit.map((one) => ({ time: one.time, what: one.action, words: `by ${one.who}`, clock: true })),
    ].sort((a, b) => a.time - b.time);
    byId("incident-log").replaceChildren(...rows.map((row) => element("li", {},
      element("time", { textContent: clock(row.time, true) }), element("span", { class: "kind", textContent: row.what }), ` ${row.words}`)));
  }

  showComments(comments) {
    byId("incident-comments").replaceChildren(...comments.map((one) => element("li", {},
      element("p", { class: "soft", textContent: `${one.who}, ${clock(one.time, true)}` }), element("p", { class: "words", textContent: one.text }))));
  }

  // The members and what they are linked to, on their own.
  showMap() {
    const { network, frame } = this.page;
    const place = byId("incident-near");
    place.hidden = !network;
    if (!network) return;
    const named = this.record.nodes.map((node) => node.name).join("\n");
    if (this.drawn?.network !== network || this.drawn.named !== named) {
      const part = neighbourhood(network, this.record.nodes.map((node) => this.page.index.get(node.name)).filter((v) => v !== undefined));
      this.drawn = { ...part, network, named };
      this.map.setNetwork(this.drawn);
    }
    if (frame?.states) this.map.setFrame(subframe(frame, this.drawn.nodes));
  }

  // The network may come later than the incident, and change under it.
  takeFrame() {
    if (this.id !== null && this.record) this.showMap();
  }

  async comment() {
    const text = byId("comment-text").value.trim();
    if (!text) return;
    await this.tell(byId("comment-error"), async () => {
      this.showComments((await post(`/api/v1/incidents/${encodeURIComponent(this.id)}/comments`, { text })).comments);
      byId("comment-text").value = "";
    });
  }

  async send(action, body) {
    await post(`/api/v1/incidents/${encodeURIComponent(this.id)}/${action}`, body);
    await this.refresh();
  }

  async tell(place, does) {
    place.hidden = true;
    try {
      await does();
    } catch (error) {
      place.textContent = error.message;
      place.hidden = false;
      if (error.status === 401) this.failed(error);
    }
  }
}
