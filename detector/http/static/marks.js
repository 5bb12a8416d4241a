// One mark per state: a colour and a shape, so that neither is needed alone.

export const STATES = [
  { letter: "l", name: "learning", words: "learning" },
  { letter: "w", name: "watching", words: "watching" },
  { letter: "o", name: "out_of_range", words: "outside the learnt range: changes are hardly detectable" },
  { letter: "s", name: "suspected", words: "possibly changed" },
  { letter: "a", name: "alarmed", words: "changed" },
  { letter: "h", name: "held", words: "calm again, baseline held" },
  { letter: "x", name: "silent", words: "silent" },
  { letter: "k", name: "stuck", words: "stuck at one value" },
].map((state) => ({ ...state, label: state.name.replaceAll("_", " ") }));
export const byLetter = Object.fromEntries(STATES.map((state) => [state.letter, state]));
export const LOUD = "ahs"; // drawn last, on top

let cached = null;

export function colours() {
  if (cached) return cached;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  cached = Object.fromEntries(
    ["ink", "soft", "line", "panel", "edge", "link", "before", "now", "calm-low", "calm-high", ...STATES.map((s) => s.name)]
      .map((name) => [name, read(name)]),
  );
  cached.steps = Array.from({ length: 11 }, (_, i) => mixed(cached["calm-low"], cached["calm-high"], i / 10));
  return cached;
}

// Calls back after the reader's light or dark preference changed.
export function onTheme(callback) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    cached = null;
    callback();
  });
}

function mixed(low, high, share) {
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const [from, to] = [parts(low), parts(high)];
  return `rgb(${from.map((x, i) => Math.round(x + share * (to[i] - x))).join(" ")})`;
}

// `share` is the statistic over its threshold; it colours the nodes that are watched.
export function draw(context, letter, x, y, radius, share) {
  const colour = colours();
  const state = byLetter[letter] ?? byLetter.l;
  const r = LOUD.includes(letter) ? radius * 1.35 : radius;
  context.lineWidth = Math.max(1, radius / 4);
  context.strokeStyle = context.fillStyle = colour[state.name];
  context.beginPath();
  switch (letter) {
    case "w":
      context.fillStyle = colour.steps[Math.round(10 * Math.min(1, Math.max(0, share || 0)))];
      context.strokeStyle = colour.edge;
      context.lineWidth = Math.max(0.5, radius / 9);
      context.arc(x, y, r, 0, 2 * Math.PI);
      context.fill();
      break;
    case "s":
      context.moveTo(x, y - r); context.lineTo(x + r, y); context.lineTo(x, y + r); context.lineTo(x - r, y);
      context.closePath(); context.fill();
      context.strokeStyle = colour.ink;
      break;
    case "a":
      context.moveTo(x, y - r * 1.1); context.lineTo(x + r, y + r * 0.75); context.lineTo(x - r, y + r * 0.75);
      context.closePath(); context.fill();
      context.strokeStyle = colour.ink;
      break;
    case "h":
      context.rect(x - r * 0.8, y - r * 0.8, r * 1.6, r * 1.6); context.fill();
      context.strokeStyle = colour.ink;
      break;
    case "x":
      context.moveTo(x - r, y - r); context.lineTo(x + r, y + r); context.moveTo(x + r, y - r); context.lineTo(x - r, y + r);
      context.lineWidth = Math.max(1.5, radius / 2.5);
      break;
    case "k":
      context.rect(x - r, y - r * 0.35, r * 2, r * 0.7); context.fill();
      break;
    default:
      context.setLineDash([radius / 1.5, radius / 2.5]);
      context.arc(x, y, r, 0, 2 * Math.PI);
  }
  context.stroke();
  context.setLineDash([]);
}

export function icon(letter, share = 0.6) {
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  canvas.width = canvas.height = 40;
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  draw(context, letter, 10, 10.5, 6, share);
  return canvas;
}
