// Numbers, times and durations in words, and small helpers for elements. Text only ever enters the page as text.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.includes("-") || name === "role" || name === "for") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const byId = (id) => document.getElementById(id);

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3)) return value.toExponential(1);
  return Number(value.toPrecision(digits)).toLocaleString("en-GB", { maximumFractionDigits: 6 });
}

// Below 1973 a time is a plain number, as in detector/events/model.py.
export const isUnix = (time) => time >= 1e8;

export function clock(time, withDate = false) {
  if (time === null || time === undefined) return "–";
  if (!isUnix(time)) return number(time, 8);
  const text = new Date(time * 1000).toISOString();
  return (withDate ? text.slice(0, 10) + " " : "") + text.slice(11, 19) + " UTC";
}

// As `clock`, with "T" and without the unit: what a field for a date and time takes.
export const fieldTime = (time) => new Date(time * 1000).toISOString().slice(0, 16);

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  for (const [name, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (Math.abs(seconds) >= size) return `${number(seconds / size, 2)} ${name}`;
  }
  if (seconds !== 0 && Math.abs(seconds) < 1) return Math.abs(seconds) < 1e-3 ? "less than 1 ms" : `${number(seconds * 1000, 2)} ms`;
  return `${number(seconds, 2)} s`;
}

// How long ago, in words; what is less than a second ago is now.
export const ago = (seconds) => (seconds < 1 ? "now" : `${duration(seconds)} ago`);

// A rate per second as "one in 3 d".
export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return null;
  return perSecond > 0 ? `one in ${duration(1 / perSecond)}` : "none";
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  return count >= 2 ** 20 ? `${number(count / 2 ** 20, 3)} MB` : `${number(count / 1024, 3)} kB`;
}

export function plural(count, word) {
  return `${count.toLocaleString("en-GB")} ${word}${count === 1 ? "" : "s"}`;
}

// Of the nodes of a record those that changed, and those that possibly did; as detector/events/wording.py.
export function splitNodes(nodes) {
  const changed = nodes.filter((node) => node.changed ?? node.state !== "suspected");
  return { changed, possibly: nodes.filter((node) => !changed.includes(node)) };
}

// "6 nodes changed, 3 possibly"
export function extent(nodes) {
  const { changed, possibly } = splitNodes(nodes);
  if (!changed.length && possibly.length) return `${plural(possibly.length, "node")} possibly changed`;
  return `${plural(changed.length, "node")} changed${possibly.length ? `, ${possibly.length.toLocaleString("en-GB")} possibly` : ""}`;
}

// Fills a <dl> in place, so that nothing flickers.
export function fillList(list, pairs) {
  while (list.children.length > pairs.length * (list.dataset.flat ? 2 : 1)) list.lastChild.remove();
  pairs.forEach(([term, value], i) => {
    let dt, dd;
    if (list.dataset.flat) {
      dt = list.children[2 * i] ?? list.appendChild(element("dt"));
      dd = list.children[2 * i + 1] ?? list.appendChild(element("dd"));
    } else {
      const row = list.children[i] ?? list.appendChild(element("div", {}, element("dt"), element("dd")));
      [dt, dd] = row.children;
    }
    if (dt.textContent !== term) dt.textContent = term;
    if (dd.textContent !== value) dd.textContent = value;
  });
}
