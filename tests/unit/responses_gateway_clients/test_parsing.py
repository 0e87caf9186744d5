"""Splits a text into thinking and answer."""

import pytest

from responses_gateway_clients.parsing import ParsingFormat, parse_response


@pytest.mark.parametrize(
    ("text", "thinking", "response"),
    [
        ("<think>a</think>b", "a", "b"),
        ("<think>\na\n</think>\n\nb\n", "a", "b"),
        ("  <think>a</think>b", "a", "b"),
        ("b", "", "b"),
        ("", "", ""),
        ("<think></think>b", "", "b"),
        ("<think>a", "a", ""),
        ("b<think>a", "a", "b"),
        ("a</think>b", "a", "b"),
        ("</think>b", "", "b"),
        ("a</think>b<think>c</think>d", "ac", "bd"),
        ("<think>a</think>b<think>c</think>d", "ac", "bd"),
        ("<think>a<think>b</think>c</think>d", "abc", "d"),
        ("<think><think>a</think>b", "a", "b"),
        ("<think>a<think>b</think>c<think>d</think>e", "abd", "ce"),
        ("<think>a<think>b", "ab", ""),
        ("<think>a</think></think>b", "a", "b"),
        ("<think>a</thinking>b", "a", "b"),
        ("<thinking>a</think>b", "a", "b"),
        ("<thinker>b</thinker>", "", "<thinker>b</thinker>"),
        ("1 < 2 and <b>", "", "1 < 2 and <b>"),
    ],
)
def test_text_between_the_tags_is_thinking(text: str, thinking: str, response: str) -> None:
    assert parse_response(text) == {"response": response, "thinking": thinking}


def test_the_tag_may_be_another() -> None:
    assert parse_response("<plan>a</plan>b", think_tag="plan") == {"response": "b", "thinking": "a"}
    assert parse_response("<plan>a</plan>b")["thinking"] == ""
    assert parse_response("<a.b>a</a.b>b", think_tag="a.b")["thinking"] == "a"


def test_a_direct_response_is_left_alone() -> None:
    text = " <think>a</think>b "
    assert parse_response(text, "direct_response") == {"response": text, "thinking": ""}


def test_an_unknown_format_is_refused() -> None:
    unknown: ParsingFormat = "nonsense"  # type: ignore[assignment]
    with pytest.raises(ValueError, match="nonsense"):
        parse_response("a", unknown)


def test_many_tags_take_linear_time() -> None:
    assert parse_response("<think>" * 100_000 + "a")["thinking"] == "a"
    closed = "<think>" * 100_000 + "a" + "</think>" * 100_000 + "b"
    assert parse_response(closed) == {"response": "b", "thinking": "a"}
