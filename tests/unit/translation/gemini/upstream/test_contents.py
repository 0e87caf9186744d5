"""translation/gemini/upstream/contents.py, details.py and results.py"""

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.support.items import message
from tests.unit.translation.gemini.items import call, called, model, output, reasoning, returned, signed, user
from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.upstream.contents import lower_items
from translation.gemini.upstream.families import family_of
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import Turn

SKIP = "skip_thought_signature_validator"
HI = message("user", "Hi")
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}
PIXELS = {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}


def lowered(
    items: list[Item], profile: Profile = DEFAULT_PROFILE, name: str = "gemini-2.5-flash"
) -> tuple[str, list[Json], list[str]]:
    losses: list[Loss] = []
    system, contents = lower_items(Turn(name, items), profile, family_of(name), losses)
    return system, contents, list(map(str, losses))


def image(**more: Any) -> Item:
    return {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "QUJD", **more}


CASES: dict[str, tuple[list[Item], list[Json]]] = {
    "a question and an answer": ([HI, message("assistant", "Hel", "lo")], [user("Hi"), model("Hello")]),
    "an answer without words": ([HI, message("assistant", "")], [user("Hi")]),
    "a question without words": ([HI, message("user")], [user("Hi")]),
    "a call and what it returned": (
        [HI, call("x", '{"a":1}'), output("x")],
        [user("Hi"), model(called("x", a=1)), user(returned("x"))],
    ),
    "parallel calls are one content, and so is what they returned": (
        [HI, message("assistant", "Let me see."), call("x"), call("y", name="g"), output("y"), output("x")],
        [
            user("Hi"),
            model("Let me see.", called("x"), called("y", name="g")),
            user(returned("y", name="g"), returned("x")),
        ],
    ),
    "steps are contents of their own": (
        [HI, call("x"), output("x"), call("y"), output("y")],
        [user("Hi"), model(called("x")), user(returned("x")), model(called("y")), user(returned("y"))],
    ),
    "questions in a row": ([HI, message("user", "Are you there?")], [user("Hi", "Are you there?")]),
    "consecutive messages": (
        [HI, message("assistant", "Yes"), message("user"), message("assistant", "?")],
        [user("Hi"), model("Yes", "?")],
    ),
    "images that models made": (
        [HI, message("assistant", "Here:"), image(), image(output_format="webp"), message("user", "Thanks")],
        [
            user("Hi"),
            model("Here:", PIXELS, {"inlineData": {"mimeType": "image/webp", "data": "QUJD"}}),
            user("Thanks"),
        ],
    ),
    "signed images": (
        [
            reasoning("Hm.", signed("image")),
            image(),
            reasoning(None, signed("image")),
            message("user", "Again"),
            image(),
        ],
        [model({"text": "Hm.", "thought": True}, PIXELS | {"thoughtSignature": "s"}), user("Again"), model(PIXELS)],
    ),
    "calls of one id": (
        [call("x"), output("x", "a"), call("x"), output("x", "b")],
        [
            model(called("x")),
            user(returned("x", {"output": "a"})),
            model(called("x")),
            user(returned("x", {"output": "b"})),
        ],
    ),
    "a reported failure": (
        [call("x"), output("x", '{"error": {"code": 7}}')],
        [model(called("x")), user(returned("x", {"error": {"code": 7}}))],
    ),
    "a failure by its status": (
        [call("x"), output("x", "boom", status="incomplete")],
        [model(called("x")), user(returned("x", {"error": "boom"}))],
    ),
    "an error among other things is a result": (
        [call("x"), output("x", '{"error": 1, "b": 2}')],
        [model(called("x")), user(returned("x", {"output": '{"error": 1, "b": 2}'}))],
    ),
    "what begins like JSON": (
        [call("x"), output("x", "{oops")],
        [model(called("x")), user(returned("x", {"output": "{oops"}))],
    ),
    "an output in parts": (
        [call("x"), output("x", [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}])],
        [model(called("x")), user(returned("x", {"output": "a\nb"}))],
    ),
    "thoughts": (
        [reasoning("Hm."), message("assistant", "Yes.")],
        [model({"text": "Hm.", "thought": True}, "Yes.")],
    ),
    "thoughts of another upstream": (
        [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}], "summary": []},
            call("x"),
            output("x"),
        ],
        [model({"text": "Hm.", "thought": True}, called("x")), user(returned("x"))],
    ),
    "a signed call": (
        [reasoning(None, signed("call", call_id="x")), call("x"), call("y"), output("x"), output("y")],
        [model(called("x", "s"), called("y")), user(returned("x"), returned("y"))],
    ),
    "a signed call after thoughts and text": (
        [
            reasoning("Hm."),
            message("assistant", "So:"),
            reasoning(None, signed("call", call_id="x")),
            call("x"),
            output("x"),
        ],
        [model({"text": "Hm.", "thought": True}, "So:", called("x", "s")), user(returned("x"))],
    ),
    "signed text": (
        [message("assistant", "Yes."), reasoning(None, signed("text", empty=False))],
        [model({"text": "Yes.", "thoughtSignature": "s"})],
    ),
    "a signature after the text": (
        [message("assistant", "Yes."), reasoning(None, signed("text", empty=True)), HI],
        [model("Yes.", {"text": "", "thoughtSignature": "s"}), user("Hi")],
    ),
    "text that was signed twice": (
        [message("assistant", "Yes."), reasoning(None, signed("text"), signed("text", "t"))],
        [model({"text": "Yes.", "thoughtSignature": "s"}, {"text": "", "thoughtSignature": "t"})],
    ),
    "a signature before its text, as chat has it": (
        [
            reasoning("Hm.", signed("text", empty=True), signed("call", call_id="x")),
            message("assistant", "Yes."),
            call("x"),
            output("x"),
        ],
        [
            model({"text": "Hm.", "thought": True}, "Yes.", {"text": "", "thoughtSignature": "s"}, called("x", "s")),
            user(returned("x")),
        ],
    ),
    "a signature whose text is empty": (
        [reasoning(None, signed("text", empty=True)), message("assistant", ""), call("x"), output("x")],
        [model(called("x"), {"text": "", "thoughtSignature": "s"}), user(returned("x"))],
    ),
    "a signature without anything": ([reasoning(None, signed("text", empty=True)), HI], [user("Hi")]),
    "signed thoughts": (
        [reasoning("Hm.", signed("thought"), signed("thought", "t")), message("assistant", "Yes.")],
        [
            model(
                {"text": "Hm.", "thought": True, "thoughtSignature": "s"},
                {"text": "", "thought": True, "thoughtSignature": "t"},
                "Yes.",
            )
        ],
    ),
    "details of others": (
        [
            reasoning("Hm.", {"type": "reasoning.text", "signature": "s"}, signed("call"), signed("text", "")),
            message("assistant", "Yes."),
        ],
        [model({"text": "Hm.", "thought": True}, "Yes.")],
    ),
}


