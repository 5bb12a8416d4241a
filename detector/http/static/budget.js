// The budget: what others would have raised in the time that is stored, and choosing another one.

import { get, post } from "./api.js";
import { colours } from "./marks.js";
import { TimeChart, TimeGroup } from "./time_chart.js";
import { byId, clock, duration, element, fillList, number, plural } from "./words.js";

export class BudgetPage {
  // `ask` opens the dialog for a confirmation.
  constructor(ask, failed) {
    Object.assign(this, { ask, failed, view: null, looked: null, further: null });
    this.group = new TimeGroup();
    byId("budget-tools").replaceChildren(this.group.tools("Time that is shown"));
    this.chart = new TimeChart(byId("budget-chart"), this.group, 230);
    byId("budget-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.further = byId("budget-words").value.trim() || null;
      this.looked = this.further;
      this.refresh();
    });
    byId("budget-back").addEventListener("click", () => this.choose(null, this.view.configured));
  }

  open() {
    document.title = "budget – detector";
    this.group.shown = null;
    this.refresh();
  }

  close() {
    this.chart.clear();
  }

  redraw() {
    this.chart.clear();
    if (this.view?.rows.length && !byId("budget-body").hidden) this.draw();
  }

  async refresh() {
    const error = byId("budget-error");
    error.hidden = true;
    try {
      this.show(await get(`/api/v1/budget${this.further ? `?budget=${encodeURIComponent(this.further)}` : ""}`));
    } catch (problem) {
      if (problem.status !== 400) return this.failed(problem);
      this.further = this.looked = null;
      error.textContent = problem.message;
      error.hidden = false;
    }
  }

  show(view) {
    this.view = view;
    const { chosen } = view;
    fillList(byId("budget-facts"), [
      ["in use", view.budget ?? "none"],
      ["promised so far", view.promise ?? "–"],
      ["in the configuration", view.configured],
      ...(chosen ? [["chosen here", `${clock(chosen.time, true)} by ${chosen.who}`]] : []),
    ]);
    byId("budget-back").hidden = !chosen;
    const none = view.rows.length === 0;
    byId("budget-none").hidden = !none;
    byId("budget-none").textContent = view.budget === null ? "There is no budget to compare: the baseline is not learnt yet, or the engine has a fixed threshold." : "Nothing is stored yet that budgets could be compared on.";
    byId("budget-body").hidden = none;
    if (none) return;
    byId("budget-words-of").textContent = `Stored: ${clock(view.since, true)} to ${clock(view.until, true)} (${duration(view.until - view.since)}), in which ${plural(view.recorded, "incident")} opened.`;
    byId("budget-list").replaceChildren(...view.rows.map((row) => this.row(row)));
    this.draw();
  }

  row(row) {
    const look = element("button", { type: "button", class: "plain", textContent: row.budget, "aria-pressed": String(this.shown() === row), title: "Show its threshold in the chart" });
    look.addEventListener("click", () => {
      this.looked = row.budget;
      this.show(this.view);
    });
    const use = element("button", { type: "button", textContent: "Use", "aria-label": `Use ${row.budget}` });
    use.addEventListener("click", () => this.choose(row.budget, row.budget));
    return element("tr", { class: row.in_use ? "active" : "" },
      element("th", { scope: "row" }, look),
      element("td", { class: "number", textContent: number(row.threshold) }),
      element("td", { class: "number", textContent: row.events.toLocaleString("en-GB") }),
      element("td", { class: "number", textContent: number(row.allowed) }),
      element("td", {}, row.in_use ? "in use" : use));
  }

  shown() {
    return this.view.rows.find((row) => row.budget === this.looked) ?? this.view.rows.find((row) => row.in_use);
  }

  draw() {
    const { view } = this;
    const colour = colours();
    const level = (value) => view.times.map(() => value);
    const now = view.rows.find((row) => row.in_use);
    const shown = this.shown();
    this.group.setWhole(view.since, view.until);
    const lines = [{ label: "highest event statistic", stroke: colour.ink, values: view.highest },
      { label: `present threshold (${now.budget})`, stroke: colour.before, dash: [6, 4], values: level(now.threshold) }];
    if (shown !== now) lines.push({ label: `threshold of ${shown.budget}`, stroke: colour.now, width: 2, dash: [2, 4], values: level(shown.threshold) });
    this.chart.show(view.times, lines, { top: Math.max(now.threshold, shown.threshold) });
    byId("budget-chart").setAttribute("aria-label", `Highest event statistic from ${clock(view.since, true)} to ${clock(view.until, true)}; threshold of ${shown.budget}: ${number(shown.threshold)}, exceeded ${plural(shown.events, "time")}`);
  }

  choose(budget, words) {
    this.ask({
      title: `Use the budget ${words}?`,
      words: budget === null ? "The budget of the configuration file applies again." : "It applies from now on and survives restarts, until alarm.budget is changed in the configuration file or another budget is chosen here. Nothing is learnt again.",
      ok: "Use it",
      act: async () => {
        this.further = this.looked = null;
        this.show(await post("/api/v1/budget", { budget }));
      },
    });
  }
}
