// The AI SDK where the server remembers: `node ai_sdk_state.mjs CASE`, with BASE_URL and MODEL in the environment.
// Each case has two turns, with a tool in the first; `sent` is the kinds of input items of every request.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { BASE_URL, MODEL } = process.env;
const sent = [];

async function watched(url, options) {
  sent.push(JSON.parse(options.body).input.map((item) => item.type ?? item.role));
  return fetch(url, options);
}

const model = createOpenAI({ baseURL: BASE_URL, apiKey: "none", fetch: watched })(MODEL);
const add = tool({
  description: "Add two numbers",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => ({ sum: a + b }),
});
const said = (content) => ({ role: "user", content });
const FIRST = said("I am Ada. Add 2 and 40."), SECOND = said("Who am I?");

async function whole(messages, options = {}) {
  const { text, responseMessages, providerMetadata } = await generateText({
    model, messages, tools: { add }, stopWhen: stepCountIs(3), maxRetries: 0, providerOptions: { openai: options },
  });
  return { text, messages: responseMessages, id: providerMetadata.openai.responseId };
}

async function streamed(messages) {
  const result = streamText({ model, messages, tools: { add }, stopWhen: stepCountIs(3), maxRetries: 0 });
  for await (const part of result.fullStream) if (part.type === "error") throw part.error;
  return { text: await result.text, messages: await result.responseMessages };
}

async function referenced(turn) {
  const first = await turn([FIRST]);
  const { text } = await turn([FIRST, ...first.messages, SECOND]);
  return { text, sent };
}

const cases = {
  whole: () => referenced(whole),
  streamed: () => referenced(streamed),
  async chained() {
    const { id } = await whole([FIRST]);
    const { text } = await whole([SECOND], { previousResponseId: id });
    return { text, sent };
  },
  async conversation() {
    const { id: conversation } = await (await fetch(`${BASE_URL}/conversations`, { method: "POST", body: "{}" })).json();
    await whole([FIRST], { conversation });
    const { text } = await whole([SECOND], { conversation });
    return { text, sent };
  },
};

console.log(JSON.stringify(await cases[process.argv[2]]()));
