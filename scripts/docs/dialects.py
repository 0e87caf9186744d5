"""docs/dialects.md, from the tables that the translators work by."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

from providers.config import EMBEDDED_TYPES, PROVIDER_DEFAULTS
from providers.profiles import PROFILES
from scripts.docs.markdown import code, page, table
from scripts.docs.parameters import chat_parameters, responses_parameters
from translation.anthropic.decode import STOP_REASONS
from translation.chat.reply_objects import FINISH_REASONS, REPLY_FIELDS
from translation.gemini.decode import FINISH_REASONS as GEMINI_REASONS
from translation.ollama.decode import FINISH_REASONS as OLLAMA_REASONS
from translation.representation.events import FinishReason
from translation.representation.profile import Profile
from translation.representation.text_fields import TEXT_FIELDS
from translation.tools.kinds import CLIENT_TOOL_KINDS as TOOL_KINDS

_INTRODUCTION = """\
# Dialects

Generated from the translators' own tables by `make docs`.

A dialect is a wire format. The gateway speaks two, to clients and to upstreams: Chat Completions (`chat`) and Responses
(`responses`). Where the upstream speaks the dialect of the request, the request is relayed and the reply leaves as it
came. Otherwise the request becomes a turn, which is said in the upstream's dialect, and the reply becomes events, which
are written in the client's. Upstreams with an API of their own, which no client speaks here, are always translated."""

_PARAMETERS = """\
What a parameter becomes when it is translated, by type of upstream and the dialect it is asked in:

- `same`: the upstream gets it under the same name; another name is the upstream's.
- `lost`: the upstream is not told, and the reply says so in `x-gateway-loss`. With `x-gateway-strict: true`, a 400.
- `refused`: a 400 that names the parameter.
- `-`: nothing for an upstream to know.

Keys that neither API has are passed on where the profile lists them, and lost elsewhere."""

_TOOLS = """\
Upstreams that speak chat know functions only. These ride on functions and come back as their own items. So do `custom`
tools, whose one argument is a text, and the tools of a `namespace`."""


def dialects() -> str:
    return page(
        _INTRODUCTION,
        "## Types of upstream",
        table(["type", "dialects", "address", "key"], _kinds()),
        "## Profiles",
        "How each type of upstream is spoken to. Every field can be set per model, see "
        "[configuration](configuration.md#modelsname).",
        table(["field", *(f"`{kind}`" for kind in PROFILES)], _profiles()),
        *(f"`{kind}` is passed these, as they are: {code(sorted(profile.extra_params))}."
          for kind, profile in PROFILES.items() if profile.extra_params),
        "## What a model says",
        "Text of an item, or of a part of it, and what carries it on the wire.",
        table(["item", "part", "responses", "chat"], _channels()),
        "## Why it stopped",
        table(["chat upstream", "responses", "chat"], _reasons(FINISH_REASONS)),
        table(["`anthropic`", "responses", "chat"], _reasons(STOP_REASONS)),
        table(["`gemini`", "responses", "chat"], _reasons(GEMINI_REASONS)),
        table(["`ollama`", "responses", "chat"], _reasons(OLLAMA_REASONS)),
        "Any other word is a completed response; the word itself is kept. Where nothing was said before it, it is a "
        "failure that names the word: `upstream_error`.",
        "## Tools that clients run",
        _TOOLS,
        table(["tool", "comes back as"], _tool_kinds()),
        "## Parameters of Chat Completions",
        _PARAMETERS,
        chat_parameters(),
        "## Parameters of Responses",
        "Read like the table above.",
        responses_parameters(),
    )  # fmt: skip


def _kinds() -> Iterator[list[str]]:
    for name, kind in PROVIDER_DEFAULTS.items():
        yield [
            f"`{name}`",
            code(kind.dialects) or ("its own" if kind.own_dialect else "none: it has no upstream"),
            f"`{kind.base_url}`" if kind.base_url else "" if name in EMBEDDED_TYPES else "required",
            f"required, usually in `{kind.key_env}`" if kind.key_env else "",
        ]


def _profiles() -> Iterator[list[str]]:
    for field in fields(Profile):
        if field.name != "extra_params":
            values = (_value(getattr(profile, field.name)) for profile in PROFILES.values())
            yield [
                f"`{field.name}`",
                *(value.lower() if value in ("True", "False") else f"`{value}`" for value in values),
            ]


def _value(value: object) -> str:
    return ", ".join(sorted(value)) or "none" if isinstance(value, frozenset) else str(value)


_CHAT_FIELDS = {
    "content": "`content`",
    "refusal": "`refusal`",
    "reasoning": "`reasoning_content`, `reasoning`",
    "arguments": "`tool_calls[].function.arguments`",
    "input": "`tool_calls[].custom.input`",
}


def _channels() -> Iterator[list[str]]:
    for (item, part), channel in TEXT_FIELDS.items():
        noun = REPLY_FIELDS.get((item, part))
        yield [
            f"`{item}`",
            f"`{part}`" if part else "",
            f"`{channel.event_prefix}.delta`, `.done`",
            _CHAT_FIELDS[noun] if noun else "not said",
        ]


_STATUSES = {
    "length": "`incomplete`: `max_output_tokens`",
    "content_filter": "`incomplete`: `content_filter`",
}


def _reasons(reasons: Mapping[str, FinishReason]) -> Iterator[list[str]]:
    for word, reason in reasons.items():
        yield [f"`{word}`", _STATUSES.get(reason, "`completed`"), f"`{reason}`"]


def _tool_kinds() -> Iterator[list[str]]:
    for name, kind in TOOL_KINDS.items():
        yield [f"`{name}`", f"`{kind.call_type}`"]
