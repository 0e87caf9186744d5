"""Turns as events, one for every way the Responses API can answer, and the types of the events each becomes."""

from typing import Any, NamedTuple

from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
    Started,
    Usage,
)

Json = dict[str, Any]

LOGPROB = {"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}
CITATION = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2}
SEARCH = {"type": "search", "query": "rain", "queries": ["rain"]}
IMAGE = {"id": "ig_1", "type": "image_generation_call", "status": "in_progress", "result": None}
CODE = {"id": "ci_1", "type": "code_interpreter_call", "status": "in_progress", "container_id": "c", "outputs": None}
MCP = {"id": "mcp_1", "type": "mcp_call", "server_label": "s", "name": "f", "arguments": "", "status": "in_progress"}
MCP_TOOLS = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "s", "tools": []}
USAGE = Usage(input=10, output=5, cache_read=4, cache_write=1, reasoning=2)


def custom_call(item_id: str) -> Json:
    return {"id": item_id, "type": "custom_tool_call", "call_id": "call_1", "name": "sh", "input": ""}


def message(index: int, *texts: str, item_id: str = "msg_1") -> list[Event]:
    return [
        ItemStarted(index, items.new_message(item_id)),
        PartStarted(index, 0, items.new_output_text()),
        *[Delta(index, 0, text) for text in texts],
        PartEnded(index, 0),
        ItemEnded(index),
    ]


class Stream(NamedTuple):
    """`types`: of the events between in_progress and the terminal one, each run of one type once."""

    events: list[Event]
    types: str
    end: str = "completed"
    official: bool = True
    """Whether the official types know all of it."""


_TEXT = "output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done"
_CALL = "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done"
_DONE = Finished("stop", "stop", USAGE)

