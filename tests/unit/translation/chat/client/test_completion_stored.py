"""translation/chat/client/completion.py"""

from translation.chat.client.completion import build_stored_message


def test_text_stays_text() -> None:
    message = {"role": "user", "content": "hi", "id": "0"}
    assert build_stored_message(message) == {"role": "user", "content": "hi", "id": "0", "content_parts": None}


def test_parts_are_listed_beside_their_text() -> None:
    text, image = {"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:"}}
    shown = build_stored_message(
        {"role": "user", "content": [text, image, {"type": "file", "file": {}}, text], "id": "0"}
    )
    assert (shown["content"], shown["content_parts"]) == ("aa", [text, image, text])
    assert build_stored_message({"role": "user", "content": [image], "id": "0"})["content"] is None


def test_a_call_without_content_has_null_content() -> None:
    assert build_stored_message({"role": "assistant", "tool_calls": [], "id": "0"})["content"] is None
