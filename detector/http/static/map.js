// The network drawn on a canvas: nodes by state and statistic, links faint. Mouse, touch and keyboard.

import { byLetter, colours, draw, LOUD } from "./marks.js";

const MARGIN = 26;
const NAMED = 60; // with so many nodes on screen or fewer, each carries its name
const REACH = 16; // pixels around a node that count as the node

export class NetworkMap {
  // `opened(node)` when a node is chosen, `said(text)` for the screen reader.
  constructor(canvas, opened, said) {
    Object.assign(this, { canvas, opened, said, network: null, frame: null, near: null });
    Object.assign(this, { pointed: -1, chosen: -1, zoom: 1, centre: [0.5, 0.5], asked: false, held: null, pinch: null });
    this.touches = new Map();
    new ResizeObserver(() => this.redraw()).observe(canvas);
    canvas.addEventListener("pointerdown", (event) => this.pressed(event));
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerup", (event) => this.released(event));
    canvas.addEventListener("pointercancel", (event) => this.touches.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.point(-1));
    canvas.addEventListener("keydown", (event) => this.typed(event));
    canvas.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
  }

  setNetwork(network) {
    this.network = network;
    this.near = network.names.map(() => []);
    for (let i = 0; i < network.links.length; i += 2) {
      this.near[network.links[i]].push(network.links[i + 1]);
      this.near[network.links[i + 1]].push(network.links[i]);
    }
    this.box = [0, 1].map((axis) => Math.max(...network.places.map((place) => place[axis]), 0.05));
    this.pointed = -1;
    this.fit();
  }

  setFrame(frame) {
    this.frame = frame;
    this.redraw();
  }

  choose(node) {
    this.chosen = node;
    this.redraw();
  }

  fit() {
    this.zoom = 1;
    this.centre = this.box.map((side) => side / 2);
    this.redraw();
  }

  scaleBy(factor, at = null) {
    const zoom = Math.min(40, Math.max(1, this.zoom * factor));
    if (at) {
      const before = this.placeOf(at);
      this.zoom = zoom;
      this.measure();
      const after = this.placeOf(at);
      this.centre = this.centre.map((x, axis) => x + before[axis] - after[axis]);
    }
    this.zoom = zoom;
    if (zoom === 1) this.centre = this.box.map((side) => side / 2);
    this.redraw();
  }

