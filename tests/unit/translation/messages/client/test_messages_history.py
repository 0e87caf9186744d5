"""Lifts the messages of a request to items."""

from typing import Any

import pytest

from translation.errors import Unrepresentable
from translation.messages.client.messages_history import lift_history
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss


def text(value: str) -> Json:
    return {"type": "input_text", "text": value}


def user(*parts: Json) -> Item:
    return {"type": "message", "role": "user", "content": list(parts)}


def lift_contents(*contents: tuple[str, Any]) -> list[Item]:
    losses: list[Loss] = []
    items = lift_history([{"role": role, "content": content} for role, content in contents], losses)
    assert losses == []
    return items


def lift_blocks(*blocks: Json) -> list[Item]:
    return lift_contents(("user", list(blocks)))


PNG: Json = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
PDF: Json = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}

PARTS: dict[str, tuple[Json, list[Json]]] = {
    "a text": ({"type": "text", "text": "a"}, [text("a")]),
    "an image": (
        {"type": "image", "source": PNG},
        [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}],
    ),
    "an image elsewhere": (
        {"type": "image", "source": {"type": "url", "url": "http://a/b.png"}},
        [{"type": "input_image", "image_url": "http://a/b.png"}],
    ),
    "a document": (
        {"type": "document", "source": PDF, "context": "From the archive."},
        [
            text("From the archive."),
            {"type": "input_file", "file_data": "data:application/pdf;base64,JVBE", "filename": "document.pdf"},
        ],
    ),
    "a document elsewhere": (
        {"type": "document", "source": {"type": "url", "url": "http://a/b.pdf"}},
        [{"type": "input_file", "file_url": "http://a/b.pdf"}],
    ),
    "a document elsewhere with a title": (
        {"type": "document", "source": {"type": "url", "url": "http://a/b.pdf"}, "title": "B"},
        [{"type": "input_file", "file_url": "http://a/b.pdf", "filename": "B"}],
    ),
    "a document of text": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}},
        [text("a")],
    ),
    "a document of text with a title": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}, "title": "A"},
        [text("A:\na")],
    ),
    "a document of blocks": (
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}]}, "title": "A"},
        [text("A:"), text("a")],
    ),
    "a document of blocks that is a string": (
        {"type": "document", "source": {"type": "content", "content": "a"}},
        [text("a")],
    ),
    "a search result": (
        {"type": "search_result", "source": "http://a", "title": "A", "content": [{"type": "text", "text": "b"}]},
        [text("A\nhttp://a\n\nb")],
    ),
}


@pytest.mark.parametrize(("block", "parts"), PARTS.values(), ids=PARTS)
def test_blocks_become_parts(block: Json, parts: list[Json]) -> None:
    assert lift_blocks(block) == [user(*parts)]


def test_citations_are_a_loss() -> None:
    losses: list[Loss] = []
    block = {"type": "document", "source": PDF, "citations": {"enabled": True}}
    lift_history([{"role": "user", "content": [block]}], losses)
    assert losses == [Loss("messages.content.citations", "dropped")]


CITED = {"type": "web_search_result_location", "url": "https://a", "title": "A", "encrypted_index": ""}
ANNOTATION = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 8}

CITATIONS: dict[str, tuple[Any, list[Json], bool]] = {
    "none": (None, [], False),
    "of the gateway": ([{**CITED, "cited_text": "non."}], [{**ANNOTATION, "start_index": 4}], False),
    "of Anthropic": ([{**CITED, "cited_text": "The page's own text."}], [ANNOTATION], False),
    "without a text or a title": ([{**CITED, "title": None}], [{**ANNOTATION, "title": ""}], False),
    "of a search result": (
        [{"type": "search_result_location", "source": "https://a", "title": "A", "cited_text": ""}],
        [ANNOTATION],
        False,
    ),
    "of a document": ([{"type": "char_location", "document_index": 0}, CITED], [ANNOTATION], True),
    "of nothing": (["odd", {"type": "web_search_result_location"}], [], True),
    "no list": ({"enabled": False}, [], False),
}


@pytest.mark.parametrize(("citations", "annotations", "is_lost"), CITATIONS.values(), ids=CITATIONS)
def test_citations_of_an_answer_are_annotations(citations: Any, annotations: list[Json], is_lost: bool) -> None:
    losses: list[Loss] = []
    block = {"type": "text", "text": "Shannon.", "citations": citations}
    [item] = lift_history([{"role": "assistant", "content": [block]}], losses)
    assert item["content"] == [{"type": "output_text", "text": "Shannon.", "annotations": annotations}]
    assert set(losses) == ({Loss("messages.content.citations", "dropped")} if is_lost else set())


