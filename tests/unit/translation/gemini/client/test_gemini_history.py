"""Contents of Gemini's API as items: calls, their results, thoughts, media, code."""

from base64 import b64decode, urlsafe_b64encode
from typing import Any

import pytest

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.client.gemini_history import lift_contents
from translation.gemini.client.signatures import Signature, pack_signature, unpack_signature
from translation.representation.loss import Loss

Json = dict[str, Any]


def user(*parts: Json) -> Json:
    return {"role": "user", "parts": [*parts]}


def model(*parts: Json) -> Json:
    return {"role": "model", "parts": [*parts]}


def call(name: str = "f", **more: Any) -> Json:
    return {"functionCall": {"name": name, **more}}


def response(name: str = "f", result: Json | None = None, **more: Any) -> Json:
    return {"functionResponse": {"name": name, "response": {"output": "done"} if result is None else result, **more}}


def lift(*contents: Json) -> list[Json]:
    losses: list[Loss] = []
    items = lift_contents(contents, losses)
    assert losses == []
    return items


def message(role: str, *texts: str) -> Json:
    kind = {"user": "input_text", "assistant": "output_text"}[role]
    more: Json = {"annotations": []} if role == "assistant" else {}
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text, **more} for text in texts]}


def test_texts_of_a_user_stay_apart_and_those_of_the_model_are_one_answer() -> None:
    contents = (user({"text": "a"}, {"text": "b"}), model({"text": "He"}), model({"text": "llo"}, {"text": ""}))
    assert lift(*contents, {"parts": [{"text": "c"}]}) == [
        message("user", "a", "b"),
        message("assistant", "Hello"),
        message("user", "c"),
    ]


def test_calls_and_results_belong_together_by_id_or_by_name_and_order() -> None:
    items = lift(
        model(call("f", id="1"), call("g", id="g__2"), call("f")),
        {"role": "function", "parts": [response("g", id="g__2"), response("f"), response("f", id="unknown")]},
    )
    assert [(item["type"], item["call_id"]) for item in items] == [
        ("function_call", "1"),
        ("function_call", "2"),
        ("function_call", "call_2"),
        ("function_call_output", "2"),
        ("function_call_output", "1"),
        ("function_call_output", "call_2"),
    ]


def test_a_result_that_is_repeated_with_its_id_is_one_result() -> None:
    """Gemini CLI sends every result of a resumed session twice."""
    first, second = (response(id=f"f__{number}", result={"output": number}) for number in "12")
    items = lift(model(call(id="1"), call(id="2")), user(first, first, second), user(first, {"text": "go on"}))
    outputs = [(item["call_id"], item["output"]) for item in items if item["type"] == "function_call_output"]
    assert outputs == [("1", "1"), ("2", "2")]
    assert items[-1] == message("user", "go on")


RESULTS: dict[str, tuple[Json, str, str | None]] = {
    "an output": ({"output": "done"}, "done", None),
    "a result that is no text": ({"result": [1]}, "[1]", None),
    "an object": ({"a": 1, "output": 2}, '{"a":1,"output":2}', None),
    "nothing": ({}, "{}", None),
    "a failure": ({"error": "no"}, '{"error":"no"}', "failed"),
    "a failure with words": ({"error": {"code": 0}, "output": 1}, '{"error":{"code":0},"output":1}', "failed"),
    "no error": ({"rows": [1], "error": None}, '{"rows":[1],"error":null}', None),
    "an error without words": ({"rows": [1], "error": ""}, '{"rows":[1],"error":""}', None),
    "no error, as a truth value": ({"error": False}, '{"error":false}', None),
}


@pytest.mark.parametrize(("result", "output", "status"), RESULTS.values(), ids=RESULTS)
def test_the_result_of_a_function_is_text(result: Json, output: str, status: str | None) -> None:
    item = lift(model(call(args={"a": 1})), user(response(result=result)))[1]
    assert (item["output"], item.get("status")) == (output, status)


def test_the_media_of_a_result_are_parts_and_words_beside_it_follow() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "A-_A"}}
    items = lift(model(call()), user({"text": "Look:"}, response(parts=[image]), {"text": "So?"}))
    assert [item["type"] for item in items] == ["function_call", "message", "function_call_output", "message"]
    assert items[2]["output"] == [
        {"type": "input_text", "text": "done"},
        {"type": "input_image", "image_url": "data:image/png;base64,A+/A"},
    ]


