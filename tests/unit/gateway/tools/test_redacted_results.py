"""No part of an outcome keeps a credential."""

from typing import Any, Final

from gateway.tools.redacted_results import ResultRedactor
from translation.hosted.outcomes import ToolOutcome

SECRET: Final = "a-secret-of-the-request"


async def redact(**parts: Any) -> ToolOutcome:
    return await ResultRedactor([SECRET], list).redact_outcome(ToolOutcome(**parts))


async def test_texts_in_the_fields_of_an_item_are_redacted_at_any_depth() -> None:
    sources = [{"type": "url", "url": f"https://x.example/?key={SECRET}", "rank": 1}, None, True]
    outcome = await redact(fields={"action": {"sources": sources}, "query": SECRET})
    clean = [{"type": "url", "url": "https://x.example/?key=[hidden]", "rank": 1}, None, True]
    assert outcome.fields == {"action": {"sources": clean}, "query": "[hidden]"}


async def test_texts_in_media_are_redacted() -> None:
    long_text = "x" * 10_000
    media = [{"type": "input_text", "text": f"{long_text} {SECRET}"}, {"type": "input_image", "image_url": "data:,a"}]
    outcome = await redact(output="so", media=media)
    assert outcome.media == [{"type": "input_text", "text": f"{long_text} [hidden]"}, media[1]]


async def test_what_is_nested_too_deeply_to_be_examined_is_hidden() -> None:
    nested: Any = SECRET
    for _ in range(500):
        nested = [nested]
    outcome = await redact(fields={"action": nested})
    assert SECRET not in str(outcome.fields)
    assert "[hidden]" in str(outcome.fields)


async def test_an_outcome_without_fields_has_none_afterwards() -> None:
    assert (await redact(output="so")).fields is None