@pytest.mark.parametrize(("citations", "is_lost"), [([CITED], True), ([], False), (None, False)], ids=str)
def test_citations_that_a_user_repeats_are_a_loss(citations: Any, is_lost: bool) -> None:
    losses: list[Loss] = []
    block = {"type": "text", "text": "Shannon.", "citations": citations}
    assert lift_history([{"role": "user", "content": [block]}], losses) == [user(text("Shannon."))]
    assert bool(losses) is is_lost


def test_unsupported_blocks_are_refused_by_name() -> None:
    with pytest.raises(Unrepresentable, match="no content blocks of type 'container_upload'") as refused:
        lift_blocks({"type": "text", "text": "a"}, {"type": "container_upload", "file_id": "f"})
    assert refused.value.param == "messages[0].content[1]"


def test_files_are_named_by_their_ids() -> None:
    source = {"type": "file", "file_id": "f"}
    (message,) = lift_blocks(
        {"type": "image", "source": source},
        {"type": "document", "source": source},
        {"type": "document", "source": source, "title": "a.txt"},
    )
    assert message["content"] == [
        {"type": "input_image", "file_id": "f"},
        {"type": "input_file", "file_id": "f"},
        {"type": "input_file", "file_id": "f", "filename": "a.txt"},
    ]


def result(content: Any = None, **more: Any) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": "t1", **more}
    return block if content is None else {**block, "content": content}


def output(value: Any, **more: Any) -> Item:
    return {"type": "function_call_output", "call_id": "t1", "output": value, **more}


RESULTS: dict[str, tuple[Json, Item]] = {
    "text": (result("done"), output("done")),
    "nothing": (result(), output("")),
    "texts": (result([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), output("a\nb")),
    "a tool that was found": (
        result([{"type": "tool_reference", "tool_name": "f"}]),
        output("The tool f is available."),
    ),
    "an image": (
        result([{"type": "text", "text": "a"}, {"type": "image", "source": PNG}]),
        output([text("a"), {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]),
    ),
    "a failure": (result("no such file", is_error=True), output("Error: no such file", status="failed")),
    "a marked failure": (
        result("<tool_use_error>no</tool_use_error>", is_error=True),
        output("<tool_use_error>no</tool_use_error>", status="failed"),
    ),
    "a failure with an image": (
        result([{"type": "image", "source": PNG}], is_error=True),
        output([text("Error: "), {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}], status="failed"),
    ),
}


@pytest.mark.parametrize(("block", "item"), RESULTS.values(), ids=RESULTS)
def test_results_become_outputs(block: Json, item: Item) -> None:
    assert lift_blocks(block) == [item]


def test_text_around_results_keeps_its_place() -> None:
    a, b = {"type": "text", "text": "a"}, {"type": "text", "text": "b"}
    assert lift_blocks(a, result("done"), b) == [user(text("a")), output("done"), user(text("b"))]


def test_blocks_of_the_model_become_items_in_order() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "redacted_thinking", "data": "signature.sealed 2"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
        {"type": "redacted_thinking", "data": "call.signature"},
    ]
    assert lift_contents(("assistant", blocks)) == [
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm."}],
            "encrypted_content": "sig",
        },
        {"type": "reasoning", "summary": [], "encrypted_content": "sealed"},
        {"type": "reasoning", "summary": [], "encrypted_content": "sealed 2"},
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "output_text", "text": "b", "annotations": []},
            ],
        },
        {
            "type": "function_call",
            "call_id": "t1",
            "name": "f",
            "arguments": '{"x":1}',
            "encrypted_content": "signature",
        },
    ]


def test_thinking_may_be_empty_and_unsigned() -> None:
    assert lift_contents(("assistant", [{"type": "thinking", "thinking": "", "signature": ""}])) == [
        {"type": "reasoning", "summary": []}
    ]


def test_a_carrier_without_its_call_is_ignored() -> None:
    assert lift_contents(("assistant", [{"type": "redacted_thinking", "data": "call.signature"}])) == []
    blocks = [{"type": "text", "text": "a"}, {"type": "redacted_thinking", "data": "call.signature"}]
    assert [item["type"] for item in lift_contents(("assistant", blocks))] == ["message"]


USE: Json = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
PAGE: Json = {"type": "web_search_result", "url": "http://a", "title": "A", "encrypted_content": ""}
RESULT: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [PAGE]}


def search(status: str = "completed", **more: Any) -> Item:
    return {
        "type": "web_search_call",
        "id": "ws_1",
        "status": status,
        "action": {"type": "search", "query": "q"},
        **more,
    }


