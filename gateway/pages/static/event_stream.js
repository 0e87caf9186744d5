// Reads the streams of the Responses API and of Chat Completions as parts: thinking, answer, calls, usage and failures.

/** Yields the JSON of each event of a stream of server-sent events. */
export async function* readEvents(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

/** Shows one event of the Responses API in `view`. */
export function showResponsesEvent(event, view) {
  if (event.type === "response.output_text.delta" || event.type === "response.refusal.delta") view.addAnswer(event.delta);
  else if (/^response\.reasoning(_summary)?_text\.delta$/.test(event.type)) view.addThinking(event.delta);
  else if (event.type === "response.output_item.done" && /_call$/.test(event.item.type)) {
    view.addCall(event.item.name ?? event.item.type, event.item.arguments ?? "", event.item.output ?? event.item.error);
  } else if (event.type === "error") view.fail(event.message);
  else if (/^response\.(completed|incomplete|failed)$/.test(event.type)) {
    const { usage, error, incomplete_details: details, id } = event.response;
    view.addFact("Response", id);
    if (usage) view.addUsage(usage.input_tokens, usage.output_tokens, usage.output_tokens_details?.reasoning_tokens);
    if (details) view.addFact("Incomplete", details.reason);
    if (error) view.fail(error.message);
  }
}

/** Shows one chunk of a chat completion in `view`. */
export function showChatChunk(chunk, view) {
  if (chunk.error) view.fail(chunk.error.message);
  const { usage } = chunk;
  if (usage) view.addUsage(usage.prompt_tokens, usage.completion_tokens, usage.completion_tokens_details?.reasoning_tokens);
  for (const { delta = {}, finish_reason: reason } of chunk.choices ?? []) {
    const thinking = delta.reasoning_content ?? delta.reasoning;
    if (thinking) view.addThinking(thinking);
    if (delta.content) view.addAnswer(delta.content);
    for (const call of delta.tool_calls ?? []) {
      if (call.function?.name) view.addCall(call.function.name, call.function.arguments ?? "");
    }
    if (reason && reason !== "stop") view.addFact("Ended by", reason);
  }
}