NAMED: dict[str, tuple[Json, list[Json]]] = {
    "an image": (
        {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": 'a"b.png'}},
        [
            {"type": "input_text", "text": '{"$ref":"a\\"b.png"} is:'},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        ],
    ),
    "an image on the web": (
        {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/b", "displayName": "b"}},
        [
            {"type": "input_text", "text": '{"$ref":"b"} is:'},
            {"type": "input_image", "image_url": "https://a.example/b"},
        ],
    ),
    "a recording": (
        {"inlineData": {"mimeType": "audio/wav", "data": "AAAA", "displayName": "c"}},
        [
            {"type": "input_text", "text": '{"$ref":"c"} is:'},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        ],
    ),
    "a file, which has its name": (
        {"inlineData": {"mimeType": "text/plain", "data": "AAAA", "displayName": "a.txt"}},
        [{"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,AAAA"}],
    ),
}


@pytest.mark.parametrize(("part", "lifted"), NAMED.values(), ids=NAMED)
def test_the_name_of_a_medium_to_which_a_result_refers_reaches_the_model(part: Json, lifted: list[Json]) -> None:
    losses: list[Loss] = []
    result = {"output": {"it": {"$ref": "the name"}}}
    output = lift_contents([model(call()), user(response(result=result, parts=[part]))], losses)[1]["output"]
    assert output == [{"type": "input_text", "text": '{"it":{"$ref":"the name"}}'}, *lifted]
    assert losses == []


def test_the_name_of_an_image_to_which_nothing_refers_is_a_loss() -> None:
    losses: list[Loss] = []
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "a"}}
    remote = {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/b", "displayName": "b"}}
    assert [part["type"] for part in lift_contents([user(image, remote)], losses)[0]["content"]] == ["input_image"] * 2
    assert [str(loss) for loss in losses] == [
        "contents[0].parts[0].inlineData.displayName=dropped",
        "contents[0].parts[1].fileData.displayName=dropped",
    ]


MEDIA: dict[str, tuple[Json, Json]] = {
    "a recording": (
        {"inlineData": {"mimeType": "audio/mpeg", "data": "AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
    ),
    "a paper": (
        {"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}},
        {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,AAAA"},
    ),
    "a text with a name": (
        {"inlineData": {"mimeType": "text/plain", "data": "AAAA", "displayName": "a.txt"}},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,AAAA"},
    ),
    "an image on the web": (
        {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/b"}},
        {"type": "input_image", "image_url": "https://a.example/b"},
    ),
    "a paper on the web": (
        {"fileData": {"fileUri": "https://a.example/b.pdf", "displayName": "b.pdf"}},
        {"type": "input_file", "file_url": "https://a.example/b.pdf", "filename": "b.pdf"},
    ),
    "a file without a name": (
        {"fileData": {"fileUri": "https://a.example/b"}},
        {"type": "input_file", "file_url": "https://a.example/b"},
    ),
}


@pytest.mark.parametrize(("part", "lifted"), MEDIA.values(), ids=MEDIA)
def test_media_are_parts(part: Json, lifted: Json) -> None:
    assert lift(user(part))[0]["content"] == [lifted]


def test_an_image_of_the_model_is_shown_to_it_with_the_next_message() -> None:
    losses: list[Loss] = []
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "AA=="}
    lifted = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    contents = [model({"text": "Look."}, image, call()), user(response(), {"text": "Bluer."}), user({"text": "?"})]
    items = lift_contents(contents, losses)
    assert [item["type"] for item in items] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
        "message",
    ]
    assert items[3]["content"] == [lifted, {"type": "input_text", "text": "Bluer."}]
    assert [str(loss) for loss in losses] == ["contents[0].parts[1].inlineData=as the user's"]
    assert lift_contents([model(call(), image), user(response())], [])[2]["content"] == [lifted]


def test_an_image_among_the_thoughts_is_a_loss() -> None:
    losses: list[Loss] = []
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True}
    items = lift_contents([model(image, {"text": "So."}), user({"text": "And?"})], losses)
    assert [item["role"] for item in items] == ["assistant", "user"]
    assert [str(loss) for loss in losses] == ["contents[0].parts[0].thought=dropped"]


def test_an_image_that_ends_the_contents_is_a_loss() -> None:
    losses: list[Loss] = []
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    items = lift_contents([user({"text": "Draw."}), model({"text": "So:"}, image)], losses)
    assert [item["role"] for item in items] == ["user", "assistant"]
    assert [str(loss) for loss in losses] == ["contents[1].parts[1].inlineData=dropped"]


def test_hints_about_media_are_losses_and_a_signature_of_a_user_is_nothing() -> None:
    losses: list[Loss] = []
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "mediaResolution": {}, "videoMetadata": {}}
    silent = response(scheduling="SILENT")
    assert len(lift_contents([user(image, {"thoughtSignature": "AA=="}), model(call()), user(silent)], losses)) == 3
    assert [str(loss) for loss in losses] == [
        "contents[0].parts[0].mediaResolution=dropped",
        "contents[0].parts[0].videoMetadata=dropped",
        "contents[2].parts[0].functionResponse.scheduling=dropped",
    ]


def test_code_that_google_ran_is_text() -> None:
    losses: list[Loss] = []
    code = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    items = lift_contents([model(code, result, {"text": "Two."}), user(result, {"codeExecutionResult": {}})], losses)
    assert items[0]["content"][0]["text"] == "\n```python\n1+1\n```\n\n```\n2\n```\nTwo."
    assert [part["text"] for part in items[1]["content"]] == ["\n```\n2\n```\n", "\n```\n\n```\n"]
    assert {loss.effect for loss in losses} == {"as text"}
    assert losses[0].param == "contents[0].parts[0].executableCode"


def test_thoughts_are_items_before_the_later_items() -> None:
    items = lift(
        model({"text": "Hm", "thought": True}, {"text": ".", "thought": True}, {"text": "Hi"}), user({"text": "a"})
    )
    assert items[0] == {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }
    assert [item["type"] for item in items] == ["reasoning", "message", "message"]
    assert [item["type"] for item in lift(model({"text": "Hm", "thought": True}))] == ["reasoning"]


def test_seals_are_restored_in_their_places() -> None:
    signature = pack_signature(Signature(["one", "two"], "mine"))
    assert signature is not None
    as_sdks_send_it = urlsafe_b64encode(b64decode(signature)).decode().rstrip("=")
    thought = {"text": "Hm.", "thought": True}
    items = lift(
        model({"text": "So"}, thought, {**call(id="1"), "thoughtSignature": as_sdks_send_it}), user(response(id="1"))
    )
    assert items[1:4] == [
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm."}],
            "encrypted_content": "one",
        },
        {"type": "reasoning", "summary": [], "encrypted_content": "two"},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}", "encrypted_content": "mine"},
    ]
    ended = lift(model({"text": "So"}, {"thoughtSignature": signature}, {"text": "on"}))
    assert [item["type"] for item in ended] == ["message", "reasoning", "reasoning", "message"]


