// Puts the page together: one live stream, and everything that shows what it says.

import { get, Refused, Stream, token } from "./api.js";
import { Dialog } from "./dialog.js";
import { Figures, log, showHealth, showPhase } from "./health.js";
import { Incidents } from "./incidents.js";
import { NetworkMap } from "./map.js";
import { onTheme, STATES } from "./marks.js";
import { NodePanel } from "./node.js";
import { Legend, SensorTable } from "./table.js";
import { byId, plural } from "./words.js";

const STATUS_EVERY_MS = 4000;
const page = { network: null, version: null, frame: null, index: new Map() };

const dialog = new Dialog((again) => askToken("This needs a token.", again));
const map = new NetworkMap(byId("map"), (node) => openNode(page.network.names[node]), (text) => (byId("spoken").textContent = text));
const table = new SensorTable((node) => openNode(page.network.names[node]));
const legend = new Legend();
const figures = new Figures();
const panel = new NodePanel(openNode, closeNode, trouble);
const incidents = new Incidents((question) => dialog.ask(question), openNode, alerted);
const stream = new Stream("/api/v1/live", heard, changed);

function heard(kind, data) {
  if (kind === "frame") takeFrame(data);
  else if (kind !== "replaced") takeRecord(data);
}

function takeFrame(frame) {
  if (frame.states === undefined) return;
  if (frame.network !== page.version) loadNetwork(frame.network);
  page.frame = frame;
  showPhase(frame);
  figures.update(frame);
  const counts = {};
  for (const letter of frame.states) counts[letter] = (counts[letter] ?? 0) + 1;
  legend.update(counts);
  const words = STATES.filter((state) => counts[state.letter]).map((state) => `${counts[state.letter]} ${state.name}`);
  byId("map-summary").textContent = `${plural(frame.states.length, "sensor")}: ${words.join(", ")}`;
  if (page.network && page.network.names.length === frame.states.length) {
    map.setFrame(frame);
    table.update(page.network, frame);
  }
  document.title = frame.incidents ? `(${frame.incidents}) detector` : "detector";
}

// A page just opened has heard nothing yet: the latest word on each incident is a start.
function seedLog(records) {
  if (byId("log").children.length === 0) records.slice(0, 10).sort((a, b) => a.time - b.time).forEach(log);
}

function takeRecord(record) {
  log(record);
  if (record.incident && record.event.startsWith("incident.")) incidents.take(record);
  if (record.event === "detector.calibrated") loadStatus();
}

async function loadNetwork(version) {
  page.version = version;
  try {
    page.network = await get("/api/v1/network");
  } catch (error) {
    page.version = null;
    return trouble(error);
  }
  page.index = new Map(page.network.names.map((name, node) => [name, node]));
  map.setNetwork(page.network);
  if (page.frame) takeFrame(page.frame);
}

async function loadStatus() {
  try {
    showHealth(await get("/api/v1/status"));
  } catch (error) {
    trouble(error);
  }
}

function openNode(name) {
  map.choose(page.index.get(name) ?? -1);
  return panel.open(name);
}

function closeNode() {
  const chosen = map.chosen;
  map.choose(-1);
  map.point(chosen);
  byId("map").focus({ preventScroll: true });
}

function alerted(text) {
  const line = document.createElement("span");
  line.textContent = text;
  byId("alerted").replaceChildren(line);
}

function changed(state, why) {
  const line = byId("connection");
  line.className = `connection ${state}`;
  if (state === "refused") {
    line.textContent = "a token is needed";
    askToken(why);
    return;
  }
  line.textContent = state === "up" ? "live" : state === "replaced" ? "too many pages are open, trying again in a minute" : "connection lost, trying again";
  if (state !== "up") return;
  page.version = null; // it may be another daemon by now
  incidents.load().then(seedLog, trouble);
  loadStatus();
}

// What cannot be shown now comes with the next refresh; the stream itself says when it is lost.
function trouble(error) {
  if (error instanceof Refused) changed("refused", error.message);
  else byId("spoken").textContent = error.message;
}

function askToken(why, again = null) {
  dialog.ask({
    title: "Token",
    words: `${why} It is kept until this tab is closed.`,
    fields: [{ name: "token", label: "Token of http.token or http.token_file", secret: true }],
    ok: "Use it",
    act: async (values) => {
      token.set(values.token ?? "");
      if (again) await again();
      stream.start();
    },
  });
}

byId("zoom-in").addEventListener("click", () => map.scaleBy(1.6));
byId("zoom-out").addEventListener("click", () => map.scaleBy(1 / 1.6));
byId("zoom-fit").addEventListener("click", () => map.fit());
byId("token-button").addEventListener("click", () => askToken("Commands may need a token."));
onTheme(() => {
  legend.build();
  map.redraw();
  panel.redraw();
});
setInterval(() => document.hidden || loadStatus(), STATUS_EVERY_MS);
stream.start();
