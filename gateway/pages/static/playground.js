// The playground of the page /: sends one message to a model, and shows thinking, answer and calls while they arrive.

import { BASE_URL, buildElement, fillTemplate, find } from "./page.js";
import { buildSnippet, renderFact } from "./parts.js";
import { readEvents, showChatChunk, showResponsesEvent } from "./event_stream.js";
import { writePrograms } from "./request_code.js";

const BUDGETS = [0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

let state = { page: null, key: "", abort: null };

/** Shows the playground for the models of a page. `key` is the reader's key; empty if the server has none. */
export function setUpPlayground(page, key) {
  state = { ...state, page, key };
  find("playground").hidden = page.models.length === 0;
  find("try-models").replaceChildren(...page.models.map((model) => {
    const option = document.createElement("option");
    option.value = model.name;
    const providers = model.providers.join(", ");
    option.label = model.problem ? `${providers}: ${model.problem}` : providers;
    return option;
  }));
  if (!find("try-model").value) find("try-model").value = page.models[0]?.name ?? "";
  find("try-tools").hidden = page.tool_servers.length === 0;
  find("try-tools").querySelectorAll("label").forEach((label) => label.remove());
  find("try-tools").append(...page.tool_servers.map((label) => {
    const element = fillTemplate("tool-template", { label });
    element.querySelector("input").value = label;
    return element;
  }));
  showRequest();
}

const readApi = () => find("try-form").querySelector("[name=api]:checked").value;

/** Returns the body of the request that the form describes, without `stream`. */
function readBody() {
  const isResponses = readApi() === "responses";
  const text = find("try-input").value;
  const body = { model: find("try-model").value };
  if (isResponses) body.input = text;
  else body.messages = [{ role: "user", content: text }];
  const budget = BUDGETS[find("try-budget").value];
  if (budget) body.reasoning = { max_tokens: budget };
  const labels = [...find("try-tools").querySelectorAll("input:checked")].map((input) => input.value);
  if (isResponses && labels.length) body.tools = labels.map((label) => ({ type: "mcp", server_label: label }));
  return body;
}

function showRequest() {
  const budget = BUDGETS[find("try-budget").value];
  const words = budget ? `${budget} tokens` : "as the model has it";
  find("try-budget-value").textContent = words;
  find("try-budget").setAttribute("aria-valuetext", words);
  find("try-tools").querySelectorAll("input").forEach((input) => { input.disabled = readApi() !== "responses"; });
  const programs = writePrograms(BASE_URL, readApi(), readBody(), state.page.needs_key);
  find("try-code").replaceChildren(
    find("try-code").querySelector("summary"),
    ...programs.map(([kind, title, code]) => buildSnippet(`try-${kind}`, title, code)),
  );
}

/** Shows the parts of a reply. Texts are appended to text nodes, whatever they contain. */
class ReplyView {
  constructor() {
    this.calls = 0;
    this.failed = false;
    this.answer = this.clear(find("try-answer"));
    this.thinking = this.clear(find("try-thinking").querySelector("pre"));
    find("try-thinking").hidden = true;
    find("try-calls").hidden = true;
    find("try-calls").replaceChildren();
    find("try-facts").replaceChildren();
    find("try-reply").hidden = false;
  }

  clear(element) {
    const text = document.createTextNode("");
    element.replaceChildren(text);
    return text;
  }

  addAnswer(text) { this.answer.appendData(text); }

  addThinking(text) {
    find("try-thinking").hidden = false;
    this.thinking.appendData(text);
  }

  addCall(name, given, output) {
    find("try-calls").hidden = false;
    const shown = typeof output === "string" ? output : output ? JSON.stringify(output) : "";
    const call = fillTemplate("call-template", { name, arguments: given, output: shown });
    call.querySelector("pre").hidden = !shown;
    find("try-calls").append(call);
  }

  addFact(name, value) { find("try-facts").append(...renderFact(name, value)); }

  addUsage(input, output, thinking) {
    this.addFact("Tokens", `${input} in, ${output} out${thinking ? `, ${thinking} of them thinking` : ""}`);
  }

  fail(message) {
    this.failed = true;
    this.addFact("Failed", buildElement("span", message, "fail"));
  }
}

async function sendRequest(view, signal) {
  const api = readApi();
  const headers = { "content-type": "application/json" };
  if (state.key) headers.authorization = `Bearer ${state.key}`;
  const body = { ...readBody(), stream: true };
  if (api === "chat") body.stream_options = { include_usage: true };
  const path = api === "responses" ? "responses" : "chat/completions";
  const reply = await fetch(`${BASE_URL}/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal });
  const losses = reply.headers.get("x-gateway-loss");
  if (losses) view.addFact("Lost", losses);
  if (!reply.ok) {
    const text = await reply.text();
    let message = text;
    try { message = JSON.parse(text).error.message; } catch { /* a proxy's page: its text is shown */ }
    view.fail(`${reply.status}: ${message.slice(0, 2000)}`);
    return;
  }
  const show = api === "responses" ? showResponsesEvent : showChatChunk;
  for await (const event of readEvents(reply)) show(event, view);
}

find("try-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  state.abort?.abort();
  const abort = state.abort = new AbortController();
  const view = new ReplyView();
  find("try-status").textContent = "Waiting for the model…";
  find("try-stop").disabled = false;
  find("try-reply").setAttribute("aria-busy", "true");
  const began = performance.now();
  let outcome = "Complete";
  try {
    await sendRequest(view, abort.signal);
    if (view.failed) outcome = "Failed";
  } catch (error) {
    outcome = abort.signal.aborted ? "Stopped" : "Failed";
    if (outcome === "Failed") view.fail(error.message);
  }
  if (state.abort !== abort) return; // another request has begun
  find("try-status").textContent = `${outcome} after ${((performance.now() - began) / 1000).toFixed(1)} s`;
  find("try-stop").disabled = true;
  find("try-reply").removeAttribute("aria-busy");
});

find("try-stop").addEventListener("click", () => state.abort?.abort());
find("try-form").addEventListener("input", showRequest);
