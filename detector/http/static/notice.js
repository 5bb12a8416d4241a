// Messages that everybody must get, seen and read out: they stand over the page until they are dismissed or old.

import { byId, element } from "./words.js";

const SHOWN_MS = 12000;

export class Notice {
  constructor() {
    this.place = byId("notice");
    this.timer = null;
    for (const kind of ["pointerenter", "focusin"]) this.place.addEventListener(kind, () => clearTimeout(this.timer));
    for (const kind of ["pointerleave", "focusout"]) this.place.addEventListener(kind, () => this.wait());
    this.place.addEventListener("keydown", (event) => event.key === "Escape" && this.hide());
  }

  // One at a time; the same again is not read out again.
  show(text) {
    this.wait();
    if (this.place.firstChild?.textContent === text) return;
    const button = element("button", { type: "button", textContent: "Dismiss" });
    button.addEventListener("click", () => this.hide());
    this.place.replaceChildren(element("p", { textContent: text }), button);
  }

  wait() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.hide(), SHOWN_MS);
  }

  hide() {
    clearTimeout(this.timer);
    this.place.replaceChildren();
  }
}
