// The OpenAI Agents SDK where the server remembers: `node agents_state.mjs CASE`, with BASE_URL and MODEL in the
// environment. Each case has two runs; in the first of them a tool may run.
import {
  Agent, OpenAIConversationsSession, OpenAIResponsesCompactionSession, OpenAIResponsesModel, run, tool,
  withResponsesWebSocketSession,
} from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

const { BASE_URL, MODEL } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: "none", maxRetries: 0 });
const FIRST = "I am Ada. Add 2 and 40.", SECOND = "Who am I?";

// What the tool was told to do.
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

const agent = () => new Agent({ name: "Ada", model: new OpenAIResponsesModel(client, MODEL), tools: [add] });
const type = (item) => item.type ?? "message";

// `new`: how many items the last request itself had.
async function told(result) {
  let count = 0;
  for await (const _ of client.responses.inputItems.list(result.lastResponseId)) count += 1;
  return { text: result.finalOutput, ran, new: count };
}

async function twoRuns(options) {
  await run(agent(), FIRST, options);
  return told(await run(agent(), SECOND, options));
}

const cases = {
  async chained() {
    const { lastResponseId } = await run(agent(), FIRST);
    return told(await run(agent(), SECOND, { previousResponseId: lastResponseId }));
  },
  async chained_streamed() {
    let previousResponseId, result;
    for (const said of [FIRST, SECOND]) {
      result = await run(agent(), said, { stream: true, previousResponseId });
      for await (const _ of result);
      await result.completed;
      previousResponseId = result.lastResponseId;
    }
    return told(result);
  },
  async conversation() {
    return twoRuns({ conversationId: (await client.conversations.create({})).id });
  },
  async session() {
    const session = new OpenAIConversationsSession({ client });
    const got = await twoRuns({ session });
    const items = await session.getItems();
    const last = await session.popItem();
    const left = (await session.getItems()).length;
    return { ...got, kept: items.map(type), popped: last.content[0].text, left };
  },
  async compaction() {
    const shouldTriggerCompaction = ({ compactionCandidateItems }) => compactionCandidateItems.length > 2;
    const session = new OpenAIResponsesCompactionSession({ client, model: MODEL, shouldTriggerCompaction });
    await run(agent(), FIRST, { session });
    const items = await session.getItems();
    return { ...(await told(await run(agent(), SECOND, { session }))), kept: items.map(type) };
  },
  websocket: () =>
    withResponsesWebSocketSession(
      async (connected) => {
        const speaker = new Agent({ name: "Ada", model: MODEL, tools: [add] });
        const { lastResponseId } = await connected.run(speaker, FIRST);
        return told(await connected.run(speaker, SECOND, { previousResponseId: lastResponseId }));
      },
      { providerOptions: { baseURL: BASE_URL, apiKey: "none" } },
    ),
  async unknown() {
    try {
      await run(agent(), FIRST, { previousResponseId: "resp_1" });
    } catch (error) {
      return { code: error.code, param: error.param };
    }
  },
};

console.log(JSON.stringify(await cases[process.argv[2]]()));
