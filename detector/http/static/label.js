// The form of a label, made from its one definition in the description of the interface.

import { get } from "./api.js";
import { fieldOf, valuesOf } from "./form.js";
import { clock, element, splitNodes } from "./words.js";

const OFFERED = 50; // nodes to choose from; others by the command line
let schema = null;

export async function loadLabel() {
  schema ??= (await get("/api/v1/openapi.json")).components.schemas.Label;
}

const bare = (field) => field.anyOf?.find((one) => one.type !== "null") ?? field;

// `now` holds the latest labels of the incident, `offered` the nodes to choose from, `members` those ticked before
// anybody has said which ones it was.
function labelFields(now, offered, members) {
  return Object.entries(schema.properties).map(([name, field]) => {
    const kind = bare(field);
    const words = field["x-words"] ?? {};
    const question = { name, label: field.title ?? name, value: now[name], long: field["x-long"] ?? false };
    if (kind.enum) return { ...question, choices: Object.keys(words).map((key) => [key, words[key]]) };
    if (kind.type === "array") return { ...question, options: offered, value: now[name] ?? members };
    return question;
  });
}

// What was said, in one line.
export function labelWords(labels) {
  const said = Object.entries(labels).filter(([name, value]) => name !== "time" && value !== null);
  const words = said.map(([name, value]) => (["type", "note"].includes(name) ? value : `${name} ${[value].flat().join(", ")}`));
  return words.join(" · ");
}

// One form on the page: made when the incident is opened, and again after somebody labelled it.
export class LabelForm {
  constructor(form, send) {
    Object.assign(this, { form, send, told: null, fields: [] });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
  }

  clear() {
    this.told = null;
    this.form.replaceChildren();
  }

  async show(record) {
    const told = JSON.stringify([record.incident, record.labels]);
    if (told === this.told) return; // what somebody is writing stays
    this.told = told;
    await loadLabel();
    const nodes = record.nodes.slice(0, OFFERED);
    const { changed } = splitNodes(nodes);
    this.fields = labelFields(record.labels ?? {}, nodes.map((node) => node.name), (changed.length ? changed : nodes).map((node) => node.name));
    this.error = element("p", { class: "trouble", role: "alert", hidden: true });
    const saved = record.labels ? `Labelled ${clock(record.labels.time, true)}: ${labelWords(record.labels)}` : "Not labelled yet.";
    this.form.replaceChildren(element("p", { class: "said", textContent: saved }), ...this.fields.flatMap((field) => fieldOf(field, "label")),
      this.error, element("div", { class: "actions" }, element("button", { type: "submit", class: "strong", textContent: "Save label" })));
  }

  async submit() {
    this.error.hidden = true;
    try {
      await this.send(valuesOf(this.form, this.fields));
    } catch (error) {
      this.error.textContent = error.message;
      this.error.hidden = false;
    }
  }
}