def test_a_search_is_an_item_with_its_sources() -> None:
    sources = [{"type": "url", "url": "http://a", "title": "A"}]
    found = search(action={"type": "search", "query": "q", "sources": sources})
    assert lift_contents(("assistant", [USE, RESULT])) == [found]
    sealed = {**RESULT, "content": [{**PAGE, "encrypted_content": "sealed"}, PAGE]}
    [item] = lift_contents(("assistant", [USE, sealed]))
    assert item["encrypted_content"] == "sealed"


def test_searches_side_by_side_have_their_own_results() -> None:
    calls = [{**USE, "id": f"srvtoolu_{number}"} for number in (1, 2)]
    results = [{**RESULT, "tool_use_id": f"srvtoolu_{number}", "content": []} for number in (1, 2)]
    items = lift_contents(("assistant", [*calls, *results]))
    assert [(item["id"], item["status"]) for item in items] == [("ws_1", "completed"), ("ws_2", "completed")]


def test_a_search_without_pages_has_its_carrier_behind_it() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    carrier = {"type": "redacted_thinking", "data": "call.sealed"}
    items = lift_contents(("assistant", [USE, {**RESULT, "content": error}, carrier]))
    assert items == [search("failed", error="unavailable", encrypted_content="sealed")]


def test_a_carrier_belongs_to_the_search_whose_result_it_follows() -> None:
    calls = [{**USE, "id": f"srvtoolu_{number}"} for number in (1, 2)]
    results = [{**RESULT, "tool_use_id": f"srvtoolu_{number}", "content": []} for number in (1, 2)]
    carriers = [{"type": "redacted_thinking", "data": f"call.sealed {number}"} for number in (1, 2)]
    items = lift_contents(("assistant", [*calls, results[0], carriers[0], results[1], carriers[1]]))
    assert [item["encrypted_content"] for item in items] == ["sealed 1", "sealed 2"]


def test_a_search_without_a_result_has_failed() -> None:
    assert lift_contents(("assistant", [USE])) == [search("failed")]


def test_a_result_without_its_search_is_a_loss() -> None:
    losses: list[Loss] = []
    blocks = [{**USE, "id": "srvtoolu_2"}, {"type": "text", "text": "a"}, RESULT]
    assert [item["type"] for item in lift_history([{"role": "assistant", "content": blocks}], losses)] == [
        "web_search_call",
        "message",
    ]
    assert losses == [Loss("messages", "web_search_tool_result dropped")]


def test_calls_of_other_tools_of_anthropic_are_a_loss() -> None:
    losses: list[Loss] = []
    call = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {}}
    result = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {}}
    assert lift_history([{"role": "assistant", "content": [call, result]}], losses) == []
    assert losses == [
        Loss("messages", "server_tool_use dropped"),
        Loss("messages", "code_execution_tool_result dropped"),
    ]


SUMMARY = user(text("The conversation before this message was replaced by this summary of it:\n\nBefore."))


@pytest.mark.parametrize("role", ["assistant", "user"])
def test_a_compaction_replaces_everything_before_it(role: str) -> None:
    blocks = [{"type": "text", "text": "old"}, {"type": "compaction", "content": "Before."}]
    items = lift_contents(("user", "older"), (role, [*blocks, {"type": "text", "text": "new"}]), ("user", "newest"))
    assert items[0] == SUMMARY
    assert [item["content"][0]["text"] for item in items[1:]] == ["new", "newest"]


@pytest.mark.parametrize("role", ["assistant", "user"])
def test_a_compaction_that_failed_replaces_nothing(role: str) -> None:
    losses: list[Loss] = []
    failed: Json = {"role": role, "content": [{"type": "compaction", "content": None}]}
    assert lift_history([{"role": "user", "content": "a"}, failed], losses) == [user(text("a"))]
    assert losses == [Loss("messages", "compaction dropped")]


def test_instructions_between_turns_keep_their_place() -> None:
    items = lift_contents(("user", "a"), ("system", "Be brief."), ("assistant", "b"))
    assert items[1] == {"type": "message", "role": "developer", "content": [text("Be brief.")]}
    assert [item["role"] for item in items] == ["user", "developer", "assistant"]


def test_an_instruction_for_one_turn_ends_with_it() -> None:
    reminder = {"role": "system", "content": [{"type": "text", "text": "Be brief."}], "clear_at": "next_user_message"}
    first, second = {"role": "user", "content": "a"}, {"role": "user", "content": "b"}
    losses: list[Loss] = []
    assert len(lift_history([first, reminder], losses)) == 2
    assert len(lift_history([first, reminder, second], losses)) == 2


def test_an_instruction_without_text_is_none() -> None:
    losses: list[Loss] = []
    messages: list[Json] = [
        {"role": "system", "output_config": {"effort": "low"}},
        {"role": "system", "content": [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}}]},
    ]
    assert lift_history(messages, losses) == []
    assert losses == [Loss("messages.output_config", "dropped")]
