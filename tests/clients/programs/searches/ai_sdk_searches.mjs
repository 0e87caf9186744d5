// Hosted searches of the AI SDK: `node ai_sdk_searches.mjs CASE`, with BASE_URL, MODEL and STORE_ID in the environment.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const { BASE_URL, MODEL, STORE_ID } = process.env;
const openai = createOpenAI({ baseURL: BASE_URL, apiKey: "none" });
const model = openai.responses(MODEL);
const tools = {
  web: () => ({ web_search: openai.tools.webSearch({ searchContextSize: "low" }) }),
  files: () => ({ file_search: openai.tools.fileSearch({ vectorStoreIds: [STORE_ID] }) }),
};

const [kind, streamed] = process.argv[2].split("_");
const asked = { model, prompt: "Does it rain?", tools: tools[kind]() };
const result = streamed ? streamText(asked) : await generateText(asked);
const content = await result.content;
console.log(JSON.stringify({
  text: await result.text,
  items: content.map((part) => part.type),
  tools: content.filter((part) => part.type === "tool-call").map((part) => [part.toolName, part.providerExecuted]),
  sources: (await result.sources).map((source) => source.url ?? source.filename ?? source.title),
}));
