"""What each field of a request of the Responses API means, with an example, and what the response says of it.

It is for /openapi.json and for the page /docs.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from translation.representation.json_types import Json


class FieldDoc(NamedTuple):
    """In the texts, code stands between backquotes."""

    meaning: str
    example: Any
    reply: str = "The response has the same value."
    """What the response contains because of the field."""


_NOTHING: Final = "Nothing."

FIELD_DOCS: Final[Mapping[str, FieldDoc]] = {
    "model": FieldDoc("The name of a model, as `GET /v1/models` lists it.", "demo"),
    "input": FieldDoc(
        "The message to the model, or a list of items: messages, calls, outputs of calls.",
        [{"role": "user", "content": "What is 3 + 4?"}],
        "`output` has the items of the answer. The input itself is at `/v1/responses/{response_id}/input_items`.",
    ),
    "access_programs": FieldDoc("Programs by which OpenAI grants access to models.", {}, _NOTHING),
    "background": FieldDoc(
        "Whether the response is made without the client: it is `queued` at once, and is fetched later.",
        True,
        "`background`, and `status` until the response has ended.",
    ),
    "client_metadata": FieldDoc(
        "Texts by which a client marks its requests for the upstream.", {"origin": "cli"}, _NOTHING
    ),
    "context_management": FieldDoc(
        "How a long context is shortened: beyond `compact_threshold` tokens its older part is summarized.",
        [{"type": "compaction", "compact_threshold": 100000}],
        "A summary is an item of type `compaction` in `output`.",
    ),
    "conversation": FieldDoc(
        "The conversation that the response continues and extends. It excludes `previous_response_id`.",
        "conv_01a2",
        "`conversation` with its `id`.",
    ),
    "frequency_penalty": FieldDoc("Makes words rarer the more often they occurred, from -2 to 2.", 0.5),
    "image": FieldDoc("What models that generate images do with them. An extension.", {"size": "1024x1024"}, _NOTHING),
    "include": FieldDoc(
        "Further parts of the output, such as log probabilities or sealed reasoning. `gateway.report`, an extension, "
        "says what tools did.",
        ["reasoning.encrypted_content"],
        "The parts are in the items of `output`.",
    ),
    "instructions": FieldDoc(
        "A message of the system for this response alone. A later response does not inherit it.", "Answer in one word."
    ),
    "logit_bias": FieldDoc(
        "Token ids and how much more likely each becomes, from -100 to 100.", {"50256": -100}, _NOTHING
    ),
    "max_output_tokens": FieldDoc(
        "The most tokens of thinking and answer together.",
        200,
        "The same value. A response that reached it is `incomplete`, with the reason `max_output_tokens`.",
    ),
    "max_tool_calls": FieldDoc("The most calls of tools that are run for this response.", 4),
    "metadata": FieldDoc("Up to 16 texts of the client, each with a name.", {"ticket": "4711"}),
    "moderation": FieldDoc("Whether OpenAI examines input and output.", {"model": "omni-moderation-latest"}, _NOTHING),
    "parallel_tool_calls": FieldDoc("Whether the model may call several tools at once.", False),
    "presence_penalty": FieldDoc("Makes words that occurred rarer, from -2 to 2.", 0.5),
    "previous_response_id": FieldDoc(
        "The response that this one continues. Its input and output precede the new input.", "resp_01a2"
    ),
    "prompt": FieldDoc(
        "A stored prompt (`/v1/prompts`), with the values of its variables.",
        {"id": "pmpt_1", "variables": {"city": "Paris"}},
    ),
    "prompt_cache_key": FieldDoc(
        "Marks requests that begin alike, so that the upstream serves them where it has cached them.", "agent-7"
    ),
    "prompt_cache_options": FieldDoc("How the upstream caches the prompt.", {"mode": "implicit"}),
    "prompt_cache_retention": FieldDoc("How long the upstream caches the prompt.", "24h"),
    "reasoning": FieldDoc(
        "How much the model thinks: an `effort`, or `max_tokens` for an exact budget, which is an extension.",
        {"effort": "low"},
        "The same value, and `usage.output_tokens_details.reasoning_tokens`. Thinking is an item of type `reasoning`.",
    ),
    "resumable": FieldDoc(
        "Whether the stream goes on without its client and can be read again. An extension.",
        True,
        "`GET /v1/responses/{response_id}?stream=true&starting_after=N` replays the stream.",
    ),
    "safety_identifier": FieldDoc("A stable mark of the end user, without personal data.", "user-5f3c"),
    "seed": FieldDoc("Makes the same request sample the same answer, if the upstream can. An extension.", 7, _NOTHING),
    "service_tier": FieldDoc(
        "The priority of the request at the upstream.", "auto", "The tier that served the request."
    ),
    "stop": FieldDoc("Texts at which the answer ends. An extension.", ["END"], _NOTHING),
    "store": FieldDoc("Whether the response is stored, so that it can be fetched and continued.", False),
    "stream": FieldDoc(
        "Whether the reply is a stream of events while the model writes.",
        True,
        "Events from `response.created` to `response.completed`, `response.incomplete` or `response.failed`.",
    ),
    "stream_options": FieldDoc(
        "`include_obfuscation: false` leaves out the padding of deltas.", {"include_obfuscation": False}, _NOTHING
    ),
    "temperature": FieldDoc("How freely words are chosen, from 0 to 2.", 0.2),
    "text": FieldDoc(
        "The form of the answer: text, or JSON that follows a schema; and how detailed it is.",
        {"format": {"type": "json_schema", "name": "sum", "schema": {"type": "object"}}},
    ),
    "thinking": FieldDoc(
        "Whether the model thinks at all, for models that can do without. An extension.", False, _NOTHING
    ),
    "tool_events": FieldDoc(
        "Whether a stream shows the outputs of tools that the gateway runs, as they arrive. An extension.",
        True,
        "Events `gateway.tool_call.*` in the stream.",
    ),
    "elicitation": FieldDoc(
        "Whether the client answers questions that tools ask in the middle of a call. An extension.",
        True,
        "A question is an item of type `mcp_approval_request` in `output`.",
    ),
    "tool_choice": FieldDoc("Whether the model must or may call tools, or which one.", "auto"),
    "tools": FieldDoc(
        "What the model may call: functions of the client, or tools that are run for it, such as MCP servers.",
        [{"type": "mcp", "server_label": "notes"}],
        "Calls are items of `output`: `function_call` for the client to run, `mcp_call` with their results.",
    ),
    "top_logprobs": FieldDoc(
        "How many alternatives of each token are reported, up to 20.", 3, "`logprobs` of the texts, with `include`."
    ),
    "top_p": FieldDoc("The share of likely words to choose from, from 0 to 1.", 0.9),
    "truncation": FieldDoc("With `auto`, the oldest items are left out of a context that is too long.", "auto"),
    "user": FieldDoc("The end user. `safety_identifier` and `prompt_cache_key` replace it.", "user-5f3c"),
}


def describe_fields(schema: Json) -> Json:
    """Returns the JSON schema of a request with what is known of its fields."""
    properties = {
        name: {**field, "description": doc.meaning, "examples": [doc.example], "x-in-reply": doc.reply}
        if (doc := FIELD_DOCS.get(name)) is not None
        else field
        for name, field in schema["properties"].items()
    }
    return {**schema, "properties": properties}
