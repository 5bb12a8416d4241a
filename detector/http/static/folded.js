// A large network on the map: first its groups of linked nodes, then the nodes of the group that was chosen.

import { byLetter } from "./marks.js";
import { neighbourhood, subframe } from "./neighbourhood.js";
import { byId, plural } from "./words.js";

const LOUDEST = "ahskxolw"; // which state of a node is shown of its group

export class FoldedMap {
  // `map` draws whatever network it is given; `opened(name)` for a node, `said(text)` for the screen reader.
  constructor(map, opened, said) {
    Object.assign(this, { map, open: opened, said, network: null, frame: null, mode: "whole", part: null });
    this.button = byId("fold");
    this.button.addEventListener("click", () => this.show(this.mode === "groups" ? "whole" : "groups"));
  }

  setNetwork(network) {
    this.network = network;
    const large = network.groups.length > 0;
    this.button.hidden = !large;
    this.members = [];
    network.groups.forEach((group, node) => (this.members[group] ??= []).push(node));
    this.groups = large ? {
      names: this.members.map((nodes) => `${network.names[nodes[0]]} and ${nodes.length - 1} more`),
      counts: this.members.map((nodes) => nodes.length),
      places: network.group_places, links: network.group_links,
    } : null;
    this.show(large ? "groups" : "whole");
  }

  // "groups", "whole", or the number of a group: its nodes and those next to them.
  show(mode) {
    this.mode = mode;
    this.part = typeof mode === "number" ? neighbourhood(this.network, this.members[mode]) : null;
    this.button.textContent = mode === "groups" ? "All nodes" : mode === "whole" ? "Fold into groups" : "Back to the groups";
    this.map.choose(-1);
    this.map.setNetwork(mode === "groups" ? this.groups : (this.part ?? this.network));
    if (this.frame) this.setFrame(this.frame);
  }

  setFrame(frame) {
    this.frame = frame;
    if (this.mode === "groups") this.map.setFrame(this.grouped(frame));
    else this.map.setFrame(this.part ? subframe(frame, this.part.nodes) : frame);
  }

  grouped(frame) {
    const loudest = (nodes) => nodes.reduce((best, node) => Math.min(best, LOUDEST.indexOf(frame.states[node])), LOUDEST.length - 1);
    return {
      ...frame,
      states: this.members.map((nodes) => LOUDEST[loudest(nodes)]).join(""),
      statistic: this.members.map((nodes) => Math.max(...nodes.map((node) => frame.statistic[node] ?? -Infinity))).map((value) => (Number.isFinite(value) ? value : null)),
    };
  }

  // What was chosen on the map.
  opened(node) {
    if (this.mode !== "groups") return this.open(this.part ? this.part.names[node] : this.network.names[node]);
    this.show(node);
    const states = new Set([...this.map.frame.states].map((letter) => byLetter[letter].words));
    this.said(`${plural(this.members[node].length, "node")} and those next to them: ${[...states].join(", ")}`);
  }

  // A node of the whole network, wherever it is shown.
  choose(node) {
    if (node >= 0 && this.mode === "groups") this.show(this.network.groups[node]);
    this.map.choose(this.part ? this.part.nodes.indexOf(node) : node);
  }
}
