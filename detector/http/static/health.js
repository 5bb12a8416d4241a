// Phase, learning, promise against what was observed, sources, sinks and the detector's own facts.

import { ago, byId, bytes, clock, duration, element, fillList, number, plural, rate } from "./words.js";
import { incidentPath } from "./router.js";

export function showLearning(frame) {
  const share = frame.stage ? frame.stage.share : frame.progress;
  const learning = frame.phase === "learning";
  byId("learning").hidden = !learning;
  if (!learning) return;
  const words = frame.stage ? `calibrating: ${frame.stage.name}` : "learning the baseline; no alarms until then";
  byId("learning-words").textContent = `${words} (${Math.round(100 * (share ?? 0))} %)`;
  byId("learning-bar").value = share ?? 0;
}

export function showFigures(frame) {
  fillList(byId("figures"), [
    ["nodes", frame.states.length.toLocaleString("en-GB")],
    ["samples/s", frame.rate === null ? "–" : number(frame.rate, 3)],
    ["stream time", clock(frame.watermark, true)],
  ]);
}

export function showHealth(status) {
  const trouble = [];
  if (status.state.failing) trouble.push(`The state cannot be saved: ${status.state.failing}`);
  for (const found of status.state.damages) trouble.push(`Damage was found in the state: ${found.damage}.`);
  byId("trouble").replaceChildren(...trouble.map((text) => element("span", { textContent: text })));
  byId("trouble").hidden = trouble.length === 0;
  showPromise(status);
  showParts(byId("sources"), status.sources, (source) => [
    source.lag === null ? null : `lag ${duration(source.lag)}`,
    ...held(source.partitions ?? {}),
    source.last_batch ? `last data ${ago(status.time - source.last_batch)}` : "no data yet",
  ]);
  showParts(byId("sinks"), status.sinks, (sink) => [
    sink.waiting ? `${plural(sink.waiting, "record")} waiting` : "nothing waiting",
    ...(sink.set_aside ? [`${plural(sink.set_aside, "record")} set aside`] : []),
  ]);
  const facts = byId("facts");
  facts.dataset.flat = "yes";
  const dropped = Object.entries(status.counts).filter(([name, count]) => count && !["received", "accepted"].includes(name));
  fillList(facts, [
    ["running for", duration(status.time - status.started)],
    ["ticks evaluated", status.ticks.toLocaleString("en-GB")],
    ["queued samples", `${status.queue.samples.toLocaleString("en-GB")} of ${status.queue.capacity.toLocaleString("en-GB")}`],
    ["discarded samples", dropped.length ? dropped.map(([name, count]) => `${count.toLocaleString("en-GB")} ${name}`).join(", ") : "none"],
    ["dictionary", `${status.dictionary_size} atoms, coverage ${number(status.coverage, 2)}`],
    ["latest snapshot", status.state.snapshot ? ago(status.time - status.state.snapshot) : "none yet"],
    ["journal since then", bytes(status.state.journal_bytes)],
    ["on disk", bytes(["database", "wal", "backups"].reduce((sum, part) => sum + (status.state.bytes[part] ?? 0), 0))],
    ...(status.report?.warnings ?? []).map((text) => ["warning", text]),
    ...(status.dry_run ? [["dry run", "nothing is sent to any sink"]] : []),
  ]);
}

function held(partitions) {
  const count = Object.values(partitions).reduce((sum, part) => sum + part.held, 0);
  return count ? [`${count.toLocaleString("en-GB")} samples wait for slower sources`] : [];
}

function showPromise(status) {
  const lines = [];
  const promised = rate(status.promised_rate);
  if (promised) {
    lines.push(element("p", {}, "False incidents promised: at most ", element("strong", { textContent: status.promise ?? promised }), ` in the whole network (${promised}).`));
    if (status.report?.budget && status.promise !== status.report.budget) {
      lines.push(element("p", { class: "soft", textContent: `The budget is ${status.report.budget}: the data so far do not support it fully.` }));
    }
    const observed = rate(status.observed_rate);
    const bad = status.observed_rate !== null && status.observed_rate > status.promised_rate;
    lines.push(element("p", {}, "Observed: ", element("strong", { textContent: observed ?? "not watched yet" }),
      status.observed_rate === 0 ? " labelled false so far." : observed ? ` by your labels${bad ? ", more than promised" : ""}.` : "."));
    lines.push(element("p", { class: "soft", textContent: `Quiet data come near the threshold ${number(status.quiet_ratio, 2)} times as often as in the baseline; the threshold follows.` }));
    const checked = status.report?.validated;
    if (checked?.ticks) {
      lines.push(element("p", { class: "soft", textContent: `Validated on ${number(checked.ticks, 6)} held-out ticks: ${checked.incidents} false incidents, ${number(checked.expected, 2)} expected.` }));
    }
  } else {
    lines.push(element("p", { class: "soft", textContent: status.phase === "learning" ? "Nothing is promised until learning is complete." : (status.report?.budget ?? "No promise.") }));
  }
  byId("promise").replaceChildren(...lines);
}

function showParts(list, parts, facts) {
  const rows = Object.entries(parts).map(([name, part]) => {
    const good = ["up", "ended", "idle"].includes(part.status);
    return element("li", {},
      element("span", { class: `state ${good ? "good" : "bad"}`, textContent: `${good ? "✓" : "✗"} ${part.status} ` }),
      element("strong", { textContent: name }),
      ` (${part.type}) `,
      element("span", { class: "soft", textContent: facts(part).filter(Boolean).join(", ") }),
      part.error ? element("div", { class: "bad", textContent: part.error }) : null,
      ...(part.trouble ?? []).map((text) => element("div", { class: "bad", textContent: text })));
  });
  list.replaceChildren(...(rows.length ? rows : [element("li", { class: "soft", textContent: "none" })]));
}

const LOGGED = 40;

export function log(record) {
  const list = byId("log");
  list.prepend(element("li", {}, element("time", { textContent: clock(record.time, true) }), record.incident ? element("a", { href: incidentPath(record.incident), textContent: record.summary }) : element("span", { textContent: record.summary })));
  while (list.children.length > LOGGED) list.lastChild.remove();
}
