// The one dialog: confirmations, the token.

import { Refused } from "./api.js";
import { fieldOf, valuesOf } from "./form.js";
import { byId } from "./words.js";

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
  // A field is what `fieldOf` of form.js takes.
  ask(question) {
    this.question = question;
    byId("ask-title").textContent = question.title;
    byId("ask-words").textContent = question.words ?? "";
    byId("ask-extra").replaceChildren(...(question.extra ? [question.extra] : []));
    byId("ask-ok").textContent = question.ok ?? "OK";
    byId("ask-error").hidden = true;
    byId("ask-fields").replaceChildren(...(question.fields ?? []).flatMap((field) => fieldOf(field)));
    if (!this.dialog.open) this.dialog.showModal();
  }

  // The title of what is being asked.
  get asks() {
    return this.dialog.open ? this.question.title : null;
  }

  async submit() {
    const { question } = this;
    const values = valuesOf(byId("ask-form"), question.fields ?? []);
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
