// The page /: shows pages/home.json, lists models for a key, and copies examples.

import { setUpActivity } from "./activity.js";
import { BASE_URL, buildElement, fetchModel, fillTemplate, fillTexts, find, showPage } from "./page.js";
import { buildSnippet, renderFact } from "./parts.js";
import { setUpPlayground } from "./playground.js";

const STATUS_CLASSES = { ready: "pass", degraded: "skipped", starting: "skipped" };

function renderPage(page) {
  renderFacts(page);
  find("key-form").hidden = page.models !== null;
  find("doctor").hidden = page.models === null;
  if (page.models !== null) {
    renderModels(page);
    renderClients(page);
    renderUpstreams(page);
    renderReport(page);
    setUpActivity(page, find("key").value.trim());
    setUpPlayground(page, find("key").value.trim());
  }
}

function renderFacts(page) {
  const facts = [
    ["Status", buildElement("span", page.status, STATUS_CLASSES[page.status] ?? "fail")],
    ...page.notes.map((note) => [note.name, note.text]),
    ["Base URL", buildElement("code", `${BASE_URL}/v1`)],
    ["Version", page.version],
  ];
  if (page.config_digest) facts.push(["Configuration", buildElement("code", page.config_digest)]);
  find("facts").replaceChildren(...facts.flatMap(([name, value]) => renderFact(name, value)));
}

function renderModels(page) {
  find("models").replaceChildren(...page.models.map((model, number) => renderModel(page, model, number)));
  find("hidden-models").hidden = page.hidden_models === 0;
  fillTexts(find("hidden-models"), { count: page.hidden_models });
  find("patterns").hidden = page.patterns.length === 0;
  find("no-models").hidden = page.models.length + page.patterns.length > 0;
  const patterns = page.patterns.flatMap((pattern, number) => [
    number ? ", " : "", buildElement("code", pattern.name), ` (${pattern.providers.join(", ")})`,
  ]);
  find("patterns").querySelector("span").replaceChildren(...patterns);
}

function renderModel(page, model, number) {
  const element = fillTemplate("model-template", { ...model, provider: model.providers.join(", ") });
  element.open = number === 0;
  for (const example of model.examples) {
    element.append(buildSnippet(`snippet-${number}-${example.kind}`, example.title, withAddress(page, example.text)));
  }
  return element;
}

/** Only the first occurrence is the address: a model's name may contain the same text. */
function withAddress(page, text) {
  return text.replace(page.base_url, () => BASE_URL);
}

function renderClients(page) {
  find("clients").hidden = page.clients.length === 0;
  find("client-list").replaceChildren(...page.clients.map((client) => {
    const element = fillTemplate("client-template", client);
    element.append(buildSnippet(`client-${client.kind}`, client.place, withAddress(page, client.text)));
    return element;
  }));
}

// A row for each upstream. What changes while the server works is filled in by activity.js.
function renderUpstreams(page) {
  find("upstreams").hidden = page.upstreams.length === 0;
  find("upstreams").querySelector("tbody").replaceChildren(...page.upstreams.map((upstream) => {
    const row = fillTemplate("upstream-template", upstream);
    row.querySelector("span").className = { true: "pass", false: "fail" }[upstream.is_usable] ?? "faint";
    return row;
  }));
}

function renderReport(page) {
  find("report-problem").textContent = page.report_problem;
  find("no-report").hidden = Boolean(page.report_problem) || page.results.length > 0;
  find("results").replaceChildren(...page.results.map(renderResult));
}

function renderResult(result) {
  const element = fillTemplate("result-template", { ...result, title: `${result.model}: ${result.score}` });
  element.classList.toggle("failing", result.failures.length > 0);
  element.querySelector(".changed").hidden = !result.config_changed;
  const counts = result.counts.flatMap((each, number) => [
    number ? ", " : "", buildElement("span", `${each.count} ${each.meaning}`, each.verdict),
  ]);
  element.querySelector(".counts").replaceChildren(...counts);
  const failures = result.failures.flatMap((each) => renderFact(each.titles.join(", "), each.advice));
  element.querySelector("dl").replaceChildren(...failures);
  element.querySelector(".scroll").setAttribute("aria-label", `Checks of ${result.model}`);
  element.querySelector("tbody").replaceChildren(...result.checks.map(renderCheck));
  return element;
}

function renderCheck(check) {
  const row = fillTemplate("check-template", check);
  row.querySelector("span").className = check.verdict;
  return row;
}

async function copyText(element) {
  getSelection().selectAllChildren(element);
  // navigator.clipboard exists only on HTTPS and on the own machine.
  if (!navigator.clipboard) return document.execCommand("copy");
  return navigator.clipboard.writeText(element.textContent).then(() => true, () => false);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const outcome = (await copyText(find(button.dataset.copy))) ? "Copied" : "Selected";
  button.textContent = outcome;
  // The name of a button has the words that are seen on it, and what became of a click is said too.
  button.setAttribute("aria-label", `${outcome} ${button.dataset.title}`);
  find("copy-status").textContent = `${outcome}: ${button.dataset.title}`;
});

find("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  find("key-status").textContent = "";
  try {
    renderPage(await fetchModel("pages/home.json", { authorization: `Bearer ${find("key").value.trim()}` }));
    find("models").querySelector("summary")?.focus();
  } catch (error) {
    find("key-status").textContent = error.message;
  }
});

showPage(async () => renderPage(await fetchModel("pages/home.json")));
