"""Renders docs/dialects.md from the tables of the translators."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

from providers.config import EMBEDDED_TYPES, PROVIDER_DEFAULTS
from providers.profiles import PROFILES
from scripts.docs.markdown import join_blocks, render_code, render_table
from scripts.docs.parameters import (
    render_chat_parameters,
    render_gemini_parameters,
    render_messages_parameters,
    render_ollama_parameters,
    render_responses_parameters,
)
from translation.chat.reasoning import REASONING_TEXT_FIELDS
from translation.chat.reply_objects import FINISH_REASONS, REPLY_FIELDS
from translation.gemini.upstream.decode import FINISH_REASONS as GEMINI_REASONS
from translation.messages.upstream.decode import STOP_REASONS
from translation.ollama.upstream.decode import FINISH_REASONS as OLLAMA_REASONS
from translation.representation.events import FinishReason
from translation.representation.items import TEXT_FIELDS
from translation.representation.profile import Profile
from translation.tools.kinds import CLIENT_TOOL_KINDS as TOOL_KINDS

_INTRODUCTION = """\
# Dialects

Generated from the translators' own tables by `make docs`.

A dialect is a wire format. Three dialects exist for clients and upstreams: Chat Completions (`chat`), Responses (`responses`) and
Messages (`messages`). If the upstream has the dialect of the request, the gateway relays the request and its reply. Then values that the
gateway does not know, such as other types of parts or numbers beyond OpenAI's ranges, are the upstream's to judge. Otherwise it
translates both: it lifts the request to a turn and lowers the turn to the upstream's dialect. Then it decodes the reply to events and
encodes the events in the client's dialect. Requests to upstreams with an API of their own are always translated, and so are
requests of clients of the [Gemini](gemini.md) and [Ollama](ollama.md) APIs."""  # noqa: E501

_PARAMETERS = """\
The tables show the effect of each translated parameter, by type of upstream and the dialect of the upstream's request:

- `same`: the upstream gets it under the same name. Any other name in this column is the upstream's name for it.
- `lost`: the upstream does not get it, and `x-gateway-loss` of the reply lists it. With `x-gateway-strict: true` the status is 400.
- `refused`: the status is 400, and the error names the parameter.
- `-`: the gateway uses it itself, and the upstream does not need it.

Keys that none of OpenAI's APIs has are forwarded if the profile lists them. Otherwise they are lost."""  # noqa: E501

_FINAL_VALUES = """\
Some upstreams repeat a text at its end. What such a final value has beyond the deltas is sent as one more delta, to clients of the same
dialect too; without that, clients that add up the deltas would miss it. A final value with another text is a failure, `upstream_garbled`:
nobody could say which of the two is the model's. White space around a text, that beyond ASCII too, makes no difference. Thinking is shown as
it was streamed, and not compared. Arguments of calls may be written in another way, but `1`, `1.0` and `true` are three values, and all digits count.

A text may come only at its end: OpenAI sends short answers without any delta, and other servers send items only in the last event. All of such a
text is sent as a delta then, with the events around it that are missing, and an item that never ended ends before the last event. A final value that is
empty or blank becomes the streamed text. Several items of one `output_index` are told apart by their ids. A streamed text that no item has is a failure.

A final value may be another form of the streamed text: without the thinking that was streamed between tags in it, because the server separates it only
at the end, or in another normal form of Unicode (NFC, NFD). Clients have the streamed text already, so it stands, and the reply reports
`output.final_text=differs from the deltas`: in `losses` at the end of a stream (Gemini: `finishMessage`), in `x-gateway-loss` of a whole reply, and in the log
line (`unreported`). A relayed Responses stream has both texts where the upstream sent them. Nothing is reported where the gateway separates the thinking
itself (`parsing_format`). Of a text with both normal forms, a final value is recognized if a few of many letters differ.

| upstream | final values | compared with the deltas |
| --- | --- | --- |
| `chat` | a whole `message` beside `delta`, in the last chunk or any other | text, refusal and calls; images and citations that no delta had are added |
| `responses` | `….done`, `response.content_part.done`, `response.output_item.done`, `output` of the last event | texts, refusals, arguments and inputs of calls |
| `messages` | the `input` of a call in `content_block_start` | where the reply is translated: the deltas of the call must be the same JSON; everywhere: an input that has ended is a JSON object, unless the message was cut off |
| Gemini | none: each chunk has further parts | |
| Ollama | none: each line has further text | |

Token counts are final values in all of them: each report replaces the one before, and no count becomes smaller."""  # noqa: E501

_TOOLS = """\
Upstreams with the Chat Completions API only support functions. The gateway sends these tools as functions, and converts the calls
back to items of their own kind. It does the same for `custom` tools, whose single argument is a text, and for the tools of a
`namespace`.

The regex or Lark grammar of a `custom` tool is enforced under two conditions. The tool must be called: `tool_choice` names it, or
requires a call of the only tool. And the upstream must be vLLM or llama.cpp, as a server or embedded. The engine then generates only
the input, under the grammar. llama.cpp needs llguidance for this, which the embedded one has; a grammar that it cannot enforce is
refused. In all other cases the grammar is only part of the tool's description, which is the loss `tools[0].format=described`."""  # noqa: E501


