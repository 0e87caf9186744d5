"""Renders the sections of docs/providers.md about profiles, from the model families, and the checklists."""

from collections.abc import Iterator, Mapping
from typing import Any

from providers.model_families import MODEL_FAMILIES, RawTextFormat
from scripts.docs.markdown import render_table

_PROFILES = """\
A profile holds the facts about a family of models that change how the gateway writes its requests and reads its replies, whichever
server runs the model. The fields of the provider's type come first ([table](dialects.md#profiles)). The fields of the family that
`profile` names override them, and the fields in the model's own configuration override both.

```yaml
models:
  deepseek-chat: {provider: local, profile: deepseek}
  gemini-on-vertex: {provider: vertex_chat, profile: gemini_chat, schema_shims: [no_schema_key]}
```"""  # noqa: E501

_FAMILIES = """\
The name of a well-known model tells the format in which it writes thinking and calls into its text. The table lists the families that
the gateway knows by name. The first pattern that matches decides; it is compared with the name in lower case and without the folders before it:
`Qwen/Qwen3-8B` is `qwen3-8b`. `template` has the fields that follow from the family's chat template, for servers that render it. For an
embedded engine, the name of the model that it loads comes first. `profile` names the family of a model that is called otherwise. The keys of a model override the table, and [`families`](configuration.md#familiesname) changes it:

```yaml
families:
  acme: {patterns: ["acme-*"], parsing_format: think_tags, tool_parser: hermes}
models:
  "*": {provider: vllm}
```

The two columns of formats are only used if the text was not parsed before it reached the gateway. This depends on the provider's type:

| provider | what is used |
| --- | --- |
| `vllm_inprocess` | The whole row: the engine returns raw text. |
| `vllm`, `llama_server`, `llamacpp` with two passes | The parser of calls: the two passes return raw text. |
| `vllm`, `openai_compatible` | Thinking, as `leading_think_tags`. The flags of such a server decide whether it separates thinking, and no endpoint reports them. But text that begins with a think tag was not separated: the gateway does that, in relayed chat completions too. `parsing_format: think_tags` separates it anywhere in the text, and turns off the relay. Calls are parsed by the server, or it refuses tools. If it does neither, set `tool_parser` of the model. |
| `llama_server`, `llamacpp`, `ollama`, `harmony` and hosted services | Nothing: they parse thinking and calls themselves. |

If a family has no parser for raw text, tools are refused with a message, because their calls would become text."""  # noqa: E501

_TRANSFORMS = """\
These are the effects of the fields:

- **Roles**: `developer_role` is the role of developer messages. `system_messages` decides at which positions system messages are allowed. Some chat
  templates accept a system message only at the beginning and refuse others (400, `role 'system' is not supported on this model`): `merge_all`
  moves them to the beginning, which is a loss. It is the default of [families](#families-of-models) with such a template.
- **Prompt caches**: `volatile_lines` are patterns of lines in system prompts that change from request to request. They are moved to
  the [end of the newest message](prefix-cache.md). `removed_lines` are patterns of lines that no model needs. They are left out. `cache_marks` are
  the models of a chat upstream that cache a prompt only up to a mark.
- **Thinking**: `thinking_switch` is how chat turns thinking on and off, and `effort_field` is the field for the effort.
  `thinking_type` sends `thinking: {type: enabled}` or `{type: disabled}`, which the services of DeepSeek, Kimi and GLM read: set it for
  them, because without a switch this object is not sent either, which is a loss. An aggregator such as OpenRouter or LiteLLM behind the type
  `openai_compatible` takes the object `reasoning`: set `effort_field: reasoning` and `thinking_switch: reasoning_enabled`, which are the
  defaults of the type `openrouter`. The effort `none` uses the switch too. The reply to a
  request that turns thinking off begins with the answer, whatever `think_open` says. If only an effort says it, which some servers ignore,
  the first tag decides.
  `thinking_form` is both for upstreams with an API of their own. `parsing_format: think_tags` separates thinking from the text, and
  `leading_think_tags` does so only at its beginning. With `think_open: true` the text starts inside thinking, because the chat template
  wrote the opening tag. If `think_open` is not set, `think_tags` holds text back up to the first tag, because text before a closing tag
  is thinking. `direct_response` leaves the text as it is: `raw_text_field` is the parameter that makes a server such as
  llama.cpp, which separates thinking itself, leave it in the text too. `reasoning_part` is the type of part that carries it in a reasoning item, unless the request has
  `reasoning.summary`.
- **Reasoning** is read from `reasoning_content`, `reasoning` and the fields in `reasoning_fields`. It is sent back in the field that
  `replay_reasoning` names, or in the first of `reasoning_fields`. `empty_reasoning: true` adds that field to a chat message with
  calls even if it is empty, for APIs that refuse the message without it.
- **Signatures**: a past call can lack its signature, because another model made it or a client dropped it. It is sent to Gemini with
  the placeholder that Gemini's documentation names. `call_signatures` says for which models: those whose names imply it (`by_model`),
  all (`placeholder`), or none. Behind a chat API `by_model` adds none.
- **Ids** of past items are sent to a Responses upstream for reasoning only, which OpenAI requires. `replay_ids: keep` sends all known
  ids, `drop` sends none. On a relay this also applies to items as clients sent them.
- **Schemas** of tools are changed by `schema_shims`: `no_empty_required` removes an empty `required`, `no_schema_key` removes
  `$schema`, `signed_formats` replaces `uint8` and `uint16` by `int32`, `uint32` and `uint64` by `int64`. They apply to nested schemas
  too. `array_items` adds `items` to arrays without it, for OpenAI and OpenRouter. `plain_patterns` removes patterns with classes such as
  `\\p{L}`, which Anthropic refuses, and which is a loss. `no_descriptions` removes the descriptions of functions, which is a loss.
- **Parallel calls**: `parallel_tool_calls` is the value for requests that have tools and do not set it.
- **Forced calls**: `forced_tool: alone` sends only the tool that must be called, for servers that ignore its name. If a call is
  required, the format of the answer (`response_format`, `text.format`) is left out, which is a loss: such servers would give the whole
  reply the format, and make no call.
- **Media** in tool outputs stay there with `media_in_tool_messages: true`. Otherwise they move to a user message after it, which is a
  loss.
- **Histories** of relayed Messages requests are mended with `relayed_history: repair`, and with `by_model` for a Claude, for
  [Anthropic's API](messages.md#upstreams-with-the-same-api). With `keep` they are sent as they are.
- **Bound thinking**: `block_binding: true` asks [Anthropic](#anthropic) to drop past thinking before which something has changed.
- **Citations** of the files of a request are requested with `cite_documents: true`, for [Anthropic](#anthropic).
- **Length**: `max_tokens_field` is chat's name for the limit of an answer.
- **Calls as text**: `text_tool_calls` describes tools in the prompt and parses calls from the text, for servers without tool support.
- **Further fields** that an upstream accepts are listed in `extra_params` and forwarded unchanged.
- **Refused fields** of chat requests are listed in `refused_params` and left out, which is a loss: `refused_params: [prompt_cache_key]` for Codex on Groq or Cerebras,
  which answer this field with status 400 or 422.
- **Default values** for request fields are in the model's `request_defaults`: `temperature`, or OpenRouter's routing,
  `request_defaults: {provider: {order: [deepinfra]}}`. A request of OpenAI's APIs may say whether the model thinks,
  by a switch (`thinking`, `reasoning.enabled`, or `enable_thinking` or `thinking` in `chat_template_kwargs`), or else by an effort or a
  budget. Then it gets the defaults that say the same, but no default effort or budget beside one of its own: `thinking: true` is added to the
  effort `high`, and not to `none`. The default switches of a template follow the client: with `none`, `chat_template_kwargs: {thinking: true}`
  becomes `{thinking: false}`."""  # noqa: E501

