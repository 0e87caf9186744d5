"""Replies with hosted tools in chat: dropped items, reported calls, and paragraphs."""

from collections.abc import Callable, Sequence

import pytest

from gateway.replies.hosted_calls import HostedCallsStage
from tests.tool_rounds import text, whole
from tests.unit.support.chat_replies import accumulate, read_stream
from tests.unit.support.event_grammar import EventGrammar
from tests.unit.support.stream_checks.gemini_order import check_content_stream
from tests.unit.support.translator_drivers import feed_to_end
from tests.unit.translation.gemini.client.test_encode_golden import HEAD, build_error
from translation.chat.client.completion import CompletionCollector
from translation.chat.client.encode import ChatEncoder
from translation.gemini.client.collect import ContentCollector
from translation.gemini.client.encode import GeminiEncoder
from translation.representation.collector import TurnCollector
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
)
from translation.representation.json_types import Item
from translation.representation.loss import Loss

LISTED: Item = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "calc", "tools": []}
CALL: Item = {"id": "mcp_1", "type": "mcp_call", "server_label": "calc", "name": "add", "arguments": "{}"}


def message(content: str) -> Item:
    part = {"type": "output_text", "text": content}
    return {"id": "msg_9", "type": "message", "role": "assistant", "content": [part]}


def call(index: int) -> list[Event]:
    done = ItemEnded(index, {**CALL, "output": "3"})
    return [ItemStarted(index, CALL), Progressed(index, "in_progress"), Delta(index, None, "{}"), done]


def passed(*events: Event, losses: list[Loss] | None = None) -> list[Event]:
    """The events behind the stage, which follow the grammar, fed one at a time."""
    stage = HostedCallsStage(([] if losses is None else losses).append)
    out = [sent for event in events for sent in stage.feed([event])]
    grammar = EventGrammar()
    grammar.check(out)
    grammar.finish()
    return out


def texts(events: Sequence[Event]) -> list[str]:
    collector = TurnCollector()
    collector.feed(events)
    return [item["content"][0]["text"] for item in collector.items]


def test_items_of_hosted_tools_are_left_out_and_the_calls_are_a_fact_at_the_end() -> None:
    listed: list[Event] = [ItemStarted(0, LISTED), Progressed(0, "completed"), ItemEnded(0, LISTED)]
    events = passed(Started("m"), *listed, *call(1), *text("It is 3.")(2), Opaque("x", {}), Finished("stop"))
    assert texts(events) == ["It is 3."]
    assert events[-2] == Noted(facts={"mcp_calls": [{**CALL, "output": "3"}]})


def test_a_reply_that_fails_after_a_call_reports_it() -> None:
    *_, fact, _ = passed(Started("m"), *call(0), Failed("server_error", "broken"))
    assert isinstance(fact, Noted)


def test_without_calls_there_is_no_fact_and_no_gap() -> None:
    events: list[Event] = [Started("m"), *text("a")(0), *text("b")(1), Finished("stop")]
    assert passed(*events) == events


def test_text_after_calls_is_a_paragraph_and_the_first_text_is_not() -> None:
    pieces = [*call(0), *text("a", "b")(1), *call(2), *call(3), *text("", "c", "d")(4), *text("e")(5)]
    assert texts(passed(Started("m"), *pieces, Finished("stop"))) == ["ab", "\n\ncd", "e"]


def thought(index: int, text: str, part_type: str = "reasoning_text") -> list[Event]:
    part = PartStarted(index, 0, {"type": part_type, "text": ""})
    item: Item = {"id": f"rs_{index}", "type": "reasoning", "summary": []}
    return [ItemStarted(index, item), part, Delta(index, 0, text), PartEnded(index, 0), ItemEnded(index)]


def test_texts_of_an_api_with_blocks_have_no_gap() -> None:
    events: list[Event] = [Started("m"), *text("a")(0), *call(1), *text("b")(2), Finished("stop")]
    losses: list[Loss] = []
    stage = HostedCallsStage(losses.append, joins_texts=False)
    assert texts(stage.feed(events)) == ["a", "b"]


def test_reasoning_after_calls_is_a_paragraph_and_summaries_are_in_any_case() -> None:
    pieces = [*thought(0, "a"), *call(1), *thought(2, "b"), *text("c")(3)]
    out = passed(Started("m"), *pieces, Finished("stop"))
    assert [event.text for event in out if isinstance(event, Delta)] == ["a", "\n\nb", "c"]
    pieces = [*thought(0, "a"), *call(1), *thought(2, "b", "summary_text")]
    out = passed(Started("m"), *pieces, Finished("stop"))
    assert [event.text for event in out if isinstance(event, Delta)] == ["a", "b"]


