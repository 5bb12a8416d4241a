// Silences and maintenance windows: what is in force, adding one, ending one.

import { get, post } from "./api.js";
import { fieldOf, valuesOf } from "./form.js";
import { byId, clock, duration, element } from "./words.js";

const EVERY_MS = 10000;
const LOCAL = Intl.DateTimeFormat().resolvedOptions().timeZone;
const STATES = { active: "● active", waiting: "○ scheduled", over: "ended" };
const SPANS = [["1800", "30 minutes"], ["7200", "2 hours"], ["28800", "8 hours"], ["86400", "1 day"], ["604800", "7 days"]];

export class SilencesPage {
  constructor(page, failed) {
    Object.assign(this, { page, failed, timer: null, groups: {}, proposed: [] });
    byId("silence-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.add();
    });
  }

  // Opens the form with these nodes filled in.
  propose(nodes, go) {
    this.proposed = nodes;
    go();
  }

  async open() {
    document.title = "silences – detector";
    await this.refresh();
    this.form();
  }

  close() {
    clearTimeout(this.timer);
    this.proposed = [];
  }

  async refresh() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), EVERY_MS);
    try {
      const { silences, groups } = await get("/api/v1/silences");
      this.groups = groups;
      byId("silences-list").replaceChildren(...(silences.length ? silences.map((one) => this.row(one)) : [element("tr", {}, element("td", { colSpan: 6, class: "soft", textContent: "None: all incidents are sent." }))]));
    } catch (error) {
      this.failed(error);
    }
  }

  row({ silence, state, until }) {
    const about = [...silence.nodes, ...silence.groups.map((group) => `group ${group}`)].join(", ");
    const again = `${silence.every === "once" ? "" : `, every ${silence.every}`}${silence.zone === "UTC" ? "" : ` (${silence.zone})`}`;
    const end = state === "active" ? `; until ${clock(until, true)}` : silence.ended !== null ? `; ended ${clock(silence.ended, true)}` : "";
    const button = element("button", { type: "button", textContent: "End", "aria-label": `End the silence of ${about}` });
    button.addEventListener("click", () => this.end(silence.id));
    return element("tr", { class: state },
      element("td", { class: state === "active" ? "silenced" : "", textContent: STATES[state] }),
      element("td", { textContent: about }),
      element("td", { textContent: `from ${clock(silence.begin, true)} for ${duration(silence.lasts)}${again}${end}` }),
      element("td", { textContent: silence.reason }), element("td", { textContent: silence.who }),
      element("td", {}, silence.configured || state === "over" ? "" : button));
  }

  form() {
    const groups = Object.keys(this.groups);
    this.fields = [
      { name: "nodes", label: "Nodes, separated by commas; * and ? are wildcards", value: this.proposed.join(", ") },
      ...(groups.length ? [{ name: "groups", label: "Groups", options: groups, value: [] }] : []),
      { name: "lasts", label: "Duration", choices: SPANS, value: "7200" },
      { name: "begin", label: "Start; leave empty for now", kind: "datetime-local" },
      { name: "zone", label: "Time zone", choices: [...new Set(["UTC", LOCAL])].map((zone) => [zone, zone]), value: "UTC" },
      { name: "every", label: "Repeat", choices: [["once", "once"], ["day", "every day at the same time"], ["week", "every week at the same time"]], value: "once" },
      { name: "reason", label: "Reason" },
    ];
    this.error = element("p", { class: "trouble", role: "alert", hidden: true });
    byId("silence-form").replaceChildren(...this.fields.flatMap((field) => fieldOf(field, "silence")), this.error,
      element("div", { class: "actions" }, element("button", { type: "submit", class: "strong", textContent: "Add silence" })));
    if (this.proposed.length) byId("silence-lasts")?.focus();
  }

  async add() {
    const values = valuesOf(byId("silence-form"), this.fields);
    // A comma may be part of a name: what is a whole name, or was proposed, is not cut.
    const given = (values.nodes ?? "").trim();
    const nodes = this.proposed.join(", ") === given ? this.proposed : this.page.index.has(given) ? [given] : given.split(",").map((one) => one.trim()).filter(Boolean);
    await this.tell(async () => {
      await post("/api/v1/silences", { ...values, nodes, lasts: Number(values.lasts) });
      this.proposed = [];
      this.form();
    });
  }

  async end(id) {
    await this.tell(() => post(`/api/v1/silences/${encodeURIComponent(id)}/end`, {}));
  }

  async tell(does) {
    this.error.hidden = true;
    try {
      await does();
      await this.refresh();
    } catch (error) {
      this.error.textContent = error.message;
      this.error.hidden = false;
      if (error.status === 401) this.failed(error);
    }
  }
}
