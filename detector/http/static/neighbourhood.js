// A part of the network on its own: some nodes, and those next to them.

const MOST = 400;

// `nodes` are numbers in `network`; the result is a network itself, and says which of its nodes are which.
export function neighbourhood(network, nodes, hops = 1) {
  const near = network.names.map(() => []);
  for (let i = 0; i < network.links.length; i += 2) {
    near[network.links[i]].push(network.links[i + 1]);
    near[network.links[i + 1]].push(network.links[i]);
  }
  const inside = new Set(nodes);
  let edge = [...inside];
  for (let hop = 0; hop < hops; hop += 1) {
    const next = new Set();
    for (const node of edge) for (const other of near[node]) if (!inside.has(other) && inside.size + next.size < MOST) next.add(other);
    for (const node of next) inside.add(node);
    edge = [...next];
  }
  const kept = [...inside].sort((a, b) => a - b);
  const place = new Map(kept.map((node, i) => [node, i]));
  const links = [];
  for (const node of kept) for (const other of near[node]) if (other > node && place.has(other)) links.push(place.get(node), place.get(other));
  const places = unit(kept.map((node) => network.places[node]));
  return { nodes: kept, names: kept.map((node) => network.names[node]), links, places, members: new Set(nodes.map((node) => place.get(node))) };
}

// The states of these nodes, as a frame of their own.
export function subframe(frame, nodes) {
  return { ...frame, states: nodes.map((node) => frame.states[node]).join(""), statistic: nodes.map((node) => frame.statistic[node]) };
}

function unit(places) {
  const low = [0, 1].map((axis) => Math.min(...places.map((place) => place[axis])));
  const span = Math.max(...[0, 1].map((axis) => Math.max(...places.map((place) => place[axis])) - low[axis])) || 1;
  return places.map((place) => [0, 1].map((axis) => (place[axis] - low[axis]) / span));
}
