// What was found out about an incident after its alarm: a sentence each, and the numbers behind it on request.

import { clock, element, number } from "./words.js";

const ROWS = 20;
const NOT_SHOWN = new Set(["kind", "stage"]);
const TIMES = new Set(["since", "until", "time", "onset", "opened", "created"]);

const words = (key) => key.replaceAll("_", " ");
const isTable = (value) => Array.isArray(value) && value.length > 0 && value.every((row) => row && typeof row === "object" && !Array.isArray(row));

function plain(value, key = "") {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return TIMES.has(key) ? clock(value, true) : number(value);
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value) && !value.length) return "none";
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.map((one) => plain(one)).join(", ");
  if (Array.isArray(value)) return JSON.stringify(value);
  return Object.entries(value).map(([name, one]) => `${words(name)} ${plain(one, name)}`).join(", ");
}

const cell = (value, key) => element("td", { class: typeof value === "number" ? "number" : "", textContent: plain(value, key) });

// One row per key; a list of objects becomes a table of its own, cut to its first rows.
function details(data) {
  const rows = Object.entries(data).filter(([key]) => !NOT_SHOWN.has(key));
  const single = rows.filter(([, value]) => !isTable(value));
  const tables = rows.filter(([, value]) => isTable(value));
  const parts = [element("table", { class: "small" }, element("tbody", {}, ...single.map(([key, value]) =>
    element("tr", {}, element("th", { scope: "row", textContent: words(key) }), cell(value, key)))))];
  for (const [key, list] of tables) parts.push(listTable(words(key), list));
  return parts;
}

function listTable(title, list) {
  const columns = [...new Set(list.flatMap((row) => Object.keys(row)))];
  const left = list.length - ROWS;
  const caption = left > 0 ? `${title}, the first ${ROWS} of ${list.length}` : title;
  return element("table", { class: "small" },
    element("caption", { textContent: caption }),
    element("thead", {}, element("tr", {}, ...columns.map((key) => element("th", { scope: "col", textContent: words(key) })))),
    element("tbody", {}, ...list.slice(0, ROWS).map((row) => element("tr", {}, ...columns.map((key) => cell(row[key], key))))));
}

// `records` are those of `incident.analyzed`; `open` holds the ids whose numbers somebody unfolded.
export function findingList(records, open) {
  if (!records.length) return null;
  return element("ul", { class: "findings", "aria-label": "Findings" }, ...records.map((record) => {
    const fold = element("details", { open: open.has(record.id) },
      element("summary", {}, element("span", { class: "kind", textContent: `${words(record.details.kind ?? "")}: ` }), record.summary,
        element("span", { class: "soft", textContent: ` (${record.details.stage})` })),
      element("div", { class: "numbers" }, ...details(record.details)));
    fold.addEventListener("toggle", () => (fold.open ? open.add(record.id) : open.delete(record.id)));
    return element("li", { "data-kind": record.details.kind }, fold);
  }));
}
