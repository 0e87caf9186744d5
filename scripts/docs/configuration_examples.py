"""The examples of docs/configuration.md: one for each section, which tests/project/test_snippets.py validates."""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, str]] = {
    "server": """\
# Behind a reverse proxy on the same machine, with four processes and larger bodies.
server: {port: 9000, hosts: [gateway.example.com], workers: 4, max_body_mb: 64}""",
    "server.cors": """\
server:
  cors: {origins: ["https://app.example.com"]}""",
    "log": """\
log: {level: warning, format: json}""",
    "store": """\
# One database for all replicas; what is stored is deleted after a week.
store: {url: "postgresql+asyncpg://gateway:${DATABASE_PASSWORD}@db/gateway", ttl_days: 7}""",
    "sealing": """\
# Replacing a key: the first encrypts, the one before it still decrypts.
sealing: {keys: ["${SEALING_KEY}", "${OLD_SEALING_KEY}"]}""",
    "background": """\
background: {max_running: 16, max_attempts: 1} # a job whose server died fails instead of running again""",
    "websocket": """\
websocket: {max_minutes: 30, max_connections: 200}""",
    "limits": """\
limits: {open_requests: 100, background_jobs: 50, event_log_mb: 256}""",
    "files": """\
files: {path: /srv/gateway-files, max_file_mb: 100}""",
    "files.s3": """\
files:
  s3: {bucket: gateway-files, endpoint: "http://10.0.0.7:9000", access_key: "${S3_KEY}", secret_key: "${S3_SECRET}"}""",
    "egress": """\
egress: {allow: [images.internal], max_mb: 10}""",
    "tools": """\
tools: {events: true}""",
    "tools.web_search": """\
tools:
  web_search: {engine: searxng, url: "http://searxng.internal:8080"}""",
    "tools.tool_search": """\
tools:
  tool_search: {results: 8, auto: 100}""",
    "tools.file_search": """\
tools: {file_search: {max_files: 1000, parse_s: 30, workers: 4}}""",
    "tools.file_search.embeddings": """\
providers:
  local: {type: vllm, base_url: "http://127.0.0.1:8001/v1"}
models:
  "*": {provider: local}
tools:
  file_search:
    embeddings: {provider: local, model: nomic-embed-text, dimensions: 512}""",
    "tools.mcp": """\
tools:
  mcp:
    request_servers: "off" # only servers of this file
    rounds: 16
    call_deadline_s: 120""",
    "tools.mcp.servers.NAME": """\
tools:
  mcp:
    servers:
      tickets:
        url: https://mcp.example.com/mcp
        allow: ["search_*", read_ticket]
      files: {stdio: [my-files-server, --folder, /srv/files], approval: never}""",
    "tools.mcp.servers.NAME.auth": """\
tools:
  mcp:
    servers:
      tickets: {url: "https://mcp.example.com/mcp", auth: {bearer_env: TICKETS_TOKEN}}""",
    "tools.mcp.servers.NAME.auth.oauth": """\
tools:
  mcp:
    servers:
      crm:
        url: https://crm.example.com/mcp
        auth:
          oauth: {client_id: gateway, client_secret_env: CRM_SECRET, scope: contacts.read}""",
    "tools.mcp.servers.NAME.approval": """\
# Tools that only read run at once. Every other call needs an approval.
tools:
  mcp:
    servers:
      tickets: {url: "https://mcp.example.com/mcp", trusted: true, approval: {never: {read_only: true}}}""",
    "tools.mcp.servers.NAME.approval.never": """\
tools:
  mcp:
    servers:
      tickets: {url: "https://mcp.example.com/mcp", approval: {never: {tool_names: [search, read_ticket]}}}""",
    "tools.mcp.servers.NAME.as.NAME": """\
tools:
  mcp:
    servers:
      finder:
        url: https://search.example.com/mcp
        approval: {never: {tool_names: [search]}}
        as:
          search:
            tool: web_search
            arguments: {query: q, results: limit}
            result: {items: $.results, url: url, title: title, text: snippet}""",
    "tools.mcp.servers.NAME.as.NAME.result": """\
tools:
  mcp:
    servers:
      handbook:
        url: https://docs.example.com/mcp
        approval: never
        as:
          find_sections:
            tool: file_search
            arguments: {query: question}
            result: {items: $.hits, file_id: doc.id, filename: doc.path, text: "passages[0].text", score: score}""",
    "tools.mcp.servers.NAME.probe": """\
tools:
  mcp:
    servers:
      tickets: {url: "https://mcp.example.com/mcp", probe: {tool: search, arguments: {text: hello}}}""",
    "tools.mcp.admin": """\
tools:
  mcp:
    admin: {private_hosts: true, max_servers: 8}""",
    "auth": """\
auth:
  keys: [{name: team-a, key_env: TEAM_A_KEY}]""",
    "auth.keys[]": """\
auth:
  keys:
    - {name: team-a, key_env: TEAM_A_KEY, models: ["qwen*"]}
    - {name: operators, key_env: OPERATORS_KEY, admin: true}""",
    "auth.keys[].limits": """\
auth:
  keys:
    - {name: batch, key_env: BATCH_KEY, limits: {open_requests: 20, files_mb: 50000}}""",
    "providers.NAME": """\
providers:
  gpu: {type: vllm, base_url: "http://gpu:8000/v1", silence_s: 300}
  openai: {type: openai, api_key_env: OPENAI_API_KEY}""",
    "providers.NAME.capabilities": """\
# A server that the gateway cannot ask: it shows images to its models, and has a window of 32,768 tokens.
providers:
  local:
    type: openai_compatible
    base_url: http://127.0.0.1:9000/v1
    capabilities: {images: true, max_context_window: 32768}""",
    "models.NAME": """\
models:
  qwen3: {provider: gpu, model: Qwen/Qwen3-32B, parsing_format: think_tags, request_defaults: {temperature: 0.6}}
  "gpt-*": {provider: openai} # the name is sent unchanged""",
    "models.NAME.upstreams[]": """\
models:
  qwen3:
    upstreams:
      - {provider: gpu-a, weight: 2}
      - {provider: gpu-b}
      - {provider: openrouter, model: qwen/qwen3-32b, tier: 1}""",
    "models.NAME.routing": """\
models:
  qwen3: {upstreams: [{provider: gpu-a}, {provider: gpu-b}], routing: {attempts: 2}}""",
    "metrics": """\
metrics: {listen: "127.0.0.1:9464"}""",
    "tracing": 'tracing: {endpoint: "http://127.0.0.1:4318", sample: 0.05, slow_s: 30}',
    "routing": """\
routing: {wait_s: 1, eject_s: 10, reply_headers: false}""",
    "models.NAME.tools": """\
tools:
  mcp:
    servers:
      tickets: {url: "https://mcp.example.com/mcp"}
models:
  helpdesk: {provider: gpu, model: Qwen/Qwen3-32B, tools: {mcp: [tickets]}}""",
    "models.NAME.tools.file_search": """\
models:
  helpdesk: {provider: gpu, model: Qwen/Qwen3-32B, tools: {file_search: {vector_store_ids: [vs_handbook]}}}""",
    "families.NAME": """\
families:
  acme: {patterns: ["acme-*"], parsing_format: think_tags, tool_parser: hermes}""",
}
"""Path of a section -> a part of a configuration that is valid by itself, or names a provider of the reader."""
