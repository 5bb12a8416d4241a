// The one dialog: confirmations, labels, the token.

import { Refused } from "./api.js";
import { byId, element } from "./words.js";

export class Dialog {
  // `refused(again)` is called when the daemon wants a token for what was asked.
  constructor(refused) {
    Object.assign(this, { refused, question: null });
    this.dialog = byId("ask");
    byId("ask-cancel").addEventListener("click", () => this.dialog.close());
    byId("ask-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
  }

  // question: {title, words, extra, ok, fields: [{name, label, value, choices, options, long, secret}], act(values)}
  // A field with `choices` has one value, one with `options` a list of them.
  ask(question) {
    this.question = question;
    byId("ask-title").textContent = question.title;
    byId("ask-words").textContent = question.words ?? "";
    byId("ask-extra").replaceChildren(...(question.extra ? [question.extra] : []));
    byId("ask-ok").textContent = question.ok ?? "OK";
    byId("ask-error").hidden = true;
    byId("ask-fields").replaceChildren(...(question.fields ?? []).flatMap((field) => this.field(field)));
    if (!this.dialog.open) this.dialog.showModal();
  }

  field({ name, label, value, choices, options, long, secret }) {
    if (options) {
      return [element("fieldset", {}, element("legend", { textContent: label }), ...options.map((option) =>
        element("label", { class: "choice" }, element("input", { type: "checkbox", name, value: option, checked: value.includes(option) }), ` ${option}`)))];
    }
    if (choices) {
      return [element("fieldset", {}, element("legend", { textContent: label }), ...choices.map(([key, words]) =>
        element("label", { class: "choice" }, element("input", { type: "radio", name, value: key, checked: value === key }), ` ${words}`)))];
    }
    const input = long ? element("textarea", { rows: 3 }) : element("input", { type: secret ? "password" : "text", autocomplete: "off" });
    Object.assign(input, { id: `ask-${name}`, name, value: value ?? "", maxLength: 2000 });
    return [element("label", { for: input.id, textContent: label }), input];
  }

  async submit() {
    const { question } = this;
    const form = new FormData(byId("ask-form"));
    const lists = (question.fields ?? []).filter((field) => field.options && form.has(field.name));
    const values = Object.fromEntries([...form].filter(([, value]) => value !== ""));
    for (const { name } of lists) values[name] = form.getAll(name);
    byId("ask-ok").disabled = true;
    try {
      await question.act(values);
      if (this.question === question) this.dialog.close();
    } catch (error) {
      if (error instanceof Refused) this.refused(() => question.act(values));
      else this.fail(error.message);
    } finally {
      byId("ask-ok").disabled = false;
    }
  }

  fail(text) {
    byId("ask-error").textContent = text;
    byId("ask-error").hidden = false;
  }
}