_ADD_PROVIDER = """\
- [ ] If it has the Chat Completions or Responses API: a name in `ProviderType` and rows in `PROVIDER_DEFAULTS`, `CAPABILITIES`,
      `BUILDERS` and `PROFILES`. If it has an API of its own, add a dialect first.
- [ ] Only capabilities that you have seen work.
- [ ] Rows in the contract suite and in the fault routes.
- [ ] Recorded streams, without keys, and the events they decode to.
- [ ] A section on this page about its particular behaviour, and `make docs`.

[CONTRIBUTING](../CONTRIBUTING.md#add-a-provider) names the files."""  # noqa: E501

_ADD_PROFILE = """\
- [ ] If existing fields describe the family: a row in `MODEL_FAMILIES` (`providers/model_families.py`) with the reason, which the tables
      above show. Nothing else is needed.
- [ ] If they do not: a field in `Profile` (`translation/representation/profile.py`) whose default changes nothing. The key of
      the configuration and its description follow from it. Add the key to `config.example.yaml`.
- [ ] The transformation itself, as a pure function, in the dialect's `lower` and in its relayed request; in `translation/hygiene/` if
      every dialect needs it. None of them contains a vendor's name.
- [ ] A test of the transformation, with the field on and off, and one on the relay.
- [ ] A `Loss` for everything that is dropped.
- [ ] A sentence in the list above (`scripts/docs/profiles.py`), and `make docs`."""  # noqa: E501


def render_profile_sections() -> list[str]:
    return [
        "## Profiles",
        _PROFILES,
        render_table(["`profile`", "reason", "sets"], _family_rows()),
        _TRANSFORMS,
        "## Families of models",
        _FAMILIES,
        render_table(["family", "names", "`parsing_format`", "`tool_parser`", "template", "note"], _text_rows()),
        "## Add a provider",
        _ADD_PROVIDER,
        "## Add a profile",
        _ADD_PROFILE,
    ]


def _family_rows() -> Iterator[list[str]]:
    for name, family in MODEL_FAMILIES.items():
        if not family.fields:
            continue
        yield [f"`{name}`", family.reason, _render_fields(family.fields)]


def _text_rows() -> Iterator[list[str]]:
    for name, family in MODEL_FAMILIES.items():
        if not family.patterns:
            continue
        parsing_format, parser = ("", "") if family.text is None else _render_formats(family.text)
        patterns = ", ".join(f"`{pattern}`" for pattern in family.patterns)
        yield [f"`{name}`", patterns, parsing_format, parser, _render_fields(family.template), family.reason]


def _render_formats(text: RawTextFormat) -> tuple[str, str]:
    vllm_parser = f"`vllm:{text.vllm_parser}` on `vllm_inprocess`" if text.vllm_parser else None
    parser = f"`{text.tool_parser}`" if text.tool_parser != "openai" else vllm_parser or "none"
    return f"`{text.parsing_format}`", parser


def _render_fields(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"`{field}: {_render_value(value)}`" for field, value in fields.items())


def _render_value(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"[{', '.join(sorted(value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
