// The form of a label, made from its one definition in the description of the interface.

import { get } from "./api.js";

let schema = null;

export async function loadLabel() {
  schema ??= (await get("/api/v1/openapi.json")).components.schemas.Label;
}

const bare = (field) => field.anyOf?.find((one) => one.type !== "null") ?? field;

// `now` holds the latest labels of the incident, `offered` the nodes to choose from.
export function labelFields(now, offered) {
  return Object.entries(schema.properties).map(([name, field]) => {
    const kind = bare(field);
    const words = field["x-words"] ?? {};
    const question = { name, label: field.title ?? name, value: now[name], long: field["x-long"] ?? false };
    if (kind.enum) return { ...question, choices: Object.keys(words).map((key) => [key, words[key]]) };
    if (kind.type === "array") return { ...question, options: offered, value: now[name] ?? [] };
    return question;
  });
}

// What was said, in one line.
export function labelWords(labels) {
  const said = Object.entries(labels).filter(([name, value]) => name !== "time" && value !== null);
  const words = said.map(([name, value]) => (["type", "note"].includes(name) ? value : `${name} ${[value].flat().join(", ")}`));
  return words.join(" · ");
}
