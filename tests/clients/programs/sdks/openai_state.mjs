// The official SDK and what the server keeps: `node openai_state.mjs CASE`, with BASE_URL and MODEL in the environment.
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { setTimeout as sleep } from "node:timers/promises";

const { BASE_URL, MODEL: model } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: "none", maxRetries: 0 });

const parameters = {
  type: "object",
  properties: { a: { type: "number" }, b: { type: "number" } },
  required: ["a", "b"],
  additionalProperties: false,
};
const tools = [{ type: "function", name: "add", parameters, strict: true }];

const ask = (input, more = {}) => client.responses.create({ model, input, ...more });
const texts = (items) => items.flatMap((item) => item.content.map((part) => part.text));
const equal = (one, other) => JSON.stringify(one) === JSON.stringify(other);

async function failing(call) {
  try {
    await call();
  } catch (error) {
    return [error.constructor.name, error.code, error.param];
  }
}

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const cases = {
  async continued() {
    const first = await ask("I am Ada.", { instructions: "Be brief." });
    const second = await ask("Who am I?", { previous_response_id: first.id });
    const events = await collect(await ask("Are you sure?", { previous_response_id: second.id, stream: true }));
    const third = events.at(-1).response;
    // The SDK adds the text to what it reads whole.
    const { output_text: text, ...read } = await client.responses.retrieve(third.id);
    const linked = [second.previous_response_id === first.id, third.previous_response_id === second.id];
    return { text, linked, same: equal(read, third) };
  },
  async deleted() {
    const root = await ask("Root");
    const left = await ask("Left", { previous_response_id: root.id });
    await client.responses.delete(root.id);
    await ask("Leaf", { previous_response_id: left.id });
    const gone = await failing(() => client.responses.retrieve(root.id));
    return { gone, continued: await failing(() => ask("Right", { previous_response_id: root.id })) };
  },
  async tools() {
    const first = await ask("Add.", { tools });
    const { call_id } = first.output.find((item) => item.type === "function_call");
    const result = { type: "function_call_output", call_id, output: "42" };
    return (await ask([result], { tools, previous_response_id: first.id })).output_text;
  },
  async paged() {
    const response = await ask([0, 1, 2, 3, 4].map((number) => ({ role: "user", content: String(number) })));
    const list = async (query) => texts(await collect(client.responses.inputItems.list(response.id, query)));
    return { asc: await list({ limit: 2, order: "asc" }), default: await list({ limit: 3 }) };
  },
  async conversation() {
    const there = client.conversations;
    const beginning = [{ type: "message", role: "user", content: "I am Ada." }];
    const kept = await there.create({ metadata: { topic: "names" }, items: beginning });
    const answered = await ask("Who am I?", { conversation: kept.id });
    await there.items.create(kept.id, { items: [{ type: "message", role: "user", content: "Thanks." }] });
    const items = await collect(there.items.list(kept.id, { limit: 2, order: "asc" }));
    const one = (item) => there.items.retrieve(item.id, { conversation_id: kept.id });
    const same = equal(await Promise.all(items.map(one)), items);
    await there.items.delete(items.at(-1).id, { conversation_id: kept.id });
    await there.update(kept.id, { metadata: { topic: "Ada" } });
    const read = await there.retrieve(kept.id);
    const left = texts(await collect(there.items.list(kept.id)));
    const { deleted } = await there.delete(kept.id);
    return {
      text: answered.output_text,
      within: answered.conversation.id === kept.id,
      said: texts(items),
      same,
      topic: read.metadata,
      left,
      deleted,
      gone: await failing(() => there.retrieve(kept.id)),
    };
  },
  async background() {
    let job = await ask("Go on.", { background: true });
    const began = job.status;
    for (const deadline = Date.now() + 30_000; ["queued", "in_progress"].includes(job.status); await sleep(50)) {
      if (Date.now() > deadline) throw new Error(job.status);
      job = await client.responses.retrieve(job.id);
    }
    return { began, status: job.status, text: job.output_text };
  },
  // The model goes on only when it is asked for something else as well.
  async resumed() {
    const numbers = [], deltas = [];
    async function read(events, until) {
      for await (const event of events) {
        numbers.push(event.sequence_number);
        if (event.type === "response.output_text.delta") deltas.push(event.delta);
        if (event.type === until) return event;
      }
      throw new Error(`no ${until}`);
    }
    const follow = (id) => client.responses.retrieve(id, { stream: true, starting_after: numbers.at(-1) });
    const { response: { id } } = await read(await ask("Go on.", { background: true, stream: true }), "response.created");
    await read(await follow(id), "response.output_text.delta");
    const events = await follow(id);
    await ask("Let it go on.");
    const final = (await read(events, "response.completed")).response;
    const text = texts(final.output).join("");
    const stream = client.responses.stream({ response_id: id, starting_after: numbers.at(-2) });
    const replayed = (await collect(stream)).map((event) => event.type);
    const again = await stream.finalResponse();
    const stored = await client.responses.retrieve(id);
    return {
      once: numbers.every((number, place) => number === place),
      deltas,
      text,
      replayed,
      same: again.output_text === text && stored.output_text === text,
    };
  },
  // The model never ends.
  async cancelled() {
    const events = await ask("Go on.", { background: true, stream: true });
    let id, stopped, last;
    for await (const event of events) {
      if (event.type === "response.created") id = event.response.id;
      if (event.type === "response.output_text.delta") stopped = await client.responses.cancel(id);
      last = event;
    }
    const read = await client.responses.retrieve(id);
    return { status: stopped.status, last: last.type, read: read.status, text: read.output_text };
  },
  async completions() {
    const there = client.chat.completions;
    const kept = [];
    for (const [content, topic] of [["One", "a"], ["Two", "b"], ["Three", "a"]]) {
      const messages = [{ role: "user", content }];
      kept.push((await there.create({ model, messages, store: true, metadata: { topic } })).id);
    }
    const ids = async (query) => (await collect(there.list(query))).map((completion) => completion.id);
    const listed = equal(await ids({ limit: 1, metadata: { topic: "a" } }), [kept[0], kept[2]]);
    const changed = await there.update(kept[0], { metadata: { topic: "c" } });
    const read = await there.retrieve(kept[0]);
    const messages = (await collect(there.messages.list(kept[1]))).map(({ role, content }) => [role, content]);
    const { deleted } = await there.delete(kept[2]);
    return {
      listed,
      topic: changed.metadata,
      text: read.choices[0].message.content,
      messages,
      deleted,
      left: equal(await ids(), kept.slice(0, 2)),
      gone: await failing(() => there.retrieve(kept[2])),
    };
  },
  async compacted() {
    const first = await ask("I am Ada.");
    const window = await client.responses.compact({ model, previous_response_id: first.id });
    const second = await ask([...window.output, { role: "user", content: "Who am I?" }]);
    return { object: window.object, types: window.output.map((item) => item.type), text: second.output_text };
  },
  async counted() {
    const first = await ask("I am Ada.");
    const count = async (more) =>
      (await client.responses.inputTokens.count({ model, input: "Who am I?", ...more })).input_tokens;
    return (await count({})) < (await count({ previous_response_id: first.id }));
  },
  async websocket() {
    const socket = new ResponsesWS(client);
    const said = [];
    let previous_response_id = null;
    const say = (input) => socket.send({ type: "response.create", model, input, store: false, previous_response_id });
    const inputs = ["Hello", "Again"];
    for await (const { type, message } of socket.stream()) {
      if (type === "error") throw new Error(JSON.stringify(message));
      if (type === "open") say(inputs.shift());
      if (type !== "message" || message.type !== "response.completed") continue;
      said.push(texts(message.response.output).join(""));
      previous_response_id = message.response.id;
      if (!inputs.length) break;
      say(inputs.shift());
    }
    socket.close();
    return said;
  },
};

console.log(JSON.stringify(await cases[process.argv[2]]()));
