"""The fields of the log line of a request as a table. docs/operations.md has it too, made from these rows."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class LogField(NamedTuple):
    """One field."""

    meaning: str
    when: str
    """Which lines have it."""
    unit: str = ""


_ALWAYS: Final = "always"
_ASKED: Final = "an upstream was asked"
_FAILED: Final = "the request failed"
_REFUSED_KEY: Final = "the key was refused"

LOG_FIELDS: Final[Mapping[str, LogField]] = {
    "message": LogField("`request`; `turn` over a WebSocket; `job` for the run of a background response", _ALWAYS),
    "timestamp": LogField("when the request ended, in UTC", _ALWAYS),
    "level": LogField("`warning` for a status from 500 on, or a failure of an upstream; else `info`", _ALWAYS),
    "method": LogField("the method, or `WEBSOCKET` for the connection itself", "`request`"),
    "path": LogField("the path without its query, up to 200 characters", "`request`"),
    "status": LogField("the status of the reply. 0: none was begun. 499: the client left, or cancelled a job", _ALWAYS),
    "ms": LogField("the time until the last byte", _ALWAYS, "ms"),
    "request_id": LogField("the id of the request, which the client gets as `x-request-id`", "`request`, `turn`"),
    "trace_id": LogField("the id of its [trace](traces.md)", "`tracing` is configured"),
    "response": LogField("the id of the response, which its upstream gets as `x-request-id`", "`job`"),
    "client": LogField(
        "the name of the key, or `anonymous` without keys; of a job the owner", "the request was authenticated"
    ),
    "model": LogField("the name that the client requested", "the request is for a model"),
    "provider": LogField("the upstream that was asked last: the one that answered", "the request is for a model"),
    "attempts": LogField("the attempts at upstreams, those of all rounds of hosted tools together", _ASKED),
    "tried": LogField(
        "each attempt in order: `upstream`, `result` as in [routing](routing.md), and `ms`",
        "there were several attempts",
    ),
    "affinity": LogField(
        "what chose the upstream: `prompt_cache_key`, `session`, `header`, `conversation`, `chain` or `prefix`",
        "the name has several upstreams, and the request has such a key",
    ),
    "retry_budget": LogField(
        "`empty`: the failure was not repeated, because too many others were", "the model had no repetitions left"
    ),
    "queue_ms": LogField("the wait for a free upstream", "all upstreams of the name were full", "ms"),
    "first_content_ms": LogField("the time until the first text, reasoning or call", "streams with content", "ms"),
    "overhead_ms": LogField("`ms` without the times at upstreams and in the queue", _ASKED, "ms"),
    "upstream_request_id": LogField(
        "the id in the upstream's own log: that of the last request to it, also as `x-upstream-request-id`",
        "the upstream sends one",
    ),
    "served_by": LogField("the server behind the upstream that replied", "a router of inference pools names it"),
    "upstream_model": LogField(
        "the upstream's name of the model that answered",
        "the upstream [chooses it](providers.md#models-that-openrouter-chooses)",
    ),
    "input_tokens": LogField("the tokens of the prompt", "the upstream reports them", "tokens"),
    "output_tokens": LogField("the tokens of the reply, with its reasoning", "the upstream reports them", "tokens"),
    "cached_tokens": LogField(
        "the tokens of the prompt from the upstream's [prefix cache](prefix-cache.md)",
        "the upstream reports them",
        "tokens",
    ),
    "cached_share": LogField("`cached_tokens` divided by `input_tokens`", "the upstream reports both", "0 to 1"),
    "reasoning_tokens": LogField("the tokens of the reasoning", "the upstream reports them", "tokens"),
    "impossible_tokens": LogField(
        "what the upstream reported as counts and cannot be counts, such as -5 or a text. Such a count is left out, or "
        "0 in APIs that require one; relayed replies have it as it came",
        "there are some",
        "key -> text",
    ),
    "losses": LogField(
        "what the request lost, as in [`x-gateway-loss`](dialects.md), up to 50 names", "something was lost"
    ),
    "unreported": LogField(
        "what the reply lacks: requested parameters that it has no result for, and output (`output.TYPE`) that the "
        "client's API has no form for, that nobody requested, or that [differs at its end](dialects.md#final-values)",
        "it lacks something",
    ),
    "tool_warnings": LogField("the tool calls with a warning", "there are any", "calls"),
    "error": LogField("the error code that the client received", _FAILED),
    "error_status": LogField("the status of that error, even if a stream had begun with status 200", _FAILED),
    "limit": LogField("the configuration key of the limit", "a limit of the gateway refused the request"),
    "upstream_failed": LogField("`true`", "an upstream failed"),
    "upstream": LogField("the address of the upstream", "an upstream failed"),
    "upstream_status": LogField("the status of its reply", "the upstream replied with an error"),
    "cause": LogField("the network error", "an upstream could not be reached, or broke off"),
    "tools": LogField(
        "what [hosted tools](tools.md#what-tools-have-done) did: for each the `calls`, those that `failed`, and their "
        "`ms`, `bytes` and `results`; also those that were `skipped`, or whose results were `cut` or `redacted`",
        "the gateway ran a tool",
        "tool -> numbers",
    ),
    "file_id": LogField("the id of the [file](files.md)", "the request is about a file"),
    "file_bytes": LogField("its size", "a file was uploaded or downloaded", "bytes"),
    "vector_store_id": LogField(
        "the id of the [vector store](file-search.md)", "a store was made, changed or searched"
    ),
    "attached_files": LogField("the files that were attached to it", "files were attached", "files"),
    "results": LogField("the chunks that were found", "a vector store was searched", "chunks"),
    "address": LogField("the client's address", _REFUSED_KEY),
    "forwarded_for": LogField(
        "what a proxy says of the client", "the key was refused, and a proxy sent `x-forwarded-for`"
    ),
    "key_hint": LogField(
        "the length of the key, with its last four characters if it has 20 or more; or the name of an expired one",
        _REFUSED_KEY,
    ),
}
"""The fields of the line by their names, in the order of the page."""
