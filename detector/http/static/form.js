// Fields of forms, made from a description, and what was filled in; for the dialog and for forms on pages.

import { element } from "./words.js";

// A field is {name, label, value, choices, options, long, secret, kind}. With `choices` it has one value, with
// `options` a list of them; `kind` is a type of <input>.
export function fieldOf({ name, label, value, choices, options, long, secret, kind, help }, prefix = "ask") {
  if (options) {
    return [element("fieldset", {}, element("legend", { textContent: label }), ...options.map((option) =>
      element("label", { class: "choice" }, element("input", { type: "checkbox", name, value: option, checked: value.includes(option) }), ` ${option}`)))];
  }
  if (choices) {
    return [element("fieldset", {}, element("legend", { textContent: label }), ...choices.map(([key, words]) =>
      element("label", { class: "choice" }, element("input", { type: "radio", name, value: key, checked: value === key }), ` ${words}`)))];
  }
  const input = long ? element("textarea", { rows: 3 }) : element("input", { type: secret ? "password" : (kind ?? "text"), autocomplete: "off" });
  Object.assign(input, { id: `${prefix}-${name}`, name, value: value ?? "" });
  if (kind === undefined) input.maxLength = 2000;
  const made = [element("label", { for: input.id, textContent: label }), input];
  if (help) made.push(element("p", { class: "soft small", textContent: help }));
  return made;
}

// What was filled in: empty fields are left out; a list whose boxes are all cleared is an empty list only if `cleared`.
export function valuesOf(form, fields, cleared = false) {
  const data = new FormData(form);
  const values = Object.fromEntries([...data].filter(([, value]) => value !== ""));
  for (const field of fields) {
    if (field.options && (cleared || data.has(field.name))) values[field.name] = data.getAll(field.name);
  }
  return values;
}
