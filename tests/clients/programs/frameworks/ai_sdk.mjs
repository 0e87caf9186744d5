// The AI SDK: `node ai_sdk.mjs CASE`, with BASE_URL, MODEL and API (responses or chat) in the environment.
// PROMPT there is what it is asked, STORE=false says that nothing be stored, and SUMMARY that reasoning
// be summarized.
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { BASE_URL, MODEL, API, PROMPT = "Use add, sums__add, shell, apply_patch and look.", STORE, SUMMARY } = process.env;
const provider = createOpenAI({ baseURL: BASE_URL, apiKey: "none" });
const model = provider[API](MODEL);
// Where nothing is stored, what was said before comes along in full; else as references to it.
const providerOptions = STORE === "false" ? { openai: { store: false } } : {};

const add = tool({
  description: "Add two numbers",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => String(a + b),
});

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

async function failing(call) {
  try {
    return await call();
  } catch (error) {
    return { name: error.name, status: error.statusCode, message: error.message };
  }
}

const cases = {
  async text() {
    const { text, finishReason, usage } = await generateText({ model, prompt: "Say good day.", providerOptions });
    return { text, finishReason, usage };
  },
  async text_streamed() {
    const result = streamText({ model, prompt: "Say good day.", providerOptions });
    const deltas = (await collect(result.textStream));
    return { deltas, finishReason: await result.finishReason, usage: await result.usage };
  },
  async tools() {
    const { text, steps } = await generateText({
      model, prompt: PROMPT, tools: { add }, stopWhen: stepCountIs(3), providerOptions,
    });
    return { text, results: steps.flatMap((step) => step.toolResults.map(({ input, output }) => ({ input, output }))) };
  },
  async tools_streamed() {
    const result = streamText({
      model, prompt: PROMPT, tools: { add }, stopWhen: stepCountIs(3), providerOptions,
    });
    const parts = await collect(result.fullStream);
    return {
      text: await result.text,
      input: parts.filter((part) => part.type === "tool-input-delta").map((part) => part.delta).join(""),
      results: parts.filter((part) => part.type === "tool-result").map(({ input, output }) => ({ input, output })),
      errors: parts.filter((part) => part.type === "error").map((part) => String(part.error)),
    };
  },
  async object() {
    const schema = z.object({ total: z.number() });
    const { object } = await generateObject({ model, schema, prompt: PROMPT, providerOptions });
    return { object };
  },
  async conversation() {
    const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "I am Ada." }];
    const first = await generateText({ model, messages, providerOptions, allowSystemInMessages: true });
    messages.push(...first.response.messages, { role: "user", content: "Who am I?" });
    const { text } = await generateText({ model, messages, providerOptions, allowSystemInMessages: true });
    return { text };
  },
  async reasoning_streamed() {
    // The SDK knows no open model, so it has to be told that this one reasons.
    const openai = { ...providerOptions.openai, forceReasoning: true, reasoningSummary: "auto" };
    const result = streamText({ model, prompt: "Think.", providerOptions: SUMMARY ? { openai } : providerOptions });
    const parts = await collect(result.fullStream);
    return {
      reasoning: parts.filter((part) => part.type === "reasoning-delta").map((part) => part.text).join(""),
      text: await result.text,
      errors: parts.filter((part) => part.type === "error").map((part) => String(part.error)),
    };
  },
  async image() {
    const image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const content = [{ type: "text", text: "What is it?" }, { type: "image", image, mediaType: "image/png" }];
    const { text } = await generateText({ model, messages: [{ role: "user", content }], providerOptions });
    return { text };
  },
  failure: () => failing(() => generateText({ model, prompt: "Say good day.", maxRetries: 0, providerOptions })),
  conversation_failure: () => failing(cases.conversation),
};

console.log(JSON.stringify(await cases[process.argv[2]]()));
