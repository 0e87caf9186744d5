// Clients of the Messages API for Node: `node messages.mjs CASE`, with BASE_URL (without /v1) in the environment, and perhaps
// MODEL and PROMPT.
// Cases that begin with `ai_` are of the AI SDK, the others of Anthropic's own SDK.
import { createAnthropic } from "@ai-sdk/anthropic";
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { BASE_URL, MODEL = "some-model", PROMPT: prompt = "Add 2 and 40." } = process.env;
const sent = [];
const recordRequest = (url, init) => {
  sent.push(JSON.parse(init.body));
  return fetch(url, init);
};
const client = new Anthropic({ baseURL: BASE_URL, apiKey: "none", maxRetries: 0, fetch: recordRequest });
const anthropic = createAnthropic({ baseURL: `${BASE_URL}/v1`, apiKey: "none" });
const model = anthropic(MODEL);
const asked = { model: MODEL, max_tokens: 3000, messages: [{ role: "user", content: prompt }] };
const numbers = z.object({ a: z.number(), b: z.number() });
const thinking = { anthropic: { thinking: { type: "enabled", budgetTokens: 1024 } } };

const cases = {
  async text() {
    const { content, stop_reason, usage, _request_id } = await client.messages.create(asked);
    return { content, stop_reason, usage, id: _request_id };
  },
  async text_streamed() {
    const { content, stop_reason } = await client.messages.stream(asked).finalMessage();
    return { content, stop_reason };
  },
  async tools() {
    const run = async ({ a, b }) => String(a + b);
    const add = betaZodTool({ name: "add", description: "Adds", inputSchema: numbers, run });
    const { content } = await client.beta.messages.toolRunner({ ...asked, system: "Be brief.", tools: [add] });
    return { content, sent };
  },
  async mixed() {
    const add = { name: "add", input_schema: z.toJSONSchema(numbers) };
    const { content } = await client.messages.stream({ ...asked, tools: [add] }).finalMessage();
    return { content };
  },
  async search() {
    const tools = [{ type: "web_search_20250305", name: "web_search", max_uses: 2 }];
    const { content, usage } = await client.messages.stream({ ...asked, tools }).finalMessage();
    const messages = [...asked.messages, { role: "assistant", content }, { role: "user", content: "Sure?" }];
    await client.messages.create({ ...asked, messages, tools });
    return { content, searches: usage.server_tool_use?.web_search_requests };
  },
  async refused() {
    const error = await client.messages.create(asked).catch((error) => error);
    return { name: error.constructor.name, status: error.status, type: error.error.error.type };
  },
  async ai_text() {
    const result = streamText({ model, prompt, providerOptions: thinking });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    return { text, thought: await result.reasoningText, finishReason: await result.finishReason };
  },
  async ai_tools() {
    const add = tool({ description: "Adds", inputSchema: numbers, execute: async ({ a, b }) => String(a + b) });
    const { text, steps } = await generateText({ model, prompt, tools: { add }, stopWhen: stepCountIs(3) });
    return { text, outputs: steps.flatMap((step) => step.toolResults.map(({ output }) => output)) };
  },
  async ai_search() {
    const tools = { web_search: anthropic.tools.webSearch_20250305({ maxUses: 2 }) };
    const first = streamText({ model, prompt, tools });
    const parts = [];
    for await (const part of first.fullStream) parts.push(part.type);
    const { messages } = await first.response;
    const said = [{ role: "user", content: prompt }, ...messages, { role: "user", content: "Sure?" }];
    await generateText({ model, messages: said, tools });
    const [call] = await first.toolCalls;
    return { parts, text: await first.text, input: call.input, sources: (await first.sources).map(({ url }) => url) };
  },
  async ai_object() {
    const schema = z.object({ city: z.string() });
    const { output } = await generateText({ model, prompt, output: Output.object({ schema }) });
    return { output };
  },
};

console.log(JSON.stringify(await cases[process.argv[2]]()));
