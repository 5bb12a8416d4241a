// Which view is shown, by the address: every view has one of its own, so that it can be sent to somebody.

import { byId } from "./words.js";

const VIEWS = [
  [/^\/(?:incidents)?$/, "overview"],
  [/^\/incidents\/([^/]+)$/, "incident"],
  [/^\/nodes\/([^/]+)$/, "node"],
  [/^\/silences$/, "silences"],
  [/^\/budget$/, "budget"],
  [/^\/audit$/, "audit"],
];

export const incidentPath = (id) => `/incidents/${encodeURIComponent(id)}`;
export const nodePath = (name) => `/nodes/${encodeURIComponent(name)}`;

export class Router {
  // `views` maps a name to {open(argument), close()}; both may be left out.
  constructor(views) {
    Object.assign(this, { views, view: null, argument: null });
    window.addEventListener("popstate", () => this.show());
    document.addEventListener("click", (event) => this.clicked(event));
  }

  go(path, replace = false) {
    if (path !== location.pathname) history[replace ? "replaceState" : "pushState"](null, "", path);
    this.show();
  }

  show() {
    const path = location.pathname;
    const [pattern, name] = VIEWS.find(([one]) => one.test(path)) ?? VIEWS[0];
    let argument = pattern.exec(path)?.[1] ?? null;
    try {
      argument = argument === null ? null : decodeURIComponent(argument);
    } catch {
      // not a name that we wrote: taken as it stands
    }
    if (name === this.view && argument === this.argument) return;
    if (this.view !== null) this.views[this.view]?.close?.();
    const first = this.view === null;
    Object.assign(this, { view: name, argument });
    for (const place of document.querySelectorAll("[data-view]")) place.hidden = place.dataset.view !== name;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.pathname === (path === "/incidents" ? "/" : path)) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!first) window.scrollTo(0, 0);
    this.views[name]?.open?.(argument);
    if (!first) document.querySelector(`[data-view="${name}"] h2`)?.focus({ preventScroll: true });
  }

  // Links within the page change the view; with a modifier the browser opens them as it always does.
  clicked(event) {
    const link = event.target.closest?.("a[href^='/']");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (!VIEWS.some(([one]) => one.test(link.pathname)) || link.target) return;
    event.preventDefault();
    this.go(link.pathname);
    if (link.hash) byId(link.hash.slice(1))?.scrollIntoView();
  }
}