def render_dialects() -> str:
    return join_blocks(
        _INTRODUCTION,
        "## Types of upstream",
        render_table(["type", "dialects", "address", "key"], _provider_type_rows()),
        "## Profiles",
        "The profile of each type of upstream. Every field can be set per model, see "
        "[configuration](configuration.md#modelsname).",
        render_table(["field", *(f"`{kind}`" for kind in PROFILES)], _profile_rows()),
        *(f"`{kind}` gets these request fields unchanged: {render_code(sorted(profile.extra_params))}."
          for kind, profile in PROFILES.items() if profile.extra_params),
        "## Streamed text",
        "Items and parts whose text streams, and the events or fields that carry it.",
        render_table(["item", "part", "responses", "chat"], _text_field_rows()),
        "## Final values",
        _FINAL_VALUES,
        "## Finish reasons",
        render_table(["chat upstream", "responses", "chat"], _finish_reason_rows(FINISH_REASONS)),
        render_table(["`anthropic`", "responses", "chat"], _finish_reason_rows(STOP_REASONS)),
        render_table(["`gemini`", "responses", "chat"], _finish_reason_rows(GEMINI_REASONS)),
        render_table(["`ollama`", "responses", "chat"], _finish_reason_rows(OLLAMA_REASONS)),
        "Any other finish reason is a completed response; the reason itself is preserved. If the reply has no content, "
        "it is a failure that names the reason: `upstream_error`.",
        "## Tools that clients run",
        _TOOLS,
        render_table(["tool", "the call comes back as"], _tool_kind_rows()),
        "## Parameters of Chat Completions",
        _PARAMETERS,
        render_chat_parameters(),
        "## Parameters of Responses",
        "The entries have the same meaning as in the table above.",
        render_responses_parameters(),
        "## Parameters of Messages",
        "The entries have the same meaning as in the tables above. Upstreams do not get `mcp_servers` and `thread`:\n"
        "the gateway runs the tools, and keeps the conversation if it has a store ([Messages](messages.md)).",
        render_messages_parameters(),
        "## Parameters of Ollama's chat",
        "The entries have the same meaning as in the tables above. [Ollama](ollama.md) has more about them.",
        render_ollama_parameters(),
        "## Parameters of Gemini",
        "The entries have the same meaning as in the tables above. [Gemini](gemini.md) has more about them.",
        render_gemini_parameters(),
    )  # fmt: skip


def _provider_type_rows() -> Iterator[list[str]]:
    for name, kind in PROVIDER_DEFAULTS.items():
        yield [
            f"`{name}`",
            render_code(kind.dialects) or ("its own" if kind.own_dialect else "none: it has no upstream"),
            f"`{kind.base_url}`" if kind.base_url else "" if name in EMBEDDED_TYPES else "required",
            f"required, usually in `{kind.key_env}`" if kind.key_env else "",
        ]


def _profile_rows() -> Iterator[list[str]]:
    for field in fields(Profile):
        if field.name != "extra_params":
            values = (_render_value(getattr(profile, field.name)) for profile in PROFILES.values())
            yield [
                f"`{field.name}`",
                *(value.lower() if value in ("True", "False") else f"`{value}`" for value in values),
            ]


def _render_value(value: object) -> str:
    return ", ".join(sorted(value)) or "none" if isinstance(value, frozenset | tuple) else str(value)


_CHAT_FIELDS = {
    "content": "`content`",
    "refusal": "`refusal`",
    "reasoning": ", ".join(f"`{field}`" for field in REASONING_TEXT_FIELDS),
    "arguments": "`tool_calls[].function.arguments`",
    "input": "`tool_calls[].custom.input`",
}


def _text_field_rows() -> Iterator[list[str]]:
    for (item, part), text_field in TEXT_FIELDS.items():
        reply_field = REPLY_FIELDS.get((item, part))
        yield [
            f"`{item}`",
            f"`{part}`" if part else "",
            f"`{text_field.event_prefix}.delta`, `.done`",
            _CHAT_FIELDS[reply_field] if reply_field else "not sent",
        ]


_STATUSES = {
    "length": "`incomplete`: `max_output_tokens`",
    "content_filter": "`incomplete`: `content_filter`",
}


def _finish_reason_rows(reasons: Mapping[str, FinishReason]) -> Iterator[list[str]]:
    for name, reason in reasons.items():
        yield [f"`{name}`", _STATUSES.get(reason, "`completed`"), f"`{reason}`"]


def _tool_kind_rows() -> Iterator[list[str]]:
    for name, kind in TOOL_KINDS.items():
        yield [f"`{name}`", f"`{kind.call_type}`"]
