// Puts the console together: one live stream, the views that show what it says, and the address that chooses one.

import { download, get, Refused, Stream, token } from "./api.js";
import { AuditPage } from "./audit.js";
import { BudgetPage } from "./budget.js";
import { Dialog } from "./dialog.js";
import { FoldedMap } from "./folded.js";
import { log, showFigures, showHealth, showLearning } from "./health.js";
import { IncidentPage } from "./incident_page.js";
import { Incidents } from "./incidents.js";
import { NetworkMap } from "./map.js";
import { onTheme, STATES } from "./marks.js";
import { NodePage } from "./node.js";
import { Notice } from "./notice.js";
import { nodePath, Router } from "./router.js";
import { SilencesPage } from "./silences.js";
import { StateLine } from "./states.js";
import { Legend, SensorTable } from "./table.js";
import { byId, plural } from "./words.js";

const STATUS_EVERY_MS = 4000;
const page = { network: null, version: null, frame: null, index: new Map() };

const say = (text) => (byId("spoken").textContent = text);
const notice = new Notice();
const ask = (question) => dialog.ask(question);
const dialog = new Dialog((again) => askToken("A token is required.", again));
const states = new StateLine();
const map = new NetworkMap(byId("map"), (node) => folded.opened(node), say);
const folded = new FoldedMap(map, openNode, say);
const table = new SensorTable((node) => openNode(page.network.names[node]));
const legend = new Legend();
const nodes = new NodePage(leaveNode, trouble);
const incidents = new Incidents(ask, alerted);
const silences = new SilencesPage(page, trouble);
const budget = new BudgetPage(ask, trouble);
const incident = new IncidentPage({
  act: (record, action) => incidents.act(record, action),
  silence: (record) => silences.propose(record.nodes.map((node) => node.name), () => router.go("/silences")),
  page, opened: openNode, said: say, failed: trouble,
});
const router = new Router({
  overview: { open: () => requestAnimationFrame(() => map.redraw()) },
  incident, node: nodes, silences, budget, audit: new AuditPage(trouble),
});
const stream = new Stream("/api/v1/live", heard, changed);

function heard(kind, data) {
  if (kind === "frame") takeFrame(data);
  else if (kind !== "replaced") takeRecord(data);
}

function takeFrame(frame) {
  if (frame.states === undefined) return;
  if (frame.network !== page.version) loadNetwork(frame.network);
  page.frame = frame;
  states.take(frame);
  incidents.tick(frame.watermark);
  showLearning(frame);
  showFigures(frame);
  const counts = {};
  for (const letter of frame.states) counts[letter] = (counts[letter] ?? 0) + 1;
  legend.update(counts);
  if (page.network && page.network.names.length === frame.states.length) {
    const words = STATES.filter((state) => counts[state.letter]).map((state) => `${counts[state.letter]} ${state.label}`);
    byId("map-summary").textContent = `${plural(frame.states.length, "sensor")}: ${words.join(", ")}`;
    folded.setFrame(frame);
    table.update(page.network, frame);
    incident.takeFrame(frame);
  }
}

// A page just opened has heard nothing yet: the latest word on each incident is a start.
function seedLog(records) {
  if (byId("log").children.length === 0) records.slice(0, 10).sort((a, b) => a.time - b.time).forEach(log);
}

function takeRecord(record) {
  log(record);
  if (record.incident && record.event.startsWith("incident.")) {
    incidents.take(record);
    incident.take(record);
  }
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
  folded.setNetwork(page.network);
  if (page.frame) takeFrame(page.frame);
}

async function loadStatus() {
  try {
    const status = await get("/api/v1/status");
    states.takeStatus(status);
    showHealth(status);
  } catch (error) {
    trouble(error);
  }
}

function openNode(name) {
  folded.choose(page.index.get(name) ?? -1);
  router.go(nodePath(name));
}

function leaveNode() {
  const chosen = map.chosen;
  router.go("/");
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
  states.connected(state);
  if (state === "refused") {
    line.textContent = "token required";
    askToken(why);
    return;
  }
  line.textContent = state === "up" ? "live" : state === "replaced" ? "too many pages are open, trying again in a minute" : "connection lost, trying again";
  if (state !== "up") return;
  page.version = null; // it may be another daemon by now
  incidents.load().then(seedLog, trouble);
  loadStatus();
}

// A daemon that is not reached fails with a TypeError; the first line of the page says that already.
function trouble(error) {
  if (error instanceof Refused) changed("refused", error.message);
  else if (!(error instanceof TypeError && states.connection !== "up")) notice.show(error.message);
}

function askToken(why, again = null) {
  if (again === null && dialog.asks === "Token") return; // what is being typed stays
  dialog.ask({
    title: "Token",
    words: `${why} It is kept until this tab is closed.`,
    fields: [{ name: "token", label: "Token of http.token, http.token_file or http.tokens", secret: true }],
    ok: "Use it",
    act: async (values) => {
      token.set(values.token ?? "");
      if (again) await again();
      stream.start();
      router.show();
    },
  });
}

// Names that begin as what was typed come first; Enter opens the first of them.
function found(wanted, most) {
  const low = wanted.toLowerCase();
  const names = page.network?.names ?? [];
  const first = names.filter((name) => name.toLowerCase().startsWith(low)).slice(0, most);
  return [...first, ...names.filter((name) => !first.includes(name) && name.toLowerCase().includes(low)).slice(0, most - first.length)];
}

byId("find-name").addEventListener("input", (event) => {
  const names = event.target.value ? found(event.target.value, 12) : [];
  byId("find-names").replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
});
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = byId("find-name").value;
  const name = page.index.has(wanted) ? wanted : found(wanted, 1)[0];
  if (!wanted || name === undefined) return notice.show(wanted ? `No sensor has a name that contains “${wanted}”.` : "Type a part of a sensor's name.");
  byId("find-name").value = "";
  openNode(name);
});
byId("zoom-in").addEventListener("click", () => map.scaleBy(1.6));
byId("zoom-out").addEventListener("click", () => map.scaleBy(1 / 1.6));
byId("zoom-fit").addEventListener("click", () => map.fit());
for (const [format, name] of [["csv", "incidents.csv"], ["json", "incidents.jsonl"]]) {
  byId(`export-${format}`).addEventListener("click", () => download(`/api/v1/export?format=${format}`, name).catch(trouble));
}
byId("token-button").addEventListener("click", () => askToken("Commands may require a token."));
onTheme(() => {
  legend.build();
  map.redraw();
  nodes.redraw();
  incident.redraw();
  budget.redraw();
});
setInterval(() => document.hidden || loadStatus(), STATUS_EVERY_MS);
router.show();
stream.start();