STREAMS: dict[str, Stream] = {
    "text": Stream([Started("up"), *message(0, "Hello", ", ", 'wörld\n"\\'), _DONE], _TEXT),
    "no items at all": Stream([Started("up"), _DONE], ""),
    "two messages": Stream(
        [Started("up"), *message(0, "a"), *message(1, "b", item_id="msg_2"), _DONE], f"{_TEXT} {_TEXT}"
    ),
    "ids with a percent sign": Stream([Started("up"), *message(0, "100%d", item_id="msg_%b%%"), _DONE], _TEXT),
    "text with logprobs": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_message("msg_1")),
            PartStarted(0, 0, items.new_output_text()),
            Delta(0, 0, 'x"logprobs":[]}', [LOGPROB]),
            Delta(0, 0, "y"),
            PartEnded(0, 0),
            ItemEnded(0),
            _DONE,
        ],
        _TEXT,
    ),
    "text with a citation": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_message("msg_1")),
            PartStarted(0, 0, items.new_output_text()),
            Delta(0, 0, "rain"),
            Annotated(0, 0, CITATION),
            Annotated(0, 0, CITATION),
            PartEnded(0, 0),
            ItemEnded(0),
            _DONE,
        ],
        "output_item.added content_part.added output_text.delta output_text.annotation.added "
        "output_text.done content_part.done output_item.done",
    ),
    "text, then a refusal in the same message": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_message("msg_1")),
            PartStarted(0, 0, items.new_output_text()),
            Delta(0, 0, "Well,"),
            PartEnded(0, 0),
            PartStarted(0, 1, items.new_refusal()),
            Delta(0, 1, "no.", [LOGPROB]),
            PartEnded(0, 1),
            ItemEnded(0),
            _DONE,
        ],
        "output_item.added content_part.added output_text.delta output_text.done content_part.done "
        "content_part.added refusal.delta refusal.done content_part.done output_item.done",
    ),
    "raw reasoning, then text": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_reasoning("rs_1")),
            PartStarted(0, 0, items.new_reasoning_text()),
            Delta(0, 0, "hm"),
            PartEnded(0, 0),
            ItemEnded(0),
            *message(1, "a"),
            _DONE,
        ],
        "output_item.added content_part.added reasoning_text.delta reasoning_text.done content_part.done "
        f"output_item.done {_TEXT}",
    ),
    "summaries and raw reasoning are counted apart": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_reasoning("rs_1")),
            PartStarted(0, 0, items.new_summary_text()),
            Delta(0, 0, "short"),
            PartEnded(0, 0),
            PartStarted(0, 1, items.new_reasoning_text()),
            Delta(0, 1, "long"),
            PartEnded(0, 1),
            PartStarted(0, 2, items.new_summary_text()),
            PartEnded(0, 2),
            ItemEnded(0),
            _DONE,
        ],
        "output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done "
        "reasoning_summary_part.done content_part.added reasoning_text.delta reasoning_text.done content_part.done "
        "reasoning_summary_part.added reasoning_summary_text.done reasoning_summary_part.done output_item.done",
    ),
    "calls may interleave": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_function_call("fc_1", call_id="call_1", name="f")),
            ItemStarted(1, items.new_function_call("fc_2", call_id="call_2", name="g")),
            Delta(1, None, "{}"),
            Delta(0, None, "[]"),
            PartEnded(0, None),
            ItemEnded(0),
            PartEnded(1, None),
            ItemEnded(1),
            Finished("tool_calls", "tool_calls"),
        ],
        "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done "
        "function_call_arguments.done output_item.done",
    ),
    "a call without arguments gets an empty object": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_function_call("fc_1", call_id="call_1", name="f")),
            PartEnded(0, None),
            ItemEnded(0),
            _DONE,
        ],
        _CALL,
    ),
    "a call cut off before its arguments gets none": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_function_call("fc_1", call_id="call_1", name="f")),
            PartEnded(0, None),
            ItemEnded(0, status="incomplete"),
            Finished("length", "length"),
        ],
        "output_item.added function_call_arguments.done output_item.done",
        "incomplete",
    ),
    "a call without deltas is streamed all the same": Stream(
        [
            Started("up"),
            ItemStarted(0, {**items.new_function_call("fc_1", call_id="call_1", name="f"), "arguments": '{"a":1}'}),
            ItemEnded(0),
            _DONE,
        ],
        _CALL,
    ),
    "a call whose end has more than its deltas": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_function_call("fc_1", call_id="call_1", name="f")),
            PartEnded(0, None, {"arguments": '{"a":1}'}),
            ItemEnded(0),
            _DONE,
        ],
        _CALL,
    ),
    "a part whose end says more than its deltas": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_message("msg_1")),
            PartStarted(0, 0, items.new_output_text()),
            Delta(0, 0, "Hel"),
            PartEnded(0, 0, {**items.new_output_text(), "text": "Hello"}),
            ItemEnded(0),
            _DONE,
        ],
        _TEXT,
    ),
    "a custom tool": Stream(
        [
            Started("up"),
            ItemStarted(0, custom_call("ctc_1")),
            Delta(0, None, "ls"),
            PartEnded(0, None),
            ItemEnded(0),
            _DONE,
        ],
        "output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done",
    ),
    "a custom tool without input": Stream(
        [Started("up"), ItemStarted(0, custom_call("ctc_1")), PartEnded(0, None), ItemEnded(0), _DONE],
        "output_item.added custom_tool_call_input.done output_item.done",
    ),
    "a web search": Stream(
        [
            Started("up"),
            ItemStarted(0, {"id": "ws_1", "type": "web_search_call", "status": "in_progress", "action": SEARCH}),
            Progressed(0, "in_progress"),
            Progressed(0, "searching"),
            Progressed(0, "completed"),
            ItemEnded(0, {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": SEARCH}),
            _DONE,
        ],
        "output_item.added web_search_call.in_progress web_search_call.searching web_search_call.completed "
        "output_item.done",
    ),
    "an image": Stream(
        [
            Started("up"),
            ItemStarted(0, IMAGE),
            Progressed(0, "generating"),
            Progressed(0, "partial_image", {"partial_image_b64": "AA==", "partial_image_index": 0}),
            Progressed(0, "completed"),
            ItemEnded(0, {**IMAGE, "status": "completed", "result": "AA=="}),
            _DONE,
        ],
        "output_item.added image_generation_call.generating image_generation_call.partial_image "
        "image_generation_call.completed output_item.done",
    ),
    "a code interpreter": Stream(
        [
            Started("up"),
            ItemStarted(0, {**CODE, "code": ""}),
            Progressed(0, "in_progress"),
            Delta(0, None, "1+1"),
            PartEnded(0, None),
            Progressed(0, "interpreting"),
            Progressed(0, "completed"),
            ItemEnded(0, {**CODE, "code": "1+1", "status": "completed"}),
            _DONE,
        ],
        "output_item.added code_interpreter_call.in_progress code_interpreter_call_code.delta "
        "code_interpreter_call_code.done code_interpreter_call.interpreting code_interpreter_call.completed "
        "output_item.done",
    ),
    "a code interpreter that shows no code": Stream(
        [Started("up"), ItemStarted(0, {**CODE, "code": None}), ItemEnded(0, {**CODE, "code": None}), _DONE],
        "output_item.added output_item.done",
    ),
    "a remote tool list and call": Stream(
        [
            Started("up"),
            ItemStarted(0, MCP_TOOLS),
            Progressed(0, "in_progress"),
            Progressed(0, "completed"),
            ItemEnded(0, MCP_TOOLS),
            ItemStarted(1, MCP),
            Progressed(1, "in_progress"),
            Delta(1, None, "{}"),
            PartEnded(1, None),
            Progressed(1, "completed"),
            ItemEnded(1, {**MCP, "arguments": "{}", "output": "4", "status": "completed"}),
            _DONE,
        ],
        "output_item.added mcp_list_tools.in_progress mcp_list_tools.completed output_item.done "
        "output_item.added mcp_call.in_progress mcp_call_arguments.delta mcp_call_arguments.done mcp_call.completed "
        "output_item.done",
    ),
    "cut off by the token limit": Stream(
        [
            Started("up"),
            ItemStarted(0, items.new_message("msg_1")),
            PartStarted(0, 0, items.new_output_text()),
            Delta(0, 0, "Hel"),
            PartEnded(0, 0),
            ItemEnded(0, status="incomplete"),
            Finished("length", "length", USAGE),
        ],
        _TEXT,
        "incomplete",
    ),
    "stopped by a content filter": Stream(
        [Started("up"), *message(0, "a"), Finished("content_filter", "content_filter")], _TEXT, "incomplete"
    ),
    "failed with everything open": Stream(
        [
            Started("up"),
            *message(0, "a"),
            ItemStarted(1, items.new_message("msg_2")),
            PartStarted(1, 0, items.new_output_text()),
            Delta(1, 0, "Hel"),
            ItemStarted(2, items.new_function_call("fc_1", call_id="call_1", name="f")),
            Delta(2, None, '{"a'),
            ItemStarted(3, {"id": "ws_1", "type": "web_search_call", "status": "in_progress", "action": SEARCH}),
            Failed("upstream_truncated", "the upstream closed before finishing", usage=USAGE),
        ],
        f"{_TEXT} output_item.added content_part.added output_text.delta output_item.added "
        "function_call_arguments.delta output_item.added",
        "failed",
    ),
    "failed before it started": Stream([Failed("rate_limited", "slow down")], "", "failed"),
    "events without a meaning here": Stream(
        [
            Opaque("responses", {"type": "keepalive"}),
            Started("up"),
            Opaque("chat", {"object": "strange"}),
            Opaque("responses", {"type": "response.strange", "sequence_number": 77, "more": 1}),
            ItemStarted(0, items.new_message("msg_1")),
            Opaque("responses", {"type": "response.odd", "item_id": "theirs", "output_index": 9}, 0),
            Opaque("responses", {"type": "response.bare"}, 0),
            PartStarted(0, 0, items.new_output_text()),
            Noted(USAGE),
            PartEnded(0, 0),
            ItemEnded(0),
            _DONE,
        ],
        "strange output_item.added odd bare content_part.added output_text.done content_part.done output_item.done",
        official=False,
    ),
    "unknown kinds of items and parts": Stream(
        [
            Started("up"),
            ItemStarted(0, {"id": "x_1", "type": "acme:thing", "status": "in_progress"}),
            Delta(0, None, "unsaid"),
            PartEnded(0, None),
            ItemEnded(0),
            ItemStarted(1, items.new_message("msg_1")),
            PartStarted(1, 0, {"type": "output_hologram", "format": "x"}),
            Delta(1, 0, "unsaid"),
            PartEnded(1, 0),
            ItemEnded(1),
            _DONE,
        ],
        "output_item.added output_item.done output_item.added content_part.added content_part.done output_item.done",
        official=False,
    ),
}