@pytest.mark.parametrize(("items", "expected"), CASES.values(), ids=CASES)
def test_items_become_contents(items: list[Item], expected: list[Json]) -> None:
    given = deepcopy(items)
    assert lowered(items) == ("", expected, [])
    assert items == given


def test_leading_system_messages_are_the_instruction() -> None:
    system = [message("system", "a", "b"), message("developer", "c")]
    assert lowered([*system, HI]) == ("a\nb\n\nc", [user("Hi")], [])


PROFILES: dict[str, tuple[Profile, list[Item], tuple[str, list[Json], list[str]]]] = {
    "a late output": (
        DEFAULT_PROFILE,
        [HI, call("x"), message("user", "Still there?"), output("x")],
        (
            "",
            [user("Hi"), model(called("x")), user(returned("x")), user("Still there?")],
            ["input=message not between call and output"],
        ),
    ),
    "a later system message": (
        DEFAULT_PROFILE,
        [HI, message("system", "Be brief.")],
        ("", [user("Hi", "Be brief.")], ["input=system message as user message"]),
    ),
    "a later system message that is hoisted": (
        Profile(system_messages="merge_all"),
        [HI, message("system", "Be brief.")],
        ("Be brief.", [user("Hi")], ["input=system messages merged"]),
    ),
    "developers as users": (
        Profile(developer_role="user"),
        [message("developer", "Be brief."), HI],
        ("", [user("Be brief.", "Hi")], []),
    ),
    "thoughts in tags": (
        Profile(replay_reasoning="think_tags"),
        [reasoning("Hm."), message("assistant", "Yes.")],
        ("", [model("<think>\nHm.\n</think>\n\n", "Yes.")], []),
    ),
    "thoughts that are not sent back": (
        Profile(replay_reasoning="none"),
        [reasoning("Hm."), message("assistant", "Yes.")],
        ("", [model("Yes.")], ["input=reasoning dropped"]),
    ),
    "a thought without a word, whose seal was for another": (
        DEFAULT_PROFILE,
        [{"type": "reasoning", "summary": []}, message("assistant", "Yes.")],
        ("", [model("Yes.")], ["input=reasoning dropped"]),
    ),
    "what another vendor signed its words with": (
        DEFAULT_PROFILE,
        [
            message("assistant", "Yes."),
            {"type": "reasoning", "summary": [], "details": [{"type": "other.mark", "thought": False}]},
        ],
        ("", [model("Yes.")], []),
    ),
    "details that are none": (
        DEFAULT_PROFILE,
        [{"type": "reasoning", "summary": [], "details": "odd"}, message("assistant", "Yes.")],
        ("", [model("Yes.")], ["input=reasoning dropped"]),
    ),
    "thoughts that a signature holds": (
        Profile(replay_reasoning="none"),
        [reasoning("Hm.", signed("call", call_id="x")), call("x"), output("x")],
        ("", [model(called("x", "s")), user(returned("x"))], []),
    ),
    "thoughts that led to nothing": (
        DEFAULT_PROFILE,
        [reasoning("Hm."), HI],
        ("", [user("Hi")], ["input=reasoning dropped"]),
    ),
    "a refusal": (
        DEFAULT_PROFILE,
        [message("assistant", {"type": "refusal", "refusal": "No."})],
        ("", [model("No.")], ["input=refusal as text"]),
    ),
    "media of an output": (
        DEFAULT_PROFILE,
        [call("x"), output("x", [{"type": "input_text", "text": "see"}, IMAGE])],
        (
            "",
            [
                model(called("x")),
                user(returned("x", {"output": "see"}), "Media from the output of f (x):", PIXELS),
            ],
            ["input=tool media beside the output"],
        ),
    ),
    "media inside an output": (
        Profile(media_in_tool_messages=True),
        [call("x"), output("x", [IMAGE])],
        ("", [model(called("x")), user(returned("x", {"output": ""}, parts=[PIXELS]))], []),
    ),
    "arguments that are no object": (
        DEFAULT_PROFILE,
        [call("x", "oops"), output("x")],
        ("", [model(called("x", raw_arguments="oops")), user(returned("x"))], ["input[0].arguments=wrapped"]),
    ),
    "a search of its own": (
        DEFAULT_PROFILE,
        [{"type": "web_search_call", "id": "ws", "details": [{"type": "gemini.search"}]}, HI],
        ("", [user("Hi")], []),
    ),
    "an image without data": (
        DEFAULT_PROFILE,
        [HI, image(result=None)],
        ("", [user("Hi")], ["input=image_generation_call dropped"]),
    ),
    "a search of another upstream": (
        DEFAULT_PROFILE,
        [{"type": "web_search_call", "id": "ws"}, HI],
        ("", [user("Hi")], ["input=web_search_call dropped"]),
    ),
}


