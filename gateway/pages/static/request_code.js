// Writes a request of the playground as a shell command and as programs. Texts are quoted for their language.

const quoteShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A JSON text without line breaks inside of values is a literal in Python and TypeScript but for true, false and null. */
const toJson = (value, indent) => JSON.stringify(value, null, indent);

function toPython(value) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(toPython).join(", ")}]`;
  if (value && typeof value === "object") {
    return `{${Object.entries(value).map(([key, each]) => `${toJson(key)}: ${toPython(each)}`).join(", ")}}`;
  }
  return toJson(value);
}

/** Returns the programs for a request: `api` is responses or chat, `body` its body without `stream`. */
export function writePrograms(baseUrl, api, body, needsKey) {
  const isResponses = api === "responses";
  const path = isResponses ? "responses" : "chat/completions";
  const header = needsKey ? ' \\\n  -H "Authorization: Bearer $GATEWAY_KEY"' : "";
  const curl = `curl ${baseUrl}/v1/${path}${header} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoteShell(toJson(body))}`;

  // The SDKs' types do not know a budget in tokens, which is an extension of this server.
  const { reasoning, ...known } = body;
  const call = isResponses ? "responses.create" : "chat.completions.create";
  const fields = Object.entries(known).map(([key, value]) => `    ${key}=${toPython(value)},\n`);
  if (reasoning) fields.push(`    extra_body=${toPython({ reasoning })},\n`);
  const text = isResponses ? "reply.output_text" : "reply.choices[0].message.content";
  const python = `${needsKey ? "import os\n\n" : ""}from openai import OpenAI\n\n`
    + `client = OpenAI(base_url="${baseUrl}/v1", api_key=${needsKey ? 'os.environ["GATEWAY_KEY"]' : '"none"'})\n`
    + `reply = client.${call}(\n${fields.join("")})\nprint(${text})`;

  const typescript = `import OpenAI from "openai";\n\n`
    + `const client = new OpenAI({ baseURL: "${baseUrl}/v1", apiKey: ${needsKey ? "process.env.GATEWAY_KEY" : '"none"'} });\n`
    + `const body: any = ${toJson(body, 2)};\n`
    + `const reply = await client.${call}(body);\nconsole.log(${text});`;
  return [["curl", "curl", curl], ["python", "Python, package openai", python], ["typescript", "TypeScript, package openai", typescript]];
}