def test_an_upstreams_own_final_objects_have_the_paragraph_too() -> None:
    start, part, delta, *_ = text("b")(2)
    ended: list[Event] = [PartEnded(2, 0, {"type": "output_text", "text": "b"}), ItemEnded(2, message("b"))]
    cited = Annotated(2, 0, {"type": "url_citation"})
    events = passed(Started("m"), *text("a")(0), *call(1), start, part, delta, cited, *ended, Finished("stop"))
    assert texts(events) == ["a", "\n\nb"]
    assert [event.part["text"] for event in events if isinstance(event, PartEnded) and event.part] == ["\n\nb"]


def test_a_message_without_deltas_is_a_paragraph_too() -> None:
    pieces = [*whole(message("a"))(0), *call(1), *whole(message("b"))(2), *call(3), *whole(message(""))(4)]
    assert texts(passed(Started("m"), *pieces, Finished("stop"))) == ["a", "\n\nb", ""]


def test_a_failed_list_is_a_loss_and_an_incomplete_one_is_none() -> None:
    losses: list[Loss] = []
    failed = {**LISTED, "error": "the server cannot be reached"}
    partial = {**LISTED, "tools": [{"name": "add"}], "error": "tools left out: x"}
    passed(Started("m"), *whole(failed)(0), *whole(partial)(1), Finished("stop"), losses=losses)
    assert losses == [Loss("tools", "MCP server calc left out")]


def cited(index: int, content: str, citation: Item) -> list[Event]:
    """The events of a message with a citation, as deltas and as the upstream's final part and item."""
    part = {"type": "output_text", "text": content, "annotations": [citation]}
    return [
        ItemStarted(index, {"id": f"msg_{index}", "type": "message", "role": "assistant", "content": []}),
        PartStarted(index, 0, {"type": "output_text", "text": "", "annotations": []}),
        Delta(index, 0, content),
        Annotated(index, 0, citation),
        PartEnded(index, 0, part),
        ItemEnded(index, {"id": f"msg_{index}", "type": "message", "role": "assistant", "content": [part]}),
    ]


def test_citations_have_positions_in_their_text_with_its_gap() -> None:
    citation = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 1}
    events = passed(Started("m"), *cited(0, "😀b", citation), *call(1), *cited(2, "cd", citation), Finished("stop"))
    contents = texts(events)
    assert contents == ["😀b", "\n\ncd"]
    first, second = [event.annotation for event in events if isinstance(event, Annotated)]
    assert contents[0][first["start_index"] : first["end_index"]] == "😀"
    assert contents[1][second["start_index"] : second["end_index"]] == "c"
    collector = TurnCollector()
    collector.feed(events)
    assert [part["annotations"] for item in collector.items for part in item["content"]] == [[first], [second]]


def cite_in_completion(events: Sequence[Event]) -> list[str]:
    """The places of a completion's content that its citations name."""
    collector = CompletionCollector(completion_id="c", created=1, model="m", reasoning_fields=frozenset())
    collector.feed(events)
    return find_cited(collector.result()["choices"][0]["message"])


def cite_in_chunks(events: Sequence[Event]) -> list[str]:
    """The same of a stream of chunks."""
    encoder = ChatEncoder(completion_id="c", created=1, model="m", reasoning_fields=frozenset(), include_usage=False)
    return find_cited(accumulate(read_stream(feed_to_end(encoder, list(events))))["message"])


def find_cited(message: Item) -> list[str]:
    cited = [each["url_citation"] for each in message["annotations"]]
    return [message["content"][each["start_index"] : each["end_index"]] for each in cited]


def cite_in_content(events: Sequence[Event]) -> list[str]:
    """The places that the grounding of a reply of Gemini's API names, whose offsets are in bytes."""
    collector = ContentCollector(HEAD, thoughts=False)
    collector.feed(events)
    return find_grounded(collector.result())


def cite_in_contents(events: Sequence[Event]) -> list[str]:
    """The same of a stream of replies."""
    encoder = GeminiEncoder(HEAD, form="events", thoughts=False, build_error=build_error)
    return find_grounded(check_content_stream(feed_to_end(encoder, list(events))))


def find_grounded(reply: Item) -> list[str]:
    (candidate,) = reply["candidates"]
    answer = "".join(part["text"] for part in candidate["content"]["parts"]).encode()
    segments = [each["segment"] for each in candidate["groundingMetadata"]["groundingSupports"]]
    found = [answer[each.get("startIndex", 0) : each["endIndex"]].decode() for each in segments]
    assert found == [each["text"] for each in segments]
    return found


JOINED_FORMS = {
    "a completion": cite_in_completion,
    "chunks": cite_in_chunks,
    "a reply of Gemini": cite_in_content,
    "replies of Gemini": cite_in_contents,
}


@pytest.mark.parametrize("form", JOINED_FORMS.values(), ids=JOINED_FORMS)
def test_clients_find_what_is_cited_in_the_joined_text(form: Callable[[Sequence[Event]], list[str]]) -> None:
    citation = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 1}
    events = passed(Started("m"), *cited(0, "😀b", citation), *call(1), *cited(2, "cd", citation), Finished("stop"))
    assert form(events) == ["😀", "c"]
