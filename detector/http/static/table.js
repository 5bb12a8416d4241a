// The sensors as a table, for those who do not see the map: strongest first, found by name or state.

import { STATES, byLetter, icon } from "./marks.js";
import { byId, element, number } from "./words.js";

const MOST = 100;

export class SensorTable {
  constructor(opened) {
    Object.assign(this, { opened, network: null, frame: null, rows: [] });
    this.fold = byId("table-fold");
    this.body = byId("table-body");
    for (const state of STATES) byId("table-state").append(element("option", { value: state.letter, textContent: state.label }));
    this.fold.addEventListener("toggle", () => this.show());
    byId("table-name").addEventListener("input", () => this.show());
    byId("table-state").addEventListener("change", () => this.show());
  }

  update(network, frame) {
    Object.assign(this, { network, frame });
    // While somebody is in the table, rows keep their place: what is pressed must be what was read.
    if (!this.body.contains(document.activeElement)) this.show();
  }

  show() {
    if (!this.fold.open || !this.network || !this.frame?.states) return;
    const { names } = this.network;
    const { states, statistic, threshold } = this.frame;
    const wanted = byId("table-name").value.toLowerCase();
    const state = byId("table-state").value;
    const value = (node) => statistic[node] ?? -Infinity;
    const found = names.map((_, node) => node)
      .filter((node) => names[node].toLowerCase().includes(wanted) && (!state || states[node] === state))
      .sort((a, b) => value(b) - value(a));
    const shown = found.slice(0, MOST);
    byId("table-caption").textContent = `${shown.length} of ${names.length} sensors, largest statistic first`;
    while (this.rows.length > shown.length) this.rows.pop().row.remove();
    shown.forEach((node, i) => this.fill(this.rows[i] ?? this.add(), node, states[node], statistic[node], threshold));
  }

  add() {
    const button = element("button", { type: "button", class: "plain" });
    const made = { button, state: element("td"), value: element("td", { class: "number" }), share: element("td", { class: "number" }) };
    made.row = element("tr", {}, element("th", { scope: "row" }, button), made.state, made.value, made.share);
    button.addEventListener("click", () => this.opened(made.node));
    this.rows.push(made);
    this.body.append(made.row);
    return made;
  }

  fill(row, node, letter, value, threshold) {
    row.node = node;
    row.button.textContent = this.network.names[node];
    row.state.textContent = byLetter[letter]?.label ?? "";
    row.value.textContent = number(value);
    row.share.textContent = threshold && value !== null ? `${Math.round((100 * value) / threshold)} %` : "–";
  }
}

export class Legend {
  constructor() {
    this.list = byId("legend");
    this.counts = {};
    this.build();
  }

  // Anew after a change between light and dark: the marks are drawn.
  build() {
    this.list.replaceChildren();
    this.words = {};
    for (const state of STATES) {
      this.words[state.letter] = element("span");
      this.list.append(element("li", { title: state.words }, icon(state.letter), this.words[state.letter]));
    }
    this.list.append(element("li", {}, "statistic: none", element("span", { class: "scale" }), "at threshold"));
    this.update(this.counts);
  }

  update(counts) {
    this.counts = counts;
    for (const state of STATES) this.words[state.letter].textContent = `${state.label} ${counts[state.letter] ?? 0}`;
  }
}
