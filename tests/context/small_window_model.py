"""A model that counts words as tokens, refuses input over its context, and writes summaries."""

from collections.abc import Sequence
from typing import Any

from tests.upstream.builders import chat_text, error_reply
from tests.upstream.script import Exchange, Script

Json = dict[str, Any]


class Reader:
    """Replies "ok", or the next of `answers`; to a request for a summary, `summary`."""

    def __init__(self) -> None:
        self.room = 10_000
        self.summary: Script = chat_text("Ada is 36.", usage=usage(50, 5))
        self.answers: list[Script] = []
        self.bodies: list[Json] = []

    async def __call__(self, exchange: Exchange) -> None:
        body = exchange.request.json
        self.bodies.append(body)
        read = sum(len(text.split()) for _, text in texts_by_role(body))
        await self._answer(body, read)(exchange)

    def _answer(self, body: Json, read: int) -> Script:
        if read > self.room:
            message = f"This model's maximum context length is {self.room} tokens, and the input has {read}."
            return error_reply(400, message, code="context_length_exceeded")
        if asks_for_a_summary(body):
            return self.summary
        return self.answers.pop(0) if self.answers else chat_text("ok", usage=usage(read, 1))

    @property
    def last(self) -> list[tuple[str, str]]:
        """Returns (role, text) of the messages in the last request."""
        return texts_by_role(self.bodies[-1])


def texts_by_role(body: Json) -> list[tuple[str, str]]:
    return [(message["role"], _text(message.get("content"))) for message in body["messages"]]


def asks_for_a_summary(body: Json) -> bool:
    return texts_by_role(body)[-1][1].startswith("Write a summary of the whole conversation")


def usage(read: int, written: int) -> Json:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _text(content: str | Sequence[Json] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return " ".join(part.get("text", f"[{part['type']}]") for part in content)
