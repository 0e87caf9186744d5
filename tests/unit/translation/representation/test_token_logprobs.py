"""Assigns tokens to the texts that contain them."""

from typing import Any

from translation.representation.token_logprobs import TokenLogprobs


def token(text: str, utf8: Any = None) -> dict[str, Any]:
    return {"token": text, "logprob": -0.5, "bytes": list(text.encode()) if utf8 is None else utf8, "top_logprobs": []}


def queue(*entries: dict[str, Any] | str) -> TokenLogprobs:
    tokens = TokenLogprobs()
    tokens.add(token(entry) if isinstance(entry, str) else entry for entry in entries)
    return tokens


def texts(taken: list[dict[str, Any]] | None) -> list[str] | None:
    return None if taken is None else [entry["token"] for entry in taken]


def test_a_token_that_ends_the_turn_belongs_to_no_text() -> None:
    tokens = queue("is", " 7", ".", "<|im_end|>")
    assert texts(tokens.take("is 7")) == ["is", " 7"]
    assert texts(tokens.take(".")) == ["."]


def test_tags_and_trimmed_line_breaks_before_a_text_are_not_its_tokens() -> None:
    assert texts(queue("7.", "</think>", "\n", "\nThe", " answer").take("The answer")) == ["\nThe", " answer"]


def test_text_may_follow_its_tokens() -> None:
    tokens = queue("a", "b")
    tokens.add([token("c")])
    assert texts(tokens.take("ab")) == ["a", "b"]
    assert texts(tokens.take("c")) == ["c"]
    assert tokens.take("d") is None


def test_a_token_of_two_texts_belongs_to_the_first() -> None:
    tokens = queue("a<b", "c")
    assert texts(tokens.take("a")) == ["a<b"]
    assert tokens.take("<") is None
    assert texts(tokens.take("bc")) == ["c"]


def test_parts_of_a_character_belong_to_it() -> None:
    whole = [token("\ufffd", [0xC3]), token("\ufffd", [0xA9])]
    assert texts(queue("a", *whole, "b").take("é")) == ["\ufffd", "\ufffd"]
    without_bytes = queue("a", token("", []), "é", "b")
    assert texts(without_bytes.take("a")) == ["a"]
    assert texts(without_bytes.take("é")) == ["", "é"]
    assert texts(queue("x", token("", []), "y", "z").take("z")) == ["z"]


def test_tokens_in_another_notation_belong_to_the_next_text() -> None:
    tokens = queue("\u0120the", "\u0120end")
    assert texts(tokens.take(" the end")) == ["\u0120the", "\u0120end"]
    split = queue("ab", "\u0120c")
    assert texts(split.take("a")) == ["ab"]
    assert texts(split.take("b c")) == ["\u0120c"]
    rest = queue("ab")
    assert texts(rest.take("a")) == ["ab"]
    assert rest.take("x") is None


def test_missing_bytes_are_those_of_the_token() -> None:
    tokens = queue(token("é", [300]), token("b", "b"), token("\udc80", [None]))
    assert texts(tokens.take("éb\udc80")) == ["é", "b", "\udc80"]


def test_dropped_tokens_are_not_reported() -> None:
    tokens = queue("a", "b")
    tokens.clear()
    assert tokens.take("a") is None
