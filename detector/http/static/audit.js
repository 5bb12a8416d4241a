// The audit trail: who did what, when.

import { get } from "./api.js";
import { incidentPath } from "./router.js";
import { byId, clock, element } from "./words.js";

const OF_INCIDENTS = new Set(["accept", "clear", "label", "comment"]);

export class AuditPage {
  constructor(failed) {
    this.failed = failed;
  }

  async open() {
    document.title = "audit – detector";
    try {
      const { audit } = await get("/api/v1/audit");
      byId("audit-list").replaceChildren(...(audit.length ? audit.map(row) : [element("tr", {}, element("td", { colSpan: 5, class: "soft", textContent: "No entries yet." }))]));
    } catch (error) {
      this.failed(error);
    }
  }
}

function row(deed) {
  const of = OF_INCIDENTS.has(deed.action) ? element("a", { href: incidentPath(deed.subject), textContent: deed.subject }) : deed.subject;
  const details = Object.entries(deed.details).filter(([, value]) => value !== null && value !== "").map(([name, value]) => `${name}: ${[value].flat().join(", ")}`);
  return element("tr", {}, element("td", { textContent: clock(deed.time, true) }), element("td", { textContent: deed.who }),
    element("td", { textContent: deed.action }), element("td", {}, of), element("td", { textContent: details.join("; ") }));
}
