"""Every type of input item that the newest openai package knows is understood, or left out as a loss by name."""

import re
from collections.abc import Iterator, Sequence
from types import NoneType
from typing import Annotated, Any, Literal, Required, Union, get_args, get_origin, get_type_hints

import httpx
import pytest
from openai.types.beta.beta_response_input_item_param import BetaResponseInputItemParam
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from typing_extensions import is_typeddict

from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.anthropic import anthropic_text
from tests.upstream.builders import SSE, chat_text, data_frame, either, json_reply, responses_text
from tests.upstream.gemini import last as gemini_last
from tests.upstream.gemini import text as gemini_text
from tests.upstream.ollama import ollama_shown, ollama_text
from tests.upstream.script import Reply

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "Hi"}

OUTPUT_OF = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "multi_agent_call": "multi_agent_call_output",
    "tool_search_call": "tool_search_output",
    "program": "program_output",
    "mcp_approval_request": "mcp_approval_response",
}
"""Type of a call -> the type of its output, which has to follow."""

REFUSED = {
    "item_reference": "it stands for an item that is not stored here",
    "compaction": "only the server that made it can read what it replaces",
}
"""Types that are refused by name although they are known: without what they stand for, the history is another one."""

OF_SERVERS = ("encrypted_content", "file_id")
"""Keys of data that only the server which gave it can read. A sample has none that its server could read."""

IMAGE = "data:image/png;base64,iVBORw0KGgo="


def members_of(union: Any) -> Iterator[Any]:
    if get_origin(union) is Annotated:
        union = get_args(union)[0]
    for member in get_args(union) if get_origin(union) is Union else (union,):
        yield from members_of(member) if get_origin(member) in (Union, Annotated) else (member,)