@pytest.mark.parametrize("text", [None, "", "skip_thought_signature_validator", "é", "AA", "cmdzMQp0_w=="])
def test_signatures_of_other_servers_carry_nothing(text: str | None) -> None:
    assert unpack_signature(text) == Signature()


def test_without_data_there_is_no_signature() -> None:
    assert pack_signature(Signature()) is None


REFUSED: dict[str, tuple[list[Json], str]] = {
    "two results of one call": (
        [model(call(id="1"), call(id="2")), user(response(id="1"), response(id="1", result={"output": "other"}))],
        "contents[1].parts[1].functionResponse",
    ),
    "a result without its call": ([user(response())], "contents[0].parts[0].functionResponse"),
    "a call without its result": ([model(call()), user({"text": "a"})], "contents[0].parts[0].functionCall"),
    "a call of a user": ([user(call())], "contents[0].parts[0].functionCall"),
    "a result that goes on": (
        [model(call()), user(response(willContinue=True))],
        "contents[1].parts[0].functionResponse",
    ),
    "a recording of the model": (
        [model({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}})],
        "contents[0].parts[0].inlineData",
    ),
    "a file of Google's": ([user({"fileData": {"fileUri": "gs://a/b"}})], "contents[0].parts[0].fileData.fileUri"),
}


@pytest.mark.parametrize(("contents", "param"), REFUSED.values(), ids=REFUSED)
def test_unsupported_history_is_refused_by_name(contents: list[Json], param: str) -> None:
    with pytest.raises((InvalidRequest, Unrepresentable)) as refused:
        lift_contents(contents, [])
    assert refused.value.param == param
