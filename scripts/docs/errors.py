"""Renders docs/errors.md from the gateway's error table and the exception trees in module docstrings."""

import re
from collections.abc import Iterator
from types import ModuleType

from gateway import errors as gateway
from gateway.error_replies import ERROR_REPLIES, FAILURE_REPLIES, REJECTION_REPLIES, ErrorReply
from providers import errors as providers
from scripts.docs.markdown import join_blocks, render_table
from translation import errors as translation

_INTRODUCTION = """\
# Errors

Generated from the error table by `make docs`.

Errors of OpenAI's two APIs always have the same four keys. The errors of [Anthropic's](messages.md), [Gemini's](gemini.md) and
[Ollama's](ollama.md) APIs have forms of their own. No error contains FastAPI's `detail`, a stack trace, or an upstream's key or
address. `param` is the dotted path of the invalid field. Every reply has the header `x-request-id`, which the log lines of the
request contain too.

```json
{"error": {"message": "model is required", "type": "invalid_request_error", "param": "model", "code": "missing_required_parameter"}}
```

If a stream fails before the upstream has sent content, the reply is an error status like any other. After the first content the
failure is the stream's last event, with the same code and message. On Responses it is `response.failed`. On Chat Completions it is
a chunk with `finish_reason: "error"` and an `error` object, followed by `data: [DONE]`. A stream that ends without a terminal event
was cut between the gateway and the client.

A message on a [WebSocket](websocket.md) that is not one JSON object as text gets an `error` event with status 400, and the connection stays
open. There `code` is the type if the table has none. Bytes that are no WebSocket frame close the connection, without an event."""  # noqa: E501

_ERRORS = """\
The message contains more detail than the table, except where the table quotes it. `retry-after`, `retry-after-ms` and
`x-should-retry` of an upstream's error are forwarded. A malformed request may have a more specific code than `invalid_value`:
`invalid_type`, `missing_required_parameter`, `previous_response_not_found`, `invalid_encrypted_content` and others."""  # noqa: E501

_REJECTIONS = """\
This table applies to the status of an upstream's refusal if the table above has no row for it. The message is the upstream's own,
without keys and addresses. `param` is the parameter of the client's request; null if the upstream named none, or one that the client did
not send. An error of an upstream with a code of its own has that code beside ours, in `upstream_code`:

```json
{"error": {"message": "...", "type": "invalid_request_error", "param": "tools", "code": "upstream_rejected", "upstream_code": "invalid_schema"}}
```"""  # noqa: E501

_FAILURES = """\
These are failures inside a reply that began successfully, by their code: those that an upstream reports, a reply that its upstream broke off
(`upstream_truncated`), and one whose server was stopped (`interrupted`). Any other code becomes a 502 with that code."""  # noqa: E501

_MEANINGS = re.compile(r"^ +(\w+) {2,}(\S.*?)$", re.MULTILINE)
"""A line of the exception tree in the docstring of a module of exceptions."""


def render_errors() -> str:
    return join_blocks(
        _INTRODUCTION,
        "## Errors of the gateway and its upstreams",
        _ERRORS,
        render_table(["status", "type", "code", "meaning"], _error_rows()),
        "## Refusals of upstreams",
        _REJECTIONS,
        render_table(["upstream's status", "status", "type", "code"], _rejection_rows()),
        "## Failures reported by upstreams",
        _FAILURES,
        render_table(["upstream's code", "status", "type", "code"], _failure_rows()),
    )


def _error_rows() -> Iterator[list[str]]:
    meanings = {**_parse_exception_tree(gateway), **_parse_exception_tree(translation)}
    meanings |= {name: f"upstream: {what}" for name, what in _parse_exception_tree(providers).items()}
    for kind, answer in sorted(ERROR_REPLIES.items(), key=lambda row: row[1].status):
        yield [*_cells(answer), f'"{answer.fixed_message}"' if answer.fixed_message else meanings[kind.__name__]]


def _parse_exception_tree(module: ModuleType) -> dict[str, str]:
    return dict(_MEANINGS.findall(module.__doc__ or ""))


def _rejection_rows() -> Iterator[list[str]]:
    for status, answer in REJECTION_REPLIES.items():
        yield [str(status), *_cells(answer)]
    yield ["any other 4xx", *_cells(REJECTION_REPLIES[400])]
    yield ["anything else", *_cells(ERROR_REPLIES[providers.UpstreamRejected])]


def _failure_rows() -> Iterator[list[str]]:
    for code, answer in FAILURE_REPLIES.items():
        yield [f"`{code}`", *_cells(answer)]


def _cells(answer: ErrorReply) -> list[str]:
    return [str(answer.status), f"`{answer.type}`", f"`{answer.code}`" if answer.code else "none"]
