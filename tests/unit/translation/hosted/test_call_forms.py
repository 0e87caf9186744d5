"""The items of hosted calls follow the form of their tool, and no other than MCP is known to the loop."""

from dataclasses import replace
from typing import Final

import orjson
import pytest

from tests.tool_rounds import LoopDriver, call, hosted_tool, text
from translation.hosted.call_forms import MCP_FORM, CallForm, CallView, PastHostedCall
from translation.hosted.outcomes import ToolOutcome, build_execution_error
from translation.hosted.past_hosted_calls import resolve_history
from translation.hosted.tools import model_name_of
from translation.representation.events import Delta, ItemStarted, PartEnded, Progressed
from translation.representation.json_types import Item, Json


class SearchForm(CallForm):
    item_type = "web_search_call"
    id_prefix = "ws"
    run_phases = ("searching",)

    def build_fields(self, call: CallView) -> Json:
        return {"action": call.outcome.fields["action"]} if call.outcome.fields else {}

    def read_past(self, item: Item) -> PastHostedCall:
        return PastHostedCall("web", "search", orjson.dumps(item["action"]).decode(), "A search took place.")


class CodeForm(CallForm):
    item_type = "code_interpreter_call"
    id_prefix = "ci"
    run_phases = ("interpreting",)
    text_key = "code"

    def build_fields(self, call: CallView) -> Json:
        return {"code": self.read_text(call.arguments), "container_id": "cntr_1", "outputs": None}

    def read_past(self, item: Item) -> PastHostedCall:
        return PastHostedCall("code", "python", orjson.dumps({"code": item["code"]}).decode(), "The code was run.")

    def read_text(self, arguments: str) -> str:
        return str(orjson.loads(arguments)["code"]) if arguments else ""


SEARCH: Final = SearchForm()
ACTION: Final[Json] = {"type": "search", "query": "rain"}
FOUND: Final = ToolOutcome(output="It rains.", fields={"action": ACTION})


def test_a_search_shows_its_phases_and_no_arguments() -> None:
    driver = LoopDriver(hosted_tool("search", "web", prefix="", form=SEARCH))
    driver.run_round(call("search", '{"a": 1}'), outcome=FOUND)
    turn = driver.run_round(text("Wet."))
    driver.finish()
    assert not [event for event in driver.events if isinstance(event, Delta) and event.index == 0]
    assert [event.phase for event in driver.events if isinstance(event, Progressed)] == [
        "in_progress",
        "searching",
        "completed",
    ]
    (started, *_) = [event.item for event in driver.events if isinstance(event, ItemStarted)]
    assert started == {"id": "ws_new_1", "type": "web_search_call", "status": "in_progress"}
    assert driver.output[0] == {"id": "ws_new_1", "type": "web_search_call", "status": "completed", "action": ACTION}
    assert turn.items[-1]["output"] == "It rains.", "the model reads the output, which the item does not have"


def test_a_search_that_failed_has_no_event_of_its_end() -> None:
    driver = LoopDriver(hosted_tool("search", "web", prefix="", form=SEARCH))
    driver.run_round(call("search", '{"a": 1}'), outcome=build_execution_error("search_unavailable"))
    assert [event.phase for event in driver.events if isinstance(event, Progressed)] == ["in_progress", "searching"]
    assert driver.output[0]["status"] == "failed"


def test_code_is_streamed_as_the_text_of_its_item() -> None:
    parameters = {"type": "object", "properties": {"code": {"type": "string"}}}
    driver = LoopDriver(hosted_tool("python", "code", prefix="", form=CodeForm(), parameters=parameters))
    driver.run_round(call("python", '{"code": "1 + 1"}'), outcome="2")
    (delta,) = [event for event in driver.events if isinstance(event, Delta)]
    (ended,) = [event for event in driver.events if isinstance(event, PartEnded)]
    assert (delta.text, ended.part) == ("1 + 1", {"code": "1 + 1"})
    assert (driver.output[0]["code"], driver.output[0]["container_id"]) == ("1 + 1", "cntr_1")


def test_past_items_of_a_form_become_calls_and_other_items_stay() -> None:
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": ACTION}
    resolved = resolve_history([item], model_name_of, forms={"web_search_call": SEARCH})
    assert [each["type"] for each in resolved.items] == ["function_call", "function_call_output"]
    assert resolved.items[1]["output"] == "A search took place."
    assert resolve_history([item], model_name_of).items == [item]


def test_a_journal_has_the_output_beside_an_item_that_does_not_hold_it() -> None:
    item = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": ACTION}
    assert SEARCH.restore_outcome(item, SEARCH.build_journal_media(FOUND)) == ToolOutcome(
        output="It rains.", media=[], fields={"action": ACTION}
    )
    failed = SEARCH.restore_outcome(
        {**item, "status": "failed"}, SEARCH.build_journal_media(build_execution_error("x"))
    )
    assert failed.failed
    assert MCP_FORM.build_journal_media(FOUND) == ()


@pytest.mark.parametrize("outcome", [ToolOutcome(output="5"), build_execution_error("broken")])
def test_a_journal_restores_the_outcome_of_an_mcp_call_from_its_item(outcome: ToolOutcome) -> None:
    image: Json = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    ended = replace(outcome, media=[image])
    item = {"type": "mcp_call", **MCP_FORM.build_fields(CallView("calc", "add", "{}", None, ended))}
    assert MCP_FORM.restore_outcome(item, MCP_FORM.build_journal_media(ended)) == ended
