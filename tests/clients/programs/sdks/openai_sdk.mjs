// The official SDK: `node openai_sdk.mjs CASE`, with BASE_URL and MODEL in the environment.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const { BASE_URL, MODEL: model } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: "none", maxRetries: 0 });

const Total = z.object({ total: z.number() });
const parameters = {
  type: "object",
  properties: { a: { type: "number" }, b: { type: "number" } },
  required: ["a", "b"],
  additionalProperties: false,
};
const tools = [{ type: "function", name: "add", parameters, strict: true }];
const messages = [{ role: "user", content: "Go on." }];

const cases = {
  async response() {
    const response = await client.responses.create({ model, input: "Go on." });
    return { text: response.output_text, usage: [response.usage.input_tokens, response.usage.output_tokens] };
  },
  async response_streamed() {
    const stream = client.responses.stream({ model, input: "Go on.", tools });
    const deltas = [];
    stream.on("response.output_text.delta", (event) => deltas.push(event.delta));
    const final = await stream.finalResponse();
    return { deltas, text: final.output_text, output: final.output.map((item) => item.type) };
  },
  async response_parsed() {
    const format = zodTextFormat(Total, "total");
    const response = await client.responses.parse({ model, input: "Go on.", text: { format } });
    return response.output_parsed;
  },
  async completion() {
    const completion = await client.chat.completions.create({ model, messages });
    return { text: completion.choices[0].message.content, usage: [completion.usage.prompt_tokens, completion.usage.completion_tokens] };
  },
  async completion_streamed() {
    const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
    const deltas = [];
    stream.on("content", (delta) => deltas.push(delta));
    const final = await stream.finalChatCompletion();
    return { deltas, text: final.choices[0].message.content, usage: final.usage.total_tokens };
  },
  async completion_parsed() {
    const response_format = zodResponseFormat(Total, "total");
    const completion = await client.chat.completions.parse({ model, messages, response_format });
    return completion.choices[0].message.parsed;
  },
  async completion_tools() {
    const add = { name: "add", parameters, parse: JSON.parse, function: ({ a, b }) => String(a + b) };
    const runner = client.chat.completions.runTools({ model, messages, tools: [{ type: "function", function: add }] });
    return { text: await runner.finalContent(), result: await runner.finalFunctionToolCallResult() };
  },
  async failure() {
    try {
      await client.responses.create({ model, input: "Go on." });
    } catch (error) {
      return { name: error.constructor.name, code: error.code, message: error.message, request: Boolean(error.requestID) };
    }
  },
  async failure_streamed() {
    const deltas = [];
    try {
      for await (const event of await client.responses.create({ model, input: "Go on.", stream: true })) {
        if (event.type === "response.output_text.delta") deltas.push(event.delta);
        if (event.type === "response.failed") return { deltas, code: event.response.error.code };
      }
    } catch (error) {
      return { deltas, name: error.constructor.name };
    }
  },
};

console.log(JSON.stringify(await cases[process.argv[2]]()));