@pytest.mark.parametrize(("profile", "items", "expected"), PROFILES.values(), ids=PROFILES)
def test_unsupported_fields_are_reported(
    profile: Profile, items: list[Item], expected: tuple[str, list[Json], list[str]]
) -> None:
    assert lowered(items, profile) == expected


@pytest.mark.parametrize(
    ("wanted", "name", "signature"),
    [
        ("placeholder", "gemini-2.5-pro", "skip_thought_signature_validator"),
        ("none", "gemini-3-pro-preview", None),
        ("by_model", "gemini-2.5-pro", None),
    ],
)
def test_the_profile_decides_whether_calls_get_a_placeholder(wanted: Any, name: str, signature: str | None) -> None:
    _, contents, _ = lowered([call("x"), output("x")], Profile(call_signatures=wanted), name)
    assert contents[0] == model(called("x", signature))


def test_the_newest_models_get_a_placeholder_for_a_signature_that_is_missing() -> None:
    items = [HI, call("x"), call("y"), output("x"), output("y"), reasoning(None, signed("call", call_id="z"))]
    _, contents, losses = lowered([*items, call("z"), output("z")], name="gemini-3-pro-preview")
    assert contents[1] == model(called("x", SKIP), called("y"))
    assert contents[3] == model(called("z", "s"))
    assert losses == []
    _, contents, _ = lowered([HI, image()], name="gemini-3-pro-image-preview")
    assert contents[1] == model(PIXELS | {"thoughtSignature": SKIP})


REFUSED: dict[str, tuple[list[Item], str, str]] = {
    "a call without its output": ([HI, call("x")], "input[1].call_id", "'x'"),
    "an output without its call": ([output("x")], "input[0].call_id", "'x'"),
    "a last message without parts": (
        [HI, message("assistant", {"type": "output_text", "text": "a"}), message("user")],
        "input[2].content",
        "would continue",
    ),
    "a reference": ([{"type": "item_reference", "id": "msg_1"}], "input[0]", "send the item itself"),
    "an image among the assistant's words": ([message("assistant", IMAGE)], "input[0].content[0]", "input_image"),
}


@pytest.mark.parametrize(("items", "param", "words"), REFUSED.values(), ids=REFUSED)
def test_unsupported_values_are_refused_by_name(items: list[Item], param: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refusal:
        lowered(items)
    assert refusal.value.param == param


@pytest.mark.parametrize("odd", [{"type": "mcp_call"}, {"type": ""}])
def test_items_without_an_equivalent_are_unrepresentable(odd: dict[str, Any]) -> None:
    with pytest.raises(Unrepresentable) as refusal:
        lowered([HI, odd])
    assert refusal.value.param == "input[1]"
