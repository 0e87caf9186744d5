// What changes while the server works: asks pages/activity.json every two seconds while somebody looks at the page.

import { buildElement, fetchModel, fillTemplate, find } from "./page.js";
import { renderFact } from "./parts.js";

const PERIOD_MS = 2000;
const SHOWN_REQUESTS = 20;
const SECTIONS = ["activity", "upstreams", "model-activity", "requests"];
const OUTCOME_CLASSES = { ok: "pass", incomplete: "pass", client_gone: "faint", client_error: "skipped", limited: "skipped" };

let timer = 0;
let isPaused = false;
let last = null;

/** Shows the activity to a reader who may see it, with this key if the server has keys. */
export function setUpActivity(page, key) {
  clearTimeout(timer);
  find("activity").hidden = page.activity === "hidden";
  find("activity-pause").hidden = page.activity !== "shown";
  if (page.activity === "off") {
    find("activity-status").textContent = "Nothing is counted, because metrics are off (metrics.enabled).";
  }
  if (page.activity === "shown") update(page, key ? { authorization: `Bearer ${key}` } : {});
}

async function update(page, headers) {
  if (!document.hidden && !isPaused) {
    try {
      render(page, await fetchModel("pages/activity.json", headers));
      find("activity-status").textContent = "";
    } catch (error) {
      find("activity-status").textContent = `${error.message} What follows is of earlier.`;
    }
  }
  timer = setTimeout(update, PERIOD_MS, page, headers);
}

function render(page, activity) {
  last = activity;
  for (const id of SECTIONS) find(id).classList.add("live");
  renderFacts(activity);
  renderUpstreams(page, activity);
  find("model-activity").hidden = activity.models.length === 0;
  find("model-activity").querySelector("tbody").replaceChildren(...activity.models.map(renderModel));
  find("requests").hidden = false;
  renderRequests();
}

function renderFacts(activity) {
  const failed = buildElement("span", `${activity.failed} failed`, activity.failed ? "fail" : "");
  const counts = document.createDocumentFragment();
  counts.append(`${activity.requests} in the last ${writePeriod(activity.seconds)}, `, failed, `, ${activity.limited} limited`);
  const facts = [
    ["Requests", counts],
    ["Now", `${activity.streams_open} streams open, ${activity.waiting} waiting for a free upstream`],
    ["Workers", `${activity.workers}${activity.is_draining ? ", the server is stopping" : ""}`],
  ];
  if (activity.lost) facts.push(["Figures", "Some are missing: there are too many names (gateway_series_dropped_total)."]);
  find("activity-facts").replaceChildren(...facts.flatMap(([name, value]) => renderFact(name, value)));
}

/** Fills the cells behind the conditions. Upstreams that are no provider's only one get a row of their own. */
function renderUpstreams(page, activity) {
  const body = find("upstreams").querySelector("tbody");
  const known = new Set(page.upstreams.map((upstream) => upstream.name));
  for (const row of body.querySelectorAll("[data-added]")) row.remove();
  for (const upstream of activity.upstreams.filter((each) => !known.has(each.name))) {
    const row = fillTemplate("upstream-template", { name: upstream.name, type: "", detail: "" });
    row.dataset.added = "";
    body.append(row);
  }
  find("upstreams").hidden = body.childElementCount === 0;
  const byName = new Map(activity.upstreams.map((upstream) => [upstream.name, upstream]));
  for (const row of body.children) {
    const name = row.querySelector("th").textContent;
    const upstream = byName.get(name);
    if (upstream) fillUpstream(row, upstream, page.upstreams.find((each) => each.name === name));
  }
}

function fillUpstream(row, upstream, condition) {
  const place = (name) => row.querySelector(`[data-live=${name}]`);
  place("in_flight").textContent = upstream.in_flight;
  place("attempts").textContent = upstream.attempts;
  const reasons = upstream.failures.map((each) => `${each.count} ${each.result}`).join(", ");
  const failed = `${writeShare(upstream.failed, upstream.attempts)}${reasons ? `: ${reasons}` : ""}`;
  place("failed").replaceChildren(buildElement("span", failed, upstream.failed ? "fail wrap" : ""));
  place("first_content").textContent = writeTimes(upstream.first_content);
  const detail = row.querySelector("td span");
  const isHeld = upstream.models.length > 0;
  detail.textContent = isHeld ? `${upstream.state} for ${upstream.models.join(", ")}` : condition?.detail || upstream.state;
  const verdict = isHeld ? "fail" : { true: "pass", false: "fail" }[condition?.is_usable] ?? "faint";
  detail.className = `${verdict} wrap`;
}

function renderModel(model) {
  const row = fillTemplate("model-activity-template", {
    ...model,
    failed: writeShare(model.failed, model.requests),
    first_content: writeTimes(model.first_content),
    seconds: writeTimes(model.seconds),
  });
  row.querySelector("span").className = model.failed ? "fail" : "";
  return row;
}

function renderRequests() {
  const choice = find("request-choice").value;
  const wanted = {
    latest: (entries) => entries,
    failed: (entries) => entries.filter((entry) => !["ok", "incomplete", "client_gone"].includes(entry.outcome)),
    slowest: (entries) => entries.toSorted((one, other) => other.total_ms - one.total_ms),
  }[choice](last.entries).slice(0, SHOWN_REQUESTS);
  find("no-requests").hidden = wanted.length > 0;
  find("requests").querySelector("table").hidden = wanted.length === 0;
  find("requests").querySelector("tbody").replaceChildren(...wanted.map(renderRequest));
}

function renderRequest(entry) {
  const retried = entry.attempts > 1 ? `after ${entry.tried || `${entry.attempts - 1} more`}` : "";
  const row = fillTemplate("request-template", {
    ...entry,
    time: new Date(entry.ended_at * 1000).toTimeString().slice(0, 8),
    detail: [entry.status, entry.error, retried].filter(Boolean).join(" "),
    first_content: writeMs(entry.first_content_ms),
    total: writeMs(entry.total_ms),
    parts: [entry.upstream_ms, entry.queue_ms, entry.own_ms].map(writeMs).join(" · "),
    tokens: [entry.input_tokens, entry.output_tokens].map((count) => count ?? "–").join(" · "),
    origin: [entry.client, entry.route].filter(Boolean).join(", "),
  });
  row.querySelector("[data-text=outcome]").className = OUTCOME_CLASSES[entry.outcome] ?? "fail";
  return row;
}

function writePeriod(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} seconds` : `${Math.round(seconds / 60)} minutes`;
}

function writeShare(count, all) {
  return all ? `${count} (${Math.round((100 * count) / all)}\u00a0%)` : "0";
}

function writeTimes(times) {
  return times.count ? `${writeMs(times.p50 * 1000)} · ${writeMs(times.p95 * 1000)}` : "–";
}

function writeMs(ms) {
  if (ms === null) return "–";
  if (ms >= 9950) return `${(ms / 1000).toFixed(0)} s`;
  return ms >= 995 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(ms < 9.95 ? 1 : 0)} ms`;
}

// What changes by itself can be stopped by whoever reads it.
find("activity-pause").addEventListener("click", (event) => {
  isPaused = !isPaused;
  event.target.textContent = isPaused ? "Go on" : "Pause the figures";
  find("activity-status").textContent = isPaused ? "Paused: the figures do not change." : "";
});
find("request-choice").addEventListener("change", () => last && renderRequests());