def sample(hint: Any, key: str, *, full: bool) -> Any:
    """Returns a small value of a type of the package. All texts, and so all ids, are the same."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Required, Annotated):
        return sample(arguments[0], key, full=full)
    if origin is Literal:
        return arguments[0]
    if origin is Union:
        return sample(next(member for member in arguments if member is not NoneType), key, full=full)
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        return {
            name: sample(inner, name, full=full)
            for name, inner in hints.items()
            if (full and name not in OF_SERVERS)
            or get_origin(inner) is Required
            or name in ("type", "image_url", "commands")
        }
    if (isinstance(origin, type) and issubclass(origin, Sequence)) or getattr(origin, "__name__", "") == "Iterable":
        return [sample(arguments[0], key, full=full)]
    if hint in (int, float, bool):
        return hint(1)
    if hint is str:
        return IMAGE if key.endswith("_url") else "{}" if key == "arguments" else "x"
    return {}


def type_of(member: Any) -> str:
    return str(sample(get_type_hints(member, include_extras=True).get("type", Literal["message"]), "type", full=True))


def inputs_of(union: Any, *, full: bool) -> Iterator[tuple[str, list[Json]]]:
    """Yields each type of item with an input that has one, between two messages of the user."""
    items = {}
    for member in members_of(union):
        items[member.__name__] = (type_of(member), sample(member, "", full=full))
    by_type = dict(items.values())
    calls = {output: call for call, output in OUTPUT_OF.items()}
    for kind, item in items.values():
        before = (
            [by_type[calls[kind]]] if kind in calls and ("call_id" in item or kind != "function_call_output") else []
        )
        call_id = {"call_id": "x"} if "call_id" in item else {}
        after = [{**by_type[OUTPUT_OF[kind]], **call_id}] if kind in OUTPUT_OF else []
        yield kind, [USER, *before, item, *after, *([] if kind == "compaction_trigger" else [USER])]


UPSTREAMS: dict[str, tuple[str, Any]] = {
    "chat": ("openai_compatible", chat_text("Hello")),
    "anthropic": ("anthropic", anthropic_text("Hello")),
    "gemini": (
        "gemini",
        either(
            Reply(headers=SSE, body=[data_frame(gemini_last(gemini_text("Hello")))]),
            json_reply(gemini_last(gemini_text("Hello"))),
        ),
    ),
    "ollama": ("ollama", ollama_text("Hello")),
    "responses": ("openai_compatible", responses_text("Hello")),
}


@pytest.mark.parametrize("union", [ResponseInputItemParam, BetaResponseInputItemParam], ids=["stable", "beta"])
@pytest.mark.parametrize("upstream_name", UPSTREAMS)
async def test_every_type_of_item_is_understood_or_a_loss_by_name(upstream_name: str, union: Any) -> None:
    kind, answer = UPSTREAMS[upstream_name]
    async with ScriptedUpstream() as upstream:
        upstream.script(answer)
        upstream.on("/api/show", ollama_shown("completion", "tools", "vision"))
        provider: Json = {"type": kind, "base_url": upstream.url, "retries": 0}
        if kind == "ollama":
            provider["base_url"] = upstream.url.removesuffix("/v1")
        else:
            provider["api_key"] = "k"
        if upstream_name == "responses":
            provider["dialects"] = ["responses"]
        config = {"providers": {"p": provider}, "models": {"m": {"provider": "p", "model": "gemini-2.5-pro"}}}
        with serving(config) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                seen = set()
                for full in (False, True):
                    for item_type, items in inputs_of(union, full=full):
                        seen.add(item_type)
                        body = {"model": "m", "store": False, "input": items}
                        reply = await client.post("/v1/responses", json=body)
                        if item_type in REFUSED and upstream_name != "responses":
                            assert reply.status_code == 400, (item_type, reply.text)
                            assert reply.json()["error"]["param"].startswith("input[1]"), item_type
                            continue
                        assert reply.status_code == 200, (item_type, items, reply.text)
                        losses = reply.headers.get("x-gateway-loss", "")
                        reported = f"={item_type} left out" in losses or f"={item_type} dropped" in losses
                        sent = upstream.requests[-1].content.decode()
                        # All texts of a sample are "x", in the request itself, or in the JSON of arguments.
                        is_sent = f'"{item_type}"' in sent or re.search(r"""(\\n|[\\'" ])x[\\'"]""", sent) is not None
                        assert reported or is_sent or item_type == "compaction_trigger", (item_type, sent)
                assert len(seen) >= 30


AGENT_MESSAGE: Json = {
    "type": "agent_message",
    "author": "root",
    "recipient": "helper",
    "content": [{"type": "input_text", "text": "Count the files."}],
}
OUTPUT: Json = {"type": "function_call_output", "name": "wait", "output": "All done."}
CALL: Json = {"type": "function_call", "call_id": "c1", "name": "wait", "arguments": "{}"}
SECRET: Json = {"type": "encrypted_content", "encrypted_content": "gAAAA"}

READ: dict[str, tuple[list[Json], list[str], str]] = {
    "a message of an agent": ([AGENT_MESSAGE], ["'root'", "'helper'", "Count the files."], ""),
    "a message that is partly encrypted": (
        [{**AGENT_MESSAGE, "content": [SECRET, *AGENT_MESSAGE["content"]]}],
        ["Count the files."],
        "input[1].content=encrypted_content left out",
    ),
    "a message that is encrypted": (
        [{**AGENT_MESSAGE, "content": [SECRET]}],
        [],
        "input[1].content=encrypted_content left out",
    ),
    "an output by the name of its tool": ([CALL, OUTPUT], ["All done.", '"tool_call_id":"c1"'], ""),
    "an output without a call": ([OUTPUT], ["Output of the tool 'wait':", "All done."], ""),
    "an output without any name": (
        [{"type": "function_call_output", "output": "All done."}],
        ["Output of a tool:"],
        "",
    ),
    "an output of several parts": (
        [{**OUTPUT, "output": [{"type": "input_text", "text": "All done."}]}],
        ["All done."],
        "",
    ),
    "an output of the only open call": ([CALL, {**OUTPUT, "name": None}], ['"tool_call_id":"c1"'], ""),
    "outputs in another order": (
        [CALL, {**CALL, "call_id": "c2", "name": "other"}, {**OUTPUT, "call_id": "c2"}, OUTPUT],
        ['"tool_call_id":"c1"', '"tool_call_id":"c2"'],
        "",
    ),
}


@pytest.mark.parametrize(("items", "texts", "loss"), READ.values(), ids=READ)
async def test_the_model_reads_what_agents_sent(items: list[Json], texts: list[str], loss: str) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.script(chat_text("Hello"))
        provider = {"type": "openai_compatible", "base_url": upstream.url}
        with serving({"providers": {"p": provider}, "models": {"m": {"provider": "p"}}}) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                body = {"model": "m", "store": False, "input": [USER, *items, USER]}
                reply = await client.post("/v1/responses", json=body)
    assert reply.status_code == 200, reply.text
    sent = upstream.requests[-1].content.decode()
    for text in texts:
        assert text in sent
    assert reply.headers.get("x-gateway-loss", "") == loss
