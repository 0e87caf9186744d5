// AG-UI clients: `node agui.mjs CASE`, with AGENT_URL in the environment, and CLIENT: 1 or 0 for a generation of
// @ag-ui/client, copilotkit for one behind a CopilotKit runtime. TOOLS_URL is an MCP server.
import { randomUUID } from "node:crypto";

const { AGENT_URL, CLIENT, TOOLS_URL } = process.env;
const { HttpAgent } = await import(CLIENT === "1" ? "@ag-ui/client" : "@ag-ui/client-0");

async function makeAgent() {
  if (CLIENT !== "copilotkit") return new HttpAgent({ url: AGENT_URL, threadId: randomUUID() });
  const { CopilotRuntime, createCopilotRuntimeHandler } = await import("@copilotkit/runtime/v2");
  const runtime = new CopilotRuntime({ agents: { default: new HttpAgent({ url: AGENT_URL }) } });
  const handler = createCopilotRuntimeHandler({ runtime });
  const fetch = (url, init) => handler(new Request(url, init));
  return new HttpAgent({ url: "http://runtime/agent/default/run", threadId: randomUUID(), fetch });
}

const agent = await makeAgent();
const events = [];
agent.subscribe({ onEvent: ({ event }) => void events.push(event) });
const say = (content) => agent.addMessage({ id: randomUUID(), role: "user", content });
const hosted = { tools: [{ type: "mcp", server_label: "calc", server_url: TOOLS_URL }] };
const free = { tools: [{ ...hosted.tools[0], require_approval: "never" }] };
const weather = {
  name: "get_weather",
  description: "Weather",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};

async function attempt(run) {
  try {
    await run();
    return null;
  } catch (error) {
    return error.message;
  }
}

const report = (more = {}) => ({
  messages: agent.messages.map(({ role, content, toolCalls, encryptedValue }) => ({
    role,
    content,
    calls: toolCalls?.map((call) => [call.function.name, call.function.arguments]),
    sealed: encryptedValue !== undefined,
  })),
  types: [...new Set(events.map((event) => event.type))],
  outcome: events.findLast((event) => event.type === "RUN_FINISHED")?.outcome,
  ...more,
});

const cases = {
  async text() {
    say("I am Ada.");
    await agent.runAgent();
    say("Who am I?");
    await agent.runAgent();
    return report();
  },
  async frontend_tool() {
    say("Weather?");
    await agent.runAgent({ tools: [weather] });
    const outcome = report().outcome;
    const [call] = agent.messages.flatMap((message) => message.toolCalls ?? []);
    agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: "sunny" });
    await agent.runAgent({ tools: [weather] });
    return report({ first: outcome });
  },
  async hosted_tool() {
    say("2 + 3?");
    await agent.runAgent({ forwardedProps: free });
    return report();
  },
  async approval() {
    say("2 + 3?");
    await agent.runAgent({ forwardedProps: hosted });
    const interrupts = events.at(-1).outcome.interrupts;
    const resume = interrupts.map(({ id }) => ({
      interruptId: id,
      status: "resolved",
      payload: { approved: true },
    }));
    await agent.runAgent({ forwardedProps: hosted, resume });
    say("Sure?");
    await agent.runAgent({ forwardedProps: hosted });
    return report({ asked: interrupts.length });
  },
  async input() {
    say("A table in Rome.");
    await agent.runAgent({ forwardedProps: free });
    const given = (payload) => {
      const interrupts = events.at(-1).outcome.interrupts;
      const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
      return agent.runAgent({ forwardedProps: free, resume }).then(() => interrupts);
    };
    const [first] = await given({ people: 40 });
    const [second] = await given({ people: 4 });
    say("Sure?");
    await agent.runAgent({ forwardedProps: free });
    return report({ first, second });
  },
  async interrupted() {
    agent.setState({ page: 3 });
    say("2 + 3?");
    let before = [];
    const subscriber = {
      // What the client shows when its snapshot arrives.
      onMessagesSnapshotEvent: ({ messages }) => void (before = structuredClone(messages)),
    };
    await agent.runAgent({ forwardedProps: hosted }, subscriber);
    const shown = (messages) => messages.map(({ id, role, content, toolCalls }) => [id, role, content, toolCalls]);
    const after = shown(agent.messages);
    agent.setState({});
    const resume = events.at(-1).outcome.interrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" }));
    await agent.runAgent({ forwardedProps: hosted, resume });
    return report({ before: shown(before), after, state: agent.state });
  },
  async denial() {
    say("2 + 3?");
    await agent.runAgent({ forwardedProps: hosted });
    const resume = events.at(-1).outcome.interrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" }));
    await agent.runAgent({ forwardedProps: hosted, resume });
    return report();
  },
  async failure() {
    say("Hello");
    const failed = await attempt(() => agent.runAgent());
    const first = report().types;
    say("Again");
    const again = await attempt(() => agent.runAgent());
    return report({ failed, again, first });
  },
};

console.log(JSON.stringify(await cases[process.argv[2]]()));
process.exit(0);