  redraw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.paint();
    });
  }

  measure() {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    const sides = [this.width - 2 * MARGIN, this.height - 2 * MARGIN];
    // Drawn networks fill the frame, both sides within a factor of two of their true proportion.
    const natural = sides.map((side, axis) => side / this.box[axis]);
    const least = Math.min(...natural);
    this.unit = natural.map((unit) => Math.max(1, Math.min(unit, 2 * least)) * this.zoom);
  }

  screen(node) {
    const [x, y] = this.network.places[node];
    return [this.width / 2 + (x - this.centre[0]) * this.unit[0], this.height / 2 - (y - this.centre[1]) * this.unit[1]];
  }

  placeOf([x, y]) {
    return [this.centre[0] + (x - this.width / 2) / this.unit[0], this.centre[1] - (y - this.height / 2) / this.unit[1]];
  }

  paint() {
    if (!this.network || !this.canvas.clientWidth) return;
    this.measure();
    const density = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(this.width * density), Math.round(this.height * density)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const context = this.canvas.getContext("2d");
    context.setTransform(density, 0, 0, density, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const points = this.network.names.map((_, node) => this.screen(node));
    this.paintLinks(context, points);
    this.paintNodes(context, points);
  }

  paintLinks(context, points) {
    const { links } = this.network;
    const colour = colours();
    context.strokeStyle = colour.edge;
    // Many links would drown the nodes: the more there are, the fainter.
    context.globalAlpha = Math.min(0.45, Math.max(0.1, (16 * this.zoom) / Math.sqrt(links.length + 1)));
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 0; i < links.length; i += 2) {
      context.moveTo(...points[links[i]]);
      context.lineTo(...points[links[i + 1]]);
    }
    context.stroke();
    context.globalAlpha = 0.9;
    context.lineWidth = 1.8;
    context.strokeStyle = colour.link;
    for (const node of new Set([this.chosen, this.pointed])) {
      if (node < 0) continue;
      context.beginPath();
      for (const other of this.near[node]) {
        context.moveTo(...points[node]);
        context.lineTo(...points[other]);
      }
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  paintNodes(context, points) {
    const colour = colours();
    const inside = points.filter(([x, y]) => x > 0 && y > 0 && x < this.width && y < this.height).length;
    const order = points.map((_, node) => node).sort((a, b) => this.rank(a) - this.rank(b));
    // A group is as large as it has nodes.
    const counts = this.network.counts;
    const radius = Math.min(9, Math.max(3, (counts ? 0.17 : 0.24) * Math.sqrt((this.width * this.height) / Math.max(inside, 1))));
    const most = counts ? Math.max(...counts) : 1;
    const large = (node) => (counts ? radius * (0.7 + 1.1 * Math.sqrt(counts[node] / most)) : radius);
    for (const node of order) draw(context, this.letter(node), ...points[node], large(node), this.share(node));
    for (const [node, width] of [[this.chosen, 3], [this.pointed, 2]]) {
      if (node < 0) continue;
      context.strokeStyle = colour.link;
      context.lineWidth = width;
      context.beginPath();
      context.arc(...points[node], radius * 1.35 + 4, 0, 2 * Math.PI);
      context.stroke();
    }
    this.paintNames(context, points, order, radius, inside <= NAMED);
  }

  paintNames(context, points, order, radius, everyone) {
    const colour = colours();
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.lineWidth = 3;
    context.strokeStyle = colour.panel;
    context.fillStyle = colour.ink;
    const taken = [];
    const wanted = [this.pointed, this.chosen, ...order.filter((node) => everyone || LOUD.includes(this.letter(node))).reverse()];
    for (const node of new Set(wanted)) {
      if (node < 0 || taken.length >= (everyone ? 80 : 20)) continue;
      const name = short(this.network.names[node]);
      const width = context.measureText(name).width;
      const x = Math.min(Math.max(2, points[node][0] - width / 2), this.width - width - 2);
      const above = points[node][1] - radius * 1.4 - 5;
      const y = above < 12 ? points[node][1] + radius * 1.4 + 14 : above; // at the upper edge it stands below
      // Names may not cover each other; the first, which are the loudest, win.
      if (taken.some(([left, top, long]) => Math.abs(y - top) < 13 && x < left + long + 4 && left < x + width + 4)) continue;
      taken.push([x, y, width]);
      context.strokeText(name, x, y);
      context.fillText(name, x, y);
    }
  }

  letter(node) {
    return this.frame?.states?.[node] ?? "l";
  }

  share(node) {
    const value = this.frame?.statistic?.[node];
    return value === null || value === undefined || !this.frame.threshold ? 0 : value / this.frame.threshold;
  }

  rank(node) {
    return 2 * "lwokxhsa".indexOf(this.letter(node)) + Math.min(1, Math.max(0, this.share(node)));
  }

  describe(node) {
    const share = this.share(node);
    const level = this.frame?.threshold && Number.isFinite(share) ? `, statistic ${Math.round(100 * share)} % of threshold` : "";
    return `${this.network.names[node]}: ${byLetter[this.letter(node)].words}${level}`;
  }

  // ------------------------------------------------------------------------------------------ pointer

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  nearest([x, y], reach = REACH) {
    let best = -1, distance = reach ** 2;
    this.network?.names.forEach((_, node) => {
      const [a, b] = this.screen(node);
      const here = (a - x) ** 2 + (b - y) ** 2;
      if (here < distance) [best, distance] = [node, here];
    });
    return best;
  }

  point(node) {
    if (node === this.pointed) return;
    this.pointed = node;
    this.canvas.title = node < 0 ? "" : this.describe(node);
    this.redraw();
  }

  pressed(event) {
    if (!this.network) return;
    this.touches.set(event.pointerId, this.at(event));
    this.dragged = 0;
    if (this.zoom > 1) this.canvas.setPointerCapture(event.pointerId);
  }

  moved(event) {
    if (!this.network || !this.unit) return;
    const now = this.at(event);
    const before = this.touches.get(event.pointerId);
    if (!before) return this.point(this.nearest(now));
    if (this.touches.size === 2) {
      const [a, b] = this.touches.values();
      const apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
      this.touches.set(event.pointerId, now);
      const [c, d] = this.touches.values();
      this.scaleBy(Math.hypot(c[0] - d[0], c[1] - d[1]) / Math.max(apart, 1), [(c[0] + d[0]) / 2, (c[1] + d[1]) / 2]);
    } else if (this.zoom > 1) {
      this.centre = [this.centre[0] - (now[0] - before[0]) / this.unit[0], this.centre[1] + (now[1] - before[1]) / this.unit[1]];
      this.touches.set(event.pointerId, now);
      this.redraw();
    }
    this.dragged += Math.hypot(now[0] - before[0], now[1] - before[1]);
  }

  released(event) {
    if (!this.touches.delete(event.pointerId) || this.dragged > 8) return;
    const node = this.nearest(this.at(event), 26);
    if (node >= 0) this.opened(node);
  }

  wheeled(event) {
    if (!event.ctrlKey || !this.network) return; // without it the reader scrolls the page
    event.preventDefault();
    this.scaleBy(Math.exp(-event.deltaY / 200), this.at(event));
  }

  // ----------------------------------------------------------------------------------------- keyboard

  typed(event) {
    if (!this.network || event.ctrlKey || event.altKey || event.metaKey) return;
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in steps) this.step(steps[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && this.pointed >= 0) this.opened(this.pointed);
    else if (event.key === "+" || event.key === "=") this.scaleBy(1.5);
    else if (event.key === "-") this.scaleBy(1 / 1.5);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.point(-1);
    else return;
    event.preventDefault();
  }

  step([right, down]) {
    let best = -1;
    if (!this.unit) this.measure(); // a key may come before the first frame is painted
    if (this.pointed < 0) {
      // Begin where it matters most.
      best = this.network.names.reduce((top, _, node) => (top < 0 || this.rank(node) > this.rank(top) ? node : top), -1);
    } else {
      const [x, y] = this.screen(this.pointed);
      let least = Infinity;
      this.network.names.forEach((_, node) => {
        const [a, b] = this.screen(node);
        const along = (a - x) * right + (b - y) * down;
        const aside = Math.abs((a - x) * down) + Math.abs((b - y) * right);
        const cost = along + 2 * aside;
        if (node !== this.pointed && along > 0.5 && aside <= 2 * along && cost < least) [best, least] = [node, cost];
      });
    }
    if (best < 0) return;
    this.point(best);
    this.keepInView(best);
    this.said(this.describe(best));
  }

  keepInView(node) {
    const [x, y] = this.screen(node);
    if (x < 0 || y < 0 || x > this.width || y > this.height) this.centre = [...this.network.places[node]];
  }
}

function short(name) {
  return name.length > 24 ? `${name.slice(0, 23)}…` : name;
}
