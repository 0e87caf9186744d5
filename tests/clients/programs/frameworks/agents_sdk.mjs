// The OpenAI Agents SDK: `node agents_sdk.mjs CASE`, with BASE_URL, MODEL and API (responses or chat) in the environment.
// PROMPT there is what it is asked.
import {
  Agent, applyPatchTool, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, shellTool, tool, toolNamespace,
} from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

const { BASE_URL, MODEL, API, PROMPT = "Use add, sums__add, shell, apply_patch and look." } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: "none", maxRetries: 0 });
const model = new { responses: OpenAIResponsesModel, chat: OpenAIChatCompletionsModel }[API](client, MODEL);

// What tools were told to do.
const ran = [];

const add = tool({
  name: "add",
  description: "Add two numbers",
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => {
    ran.push([a, b]);
    return String(a + b);
  },
});

const look = tool({
  name: "look",
  description: "Look at the picture",
  parameters: z.object({}),
  execute: async () => ({
    type: "image",
    image: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  }),
});

const shell = shellTool({
  shell: {
    run: async ({ commands }) => {
      ran.push(commands);
      const outcome = { type: "exit", exitCode: 0 };
      return { output: commands.map((command) => ({ stdout: `did ${command}`, stderr: "", outcome })) };
    },
  },
});

async function edit({ type, path, diff }) {
  ran.push([type, path, diff]);
  return { status: "completed", output: "created" };
}
const patch = applyPatchTool({ editor: { createFile: edit, updateFile: edit, deleteFile: edit } });

const agent = (options = {}) => new Agent({ name: "Ada", model, ...options });
const grace = () => new Agent({ name: "grace", model });
const sums = () => toolNamespace({ name: "sums", description: "Sums.", tools: [add] });

async function whole(given, said = PROMPT) {
  const result = await run(given, said);
  const { inputTokens, outputTokens } = result.runContext.usage;
  const text = typeof result.finalOutput === "string" ? result.finalOutput : JSON.stringify(result.finalOutput);
  return { text, agent: result.lastAgent.name, ran, usage: [inputTokens, outputTokens] };
}

async function streamed(given) {
  const result = await run(given, PROMPT, { stream: true });
  const deltas = [], items = [];
  for await (const event of result) {
    if (event.type === "raw_model_stream_event" && event.data.type === "output_text_delta") deltas.push(event.data.delta);
    if (event.type === "run_item_stream_event") items.push(event.name);
  }
  await result.completed;
  return { text: result.finalOutput, agent: result.lastAgent.name, ran, deltas, items };
}

const cases = {
  text: () => whole(agent({ instructions: "Be brief." })),
  text_streamed: () => streamed(agent()),
  reasoning: () => whole(agent({ tools: [add], modelSettings: { reasoning: { effort: "low" } } })),
  tools: () => whole(agent({ tools: [add] })),
  tools_streamed: () => streamed(agent({ tools: [add] })),
  handoff: () => whole(agent({ handoffs: [grace()] })),
  handoff_streamed: () => streamed(agent({ handoffs: [grace()] })),
  format: () => whole(agent({ outputType: z.object({ total: z.number() }) })),
  async conversation() {
    const first = await run(agent({ tools: [add] }), "I am Ada. Use add.");
    return whole(agent(), [...first.history, { role: "user", content: "Who am I?" }]);
  },
  shell: () => whole(agent({ tools: [shell] })),
  patch: () => whole(agent({ tools: [patch] })),
  namespace: () => whole(agent({ tools: sums() })),
  image: () => whole(agent({ tools: [look] })),
};

console.log(JSON.stringify(await cases[process.argv[2]]()));
