"""The value of an enumeration in a model's reply."""

import pytest

from translation.gemini_endpoint.enum_replies import unwrap_enum

REPLIES = {
    "an object with the value": ('{"value": "a b"}', "a b"),
    "an object without it": ('{"other": "a"}', '{"other": "a"}'),
    "a value that is no text": ('{"value": 3}', '{"value": 3}'),
    "a reply that was cut off": ('{"value": "a', '{"value": "a'),
    "a plain text": ("I cannot do that.", "I cannot do that."),
    "another JSON value": ("[1]", "[1]"),
}


@pytest.mark.parametrize(("text", "value"), REPLIES.values(), ids=REPLIES)
def test_a_reply_is_the_value_or_what_the_model_said(text: str, value: str) -> None:
    assert unwrap_enum(text) == value
